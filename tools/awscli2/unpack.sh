#!/bin/sh
# Usage: unpack.sh BIN [SUITE]
#
# Unpacks AWS CLI 2, and all that it needs, from the packages of a Debian release into BIN/awscli2, and links BIN/aws2 to it.
# It installs nothing. apt downloads the packages from the mirror that this machine uses for Debian.
set -eu
bin=$(mkdir -p "$1" && cd "$1" && pwd)
suite=${2:-trixie}
say() { echo "awscli2: NOT UNPACKED: $1" >&2; exit 1; }
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || say "there is no apt"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || say "apt has no mirror of Debian (apt-get update?)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/state"
echo "deb $mirror $suite main" > "$work/sources.list"
: > "$work/state/status" # as if nothing was installed, so that apt downloads everything
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State="$work/state" -o Dir::State::lists="$work/lists" \
		-o Dir::State::status="$work/state/status" -o Dir::Cache="$work/cache" -o Debug::NoLocking=1 -o APT::Install-Recommends=false -o APT::Sandbox::User=root "$@"
}
apt update || say "apt update failed"
apt install -y --download-only awscli > /dev/null || say "the packages of $suite cannot be downloaded"

root=$bin/awscli2
rm -rf "$root" "$bin/aws2"
mkdir -p "$root/bin"
for package in "$work"/cache/archives/*.deb; do
	dpkg-deb -x "$package" "$root"
done

# The program runs with the packages' own Python and libraries. Its name, sys.argv[0], is this script's, because the program
# starts itself by that name.
cat > "$root/bin/aws" <<'SCRIPT'
#!/bin/sh
root=$(dirname "$(dirname "$(readlink -f "$0")")")
libraries=$(echo "$root"/usr/lib/*-linux-gnu*)
python=$(echo "$root"/usr/bin/python3.*[0-9])
exec "$(echo "$libraries"/ld-linux-*.so.*)" --argv0 "$python" --library-path "$libraries" "$python" -I -c '
import sys
main, sys.argv[:2] = sys.argv[1] + "/usr/bin/aws", []
exec(compile(open(main).read(), main, "exec"))' "$root" "$0" "$@"
SCRIPT
chmod +x "$root/bin/aws"
ln -s awscli2/bin/aws "$bin/aws2"
"$bin/aws2" --version

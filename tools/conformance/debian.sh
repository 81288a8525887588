#!/bin/sh
# debian.sh DIR: downloads the Debian packages of which the images of the conformance tests consist, and unpacks them in DIR/root (bash, curl,
# dig, ip, nc, nginx and what they need) and DIR/busybox, without installing them. The release is the one that apt is configured for.
set -eu
mkdir -p "$1" && cd "$1"
[ ! -e complete ] || exit 0
rm -rf root busybox debs && mkdir -p root busybox debs
: > status # apt believes that nothing is installed, so that it lists all that is needed
apt-get -qq --print-uris --no-install-recommends -o Dir::State::status="$PWD/status" -o Debug::NoLocking=1 install \
	bash curl netcat-openbsd iproute2 bind9-dnsutils coreutils util-linux grep sed findutils hostname libc-bin iperf nginx-light > uris || {
	echo "conformance: NOT BUILT: apt-get cannot list Debian's packages" >&2
	exit 1
}
cd debs
# shellcheck disable=SC2046
apt-get -qq -o APT::Sandbox::User=root download busybox-static bash-static $(sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p" ../uris) || {
	echo "conformance: NOT BUILT: apt-get cannot download Debian's packages" >&2
	exit 1
}
cd ..
for p in busybox-static bash-static; do
	dpkg -x debs/${p}_*.deb busybox
	rm debs/${p}_*.deb
done
for d in debs/*.deb; do
	dpkg -x "$d" root
done
rm -rf debs root/usr/share/doc root/usr/share/man root/usr/share/locale root/usr/share/info root/usr/share/icu root/usr/share/perl* root/usr/share/bash-completion
touch complete

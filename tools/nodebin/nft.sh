#!/bin/sh
# nft.sh ARCH OUT: writes an archive with nft, which kube-proxy runs, and the libraries and the loader that it needs, so that it
# runs on any machine of that architecture. nft is the installed one, or else Debian's package, which is downloaded and
# unpacked in bin without installing it. NFTROOT names a folder with such packages unpacked, for another architecture.
set -eu
arch=$1 out=$2 top=$(pwd)
root=${NFTROOT:-}
host=$(dpkg --print-architecture 2>/dev/null || uname -m | sed 's/x86_64/amd64/;s/aarch64/arm64/')
if [ -z "$root" ] && [ "$arch" = "$host" ] && command -v nft > /dev/null; then
	nft=$(command -v nft)
elif [ -z "$root" ]; then
	root=$top/bin/nft-$arch
	if [ ! -x "$root/usr/sbin/nft" ]; then
		mkdir -p "$root" && cd "$root"
		for p in nftables libnftables1 libnftnl11 libmnl0 libgmp10 libjansson4 libedit2 libbsd0 libmd0 libtinfo6 libxtables12 libc6; do
			apt-get download "$p:$arch" > /dev/null 2>&1 || apt-get download "${p}t64:$arch" > /dev/null ||
				{ echo "nodebin: NOT BUILT: there is no nft: install nftables, or set NFTROOT to a folder with Debian's packages of it unpacked"; exit 1; }
		done
		for d in *.deb; do dpkg -x "$d" . && rm "$d"; done
		cd "$top"
	fi
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
if [ -z "$root" ]; then
	cp "$nft" "$dir/nft"
	ldd "$nft" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*ld-linux[^ ]*\).*/\1/p' | while read -r lib; do cp -L "$lib" "$dir/"; done
else
	cp "$root/usr/sbin/nft" "$dir/nft"
	for lib in libnftables libnftnl libmnl libgmp libjansson libedit libbsd libmd libtinfo libxtables libc ld-linux; do
		find "$root" \( -name "$lib.so.*" -o -name "$lib-*.so.*" \) | while read -r f; do
			n=$(basename "$f")
			case $n in *.so.*.*) continue ;; esac # the names that programs ask for have one number
			cp -L "$f" "$dir/$n"
		done
	done
fi
mv "$dir"/ld-linux* "$dir/ld.so"
chmod 755 "$dir"/*
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$dir" -cf "$out" .

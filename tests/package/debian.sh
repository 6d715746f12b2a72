#!/bin/sh
# debian.sh BUILD CMAKE CC: cpack makes a Debian package that holds all, asks for no MPI, and whose program runs. With MUSTER_TEST_FULL=1 it is also installed
# in a bare Debian (debootstrap), where at first there is no MPI, and then MPICH, for which muster-mpi-shim compiles a shim; that needs root and a mirror.
set -eu
build=$1 cmake=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
wrong() { echo "$1" >&2; exit 1; }
expect() { # text, words
    case $1 in *"$2"*) ;; *) wrong "expected \"$2\", received: $1" ;; esac
}

"$(dirname "$cmake")/cpack" --config "$build/CPackConfig.cmake" -B "$work/made" >"$work/cpack.txt" 2>&1 || { cat "$work/cpack.txt"; exit 1; }
deb=$(ls "$work"/made/*.deb)
dpkg-deb -x "$deb" "$work/tree"
files=0
for name in bin/muster-mpi-shim bin/muster-info include/muster/muster.h include/muster/muster.hpp include/muster/nodes.h share/muster/mpi/shim.c share/muster/mpi/wire_abi.h \
    share/muster/python/muster_ctypes.py README.md several-machines.md first.c LICENSE libmuster.so libmuster.so.0.1 muster.pc muster-config.cmake \
    muster-targets.cmake $(cd "$build" && ls libmuster-mpi-*.so 2>/dev/null); do
    find "$work/tree/usr" -path "*/$name" | grep -q . || wrong "the package lacks $name"
    files=$((files + 1))
done
[ "$files" -ge 17 ] || wrong "expected at least 17 files, looked for $files"
case $deb in */muster_0.1.0_*.deb) ;; *) wrong "expected muster_0.1.0_ARCHITECTURE.deb, received $deb" ;; esac
depends=$(dpkg-deb -f "$deb" Depends)
expect "$depends" "libc6 (>= 2."
case $depends in *mpi*) wrong "expected no MPI among what it depends on, received $depends" ;; esac
grep -q 'ldconfig' <<-END || wrong "the package does not make the loader find its libraries"
	$(dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./triggers)
	END
first=$(find "$work/tree" -name first.c) libraries=$(dirname "$(find "$work/tree" -name libmuster.so)")
PKG_CONFIG_PATH=$(dirname "$(find "$work/tree" -name muster.pc)") && export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # several words
"$cc" "$first" $(pkg-config --cflags --libs muster) -o "$work/first"
expect "$(LD_LIBRARY_PATH=$libraries MUSTER_NODES=none MUSTER_DEVICES=host:2 "$work/first")" "on 2 devices: 5000"
info=$(find "$work/tree" -name muster-info)
expect "$(MUSTER_BLAS=none "$info")" "no BLAS: MUSTER_BLAS is \"none\"" # it finds the library beside it
[ -n "${MUSTER_TEST_FULL:-}" ] || exit 0

# ---- in a bare Debian ----
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null || ! unshare --mount --pid --fork true 2>/dev/null; then
    echo "a bare Debian needs root, namespaces, and debootstrap"
    exit 77
fi
mirror=${MUSTER_DEBIAN_MIRROR:-http://deb.debian.org/debian}
debootstrap --variant=minbase --include=pkg-config bookworm "$work/room" "$mirror" >"$work/debootstrap.txt" 2>&1 || {
    tail -n 5 "$work/debootstrap.txt"
    exit 77
}
cp /etc/resolv.conf "$work/room/etc/"
cp "$deb" "$work/room/tmp/muster.deb"
cp "$work/first" "$here/debian_room.sh" "$work/room/tmp/"
unshare --mount --pid --fork --kill-child sh -ec '
    mount -t proc proc "$1/proc"
    mount -t sysfs -o ro sysfs "$1/sys"
    mkdir -p "$1/dev/shm"
    mount -t tmpfs tmpfs "$1/dev/shm"
    exec chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive sh /tmp/debian_room.sh' sh "$work/room"

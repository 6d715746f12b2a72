#!/bin/sh
# pkg-config and the plain compiler build a program against the installed library; it names the SONAME.
. "$(dirname "$0")/install.sh"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
test "$(pkg-config --modversion muster)" = "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' "$libdir/cmake/muster/muster-config-version.cmake")"
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror "$consumer/consumer.c" -o "$work/consumer" $(pkg-config --cflags --libs muster)
LD_LIBRARY_PATH="$libdir" "$work/consumer"
# shellcheck disable=SC2046
"$cxx" -std=c++17 -Wall -Wextra -Wold-style-cast -Wcast-qual -Werror "$consumer/consumer.cpp" -o "$work/consumer_cxx" $(pkg-config --cflags --libs muster)
LD_LIBRARY_PATH="$libdir" "$work/consumer_cxx"
# Below 1.0 the soname has the minor version, too: libmuster.so.0.1.
version=$(pkg-config --modversion muster)
soname=libmuster.so.${version%%.*}
test "${version%%.*}" -gt 0 || soname=libmuster.so.${version%.*}
LD_LIBRARY_PATH="$libdir" ldd "$work/consumer" | grep -qF "$soname => $libdir/"

#!/bin/sh
# pkg-config and the plain compiler build a program against the installed library; it names the SONAME.
. "$(dirname "$0")/install.sh"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
test "$(pkg-config --modversion muster)" = "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' "$libdir/cmake/muster/muster-config-version.cmake")"
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror "$consumer/consumer.c" -o "$work/consumer" $(pkg-config --cflags --libs muster)
LD_LIBRARY_PATH="$libdir" "$work/consumer"
LD_LIBRARY_PATH="$libdir" ldd "$work/consumer" | grep -q "libmuster\.so\.[0-9]* => $libdir/"

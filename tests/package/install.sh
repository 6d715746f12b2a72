# install.sh, read by the others: $consumer $build $cmake $cc $cxx from the command line; installs into $prefix, a new temporary folder
# that is then moved, since an installed tree may be moved.
set -eu
consumer=$1 build=$2 cmake=$3 cc=$4 cxx=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/first" >"$work/install.txt"
prefix=$work/prefix
mv "$work/first" "$prefix"
libdir=$(dirname "$(find "$prefix" -name libmuster.so)")
# The generator of the build itself: CMake's default one may need a make that is not here.
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
export CMAKE_GENERATOR

#!/bin/sh
# The installed pages link to installed pages, the installed first sample compiles and runs, muster-info runs, and Python finds the installed module and library.
. "$(dirname "$0")/install.sh"
doc=$prefix/share/doc/muster
links=0
for page in "$doc"/README.md "$doc"/docs/*.md; do
    for link in $(grep -o '](\([a-z/-]*\.md\|[A-Z]*\.md\))' "$page" | tr -d '()]'); do
        [ -f "$(dirname "$page")/$link" ] || { echo "$page: $link is not installed" >&2; exit 1; }
        links=$((links + 1))
    done
done
[ "$links" -gt 20 ] || { echo "expected more than 20 links, received $links" >&2; exit 1; }
"$cc" "$doc/samples/first.c" -I"$prefix/include" -L"$libdir" -lmuster -o "$work/first"
LD_LIBRARY_PATH=$libdir MUSTER_DEVICES=host:2 "$work/first"
MUSTER_BLAS=none "$prefix/bin/muster-info" | grep -q '^      no BLAS: MUSTER_BLAS is "none"$' # it finds the library beside it
# A library with a sanitizer does not load into this interpreter.
if ! grep -q '^MUSTER_SANITIZE:[A-Z]*=..*' "$build/CMakeCache.txt"; then
    LD_LIBRARY_PATH=$libdir PYTHONPATH=$prefix/share/muster/python PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$doc/samples/python/example.py"
fi

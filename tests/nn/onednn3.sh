#!/bin/sh
# onednn3.sh LIBRARY PROGRAM...: runs a suite with this oneDNN, which must be of version 3. Exit 77: script/fetch-onednn has not fetched it.
if [ ! -e "$1" ]; then
    echo "$1, which script/fetch-onednn takes from PyPI, is not here"
    exit 77
fi
export MUSTER_ONEDNN="$1" MUSTER_TEST_ONEDNN=3
unset MUSTER_TEST_FULL # all cases take minutes, and most of them are not computed by oneDNN
shift
exec "$@"

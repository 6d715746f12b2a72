#!/bin/sh
# Options and data that the training program must refuse, each with its reason.
# usage: refusals.sh TRAIN PYTHON DATA
set -eu
train=$1 data=$3

refused() { # EXIT_CODE WORDS ARGUMENT...
    code=$1 words=$2
    shift 2
    received=0
    message=$("$train" "$@" 2>&1 >/dev/null) || received=$?
    case $received:$message in
    "$code":*"$words"*) ;;
    *) echo "train $*: expected exit $code with \"$words\", received $received with \"$message\""; exit 1 ;;
    esac
}

refused 1 "cannot be opened" --data /nonexistent
refused 2 "at least 1" --data "$data" --batch 0
refused 2 "at least 0" --data "$data" --steps many
refused 2 "at most the 60000 rows" --data "$data" --batch 60001
refused 2 "unexpected" --data "$data" host:2
refused 2 "without --by-hand" --data "$data" --by-hand --split
refused 1 "no backend" --data "$data" --devices nonsense
refused 1 "is lower than" --data "$data" --epochs 0 --min-accuracy 0.99
refused 1 "cannot be written" --data "$data" --steps 0 --dump-params /nonexistent/p

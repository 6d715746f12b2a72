#!/bin/sh
# A few steps of a network, on 1 and on 2 devices: it has so many parameters, the first loss is the same, the second one but for what rounding does to
# the gradient of a network that has not learnt yet, and the last one is below a bound that a network which does not learn cannot reach.
# usage: [MODEL_EXPECTS=PATTERN] model_steps.sh PROGRAM PARAMETERS BOUND ARGUMENT...
# The program must print a line with this extended regular expression, on 1 and on 2 devices.
set -eu
program=$1 parameters=$2 bound=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for n in 1 2; do
    MUSTER_DEVICES=host:$n "$program" "$@" >"$folder/$n" || { cat "$folder/$n"; exit 1; }
    cat "$folder/$n"
    grep -q "\b$parameters parameters, $n devices" "$folder/$n" || { echo "expected $parameters parameters on $n devices"; exit 1; }
    grep -qE "${MODEL_EXPECTS:-.}" "$folder/$n" || { echo "expected a line with \"$MODEL_EXPECTS\""; exit 1; }
    # the number in front of "bits" or behind "loss"
    sed -n 's/^step [0-9]*: \(loss \)\{0,1\}\([0-9.]*\).*/\2/p' "$folder/$n" >"$folder/losses$n"
    tail -n 1 "$folder/losses$n" | awk -v bound="$bound" '{ exit !($1 > 0 && $1 < bound) }' || { echo "expected a loss below $bound"; exit 1; }
done
paste "$folder/losses1" "$folder/losses2" | head -n 2 | awk '
    { d = $1 < $2 ? $2 - $1 : $1 - $2; if (d > (NR == 1 ? 0.0001 : 0.01) * $1) { print "step " NR ": " $1 " on 1 device, " $2 " on 2"; wrong = 1 } }
    END { exit wrong || NR == 0 }'

#!/usr/bin/env bash
# cluster.sh FIRST: script/cluster runs a program on several hosts, says which process is where, and gives its exit code back. FIRST is samples/first.
set -euo pipefail
cluster=$(cd "$(dirname "$0")/../.." && pwd)/script/cluster
first=$1
cases=0
work=$(mktemp -d /tmp/cluster.XXXXXX)
trap 'rm -rf "$work"' EXIT

run() { # EXIT_CODE ARGUMENT...: sets `output`
    local expected=$1 code=0
    shift
    output=$("$cluster" "$@" 2>&1) || code=$?
    [ "$code" -eq "$expected" ] || { echo "cluster $*: expected exit $expected, received $code: $output"; exit 1; }
    cases=$((cases + 1))
}
says() { # WORDS
    case $output in *"$1"*) ;; *) echo "expected \"$1\", received: $output"; exit 1 ;; esac
}

# Where no namespaces are to be had, the processes run on one host, which a line says; mpirun lies beside other programs, unshare before them.
mkdir "$work/refused"
printf '#!/bin/sh\necho refused >&2\nexit 1\n' >"$work/refused/unshare"
chmod +x "$work/refused/unshare"
PATH=$work/refused:$PATH MUSTER_DEVICES=host:1 run 0 2 --delay 1 -- "$first"
says "(refused)): the 2 processes run on one host, without links of their own (not --delay 1)"
says "mean(x @ y) on 2 devices: 5000 (expected 5000)"
PATH=$work/refused:$PATH run 5 -- bash -c 'exit 5'
if ! reason=$("$(dirname "$cluster")/../tests/net/hosts" 1 -- true 2>&1); then echo "$reason"; exit 77; fi

# A program in /tmp, which each host has for itself, sees the variables of Muster and its own host.
cat >"$work/program" <<'PROGRAM'
#!/bin/bash
echo "$(hostname) $OMPI_COMM_WORLD_RANK $MUSTER_NODES $MUSTER_DEVICES $1"
PROGRAM
chmod +x "$work/program"
MUSTER_DEVICES=host:1 run 0 3 --rate 500 --delay 1 -- "$work/program" "an argument"
for i in 0 1 2; do
    says "process $i of 3: on host$((i + 1)), CPUs "
    says "host$((i + 1)) $i mpi host:1 an argument"
done
says "3 hosts on this machine (--rate 500 --delay 1): $work/program"
# A program of Muster is one runtime on all hosts.
MUSTER_DEVICES=host:1 run 0 3 -- "$first"
says "mean(x @ y) on 3 devices: 5000 (expected 5000)"
# Two hosts if nothing is said; the exit code is the program's. Open MPI may end the other process before that has begun.
run 5 -- bash -c 'exit 5'
says "2 hosts on this machine: bash"
run 0 -- true
says "process 1 of 2: on host2"
# Libraries in another folder of /tmp are seen where LD_LIBRARY_PATH names it; those in /dev/shm are not.
mkdir "$work/libraries"
cat >"$work/program" <<'PROGRAM'
#!/bin/bash
for folder in ${LD_LIBRARY_PATH//:/ }; do [ ! -d "$folder" ] || echo "sees $folder"; done
PROGRAM
other=$(mktemp -d /tmp/cluster.XXXXXX) memory=$(mktemp -d /dev/shm/cluster.XXXXXX)
trap 'rm -rf "$work" "$other" "$memory"' EXIT
LD_LIBRARY_PATH=$other:$memory run 0 1 -- "$work/program"
says "sees $other"
says "warning: LD_LIBRARY_PATH names $memory, which the hosts do not see"
case $output in *"sees $memory"* | *"names $other"*) echo "expected to see $other, and not $memory: $output"; exit 1 ;; esac
says "1 host on this machine: $work/program"
# What is wrong is said before anything begins.
says_first() { says "$1"; case $output in *"on this machine"*) echo "expected no hosts: $output"; exit 1 ;; esac; }
run 1 2 -- "$work/nothing" && says_first "PROGRAM: there is no file \"$work/nothing\""
run 1 2 -- "$(dirname "$cluster")/../build/samples/nothing" && says_first '("cmake --build build" builds the samples)'
chmod -x "$work/program"
run 1 2 -- "$work/program" && says_first "\"$work/program\" cannot be executed"
run 1 2 -- no-such-program && says_first 'there is no "no-such-program" in PATH'
run 2 2 -- && says_first "expected a PROGRAM behind --"
run 2 0 -- true && says '1 to 64 hosts, received "0"'
run 2 2 3 -- true && says "PROGRAM stands behind --"
run 2 --nonsense && says 'unexpected "--nonsense"'
run 2 2 --data /tmp -- true && says "there is a PROGRAM"
run 2 2 --delay -1 -- true && says 'milliseconds, received "-1"'
run 1 2 --data /nonexistent && says 'no folder "/nonexistent"'
run 0 --help && says "Exit: that of mpirun"
[ "$cases" -eq 19 ] || { echo "expected 19 cases, ran $cases"; exit 1; }

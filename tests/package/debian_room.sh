#!/bin/sh
# debian_room.sh, run by debian.sh as root of a bare Debian with /tmp/muster.deb, and /tmp/first, the first sample: without an MPI, and with MPICH.
set -eu
cases=0
wrong() { echo "$1" >&2; exit 1; }
says() { # expected exit code, words, command...
    code=0
    expected=$1 words=$2
    shift 2
    text=$("$@" 2>&1) || code=$?
    echo "$* (exit $code): $text"
    [ "$code" -eq "$expected" ] || wrong "expected exit $expected"
    case $text in *"$words"*) ;; *) wrong "expected \"$words\"" ;; esac
    cases=$((cases + 1))
}
dpkg -i /tmp/muster.deb # nothing that it depends on is missing

# ---- no MPI ----
says 0 "on 2 devices: 5000" env MUSTER_DEVICES=host:2 /tmp/first
shims=$(find /usr/lib -name 'libmuster-mpi-*.so')
if [ -n "$shims" ]; then # compiled for MPIs that are not here
    says 1 "UNAVAILABLE: muster_runtime_open: nodes: /lib/libmuster-mpi-" env MUSTER_NODES=mpi /tmp/first
    case $text in *".so cannot be opened, whose MPI must be installed, or its module loaded: libmpi"*) ;; *) wrong "expected the MPI that is missing" ;; esac
fi
mkdir /tmp/none
says 1 'there is no libmuster-mpi-*.so in /tmp/none: "muster-mpi-shim [MPICC]" compiles one, and MUSTER_MPI_SHIM names one' \
    env MUSTER_NODES=mpi MUSTER_MPI_SHIM=/tmp/none /tmp/first
says 1 "muster-mpi-shim: mpicc is not here: name the mpicc of the MPI, or load its module" muster-mpi-shim

# ---- MPICH, and a shim for it that is compiled here ----
apt-get update -q >/tmp/apt.txt && apt-get install -qy --no-install-recommends gcc libc6-dev mpich libmpich-dev >>/tmp/apt.txt 2>&1 ||
    { tail -n 20 /tmp/apt.txt; exit 77; }
# shellcheck disable=SC2086 # paths without spaces
rm -f $shims
says 0 "/root/.cache/muster/muster-mpi-mpich-" muster-mpi-shim
says 0 "/root/.cache/muster/muster-mpi-mpich-" muster-mpi-shim # it is there
# shellcheck disable=SC2046 # several words
cc /usr/share/doc/muster/samples/first.c $(pkg-config --cflags --libs muster) -o /tmp/second
says 0 "on 2 devices: 5000" env MUSTER_NODES=mpi MUSTER_DEVICES=host:1 mpirun -n 2 /tmp/second
case $text in *"MPI: MPICH 4.0"*"/root/.cache/muster/libmuster-mpi-mpich.so (the launcher is that of MPICH)"*) ;; *) wrong "expected the shim of the cache" ;; esac
[ "$cases" -ge 6 ] || wrong "expected at least 6 cases, ran $cases"
echo "$cases cases"

/* muster-bench-omp: serves timing blocks of an empty libgomp parallel region. OMP_WAIT_POLICY is
 * read when a process starts, so each policy needs one of its own. */
#include "process.h"

#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

static void region(void) {
#pragma omp parallel
    __asm__ volatile("" ::: "memory");
}

static bool all(ssize_t (*move)(int, void *, size_t), int file, void *data, size_t bytes) {
    for (char *at = data; bytes > 0;) {
        ssize_t moved = move(file, at, bytes);
        if (moved <= 0) return false;
        at += moved;
        bytes -= (size_t)moved;
    }
    return true;
}

static ssize_t put(int file, void *data, size_t bytes) { return write(file, data, bytes); }

int main(void) {
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads += 1;
    if (threads != omp_get_max_threads())
        printf("no %d threads of %d\n", threads, omp_get_max_threads());
    else
        printf("ok libgomp, %d threads\n", threads);
    fflush(stdout);
    bench_request request;
    while (all(read, 0, &request, sizeof request)) {
        double *ns = calloc((size_t)request.calls, sizeof *ns);
        if (!ns) return 1;
        bench_block block = {request.warm, request.calls, request.pause_ns};
        BENCH_TIME(&block, ns, region());
        bool ok = all(put, 1, &(int64_t){0}, sizeof(int64_t)) && all(put, 1, ns, (size_t)request.calls * sizeof *ns) &&
                  all(put, 1, (char[]){'\n'}, 1);
        free(ns);
        if (!ok) return 1;
    }
    return 0;
}

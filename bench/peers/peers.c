#include "process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *bench_sibling_path(char path[1024], const char *file) {
    ssize_t length = readlink("/proc/self/exe", path, 900);
    if (length < 0) length = 0;
    path[length] = 0;
    char *slash = strrchr(path, '/');
    snprintf(slash ? slash + 1 : path, 100, "%s", file);
    return path;
}

static void add_libgomp(bench_row *row, int32_t threads, const char *policy) {
    char path[1024], name[BENCH_NAME], wait[64], count[64];
    bench_sibling_path(path, "muster-bench-omp");
    snprintf(name, sizeof name, "libgomp parallel, %s, %d threads", policy, threads);
    snprintf(wait, sizeof wait, "OMP_WAIT_POLICY=%s", policy);
    snprintf(count, sizeof count, "OMP_NUM_THREADS=%d", threads);
    bool places = threads <= bench_cores(); /* more threads than places would be put on one core each */
    const char *settings[] = {
        wait, count, "OMP_DYNAMIC=false", places ? "OMP_PROC_BIND=true" : "OMP_PROC_BIND=false", places ? "OMP_PLACES=cores" : NULL, NULL};
    bench_process *process = bench_process_open(name, (char *const[]){path, NULL}, settings);
    if (process) bench_add(row, BENCH_PEER, name, process, bench_process_block, bench_process_close);
}

void bench_add_libgomp(bench_row *row, int32_t threads) {
    add_libgomp(row, threads, "active");
    add_libgomp(row, threads, "passive");
}

void bench_add_network_limit(bench_row *row, const char *model, int64_t batch, int64_t megabytes) {
    char path[1024], name[BENCH_NAME], count[24], moved[24];
    bench_sibling_path(path, "muster-bench-onednn");
    snprintf(count, sizeof count, "%lld", (long long)batch);
    snprintf(moved, sizeof moved, "%lld", (long long)megabytes);
    snprintf(name, sizeof name, "the convolutions and dense layers of %s alone", model);
    bench_process *process = bench_process_open(name, (char *const[]){path, (char *)model, count, moved, NULL}, (const char *[]){NULL});
    if (process) bench_add(row, BENCH_LIMIT, bench_process_description(process), process, bench_process_block, bench_process_close);
}

static bool have(const bench_row *row, const char *name) {
    for (int32_t i = 0; i < row->count; i++)
        if (strcmp(row->contenders[i].name, name) == 0) return true;
    return false;
}

static void add_python(bench_row *row, char *interpreter, const char *library, int32_t threads, const char *const *arguments) {
    char path[1024], name[BENCH_NAME], omp[32], openblas[32], mkl[32];
    char *argv[12] = {interpreter, path, (char *)library};
    bench_sibling_path(path, "peer.py");
    for (int i = 0; arguments[i] && i < 8; i++) argv[3 + i] = (char *)arguments[i];
    snprintf(omp, sizeof omp, "OMP_NUM_THREADS=%d", threads);
    snprintf(openblas, sizeof openblas, "OPENBLAS_NUM_THREADS=%d", threads);
    snprintf(mkl, sizeof mkl, "MKL_NUM_THREADS=%d", threads);
    const char *settings[] = {omp, openblas, mkl, "PYTHONDONTWRITEBYTECODE=1", NULL};
    snprintf(name, sizeof name, "%s by %.40s", library, interpreter);
    bench_process *process = bench_process_open(name, argv, settings);
    if (!process) return;
    snprintf(name, sizeof name, "%s, %d thread%s", bench_process_description(process), threads, threads == 1 ? "" : "s");
    if (have(row, name))
        bench_process_close(process); /* the same library through another name of the interpreter */
    else
        bench_add(row, BENCH_PEER, name, process, bench_process_block, bench_process_close);
}

void bench_add_python(bench_row *row, const char *library, int32_t threads, const char *const *arguments) {
    const char *listed = getenv("MUSTER_BENCH_PYTHON");
    char *list = strdup(listed && *listed ? listed : "/usr/bin/python3:python3"), *rest = NULL;
    if (!list) return;
    for (char *next = strtok_r(list, ":", &rest); next; next = strtok_r(NULL, ":", &rest))
        add_python(row, next, library, threads, arguments);
    free(list);
}

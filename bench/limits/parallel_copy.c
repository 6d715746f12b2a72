#include "parallel_copy.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

struct bench_parallel_copy {
    const char *from;
    char *to;
    int64_t bytes;
    int32_t threads;
    _Atomic int64_t generation, done; /* calls begun; parts done */
    _Atomic bool quit;
};

typedef struct helper {
    bench_parallel_copy *copy;
    int32_t number;
    pthread_t thread;
} helper;

static void copy_part(const bench_parallel_copy *copy, int32_t number) {
    int64_t begin = copy->bytes * number / copy->threads, end = copy->bytes * (number + 1) / copy->threads;
    memcpy(copy->to + begin, copy->from + begin, (size_t)(end - begin));
}

static void *helper_main(void *argument) {
    helper *self = argument;
    bench_parallel_copy *copy = self->copy;
    bench_pin(bench_cpu(self->number));
    for (int64_t generation = 1;; generation++) {
        while (atomic_load(&copy->generation) < generation)
            if (atomic_load(&copy->quit))
                return NULL;
            else
                bench_relax();
        copy_part(copy, self->number);
        atomic_fetch_add(&copy->done, 1);
    }
}

static void call(bench_parallel_copy *copy) {
    int64_t generation = atomic_fetch_add(&copy->generation, 1) + 1;
    copy_part(copy, 0);
    while (atomic_load(&copy->done) < generation * (copy->threads - 1)) bench_relax();
}

bench_parallel_copy *bench_parallel_copy_open(const void *from, int64_t bytes) {
    bench_parallel_copy *copy = calloc(1, sizeof *copy);
    char *to = copy ? aligned_alloc(4096, (size_t)(bytes + 4095) / 4096 * 4096) : NULL;
    if (!to) {
        bench_log("not measured: parallel memcpy: no memory");
        free(copy);
        return NULL;
    }
    memset(to, 0, (size_t)bytes);
    copy->from = from;
    copy->to = to;
    copy->bytes = bytes;
    copy->threads = bench_cores() > MOST ? MOST : bench_cores();
    return copy;
}

int32_t bench_parallel_copy_threads(const bench_parallel_copy *copy) { return copy->threads; }

void bench_parallel_copy_close(void *self) {
    bench_parallel_copy *copy = self;
    free(copy->to);
    free(copy);
}

bool bench_parallel_copy_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    bench_parallel_copy *copy = self;
    helper helpers[MOST];
    int32_t started = 1;
    atomic_store(&copy->generation, 0);
    atomic_store(&copy->done, 0);
    atomic_store(&copy->quit, false);
    for (; started < copy->threads; started++) {
        helpers[started] = (helper){.copy = copy, .number = started};
        if (pthread_create(&helpers[started].thread, NULL, helper_main, &helpers[started]) != 0) break;
    }
    bool ok = started == copy->threads;
    if (ok) {
        copy->to[copy->bytes - 1] ^= 1;
        BENCH_TIME(block, ns, call(copy));
        *wrong += copy->to[copy->bytes - 1] != copy->from[copy->bytes - 1];
    }
    atomic_store(&copy->quit, true);
    for (int32_t i = 1; i < started; i++) pthread_join(helpers[i].thread, NULL);
    return ok;
}

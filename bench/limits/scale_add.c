#include "scale_add.h"

#include <stdlib.h>

struct bench_scale_add {
    bench_pair *pair;
    float a;
    const float *x;
    float *y;
    int64_t n;
};

#if defined(__x86_64__)
#define EVERY_X86 __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EVERY_X86
#endif

EVERY_X86 static void part(float a, const float *restrict x, float *restrict y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

static void half(void *argument, int32_t rank) {
    const bench_scale_add *self = argument;
    const int64_t begin = rank * self->n / 2, end = (rank + 1) * self->n / 2;
    part(self->a, self->x + begin, self->y + begin, end - begin);
}

bench_scale_add *bench_scale_add_open(bench_pair *pair, float a, const float *x, float *y, int64_t n) {
    bench_scale_add *self = malloc(sizeof *self);
    if (self) *self = (bench_scale_add){pair, a, x, y, n};
    return self;
}

void bench_scale_add_close(void *self) { free(self); }

bool bench_scale_add_block(void *argument, const bench_block *block, double *ns, int64_t *wrong) {
    bench_scale_add *self = argument;
    (void)wrong;
    bench_pair_begin(self->pair, half, self);
    BENCH_TIME(block, ns, bench_pair_call(self->pair));
    bench_pair_end(self->pair);
    return true;
}

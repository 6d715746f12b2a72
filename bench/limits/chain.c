#include "chain.h"

#include <math.h>
#include <stdlib.h>

typedef void (*chain_loop)(const float *restrict x, const float *restrict y, float *restrict z, int64_t n);
struct bench_chain {
    chain_loop loop;
    const float *x, *y;
    float *z;
    int64_t n;
};

#if defined(__x86_64__)
#define EVERY_X86 __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EVERY_X86
#endif

/* max as the library defines it, and as the compiler can make it one instruction */
#define CHAIN_2(x, y) ((x) * (y) + (x))
#define CHAIN_4(x, y) ((CHAIN_2(x, y) > (y) ? CHAIN_2(x, y) : (y)) - (x))
#define CHAIN_8(x, y) ((fabsf(CHAIN_4(x, y) * (y)) + (y)) * 0.5f)
#define LOOP(length)                                                                                                       \
    EVERY_X86 static void chain_##length(const float *restrict x, const float *restrict y, float *restrict z, int64_t n) { \
        for (int64_t i = 0; i < n; i++) z[i] = CHAIN_##length(x[i], y[i]);                                                 \
    }
LOOP(2)
LOOP(4)
LOOP(8)

float bench_chain_value(int32_t length, float x, float y) {
    return length == 2 ? CHAIN_2(x, y) : length == 4 ? CHAIN_4(x, y) : CHAIN_8(x, y);
}

bench_chain *bench_chain_open(int32_t length, const float *x, const float *y, float *z, int64_t n) {
    const chain_loop loop = length == 2 ? chain_2 : length == 4 ? chain_4 : length == 8 ? chain_8 : NULL;
    bench_chain *self = loop ? malloc(sizeof *self) : NULL;
    if (self) *self = (bench_chain){loop, x, y, z, n};
    return self;
}

void bench_chain_close(void *self) { free(self); }

bool bench_chain_block(void *argument, const bench_block *block, double *ns, int64_t *wrong) {
    const bench_chain *self = argument;
    (void)wrong;
    BENCH_TIME(block, ns, self->loop(self->x, self->y, self->z, self->n));
    return true;
}

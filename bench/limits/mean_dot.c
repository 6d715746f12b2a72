#include "mean_dot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, MOST_K = 1024, CHUNK = 512 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

struct bench_mean_dot {
    bench_pair *pair;
    bench_mean_dot_way way;
    const float *x;
    int64_t n, k;
    double expected, mean;
    _Alignas(128) double part[2][16];
    _Alignas(128) float y[MOST_K + LANES]; /* 0 beyond k, so that whole vectors may be read from a row */
};

#if defined(__x86_64__) && defined(__clang__) /* contracts by default */
#define EVERY_X86 __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__x86_64__)
#define EVERY_X86 __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3", "fp-contract=fast")))
#else
#define EVERY_X86
#endif

/* The sum over rows x sum over columns of x[i][j] y[j], AT_ONCE rows at a time. No sum over the
 * lanes before the end of a chunk, and a chunk is short enough for f32. The last vector of a row
 * reads into the next row times 0, so the row behind the last one must exist. */
#define SUM_OF_DOTS(NAME, AT_ONCE)                                                                                                  \
    EVERY_X86 static double NAME(const float *x, const float *y, int64_t rows, int64_t k) {                                         \
        double total = 0;                                                                                                           \
        for (int64_t begin = 0; begin < rows; begin += CHUNK) {                                                                     \
            int64_t end = begin + CHUNK < rows ? begin + CHUNK : rows, i = begin;                                                   \
            lanes sums[AT_ONCE] = {{0}};                                                                                            \
            for (; i + (AT_ONCE) <= end; i += (AT_ONCE))                                                                            \
                for (int64_t j = 0; j < k; j += LANES)                                                                              \
                    for (int r = 0; r < (AT_ONCE); r++) sums[r] += *(const lanes *)(x + (i + r) * k + j) * *(const lanes *)(y + j); \
            for (; i < end; i++)                                                                                                    \
                for (int64_t j = 0; j < k; j += LANES) sums[0] += *(const lanes *)(x + i * k + j) * *(const lanes *)(y + j);        \
            for (int r = 1; r < (AT_ONCE); r++) sums[0] += sums[r];                                                                 \
            float sum = 0;                                                                                                          \
            for (int l = 0; l < LANES; l++) sum += sums[0][l];                                                                      \
            total += sum;                                                                                                           \
        }                                                                                                                           \
        return total;                                                                                                               \
    }
SUM_OF_DOTS(sum_of_dots, 4)
SUM_OF_DOTS(sum_of_dots_unrolled, 8)

static double sum_of_rows(const bench_mean_dot *self, int64_t begin, int64_t end) {
    const int64_t k = self->k;
    /* the last rows must not be read beyond their end */
    int64_t aligned_end = end < self->n ? end : end - (LANES + k - 1) / k;
    if (aligned_end < begin) aligned_end = begin;
    double sum = (self->way.unrolled ? sum_of_dots_unrolled : sum_of_dots)(self->x + begin * k, self->y, aligned_end - begin, k);
    for (int64_t i = aligned_end; i < end; i++)
        for (int64_t j = 0; j < k; j++) sum += (double)(self->x[i * k + j] * self->y[j]);
    return sum;
}

static void half(void *argument, int32_t rank) {
    bench_mean_dot *self = argument;
    self->part[rank][0] = sum_of_rows(self, rank * self->n / 2, (rank + 1) * self->n / 2);
}

bench_mean_dot *bench_mean_dot_open(bench_pair *pair, bench_mean_dot_way way, const float *x, const float *y, int64_t n, int64_t k,
                                    double expected) {
    if (k > MOST_K) return NULL;
    bench_mean_dot *self = aligned_alloc(128, sizeof *self);
    if (!self) return NULL;
    memset(self, 0, sizeof *self);
    self->pair = pair;
    self->way = way;
    self->x = x;
    self->n = n;
    self->k = k;
    self->expected = expected;
    memcpy(self->y, y, (size_t)k * sizeof(float));
    return self;
}

void bench_mean_dot_close(void *self) { free(self); }

bool bench_mean_dot_right(double result, double expected) { return fabs(result - expected) <= 1e-4 * fabs(expected); }

bool bench_mean_dot_block(void *argument, const bench_block *block, double *ns, int64_t *wrong) {
    bench_mean_dot *self = argument;
    if (self->way.threads == 1) {
        BENCH_TIME(block, ns, self->mean = sum_of_rows(self, 0, self->n) / (double)self->n);
    } else {
        bench_pair_begin(self->pair, half, self);
        BENCH_TIME(block, ns, {
            bench_pair_call(self->pair);
            self->mean = (self->part[0][0] + self->part[1][0]) / (double)self->n;
        });
        bench_pair_end(self->pair);
    }
    *wrong += !bench_mean_dot_right(self->mean, self->expected);
    return true;
}

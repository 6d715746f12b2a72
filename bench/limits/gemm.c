#include "gemm.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
typedef void (*sgemm_function)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                               int ldb, float beta, float *c, int ldc);

typedef struct half_step {
    float *x, *h1, *h2, *z, *d1, *d2, *dz, *w1, *w2, *w3, *g1, *g2, *g3;
} half_step;

struct bench_gemm {
    bench_pair *pair;
    sgemm_function sgemm;
    void *library;
    void *memory;
    size_t bytes;
    int32_t rows, inputs, hidden, classes;
    half_step half[2];
};

static void multiply(const bench_gemm *self, int ta, int tb, int m, int n, int k, const float *a, const float *b, float *c) {
    self->sgemm(ROW_MAJOR, ta, tb, m, n, k, 1, a, ta == PLAIN ? k : m, b, tb == PLAIN ? n : k, 0, c, n);
}

static void step(void *argument, int32_t rank) {
    const bench_gemm *self = argument;
    const half_step *s = &self->half[rank];
    int rows = self->rows, in = self->inputs, hidden = self->hidden, out = self->classes;
    multiply(self, PLAIN, PLAIN, rows, hidden, in, s->x, s->w1, s->h1);
    multiply(self, PLAIN, PLAIN, rows, hidden, hidden, s->h1, s->w2, s->h2);
    multiply(self, PLAIN, PLAIN, rows, out, hidden, s->h2, s->w3, s->z);
    multiply(self, TRANSPOSED, PLAIN, hidden, out, rows, s->h2, s->dz, s->g3);
    multiply(self, PLAIN, TRANSPOSED, rows, hidden, out, s->dz, s->w3, s->d2);
    multiply(self, TRANSPOSED, PLAIN, hidden, hidden, rows, s->h1, s->d2, s->g2);
    multiply(self, PLAIN, TRANSPOSED, rows, hidden, hidden, s->d2, s->w2, s->d1);
    multiply(self, TRANSPOSED, PLAIN, in, hidden, rows, s->x, s->d1, s->g1);
}

/* Every matrix of both halves; the weights are shared, as replicas of a variable would not be: the
 * limit has the smaller footprint. */
static size_t lay_out(bench_gemm *self, float *memory) {
    size_t rows = (size_t)self->rows, in = (size_t)self->inputs, hidden = (size_t)self->hidden, out = (size_t)self->classes, used = 0;
    for (int rank = 0; rank < 2; rank++) {
        half_step *s = &self->half[rank];
        struct {
            float **at;
            size_t count;
        } parts[] = {{&s->x, rows * in},        {&s->h1, rows * hidden}, {&s->h2, rows * hidden}, {&s->z, rows * out},
                     {&s->d1, rows * hidden},   {&s->d2, rows * hidden}, {&s->dz, rows * out},    {&s->g1, in * hidden},
                     {&s->g2, hidden * hidden}, {&s->g3, hidden * out},  {&s->w1, in * hidden},   {&s->w2, hidden * hidden},
                     {&s->w3, hidden * out}};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            bool shared = rank == 1 && i >= 10;
            if (memory) *parts[i].at = memory + used;
            if (!shared) used += (parts[i].count + 31) / 32 * 32;
        }
        if (rank == 1) s->w1 = self->half[0].w1, s->w2 = self->half[0].w2, s->w3 = self->half[0].w3;
    }
    return used;
}

static bool find_blas(bench_gemm *self) {
    self->library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!self->library) return false;
    *(void **)&self->sgemm = dlsym(self->library, "cblas_sgemm");
    void (*set_threads)(int);
    *(void **)&set_threads = dlsym(self->library, "openblas_set_num_threads");
    if (!self->sgemm || !set_threads) return false;
    set_threads(1);
    return true;
}

bench_gemm *bench_gemm_open(bench_pair *pair, int32_t batch, int32_t inputs, int32_t hidden, int32_t classes) {
    bench_gemm *self = calloc(1, sizeof *self);
    if (!self) return NULL;
    *self = (bench_gemm){.pair = pair, .rows = batch / 2, .inputs = inputs, .hidden = hidden, .classes = classes};
    self->bytes = lay_out(self, NULL) * sizeof(float);
    self->memory = aligned_alloc(4096, (self->bytes + 4095) / 4096 * 4096);
    if (!self->memory || !find_blas(self)) {
        bench_log("not measured: the matrix products alone: %s", self->memory ? "no libopenblas.so.0" : "no memory");
        bench_gemm_close(self);
        return NULL;
    }
    madvise(self->memory, self->bytes, MADV_HUGEPAGE);
    lay_out(self, self->memory);
    float *all = self->memory;
    for (size_t i = 0; i < self->bytes / sizeof(float); i++) all[i] = (float)((i * 7919) % 17) / 1024;
    return self;
}

void bench_gemm_close(void *argument) {
    bench_gemm *self = argument;
    if (self->library) dlclose(self->library);
    free(self->memory);
    free(self);
}

/* One element of the last product of each half, by a plain sum. */
static int64_t count_wrong(const bench_gemm *self) {
    int64_t wrong = 0;
    for (int rank = 0; rank < 2; rank++) {
        const half_step *s = &self->half[rank];
        double expected = 0;
        for (int32_t i = 0; i < self->rows; i++)
            expected += (double)s->x[(int64_t)i * self->inputs + 3] * s->d1[(int64_t)i * self->hidden + 5];
        wrong += fabs(expected - s->g1[3 * (int64_t)self->hidden + 5]) > 1e-4 * fabs(expected);
    }
    return wrong;
}

bool bench_gemm_block(void *argument, const bench_block *block, double *ns, int64_t *wrong) {
    bench_gemm *self = argument;
    bench_pair_begin(self->pair, step, self);
    BENCH_TIME(block, ns, bench_pair_call(self->pair));
    bench_pair_end(self->pair);
    *wrong += count_wrong(self);
    return true;
}

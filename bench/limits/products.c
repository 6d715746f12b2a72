#include "products.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, MOST = 32 };
typedef void (*sgemm_function)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                               int ldb, float beta, float *c, int ldc);

typedef struct operands {
    float *a, *b, *c;
} operands;

struct bench_products {
    bench_pair *pair;
    sgemm_function sgemm;
    void *library, *memory;
    size_t bytes;
    bench_product list[MOST];
    int32_t count;
    operands at[2][MOST]; /* of each thread */
};

static void products_of(void *argument, int32_t rank) {
    const bench_products *self = argument;
    for (int32_t i = 0; i < self->count; i++) {
        const bench_product *p = &self->list[i];
        const operands *o = &self->at[rank][i];
        const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
        for (size_t t = 0; t < (size_t)p->count; t++)
            self->sgemm(ROW_MAJOR, (p->how & BENCH_A_TURNED) ? TRANSPOSED : PLAIN, (p->how & BENCH_B_TURNED) ? TRANSPOSED : PLAIN, p->m,
                        p->n, p->k, 1, o->a + ((p->how & BENCH_SAME_A) ? 0 : t * m * k), (p->how & BENCH_A_TURNED) ? p->m : p->k,
                        o->b + ((p->how & BENCH_SAME_B) ? 0 : t * k * n), (p->how & BENCH_B_TURNED) ? p->k : p->n, 0,
                        o->c + ((p->how & BENCH_SAME_C) ? 0 : t * m * n), p->n);
    }
}

/* Returns how many numbers the operands of both threads take. */
static size_t lay_out(bench_products *self, float *memory) {
    size_t used = 0;
    for (int32_t rank = 0; rank < 2; rank++)
        for (int32_t i = 0; i < self->count; i++) {
            const bench_product *p = &self->list[i];
            const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k, count = (size_t)p->count;
            const size_t sizes[] = {m * k * ((p->how & BENCH_SAME_A) ? 1 : count), k * n * ((p->how & BENCH_SAME_B) ? 1 : count),
                                    m * n * ((p->how & BENCH_SAME_C) ? 1 : count)};
            float **to[] = {&self->at[rank][i].a, &self->at[rank][i].b, &self->at[rank][i].c};
            for (int32_t o = 0; o < 3; o++) {
                if (memory) *to[o] = memory + used;
                used += (sizes[o] + 31) / 32 * 32;
            }
        }
    return used;
}

static bool find_blas(bench_products *self) {
    void (*set_threads)(int);
    self->library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!self->library) return false;
    *(void **)&self->sgemm = dlsym(self->library, "cblas_sgemm");
    *(void **)&set_threads = dlsym(self->library, "openblas_set_num_threads");
    if (!self->sgemm || !set_threads) return false;
    set_threads(1);
    return true;
}

bench_products *bench_products_open(bench_pair *pair, const bench_product *list) {
    bench_products *self = calloc(1, sizeof *self);
    if (!self) return NULL;
    self->pair = pair;
    for (; self->count < MOST && list[self->count].m; self->count++) self->list[self->count] = list[self->count];
    self->bytes = lay_out(self, NULL) * sizeof(float);
    self->memory = aligned_alloc(4096, (self->bytes + 4095) / 4096 * 4096);
    if (!self->memory || !find_blas(self)) {
        bench_log("not measured: the products alone: %s", self->memory ? "no libopenblas.so.0" : "no memory");
        bench_products_close(self);
        return NULL;
    }
    madvise(self->memory, self->bytes, MADV_HUGEPAGE);
    lay_out(self, self->memory);
    float *all = self->memory;
    for (size_t i = 0; i < self->bytes / sizeof(float); i++) all[i] = (float)((i * 7919) % 17) / 1024;
    return self;
}

void bench_products_close(void *argument) {
    bench_products *self = argument;
    if (self->library) dlclose(self->library);
    free(self->memory);
    free(self);
}

/* The last element of the last product, by a plain sum. */
static int64_t is_wrong(const bench_products *self) {
    const bench_product *p = &self->list[self->count - 1];
    const operands *o = &self->at[1][self->count - 1];
    const int64_t m = p->m, n = p->n, k = p->k, last = p->count - 1;
    const float *a = o->a + ((p->how & BENCH_SAME_A) ? 0 : last * m * k), *b = o->b + ((p->how & BENCH_SAME_B) ? 0 : last * k * n),
                *c = o->c + ((p->how & BENCH_SAME_C) ? 0 : last * m * n);
    double expected = 0;
    for (int64_t l = 0; l < k; l++)
        expected += (double)((p->how & BENCH_A_TURNED) ? a[l * m + m - 1] : a[(m - 1) * k + l]) *
                    (double)((p->how & BENCH_B_TURNED) ? b[(n - 1) * k + l] : b[l * n + n - 1]);
    return fabs(expected - (double)c[m * n - 1]) > 1e-4 * fabs(expected);
}

bool bench_products_block(void *argument, const bench_block *block, double *ns, int64_t *wrong) {
    bench_products *self = argument;
    bench_pair_begin(self->pair, products_of, self);
    BENCH_TIME(block, ns, bench_pair_call(self->pair));
    bench_pair_end(self->pair);
    *wrong += is_wrong(self);
    return true;
}

/* Products: f16 and bf16 through f32; OpenBLAS where the machine has it and the product is large,
 * plain loops else. */
#include "gemm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { R_32F = MST_CUBLAS_R_32F, R_64F = MST_CUBLAS_R_64F, R_16F = MST_CUBLAS_R_16F, R_16BF = MST_CUBLAS_R_16BF };

size_t gemm_element(unsigned type) { return type == R_64F ? 8 : type == R_32F ? 4 : 2; }

bool gemm_supported(const gemm *g) {
    if (!g->same_types) return false;
    if (g->type == R_64F) return g->compute == MST_CUBLAS_COMPUTE_64F;
    if (g->type == R_16F || g->type == R_16BF) return g->compute == MST_CUBLAS_COMPUTE_32F;
    return g->type == R_32F && (g->compute == MST_CUBLAS_COMPUTE_32F || g->compute == MST_CUBLAS_COMPUTE_32F_FAST_TF32);
}

void gemm_scalars(gemm *g, const void *alpha, const void *beta) {
    float narrow[2];
    if (g->compute == MST_CUBLAS_COMPUTE_64F) {
        memcpy(&g->alpha, alpha, 8);
        memcpy(&g->beta, beta, 8);
        return;
    }
    memcpy(&narrow[0], alpha, 4);
    memcpy(&narrow[1], beta, 4);
    g->alpha = narrow[0];
    g->beta = narrow[1];
}

/* ---- OpenBLAS ---- */
typedef void sgemm_function(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                            float beta, float *c, int ldc);
typedef void dgemm_function(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                            int ldb, double beta, double *c, int ldc);
static sgemm_function *sgemm;
static dgemm_function *dgemm;
static pthread_once_t looked = PTHREAD_ONCE_INIT;
enum { COLUMN_MAJOR = 102, PLAIN = 111, TRANSPOSED = 112, LARGE = 64 * 64 * 64 };

/* Not under ThreadSanitizer, which would not see what OpenBLAS reads and writes, and would see that
 * its threads share it. */
static void look_for_openblas(void) {
#ifndef __SANITIZE_THREAD__
    void *library = dlopen("libopenblas.so.0", RTLD_LOCAL | RTLD_NOW);
    if (!library) return;
    void *address = dlsym(library, "cblas_sgemm");
    memcpy(&sgemm, &address, sizeof address);
    address = dlsym(library, "cblas_dgemm");
    memcpy(&dgemm, &address, sizeof address);
#endif
}

static bool is_for_openblas(const gemm *g) {
    pthread_once(&looked, look_for_openblas);
    int64_t largest = g->lda > g->ldb ? g->lda : g->ldb;
    if (g->ldc > largest) largest = g->ldc;
    return sgemm && dgemm && g->k > 0 && largest <= INT32_MAX && g->m * g->n * g->k >= LARGE;
}

static void run_openblas(const gemm *g) {
    int ta = g->transpose_a ? TRANSPOSED : PLAIN, tb = g->transpose_b ? TRANSPOSED : PLAIN;
    if (g->type == R_64F)
        dgemm(COLUMN_MAJOR, ta, tb, (int)g->m, (int)g->n, (int)g->k, g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb, g->beta, g->c,
              (int)g->ldc);
    else
        sgemm(COLUMN_MAJOR, ta, tb, (int)g->m, (int)g->n, (int)g->k, (float)g->alpha, g->a, (int)g->lda, g->b, (int)g->ldb, (float)g->beta,
              g->c, (int)g->ldc);
}

/* ---- plain loops; c is not read where beta is 0 ---- */
/* ThreadSanitizer hears of each column once, since a message for each element of each product
 * would make the loops a hundred times slower. */
#ifdef __SANITIZE_THREAD__
void __tsan_read_range(void *address, long bytes);
void __tsan_write_range(void *address, long bytes);
#define UNSEEN __attribute__((no_sanitize("thread")))
static void tell(void (*range)(void *, long), const void *matrix, int64_t rows, int64_t columns, int64_t leading, size_t element) {
    if (rows <= 0) return;
    for (int64_t j = 0; j < columns; j++)
        range((char *)(uintptr_t)matrix + (size_t)(j * leading) * element, (long)((size_t)rows * element));
}
static void tell_sanitizer(const gemm *g) {
    const size_t element = gemm_element(g->type);
    tell(__tsan_read_range, g->a, g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, g->lda, element);
    tell(__tsan_read_range, g->b, g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, g->ldb, element);
    tell(__tsan_write_range, g->c, g->m, g->n, g->ldc, element);
}
#else
#define UNSEEN
static void tell_sanitizer(const gemm *g) { (void)g; }
#endif

#define PLAIN_LOOPS(name, T)                                                                                         \
    UNSEEN static void name(const gemm *g) {                                                                         \
        const T *a = g->a, *b = g->b;                                                                                \
        T *c = g->c;                                                                                                 \
        int64_t row_a = g->transpose_a ? g->lda : 1, column_a = g->transpose_a ? 1 : g->lda;                         \
        int64_t row_b = g->transpose_b ? g->ldb : 1, column_b = g->transpose_b ? 1 : g->ldb;                         \
        for (int64_t j = 0; j < g->n; j++)                                                                           \
            for (int64_t i = 0; i < g->m; i++) {                                                                     \
                T sum = 0;                                                                                           \
                for (int64_t l = 0; l < g->k; l++) sum += a[i * row_a + l * column_a] * b[l * row_b + j * column_b]; \
                T *to = c + i + j * g->ldc;                                                                          \
                *to = (T)g->alpha * sum + (g->beta == 0 ? 0 : (T)g->beta * *to);                                     \
            }                                                                                                        \
    }
PLAIN_LOOPS(run_f32, float)
PLAIN_LOOPS(run_f64, double)

static void run_wide(const gemm *g) {
    tell_sanitizer(g);
    if (is_for_openblas(g))
        run_openblas(g);
    else if (g->type == R_64F)
        run_f64(g);
    else
        run_f32(g);
}

/* ---- 16-bit floats ---- */
static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint32_t to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static float widen_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return from_bits(sign | 0x7F800000 | fraction << 13);
    if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

/* To nearest, ties to even. */
static uint16_t narrow_f16(float value) {
    uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (magnitude >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65520 and above */
    if (magnitude < 0x38800000) {                                  /* subnormal: a multiple of 2^-24 */
        float scaled = from_bits(magnitude) * 0x1p24f;
        uint32_t whole = (uint32_t)scaled;
        float rest = scaled - (float)whole;
        whole += rest > 0.5f || (rest == 0.5f && whole & 1);
        return (uint16_t)(sign | whole);
    }
    uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

static uint16_t narrow_bf16(float value) {
    uint32_t bits = to_bits(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float gemm_widen(unsigned type, uint16_t bits) { return type == R_16F ? widen_f16(bits) : from_bits((uint32_t)bits << 16); }
uint16_t gemm_narrow(unsigned type, float value) { return type == R_16F ? narrow_f16(value) : narrow_bf16(value); }

static float *widen_matrix(unsigned type, const uint16_t *from, int64_t rows, int64_t columns, int64_t leading) {
    float *wide = malloc(sizeof *wide * (size_t)(rows * columns > 0 ? rows * columns : 1));
    for (int64_t j = 0; wide && j < columns; j++)
        for (int64_t i = 0; i < rows; i++) wide[i + j * rows] = gemm_widen(type, from[i + j * leading]);
    return wide;
}

static int64_t at_least_one(int64_t n) { return n > 0 ? n : 1; }

static bool run_narrow(const gemm *g) {
    int64_t rows_a = g->transpose_a ? g->k : g->m, columns_a = g->transpose_a ? g->m : g->k;
    int64_t rows_b = g->transpose_b ? g->n : g->k, columns_b = g->transpose_b ? g->k : g->n;
    float *a = widen_matrix(g->type, g->a, rows_a, g->k ? columns_a : 0, g->lda),
          *b = widen_matrix(g->type, g->b, rows_b, g->k ? columns_b : 0, g->ldb);
    float *c = g->beta == 0 ? calloc((size_t)(g->m * g->n), sizeof *c) : widen_matrix(g->type, g->c, g->m, g->n, g->ldc);
    bool whole = a && b && c;
    if (whole) {
        gemm wide = *g;
        wide.type = R_32F;
        wide.a = a;
        wide.b = b;
        wide.c = c;
        wide.lda = at_least_one(rows_a);
        wide.ldb = at_least_one(rows_b);
        wide.ldc = g->m;
        run_wide(&wide);
        uint16_t *to = g->c;
        for (int64_t j = 0; j < g->n; j++)
            for (int64_t i = 0; i < g->m; i++) to[i + j * g->ldc] = gemm_narrow(g->type, c[i + j * g->m]);
    }
    free(a);
    free(b);
    free(c);
    return whole;
}

bool gemm_run(const gemm *g) {
    if (g->type == R_16F || g->type == R_16BF) return run_narrow(g);
    run_wide(g);
    return true;
}

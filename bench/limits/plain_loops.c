#include "plain_loops.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

CLONES void bench_plain_take(const bench_plain *p) {
    const float *restrict x = p->x;
    float *restrict z = p->z;
    if (p->k == 1)
        for (int64_t r = 0; r < p->n; r++) z[r] = x[p->i[r]];
    else
        for (int64_t r = 0; r < p->n; r++)
            for (int64_t c = 0; c < p->k; c++) z[r * p->k + c] = x[p->i[r] * p->k + c];
}

CLONES void bench_plain_scatter_add(const bench_plain *p) {
    const float *restrict x = p->x;
    float *restrict z = p->z;
    if (p->k == 1)
        for (int64_t r = 0; r < p->n; r++) z[p->i[r]] += x[r];
    else
        for (int64_t r = 0; r < p->n; r++)
            for (int64_t c = 0; c < p->k; c++) z[p->i[r] * p->k + c] += x[r * p->k + c];
}

CLONES void bench_plain_scatter_add_f64(const bench_plain *p) {
    const float *restrict x = p->x;
    float *restrict z = p->z;
    double *restrict sums = p->sums;
    for (int64_t e = 0; e < p->rows * p->k; e++) sums[e] = (double)z[e];
    if (p->k == 1)
        for (int64_t r = 0; r < p->n; r++) sums[p->i[r]] += (double)x[r];
    else
        for (int64_t r = 0; r < p->n; r++)
            for (int64_t c = 0; c < p->k; c++) sums[p->i[r] * p->k + c] += (double)x[r * p->k + c];
    for (int64_t e = 0; e < p->rows * p->k; e++) z[e] = (float)sums[e];
}

/* exp of x <= 0 in float, within 2 ulp: 2^k times a polynomial. */
INLINE float plain_exp(float x) {
    const float a = x < -87 ? -87 : x, shifted = a * 0x1.715476p+0f + 0x1.8p23f, k = shifted - 0x1.8p23f;
    const float r = (a - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
    const float q = 0x1p-1f + r * (0x1.55548ep-3f + r * (0x1.55545ep-5f + r * (0x1.123bdp-7f + r * 0x1.6db4cep-10f)));
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale + scale * (r + r * r * q);
}

enum { COLUMNS = 256 }; /* of a block whose sums stay in the first cache */

INLINE int64_t block_of(int64_t k, int64_t begin) { return k - begin < COLUMNS ? k - begin : COLUMNS; }

INLINE void columns_exp_sum(const float *restrict x, int64_t n, int64_t k, int64_t m, float *restrict top, float *restrict sum,
                            float *restrict z) {
    for (int64_t c = 0; c < m; c++) top[c] = -INFINITY, sum[c] = 0;
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < m; c++) top[c] = x[r * k + c] > top[c] ? x[r * k + c] : top[c];
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < m; c++) {
            const float e = plain_exp(x[r * k + c] - top[c]);
            sum[c] += e;
            if (z) z[r * k + c] = e;
        }
}

CLONES void bench_plain_softmax_0(const bench_plain *p) {
    float top[COLUMNS], sum[COLUMNS];
    for (int64_t b = 0; b < p->k; b += COLUMNS) {
        const int64_t m = block_of(p->k, b);
        columns_exp_sum(p->x + b, p->n, p->k, m, top, sum, p->z + b);
        for (int64_t c = 0; c < m; c++) sum[c] = 1 / sum[c];
        for (int64_t r = 0; r < p->n; r++)
            for (int64_t c = 0; c < m; c++) p->z[r * p->k + b + c] *= sum[c];
    }
}

CLONES void bench_plain_logsumexp_0(const bench_plain *p) {
    float top[COLUMNS], sum[COLUMNS];
    for (int64_t b = 0; b < p->k; b += COLUMNS) {
        const int64_t m = block_of(p->k, b);
        columns_exp_sum(p->x + b, p->n, p->k, m, top, sum, NULL);
        for (int64_t c = 0; c < m; c++) p->z[b + c] = top[c] + logf(sum[c]);
    }
}

enum { LANES = 16 };

/* z may be NULL. */
INLINE float row_exp_sum(const float *restrict x, int64_t k, float *top, float *restrict z) {
    float most[LANES], sums[LANES] = {0}, sum = 0;
    for (int l = 0; l < LANES; l++) most[l] = x[0];
    for (int64_t c = 0; c + LANES <= k; c += LANES)
        for (int l = 0; l < LANES; l++) most[l] = x[c + l] > most[l] ? x[c + l] : most[l];
    for (int64_t c = k / LANES * LANES; c < k; c++) most[0] = x[c] > most[0] ? x[c] : most[0];
    for (int l = 1; l < LANES; l++) most[0] = most[l] > most[0] ? most[l] : most[0];
    *top = most[0];
    for (int64_t c = 0; c + LANES <= k; c += LANES)
        for (int l = 0; l < LANES; l++) {
            const float e = plain_exp(x[c + l] - most[0]);
            sums[l] += e;
            if (z) z[c + l] = e;
        }
    for (int64_t c = k / LANES * LANES; c < k; c++) {
        const float e = plain_exp(x[c] - most[0]);
        sum += e;
        if (z) z[c] = e;
    }
    for (int l = 0; l < LANES; l++) sum += sums[l];
    return sum;
}

CLONES void bench_plain_softmax_1(const bench_plain *p) {
    float top;
    for (int64_t r = 0; r < p->n; r++) {
        float *restrict z = p->z + r * p->k;
        const float factor = 1 / row_exp_sum(p->x + r * p->k, p->k, &top, z);
        for (int64_t c = 0; c < p->k; c++) z[c] *= factor;
    }
}

CLONES void bench_plain_logsumexp_1(const bench_plain *p) {
    for (int64_t r = 0; r < p->n; r++) {
        float top;
        const float sum = row_exp_sum(p->x + r * p->k, p->k, &top, NULL);
        p->z[r] = top + logf(sum);
    }
}

/* By the quotient, which floats of moderate size allow. */
CLONES void bench_plain_remainder(const bench_plain *p) {
    const float *restrict x = p->x;
    float *restrict z = p->z;
    for (int64_t e = 0; e < p->n * p->k; e++) z[e] = x[e] - 3 * floorf(x[e] / 3);
}

CLONES void bench_plain_cumsum_0(const bench_plain *p) {
    for (int64_t b = 0; b < p->k; b += COLUMNS) {
        const int64_t m = block_of(p->k, b);
        double sums[COLUMNS] = {0};
        const float *restrict x = p->x + b;
        float *restrict z = p->z + b;
        for (int64_t r = 0; r < p->n; r++)
            for (int64_t c = 0; c < m; c++) z[r * p->k + c] = (float)(sums[c] += (double)x[r * p->k + c]);
    }
}

CLONES void bench_plain_row_dots(const bench_plain *p) {
    for (int64_t r = 0; r < p->n; r++) {
        const float *restrict x = p->x + r * p->k, *restrict y = p->y + r * p->k;
        float sums[LANES] = {0}, sum = 0;
        for (int64_t c = 0; c + LANES <= p->k; c += LANES)
            for (int l = 0; l < LANES; l++) sums[l] += x[c + l] * y[c + l];
        for (int64_t c = p->k / LANES * LANES; c < p->k; c++) sum += x[c] * y[c];
        for (int l = 0; l < LANES; l++) sum += sums[l];
        p->z[r] = sum;
    }
}

CLONES void bench_plain_repeat(const bench_plain *p) {
    const float *restrict x = p->x;
    float *restrict z = p->z;
    for (int64_t e = 0; e < p->n * p->k; e++) z[2 * e] = z[2 * e + 1] = x[e];
}

CLONES void bench_plain_transposed(const bench_plain *p) {
    enum { SIDE = 16 };
    const float *restrict x = p->x, *restrict y = p->y;
    float *restrict z = p->z;
    for (int64_t r = 0; r < p->n; r += SIDE)
        for (int64_t c = 0; c < p->k; c += SIDE) {
            const int64_t r_end = r + SIDE < p->n ? r + SIDE : p->n, c_end = c + SIDE < p->k ? c + SIDE : p->k;
            for (int64_t a = r; a < r_end; a++)
                for (int64_t b = c; b < c_end; b++) z[a * p->k + b] = x[b * p->n + a] + y[a * p->k + b];
        }
}

CLONES void bench_plain_argmax(const bench_plain *p) {
    int64_t *z = (int64_t *)(void *)p->z;
    for (int64_t r = 0; r < p->n; r++) {
        const float *x = p->x + r * p->k;
        float most[LANES];
        int32_t at[LANES];
        for (int l = 0; l < LANES; l++) most[l] = -INFINITY, at[l] = l;
        for (int32_t c = 0; c + LANES <= p->k; c += LANES)
            for (int l = 0; l < LANES; l++) {
                at[l] = x[c + l] > most[l] ? c + l : at[l];
                most[l] = x[c + l] > most[l] ? x[c + l] : most[l];
            }
        int best = 0;
        for (int l = 1; l < LANES; l++)
            if (most[l] > most[best] || (most[l] == most[best] && at[l] < at[best])) best = l;
        z[r] = at[best];
        for (int64_t c = p->k / LANES * LANES; c < p->k; c++)
            if (x[c] > x[z[r]]) z[r] = c;
    }
}

CLONES void bench_plain_tanh(const bench_plain *p) {
    const float *restrict x = p->x;
    float *restrict z = p->z;
    for (int64_t e = 0; e < p->n * p->k; e++) {
        const float a = fabsf(x[e]), s = a * a, t = plain_exp(-2 * a);
        const float small =
            a + a * (s * (-0x1.555534p-2f + s * (0x1.110788p-3f + s * (-0x1.b84782p-5f + s * (0x1.5268b2p-6f + s * -0x1.76f19ap-8f)))));
        const float large = (1 - t) / (1 + t);
        z[e] = copysignf(a < 0.625f ? small : large, x[e]);
    }
}

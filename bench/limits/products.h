/* Products of matrices and nothing else, by OpenBLAS: what a layer cannot do without. Each of two
 * pinned threads makes its half of them, with one thread of OpenBLAS, and meets the other once. */
#ifndef BENCH_PRODUCTS_H
#define BENCH_PRODUCTS_H

#include "pair.h"

/* c (m, n) = a (m, k) b (k, n), f32, rows behind each other; `count` of them, one behind
 * the other, each with operands and a result of its own unless `how` says otherwise. */
typedef struct bench_product {
    int32_t m, n, k, count, how;
} bench_product;
/* how: */
enum {
    BENCH_A_TURNED = 1, /* the operand lies the other way round */
    BENCH_B_TURNED = 2,
    BENCH_SAME_B = 4, /* all have one b: weights */
    BENCH_SAME_C = 8, /* all have one result, which is used at once: scores */
    BENCH_SAME_A = 16
};

typedef struct bench_products bench_products;

/* The products of one thread; a list that ends with m = 0. NULL: no OpenBLAS or no memory; says
 * so. */
bench_products *bench_products_open(bench_pair *pair, const bench_product *list);
void bench_products_close(void *self);
bool bench_products_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

#endif

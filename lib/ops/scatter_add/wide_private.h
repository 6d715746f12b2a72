/* Sums of f16, bf16 and f32 on the host, made in double: the declarations of wide.c and
 * wide_bucket.c. */
#ifndef MST_SCATTER_ADD_WIDE_PRIVATE_H
#define MST_SCATTER_ADD_WIDE_PRIVATE_H

#include "scatter_add_private.h"

#include <string.h>

/* The rows of the bucket that is added up, and their sums, one row behind the other. */
typedef struct mst_wide_sums {
    double *sums;
    char *touched; /* has the row sums? of rows of several elements */
    char *y;       /* row 0 */
    int64_t stride, elements;
} mst_wide_sums;

/* An index in the order of the buckets: its row in the bucket, and what it brings. Where rows have
 * one element, the row is in the lowest 32 bits, and the value as a float in the highest. Elsewhere
 * it is in the lowest plan.bits, and the place of the row of x in the others. One word, since a
 * word is written in one store. */
typedef uint64_t mst_wide_entry;

static inline mst_wide_entry mst_wide_entry_of(uint64_t row, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint64_t)bits << 32 | row;
}
static inline uint32_t mst_wide_entry_row(mst_wide_entry entry) { return (uint32_t)entry; }
static inline float mst_wide_entry_value(mst_wide_entry entry) {
    const uint32_t bits = (uint32_t)(entry >> 32);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A call. */
typedef struct mst_wide_run {
    const mst_scatter_add_request *p;
    mst_scatter_add_wide plan;
    mst_wide_sums w;
    int64_t x_stride;  /* between rows, in bytes */
    bool contiguous;   /* rows of x and y are */
    bool inside;       /* all indices name rows of y */
    mst_iterator y, x; /* one row, beside the sums, where they are not contiguous */
    int64_t *begins;   /* with several buckets: [buckets + 1], of each in the order */
    mst_wide_entry *order;
} mst_wide_run;

/* n values of x from `begin` on, each a row, as floats: where they lie, or in `block`. */
const float *mst_wide_values(const mst_wide_run *run, int64_t begin, int64_t n, float *block);
/* Adds to the rows of bucket b all of x whose indices name them; there are so many, `indices`. */
void mst_wide_bucket(mst_wide_run *run, int64_t b, int64_t indices);

#endif

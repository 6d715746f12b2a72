/* The initial values of variables: which numbers, and drawing them by index. */
#ifndef MST_INITIALISE_PRIVATE_H
#define MST_INITIALISE_PRIVATE_H

#include "muster/initialiser.h"

typedef enum { MST_DRAW_CONSTANT, MST_DRAW_UNIFORM, MST_DRAW_NORMAL, MST_DRAW_TRUNCATED, MST_DRAW_TABLE } mst_draw_kind;

typedef struct mst_draw {
    mst_draw_kind kind;
    muster_dtype dtype;
    uint64_t seed;
    double a, b;   /* the constant; low and high; mean and deviation */
    double *table; /* [elements of the whole value], owned; NULL: none */
} mst_draw;

/* draw.c: elements [first, first + count) of the whole value, into contiguous host memory. */
void mst_draw_fill(const mst_draw *draw, int64_t first, int64_t count, void *to);

/* orthogonal.c: table = gain times the orthogonal matrix of `seed`, row major. OUT_OF_MEMORY. */
muster_status mst_draw_orthogonal(mst_draw *draw, const char *where, int64_t rows, int64_t columns, double gain);

#endif

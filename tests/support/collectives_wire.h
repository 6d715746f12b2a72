/* What sums and averages in a wire dtype must give, bit for bit, computed by one thread with plain
 * loops and explicit roundings. Shares no code with the library but its dtypes. */
#ifndef COLLECTIVES_WIRE_H
#define COLLECTIVES_WIRE_H

#include "muster/dtype.h"

#include <stdbool.h>

enum { WIRE_RANKS = 8 };

/* The number of f16, bf16 or f32 that is nearest to x, ties to even. */
double wire_rounded(muster_dtype dtype, double x);

/* One element of a reduction. */
typedef struct wire_element {
    int32_t processes;
    int32_t each[WIRE_RANKS];      /* the ranks of each process */
    double values[WIRE_RANKS];     /* of the ranks, which `dtype` has */
    double weights[WIRE_RANKS];    /* of the ranks, where it is an average with weights */
    muster_dtype dtype, wire;      /* wire MUSTER_F32: values travel as they are summed */
    bool average, weighted, apart; /* apart: the values of every rank travel (naive, flat) */
} wire_element;
double wire_result(const wire_element *e);
/* The sum that reaches a rule of gradients: without the way back. */
double wire_gradient(const wire_element *e);

#endif

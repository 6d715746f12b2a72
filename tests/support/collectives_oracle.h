/* What reductions must give, computed by one thread with plain loops, and the inputs for them.
 * Shares no code with the library but its dtypes. */
#ifndef COLLECTIVES_ORACLE_H
#define COLLECTIVES_ORACLE_H

#include "muster/ops.h"

#include <stdbool.h>

/* Is the reduction of this dtype defined? By a table of the test's own, so that a dtype that the
 * library refuses by mistake is missed. */
bool oracle_defines(muster_reduction op, muster_dtype dtype);
/* How many pairs of reduction and dtype that table has. */
enum { ORACLE_REDUCTIONS = 51 };

/* Fills `vector` (contiguous, `count` elements) with the numbers of the stream `which`. Floats: of
 * both signs, from 0.5 to 2 in size. Integers: any. */
void oracle_fill(muster_dtype dtype, void *vector, int64_t count, uint64_t which);

/* expected (contiguous, in dtype) = op over vectors[0..size), element by element; of integers and
 * bool, where it is exact. */
void oracle_whole(muster_reduction op, muster_dtype dtype, void *const *vectors, int32_t size, void *expected, int64_t count);

/* The first element of `received` that is too far from op over the vectors of floats; with a
 * parameter: from parameter + alpha * op over the vectors. -1: none.
 * f32: 1e-5 of the largest value that can occur in the sum; f64: 1e-13; f16 and bf16: their
 * rounding besides, once. max and min: exact. */
int64_t oracle_float(muster_reduction op, muster_dtype dtype, void *const *vectors, int32_t size, const void *parameter, double alpha,
                     const void *received, int64_t count);

/* The same for `steps` times velocity = beta * velocity + alpha * (sum over the vectors), parameter
 * = parameter + velocity, from a velocity of zeros; every stored value has its rounding. */
typedef struct oracle_steps {
    double alpha, beta;
    int32_t steps;
} oracle_steps;
int64_t oracle_momentum(muster_dtype dtype, void *const *vectors, int32_t size, const void *parameter, const oracle_steps *steps,
                        const void *received, int64_t count);

/* A float as a number. */
double oracle_value(muster_dtype dtype, const void *vector, int64_t i);

#endif

/* Elements of NCCL's types: combined as NCCL combines them, in the type itself and rounded at every
 * step. */
#ifndef SIM_NCCL_ARITHMETIC_H
#define SIM_NCCL_ARITHMETIC_H

#include <stddef.h>
#include <stdint.h>

enum { SIM_SUM, SIM_PROD, SIM_MAX, SIM_MIN }; /* numbered as ncclRedOp_t */

/* Bytes of an element; 0: no type that the simulated library knows (the 8-bit floats are left
 * out). */
size_t sim_nccl_type_size(unsigned int type);

/* into[i] = operation(into[i], from[i]). Integers wrap; of a number and a NaN, MAX and MIN give the
 * number. */
void sim_nccl_combine(unsigned int type, int operation, void *into, const void *from, size_t count);

/* values[i] *= scalar, which is of the same type. */
void sim_nccl_scale(unsigned int type, void *values, size_t count, const void *scalar);

/* What an average does: 1 / ranks, of a float type, goes before the sum; integers are divided after
 * it, towards 0. */
int sim_nccl_is_float(unsigned int type);
void sim_nccl_reciprocal(unsigned int type, int ranks, void *scalar);
void sim_nccl_divide(unsigned int type, void *values, size_t count, int ranks);

#endif

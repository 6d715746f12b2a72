/* Blocks of f16 and bf16 as f32: loops that compute in float convert a block, compute it and
 * convert it back, so that the conversions are compiled once. */
#ifndef MST_HALF_BLOCKS_PRIVATE_H
#define MST_HALF_BLOCKS_PRIVATE_H

#include "op_impl.h"

/* n elements of x or y, which lie `stride` bytes apart. */
void mst_load_f16(const char *x, int64_t stride, int64_t n, float *block);
void mst_load_bf16(const char *x, int64_t stride, int64_t n, float *block);
void mst_store_f16(char *y, int64_t stride, int64_t n, const float *block);
void mst_store_bf16(char *y, int64_t stride, int64_t n, const float *block);

/* The loop of an iterator with one operand and one result through the loop of the same operation
 * for f32. The bits are those of a loop that converts each element by itself. */
void mst_loop_as_f16(mst_iterator_loop f32, char *const *at, const int64_t *stride, int64_t n);
void mst_loop_as_bf16(mst_iterator_loop f32, char *const *at, const int64_t *stride, int64_t n);

#endif

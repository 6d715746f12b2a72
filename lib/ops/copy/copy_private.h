/* Copies of layouts for which a loop along the last axis would be slow. Both return false, and do
 * nothing, where the iterator has another layout. Operand 0 is read, operand 1 written; their
 * elements have `size` bytes. */
#ifndef MST_COPY_PRIVATE_H
#define MST_COPY_PRIVATE_H

#include "../op_impl.h"

/* x is contiguous along another axis than y. */
bool mst_copy_transposed(const mst_iterator *iterator, int64_t size);
/* Each element of x a few times, one behind the other. */
bool mst_copy_repeated(const mst_iterator *iterator, int64_t size);

#endif

/* What the files of graph_invariance.h share: elements by their places, and the list of values. */
#ifndef GRAPH_INVARIANCE_PRIVATE_H
#define GRAPH_INVARIANCE_PRIVATE_H

#include "graph_invariance.h"

/* Elements of a tensor at most. */
enum { MOST = 1 << 16 };

double invariance_element(uint64_t seed, invariance_kind kind, int64_t place);
/* Of a kind, in a case of this dtype. */
muster_dtype invariance_dtype(invariance_kind kind, muster_dtype dtype);
double invariance_read(const void *memory, muster_dtype dtype, int64_t i);
void invariance_write(void *memory, muster_dtype dtype, int64_t i, double value);
void invariance_add(invariance_values *values, const void *memory, muster_dtype dtype, int64_t count);

#endif

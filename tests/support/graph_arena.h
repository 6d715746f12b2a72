/* Memory of graphs that runs out: graphs take their memory in large pieces, so that hardly any of
 * what they take is an allocation that mst_memory_fail_at could let fail. */
#ifndef GRAPH_ARENA_H
#define GRAPH_ARENA_H

#include <stdbool.h>

/* From now on all that a graph or a compiled function takes counts as an allocation for
 * mst_memory_fail_at and mst_memory_count, or no longer. */
void graph_arena_counts(bool counts);

#endif

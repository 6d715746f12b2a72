/* How the workers of a graph with MUSTER_ONE_DEVICE share its values. Before such a graph becomes a
 * function, one sweep gives every node a distribution (graph_private.h), the cheapest by the bytes
 * that workers move, and puts exchanges where a value is needed in another one. The shapes of types
 * stay those of the whole value, so that a node means what it means on one device. */
#ifndef MST_DISTRIBUTION_PRIVATE_H
#define MST_DISTRIBUTION_PRIVATE_H

#include "../operators/operators_private.h"

/* ---- parts ---- */

/* The shape of the worker's own value of a type. -1 in a size that overflows. */
void mst_local_shape(const mst_graph *graph, const mst_type *type, mst_distribution distribution, const int64_t sizes[MST_SIZES],
                     const mst_sharing *sharing, int64_t *shape);

/* ---- exchanges.c ---- */

/* The operation of the exchange between two distributions; -1: there is none. */
int32_t mst_exchange_between(mst_distribution from, mst_distribution to);
/* The bytes that each of `workers` receives of a value of `bytes`, on average. */
double mst_exchange_bytes(mst_distribution from, mst_distribution to, double bytes, int32_t workers);
/* Is the node an exchange in which workers meet? */
bool mst_node_exchanges(const muster_expr *node);

/* ---- report.c ---- */

enum { MST_DISTRIBUTION_TEXT = 24 };
/* Such as "cut along 0". "" for a graph that is not distributed. */
const char *mst_distribution_text(mst_distribution distribution, char text[MST_DISTRIBUTION_TEXT]);
/* The bytes that each worker receives in an exchange, on average; 0 for another node. */
double mst_exchange_received(const muster_expr *node, const int64_t sizes[MST_SIZES], int32_t workers);

/* ---- wishes.c ---- */

/* wishes[count], by id, MST_LOCAL before: becomes the part in which a value is needed later, for
 * the update of a split parameter. */
void mst_graph_wish(const mst_graph *graph, const bool *used, int32_t count, mst_distribution *wishes);

/* ---- distribute.c ---- */

/* Does the operator have this way to compute a result in this distribution? operands[] become the
 * distributions that it needs. */
bool mst_has_result_in(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);

/* Every output and update of the graph gets the node that computes its value on this worker.
 * `rows`: the number of rows of a call for which the cheapest way is chosen. Errors:
 * OUT_OF_MEMORY. */
muster_status mst_graph_distribute(mst_graph *graph, int64_t rows);

#endif

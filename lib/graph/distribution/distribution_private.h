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

/* ---- convert.c: the values of a graph that is being distributed ---- */

/* A value may be needed in several distributions. */
enum { MST_VALUE_COPIES = 4, MST_NODE_WAYS = 8 };
typedef struct mst_copies {
    muster_expr *nodes[MST_VALUE_COPIES]; /* the first is the one that was computed */
    int32_t count;
} mst_copies;

typedef struct mst_distributing {
    mst_graph *graph;
    int32_t count, workers; /* count: of nodes when the sweep begins */
    bool *used;
    mst_copies *made;         /* by the id before */
    mst_distribution *wishes; /* by the id before; MST_LOCAL: there is none */
    int64_t sizes[MST_SIZES];
    /* With logical shards nothing may depend on the number of devices: only rows are cut, partial
     * values are combined at once, and costs are those of as many workers as there are shards. */
    bool shards;
    bool rows_only;     /* only rows are cut */
    bool micro_batches; /* rows that are gathered end the loop over micro-batches: memory, not time, counts */
} mst_distributing;

double mst_elements_of(const mst_distributing *d, const mst_type *type);
double mst_bytes_of(const mst_distributing *d, const mst_type *type);
/* The same operation on other operands. The error node: out of memory. */
muster_expr *mst_node_with(const muster_expr *node, muster_expr *const *inputs, mst_distribution distribution);
/* The cheapest way from a copy of the value to the distribution: the bytes; *from becomes the copy.
 * INFINITY: there is none. */
double mst_conversion_cost(const mst_distributing *d, const mst_copies *value, mst_distribution wanted, int32_t *from);
muster_expr *mst_exchange_make(const muster_expr *node, mst_distribution wanted);
/* The value in this distribution, which becomes one of its copies. */
muster_expr *mst_value_convert(const mst_distributing *d, mst_copies *value, mst_distribution wanted);

/* ---- report.c ---- */

enum { MST_DISTRIBUTION_TEXT = 24 };
/* Such as "cut along 0". "" for a graph that is not distributed. */
const char *mst_distribution_text(mst_distribution distribution, char text[MST_DISTRIBUTION_TEXT]);
/* The bytes that each worker receives, on average, when the value of the node is brought to another
 * distribution. */
double mst_bytes_received(const muster_expr *node, mst_distribution to, const int64_t sizes[MST_SIZES], int32_t workers);

/* ---- wishes.c ---- */

/* wishes[count], by id, MST_LOCAL before: becomes the distribution in which the update of a
 * parameter needs the value later. */
void mst_graph_wish(const mst_graph *graph, const bool *used, int32_t count, mst_distribution *wishes);

/* ---- halves.c ---- */

/* Returns whether the result is a partial sum that is computed and exchanged in a wider dtype. */
bool mst_travels_wide(const mst_distributing *d, const muster_expr *node, mst_distribution result);
/* The value of such a node, which every worker has. inputs[]: its operands, as the way needs
 * them. */
muster_expr *mst_node_combined(const muster_expr *node, muster_expr **inputs, mst_distribution result);
/* Is it a cast to halves of partial sums that the update of a parameter sums? They travel in the
 * dtype of the parameter. */
bool mst_is_rounded_before(const muster_expr *node, mst_distribution result, mst_distribution wish, mst_distribution *operands);

/* ---- distribute.c ---- */

/* Does the operator have this way to compute a result in this distribution? operands[] become the
 * distributions that it needs. */
bool mst_has_result_in(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);

/* Every output and update of the graph gets the node that computes its value on this worker.
 * `rows`: the number of rows of a call for which the cheapest way is chosen. `micro_batches`: rows
 * stay apart where they can. Errors: OUT_OF_MEMORY. */
muster_status mst_graph_distribute(mst_graph *graph, int64_t rows, bool micro_batches);

#endif

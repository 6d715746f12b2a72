/* A training with statistics over rows and dropout, in a runtime with logical shards, whose bits
 * are the same for every number of devices and processes that divides the number of shards. */
#ifndef GRAPH_SHARDS_H
#define GRAPH_SHARDS_H

#include "graph_fixture.h"
#include "muster/rule.h"

enum { SHARDS_VALUES = 8192 };

/* Everything that a training leaves: the logits of the last step, losses, parameters, states. */
typedef struct shards_results {
    float values[SHARDS_VALUES];
    int64_t count;
} shards_results;

/* Three steps with so many rows, at most 64. Asserts that the first and the last device have the
 * same parameters. */
void shards_train(muster_runtime *runtime, int64_t rows, muster_update_rule rule, shards_results *r);
bool shards_equal(const shards_results *a, const shards_results *b);

#endif

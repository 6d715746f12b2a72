/* A small training by Adam whose steps may be ended: what test_cancel and test_nodes_cancel
 * share. */
#ifndef GRAPH_TRAINING_H
#define GRAPH_TRAINING_H

#include "graph_fixture.h"

enum { TRAINING_IN = 6, TRAINING_HIDDEN = 16, TRAINING_OUT = 4, TRAINING_ROWS = 48, TRAINING_PARAMETERS = 2 };

typedef enum { PLAIN, CLIPPED, SPLIT, EAGER, MICRO, EAGER_MICRO, TRAINING_WAYS } training_way;
extern const char *const training_way_names[TRAINING_WAYS];

typedef struct training_values {
    double w[TRAINING_IN * TRAINING_HIDDEN], v[TRAINING_HIDDEN * TRAINING_OUT];
} training_values;

typedef struct training {
    muster_runtime *runtime;
    muster_variable *parameters[TRAINING_PARAMETERS];
    muster_function *function;
    double x[TRAINING_ROWS * TRAINING_IN], t[TRAINING_ROWS * TRAINING_OUT];
} training;

/* The caller closes the runtime. With several processes these are calls of all. */
void training_open(training *t, muster_runtime *runtime, training_way way);
muster_status training_step(training *t);
void training_read(const training *t, training_values *all);

#endif

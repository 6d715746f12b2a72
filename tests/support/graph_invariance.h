/* The same graph on one device and on several: what a case is, and how it is run. All values that a
 * run leaves (outputs, every replica of every variable, statuses) are written down in one list, in
 * f64, so that the lists of two runs can be compared. */
#ifndef GRAPH_INVARIANCE_H
#define GRAPH_INVARIANCE_H

#include "graph_fixture.h"

#include <stdbool.h>

enum { INVARIANCE_PORTS = 8, INVARIANCE_DIMS = 4 };
/* Sizes in shapes besides numbers: the rows of the call, and the named size "time". */
enum { ROWS = MUSTER_ROWS, TIME = -2000 };
enum { INVARIANCE_TIME = 5 };

/* What the elements of an input or a variable are. Each follows from its place in the whole value,
 * so that it is the same however the rows are shared out. */
typedef enum invariance_kind {
    NUMBERS, /* of the case's dtype, in (-1, 1) */
    WHOLES,  /* of the case's dtype, integers from -3 to 3 */
    LABELS,  /* i32, from 0 to 2 */
    COUNTER  /* i64, 7 */
} invariance_kind;

typedef struct invariance_port {
    const char *name; /* NULL ends a list */
    invariance_kind kind;
    int32_t ndim;
    int64_t shape[INVARIANCE_DIMS];
    bool broadcast; /* of an input: every device gets all of it; else it is scattered */
} invariance_port;
#define SHAPE_OF(...) .ndim = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .shape = {__VA_ARGS__}

typedef struct invariance_text {
    const char *name, *text; /* NULL ends a list */
    int32_t mode;            /* of an output */
} invariance_text;

typedef struct invariance_case invariance_case;
struct invariance_case {
    const char *name;
    invariance_port inputs[INVARIANCE_PORTS + 1], variables[INVARIANCE_PORTS + 1];
    const char *let; /* a text, by the name "it" in those below; NULL: none */
    invariance_text outputs[INVARIANCE_PORTS + 1];
    invariance_text updates[INVARIANCE_PORTS + 1]; /* by the name of the variable */
    const char *loss;                              /* a text: every variable v becomes v - 0.25 d loss / d v; NULL: none */
    bool exact;                                    /* the values are those of one device, bit for bit */
    int64_t most_rows;                             /* 0: any number */
    bool needs_rows;                               /* 0 rows are refused */
    /* What is not said by texts, after the inputs and variables exist: *x[] are their expressions.
     * Names of outputs are the caller's. NULL: nothing. */
    void (*build)(muster_graph *graph, muster_expr *const *x, int32_t count, const invariance_case *its);
    uint64_t seed;
};

/* The fixed list of cases. */
extern const invariance_case invariance_cases[];
extern const int32_t invariance_case_count;

/* A random graph whose values have rows, with its gradients. */
invariance_case invariance_random(uint64_t seed);

/* How a case is run. */
typedef struct invariance_way {
    muster_dtype dtype;  /* MUSTER_F64 or MUSTER_F32 */
    const int64_t *rows; /* of each call, in their order */
    int32_t calls;
    int32_t selection; /* 0, MUSTER_SELECT_RANGE or MUSTER_SELECT_LIST: a batch of twice as many rows */
    bool minibatch;    /* scattered inputs hold the selected rows only */
    bool asynchronous;
    uint32_t unwanted; /* a mask of outputs */
    bool unshared, unfused, unsimplified, checked, timed, plain_layout;
    int64_t expected_rows; /* muster_graph_options.rows */
    int64_t micro_batches; /* muster_graph_options.micro_batches */
    int64_t memory_limit;  /* muster_graph_options.memory_limit */
} invariance_way;

/* A list of values. Free it by invariance_free. */
typedef struct invariance_values {
    double *items;
    int64_t count, capacity;
    int64_t *ends; /* of each value in items[] */
    int32_t value_count, value_capacity;
    char message[MST_MESSAGE_SIZE]; /* of the first call that failed; empty: none */
    int64_t repeated;               /* steps that computed values again, of all calls and devices */
} invariance_values;

/* Runs the case on the runtime. Fails the test where a replica of a variable differs from another,
 * though each device should have the same. */
void invariance_run(muster_runtime *runtime, const invariance_case *its, const invariance_way *way, invariance_values *values);
void invariance_free(invariance_values *values);
/* The largest difference of two lists, each value as a part of its largest element (at least 1);
 * NaN equals NaN. INFINITY where the lists have other shapes, or other statuses. */
double invariance_distance(const invariance_values *a, const invariance_values *b);

/* The runtimes of these texts, opened once; closed by devices_close. The discrete device is
 * known. */
muster_runtime *devices_open(const char *devices);
/* The same with logical shards. */
muster_runtime *devices_open_shards(const char *devices, int32_t shards);
int devices_close(void **state);

#endif

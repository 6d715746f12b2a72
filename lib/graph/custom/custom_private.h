/* Operators of the program: what graphs and their functions share of one, and its parts. */
#ifndef MST_CUSTOM_PRIVATE_H
#define MST_CUSTOM_PRIVATE_H

#include "graph_private.h"
#include "muster/operator.h"
#include "runtime_impl.h"

#include <pthread.h>

/* The kernels of an operator for the dtypes of some of its applications. */
typedef struct mst_custom_kernels {
    struct mst_custom_kernels *next;
    muster_dtype types[MST_GRAPH_OPERANDS + MST_RESULTS];
    int32_t type_count;
    muster_kernel **items;
    int32_t count;
} mst_custom_kernels;

/* One argument of `launch`. */
typedef enum mst_custom_value {
    MST_CUSTOM_BUFFER,
    MST_CUSTOM_ELEMENTS,
    MST_CUSTOM_SHAPE,
    MST_CUSTOM_STRIDE,
    MST_CUSTOM_ATTRIBUTE
} mst_custom_value;
typedef struct mst_custom_argument {
    mst_custom_value value;
    int32_t index; /* of an attribute or an operand; results are -1, -2, -3 */
    int32_t axis;
} mst_custom_argument;

typedef struct mst_custom {
    mst_operator row;  /* what nodes refer to */
    mst_object object; /* in the list of the runtime as long as both live */
    atomic_int references;
    atomic_bool closed; /* by the runtime */
    bool named;         /* guarded by mst_custom_lock */
    struct mst_custom *next;
    muster_operator *handle;
    muster_operator_options options; /* pointers into memory */
    mst_custom_argument *arguments;
    int32_t argument_count;
    mst_owned *owned;
    mst_custom_kernels *kernels; /* guarded by mst_custom_lock */
    mst_arena memory;
} mst_custom;

struct muster_operator {
    mst_custom *custom; /* NULL: destroyed */
};

/* What callbacks receive. */
struct muster_operator_node {
    const mst_custom *custom;
    mst_graph *graph;              /* NULL: in a body */
    mst_draft *draft;              /* in a rule */
    const mst_graph_value *values; /* of attributes; sizes are entries of mst_dim_entry, or numbers */
    void *state;
    const mst_custom_kernels *kernels;
};

/* A callback that runs: guards against operators that need themselves. */
typedef struct mst_custom_frame {
    struct mst_custom_frame *outer;
    const mst_custom *custom;
    bool gradient;
} mst_custom_frame;

static inline mst_custom *mst_custom_of(const mst_operator *row) { return (mst_custom *)(uintptr_t)row; }

/* ---- custom.c ---- */

extern pthread_mutex_t mst_custom_lock;

/* ---- options.c: reading what the program says ---- */

/* Checks the options and copies them into `custom`. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. */
muster_status mst_custom_describe(mst_custom *custom, const char *name, const muster_operator_options *given);
/* The arguments of options.launch. */
muster_status mst_custom_launch_read(mst_custom *custom);

/* ---- build.c: an application becomes a node ---- */

muster_status mst_custom_infer(mst_draft *draft);
/* The rows of the results from those of the operands. */
bool mst_custom_distribute(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);
/* The characters of a text, ended by a 0, in place of the list. NULL: out of memory. */
const int64_t *mst_custom_text(mst_arena *memory, const mst_graph_value *value);
/* Copies of the values, whose sizes are entries and whose texts are characters, in the arena of the
 * graph. NULL: out of memory. */
const mst_graph_value *mst_custom_values(mst_graph *graph, const mst_operator *row, const mst_graph_value *values);
/* What a callback runs inside of; saves what it changes. */
typedef struct mst_custom_saved {
    mst_origin origin;
    const mst_operator *op;
    mst_custom_frame frame;
    uint64_t errors;
    bool failed_before;
} mst_custom_saved;
void mst_custom_enter(mst_graph *graph, const mst_custom *custom, bool gradient, mst_custom_saved *saved);
void mst_custom_leave(mst_graph *graph, const mst_custom_saved *saved);
/* The status of a callback that has failed, with a message that says the part: "<place>:
 * muster_expr_<name>: <part>: ...". */
muster_status mst_custom_failed(mst_graph *graph, const mst_custom *custom, const char *part, const mst_custom_saved *saved,
                                muster_status status);

/* ---- gradient.c, text.c ---- */

void mst_custom_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *dy);
muster_expr *mst_custom_expand(mst_draft *draft);
/* Does the text make an expression? Errors: INVALID_ARGUMENT. */
muster_status mst_custom_text_check(mst_custom *custom, muster_runtime *runtime);

/* ---- step.c: an application runs ---- */

muster_status mst_custom_compile(const muster_expr *node);
muster_status mst_custom_run(muster_worker *worker, const mst_step_run *run);
bool mst_custom_view(const mst_step_run *run, muster_tensor *result);
/* The view as the operator says it; *outside: it has elements that the operand lacks. */
bool mst_custom_view_make(const mst_step_run *run, muster_tensor *result, bool *outside);
void mst_custom_release(void *state);

/* ---- kernels.c ---- */

/* The kernels for the dtypes of the node, made if they are not there yet. */
muster_status mst_custom_kernels_make(mst_custom *custom, const muster_expr *node);
const mst_custom_kernels *mst_custom_kernels_find(const mst_custom *custom, const muster_expr *node);
muster_status mst_custom_launch(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out);
/* Destroys them, unless the runtime has. */
void mst_custom_kernels_free(mst_custom *custom);

#endif

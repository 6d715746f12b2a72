/* The inside of a graph: nodes, sizes, and how they are made. The nodes of a graph are never
 * changed and never freed singly. A compiled function shares them with its graph. */
#ifndef MST_GRAPH_PRIVATE_H
#define MST_GRAPH_PRIVATE_H

#include "dtype_impl.h"
#include "memory_impl.h"
#include "muster/graph.h"
#include "operation_impl.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

/* ---- arena.c: memory that is freed all at once ---- */

typedef struct mst_arena {
    struct mst_arena_chunk *chunks;
    size_t used, capacity; /* of the newest chunk */
} mst_arena;
/* Zeroed, aligned to 16 bytes. NULL when out of memory. */
void *mst_arena_take(mst_arena *arena, size_t bytes);
char *mst_arena_text(mst_arena *arena, const char *text);
/* Takes a block back, if nothing has been taken since. `bytes` is the size that was asked for. */
void mst_arena_untake(mst_arena *arena, void *block, size_t bytes);
void mst_arena_free(mst_arena *arena);

/* ---- dim.c: sizes of axes, some of which only a call knows ---- */

/* A size is a product: a number times powers of named sizes. Equal sizes have equal numbers, so
 * that two of them are compared by ==. */
enum { MST_SIZES = 8, MST_SIZE_ROWS = 0 };
typedef int32_t mst_dim;
enum { MST_DIM_ONE = 0, MST_DIM_NONE = -1 };
typedef struct mst_monomial {
    int64_t factor;
    int8_t powers[MST_SIZES];
} mst_monomial;

/* ---- nodes ---- */

typedef struct mst_operator mst_operator;
typedef struct mst_graph mst_graph;

/* Where the program made a node: its own words, or the node whose gradient led to this one. */
typedef struct mst_origin {
    const char *where; /* NULL: unknown */
    const muster_expr *forward;
    struct mst_origin *next; /* a node that was made in several places has all of them */
} mst_origin;

/* The value of an attribute, as its kind says. A list of sizes holds numbers of mst_dim. */
typedef struct mst_graph_value {
    double number;
    int64_t integer;
    const int64_t *list;
    int32_t count;
} mst_graph_value;
#define MST_NO_VALUE ((mst_graph_value){.count = 0})
/* As the count of an attribute that is a number: its integer is what the number, an f64, lacks. Of
 * plain numbers, and of the attributes that take them, the same holds in mst_graph_value. */
enum { MST_ATTRIBUTE_REST = INT32_MIN + 1 };

typedef struct mst_type {
    muster_dtype dtype;
    int32_t ndim;
    mst_dim dims[MUSTER_MAX_DIMS];
} mst_type;

/* How the workers of a graph with MUSTER_ONE_DEVICE share a value. The dims of a type are those of
 * the whole value. */
typedef enum mst_distribution_kind {
    MST_LOCAL = 0, /* the graph is not distributed: each worker has a value of its own */
    MST_SAME,      /* every worker has the whole value */
    /* Each worker has a part along `axis`. If the size of the axis has the factor `rows`, which
     * then varies slowest, the parts are those of the call's rows; else they are even. */
    MST_CUT,
    MST_PARTIAL, /* every worker has a value of the whole shape; `op` combines them to the value */
} mst_distribution_kind;
typedef struct mst_distribution {
    int8_t kind, axis;
    int16_t op; /* muster_reduction */
} mst_distribution;
#define MST_DISTRIBUTED_SAME ((mst_distribution){.kind = MST_SAME})
#define MST_DISTRIBUTED_CUT(along) ((mst_distribution){.kind = MST_CUT, .axis = (int8_t)(along)})
#define MST_DISTRIBUTED_PARTIAL(by) ((mst_distribution){.kind = MST_PARTIAL, .op = (int16_t)(by)})
static inline bool mst_same_distribution(mst_distribution a, mst_distribution b) {
    return a.kind == b.kind && a.axis == b.axis && a.op == b.op;
}

enum { MST_RESULTS = 6, MST_GRAPH_ATTRIBUTES = 8, MST_GRAPH_OPERANDS = 8, MST_TEXT_ATTRIBUTE = 64 };
struct muster_expr {
    mst_graph *graph;
    const mst_operator *op;
    muster_expr **inputs;
    const mst_graph_value *values; /* [the operator's attributes] */
    mst_type type;
    const mst_type *more; /* the types of results 1, 2 ...; NULL: there is one result */
    const char *name;
    const char *shape_text;
    mst_origin origin;
    int32_t id; /* nodes are numbered in the order of their creation: inputs have smaller numbers */
    int32_t input_count;
    uint32_t hash;
    int32_t at; /* inputs, variables: their index in the function; while compiling: the position */
    mst_distribution distribution;
};

typedef struct mst_graph_port {
    const char *name;
    muster_expr *node;    /* that is computed */
    muster_expr *written; /* outputs, updates: as the program wrote it */
    muster_variable *variable;
    int32_t mode;
    int8_t pass; /* of an update: MST_PORT_... */
} mst_graph_port;
/* What an update has in place of its new value, if one pass makes it (rules/pass_private.h): the
 * gradient of a parameter, or, of a state, nothing. */
enum { MST_PORT_ALONE = 0, MST_PORT_GRADIENT, MST_PORT_STATE };

typedef struct mst_ports {
    mst_graph_port *items;
    int64_t capacity;
    int32_t count;
} mst_ports;

/* ---- names.c: expressions by their names ---- */

typedef struct mst_name {
    const char *text; /* not terminated; NULL: a free slot */
    int32_t length;
    uint32_t hash;
    muster_expr *node; /* NULL: several expressions have the name */
} mst_name;

typedef struct mst_names {
    mst_name *slots; /* hashed; size is a power of 2 */
    int32_t size, used;
} mst_names;

/* `text` must live as long as the table. Errors: OUT_OF_MEMORY. */
muster_status mst_names_add(mst_names *names, const char *text, int32_t length, muster_expr *node);
const mst_name *mst_names_find(const mst_names *names, const char *text, int32_t length);
void mst_names_free(mst_names *names);

/* What a graph and the functions compiled from it share. */
struct mst_graph {
    atomic_int references;
    muster_graph *handle;
    mst_arena arena;
    char *name;
    /* While the life has not ended: the graph belongs to the program, which may close the runtime
     * first. */
    muster_runtime *runtime;
    struct mst_pool_life *life;
    bool frozen;
    bool simplifying;     /* the pass may make more nodes than a program */
    muster_status status; /* of the first error */
    muster_status latest; /* of the latest */
    char message[MST_MESSAGE_SIZE];
    muster_expr *error; /* stands for all errors */

    muster_expr **nodes; /* by id */
    int64_t node_capacity;
    int32_t node_count;
    muster_expr **table; /* hashed; size table_size, a power of 2 */
    int32_t table_size, table_used;
    int64_t random_count;   /* of random operations so far */
    mst_origin origin;      /* of the nodes made now */
    const mst_operator *op; /* of the node made now */
    const char *last_where; /* the last text copied into the arena */

    mst_monomial *dims; /* by mst_dim */
    int64_t dim_capacity;
    int32_t dim_count;
    int32_t *dim_table; /* hashed: number + 1 */
    int32_t dim_table_size;
    const char *size_names[MST_SIZES];
    int32_t size_count;

    struct mst_custom_list *custom;        /* the operators of the program that it holds */
    struct mst_custom_frame *custom_frame; /* whose callbacks run now, the innermost first */

    mst_ports inputs, variables, outputs, updates;
    mst_ports scalars;              /* numbers that updates made in one pass need, while they are compiled */
    struct mst_update_rules *rules; /* what muster_graph_minimise was asked for; NULL: nothing */
    mst_names names;                /* of inputs, parameters and named expressions, for texts */
    mst_names output_names;
};

struct muster_graph {
    mst_graph *graph; /* NULL: destroyed */
};

enum { MST_GRAPH_NODES = 1 << 20 };

/* ---- dim.c ---- */

/* MST_DIM_NONE: out of memory, or the size overflows; the message is set. */
mst_dim mst_dim_number(mst_graph *graph, int64_t number);
mst_dim mst_dim_size(mst_graph *graph, int32_t size);
mst_dim mst_dim_multiply(mst_graph *graph, mst_dim a, mst_dim b);
/* a / b, where b divides a for all values of the sizes; else MST_DIM_NONE, with a message. */
mst_dim mst_dim_divide(mst_graph *graph, mst_dim a, mst_dim b);
/* a + b, where both are multiples of the same product of sizes; else MST_DIM_NONE, with a
 * message. */
mst_dim mst_dim_add(mst_graph *graph, mst_dim a, mst_dim b);
/* Is it the size "rows" itself? */
bool mst_dim_is_rows(const mst_graph *graph, mst_dim dim);
/* The number, or -1 for a size that only a call knows. */
int64_t mst_dim_constant(const mst_graph *graph, mst_dim dim);
/* The size for these values of the named sizes; -1 if it overflows. */
int64_t mst_dim_value(const mst_graph *graph, mst_dim dim, const int64_t sizes[MST_SIZES]);
/* A size that a program gives: a number, MUSTER_ROWS, a named size. MST_DIM_NONE: none of them. */
mst_dim mst_dim_read(mst_graph *graph, int64_t entry);
/* The same size as a program receives it: mst_dim_read reads it. */
int64_t mst_dim_entry(const mst_graph *graph, mst_dim dim);
int32_t mst_dim_print(const mst_graph *graph, mst_dim dim, char *text, size_t size);

/* ---- operators: what each operation is ---- */

/* The numbers are those of muster_attribute.kind. */
typedef enum mst_value_kind {
    MST_VALUE_NONE,
    MST_VALUE_NUMBER,
    MST_VALUE_INTEGER,
    MST_VALUE_DTYPE,
    MST_VALUE_LIST, /* of integers */
    MST_VALUE_DIMS, /* of sizes; MUSTER_INFER stays -1 */
    MST_VALUE_TEXT, /* a list of its characters */
} mst_value_kind;

typedef struct mst_attribute_row {
    const char *name; /* NULL ends the list */
    mst_value_kind kind;
    bool required;
    double number; /* the default of an attribute that is not required; of a list: no entries */
} mst_attribute_row;

/* A node before it is one. Inputs are nodes without errors. */
typedef struct mst_draft {
    mst_graph *graph;
    const mst_operator *op;
    muster_expr **inputs;
    int32_t count;
    mst_graph_value *values;
    mst_type types[MST_RESULTS];
    mst_distribution distribution;
} mst_draft;

/* Who shares the values of a distributed graph in a run. */
typedef struct mst_sharing {
    int32_t rank, size;
    int64_t rows;             /* of the call */
    const int64_t *row_edges; /* [size + 1]: worker r has the rows from row_edges[r] up to row_edges[r + 1] */
    /* With logical shards: shard s of this worker has the rows from shard_edges[s] up to
     * shard_edges[s + 1], counted from the worker's first. A partial value has one more axis, the
     * first, with a value for each shard. */
    int32_t shards_here; /* 0: there are no logical shards */
    const int64_t *shard_edges;
} mst_sharing;

/* What a step of a running program sees. */
typedef struct mst_step_run {
    const muster_expr *node;
    const muster_tensor *const *in; /* NULL for an operand that is a number, which the operator takes from the node */
    muster_tensor *const *out;      /* "no tensor": not wanted */
    const int64_t *sizes;           /* of mst_dim_value; of a distributed node: those of the whole */
    const mst_sharing *sharing;     /* of a distributed node */
    void **state;                   /* the operator's own, kept from run to run; NULL at first */
} mst_step_run;

/* What the gradients of operators add to. */
typedef struct mst_gradients mst_gradients;

enum {
    MST_OPERATOR_NUMBERS = 1, /* `run` takes an operand that is a number (0-d full) from the node */
    MST_OPERATOR_UNIQUE = 2,  /* two equal nodes are two values: never merged */
    MST_OPERATOR_HIDDEN = 4,  /* made by the library only */
    /* the gradients of the results after the first belong to `gradient` too (mst_gradient_of) */
    MST_OPERATOR_ALL_GRADIENTS = 8,
    /* An element of the result may be rounded otherwise if it is computed with other rows: with
     * logical shards, those of each shard are computed apart. */
    MST_OPERATOR_BY_SHARD = 16,
    /* It is about the rows that each device has: the result is always cut along axis 0. */
    MST_OPERATOR_OWN_ROWS = 32,
    /* As cheap as what is computed element by element: the result may be given up and computed
     * again (recompute/recompute_private.h). */
    MST_OPERATOR_CHEAP = 64,
};

struct mst_operator {
    const char *name; /* NumPy's word */
    const char *brief;
    int32_t id;
    int32_t operation; /* of muster/ops.h, where several operators share their functions */
    /* What computes the operator element by element: its operands are the operator's, its
     * attributes `operation` or the operator's. NULL: the operator does not work so. */
    const mst_op_row *elementwise;
    const char *operands[MST_GRAPH_OPERANDS + 2]; /* NULL ends the list; "..." after the last: one or more of it */
    int32_t optional;                             /* so many of the last operands may be missing */
    mst_attribute_row attributes[MST_GRAPH_ATTRIBUTES + 1];
    uint32_t dtypes; /* of the operands that have the dtype of the first; 0: infer checks */
    uint32_t flags;
    int32_t results;        /* 0: 1 */
    int32_t hidden_results; /* so many of the last results are for gradients: users get none of them */
    uint32_t in_place;      /* a mask of operands: result 0 may have the same memory */
    /* How the node can compute its results in the distribution `result`: operands[] becomes what
     * each operand must be then. The same result may be made in several ways, numbered from 0 by
     * `way`; false: there is no such way. All results have this distribution, unless
     * distribute_result says otherwise. A result that every
     * worker has, made of such operands, is always possible, and is not asked for. NULL: there is
     * no other way, or those of mst_distribute_elementwise. `run` sees operands and results in the
     * shapes of the worker's part. */
    bool (*distribute)(const muster_expr *node, mst_distribution result, int32_t way, mst_distribution *operands);
    /* So many multiplications and additions make an element of result 0, for these values of the
     * named sizes. NULL: about one. */
    double (*operations)(const muster_expr *node, const int64_t sizes[MST_SIZES]);
    /* The distribution of result `index` > 0, if that of result 0 is `first`, other than
     * MST_SAME. NULL: the same. */
    mst_distribution (*distribute_result)(mst_distribution first, int32_t index);
    /* Sets the types of the results. Errors: by mst_draft_refuse. */
    muster_status (*infer)(mst_draft *draft);
    /* A composite operation: makes nodes of other operations in place of one of its own. */
    muster_expr *(*expand)(mst_draft *draft);
    /* The result as a view of operand 0, if its layout allows it. */
    bool (*view)(const mst_step_run *run, muster_tensor *result);
    muster_status (*run)(muster_worker *worker, const mst_step_run *run);
    void (*release)(void *state);
    /* What it needs before a graph with the node runs. NULL: nothing. */
    muster_status (*compile)(const muster_expr *node);
    /* Adds to the gradients of the node's operands (mst_gradient_add). NULL: no_gradient says why
     * there is none. */
    void (*gradient)(mst_gradients *gradients, muster_expr *node, muster_expr *dy);
    const char *no_gradient;
};

enum {
#define MST_OPERATOR(name) MST_OPERATOR_##name,
#include "operators.def"
#undef MST_OPERATOR
    MST_OPERATORS
};
extern const mst_operator *const mst_operators[MST_OPERATORS];
const mst_operator *mst_operator_find(const char *name);
/* The operation of this name, or the operator of the program. NULL: none. */
const mst_operator *mst_operator_named(mst_graph *graph, const char *name);
/* For messages about a name that no operation has: such as ": did you mean absolute?". "" if no
 * name is near. */
enum { MST_SUGGESTION = 96 };
const char *mst_operator_suggest(const char *name, char text[MST_SUGGESTION]);
/* The name of the node's operator; of a check of indices, the operator whose indices they are. */
const char *mst_node_asked_name(const muster_expr *node);
int32_t mst_operator_attribute_count(const mst_operator *op);
int32_t mst_operator_operand_count(const mst_operator *op, bool *more); /* *more: the last may repeat */

/* ---- operators/numbers.c ---- */

/* where(condition, 1, 0) has no dtype; here it gets one, or NumPy's: i64 of two integers, else f64.
 * Any other node, or NULL, stays. */
muster_expr *mst_number_where_in(muster_expr *node, muster_dtype dtype);
/* The dtype of the node as an output of its graph. */
muster_dtype mst_output_dtype(const muster_expr *node);
/* Gives those among the operands of the draft the dtype of the others. */
void mst_numbers_where_type(mst_draft *draft);

/* ---- distribution/exchanges.c ---- */

/* Where the part of worker r begins along an axis of this size: with the factor `rows`, at the
 * worker's first row, else at the even edge floor(r n / size). */
int64_t mst_cut_edge(const mst_graph *graph, mst_dim dim, const int64_t sizes[MST_SIZES], const mst_sharing *sharing, int32_t r);

/* ---- operators/placement.c ---- */

/* The rank of the device that computes the operand of a `place`. */
int32_t mst_place_rank(const muster_expr *node);

/* ---- custom/custom.c: operators of the program ---- */

/* The operator of this name of the graph's runtime, which the graph holds from now on; NULL:
 * none. */
const mst_operator *mst_custom_named(mst_graph *graph, const char *name);
void mst_custom_let_go(mst_graph *graph);

/* ---- rules/states.c: the states of update rules ---- */

/* The states end: before the function that uses them, or with a graph that has not become one. */
void mst_update_rules_end(mst_graph *graph);
/* Before the function is described: states are split as their parameters are, and are collected as
 * the meaning needs. Errors: those of splitting. */
muster_status mst_update_rules_compile(mst_graph *graph, muster_graph_meaning meaning);
/* rules/parts.c. Splits the states whose parameters are not split, so that each device keeps a part
 * only. Errors: those of splitting. */
muster_status mst_update_rules_cut(mst_graph *graph);
/* Lays the states out that are not split and not in portions for `owner`: all devices get them. */
muster_status mst_update_rules_lay(const mst_graph *graph, const void *owner);

/* ---- node.c ---- */

/* The node of the draft; one that exists already if it is the same. Returns the error node if
 * anything fails. */
muster_expr *mst_node_make(mst_draft *draft);
/* The same operation, with other operands of the same types, in a distribution. */
muster_expr *mst_node_again(const muster_expr *node, muster_expr *const *inputs, mst_distribution distribution);
/* The node, which replaces `from`, gets its places in the program, and if `name`, and it has none,
 * its name. */
void mst_node_inherit(muster_expr *node, const muster_expr *from, bool name);
/* A node of its own for an input, a parameter or a number. NULL: out of memory; the message is
 * set. */
muster_expr *mst_node_add(mst_graph *graph, const mst_operator *op, const mst_type *type, const char *name);
static inline bool mst_node_is_error(const muster_expr *node) { return node == node->graph->error; }
static inline bool mst_node_is(const muster_expr *node, int32_t id);
/* A 0-d number of a known dtype. */
static inline bool mst_node_is_number(const muster_expr *node);

/* ---- describe.c ---- */

enum { MST_NODE_TEXT = 160 };
/* The names, for messages: "axis, keepdims", or "none". */
const char *mst_operator_attribute_names(const mst_operator *op, char text[MST_NODE_TEXT]);
/* Such as: a "pixels" (rows, 784) f32. `operand` may be NULL. */
const char *mst_node_text(const muster_expr *node, const char *operand, char text[MST_NODE_TEXT]);
const char *mst_type_text(const mst_graph *graph, const mst_type *type, char text[MST_NODE_TEXT]);
/* Such as: digits.c:41, or: gradient of "h" (digits.c:41). "" if it is not known. */
const char *mst_origin_text(const mst_origin *origin, char text[MST_NODE_TEXT]);
/* "<place>: <function>", or the function alone for NULL. */
enum { MST_PLACE_TEXT = 200 };
void mst_place_text(const char *place, const char *function, char text[MST_PLACE_TEXT]);

/* The end of a message about a value of another dtype than its output or variable. */
#define MST_DTYPE_HINT " (muster_expr_cast converts; sums, averages and / take dtype=)"

/* ---- fail.c: the first error stays ---- */

/* Sets the message, keeps it if it is the graph's first, and returns the status. */
muster_status mst_graph_fail(mst_graph *graph, muster_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Keeps the thread's last error, which has `status`. */
muster_status mst_graph_keep(mst_graph *graph, muster_status status);
/* "<where>: muster_expr_<name>: <operand>: ...". operand -1: about the whole operation. */
muster_status mst_draft_refuse(mst_draft *draft, muster_status status, int32_t operand, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* BAD_STATE, for a graph that has been destroyed. */
muster_status mst_graph_destroyed(const char *where);
/* Is the runtime open, without which neither it nor a variable of the graph may be read? */
muster_status mst_graph_check_runtime(const mst_graph *graph, const char *where);
/* Is the graph there, not frozen, and its runtime open? A closed runtime is an error of the
 * graph. */
muster_status mst_graph_check(const muster_graph *handle, const char *where);
muster_status mst_graph_check_open(mst_graph *graph, const char *where);
/* Is the expression one of this graph? */
muster_status mst_expr_check(const mst_graph *graph, const muster_expr *node, const char *where, const char *what);
void mst_graph_release(mst_graph *graph);

/* ---- attributes.c ---- */

/* The values of the draft's attributes, as a program gives them, or their defaults. */
muster_status mst_attributes_read(mst_draft *draft, const muster_attribute *given);

/* ---- apply.c ---- */

/* For the library itself: values in the order of the operator's attributes. */
muster_expr *mst_apply(mst_graph *graph, int32_t id, muster_expr *const *inputs, int32_t count, const mst_graph_value *values);
muster_expr *mst_apply_operator(mst_graph *graph, const mst_operator *op, muster_expr *const *inputs, int32_t count,
                                const mst_graph_value *values);
#define MST_INPUTS(...) (muster_expr *const[]){__VA_ARGS__}, (int32_t)(sizeof((muster_expr *const[]){__VA_ARGS__}) / sizeof(muster_expr *))
#define MST_APPLY(graph, name, ...) mst_apply(graph, MST_OPERATOR_##name, MST_INPUTS(__VA_ARGS__), NULL)
/* As muster_expr_apply: checks the operands and the attributes. */
muster_expr *mst_apply_checked(mst_graph *graph, const mst_operator *op, muster_expr *const *inputs, int32_t count,
                               const muster_attribute *attributes);
/* A number of this dtype. */
muster_expr *mst_number(mst_graph *graph, muster_dtype dtype, double value);
muster_expr *mst_full(mst_graph *graph, const mst_type *type, double value);
/* The node, repeated or summed so that it has the dims of `type`. */
muster_expr *mst_broadcast_to(muster_expr *node, const mst_type *type);
muster_expr *mst_sum_to(muster_expr *node, const mst_type *type);
muster_expr *mst_reshape_to(muster_expr *node, int32_t ndim, const mst_dim *dims);
/* The size as a number of the dtype. */
muster_expr *mst_size_number(mst_graph *graph, mst_dim size, muster_dtype dtype);
/* The number of elements of these axes (a mask) as a number of the dtype. */
muster_expr *mst_extent(muster_expr *node, uint32_t axes, muster_dtype dtype);

/* ---- gradient.c ---- */

/* `part` is added to the gradient of operand `operand` of the node. */
void mst_gradient_add(mst_gradients *gradients, muster_expr *node, int32_t operand, muster_expr *part);
/* The gradient of a node so far; NULL: 0. */
muster_expr *mst_gradient_of(const mst_gradients *gradients, const muster_expr *node);
/* Is the gradient of this operand wanted? */
bool mst_gradient_wanted(const mst_gradients *gradients, const muster_expr *node, int32_t operand);

/* Is it an operation of the library? */
static inline bool mst_node_is_known(const muster_expr *node) {
    return node->op->id >= 0 && node->op->id < MST_OPERATORS && node->op == mst_operators[node->op->id];
}
static inline bool mst_node_is(const muster_expr *node, int32_t id) { return node->op->id == id; }
static inline bool mst_node_is_number(const muster_expr *node) { return mst_node_is(node, MST_OPERATOR_full) && node->type.ndim == 0; }
static inline bool mst_same_dims(const mst_type *a, const mst_type *b) {
    bool same = a->ndim == b->ndim;
    for (int32_t d = 0; same && d < a->ndim; d++) same = a->dims[d] == b->dims[d];
    return same;
}

#endif

/* muster/graph.h: expressions. A program writes what it wants to compute, and compiles it into an
 * ordinary function (muster/function.h), with gradients where it asks for them.
 *
 * A graph holds expressions. Each expression is an input, a parameter (a variable), a number, or an
 * operation applied to other expressions. Its dtype and shape are known when it is made; a shape
 * may contain sizes that only a call knows. Nothing is computed before the compiled function is
 * called. docs/expressions.md lists the operations.
 *
 * Errors. A function that makes an expression never returns NULL for a graph. If it fails,
 * muster_last_error has the sentence at once, and the result is an expression that stands for the
 * error; whatever is made from it is the same error. The graph keeps the first error:
 * muster_graph_status returns it, and so does muster_graph_compile, so that a program needs to look
 * at one status only. A message names the operation, the operand, what was expected and what was
 * received, and the place in the program.
 *
 * Ownership. A graph belongs to the program, which destroys it, before its runtime closes or after
 * it. An expression belongs to its graph and ends with it. Once compiled, a graph is frozen: it
 * takes no more expressions. The function needs nothing of the graph.
 * When its runtime has been closed, a graph can be dumped, and its expressions answer questions
 * about themselves. Whatever makes expressions or sizes, or needs variables or devices, is refused
 * with BAD_STATE, and says so.
 * Threads of every function here: owner of the graph. */
#ifndef MUSTER_GRAPH_H
#define MUSTER_GRAPH_H

#include "muster/function.h"
#include "muster/runtime.h"
#include "muster/tensor.h"
#include "muster/variable.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_graph muster_graph;
typedef struct muster_expr muster_expr;

/* The place in the program, for messages. */
#define MUSTER_LINE_TEXT_(line) #line
#define MUSTER_LINE_TEXT(line) MUSTER_LINE_TEXT_(line)
#define MUSTER_HERE __FILE__ ":" MUSTER_LINE_TEXT(__LINE__)

/* Entries of a shape that are no numbers. MUSTER_ROWS is the number of rows of the call, with
 * MUSTER_PER_WORKER that of the worker; muster_graph_size makes others. MUSTER_INFER, in the shape
 * of a reshape, is the size that follows from the others. */
enum muster_graph_size_value { MUSTER_ROWS = -1000, MUSTER_INFER = -1 };
/* A bound of a slice that is left out, as None in Python. */
#define MUSTER_NONE INT64_MIN
/* Two arguments, ndim and shape: MUSTER_SHAPE(MUSTER_ROWS, 784). A scalar is MUSTER_SCALAR. In C++,
 * which has no compound literals, the end of this header defines them with the same meaning. */
#if !defined(__cplusplus)
#define MUSTER_SHAPE(...) MUSTER_SIZES_COUNT_(__VA_ARGS__, ), MUSTER_SIZES_ARRAY_(__VA_ARGS__, )
#define MUSTER_SCALAR 0, (const int64_t *)0
#endif

/* Creates an empty graph. `name` becomes the name of the compiled function. Errors:
 * INVALID_ARGUMENT (NULL, an empty name), OUT_OF_MEMORY, BAD_STATE (a closed runtime). */
MUSTER_API MUSTER_NODISCARD muster_status muster_graph_create(muster_runtime *runtime, const char *name, muster_graph **graph);
/* Ends the graph and its expressions. Accepts NULL. */
MUSTER_API muster_status muster_graph_destroy(muster_graph *graph);
/* The status of the first error of the graph, which becomes muster_last_error again; MUSTER_OK if
 * there was none. INVALID_ARGUMENT for NULL. */
MUSTER_API MUSTER_NODISCARD muster_status muster_graph_status(muster_graph *graph);

/* A named size, for the shapes of inputs: each call takes its value from the inputs' shapes, and
 * checks that it is the same in all of them. The same name gives the same size. At most 7 sizes. In
 * case of an error the result is -1 (MUSTER_INFER), which no input accepts. Errors:
 * INVALID_ARGUMENT (NULL, an empty name, "rows"), UNSUPPORTED (more than 7), OUT_OF_MEMORY. */
MUSTER_API int64_t muster_graph_size(muster_graph *graph, const char *name);

/* The product and the quotient of two sizes, where b divides a for all values of the named sizes;
 * the sum, where both are multiples of the same product of named sizes. Sizes are numbers,
 * MUSTER_ROWS, those of muster_graph_size, of muster_expr_size, and the results, which are numbers
 * where a and b are. Equal sizes are equal numbers. In case of an error the result is -1
 * (MUSTER_INFER). Errors: INVALID_ARGUMENT (NULL, no size), SHAPE_MISMATCH (no such quotient or
 * sum), OVERFLOW, OUT_OF_MEMORY, BAD_STATE (a frozen graph). */
MUSTER_API int64_t muster_graph_size_product(muster_graph *graph, int64_t a, int64_t b);
MUSTER_API int64_t muster_graph_size_quotient(muster_graph *graph, int64_t a, int64_t b);
MUSTER_API int64_t muster_graph_size_sum(muster_graph *graph, int64_t a, int64_t b);

/* An input of the function, in the order of these calls. `shape` has ndim entries: numbers,
 * MUSTER_ROWS and named sizes. A scattered input has MUSTER_ROWS first. mode: as in
 * muster_function_input. Errors: INVALID_ARGUMENT (an unknown dtype or mode, a bad entry, a name
 * that is taken), OUT_OF_MEMORY. */
MUSTER_API muster_expr *muster_graph_input(muster_graph *graph, const char *name, muster_dtype dtype, int32_t ndim, const int64_t *shape,
                                           muster_input_mode mode);
/* As muster_graph_input. `where` is the place in the program, such as "model.c:12": messages begin
 * with it. NULL: no place. In C and C++ the macro muster_graph_input passes the place by itself. */
MUSTER_API muster_expr *muster_graph_input_at(const char *where, muster_graph *graph, const char *name, muster_dtype dtype, int32_t ndim,
                                              const int64_t *shape, muster_input_mode mode);
#define muster_graph_input(...) muster_graph_input_at(MUSTER_HERE, __VA_ARGS__)
/* The value of a variable, in the shape that its replica on the master has now. A call refuses a
 * variable whose shape has changed. The second use of a variable gives the same expression.
 * Errors: INVALID_ARGUMENT (NULL, a variable of another runtime), OUT_OF_MEMORY. */
MUSTER_API muster_expr *muster_graph_parameter(muster_graph *graph, muster_variable *variable);
/* The same for a variable whose replicas differ in their number of rows: the first size is
 * MUSTER_ROWS, batches and slices select among the rows (MUSTER_USE_READ_SLICEABLE). */
MUSTER_API muster_expr *muster_graph_parameter_rows(muster_graph *graph, muster_variable *variable);
/* Splits the variable of a parameter along an axis of its shape, which may be negative, to count
 * from the end: each device then keeps and updates a part of it only (muster_variable_split). The
 * parameter stays what it is, in its whole shape; graphs with MUSTER_ONE_DEVICE compute the same
 * values, and exchange activations in place of the parameter's gradient. For the weights of large
 * layers (neon's model parallelism). Every graph and function that uses the variable sees the
 * split; functions that were compiled before refuse it. Errors: INVALID_ARGUMENT (NULL, an
 * expression that muster_graph_parameter did not give), OUT_OF_RANGE (the axis), and those of
 * muster_variable_split. */
MUSTER_API MUSTER_NODISCARD muster_status muster_graph_split(muster_expr *parameter, int32_t axis);
/* A number. It takes the dtype of the other operand of its operation. */
MUSTER_API muster_expr *muster_graph_number(muster_graph *graph, double value);

/* How an output is collected, and an update accumulated, besides the modes of muster/function.h.
 * With MUSTER_ONE_DEVICE the result is the value that one device would compute from all rows,
 * whatever the mode. With MUSTER_PER_WORKER MUSTER_AUTO is the average, and dtypes without an
 * average are refused. */
enum muster_graph_mode_value { MUSTER_AUTO = 0 };

/* An output of the function, in the order of these calls. Errors: INVALID_ARGUMENT (a name that is
 * taken, an unknown mode, an expression of another graph), UNSUPPORTED (a mode that the dtype does
 * not have, a gathered value without rows), OUT_OF_MEMORY. */
MUSTER_API muster_status muster_graph_output(muster_graph *graph, const char *name, muster_expr *value, muster_collect_mode mode);
/* The new value of a variable after each call, in the shape and dtype of the variable. All
 * expressions of a call use the old value. mode: as in muster_function_update. Errors: as
 * muster_graph_output, SHAPE_MISMATCH, DTYPE_MISMATCH. */
MUSTER_API muster_status muster_graph_update(muster_graph *graph, muster_variable *variable, muster_expr *value, muster_collect_mode mode);

/* What a reduction over rows means on several devices. */
typedef int32_t muster_graph_meaning;
enum muster_graph_meaning_value {
    /* What one device with all rows would compute, whatever the number of devices: Muster shares
     * the work out, and exchanges values between the devices where that needs it
     * (docs/devices-together.md). */
    MUSTER_ONE_DEVICE = 0,
    /* Each worker computes from its own rows; outputs and updates are collected by their modes. */
    MUSTER_PER_WORKER = 1
};
/* An option struct: the rules are in muster/status.h. */
typedef struct muster_graph_options {
    size_t struct_size; /* set by muster_graph_options_init */
    muster_graph_meaning meaning;
    /* 1: every intermediate value has memory of its own, and no operation writes over its operand.
     * For tests: the results are the same bits. */
    int32_t unshared_memory;
    /* 1: every elementwise operation is computed by itself, not in one pass over memory with those
     * that it is connected with. For tests: the results are the same bits. */
    int32_t unfused;
    /* 1: no expression is simplified. For tests: the results are the same but for rounding. */
    int32_t unsimplified;
    /* 1: each call checks what is needed of the operators of the program (muster/operator.h), and
     * of the use of memory, and is slower by far. Memory that nothing needs is NaN. An operation
     * must not change an operand. An operator must write every element of the shape that its rule
     * says, none outside of it, and the same values from the same operands; those that it writes
     * over an operand, and those of its view, must be the values that its body computes elsewhere.
     * If not, the call fails with USER, and the message names the operator. 0: as the environment's
     * MUSTER_GRAPH_CHECK says, which is read when a graph is compiled. */
    int32_t check_memory;
    /* 1: each call measures how long each step took, for muster_graph_dump_function. It costs two
     * readings of the clock per step; on a GPU the host waits for each step. */
    int32_t step_times;
    /* With MUSTER_ONE_DEVICE on several devices: the number of rows that a call usually has. The
     * cheapest way to share the work out is chosen for it; the results are the same but for
     * rounding. 0: 128. */
    int64_t rows;
    /* With MUSTER_ONE_DEVICE: each worker takes its rows in so many parts, one after the other, and
     * all parts use the same memory for values with rows (activations and their gradients). So a
     * call may have more rows than the memory of a device allows at once. The meaning stays that of
     * all rows in one: sums and averages over rows are those of all rows, random numbers are the
     * same, parameters are updated once, and the results are the same but for rounding. What needs
     * all rows at once (a value that several devices exchange, x - mean(x), sorting along the
     * rows) and all that needs it is computed once, behind the parts; muster_graph_dump_function
     * shows which expressions run in the micro-batches. Parts without rows are left out. 0 and 1:
     * all rows at once, without any of this. Errors: INVALID_ARGUMENT (a number below 0),
     * OUT_OF_RANGE (above 1048576), UNSUPPORTED (with MUSTER_PER_WORKER; on a runtime with logical
     * shards). */
    int64_t micro_batches;
    /* With MUSTER_ONE_DEVICE on several GPUs: the gradients that the rules of muster_graph_minimise
     * need are divided into buckets of at least so many bytes, in the order in which the steps make
     * them; for the first bucket a 25th of that is enough. The exchange of a bucket overlaps with
     * the steps that make the others. Negative: the exchange begins after the last step. The
     * results are the same bits; those of clipped gradients are the same but for the rounding of
     * their norm. 0: 25 MiB. */
    int64_t bucket_bytes;
    /* 1: with MUSTER_ONE_DEVICE on several devices each bucket of parameters is updated as soon
     * as its gradients are there and no later step reads its parameters, so that their new values
     * are exchanged beside the other steps, too. The results are the same bits. But a call that
     * fails may leave some parameters and their states with their new values and others with the
     * old ones: set all of them again. Refused with clip_norm of muster_rule_options, whose norm
     * needs all gradients before the first update. */
    int32_t eager_updates;
    /* 1: every value lies in row-major order, also those between convolutions, which otherwise lie
     * with their channels last where all devices are CPU cores. For tests: the results are the same
     * but for rounding. */
    int32_t plain_layout;
    /* Bytes that the intermediate values of a call may take on each device
     * (muster_graph_function_memory); 0: as many as they need. Where they would take more, values
     * that are cheap to make are given up after a use and computed again before the next, as many
     * as it needs to stay below: those of operations by elements, among them activations and the
     * application of normalisations, and of dropout and random numbers, which are drawn again from
     * their counter. Never convolutions, products, attention, reductions, such as the statistics
     * of a normalisation, nor what devices exchange. The results are the same bits. A limit that
     * cannot be reached is no error: the call takes what it needs, and the log says once how much
     * that is. Each device decides by the shapes of its own part of the rows. Has no effect with
     * unshared_memory. Errors: INVALID_ARGUMENT (a number below 0). */
    int64_t memory_limit;
} muster_graph_options;
MUSTER_API void muster_graph_options_init_sized(muster_graph_options *options, size_t size);
static inline void muster_graph_options_init(muster_graph_options *options) { muster_graph_options_init_sized(options, sizeof *options); }

/* Creates the function, which belongs to the runtime. options NULL: all defaults. After success the
 * graph is frozen, and may be destroyed at once. Errors: the graph's first error; INVALID_ARGUMENT
 * (NULL; a graph without outputs and updates; a size that no input has; a name that is taken; an
 * option that is neither 0 nor 1 where these are all),
 * UNSUPPORTED (see muster_graph_meaning; MUSTER_AUTO for a dtype without an average), BAD_STATE (a
 * frozen graph), and those of muster_function_create. */
MUSTER_API MUSTER_NODISCARD muster_status muster_graph_compile(muster_graph *graph, const muster_graph_options *options,
                                                               muster_function **function);

/* ---- inside bodies ---- */

/* Runs the graph of `function`, which muster_graph_compile gave, inside the body of another
 * function, as one operation of this worker: on tensors of the worker, such as rows that the body
 * has chosen. No other worker takes part. inputs[input_count] and outputs[output_count] are those
 * of the function, with the dtypes and shapes of the graph: tensors on the worker's device (or in
 * host memory, if that is the device), with any strides. An output has the shape of the value
 * itself, whatever its mode: nothing is collected. It must not overlap another output, an input, or
 * a variable that the graph uses. "No tensor": the output is not computed.
 * Variables. The body's function has declared those that the graph reads
 * (muster_function_variable), with MUSTER_USE_READ_WRITE those that it updates;
 * muster_function_graph declares all. The graph reads what muster_worker_variable gives. New values
 * are written into this worker's replica, and into no other, when all of the graph has run; what
 * fails leaves every variable as it was, unless the device is lost.
 * Random numbers (docs/expressions.md) are those of a call whose worker has these rows, if `rows`
 * of the graph is the number of rows of the body (muster_worker_rows); else each worker draws its
 * own, which depend on its rank. Runs of a loop draw different numbers if the graph's `step`
 * differs.
 * The memory that it takes is given back when it returns: a loop needs no more than its largest
 * run, and runs with shapes that it has seen allocate nothing; each worker keeps up to 8.
 * A function may be called and be run inside bodies, and a body may run several. It must live until
 * the body returns, as muster_function_destroy sees to.
 * Errors: INVALID_ARGUMENT (NULL, another count, a function of another runtime, a variable that is
 * not declared so, memory of another device, an output that overlaps), DTYPE_MISMATCH,
 * SHAPE_MISMATCH, UNSUPPORTED (a function with another body, a graph with muster_expr_place or with
 * micro-batches, one with MUSTER_ONE_DEVICE on a runtime with several devices or logical shards),
 * BAD_STATE (outside a body, a function that has been destroyed, an operator that runs its own
 * graph), OUT_OF_MEMORY, and those of the operations, whose message names the function and the
 * place in the program.
 * Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_run(muster_worker *worker, muster_function *function, const muster_tensor *inputs,
                                                            int32_t input_count, const muster_tensor *outputs, int32_t output_count);
/* Declares that the body of `function` runs `graph_function`, which muster_graph_compile gave: the
 * variables of the latter, as muster_worker_run needs them. Errors: INVALID_ARGUMENT (NULL, a
 * function with another body), UNSUPPORTED (a graph that muster_worker_run does not run), and those
 * of muster_function_describe. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_graph(muster_function *function, muster_function *graph_function);

/* ---- dumps ---- */

typedef int32_t muster_dump_format;
enum muster_dump_format_value {
    MUSTER_DUMP_TEXT = 0, /* one expression a line */
    MUSTER_DUMP_DOT = 1   /* for Graphviz: dot -Tsvg */
};
/* Writes the expressions that the outputs and updates need, or all if there are none, as the
 * program wrote them: operands, attributes, shapes, dtypes, names, places in the program. The file
 * `path` is created or replaced; "/dev/stdout" and "/dev/stderr" write behind what the program has
 * written there, also where they are redirected to a file. The text is for people: later versions
 * may write it differently. Errors: INVALID_ARGUMENT (NULL, an unknown format), the graph's first
 * error, SYSTEM (a file that cannot be written), OUT_OF_MEMORY. */
MUSTER_API muster_status muster_graph_dump(muster_graph *graph, const char *path, muster_dump_format format);
/* The same for the function that muster_graph_compile gave: the expressions as they are computed,
 * simplified, in this order; which of them are computed in groups; and, once it has been called,
 * what the master's latest call was like: sizes, the place of each value, and with
 * muster_graph_options.step_times the time of each step. Waits for running calls. Errors: also
 * INVALID_ARGUMENT (a function with another body), BAD_STATE (a closed runtime). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_graph_dump_function(muster_function *function, const char *path,
                                                                     muster_dump_format format);

/* ---- memory ---- */

/* The memory that a device needs for the calls of a compiled graph, besides its inputs, outputs and
 * variables, in bytes. A result struct: the rules are in muster/status.h. */
typedef struct muster_graph_memory {
    size_t struct_size; /* set by muster_graph_memory_init */
    /* The block that holds all intermediate values of the latest call; 0: the device has taken part
     * in none. With micro_batches also those of a micro-batch. */
    int64_t block_bytes;
    /* The largest such block of all calls so far. A device keeps the memory of its largest call
     * until muster_runtime_close, and all functions use the same. */
    int64_t largest_bytes;
    /* What block_bytes would be without memory_limit of muster_graph_options. */
    int64_t unlimited_bytes;
    /* What steps took beside the block while they ran, the most at once: workspaces of oneDNN,
     * panels of columns of convolutions, copies of operands in another dtype. */
    int64_t workspace_bytes;
    /* So many steps of the latest call computed values again, because of memory_limit. */
    int32_t repeated_steps;
    int32_t reserved; /* 0 */
} muster_graph_memory;
static inline void muster_graph_memory_init(muster_graph_memory *memory) {
    if (memory) memory->struct_size = sizeof *memory;
}
/* *memory = what the function that muster_graph_compile gave needs on the device of this rank.
 * Waits for running calls. Errors: INVALID_ARGUMENT (NULL, a function with another body,
 * struct_size, a rank of another process), OUT_OF_RANGE (no rank), BAD_STATE (a closed runtime).
 * Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_graph_function_memory(muster_function *function, int32_t rank,
                                                                       muster_graph_memory *memory);

/* ---- expressions ---- */

/* Kinds of attributes, and which members of muster_attribute say the value. */
enum muster_attribute_kind_value {
    MUSTER_ATTRIBUTE_NUMBER = 1,  /* number */
    MUSTER_ATTRIBUTE_INTEGER = 2, /* integer */
    MUSTER_ATTRIBUTE_DTYPE = 3,   /* integer: a muster_dtype */
    MUSTER_ATTRIBUTE_LIST = 4,    /* integers, count: at most 64 */
    MUSTER_ATTRIBUTE_SIZES = 5,   /* integers, count: entries as in MUSTER_SHAPE */
    MUSTER_ATTRIBUTE_TEXT = 6,    /* text: at most 64 bytes */
    MUSTER_ATTRIBUTE_TRUTH = 7    /* integer: 0 or 1; of a value that is given for an integer */
};

/* An attribute of an operation, such as the axes of a sum. An array of attributes ends with a name
 * of NULL; NULL stands for an array of none. `kind` says which member holds the value; the others
 * are not read. Another kind than the operation's is refused, but an integer also stands for a
 * number, and for a list of that one integer; a list and a list of sizes are the same here. With
 * kind 0 the member that the operation reads holds the value, and the others must be 0. The layout
 * is frozen. */
typedef struct muster_attribute {
    const char *name;
    double number;
    int64_t integer;         /* an integer, a truth value, a dtype */
    const int64_t *integers; /* a list: axes, a shape */
    int32_t count;           /* the length of the list */
    int32_t kind;            /* MUSTER_ATTRIBUTE_...; 0: not said */
    const char *text;        /* a text, such as the subscripts of einsum */
} muster_attribute;

/* Applies an operation of docs/expressions.md, by its name, to `count` expressions. *result, if
 * result is not NULL, becomes the expression, also in case of an error. `where` is the place in the
 * program for messages, such as "digits.c:41"; it is copied, and may be NULL. muster/expr.h has a
 * function for each operation. Errors: INVALID_ARGUMENT (NULL, an unknown operation or attribute,
 * an expression of another graph), SHAPE_MISMATCH, DTYPE_MISMATCH, UNSUPPORTED (a dtype that the
 * operation does not have), OUT_OF_RANGE (an axis), OVERFLOW (a size), OUT_OF_MEMORY, BAD_STATE (a
 * frozen graph). */
MUSTER_API muster_status muster_expr_apply(muster_graph *graph, const char *operation, muster_expr *const *inputs, int32_t count,
                                           const muster_attribute *attributes, const char *where, muster_expr **result);
/* The expression that a text describes, such as "h = relu(x @ w + b); mean(h, axis=0)".
 *   Statements: separated by ";". `name = ...` gives a name to an expression; a name that stands
 *     for one already is refused. The last statement is the result.
 *   Operations, with the precedence of Python: + - * / // % @ ** and signs; == != < <= > >=, which
 *     do not chain; x.T, the transpose; parentheses.
 *   Calls: any operation of docs/expressions.md by its name. Attributes come after the operands, in
 *     their order or by keyword: sum(x, 1), sum(x, axis=[0, 1], keepdims=True), cast(x, f16).
 *     None: not given. A list stands in [] or (). Entries of shapes may be "rows" or a named size.
 *     A text stands in quotes, and may come first: einsum("ij,jk->ik", x, w).
 *   Indices, as in NumPy: integers (whose axis goes), slices, several axes, "...", None (a new
 *     axis).
 *   Numbers: as in Python, in decimal; each takes the dtype of the other operand.
 *   Names: letters, digits, "_" and what is not ASCII. Those given with the text come first, then
 *     inputs, parameters and named expressions (muster_expr_name) of the graph. A name of several
 *     of these is refused. A name may have points (conv.weight, layers.0.bias): of the names that
 *     the text could mean, the longest that stands for something.
 * After the text come pairs of a name and what it stands for, an expression or a number, at most
 * 32 pairs (muster_expr_parse_named takes more). A NULL may end them.
 * Limits: 16 MiB of text, 256 levels of nesting (brackets, signs, powers).
 * Messages quote the text, or 40 bytes of a long one, and count the column in characters from 1.
 * Errors: INVALID_ARGUMENT (NULL, syntax, unknown names, no UTF-8), UNSUPPORTED (a limit),
 * OVERFLOW (a number), OUT_OF_RANGE (an index), OUT_OF_MEMORY, and those of muster_expr_apply. */
MUSTER_API muster_expr *muster_expr_parse(muster_graph *graph, const char *text, ...);
#define muster_expr_parse(...) MUSTER_PARSE_(__VA_ARGS__, muster_item_make_(MUSTER_ITEM_END))
/* The items that follow the text of muster_expr_parse: each is a name, or the value that the name
 * before it stands for. The layout is frozen. */
enum muster_item_kind_value {
    MUSTER_ITEM_END = 0,
    MUSTER_ITEM_NAME = 1,       /* name */
    MUSTER_ITEM_EXPRESSION = 2, /* expression */
    MUSTER_ITEM_NUMBER = 3,     /* number */
    MUSTER_ITEM_INTEGER = 4     /* integer */
};
typedef struct muster_item {
    const char *name;
    muster_expr *expression;
    double number;
    int64_t integer;
    int32_t kind;
    int32_t reserved; /* 0 */
} muster_item;
/* muster_expr_parse, which makes the items: names and values in turn, then one of kind
 * MUSTER_ITEM_END. */
MUSTER_API muster_expr *muster_expr_parse_items(muster_graph *graph, const char *text, const muster_item *items);
/* The same for bindings: names[i] stands for expressions[i], for i from 0 to count - 1. */
MUSTER_API muster_expr *muster_expr_parse_named(muster_graph *graph, const char *text, const char *const *names,
                                                muster_expr *const *expressions, int32_t count);
/* Result `index` of an operation with several results; 0 is the expression itself. */
MUSTER_API muster_expr *muster_expr_result(muster_expr *expression, int32_t index);
/* The expression, computed on one device: for graphs with MUSTER_PER_WORKER, whose workers compute
 * each for itself. The worker of the device computes it from its own rows, whether it has any or
 * not; the others do not compute it, nor what only it needs, and see the value of that worker. All
 * workers enter a collective there. The shape has no rows, since each worker has a number of its
 * own. The gradient is the sum over the workers, on that device, and 0 on the others. `device` is a
 * name that muster_runtime_find_device knows; NULL: the default device. With several processes all
 * name the same device: a rank in decimal names that of any process, a word one of this process.
 * Errors: INVALID_ARGUMENT (NULL, an unknown name), UNSUPPORTED (a shape with rows),
 * OUT_OF_MEMORY, BAD_STATE (a frozen graph, a closed runtime). muster_graph_compile refuses with
 * UNSUPPORTED another meaning and a runtime with logical shards, and a single call whose device is
 * another one is refused with UNSUPPORTED. */
MUSTER_API muster_expr *muster_expr_place(muster_expr *expression, const char *device);
/* Names the expression, for messages, dumps and traces; returns it. The first name stays. */
MUSTER_API muster_expr *muster_expr_name(muster_expr *expression, const char *name);
/* The dtype that an output of it has (MUSTER_DTYPE_NONE for NULL, for an error, and for a plain
 * number, which is no output), and the number of dimensions (-1 for NULL and for an error). */
MUSTER_API muster_dtype muster_expr_dtype(const muster_expr *expression);
MUSTER_API int32_t muster_expr_ndim(const muster_expr *expression);
/* The size of an axis, which may be negative, to count from the end: a number, MUSTER_ROWS, a named
 * size, or a product, as muster_graph_size_product gives it. -1 (MUSTER_INFER) for NULL, for an
 * error and for an axis that it does not have. Shapes in attributes accept all of them. */
MUSTER_API int64_t muster_expr_size(const muster_expr *expression, int32_t axis);
/* The graph of the expression; NULL for NULL, and once the graph is destroyed. */
MUSTER_API muster_graph *muster_expr_graph(const muster_expr *expression);
/* The shape as text, such as "(rows, 784)". Valid as long as the expression. */
MUSTER_API const char *muster_expr_shape(muster_expr *expression);

/* gradients[i] = the gradient of `loss`, a scalar of a float dtype, with respect to
 * expressions[i], which may be any expressions: reverse mode, over the operations between the two.
 * They are expressions of the graph, so that gradients of gradients work. If the loss does not
 * depend on an expression, or only through integers and truth values, its gradient is 0 in its
 * shape. Equal expressions are one expression: one that an operation makes inside, such as the
 * transpose in diagonal, is also the program's equal one, which then has that part's gradient.
 * Errors: INVALID_ARGUMENT (NULL, a loss that is no scalar), UNSUPPORTED (an operation
 * without a gradient; an expression of integers), OUT_OF_MEMORY. */
MUSTER_API muster_status muster_gradient(muster_expr *loss, muster_expr *const *expressions, int32_t count, muster_expr **gradients);
/* As muster_gradient. `where` is the place in the program, as in muster_graph_input_at. */
MUSTER_API muster_status muster_gradient_at(const char *where, muster_expr *loss, muster_expr *const *expressions, int32_t count,
                                            muster_expr **gradients);
#define muster_gradient(...) muster_gradient_at(MUSTER_HERE, __VA_ARGS__)

/* How muster_gradient_check checks. An option struct: the rules are in muster/status.h. */
typedef struct muster_gradient_check_options {
    size_t struct_size; /* set by muster_gradient_check_options_init */
    /* The point: a value for each input of the graph, in the order of muster_graph_input;
     * value_count of them, in memory that a call takes. NULL: the elements are drawn from [low,
     * high]; those of integers and truth values are 0 or 1. Parameters have the values of the
     * master's replicas. */
    const muster_tensor *values;
    double low, high; /* both 0: from -1 to 1 */
    uint64_t seed;    /* of what is drawn */
    int64_t size;     /* of axes whose size neither a value nor a parameter gives; 0: 3 */
    int64_t elements; /* of each expression that are checked at most, spread evenly; 0: 100 */
    double step;      /* of the differences, times max(1, |x|); 0: 1e-3 */
    /* |gradient - difference| may be absolute + relative max(|gradient|, |difference|), and what
     * the rounding of the loss to f64 costs a difference. Both 0: 1e-6 each. */
    double relative, absolute;
    int32_t value_count;
    int32_t reserved; /* 0 */
} muster_gradient_check_options;
MUSTER_API void muster_gradient_check_options_init_sized(muster_gradient_check_options *options, size_t size);
static inline void muster_gradient_check_options_init(muster_gradient_check_options *options) {
    muster_gradient_check_options_init_sized(options, sizeof *options);
}
/* Compares the gradient of `loss` with central differences, which have an error of the order of
 * step^4, at one point. expressions[i]: inputs and parameters of float dtypes; NULL with count 0:
 * all that the loss depends on. Everything is computed in f64 on the master's device, in a graph of
 * its own, in which the float dtypes are f64 and every size is a number; the caller's graph stays
 * as it is, and may be frozen. Where a step is too large for a difference to be exact, smaller ones
 * are tried, each an eighth of the one before, at least two and as long as the differences differ.
 * Elements that are infinite or NaN have no differences and are left out; an expression that has no
 * others is refused. Operators of the program (muster/operator.h) are asked by their rules whether
 * they take f64. options NULL: all defaults. *worst, if not NULL, becomes the largest error as a
 * part of what is allowed: at most 1 after success. In case of a wrong gradient the message names
 * the worst element, both values, and the first operation on the way whose own gradient is wrong,
 * with its place in the program. Near a kink, such as relu at 0, a right gradient is not that of
 * differences. Errors: INVALID_ARGUMENT (a wrong gradient, a loss that is not finite, NULL, a loss
 * that is no scalar, expressions that are neither inputs nor parameters, wrong options, an
 * expression without a finite element), SHAPE_MISMATCH, DTYPE_MISMATCH (values), UNSUPPORTED
 * (integers; operations without a gradient; operators that refuse f64; stop_gradient and random
 * values that each call draws anew, which differences do not see as the gradient does),
 * OUT_OF_MEMORY, and those of muster_function_call. */
MUSTER_API MUSTER_NODISCARD muster_status muster_gradient_check(muster_expr *loss, muster_expr *const *expressions, int32_t count,
                                                                const muster_gradient_check_options *options, double *worst);

/* The expression with each from[i] replaced by to[i], which has the same dtype and shape: one graph
 * then serves inputs from the host and variables on the devices. Errors: INVALID_ARGUMENT (NULL,
 * another graph), SHAPE_MISMATCH, DTYPE_MISMATCH, OUT_OF_MEMORY. */
MUSTER_API muster_expr *muster_expr_substitute(muster_expr *expression, muster_expr *const *from, muster_expr *const *to, int32_t count);

/* ---- what muster_expr_parse is made of ---- */

#define MUSTER_PARSE_(graph, text, ...) muster_expr_parse_items(graph, text, MUSTER_ITEMS_(MUSTER_ITEMS_EACH_(__VA_ARGS__)))
/* clang-format off */
/* An item for each of up to 65 arguments. */
#define MUSTER_ITEMS_EACH_(...) MUSTER_ITEMS_CHOOSE_(__VA_ARGS__, \
    MUSTER_ITEMS_65_, MUSTER_ITEMS_64_, MUSTER_ITEMS_63_, MUSTER_ITEMS_62_, MUSTER_ITEMS_61_, MUSTER_ITEMS_60_, MUSTER_ITEMS_59_, \
    MUSTER_ITEMS_58_, MUSTER_ITEMS_57_, MUSTER_ITEMS_56_, MUSTER_ITEMS_55_, MUSTER_ITEMS_54_, MUSTER_ITEMS_53_, MUSTER_ITEMS_52_, \
    MUSTER_ITEMS_51_, MUSTER_ITEMS_50_, MUSTER_ITEMS_49_, MUSTER_ITEMS_48_, MUSTER_ITEMS_47_, MUSTER_ITEMS_46_, MUSTER_ITEMS_45_, \
    MUSTER_ITEMS_44_, MUSTER_ITEMS_43_, MUSTER_ITEMS_42_, MUSTER_ITEMS_41_, MUSTER_ITEMS_40_, MUSTER_ITEMS_39_, MUSTER_ITEMS_38_, \
    MUSTER_ITEMS_37_, MUSTER_ITEMS_36_, MUSTER_ITEMS_35_, MUSTER_ITEMS_34_, MUSTER_ITEMS_33_, MUSTER_ITEMS_32_, MUSTER_ITEMS_31_, \
    MUSTER_ITEMS_30_, MUSTER_ITEMS_29_, MUSTER_ITEMS_28_, MUSTER_ITEMS_27_, MUSTER_ITEMS_26_, MUSTER_ITEMS_25_, MUSTER_ITEMS_24_, \
    MUSTER_ITEMS_23_, MUSTER_ITEMS_22_, MUSTER_ITEMS_21_, MUSTER_ITEMS_20_, MUSTER_ITEMS_19_, MUSTER_ITEMS_18_, MUSTER_ITEMS_17_, \
    MUSTER_ITEMS_16_, MUSTER_ITEMS_15_, MUSTER_ITEMS_14_, MUSTER_ITEMS_13_, MUSTER_ITEMS_12_, MUSTER_ITEMS_11_, MUSTER_ITEMS_10_, \
    MUSTER_ITEMS_9_, MUSTER_ITEMS_8_, MUSTER_ITEMS_7_, MUSTER_ITEMS_6_, MUSTER_ITEMS_5_, MUSTER_ITEMS_4_, MUSTER_ITEMS_3_, \
    MUSTER_ITEMS_2_, MUSTER_ITEMS_1_, \
    0)(__VA_ARGS__)
#define MUSTER_ITEMS_CHOOSE_( \
    a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, \
    a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, \
    a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, \
    a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, \
    a65, \
    macro, ...) macro
#define MUSTER_ITEMS_1_(x) MUSTER_ITEM_(x)
#define MUSTER_ITEMS_2_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_1_(__VA_ARGS__)
#define MUSTER_ITEMS_3_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_2_(__VA_ARGS__)
#define MUSTER_ITEMS_4_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_3_(__VA_ARGS__)
#define MUSTER_ITEMS_5_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_4_(__VA_ARGS__)
#define MUSTER_ITEMS_6_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_5_(__VA_ARGS__)
#define MUSTER_ITEMS_7_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_6_(__VA_ARGS__)
#define MUSTER_ITEMS_8_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_7_(__VA_ARGS__)
#define MUSTER_ITEMS_9_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_8_(__VA_ARGS__)
#define MUSTER_ITEMS_10_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_9_(__VA_ARGS__)
#define MUSTER_ITEMS_11_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_10_(__VA_ARGS__)
#define MUSTER_ITEMS_12_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_11_(__VA_ARGS__)
#define MUSTER_ITEMS_13_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_12_(__VA_ARGS__)
#define MUSTER_ITEMS_14_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_13_(__VA_ARGS__)
#define MUSTER_ITEMS_15_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_14_(__VA_ARGS__)
#define MUSTER_ITEMS_16_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_15_(__VA_ARGS__)
#define MUSTER_ITEMS_17_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_16_(__VA_ARGS__)
#define MUSTER_ITEMS_18_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_17_(__VA_ARGS__)
#define MUSTER_ITEMS_19_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_18_(__VA_ARGS__)
#define MUSTER_ITEMS_20_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_19_(__VA_ARGS__)
#define MUSTER_ITEMS_21_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_20_(__VA_ARGS__)
#define MUSTER_ITEMS_22_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_21_(__VA_ARGS__)
#define MUSTER_ITEMS_23_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_22_(__VA_ARGS__)
#define MUSTER_ITEMS_24_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_23_(__VA_ARGS__)
#define MUSTER_ITEMS_25_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_24_(__VA_ARGS__)
#define MUSTER_ITEMS_26_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_25_(__VA_ARGS__)
#define MUSTER_ITEMS_27_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_26_(__VA_ARGS__)
#define MUSTER_ITEMS_28_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_27_(__VA_ARGS__)
#define MUSTER_ITEMS_29_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_28_(__VA_ARGS__)
#define MUSTER_ITEMS_30_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_29_(__VA_ARGS__)
#define MUSTER_ITEMS_31_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_30_(__VA_ARGS__)
#define MUSTER_ITEMS_32_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_31_(__VA_ARGS__)
#define MUSTER_ITEMS_33_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_32_(__VA_ARGS__)
#define MUSTER_ITEMS_34_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_33_(__VA_ARGS__)
#define MUSTER_ITEMS_35_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_34_(__VA_ARGS__)
#define MUSTER_ITEMS_36_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_35_(__VA_ARGS__)
#define MUSTER_ITEMS_37_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_36_(__VA_ARGS__)
#define MUSTER_ITEMS_38_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_37_(__VA_ARGS__)
#define MUSTER_ITEMS_39_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_38_(__VA_ARGS__)
#define MUSTER_ITEMS_40_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_39_(__VA_ARGS__)
#define MUSTER_ITEMS_41_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_40_(__VA_ARGS__)
#define MUSTER_ITEMS_42_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_41_(__VA_ARGS__)
#define MUSTER_ITEMS_43_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_42_(__VA_ARGS__)
#define MUSTER_ITEMS_44_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_43_(__VA_ARGS__)
#define MUSTER_ITEMS_45_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_44_(__VA_ARGS__)
#define MUSTER_ITEMS_46_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_45_(__VA_ARGS__)
#define MUSTER_ITEMS_47_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_46_(__VA_ARGS__)
#define MUSTER_ITEMS_48_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_47_(__VA_ARGS__)
#define MUSTER_ITEMS_49_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_48_(__VA_ARGS__)
#define MUSTER_ITEMS_50_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_49_(__VA_ARGS__)
#define MUSTER_ITEMS_51_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_50_(__VA_ARGS__)
#define MUSTER_ITEMS_52_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_51_(__VA_ARGS__)
#define MUSTER_ITEMS_53_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_52_(__VA_ARGS__)
#define MUSTER_ITEMS_54_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_53_(__VA_ARGS__)
#define MUSTER_ITEMS_55_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_54_(__VA_ARGS__)
#define MUSTER_ITEMS_56_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_55_(__VA_ARGS__)
#define MUSTER_ITEMS_57_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_56_(__VA_ARGS__)
#define MUSTER_ITEMS_58_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_57_(__VA_ARGS__)
#define MUSTER_ITEMS_59_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_58_(__VA_ARGS__)
#define MUSTER_ITEMS_60_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_59_(__VA_ARGS__)
#define MUSTER_ITEMS_61_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_60_(__VA_ARGS__)
#define MUSTER_ITEMS_62_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_61_(__VA_ARGS__)
#define MUSTER_ITEMS_63_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_62_(__VA_ARGS__)
#define MUSTER_ITEMS_64_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_63_(__VA_ARGS__)
#define MUSTER_ITEMS_65_(x, ...) MUSTER_ITEM_(x), MUSTER_ITEMS_64_(__VA_ARGS__)
/* clang-format on */

static inline muster_item muster_item_make_(int32_t kind) {
#ifdef __cplusplus
    muster_item item = muster_item();
#else
    muster_item item = {0};
#endif
    item.kind = kind;
    return item;
}
static inline muster_item muster_item_same_(muster_item item) { return item; }
static inline muster_item muster_item_name_(const char *name) {
    muster_item item = muster_item_make_(MUSTER_ITEM_NAME);
    item.name = name;
    return item;
}
static inline muster_item muster_item_expression_(muster_expr *expression) {
    muster_item item = muster_item_make_(MUSTER_ITEM_EXPRESSION);
    item.expression = expression;
    return item;
}
static inline muster_item muster_item_number_(double number) {
    muster_item item = muster_item_make_(MUSTER_ITEM_NUMBER);
    item.number = number;
    return item;
}
static inline muster_item muster_item_integer_(long long integer) {
    muster_item item = muster_item_make_(MUSTER_ITEM_INTEGER);
    item.integer = integer;
    return item;
}
#ifndef __cplusplus
static inline muster_item muster_item_unsigned_(unsigned long long integer) {
    return integer > INT64_MAX ? muster_item_number_((double)integer) : muster_item_integer_((long long)integer);
}
#define MUSTER_ITEM_(x) \
    _Generic((x),                              \
        muster_item: muster_item_same_,       \
        const char *: muster_item_name_,       \
        char *: muster_item_name_,             \
        muster_expr *: muster_item_expression_, \
        void *: muster_item_expression_,       \
        float: muster_item_number_,            \
        double: muster_item_number_,           \
        _Bool: muster_item_unsigned_,          \
        char: muster_item_integer_,            \
        signed char: muster_item_integer_,     \
        unsigned char: muster_item_unsigned_,  \
        short: muster_item_integer_,           \
        unsigned short: muster_item_unsigned_, \
        int: muster_item_integer_,             \
        unsigned: muster_item_unsigned_,       \
        long: muster_item_integer_,            \
        unsigned long: muster_item_unsigned_,  \
        long long: muster_item_integer_,       \
        unsigned long long: muster_item_unsigned_)(x)
#define MUSTER_ITEMS_(...) \
    (const muster_item[]) { __VA_ARGS__ }
#endif

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && !defined(__CUDACC_RTC__)
#include <cstddef>
#include <initializer_list>
/* Lives until the end of the call of which it is an argument. */
template <std::size_t Count> struct muster_shape_ {
    enum { count = Count };
    int64_t sizes[Count];
};
template <class... Sizes> constexpr muster_shape_<sizeof...(Sizes)> muster_shape_of_(Sizes... sizes) {
    return {{muster_size_(sizes).value...}};
}
#define MUSTER_SHAPE(...) static_cast<int32_t>(decltype(muster_shape_of_(__VA_ARGS__))::count), muster_shape_of_(__VA_ARGS__).sizes
#define MUSTER_SCALAR 0, nullptr

/* As _Generic of C. NULL may be an integer of the compiler's own, which its name tells apart. */
inline muster_item muster_item_unsigned_(unsigned long long integer) {
    return integer > INT64_MAX ? muster_item_number_(static_cast<double>(integer)) : muster_item_integer_(static_cast<long long>(integer));
}
inline muster_item muster_item_of_(muster_item item, const char *) { return item; }
inline muster_item muster_item_of_(const char *name, const char *) { return muster_item_name_(name); }
inline muster_item muster_item_of_(muster_expr *expression, const char *) { return muster_item_expression_(expression); }
inline muster_item muster_item_of_(std::nullptr_t, const char *) { return muster_item_expression_(nullptr); }
inline muster_item muster_item_of_(float number, const char *) { return muster_item_number_(static_cast<double>(number)); }
inline muster_item muster_item_of_(double number, const char *) { return muster_item_number_(number); }
inline muster_item muster_item_of_(int integer, const char *) { return muster_item_integer_(integer); }
inline muster_item muster_item_of_(unsigned integer, const char *) { return muster_item_unsigned_(integer); }
inline muster_item muster_item_of_(long integer, const char *written) {
    return integer == 0 && written[0] == '_' && written[1] == '_' && written[2] == 'n' ? muster_item_expression_(nullptr)
                                                                                       : muster_item_integer_(integer);
}
inline muster_item muster_item_of_(unsigned long integer, const char *) { return muster_item_unsigned_(integer); }
inline muster_item muster_item_of_(long long integer, const char *) { return muster_item_integer_(integer); }
inline muster_item muster_item_of_(unsigned long long integer, const char *) { return muster_item_unsigned_(integer); }
#define MUSTER_ITEM_(x) muster_item_of_((void(), x), #x)
#define MUSTER_ITEMS_(...) std::initializer_list<muster_item>({__VA_ARGS__}).begin()
#endif
#endif

/* muster/operator.h: operators of your own, for expressions (muster/graph.h).
 *
 * An operator has a name, operands, typed attributes, and either a text, from which its shape,
 * dtype, gradient and fusion follow, or parts: a rule for its results, bodies or kernels that
 * compute them, a gradient. It is applied like the operations of the library: by its name, in
 * muster_expr_apply and in texts.
 *
 * One struct describes all of it, so that an operator is complete or does not exist, and any thread
 * may apply it. New parts are new fields at the end of the struct, and new functions only where a
 * callback asks for something new.
 *
 * Ownership. An operator belongs to its runtime. muster_operator_destroy takes its name away; the
 * graphs that have applied it, and the functions compiled from them, keep what they need of it, and
 * the last of them ends it.
 * Errors. A callback reports an error with muster_fail, or returns the status of the call that
 * failed. The message then begins with the place in the program and the name of the operator. */
#ifndef MUSTER_OPERATOR_H
#define MUSTER_OPERATOR_H

#include "muster/graph.h"
#include "muster/kernel.h"
#include "muster/runtime.h"
#include "muster/tensor.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_operator muster_operator;
/* One application of an operator in a graph. Callbacks receive it, and ask it for attributes; it is
 * valid until they return. */
typedef struct muster_operator_node muster_operator_node;

enum muster_operator_maximum {
    MUSTER_OPERATOR_OPERANDS_MAX = 8, /* named ones; "..." stands for more */
    MUSTER_OPERATOR_RESULTS_MAX = 3,
    MUSTER_OPERATOR_ATTRIBUTES_MAX = 8
};

/* An attribute of an operator. A list of attributes ends with a name of NULL. number: the value, if
 * the application gives none; a list or text is then empty. The layout is frozen. */
typedef struct muster_operator_attribute {
    const char *name;
    double number;
    int32_t kind;     /* MUSTER_ATTRIBUTE_NUMBER to _TEXT */
    int32_t required; /* 1: every application gives it */
} muster_operator_attribute;

/* The rule of an operator: says the dtype and shape of each result by muster_operator_result, or
 * refuses. x[count] are the operands, of which muster_expr_dtype, muster_expr_ndim and
 * muster_expr_size tell dtype and shape. A size may be one that only a call knows: it passes
 * through as it is, == compares two of them, and muster_graph_size_product, _quotient and _sum
 * compute with them. A plain number among the operands has the dtype of the first operand that has
 * one. Called in the thread that applies the operator. */
typedef muster_status (*muster_operator_rule)(muster_operator_node *node, muster_expr *const *x, int32_t count, void *user);
/* Computes the results out[] of one application. in[i] is operand i, contiguous, with the strides
 * of muster_tensor_make, unless strided_operands has it. out[r] has the shape that the rule says,
 * is contiguous and not initialised; it is "no tensor" if nothing needs it. Both are valid until
 * the body returns. All else is as for a muster_body (muster/function.h). */
typedef muster_status (*muster_operator_body)(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in,
                                              muster_tensor *out, void *user);
/* A body for one backend ("host", "cuda"). With backend NULL the body uses worker operations only,
 * and runs on every backend. The layout is frozen. */
typedef struct muster_operator_backend {
    const char *backend;
    muster_operator_body body;
} muster_operator_backend;
/* Makes state for the bodies of one application on one device with the shapes of in[] and out[]:
 * before its first body, inside the same call. muster_operator_state gives it to the bodies.
 * Addresses may differ in the next call. If it fails, *state is not used. */
typedef muster_status (*muster_operator_prepare)(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in,
                                                 const muster_tensor *out, void **state, void *user);
/* Ends the state; not called for NULL. In any thread, not inside a call. */
typedef void (*muster_operator_release)(void *state, void *user);
/* Sets dx[i], the gradient of the loss with respect to operand x[i], in the dtype and shape of
 * x[i]; what it leaves NULL is 0. y[] are the results, dy[r] the gradient with respect to result r.
 * It makes expressions of the same graph, and must not call muster_gradient on what contains the
 * same operator. */
typedef muster_status (*muster_operator_gradient)(const muster_operator_node *node, muster_expr *const *x, muster_expr *const *y,
                                                  muster_expr *const *dy, muster_expr **dx, void *user);
/* Result 0 as a view of operand 0: sets y->strides, in elements, and y->byte_offset, in bytes from
 * that of x (where it begins). Returns 1; 0 if the strides of x do not allow it, so that the body
 * computes the result. The tensors have no memory. */
typedef int32_t (*muster_operator_view)(const muster_operator_node *node, const muster_tensor *x, muster_tensor *y, void *user);

/* The bit of a dtype in a mask of dtypes. */
#define MUSTER_DTYPE_BIT(dtype) ((uint32_t)1 << (dtype))

/* What an operator without a text computes on several devices, in graphs with MUSTER_ONE_DEVICE.
 * - MUSTER_OPERATOR_NEEDS_ALL: every worker computes the results from whole operands, which are
 *   gathered for it. Right for every operator.
 * - MUSTER_OPERATOR_ROWWISE: row i of the results depends on row i of the operands only, and on
 *   operands that have no rows in their first axis. Each worker computes its rows: `in` and `out`
 *   of the callbacks have these, while an attribute with the size MUSTER_ROWS has all rows of the
 *   call. Results whose first axis is not that of result 0, which must have rows, are computed as
 *   with MUSTER_OPERATOR_NEEDS_ALL. */
enum muster_operator_distribution { MUSTER_OPERATOR_NEEDS_ALL = 0, MUSTER_OPERATOR_ROWWISE = 1 };

/* What an operator is. An option struct: the rules are in muster/status.h. Strings and lists are
 * copied. */
typedef struct muster_operator_options {
    size_t struct_size; /* set by muster_operator_options_init */
    /* The names of the operands; NULL ends the list, and NULL for the list means no operands. "..."
     * after the last: one or more of it. */
    const char *const *operands;
    const muster_operator_attribute *attributes;
    /* An expression of the operands and of the attributes, which are numbers or integers, such as
     * "x / (1 + exp(-b * x))". With a text there are no other parts than these three. */
    const char *text;
    int32_t results; /* 0: 1 */
    int32_t halves;  /* 1: takes and gives f16 and bf16; 0: they are refused */
    /* NULL: the operands have one dtype, one of `dtypes`, and result 0, the only one, has the dtype
     * and shape of operand 0. */
    muster_operator_rule rule;
    /* Each device runs the body of its backend, else the one with backend NULL. */
    const muster_operator_backend *bodies;
    int32_t body_count;
    /* A mask of operands: bodies and prepare read their values by their address, in host memory, on
     * GPUs too. */
    uint32_t host_operands;
    muster_operator_prepare prepare;
    muster_operator_release release;
    muster_operator_gradient gradient;
    const char *no_gradient; /* why there is none, for the message */
    muster_operator_view view;
    /* A mask of operands: the body may write result 0 over them, element by element. out[0] then
     * has the memory of in[i], if nothing needs that later. */
    uint32_t in_place;
    /* How the workers of a graph with MUSTER_ONE_DEVICE share the operator's work, a
     * muster_operator_distribution. With a text it follows from that. */
    int32_t distribution;
    /* The text of a section file (muster/kernel.h) whose kernels the bodies launch; DTYPE_INPUT_i
     * and DTYPE_OUTPUT_i are the dtypes of operands and results. Compiled for the dtypes of an
     * application when its graph is compiled. */
    const char *kernels;
    /* In place of a body: launches the first kernel, for the elements of result 0, with these
     * arguments, separated by commas. NAME of an operand, or "result": a buffer, at its first
     * element; NAME.elements, NAME.shape[d], NAME.strides[d] (in elements): numbers; NAME of an
     * attribute: its value; at most 32. NULL: none. Results after the first are "result1",
     * "result2". */
    const char *launch;
    void *user; /* passed to every callback */
    muster_destroy_function destroy;
    /* A mask of operands: bodies, prepare and `launch` look at their strides, which may be those of
     * a view, such as a transpose or a broadcast, 0 and negative ones too. Other operands that are
     * not contiguous are copied before the body. `view` looks at strides in any case. */
    uint32_t strided_operands;
    /* Without a rule and a text: the dtypes that the bodies take, as MUSTER_DTYPE_BIT(dtype) |...
     * 0: f32 and f64, and with `halves` f16 and bf16. */
    uint32_t dtypes;
} muster_operator_options;
MUSTER_API void muster_operator_options_init_sized(muster_operator_options *options, size_t size);
static inline void muster_operator_options_init(muster_operator_options *options) {
    muster_operator_options_init_sized(options, sizeof *options);
}

/* Creates an operator. The name has letters, digits and "_", and is neither that of an operation of
 * the library, nor a word of texts, nor that of an operator of the runtime. destroy(user) is called
 * once, when the operator has ended, or before an error is returned. Errors: INVALID_ARGUMENT
 * (NULL, a bad name, operand, attribute, text or launch, parts that exclude each other, no body),
 * OUT_OF_MEMORY, BAD_STATE (inside a body, a closed runtime, after fork). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_operator_create(muster_runtime *runtime, const char *name,
                                                                 const muster_operator_options *options, muster_operator **made);
/* No graph can apply the operator from now on. Accepts NULL. Errors: BAD_STATE (destroyed already,
 * inside a body, after fork). Threads: any. */
MUSTER_API muster_status muster_operator_destroy(muster_operator *made);

/* ---- for callbacks ---- */

/* An attribute of the application, in the member that its kind says: number; integer (an integer, a
 * dtype); integers and count (a list, sizes); text. In a rule and in a gradient a size may be one
 * that only a call knows; later all are numbers. The list or text belongs to the node. Errors:
 * INVALID_ARGUMENT (NULL, no such attribute). Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_operator_attribute_value(const muster_operator_node *node, const char *name,
                                                                          muster_attribute *value);
/* The graph of the application; NULL while a compiled function runs. Threads: worker. */
MUSTER_API muster_graph *muster_operator_graph(const muster_operator_node *node);
/* In a rule: the dtype and shape of a result. Errors: INVALID_ARGUMENT (NULL, not in a rule, a bad
 * dtype or size), OUT_OF_RANGE (no such result, too many dimensions). Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_operator_result(muster_operator_node *node, int32_t index, muster_dtype dtype,
                                                                 int32_t ndim, const int64_t *shape);
/* In a body: what prepare made; NULL without. Threads: worker. */
MUSTER_API void *muster_operator_state(const muster_operator_node *node);
/* In a body: the kernel of this name, compiled for the dtypes of the application. NULL: there is
 * none; the last error says so. Threads: worker. */
MUSTER_API muster_kernel *muster_operator_kernel(const muster_operator_node *node, const char *name);

#ifdef __cplusplus
}
#endif
#endif

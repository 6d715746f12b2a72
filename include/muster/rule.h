/* muster/rule.h: update rules. A graph minimises a loss: muster_graph_minimise makes the updates of
 * its parameters from their gradients.
 *
 * A parameter p with the gradient g and the rate r changes as follows in each call of the compiled
 * function. v', s' and so on are the new states; p' is the new parameter.
 *   MUSTER_SGD       p' = p - r g
 *   MUSTER_MOMENTUM  velocity' = momentum velocity - r g;  p' = p + velocity'
 *     (Polyak 1964, in the form of Lasagne and of muster_worker_all_reduce_momentum)
 *   MUSTER_NESTEROV  velocity' = momentum velocity - r g;  p' = p + momentum velocity' - r g
 *     (Nesterov 1983, rewritten for gradients at p: Bengio and others, arXiv 1212.0901, eq. 7)
 *   MUSTER_ADAGRAD   squares' = squares + g^2;  p' = p - r g / (sqrt(squares') + epsilon)
 *     (Duchi, Hazan and Singer, JMLR 12, 2011, with diagonal matrices)
 *   MUSTER_RMSPROP   squares' = rho squares + (1 - rho) g^2
 *                    p' = p - r g / sqrt(squares' + epsilon)
 *     (Tieleman and Hinton, Coursera 2012, lecture 6.5; epsilon as in Lasagne)
 *   MUSTER_ADADELTA  squares' = rho squares + (1 - rho) g^2
 *                    d = g sqrt(changes + epsilon) / sqrt(squares' + epsilon);  p' = p - r d
 *                    changes' = rho changes + (1 - rho) d^2
 *     (Zeiler, arXiv 1212.5701, algorithm 1)
 *   MUSTER_ADAM      t = step' = step + 1
 *                    moment' = beta1 moment + (1 - beta1) g
 *                    squares' = beta2 squares + (1 - beta2) g^2
 *                    scale = r sqrt(1 - beta2^t) / (1 - beta1^t)
 *                    p' = p - scale moment' / (sqrt(squares') + epsilon)
 *     (Kingma and Ba, arXiv 1412.6980: the order of section 2, as ONNX and Lasagne have it. With
 *     epsilon = e sqrt(1 - beta2^t) it is algorithm 1 with e, which PyTorch has.)
 *   MUSTER_ADAMAX    t = step' = step + 1
 *                    moment' = beta1 moment + (1 - beta1) g
 *                    largest' = max(beta2 largest, |g|)
 *                    p' = p - r / (1 - beta1^t) moment' / (largest' + epsilon)
 *     (the same paper, algorithm 2; epsilon as in Lasagne)
 * Defaults:
 *   rate      sgd, momentum, nesterov 0.01; adagrad, rmsprop, adadelta 1; adam 0.001; adamax 0.002
 *   momentum  0.9 (momentum, nesterov)
 *   rho       rmsprop 0.9, adadelta 0.95
 *   beta1, beta2  0.9, 0.999 (adam, adamax)
 *   epsilon   adagrad, rmsprop, adadelta 1e-6; adam, adamax 1e-8
 * They are those of Synkhronos and Lasagne; 0.01, where these have no default, is PyTorch's old
 * one.
 *
 * States begin with 0. They are variables in the runtime, called "GRAPH/PARAMETER/STATE" (with
 * "#2" and so on behind it where the name is taken), with the shape of the parameter; "step" is
 * one integer (i64), which all parameters of a call of muster_graph_minimise have in common: its
 * PARAMETER is the first of the call. The states belong to the graph until it is compiled, then to
 * the function, and end with it. Before the graph is compiled they take no memory. Where each
 * device keeps only the elements that it updates (docs/devices-together.md), the variable of a
 * state is accessible to muster_variable_get_whole and muster_variable_set_whole, as it is to
 * muster_function_state_get and _set; other operations and functions refuse it. States have the
 * dtype of the parameter, and rules are computed in it; for f16 and bf16 both are f32. The factors
 * of adam and adamax that contain t are computed in f64.
 *
 * Updates are those of muster_graph_update: every expression of a call sees the old values, and a
 * call that fails changes neither parameters nor states. On several devices one pass makes them,
 * after every device has computed its gradients: a call that fails during this pass or behind it (a
 * device is lost, a deadline passes) leaves them undefined. The message then says so, and every
 * call that reads them is refused until they are set again (muster/variable.h), by
 * muster_variable_set_whole and muster_function_state_set, say. With
 * MUSTER_ONE_DEVICE gradients are those of one device with all rows. With MUSTER_PER_WORKER each
 * worker has states of its own, and makes the update from the gradients of its own rows, unless the
 * program averages these; its replicas then differ from those of the others. With slices it makes
 * the update once for each slice from the old values, and averages what comes out; "step" grows by
 * 1 in a call. */
#ifndef MUSTER_RULE_H
#define MUSTER_RULE_H

#include "muster/function.h"
#include "muster/graph.h"
#include "muster/tensor.h"
#include "muster/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rules: see above. Frozen numbers. */
typedef int32_t muster_update_rule;
enum muster_update_rule_value {
    MUSTER_SGD = 1,
    MUSTER_MOMENTUM = 2,
    MUSTER_NESTEROV = 3,
    MUSTER_ADAGRAD = 4,
    MUSTER_RMSPROP = 5,
    MUSTER_ADADELTA = 6,
    MUSTER_ADAM = 7,
    MUSTER_ADAMAX = 8
};

/* What a rule takes. An option struct: the rules are in muster/status.h. Where the comment of a
 * field says so, any negative number stands for 0: momentum = -1 is a momentum of 0. Elsewhere
 * negative numbers are refused. An option that the rule does not have must be 0. */
typedef struct muster_rule_options {
    size_t struct_size; /* set by muster_rule_options_init */
    /* The rate as an expression: a scalar of a float dtype, such as an input of the function, which
     * each call then gives. NULL: learning_rate. */
    muster_expr *rate;
    double learning_rate; /* above 0; 0: the rule's default; must be 0 with `rate` */
    double momentum;      /* below 1; 0: the rule's default; negative: 0 */
    double beta1, beta2;  /* below 1; 0: the rule's default; negative: 0 */
    double rho;           /* below 1; 0: the rule's default; negative: 0 */
    double epsilon;       /* 0: the rule's default; negative: 0 */
    /* Coupled: weight_decay p is added to the gradient, after clipping. 0: none. */
    double weight_decay;
    /* Decoupled, as in AdamW (Loshchilov and Hutter, arXiv 1711.05101, as PyTorch has it): the rate
     * times decoupled_weight_decay p is taken from p beside the rule. 0: none. */
    double decoupled_weight_decay;
    /* Clips the gradients of this call of muster_graph_minimise by this global norm, as
     * muster_graph_clip does. 0: no clipping. */
    double clip_norm;
} muster_rule_options;
MUSTER_API void muster_rule_options_init_sized(muster_rule_options *options, size_t size);
static inline void muster_rule_options_init(muster_rule_options *options) { muster_rule_options_init_sized(options, sizeof *options); }

/* Makes the updates of `count` parameters from their gradients. parameters[i]: expressions that
 * muster_graph_parameter gave, f16, bf16, f32 or f64; gradients[i]: has the shape and dtype of
 * parameters[i], such as muster_gradient gives it. options NULL: all defaults. Several calls give
 * parameters other rules, rates and decays; each parameter belongs to one of them. An error stays
 * in the graph, as those of expressions do. Errors: INVALID_ARGUMENT (NULL, an unknown rule, an
 * option out of range or one that the rule does not have, an expression of another graph, one that
 * is no parameter, a parameter that has an update already), SHAPE_MISMATCH, DTYPE_MISMATCH,
 * UNSUPPORTED (a parameter that is no float), OUT_OF_MEMORY, BAD_STATE (a frozen graph, a closed
 * runtime). Threads: owner of the graph. */
MUSTER_API muster_status muster_graph_minimise(muster_graph *graph, muster_expr *const *parameters, muster_expr *const *gradients,
                                               int32_t count, muster_update_rule rule, const muster_rule_options *options);
/* Clips gradients by their global norm n, the square root of the sum of the squares of all their
 * elements: clipped[i] = gradients[i] min(1, norm / n). `clipped` may be `gradients`. To clip
 * the gradients of several calls of muster_graph_minimise by one norm, clip all of them here
 * first, and give the results to these calls. `norm` is above 0 and finite. If n is 0, nothing
 * changes. If n is NaN, all elements become NaN. If n is infinite, finite elements become 0,
 * and infinite ones NaN. n is computed in f64 for gradients of every dtype, on one device and on
 * several; on GPUs squares of f32 that are below the range of f32 count as 0. In case of an error,
 * clipped[i] are expressions that stand for it. Errors: INVALID_ARGUMENT (NULL, another graph,
 * norm), DTYPE_MISMATCH (gradients that are no floats), OUT_OF_MEMORY, BAD_STATE (a frozen graph).
 * Threads: owner of the graph. */
MUSTER_API muster_status muster_graph_clip(muster_graph *graph, muster_expr *const *gradients, int32_t count, double norm,
                                           muster_expr **clipped);

/* ---- states of a compiled function ---- */

/* A state. A result struct: the rules are in muster/status.h. */
typedef struct muster_state_description {
    size_t struct_size;             /* set by muster_state_description_init */
    const char *name;               /* such as "velocity"; both names belong to the library */
    const char *rule;               /* such as "momentum" */
    muster_variable *variable;      /* the parameter; of "step": the first of the call of muster_graph_minimise */
    int64_t shape[MUSTER_MAX_DIMS]; /* shape[ndim], whole */
    muster_dtype dtype;
    int32_t ndim;
} muster_state_description;
MUSTER_API void muster_state_description_init_sized(muster_state_description *description, size_t size);
static inline void muster_state_description_init(muster_state_description *description) {
    muster_state_description_init_sized(description, sizeof *description);
}

/* The states of a function that muster_graph_compile gave, in the order of the parameters. All wait
 * behind running calls. The names of states and the order of the parameters do not depend on the
 * devices, so that training goes on with another number of them: get all states, and set them in
 * another runtime.
 * Errors: INVALID_ARGUMENT (NULL, a function with another body, a variable or a name without a
 * state; the message lists the names), OUT_OF_RANGE (an index), DTYPE_MISMATCH, SHAPE_MISMATCH,
 * BAD_STATE (a closed runtime, inside a body), OUT_OF_MEMORY, and errors of the devices. Threads:
 * any. */
/* *count = the number of states; "step" counts once for each call of muster_graph_minimise. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_state_count(muster_function *function, int32_t *count);
MUSTER_API MUSTER_NODISCARD muster_status muster_function_state_describe(muster_function *function, int32_t index,
                                                                         muster_state_description *description);
/* Copies the whole value of a state into `value`, a host tensor of its shape and dtype. "step" has
 * every variable of its call of muster_graph_minimise. With MUSTER_PER_WORKER, where workers have
 * states of their own: the master's. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_state_get(muster_function *function, muster_variable *variable, const char *name,
                                                                    muster_tensor value);
/* Sets the whole value of a state on all devices to `value`, a host tensor of its shape and dtype.
 * */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_state_set(muster_function *function, muster_variable *variable, const char *name,
                                                                    muster_tensor value);

#ifdef __cplusplus
}
#endif
#endif

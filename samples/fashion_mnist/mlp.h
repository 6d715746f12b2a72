/* mlp.h: a multilayer perceptron 784-800-800-10 (ReLU, softmax cross-entropy, SGD with momentum),
 * written as Muster functions.
 *
 * All parameters are one flat vector, and so is their gradient, so that a step needs only one
 * all-reduce. The vector holds weight (inputs, outputs) and bias (outputs) of each layer in turn.
 * Every device has a replica of the parameters and of the momentum. All devices apply the same
 * gradient, so the replicas stay equal bit for bit.
 *
 * The training step exists twice: as a body (mlp.c), and as expressions whose gradient is derived
 * (mlp_expressions.c). Both compute the same. */
#ifndef MLP_H
#define MLP_H

#include <muster/muster.h>

enum { MLP_INPUTS = 784, MLP_HIDDEN = 800, MLP_CLASSES = 10, MLP_LAYERS = 3 };

typedef struct mlp_options {
    double learning_rate, momentum;
    uint64_t seed;
    int expressions; /* 1: the training step is made of expressions */
} mlp_options;

typedef struct mlp {
    mlp_options options;
    muster_runtime *runtime;
    muster_variable *parameters, *momentum; /* f32 (mlp_parameter_count()) */
    muster_function *initialise, *step, *gradient, *evaluate;
} mlp;

int64_t mlp_parameter_count(void);

/* A layer's weight, (inputs, outputs), begins at `begin` in the flat vector; behind it is the
 * bias. */
typedef struct mlp_layer {
    int64_t inputs, outputs, begin;
} mlp_layer;
mlp_layer mlp_layer_of(int layer);

/* Creates variables and functions in the runtime, which destroys them when it closes. `model` must
 * exist until then. The parameters are He-uniform and depend on the seed alone: they are the same
 * on any number of devices. */
muster_status mlp_open(mlp *model, muster_runtime *runtime, const mlp_options *options);

/* One training step on the selected rows of images (u8, (rows, 784)) and labels (u8, (rows)). *loss
 * = the mean over the batch. */
muster_status mlp_step(mlp *model, muster_tensor images, muster_tensor labels, const muster_selection *batch, float *loss);

/* Writes the gradient of the mean loss over the selected rows into the flat f32 host vector
 * `gradient`. Changes nothing else. */
muster_status mlp_gradient(mlp *model, muster_tensor images, muster_tensor labels, const muster_selection *batch, muster_tensor gradient);

/* The fraction of rows that are classified correctly. */
muster_status mlp_accuracy(mlp *model, muster_tensor images, muster_tensor labels, double *accuracy);

/* mlp_expressions.c: creates the step of expressions, and makes it. Only mlp.c calls them. */
muster_status mlp_create_expressions(mlp *model);
muster_status mlp_step_expressions(mlp *model, muster_tensor images, muster_tensor labels, const muster_call_options *options, float *loss);

#endif

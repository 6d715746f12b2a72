/* mlp.h: a multilayer perceptron 784-800-800-10 (ReLU, softmax cross-entropy, SGD with momentum),
 * written as Muster functions.
 *
 * All parameters are one flat vector, and so is their gradient, so that one all-reduce serves a
 * step. In it, layer after layer: weight (inputs, outputs), bias (outputs). Every device has a
 * replica of the parameters and of the momentum; as all devices apply the same gradient, the
 * replicas stay the same bit for bit. */
#ifndef MLP_H
#define MLP_H

#include <muster/muster.h>

enum { MLP_INPUTS = 784, MLP_HIDDEN = 800, MLP_CLASSES = 10, MLP_LAYERS = 3 };

typedef struct mlp_options {
    double learning_rate, momentum;
    uint64_t seed;
} mlp_options;

typedef struct mlp {
    mlp_options options;
    muster_runtime *runtime;
    muster_variable *parameters, *momentum; /* f32 (mlp_parameter_count()) */
    muster_function *initialise, *step, *gradient, *evaluate;
} mlp;

int64_t mlp_parameter_count(void);

/* Creates variables and functions in the runtime, which destroys them when it closes; `model` must
 * live until then. The parameters are He-uniform, from the seed alone: the same on any number of
 * devices. */
muster_status mlp_open(mlp *model, muster_runtime *runtime, const mlp_options *options);

/* One step of training on the selected rows of images (u8, (rows, 784)) and labels (u8, (rows)).
 * loss: the mean over the batch. */
muster_status mlp_step(mlp *model, muster_tensor images, muster_tensor labels, const muster_selection *batch, float *loss);

/* The gradient of the mean loss over the selected rows, into the flat f32 host vector `gradient`.
 * Changes nothing. */
muster_status mlp_gradient(mlp *model, muster_tensor images, muster_tensor labels, const muster_selection *batch, muster_tensor gradient);

/* The share of rows that are classified correctly. */
muster_status mlp_accuracy(mlp *model, muster_tensor images, muster_tensor labels, double *accuracy);

#endif

/* mlp.h: a multilayer perceptron 784-800-800-10 (ReLU, softmax cross-entropy, SGD with momentum) on
 * all devices.
 *
 * It exists twice. mlp_expressions.c describes it by expressions that mean one device with all
 * rows: Muster derives the gradient, shares the work out over the devices and exchanges what they
 * need. mlp.c has the same as bodies, in which all of this is written by hand. Both compute the
 * same numbers, up to rounding.
 *
 * Where all parameters are one flat vector, as in the bodies and on the host, it holds weight
 * (inputs, outputs) and bias (outputs) of each layer in turn. */
#ifndef MLP_H
#define MLP_H

#include <muster/muster.h>

enum { MLP_INPUTS = 784, MLP_HIDDEN = 800, MLP_CLASSES = 10, MLP_LAYERS = 3, MLP_VALUES = 2 * MLP_LAYERS };

/* The number of rows that a worker evaluates at a time, so that their activations stay in its
 * cache. */
enum { MLP_EVALUATE_ROWS = 500 };

typedef struct mlp_options {
    double learning_rate, momentum;
    uint64_t seed;
    int expressions; /* 1: expressions; 0: bodies */
    int split;       /* 1: each device has a part of the weights of the first two layers; with expressions only */
} mlp_options;

typedef struct mlp {
    mlp_options options;
    muster_runtime *runtime;
    muster_variable *parameters, *momentum; /* with bodies: f32 (mlp_parameter_count()) */
    muster_variable *values[MLP_VALUES];    /* with expressions: weight and bias of each layer in turn */
    muster_function *step, *gradient, *evaluate;
} mlp;

int64_t mlp_parameter_count(void);

/* One layer's views into a flat vector. */
typedef struct mlp_layer {
    muster_tensor weight, bias;
} mlp_layer;
void mlp_cut_layers(muster_tensor flat, mlp_layer layers[MLP_LAYERS]);

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

/* Writes the parameters into the flat f32 host vector `values`. */
muster_status mlp_parameters(mlp *model, muster_tensor values);

/* The fraction of rows that are classified correctly. */
muster_status mlp_accuracy(mlp *model, muster_tensor images, muster_tensor labels, double *accuracy);

/* mlp_expressions.c: the same for expressions. Only mlp.c calls them. `initial`: the parameters, a
 * flat host vector. */
muster_status mlp_expressions_create(mlp *model, muster_tensor initial);
muster_status mlp_expressions_step(mlp *model, muster_tensor images, muster_tensor labels, const muster_call_options *options, float *loss);
muster_status mlp_expressions_gradient(mlp *model, muster_tensor images, muster_tensor labels, const muster_call_options *options,
                                       muster_tensor gradient);
muster_status mlp_expressions_parameters(mlp *model, muster_tensor values);
muster_status mlp_expressions_accuracy(mlp *model, muster_tensor images, muster_tensor labels, double *accuracy);

#endif

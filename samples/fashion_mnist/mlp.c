#include "mlp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pixels are bytes; the network's inputs are pixel / 255. The factor is part of the alpha of the
 * first layer's two multiplications. */
#define PIXEL_SCALE (1.0 / 255)

static const int64_t sizes[MLP_LAYERS + 1] = {MLP_INPUTS, MLP_HIDDEN, MLP_HIDDEN, MLP_CLASSES};

static int64_t layer_count(int l) { return sizes[l] * sizes[l + 1] + sizes[l + 1]; }

int64_t mlp_parameter_count(void) {
    int64_t count = 0;
    for (int l = 0; l < MLP_LAYERS; l++) count += layer_count(l);
    return count;
}

void mlp_cut_layers(muster_tensor flat, mlp_layer layers[MLP_LAYERS]) {
    int64_t begin = 0;
    for (int l = 0; l < MLP_LAYERS; l++) {
        const int64_t bias = begin + sizes[l] * sizes[l + 1], end = begin + layer_count(l);
        layers[l].weight = muster_tensor_reshape(muster_tensor_slice(flat, begin, bias), 2, (int64_t[]){sizes[l], sizes[l + 1]});
        layers[l].bias = muster_tensor_slice(flat, bias, end);
        begin = end;
    }
}

static muster_status matrix(muster_worker *w, int64_t rows, int64_t columns, muster_tensor *made) {
    return muster_worker_scratch(w, MUSTER_F32, 2, (int64_t[]){rows, columns}, made);
}

/* activation[0]: the pixels as f32. activation[l + 1]: the output of layer l. The last one holds
 * the logits. */
static muster_status forward(muster_worker *w, muster_tensor pixels, const mlp_layer *layers, muster_tensor *activation) {
    int64_t rows = pixels.shape[0];
    MUSTER_TRY(matrix(w, rows, MLP_INPUTS, &activation[0]));
    MUSTER_TRY(muster_copy(w, pixels, activation[0]));
    for (int l = 0; l < MLP_LAYERS; l++) {
        MUSTER_TRY(matrix(w, rows, sizes[l + 1], &activation[l + 1]));
        const muster_tensor y = activation[l + 1];
        MUSTER_TRY(muster_gemm(w, l == 0 ? PIXEL_SCALE : 1, activation[l], layers[l].weight, 0, y));
        if (l + 1 < MLP_LAYERS)
            MUSTER_TRY(muster_bias_relu(w, y, layers[l].bias, y));
        else
            MUSTER_TRY(muster_binary_op(w, MUSTER_ADD, y, layers[l].bias, y));
    }
    return MUSTER_OK;
}

/* Computes the gradient of every layer from the gradient of the logits. */
static muster_status backward(muster_worker *w, muster_tensor delta, const mlp_layer *layers, const muster_tensor *activation,
                              const mlp_layer *gradient) {
    for (int l = MLP_LAYERS - 1; l >= 0; l--) {
        muster_tensor x = activation[l];
        MUSTER_TRY(muster_gemm(w, l == 0 ? PIXEL_SCALE : 1, muster_tensor_transpose(x), delta, 0, gradient[l].weight));
        MUSTER_TRY(muster_reduce(w, MUSTER_SUM, delta, 0, gradient[l].bias));
        if (l == 0) break;
        muster_tensor below;
        MUSTER_TRY(matrix(w, x.shape[0], x.shape[1], &below));
        MUSTER_TRY(muster_gemm(w, 1, delta, muster_tensor_transpose(layers[l].weight), 0, below));
        MUSTER_TRY(muster_relu_gradient(w, x, below, below));
        delta = below;
    }
    return MUSTER_OK;
}

/* Computes this worker's part of the flat gradient of the mean loss over the rows of the whole
 * call; loss is the sum over this worker's rows. The part is divided by the number of rows of the
 * call, so the sum over the workers is correct however unevenly the rows are distributed. */
static muster_status gradient_of_rows(muster_worker *w, const mlp *model, const muster_tensor *in, muster_tensor gradient,
                                      muster_tensor loss) {
    if (muster_worker_rows(w) == 0) return muster_fill(w, 0, gradient);
    mlp_layer layers[MLP_LAYERS], parts[MLP_LAYERS];
    muster_tensor activation[MLP_LAYERS + 1], parameters;
    MUSTER_TRY(muster_worker_variable(w, model->parameters, &parameters));
    mlp_cut_layers(parameters, layers);
    mlp_cut_layers(gradient, parts);
    MUSTER_TRY(forward(w, in[0], layers, activation));
    muster_tensor logits = activation[MLP_LAYERS];
    MUSTER_TRY(
        muster_softmax_cross_entropy(w, logits, in[1], 1.0 / (double)muster_worker_total_rows(w), loss, logits, muster_tensor_none()));
    return backward(w, logits, layers, activation, parts);
}

static muster_status step_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const mlp *model = user;
    muster_tensor p, v, g;
    MUSTER_TRY(muster_worker_variable(w, model->parameters, &p));
    MUSTER_TRY(muster_worker_variable(w, model->momentum, &v));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, p.shape, &g));
    MUSTER_TRY(gradient_of_rows(w, model, in, g, out[0]));
    /* v = m v - lr (sum of g); p = p + v */
    return muster_worker_all_reduce_momentum(w, NULL, -model->options.learning_rate, g, model->options.momentum, v, p);
}

static muster_status gradient_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_tensor loss, g;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &loss));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, out[0].shape, &g));
    MUSTER_TRY(gradient_of_rows(w, user, in, g, loss));
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, g, out[0]);
}

static muster_status evaluate_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const mlp *model = user;
    mlp_layer layers[MLP_LAYERS];
    muster_tensor activation[MLP_LAYERS + 1], loss, parameters;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &loss));
    MUSTER_TRY(muster_worker_variable(w, model->parameters, &parameters));
    mlp_cut_layers(parameters, layers);
    MUSTER_TRY(forward(w, in[0], layers, activation));
    return muster_softmax_cross_entropy(w, activation[MLP_LAYERS], in[1], 1, loss, muster_tensor_none(), out[0]);
}

/* He et al., "Delving deep into rectifiers" (2015), in its uniform form: weights in [-b, b) with b
 * = sqrt(6 / inputs), biases 0. The last layer has a tenth of that: with logits near 0 the first
 * steps do not overshoot. A momentum of 0.9 would prolong such an overshoot. */
static muster_status initial_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    const mlp *model = user;
    mlp_layer layers[MLP_LAYERS], random[MLP_LAYERS];
    muster_tensor u;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, out[0].shape, &u));
    MUSTER_TRY(muster_random_uniform(w, model->options.seed, 0, u));
    MUSTER_TRY(muster_fill(w, 0, out[0]));
    mlp_cut_layers(out[0], layers);
    mlp_cut_layers(u, random);
    for (int l = 0; l < MLP_LAYERS; l++) {
        double bound = (l + 1 < MLP_LAYERS ? 1 : 0.1) * sqrt(6.0 / (double)sizes[l]);
        MUSTER_TRY(muster_fill(w, -bound, layers[l].weight));
        MUSTER_TRY(muster_axpy(w, 2 * bound, random[l].weight, layers[l].weight));
    }
    return MUSTER_OK;
}

static muster_status compute_initial(mlp *m, muster_tensor values) {
    muster_function *initial;
    MUSTER_TRY(muster_function_create(m->runtime, "mlp.initial", initial_body, m, &initial));
    MUSTER_TRY(muster_function_output(initial, "values", MUSTER_F32, 1, MUSTER_MASTER));
    MUSTER_TRY(muster_function_set_shards_together(initial, 1)); /* the values are the same for every shard */
    MUSTER_TRY(muster_function_call(initial, NULL, 0, &values, 1, NULL));
    return muster_function_destroy(initial);
}

static muster_status describe_data(muster_function *f) {
    MUSTER_TRY(muster_function_input(f, "images", MUSTER_U8, 2, MUSTER_SCATTER));
    return muster_function_input(f, "labels", MUSTER_U8, 1, MUSTER_SCATTER);
}

static muster_status create_step(mlp *m) {
    MUSTER_TRY(muster_function_create(m->runtime, "mlp.step", step_body, m, &m->step));
    MUSTER_TRY(describe_data(m->step));
    MUSTER_TRY(muster_function_output(m->step, "loss", MUSTER_F32, 0, MUSTER_SUM));
    MUSTER_TRY(muster_function_variable(m->step, m->parameters, MUSTER_USE_READ_WRITE));
    MUSTER_TRY(muster_function_variable(m->step, m->momentum, MUSTER_USE_READ_WRITE));
    return muster_function_set_runs_without_rows(m->step, 1); /* every worker enters the all-reduce */
}

static muster_status create_functions(mlp *m) {
    MUSTER_TRY(create_step(m));

    MUSTER_TRY(muster_function_create(m->runtime, "mlp.gradient", gradient_body, m, &m->gradient));
    MUSTER_TRY(describe_data(m->gradient));
    /* equal on all devices, so any of them serves */
    MUSTER_TRY(muster_function_output(m->gradient, "gradient", MUSTER_F32, 1, MUSTER_MAX));
    MUSTER_TRY(muster_function_variable(m->gradient, m->parameters, MUSTER_USE_READ));
    MUSTER_TRY(muster_function_set_runs_without_rows(m->gradient, 1));

    MUSTER_TRY(muster_function_create(m->runtime, "mlp.evaluate", evaluate_body, m, &m->evaluate));
    MUSTER_TRY(describe_data(m->evaluate));
    MUSTER_TRY(muster_function_output(m->evaluate, "correct", MUSTER_I64, 0, MUSTER_SUM));
    return muster_function_variable(m->evaluate, m->parameters, MUSTER_USE_READ);
}

static muster_status create_bodies(mlp *m, muster_tensor initial) {
    float zero = 0; /* stride 0: a flat vector of zeros that needs no memory of its size */
    muster_tensor zeros = muster_f32(&zero, mlp_parameter_count());
    zeros.strides[0] = 0;
    MUSTER_TRY(muster_variable_create(m->runtime, "mlp.parameters", initial, &m->parameters));
    MUSTER_TRY(muster_variable_create(m->runtime, "mlp.momentum", zeros, &m->momentum));
    return create_functions(m);
}

muster_status mlp_open(mlp *m, muster_runtime *runtime, const mlp_options *options) {
    memset(m, 0, sizeof *m);
    m->options = *options;
    m->runtime = runtime;
    float *values = malloc((size_t)mlp_parameter_count() * sizeof *values);
    if (!values) return MUSTER_OUT_OF_MEMORY;
    const muster_tensor initial = muster_f32(values, mlp_parameter_count());
    muster_status status = compute_initial(m, initial);
    if (status == MUSTER_OK) status = options->expressions ? mlp_expressions_create(m, initial) : create_bodies(m, initial);
    free(values);
    return status;
}

static muster_call_options options_of(const muster_selection *batch) {
    muster_call_options options;
    muster_call_options_init(&options);
    if (batch) options.batch = *batch;
    return options;
}

static int64_t batch_rows(const muster_selection *batch, muster_tensor images) {
    if (!batch || batch->kind == MUSTER_SELECT_ALL) return images.shape[0];
    return batch->kind == MUSTER_SELECT_LIST ? batch->index_count : batch->stop - (batch->kind == MUSTER_SELECT_RANGE ? batch->start : 0);
}

muster_status mlp_step(mlp *m, muster_tensor images, muster_tensor labels, const muster_selection *batch, float *loss) {
    muster_call_options options = options_of(batch);
    if (m->options.expressions) return mlp_expressions_step(m, images, labels, &options, loss);
    muster_tensor in[] = {images, labels}, out[] = {muster_f32(loss)};
    MUSTER_TRY(muster_function_call(m->step, in, 2, out, 1, &options));
    *loss /= (float)batch_rows(batch, images);
    return MUSTER_OK;
}

muster_status mlp_gradient(mlp *m, muster_tensor images, muster_tensor labels, const muster_selection *batch, muster_tensor gradient) {
    muster_call_options options = options_of(batch);
    if (m->options.expressions) return mlp_expressions_gradient(m, images, labels, &options, gradient);
    muster_tensor in[] = {images, labels};
    return muster_function_call(m->gradient, in, 2, &gradient, 1, &options);
}

muster_status mlp_parameters(mlp *m, muster_tensor values) {
    return m->options.expressions ? mlp_expressions_parameters(m, values) : muster_variable_get(m->parameters, 0, values);
}

muster_status mlp_accuracy(mlp *m, muster_tensor images, muster_tensor labels, double *accuracy) {
    if (m->options.expressions) return mlp_expressions_accuracy(m, images, labels, accuracy);
    int64_t correct = 0, rows = images.shape[0], at_once = (int64_t)MLP_EVALUATE_ROWS * muster_runtime_size(m->runtime);
    muster_call_options options = options_of(NULL);
    options.slices = (rows + at_once - 1) / at_once;
    muster_tensor in[] = {images, labels}, out[] = {muster_i64(&correct)};
    MUSTER_TRY(muster_function_call(m->evaluate, in, 2, out, 1, &options));
    *accuracy = (double)correct / (double)rows;
    return MUSTER_OK;
}

#include "network.h"

#include <math.h>

/* Pixels are bytes; the network's inputs are pixel / 255. The factor is part of the alpha of the
 * first layer's two multiplications. */
#define PIXEL_SCALE (1.0 / 255)

const int32_t network_ndim[NETWORK_VALUES] = {2, 1, 2, 1};
const int64_t network_shape[NETWORK_VALUES][2] = {
    {NETWORK_INPUTS, NETWORK_HIDDEN}, {NETWORK_HIDDEN}, {NETWORK_HIDDEN, NETWORK_CLASSES}, {NETWORK_CLASSES}};

int64_t network_count(int32_t index) { return network_shape[index][0] * (network_ndim[index] == 2 ? network_shape[index][1] : 1); }

static muster_tensor matrix(muster_worker *w, int64_t rows, int64_t columns) {
    return muster_worker_scratch(w, MUSTER_F32, 2, (int64_t[]){rows, columns});
}

muster_status network_open(network *n, muster_worker *w, int64_t rows) {
    n->pixels = matrix(w, rows, NETWORK_INPUTS);
    n->hidden = matrix(w, rows, NETWORK_HIDDEN);
    n->hidden_gradient = matrix(w, rows, NETWORK_HIDDEN);
    n->logits = matrix(w, rows, NETWORK_CLASSES);
    for (int32_t i = 0; i < NETWORK_VALUES; i++) n->gradients[i] = muster_worker_scratch(w, MUSTER_F32, network_ndim[i], network_shape[i]);
    n->loss = muster_worker_scratch(w, MUSTER_F32, 0, NULL);
    n->correct = muster_worker_scratch(w, MUSTER_I64, 0, NULL);
    return muster_fill(w, 0, n->loss); /* returns the reason if any of the memory could not be allocated */
}

static muster_status forward(network *n, muster_worker *w, const muster_tensor *p, muster_tensor images) {
    const int64_t rows = muster_tensor_rows(images);
    const muster_tensor pixels = muster_tensor_slice(n->pixels, 0, rows), hidden = muster_tensor_slice(n->hidden, 0, rows);
    const muster_tensor logits = muster_tensor_slice(n->logits, 0, rows);
    MUSTER_TRY(muster_copy(w, images, pixels));
    MUSTER_TRY(muster_gemm(w, PIXEL_SCALE, pixels, p[0], 0, hidden));
    MUSTER_TRY(muster_bias_relu(w, hidden, p[1], hidden));
    MUSTER_TRY(muster_gemm(w, 1, hidden, p[2], 0, logits));
    return muster_binary_op(w, MUSTER_ADD, logits, p[3], logits);
}

muster_status network_gradient(network *n, muster_worker *w, const muster_tensor *p, muster_tensor images, muster_tensor labels) {
    const int64_t rows = muster_tensor_rows(images);
    const muster_tensor pixels = muster_tensor_slice(n->pixels, 0, rows), hidden = muster_tensor_slice(n->hidden, 0, rows);
    const muster_tensor logits = muster_tensor_slice(n->logits, 0, rows), delta = muster_tensor_slice(n->hidden_gradient, 0, rows);
    MUSTER_TRY(forward(n, w, p, images));
    MUSTER_TRY(muster_softmax_cross_entropy(w, logits, labels, 1.0 / (double)rows, n->loss, logits, muster_tensor_none()));
    MUSTER_TRY(muster_gemm(w, 1, muster_tensor_transpose(hidden), logits, 0, n->gradients[2]));
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, logits, 0, n->gradients[3]));
    MUSTER_TRY(muster_gemm(w, 1, logits, muster_tensor_transpose(p[2]), 0, delta));
    MUSTER_TRY(muster_relu_gradient(w, hidden, delta, delta));
    MUSTER_TRY(muster_gemm(w, PIXEL_SCALE, muster_tensor_transpose(pixels), delta, 0, n->gradients[0]));
    return muster_reduce(w, MUSTER_SUM, delta, 0, n->gradients[1]);
}

muster_status network_correct(network *n, muster_worker *w, const muster_tensor *p, muster_tensor images, muster_tensor labels,
                              muster_tensor correct) {
    MUSTER_TRY(forward(n, w, p, images));
    return muster_softmax_cross_entropy(w, muster_tensor_slice(n->logits, 0, muster_tensor_rows(images)), labels, 1, n->loss,
                                        muster_tensor_none(), correct);
}

/* He et al., "Delving deep into rectifiers" (2015), in its uniform form. The last layer has a tenth
 * of that, so that the first logits are near 0. */
void network_initial(int32_t index, uint64_t seed, float *values) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const double bound = network_ndim[index] == 1 ? 0 : (index == 0 ? 1 : 0.1) * sqrt(6.0 / (double)network_shape[index][0]);
    for (int64_t i = 0; i < network_count(index); i++) {
        uint32_t out[4], counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), (uint32_t)index, 0};
        muster_philox4x32(counter, key, out);
        values[i] = (float)(bound * (2 * (double)out[0] / 4294967296.0 - 1));
    }
}

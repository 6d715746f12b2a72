/* The demo's training step on made-up images of Fashion-MNIST's shape. */
#ifndef BENCH_TRAINING_H
#define BENCH_TRAINING_H

#include "mlp.h"
#include "muster_case.h"

enum { BENCH_BATCH = 500, BENCH_BATCHES = 20 };

/* Too large for the stack. */
typedef struct bench_training {
    mlp model;
    muster_runtime *runtime;
    muster_tensor images, labels;
    int64_t order[BENCH_BATCH * BENCH_BATCHES];
    int64_t position;
    float loss;
} bench_training;

/* A runtime of `devices` and the model; its step is a body, or made of expressions. false: says
 * why. Close it in any case. */
bool bench_training_open(bench_training *training, int32_t devices, bool expressions);
bool bench_training_block(void *training, const bench_block *block, double *ns, int64_t *wrong);
bool bench_training_close(bench_training *training);

#endif

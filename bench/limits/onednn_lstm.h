/* oneDNN's own LSTM, f32: one layer forwards, for training, and its gradients of the inputs, the
 * weights and the bias. Each of two pinned threads has half of the rows, and oneDNN one thread.
 * Operands lie as oneDNN likes them best, and stay so: its weights are not reordered, though those
 * that a step of training has changed would have to be. */
#ifndef BENCH_ONEDNN_LSTM_H
#define BENCH_ONEDNN_LSTM_H

#include "pair.h"

typedef struct bench_onednn_lstm bench_onednn_lstm;

/* NULL: it cannot be measured; says so. */
bench_onednn_lstm *bench_onednn_lstm_open(bench_pair *pair, int64_t rows, int64_t steps, int64_t inputs, int64_t states, bool gradient);
void bench_onednn_lstm_close(void *self);
bool bench_onednn_lstm_block(void *self, const bench_block *block, double *ns, int64_t *wrong);

#endif

/* A training step of a network of samples/models, on made-up images. */
#ifndef BENCH_MODELS_H
#define BENCH_MODELS_H

#include "muster_case.h"

/* Each has the sample's own network, step and rule. `step` counts, for networks that draw. */
typedef muster_function *bench_model_compile(muster_runtime *runtime, int64_t batch);
bench_model_compile bench_lenet_compile, bench_alexnet_compile, bench_resnet50_compile;

#endif

/* The network of samples/models/resnet50.c, whose program does not run here. */
#include "models.h"

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wold-style-declaration"
#endif
#pragma GCC diagnostic ignored "-Wunused-function"
#define main static sample_program
#include "resnet50.c"
#undef main

muster_function *bench_resnet50_compile(muster_runtime *runtime, int64_t batch) {
    model m = model_open(runtime, "resnet50.step");
    return compile_step(&m, batch, 224, 1000, 0, 0);
}

/* The network of samples/models/lenet.c, whose program does not run here. */
#include "models.h"

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wold-style-declaration"
#endif
#pragma GCC diagnostic ignored "-Wunused-function"
#define main static sample_program
#include "lenet.c"
#undef main

muster_function *bench_lenet_compile(muster_runtime *runtime, int64_t batch) {
    model m = model_open(runtime, "lenet.step");
    return compile_step(&m, batch);
}

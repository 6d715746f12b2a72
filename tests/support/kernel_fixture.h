/* What tests of kernels share: kernels out of the list of texts, and arrays on a device between
 * guard words. */
#ifndef KERNEL_FIXTURE_H
#define KERNEL_FIXTURE_H

#include "function_fixture.h"
#include "kernel_texts.h"
#include "muster/kernel.h"
#include "runtime_gpus.h"

#include <string.h>

/* A silent runtime of these devices ("host:2"; on GPUs where the environment asks for it). Fails
 * the test if it does not open. */
muster_runtime *kernel_open(const char *devices);

/* The text of that name, as a kernel of the runtime. */
muster_kernel *kernel_make(muster_runtime *runtime, const char *name);
/* The same where its flags or its threads matter. */
muster_kernel *kernel_make_with(muster_runtime *runtime, const char *name, const muster_kernel_options *options);

/* `count` elements on the device of that rank with guards at both sides, which drop checks:
 * whatever a kernel does, they stay. */
typedef struct kernel_array {
    muster_runtime *runtime;
    muster_tensor whole, view; /* view: the elements */
} kernel_array;
/* NULL: zeros */
kernel_array kernel_put(muster_runtime *runtime, int32_t rank, muster_dtype dtype, int64_t count, const void *values);
void kernel_get(const kernel_array *array, void *values);
void kernel_drop(kernel_array *array);

/* One dimension. */
muster_grid kernel_grid(int64_t groups, int64_t threads);

#define ARGUMENTS(...) ((muster_argument[]){__VA_ARGS__}), (int32_t)(sizeof((muster_argument[]){__VA_ARGS__}) / sizeof(muster_argument))

#endif

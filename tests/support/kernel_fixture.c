#include "kernel_fixture.h"

#include <stdlib.h>

enum { GUARD = 64 }; /* bytes at each side */

static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

muster_runtime *kernel_open(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime = NULL;
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.log = no_log;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

muster_kernel *kernel_make_with(muster_runtime *runtime, const char *name, const muster_kernel_options *options) {
    const kernel_text *text = kernel_text_find(name);
    muster_kernel *kernel = NULL;
    assert_non_null(text);
    assert_ok(muster_kernel_create(runtime, name, text->source, text->parameters, text->parameter_count, options, &kernel));
    return kernel;
}

muster_kernel *kernel_make(muster_runtime *runtime, const char *name) {
    muster_kernel_options options;
    muster_kernel_options_init(&options);
    const kernel_text *text = kernel_text_find(name);
    options.flags = text ? text->flags : NULL;
    return kernel_make_with(runtime, name, &options);
}

static unsigned char guard_at(int64_t i) { return (unsigned char)(0xA5 ^ (i * 7)); }

static int64_t bytes_of(const kernel_array *array) { return array->view.shape[0] * muster_dtype_size(array->view.dtype); }

static muster_tensor host_bytes(void *memory, int64_t bytes) { return muster_u8(memory, bytes); }

kernel_array kernel_put(muster_runtime *runtime, int32_t rank, muster_dtype dtype, int64_t count, const void *values) {
    const int64_t bytes = count * muster_dtype_size(dtype), all = bytes + 2 * GUARD;
    char device[16];
    snprintf(device, sizeof device, "%d", (int)rank);
    kernel_array array = {.runtime = runtime};
    unsigned char *memory = calloc(1, (size_t)all);
    assert_non_null(memory);
    for (int64_t i = 0; i < GUARD; i++) memory[i] = memory[all - 1 - i] = guard_at(i);
    if (values && bytes > 0) memcpy(memory + GUARD, values, (size_t)bytes);
    assert_ok(muster_runtime_tensor_create(runtime, device, MUSTER_U8, 1, &all, &array.whole));
    assert_ok(muster_runtime_tensor_copy(runtime, host_bytes(memory, all), array.whole));
    free(memory);
    array.view = muster_tensor_make(dtype, array.whole.data, 1, &count);
    array.view.device = array.whole.device;
    array.view.byte_offset = array.whole.byte_offset + GUARD;
    return array;
}

static unsigned char *fetch(const kernel_array *array) {
    unsigned char *memory = malloc((size_t)array->whole.shape[0]);
    assert_non_null(memory);
    assert_ok(muster_runtime_tensor_copy(array->runtime, array->whole, host_bytes(memory, array->whole.shape[0])));
    return memory;
}

void kernel_get(const kernel_array *array, void *values) {
    unsigned char *memory = fetch(array);
    if (bytes_of(array) > 0) memcpy(values, memory + GUARD, (size_t)bytes_of(array));
    free(memory);
}

void kernel_drop(kernel_array *array) {
    unsigned char *memory = fetch(array);
    const int64_t all = array->whole.shape[0];
    for (int64_t i = 0; i < GUARD; i++) {
        if (memory[i] != guard_at(i)) fail_msg("byte %d before the array was written", (int)(GUARD - i));
        if (memory[all - 1 - i] != guard_at(i)) fail_msg("byte %d behind the array was written", (int)(GUARD - 1 - i));
    }
    free(memory);
    assert_ok(muster_runtime_tensor_destroy(array->runtime, array->whole));
}

muster_grid kernel_grid(int64_t groups, int64_t threads) { return (muster_grid){.dims = 1, .groups = {groups}, .threads = {threads}}; }

/* What the programs of this folder share: cmocka, a runtime on the devices that MUSTER_DEVICES
 * names, and a clock. They know the library by its public headers alone. */
#ifndef GPU_RUNTIME_H
#define GPU_RUNTIME_H

#include <muster/muster.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define assert_ok(expression)                                                                                            \
    do {                                                                                                                 \
        muster_status status_ = (expression);                                                                            \
        if (status_ != MUSTER_OK) fail_msg("%s: %s: %s", #expression, muster_status_name(status_), muster_last_error()); \
    } while (0)

static inline double gpu_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* The environment has NAME=1. */
static inline bool gpu_asked(const char *name) {
    const char *text = getenv(name);
    return text && strcmp(text, "1") == 0;
}

/* MUSTER_TEST_BACKEND, if set, is the backend that all devices must have: no other may pass for it.
 * NULL, and a line that says why: no such runtime. */
static inline muster_runtime *gpu_open(const muster_runtime_options *options) {
    const char *backend = getenv("MUSTER_TEST_BACKEND");
    muster_runtime *runtime;
    if (muster_runtime_open(options, &runtime) != MUSTER_OK) {
        fprintf(stderr, "%s\n", muster_last_error());
        return NULL;
    }
    for (int32_t rank = 0; rank < muster_runtime_size(runtime); rank++) {
        if (!backend || strncmp(muster_runtime_device(runtime, rank), backend, strlen(backend)) == 0) continue;
        fprintf(stderr, "rank %d is not on a device of the backend %s\n%s\n", rank, backend, muster_runtime_description(runtime));
        muster_runtime_close(runtime);
        return NULL;
    }
    return runtime;
}

/* For the tests of a group: *state becomes a runtime with all defaults. */
static inline int gpu_begin(void **state) {
    *state = gpu_open(NULL);
    return *state ? 0 : -1;
}
static inline int gpu_end(void **state) { return muster_runtime_close(*state) == MUSTER_OK ? 0 : -1; }

/* Calls a body without inputs and outputs on all ranks, once. */
static inline muster_status gpu_call(muster_runtime *runtime, muster_body body, void *user) {
    muster_function *function;
    MUSTER_TRY(muster_function_create(runtime, "check", body, user, &function));
    muster_status status = muster_function_set_runs_without_rows(function, 1);
    if (status == MUSTER_OK) status = muster_function_call(function, NULL, 0, NULL, 0, NULL);
    char message[1024];
    snprintf(message, sizeof message, "%s", muster_last_error());
    const muster_status destroyed = muster_function_destroy(function);
    if (status != MUSTER_OK) fprintf(stderr, "%s\n", message);
    return status != MUSTER_OK ? status : destroyed;
}

#endif

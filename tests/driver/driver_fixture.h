/* What the tests of drivers share: a server of f32 or f64 values that are each filled with one
 * number, and bodies on every worker. */
#ifndef DRIVER_FIXTURE_H
#define DRIVER_FIXTURE_H

#include "function_fixture.h"
#include "memory_impl.h"
#include "muster/driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 3, MOST = 1027, WORKERS = 9 };
static const int64_t value_sizes[VALUES] = {MOST, 1, 6};
#ifdef MUSTER_TEST_SANITIZED
static const int worker_counts[] = {1, 3, 8, 0};
#else
static const int worker_counts[] = {1, 2, 3, 4, 8, 0};
#endif
/* n: one of these. dtype: f32, f64. */
#define for_each_count(n) for (int n##_at = 0, n = worker_counts[0]; n; n = worker_counts[++n##_at])
#define for_each_dtype(dtype) for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++)

/* Value i begins as first + i everywhere. */
static inline muster_server *open_server(muster_runtime *runtime, muster_dtype dtype, double first) {
    static double f64[VALUES][MOST];
    static float f32[VALUES][MOST];
    muster_tensor values[VALUES];
    muster_server *server = NULL;
    for (int32_t i = 0; i < VALUES; i++) {
        for (int64_t j = 0; j < value_sizes[i]; j++) f32[i][j] = (float)(f64[i][j] = first + i);
        values[i] = muster_tensor_make(dtype, dtype == MUSTER_F32 ? (void *)f32[i] : (void *)f64[i], 1, &value_sizes[i]);
    }
    assert_ok(muster_server_create(runtime, "server", values, VALUES, NULL, &server));
    return server;
}

/* How far the elements of a value may be apart, relative to 1: shards in which clients came in
 * different orders are rounded differently. */
static double allowed_spread = 0;

static inline double element(muster_dtype dtype, const void *values, int64_t at) {
    return dtype == MUSTER_F32 ? (double)((const float *)values)[at] : ((const double *)values)[at];
}

/* The number of which value `index` is full on the server; the test fails where it is not. */
static inline double server_value(muster_server *server, muster_dtype dtype, int32_t index) {
    static double memory[MOST];
    muster_client *client;
    assert_ok(muster_client_open(server, &client));
    assert_ok(muster_client_receive(client, index, muster_tensor_make(dtype, memory, 1, &value_sizes[index]), NULL));
    assert_ok(muster_client_close(client));
    for (int64_t j = 1; j < value_sizes[index]; j++)
        assert_true(fabs(element(dtype, memory, j) - element(dtype, memory, 0)) <= allowed_spread);
    return element(dtype, memory, 0);
}

/* One tensor for each value, on the worker's device; value i full of first + i * step. */
static inline muster_status make_tensors(muster_worker *w, muster_dtype dtype, double first, double step, muster_tensor tensors[VALUES]) {
    for (int32_t i = 0; i < VALUES; i++) {
        MUSTER_TRY(muster_worker_scratch(w, dtype, i == 2 ? 2 : 1, i == 2 ? (const int64_t[]){2, 3} : &value_sizes[i], &tensors[i]));
        MUSTER_TRY(muster_fill(w, first + i * step, tensors[i]));
    }
    return MUSTER_OK;
}

/* The number of which the tensor is full; MUSTER_USER where it is not. */
static inline muster_status full_of(muster_worker *w, muster_tensor tensor, double *number) {
    double memory[MOST];
    const int64_t count = muster_tensor_count(tensor);
    MUSTER_TRY(muster_worker_read(w, tensor, muster_tensor_make(tensor.dtype, memory, 1, &count)));
    *number = element(tensor.dtype, memory, 0);
    for (int64_t j = 1; j < count; j++)
        if (!(fabs(element(tensor.dtype, memory, j) - *number) <= allowed_spread))
            return muster_fail(MUSTER_USER, "the elements of one tensor differ");
    return MUSTER_OK;
}

/* In a body: the condition holds, or the call fails with its text. */
#define MUST(condition)                                                                 \
    do {                                                                                \
        if (!(condition)) return muster_fail(MUSTER_USER, "not true that " #condition); \
    } while (0)
/* In a body: the call is refused with this code, and the message holds the words. */
#define MUST_REFUSE(call, code, words)                                                                                         \
    do {                                                                                                                       \
        if ((call) != (code) || !strstr(muster_last_error(), words)) {                                                         \
            char text_[MST_MESSAGE_SIZE + 100];                                                                                \
            snprintf(text_, sizeof text_, "expected %s with \"%s\" of %s, but: %s", #code, words, #call, muster_last_error()); \
            return muster_fail(MUSTER_USER, text_);                                                                            \
        }                                                                                                                      \
    } while (0)

static inline muster_status run_body(muster_runtime *runtime, muster_body body, void *user) {
    muster_function *function;
    assert_ok(muster_function_create(runtime, "body", body, user, &function));
    const muster_status status = muster_function_call(function, NULL, 0, NULL, 0, NULL);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    assert_ok(muster_function_destroy(function));
    return status == MUSTER_OK ? status : mst_error_restore(status, message);
}

/* d: steps of delay, 0 for none. The server keeps the values of open_server; tests of the start
 * (test_start.c) undo that. */
static inline muster_driver_options make_options(int64_t u, int64_t d, int64_t p, int64_t s) {
    muster_driver_options options;
    muster_driver_options_init(&options);
    options.update_frequency = u;
    options.init_delay = d == 0 ? -1 : d;
    options.prefetch = p;
    options.send_frequency = s;
    options.keep_initial = 1;
    return options;
}

#endif

/* What tests of parameter servers share. */
#ifndef SERVER_FIXTURE_H
#define SERVER_FIXTURE_H

#include "function_fixture.h"
#include "server_private.h"

#include <stdio.h>
#include <string.h>

typedef muster_status (*server_body)(muster_worker *worker, void *user);

typedef struct server_call {
    server_body body;
    void *user;
} server_call;

static inline muster_status server_trampoline(muster_worker *worker, const muster_tensor *inputs, muster_tensor *outputs, void *user) {
    const server_call *call = user;
    (void)inputs, (void)outputs;
    return call->body(worker, call->user);
}

/* body on every worker, once. */
static inline muster_status server_run_with(muster_runtime *runtime, server_body body, void *user, const muster_call_options *options) {
    server_call call = {body, user};
    muster_function *f;
    assert_ok(muster_function_create(runtime, "server_run", server_trampoline, &call, &f));
    const muster_status status = muster_function_call(f, NULL, 0, NULL, 0, options);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    assert_ok(muster_function_destroy(f));
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}
static inline muster_status server_run(muster_runtime *runtime, server_body body, void *user) {
    return server_run_with(runtime, body, user, NULL);
}

/* A server of one value, for a test that looks at no more. */
static inline muster_server *server_of(muster_runtime *runtime, muster_tensor value, int32_t shards, int32_t progress) {
    muster_server_options options;
    muster_server *server;
    muster_server_options_init(&options);
    options.shards = shards;
    options.progress = progress;
    assert_ok(muster_server_create(runtime, "server", &value, 1, &options, &server));
    return server;
}

/* Elements of f32 or f64 as doubles. */
static inline double server_get(muster_tensor tensor, int64_t i) {
    return tensor.dtype == MUSTER_F64 ? ((double *)tensor.data)[i] : ((float *)tensor.data)[i];
}
static inline void server_fill(muster_tensor tensor, double number) {
    for (int64_t i = 0; i < muster_tensor_count(tensor); i++) {
        if (tensor.dtype == MUSTER_F64)
            ((double *)tensor.data)[i] = number;
        else
            ((float *)tensor.data)[i] = (float)number;
    }
}

static const int32_t server_sizes[] = {1, 2, 3, 4, 8};
enum { SERVER_SIZES = sizeof server_sizes / sizeof *server_sizes };

#endif

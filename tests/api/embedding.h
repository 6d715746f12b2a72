/* What the tests of embedding share: every kind of public call, as a host program would make it. */
#ifndef API_EMBEDDING_H
#define API_EMBEDDING_H

#include "base_check.h"
#include "muster/muster.h"

#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 12, COLUMNS = 5 };
typedef struct embedded {
    muster_runtime *runtime;
    bool kernels; /* this machine has a compiler of kernels */
} embedded;

static inline muster_status embedded_collectives(muster_worker *w) {
    const int32_t size = muster_worker_size(w), rank = muster_worker_rank(w);
    float mine = (float)rank, sum = 0, all[64] = {0}, swapped[64] = {0};
    muster_communicator *part;
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, muster_f32(&mine, 1), muster_f32(&sum, 1)));
    MUSTER_TRY(muster_worker_broadcast(w, NULL, 0, muster_f32(&sum, 1), muster_f32(&sum, 1)));
    MUSTER_TRY(muster_worker_all_gather(w, NULL, muster_f32(&mine, 1), muster_f32(all, size)));
    MUSTER_TRY(muster_worker_all_to_all(w, NULL, muster_f32(all, size), muster_f32(swapped, size)));
    MUSTER_TRY(muster_worker_reduce_scatter(w, NULL, MUSTER_MAX, muster_f32(all, size), muster_f32(&mine, 1)));
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_send(w, NULL, (rank + 1) % size, 0, muster_f32(&mine, 1)));
    MUSTER_TRY(muster_worker_recv(w, NULL, (rank + size - 1) % size, 0, muster_f32(&sum, 1)));
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    MUSTER_TRY(muster_worker_split(w, NULL, rank % 2, 0, &part));
    MUSTER_TRY(muster_worker_barrier(w, part));
    return muster_worker_release(w, part);
}

/* Operations of every kind; user: a variable of one number. */
static inline muster_status embedded_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t n = in[0].shape[0], square[2] = {COLUMNS, COLUMNS};
    muster_tensor a, b;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, in[0].shape, &a));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, square, &b));
    muster_tensor half, loss;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F16, 2, in[0].shape, &half));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 0, NULL, &loss));
    muster_tensor index;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I64, 1, &n, &index));
    MUSTER_TRY(muster_random_normal(w, 1, 0, 0, 1, b));
    MUSTER_TRY(muster_gemm(w, 1, in[0], b, 0, a));
    MUSTER_TRY(muster_copy(w, a, half));
    MUSTER_TRY(muster_unary_op(w, MUSTER_TANH, half, half));
    MUSTER_TRY(muster_argmax(w, a, index));
    MUSTER_TRY(muster_softmax_cross_entropy(w, a, index, 1, loss, a, muster_tensor_none()));
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]));
    muster_tensor user_replica;
    MUSTER_TRY(muster_worker_variable(w, user, &user_replica));
    MUSTER_TRY(muster_axpy(w, 1, out[0], user_replica));
    return embedded_collectives(w);
}

static inline void embedded_call(embedded *e) {
    static float x[ROWS][COLUMNS];
    float sums[COLUMNS] = {0}, start[COLUMNS] = {0};
    muster_function *f;
    muster_variable *v;
    muster_pending *pending;
    const muster_tensor input = muster_f32(&x[0][0], ROWS, COLUMNS), output = muster_f32(sums, COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i / COLUMNS][i % COLUMNS] = 1;
    assert_ok(muster_variable_create(e->runtime, "v", muster_f32(start, COLUMNS), &v));
    assert_ok(muster_function_create(e->runtime, "f", embedded_body, v, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "sums", MUSTER_F32, 1, MUSTER_SUM));
    assert_ok(muster_function_variable(f, v, MUSTER_USE_READ_WRITE));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    assert_ok(muster_function_call(f, &input, 1, &output, 1, NULL));
    assert_true(sums[0] == ROWS && sums[COLUMNS - 1] == ROWS);
    assert_ok(muster_function_call_async(f, &input, 1, &output, 1, NULL, &pending));
    assert_ok(muster_pending_wait(&pending));
    assert_ok(muster_variables_all_reduce(&v, 1, MUSTER_SUM));
    assert_ok(muster_variable_get(v, 0, output));
    assert_true(sums[0] == 2 * ROWS);
    assert_ok(muster_function_destroy(f));
    assert_ok(muster_variable_destroy(v));
}

static inline void embedded_kernel(embedded *e) {
    static const char source[] = "KERNEL void twice(GLOBAL_MEM ga_float *a, ga_size n) { MUSTER_EACH(i, n) a[i] *= 2; }";
    float values[] = {1, 2, 3};
    const int64_t three = 3;
    muster_kernel *kernel;
    muster_tensor tensor;
    if (!e->kernels) return;
    assert_ok(
        muster_kernel_create(e->runtime, "twice", source, (int32_t[]){MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE}, 2, NULL, &kernel));
    assert_ok(muster_runtime_tensor_create(e->runtime, NULL, MUSTER_F32, 1, &three, &tensor));
    assert_ok(muster_runtime_tensor_copy(e->runtime, muster_f32(values, 3), tensor));
    const muster_argument arguments[] = {muster_argument_buffer(tensor), muster_argument_size(3)};
    assert_ok(muster_kernel_call_elements(kernel, 3, 0, arguments, 2));
    assert_ok(muster_runtime_tensor_copy(e->runtime, tensor, muster_f32(values, 3)));
    assert_true(values[0] == 2 && values[1] == 4 && values[2] == 6);
    assert_ok(muster_runtime_tensor_destroy(e->runtime, tensor));
    assert_ok(muster_kernel_destroy(kernel));
}

/* A graph with products, reductions and their gradients, which trains a variable. */
static inline void embedded_graph(embedded *e) {
    static float x[ROWS][COLUMNS], start[COLUMNS];
    float loss = 0;
    muster_variable *v;
    muster_graph *graph;
    muster_function *f;
    muster_graph_options options;
    assert_ok(muster_variable_create(e->runtime, "w", muster_f32(start, COLUMNS), &v));
    assert_ok(muster_graph_create(e->runtime, "train", &graph));
    muster_expr *rows = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    muster_expr *w = muster_graph_parameter(graph, v), *product, *l, *d, *next;
    muster_expr *const both[] = {rows, w};
    (void)muster_expr_apply(graph, "matmul", both, 2, NULL, "embedding.h:1", &product);
    for (int i = 0; i < 40; i++) {
        muster_expr *const sum[] = {product, muster_graph_number(graph, i + 1)};
        (void)muster_expr_apply(graph, "add", sum, 2, NULL, "embedding.h:2", &product);
        (void)muster_expr_apply(graph, i % 2 ? "tanh" : "square", &product, 1, NULL, NULL, &product);
    }
    (void)muster_expr_apply(graph, "mean", &product, 1, NULL, NULL, &l);
    (void)muster_gradient(l, &w, 1, &d);
    muster_expr *const sum[] = {w, d};
    (void)muster_expr_apply(graph, "add", sum, 2, NULL, NULL, &next);
    (void)muster_graph_update(graph, v, next, MUSTER_AUTO);
    (void)muster_graph_output(graph, "loss", l, MUSTER_AUTO);
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    assert_ok(muster_graph_compile(graph, &options, &f));
    muster_expr *refused;
    assert_refused(muster_expr_apply(graph, "exp", &l, 1, NULL, NULL, &refused), MUSTER_BAD_STATE, "has been compiled");
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor input = muster_f32(&x[0][0], ROWS, COLUMNS), output = muster_f32(&loss);
    assert_ok(muster_function_call(f, &input, 1, &output, 1, NULL));
    assert_true(loss > 0);
    assert_ok(muster_graph_create(e->runtime, "wrong", &graph));
    assert_refused(muster_expr_apply(graph, "nothing", NULL, 0, NULL, "embedding.h:3", &refused), MUSTER_INVALID_ARGUMENT, "nothing");
    assert_ok(muster_graph_destroy(graph));
    assert_ok(muster_function_destroy(f));
    assert_ok(muster_variable_destroy(v));
}

static inline muster_status embedded_step(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    float parameter = 1, gradient = 1;
    muster_driver *driver;
    const muster_tensor p = muster_f32(&parameter, 1), g = muster_f32(&gradient, 1);
    MUSTER_TRY(muster_downpour_create(w, user, NULL, &driver));
    for (int64_t step = 1; step <= 4; step++) MUSTER_TRY(muster_driver_step(driver, w, step, &p, &g, 1, NULL));
    return muster_driver_destroy(driver);
}

static inline void embedded_server(embedded *e) {
    float value = 3, received = 0;
    const muster_tensor tensor = muster_f32(&value, 1);
    muster_server *server;
    muster_client *client;
    muster_request *request;
    muster_function *f;
    assert_ok(muster_server_create(e->runtime, "server", &tensor, 1, NULL, &server));
    assert_ok(muster_client_open(server, &client));
    assert_ok(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, tensor, 0, &request));
    assert_ok(muster_request_wait(&request));
    assert_ok(muster_client_receive(client, 0, muster_f32(&received, 1), NULL));
    assert_true(received == 6);
    assert_ok(muster_client_close(client));
    assert_ok(muster_function_create(e->runtime, "step", embedded_step, server, &f));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    assert_ok(muster_function_destroy(f));
    assert_ok(muster_server_destroy(server));
}

static inline void embedded_silence(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static inline void embedded_open(embedded *e) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:3";
    options.log = embedded_silence;
    assert_ok(muster_runtime_open(&options, &e->runtime));
    assert_non_null(strstr(muster_runtime_description(e->runtime), "devices: 3"));
}

static inline void embedded_reports(embedded *e) {
    char path[] = "/tmp/muster_trace_XXXXXX";
    const int file = mkstemp(path);
    int32_t rank;
    assert_true(file >= 0);
    assert_ok(muster_runtime_trace(e->runtime, path));
    assert_ok(muster_runtime_dump(e->runtime, 4));
    assert_ok(muster_runtime_name_device(e->runtime, "left", 1));
    assert_refused(muster_runtime_find_device(e->runtime, "nowhere", &rank), MUSTER_INVALID_ARGUMENT, "left");
    close(file);
    unlink(path);
}

static inline void embedded_close(embedded *e) { assert_ok(muster_runtime_close(e->runtime)); }

#endif

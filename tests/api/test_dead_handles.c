/* Handles that a program still holds after what they stand for has ended: their use is an error. */
#include "base_await.h"
#include "embedding.h"

#include "memory_impl.h"

#include <sys/eventfd.h>

static int cases;
#define assert_dead(expression)                                     \
    do {                                                            \
        cases++;                                                    \
        assert_refused(expression, MUSTER_BAD_STATE, "closed or "); \
    } while (0)
#define assert_closed(expression)                                             \
    do {                                                                      \
        cases++;                                                              \
        assert_refused(expression, MUSTER_BAD_STATE, "that has been closed"); \
    } while (0)
#define assert_ended(expression)                                                    \
    do {                                                                            \
        cases++;                                                                    \
        assert_refused(expression, MUSTER_BAD_STATE, "copy of one that has ended"); \
    } while (0)
#define assert_destroyed(expression)                                                          \
    do {                                                                                      \
        cases++;                                                                              \
        assert_refused(expression, MUSTER_BAD_STATE, "received one that has been destroyed"); \
    } while (0)

#define assert_counted(expression, code, text)  \
    do {                                        \
        cases++;                                \
        assert_refused(expression, code, text); \
    } while (0)

static muster_status nothing(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static muster_status no_rule(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count, double scale) {
    (void)user, (void)dtype, (void)value, (void)tensor, (void)first, (void)count, (void)scale;
    return MUSTER_OK;
}

typedef struct handles {
    muster_runtime *runtime;
    muster_function *function;
    muster_variable *variable;
    muster_kernel *kernel;
    muster_server *server;
    muster_client *client;
    muster_driver *driver;
    muster_worker *worker;
} handles;

static muster_status keep_worker(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    handles *h = user;
    if (muster_worker_rank(w) > 0) return MUSTER_OK;
    h->worker = w;
    return h->server ? muster_downpour_create(w, h->server, NULL, &h->driver) : MUSTER_OK;
}

static float number = 1;

static void open_handles(handles *h) {
    embedded e;
    const muster_tensor tensor = muster_f32(&number, 1);
    embedded_open(&e);
    *h = (handles){.runtime = e.runtime};
    assert_ok(muster_variable_create(h->runtime, "v", tensor, &h->variable));
    assert_ok(muster_server_create(h->runtime, "s", &tensor, 1, NULL, &h->server));
    assert_ok(muster_client_open(h->server, &h->client));
    assert_ok(muster_function_create(h->runtime, "f", keep_worker, h, &h->function));
    assert_ok(muster_function_set_runs_without_rows(h->function, 1));
    assert_ok(muster_function_call(h->function, NULL, 0, NULL, 0, NULL));
    assert_ok(
        muster_kernel_create(h->runtime, "k", "KERNEL void k(ga_size n) { }", (int32_t[]){MUSTER_PARAMETER_SIZE}, 1, NULL, &h->kernel));
}

static void use_runtime(muster_runtime *runtime) {
    int32_t rank;
    int64_t one = 1;
    muster_tensor tensor;
    muster_function *f;
    muster_variable *v;
    muster_kernel *k;
    muster_server *s;
    const muster_tensor value = muster_f32(&number, 1);
    assert_dead(muster_runtime_close(runtime));
    assert_dead(muster_runtime_register_memory(runtime, &number, 4));
    assert_dead(muster_runtime_unregister_memory(runtime, &number));
    assert_closed(muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 1, &one, &tensor));
    assert_dead(muster_runtime_tensor_copy(runtime, value, value));
    assert_dead(muster_function_create(runtime, "g", nothing, NULL, &f));
    assert_dead(muster_variable_create(runtime, "g", value, &v));
    assert_dead(muster_variable_create_empty(runtime, "g", MUSTER_F32, 1, NULL, &v));
    assert_closed(muster_runtime_name_device(runtime, "left", 0));
    assert_closed(muster_runtime_find_device(runtime, "left", &rank));
    assert_closed(muster_runtime_set_default_device(runtime, "0"));
    assert_closed(muster_runtime_infer_device(runtime, &value, 1, &rank));
    assert_closed(muster_runtime_dump(runtime, 1));
    assert_closed(muster_runtime_trace(runtime, "/tmp/never"));
    assert_closed(muster_kernel_create(runtime, "k", "KERNEL void k(ga_size n) { }", (int32_t[]){MUSTER_PARAMETER_SIZE}, 1, NULL, &k));
    assert_closed(muster_server_create(runtime, "s", &value, 1, NULL, &s));
    assert_int_equal(muster_runtime_size(runtime), -1);
    assert_null(muster_runtime_device(runtime, 0));
    assert_null(muster_runtime_description(runtime));
}

static void use_objects(const handles *h) {
    muster_pending *pending;
    muster_client *client;
    muster_rule rule;
    muster_kernel_limits limits;
    int64_t numbers[3];
    const muster_grid grid = {.dims = 1, .groups = {1}, .threads = {1}};
    const muster_argument argument = muster_argument_size(1);
    const muster_tensor value = muster_f32(&number, 1);
    muster_kernel_limits_init(&limits);
    assert_dead(muster_function_call(h->function, NULL, 0, NULL, 0, NULL));
    assert_dead(muster_function_call_single(h->function, NULL, 0, NULL, 0, NULL));
    assert_dead(muster_function_call_named(h->function, NULL, NULL, 0, NULL, NULL, 0, NULL));
    assert_dead(muster_function_call_async(h->function, NULL, 0, NULL, 0, NULL, &pending));
    assert_dead(muster_function_input(h->function, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_dead(muster_function_destroy(h->function));
    assert_dead(muster_variable_set(h->variable, 0, value));
    assert_dead(muster_variable_set_selected(h->variable, 0, value, NULL));
    assert_dead(muster_variable_get(h->variable, 0, value));
    assert_dead(muster_variable_shape(h->variable, 0, 1, numbers));
    assert_dead(muster_variable_lengths(h->variable, 3, numbers));
    assert_dead(muster_variable_split(h->variable, 0));
    assert_dead(muster_variable_join(h->variable));
    assert_dead(muster_variable_initialise(h->variable, NULL));
    assert_dead(muster_variable_whole_shape(h->variable, 1, numbers));
    assert_dead(muster_variable_get_whole(h->variable, value));
    assert_dead(muster_variable_set_whole(h->variable, value));
    assert_dead(muster_variables_all_reduce(&h->variable, 1, MUSTER_SUM));
    assert_dead(muster_variable_destroy(h->variable));
    assert_dead(muster_kernel_call(h->kernel, &grid, &argument, 1));
    assert_closed(muster_kernel_get_limits(h->kernel, 0, &limits));
    assert_dead(muster_kernel_destroy(h->kernel));
    assert_counted(muster_client_open(h->server, &client), MUSTER_BAD_STATE, "server 's' has been destroyed");
    assert_counted(muster_server_add_rule(h->server, "r", no_rule, NULL, &rule), MUSTER_BAD_STATE, "destroyed");
    assert_counted(muster_server_shard(h->server, 0, 0, numbers, numbers + 1), MUSTER_BAD_STATE, "destroyed");
    assert_counted(muster_server_destroy(h->server), MUSTER_BAD_STATE, "destroyed");
}

static void use_worker(muster_worker *worker, muster_variable *variable) {
    const muster_tensor value = muster_f32(&number, 1);
    assert_counted(muster_fill(worker, 1, value), MUSTER_BAD_STATE, "muster_fill: worker: expected the worker that runs on this thread");
    assert_counted(muster_worker_barrier(worker, NULL), MUSTER_BAD_STATE, "outside of its body");
    assert_counted(muster_worker_read(worker, value, value), MUSTER_BAD_STATE, "outside of its body");
    assert_counted(muster_worker_sync(worker), MUSTER_BAD_STATE, "outside of its body");
    muster_tensor rows = value;
    int64_t first, count;
    assert_counted(muster_worker_scratch(worker, MUSTER_F32, 0, NULL, &rows), MUSTER_BAD_STATE, "outside of its body");
    assert_int_equal(rows.dtype, MUSTER_DTYPE_NONE);
    assert_int_equal(muster_worker_scratch_mark(worker), -1);
    assert_counted(muster_worker_scratch_release(worker, 0), MUSTER_BAD_STATE, "outside of its body");
    assert_counted(muster_worker_set_weight(worker, 1), MUSTER_BAD_STATE, "outside of its body");
    assert_counted(muster_worker_shard_rows(worker, 0, &first, &count), MUSTER_BAD_STATE, "outside of its body");
    assert_counted(muster_worker_output_rows(worker, 0, 1, &rows), MUSTER_BAD_STATE, "outside of its body");
    rows = value;
    assert_counted(muster_worker_variable(worker, variable, &rows), MUSTER_BAD_STATE,
                   "muster_worker_variable: worker: expected the worker that runs on this thread");
    assert_int_equal(rows.dtype, MUSTER_DTYPE_NONE);
    rows = value;
    assert_counted(muster_worker_update(worker, variable, &rows), MUSTER_BAD_STATE,
                   "muster_worker_update: worker: expected the worker that runs on this thread");
    assert_int_equal(rows.dtype, MUSTER_DTYPE_NONE);
    assert_non_null(strstr(muster_last_error(), "outside of its body"));
}

static void test_everything_after_close_is_refused(void **state) {
    (void)state;
    handles h;
    open_handles(&h);
    cases = 0;
    use_worker(h.worker, h.variable);
    assert_int_equal(cases, 11);
    assert_ok(muster_runtime_close(h.runtime));
    cases = 0;
    use_runtime(h.runtime);
    assert_int_equal(cases, 16);
    use_worker(h.worker, h.variable);
    assert_int_equal(cases, 27);
    /* a client of a host thread, and a driver, keep their server; the caller ends them */
    assert_refused(muster_client_receive(h.client, 0, muster_f32(&number, 1), NULL), MUSTER_BAD_STATE, "destroyed");
    assert_ok(muster_client_close(h.client));
    assert_ok(muster_driver_destroy(h.driver));
    cases = 0;
    use_objects(&h);
    assert_int_equal(cases, 26);
}

static muster_status step_of_another(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const muster_tensor value = muster_f32(&number, 1);
    if (muster_worker_rank(w) > 0) return MUSTER_OK;
    return muster_driver_step(user, w, 1, &value, &value, 1, NULL);
}

static void test_a_driver_of_a_closed_runtime(void **state) {
    (void)state;
    const int64_t blocks = mst_memory_live();
    handles h, other;
    open_handles(&h);
    assert_ok(muster_client_close(h.client));
    assert_ok(muster_runtime_close(h.runtime));
    open_handles(&other); /* likely where the first one was */
    muster_function *f;
    assert_ok(muster_function_create(other.runtime, "step", step_of_another, h.driver, &f));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    assert_refused(muster_function_call(f, NULL, 0, NULL, 0, NULL), MUSTER_BAD_STATE, "whose runtime has been closed");
    assert_ok(muster_driver_destroy(h.driver));
    assert_ok(muster_driver_destroy(other.driver));
    assert_ok(muster_client_close(other.client));
    assert_ok(muster_runtime_close(other.runtime));
    assert_int_equal(mst_memory_live(), blocks);
}

static void test_a_second_destroy_is_refused(void **state) {
    (void)state;
    handles h;
    open_handles(&h);
    assert_ok(muster_driver_destroy(h.driver));
    assert_ok(muster_function_destroy(h.function));
    assert_ok(muster_variable_destroy(h.variable));
    assert_ok(muster_kernel_destroy(h.kernel));
    assert_ok(muster_client_close(h.client));
    cases = 0;
    assert_dead(muster_function_destroy(h.function));
    assert_dead(muster_variable_destroy(h.variable));
    assert_dead(muster_kernel_destroy(h.kernel));
    muster_function *f;
    assert_ok(muster_function_create(h.runtime, "g", nothing, NULL, &f));
    assert_dead(muster_function_variable(f, h.variable, MUSTER_USE_READ));
    assert_dead(muster_function_update(f, h.variable, MUSTER_SUM));
    assert_int_equal(cases, 5);
    assert_ok(muster_runtime_close(h.runtime));
}

/* ---- copies of handles that wait, test, destroy and release have ended ---- */

static void count_news(void *user) { ++*(int *)user; }

static void test_a_copy_of_a_pending_call_that_has_ended(void **state) {
    (void)state;
    enum { WAIT, TEST, DESTROY, WAYS };
    handles h;
    muster_function *f;
    muster_pending *first; /* after it the runtime and the function keep what calls need */
    open_handles(&h);
    assert_ok(muster_function_create(h.runtime, "g", nothing, NULL, &f));
    assert_ok(muster_function_call_async(f, NULL, 0, NULL, 0, NULL, &first));
    assert_ok(muster_pending_wait(&first));
    const int64_t blocks = mst_memory_live();
    const int fd = eventfd(0, EFD_NONBLOCK);
    assert_true(fd >= 0);
    cases = 0;
    for (int way = WAIT; way < WAYS; way++) {
        muster_pending *pending, *copy;
        int32_t done = 0;
        int news = 0;
        eventfd_t written;
        assert_ok(muster_function_call_async(f, NULL, 0, NULL, 0, NULL, &pending));
        copy = pending;
        if (way == WAIT) assert_ok(muster_pending_wait(&pending));
        TEST_AWAIT(way != TEST || muster_pending_test(&pending, &done) != MUSTER_OK || done, 0);
        if (way == DESTROY) assert_ok(muster_pending_destroy(pending));
        done = 7;
        assert_ended(muster_pending_wait(&copy));
        assert_ended(muster_pending_test(&copy, &done));
        assert_ended(muster_pending_destroy(copy));
        assert_ended(muster_pending_notify(copy, count_news, &news));
        assert_ended(muster_pending_notify_fd(copy, fd));
        assert_non_null(copy);
        assert_int_equal(done, 0);
        assert_int_equal(news, 0);
        assert_int_equal(eventfd_read(fd, &written), -1);
    }
    assert_int_equal(cases, WAYS * 5);
    assert_int_equal(mst_memory_live(), blocks);
    close(fd);
    assert_ok(muster_client_close(h.client));
    assert_ok(muster_driver_destroy(h.driver));
    assert_ok(muster_runtime_close(h.runtime));
}

static void test_a_buffer_that_has_been_destroyed(void **state) {
    (void)state;
    const int64_t blocks = mst_memory_live(), two = 2;
    muster_buffer *buffer;
    embedded e;
    assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &buffer));
    assert_ok(muster_buffer_set_length(buffer, 3));
    muster_buffer_destroy(buffer);
    assert_int_equal(mst_memory_live(), blocks);
    muster_buffer_destroy(buffer);
    muster_buffer_free_memory(buffer);
    assert_int_equal(mst_memory_live(), blocks);
    assert_int_equal(muster_buffer_tensor(buffer).dtype, MUSTER_DTYPE_NONE);
    assert_int_equal(muster_buffer_capacity(buffer), 0);
    cases = 0;
    assert_destroyed(muster_buffer_set_value(buffer, muster_f32(&number, 1), MUSTER_CAST_SAFE));
    assert_destroyed(muster_buffer_set_length(buffer, 1));
    assert_destroyed(muster_buffer_set_shape(buffer, 1, &two));
    embedded_open(&e);
    assert_destroyed(muster_runtime_register_buffer(e.runtime, buffer));
    assert_destroyed(muster_runtime_unregister_buffer(e.runtime, buffer));
    embedded_close(&e);
    assert_int_equal(cases, 5);
}

static int deletions;
static void count_versioned(muster_dlpack_versioned *self) { deletions++, (void)self; }
static void count_unversioned(muster_dlpack_unversioned *self) { deletions++, (void)self; }

static void test_a_tensor_of_dlpack_that_has_been_released(void **state) {
    (void)state;
    const int64_t blocks = mst_memory_live();
    int64_t one = 1;
    const muster_dlpack_tensor lent = {.data = &number, .device_type = 1, .ndim = 1, .code = 2, .bits = 32, .lanes = 1, .shape = &one};
    muster_dlpack_versioned versioned = {1, 0, NULL, count_versioned, MUSTER_DLPACK_READ_ONLY, lent};
    muster_dlpack_unversioned unversioned = {lent, NULL, count_unversioned};
    muster_dlpack *first, *second;
    muster_tensor tensor;
    assert_ok(muster_dlpack_import(NULL, &versioned, &tensor, &first));
    assert_ok(muster_dlpack_import_unversioned(NULL, &unversioned, &tensor, &second));
    assert_int_equal(muster_dlpack_flags(first), MUSTER_DLPACK_READ_ONLY);
    deletions = 0;
    for (int time = 0; time < 2; time++) {
        muster_dlpack_release(first);
        muster_dlpack_release(second);
        assert_int_equal(deletions, 2);
        assert_int_equal(muster_dlpack_flags(first), 0);
        assert_int_equal(mst_memory_live(), blocks);
    }
}

static void test_a_driver_that_has_been_destroyed(void **state) {
    (void)state;
    handles h;
    muster_driver_counts counts;
    muster_tensor value;
    muster_function *f;
    open_handles(&h);
    assert_ok(muster_driver_destroy(h.driver));
    cases = 0;
    assert_destroyed(muster_driver_destroy(h.driver));
    assert_ok(muster_function_create(h.runtime, "step", step_of_another, h.driver, &f));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    assert_destroyed(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    muster_driver_counts_init(&counts);
    assert_destroyed(muster_driver_get_counts(h.driver, &counts));
    assert_null(muster_driver_client(h.driver));
    assert_destroyed(muster_driver_fetched(h.driver, 0, &value));
    assert_destroyed(muster_driver_outgoing(h.driver, 0, &value));
    assert_int_equal(cases, 5);
    assert_ok(muster_client_close(h.client));
    assert_ok(muster_runtime_close(h.runtime));
}

static void test_a_client_that_has_been_closed(void **state) {
    (void)state;
    handles h;
    muster_request *made;
    const muster_tensor tensor = muster_f32(&number, 1);
    open_handles(&h);
    assert_ok(muster_client_close(h.client));
    cases = 0;
    assert_closed(muster_client_close(h.client));
    assert_closed(muster_client_send(h.client, 0, MUSTER_RULE_ADD, 0, tensor, 0, &made));
    assert_closed(muster_client_receive(h.client, 0, tensor, &made));
    assert_int_equal(cases, 3);
    assert_ok(muster_driver_destroy(h.driver));
    assert_ok(muster_runtime_close(h.runtime));
}

/* A graph that is destroyed twice, and one that has outlived its runtime. */
static void test_a_graph_that_has_been_destroyed(void **state) {
    (void)state;
    const int64_t blocks = mst_memory_live(), two = 2;
    handles h;
    muster_graph *graph, *late, *unused;
    muster_function *function;
    open_handles(&h);
    assert_ok(muster_graph_create(h.runtime, "late", &late));
    muster_expr *x = muster_graph_input(late, "x", MUSTER_F32, 1, &two, MUSTER_BROADCAST);
    assert_ok(muster_graph_output(late, "x", x, MUSTER_AUTO));
    assert_ok(muster_graph_create(h.runtime, "graph", &graph));
    assert_ok(muster_graph_destroy(graph));
    cases = 0;
    assert_destroyed(muster_graph_destroy(graph));
    assert_destroyed(muster_graph_status(graph));
    assert_destroyed(muster_graph_output(graph, "y", x, MUSTER_AUTO));
    assert_destroyed(muster_graph_update(graph, h.variable, x, MUSTER_AUTO));
    assert_destroyed(muster_graph_compile(graph, NULL, &function));
    assert_destroyed(muster_expr_apply(graph, "exp", &x, 1, NULL, NULL, NULL));
    assert_null(muster_graph_input(graph, "x", MUSTER_F32, 1, &two, MUSTER_BROADCAST));
    assert_null(muster_graph_parameter(graph, h.variable));
    assert_null(muster_graph_parameter_rows(graph, h.variable));
    assert_null(muster_graph_number(graph, 1));
    assert_true(muster_graph_size(graph, "n") == MUSTER_INFER);
    assert_ok(muster_driver_destroy(h.driver));
    assert_ok(muster_client_close(h.client));
    assert_ok(muster_runtime_close(h.runtime));
    assert_int_equal(cases, 6);
    cases = 0;
    assert_closed(muster_graph_create(h.runtime, "g", &unused));
    assert_int_equal(cases, 1);
    assert_refused(muster_graph_compile(late, NULL, &function), MUSTER_BAD_STATE, "whose runtime has been closed");
    assert_int_equal(muster_expr_ndim(muster_graph_parameter(late, h.variable)), -1);
    assert_refused(muster_graph_status(late), MUSTER_BAD_STATE, "muster_graph_parameter: graph: expected one of an open runtime");
    assert_ok(muster_graph_destroy(late));
    assert_int_equal(mst_memory_live(), blocks);
}

/* ---- what a client of a host thread, or a driver, keeps of a server ---- */

typedef struct inside_handles {
    muster_server *server;
    muster_client *client;   /* of rank 1 */
    muster_request *request; /* of that client */
} inside_handles;

static muster_status refuse_rule(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                                 double scale) {
    (void)user, (void)dtype, (void)value, (void)tensor, (void)first, (void)count, (void)scale;
    return muster_fail(MUSTER_UNSUPPORTED, "the rule refuses");
}

/* An operation that fails leaves its handle to the program, which drops it. */
static muster_status keep_client(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    inside_handles *h = user;
    if (muster_worker_rank(w) != 1) return MUSTER_OK;
    MUSTER_TRY(muster_worker_client(w, h->server, &h->client));
    return muster_client_send(h->client, 0, MUSTER_RULE_USER, 1, muster_f32(&number, 1), 0, &h->request);
}

static void test_a_client_of_a_worker_of_a_closed_runtime(void **state) {
    (void)state;
    const int64_t blocks = mst_memory_live();
    const muster_tensor value = muster_f32(&number, 1);
    inside_handles inside = {0};
    handles h;
    muster_rule rule;
    muster_function *f;
    int32_t done;
    open_handles(&h);
    inside.server = h.server;
    assert_ok(muster_server_add_rule(h.server, "refuse", refuse_rule, NULL, &rule));
    assert_int_equal(rule, MUSTER_RULE_USER);
    assert_ok(muster_function_create(h.runtime, "keep", keep_client, &inside, &f));
    assert_ok(muster_function_set_runs_without_rows(f, 1));
    assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    assert_non_null(inside.client);
    assert_non_null(inside.request);
    assert_ok(muster_runtime_close(h.runtime));
    cases = 0;
    assert_counted(muster_client_send(inside.client, 0, MUSTER_RULE_ADD, 1, value, 0, NULL), MUSTER_BAD_STATE, "muster_client_send");
    assert_counted(muster_client_receive(inside.client, 0, value, NULL), MUSTER_BAD_STATE, "muster_client_receive");
    assert_counted(muster_client_close(inside.client), MUSTER_INVALID_ARGUMENT, "received the client of rank 1");
    assert_counted(muster_request_wait(&inside.request), MUSTER_BAD_STATE, "muster_request_wait");
    assert_counted(muster_request_test(&inside.request, &done), MUSTER_BAD_STATE, "muster_request_test");
    assert_counted(muster_requests_wait_all(&inside.request, 1), MUSTER_BAD_STATE, "muster_requests_wait_all");
    assert_int_equal(cases, 6);
    assert_ok(muster_client_close(h.client));
    assert_ok(muster_driver_destroy(h.driver));
    assert_int_equal(mst_memory_live(), blocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_after_close_is_refused), cmocka_unit_test(test_a_driver_of_a_closed_runtime),
        cmocka_unit_test(test_a_second_destroy_is_refused),       cmocka_unit_test(test_a_copy_of_a_pending_call_that_has_ended),
        cmocka_unit_test(test_a_buffer_that_has_been_destroyed),  cmocka_unit_test(test_a_tensor_of_dlpack_that_has_been_released),
        cmocka_unit_test(test_a_driver_that_has_been_destroyed),  cmocka_unit_test(test_a_client_that_has_been_closed),
        cmocka_unit_test(test_a_graph_that_has_been_destroyed),   cmocka_unit_test(test_a_client_of_a_worker_of_a_closed_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

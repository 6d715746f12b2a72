/* A program of another version: other_versions.py compiles it with installed headers in which one
 * struct, the subject, ends earlier or later than in the library's header. The struct lies on the
 * stack between two guards. The library must not write into them, nor read them as fields: their
 * bytes would be absurd values and pointers.
 *
 * other_versions SUBJECT minus|oldest|plus BYTES (of the subject in the library's header, by
 * tests/abi/frozen.def). OLDEST_<subject>: the header has struct_size alone. */
#include <muster/muster.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 100, GUARD = 256, LARGEST = 512, FILLER = 0xA5 };

static const char *subject_name, *variant;
static muster_runtime *runtime;

static _Noreturn void fail(int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%s, %s, line %d: ", subject_name, variant, line);
    vprintf(format, arguments);
    printf("\nlast error: %s\n", muster_last_error());
    va_end(arguments);
    exit(1);
}

#define EXPECT(condition)                                     \
    do {                                                      \
        if (!(condition)) fail(__LINE__, "not: " #condition); \
    } while (0)
#define EXPECT_OK(expression) EXPECT((expression) == MUSTER_OK)

/* ---- runtime options ---- */

static void init_runtime(void *options) { muster_runtime_options_init(options); }

static muster_status use_runtime(const void *options) {
    muster_runtime *opened;
    MUSTER_TRY(muster_runtime_open(options, &opened));
    return muster_runtime_close(opened);
}

/* The environment's MUSTER_DEVICES is host:2. */
static void runtime_defaults(const void *options) {
    muster_runtime *opened;
    EXPECT_OK(muster_runtime_open(options, &opened));
    EXPECT(muster_runtime_size(opened) == 2);
    const char *text = muster_runtime_description(opened);
    EXPECT(strstr(text, "\ndeadlines: warn after 30000000000 ns, fail after 600000000000 ns"));
    EXPECT(strstr(text, "\nlogical shards: off\n"));
    EXPECT_OK(muster_runtime_close(opened));
}

static void runtime_fields(void *options) {
#ifndef OLDEST_muster_runtime_options
    muster_runtime *opened;
    ((muster_runtime_options *)options)->devices = "host:3";
    EXPECT_OK(muster_runtime_open(options, &opened));
    EXPECT(muster_runtime_size(opened) == 3);
    EXPECT_OK(muster_runtime_close(opened));
#endif
    (void)options;
}

/* ---- call options ---- */

static muster_function *sum_function;
static int32_t runs[2];

static muster_status sum_rows(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    runs[muster_worker_rank(worker)]++;
    return muster_sum(worker, in[0], out[0]);
}

static void init_call(void *options) { muster_call_options_init(options); }

static float sum;

static muster_status use_call(const void *options) {
    float rows[ROWS];
    for (int i = 0; i < ROWS; i++) rows[i] = (float)i;
    sum = 0;
    runs[0] = runs[1] = 0;
    return muster_function_call(sum_function, (muster_tensor[]){muster_f32(rows, ROWS)}, 1, (muster_tensor[]){muster_f32(&sum)}, 1,
                                options);
}

static void call_defaults(const void *options) {
    EXPECT_OK(use_call(options));
    EXPECT(sum == 4950 && runs[0] == 1 && runs[1] == 1); /* all rows, one slice */
}

static void call_fields(void *options) {
#ifndef OLDEST_muster_call_options
    muster_call_options *o = options;
    o->slices = 5;
    o->batch.kind = MUSTER_SELECT_COUNT;
    o->batch.stop = 10;
    EXPECT_OK(use_call(options));
    EXPECT(sum == 45 && runs[0] == 5 && runs[1] == 5);
#endif
    (void)options;
}

/* ---- kernel options, kernel limits ---- */

static const char text[] = "KERNEL void set_to(ga_size n, GLOBAL_MEM ga_int *x, ga_int value) { MUSTER_EACH(i, n) x[i] = value; }\n";

static muster_status make_kernel(const void *options, muster_kernel **kernel) {
    const int32_t parameters[] = {MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER, MUSTER_I32};
    return muster_kernel_create(runtime, "set_to", text, parameters, 3, options, kernel);
}

static void init_kernel(void *options) { muster_kernel_options_init(options); }

static muster_status use_kernel(const void *options) {
    muster_kernel *kernel;
    MUSTER_TRY(make_kernel(options, &kernel));
    return muster_kernel_destroy(kernel);
}

static void kernel_defaults(const void *options) {
    muster_kernel *kernel;
    muster_tensor x;
    int32_t values[7] = {0};
    EXPECT_OK(make_kernel(options, &kernel));
    EXPECT_OK(muster_runtime_tensor_create(runtime, "0", MUSTER_I32, 1, (int64_t[]){7}, &x));
    EXPECT_OK(muster_kernel_call_elements(
        kernel, 7, 0, (muster_argument[]){muster_argument_size(7), muster_argument_buffer(x), muster_argument_int(MUSTER_I32, 42)}, 3));
    EXPECT_OK(muster_runtime_tensor_copy(runtime, x, muster_i32(values, 7)));
    for (int i = 0; i < 7; i++) EXPECT(values[i] == 42);
    EXPECT_OK(muster_runtime_tensor_destroy(runtime, x));
    EXPECT_OK(muster_kernel_destroy(kernel));
}

static void kernel_fields(void *options) {
#ifndef OLDEST_muster_kernel_options
    ((muster_kernel_options *)options)->flags = "GA_USE_NOTHING";
    EXPECT(use_kernel(options) == MUSTER_INVALID_ARGUMENT);
    EXPECT(strstr(muster_last_error(), "received 'GA_USE_NOTHING'"));
#endif
    (void)options;
}

static void init_limits(void *limits) { muster_kernel_limits_init(limits); }

static muster_status use_limits(void *limits) {
    muster_kernel *kernel;
    MUSTER_TRY(make_kernel(NULL, &kernel));
    MUSTER_TRY(muster_kernel_get_limits(kernel, 1, limits));
    return muster_kernel_destroy(kernel);
}

static void limits_result(const void *limits) {
#ifndef OLDEST_muster_kernel_limits
    const muster_kernel_limits *l = limits;
    EXPECT(l->threads >= 1 && l->threads <= 1 << 20 && l->preferred >= 1 && l->preferred <= 4096 && l->processors >= 1 &&
           l->processors <= 1 << 20);
    for (int d = 0; d < 3; d++) EXPECT(l->threads_in[d] >= 1 && l->threads_in[d] <= 1 << 20 && l->groups_in[d] >= 1);
#endif
    (void)limits;
}

/* ---- server options, server statistics ---- */

static muster_status make_server(const void *options, muster_server **server) {
    float value[10];
    for (int i = 0; i < 10; i++) value[i] = (float)(i + 1);
    return muster_server_create(runtime, "server", (muster_tensor[]){muster_f32(value, 10)}, 1, options, server);
}

static void init_server(void *options) { muster_server_options_init(options); }

static muster_status use_server(const void *options) {
    muster_server *server;
    MUSTER_TRY(make_server(options, &server));
    return muster_server_destroy(server);
}

static void receive_all(muster_server *server) {
    muster_client *client;
    float received[10] = {0};
    EXPECT_OK(muster_client_open(server, &client));
    EXPECT_OK(muster_client_receive(client, 0, muster_f32(received, 10), NULL));
    for (int i = 0; i < 10; i++) EXPECT(received[i] == (float)(i + 1));
    EXPECT_OK(muster_client_close(client));
}

static void server_defaults(const void *options) {
    muster_server *server;
    EXPECT_OK(make_server(options, &server));
    EXPECT(muster_server_shards(server) == 2); /* one per device */
    receive_all(server);
    EXPECT_OK(muster_server_destroy(server));
}

static void server_fields(void *options) {
#ifndef OLDEST_muster_server_options
    muster_server *server;
    ((muster_server_options *)options)->shards = 3;
    EXPECT_OK(make_server(options, &server));
    EXPECT(muster_server_shards(server) == 3);
    EXPECT_OK(muster_server_destroy(server));
#endif
    (void)options;
}

static void init_statistics(void *statistics) { muster_server_statistics_init(statistics); }

static muster_status use_statistics(void *statistics) {
    muster_server *server;
    MUSTER_TRY(make_server(NULL, &server));
    receive_all(server);
    MUSTER_TRY(muster_server_get_statistics(server, statistics));
    return muster_server_destroy(server);
}

static void statistics_result(const void *statistics) {
#ifndef OLDEST_muster_server_statistics
    const muster_server_statistics *s = statistics;
    EXPECT(s->sends == 0 && s->receives == 1);
#endif
    (void)statistics;
}

/* ---- driver options, driver counts ---- */

typedef struct driving {
    const void *options;
    muster_server *server;
    int64_t steps;
    double alpha[2];
    int64_t first[2], integrations[2]; /* the first step that integrated, and how many did */
    void *counts;                      /* NULL: not asked for */
} driving;

static muster_status drive(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    driving *d = user;
    muster_driver *driver;
    const int32_t rank = muster_worker_rank(worker);
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, (int64_t[]){10}, &x));
    (void)in, (void)out;
    MUSTER_TRY(muster_fill(worker, 1, x));
    MUSTER_TRY(muster_easgd_create(worker, d->server, d->options, &driver));
    d->alpha[rank] = muster_driver_alpha(driver);
    d->first[rank] = -1;
    d->integrations[rank] = 0;
    muster_status status = MUSTER_OK;
    for (int64_t step = 0; step <= d->steps && status == MUSTER_OK; step++) {
        int32_t integrated;
        status = muster_driver_step(driver, worker, step, &x, NULL, 1, &integrated);
        if (status == MUSTER_OK && integrated && d->integrations[rank]++ == 0) d->first[rank] = step;
    }
    if (status == MUSTER_OK && d->counts && rank == 0) status = muster_driver_get_counts(driver, d->counts);
    const muster_status ended = muster_driver_destroy(driver);
    return status ? status : ended;
}

static muster_status run_driver(driving *d) {
    muster_function *function;
    EXPECT_OK(make_server(NULL, &d->server));
    EXPECT_OK(muster_function_create(runtime, "drive", drive, d, &function));
    const muster_status status = muster_function_call(function, NULL, 0, NULL, 0, NULL);
    EXPECT(muster_function_destroy(function) == MUSTER_OK && muster_server_destroy(d->server) == MUSTER_OK);
    return status;
}

static void init_driver(void *options) { muster_driver_options_init(options); }

static muster_status use_driver(const void *options) { return run_driver(&(driving){.options = options}); }

/* init_delay 100 and update_frequency 25; beta 0.9 over two workers. */
static void driver_defaults(const void *options) {
    driving d = {.options = options, .steps = 150};
    EXPECT_OK(run_driver(&d));
    for (int r = 0; r < 2; r++) EXPECT(d.alpha[r] == 0.9 / 2 && d.first[r] == 125 && d.integrations[r] == 2);
}

static void driver_fields(void *options) {
#ifndef OLDEST_muster_driver_options
    muster_driver_options *o = options;
    driving d = {.options = options, .steps = 6};
    o->update_frequency = 3;
    o->init_delay = o->beta = -1; /* none */
    EXPECT_OK(run_driver(&d));
    for (int r = 0; r < 2; r++) EXPECT(d.alpha[r] == 0 && d.first[r] == 3 && d.integrations[r] == 2);
#endif
    (void)options;
}

/* ---- allocator options: nothing of the library may be alive ---- */

static int64_t allocations;

#ifndef OLDEST_muster_allocator_options
static void *count_allocation(void *user, size_t bytes, size_t alignment) {
    (void)user;
    allocations++;
    return aligned_alloc(alignment, bytes);
}

static void release_it(void *user, void *block, size_t bytes, size_t alignment) {
    (void)user, (void)bytes, (void)alignment;
    free(block);
}
#endif

static void init_allocator(void *options) { muster_allocator_options_init(options); }

static muster_status use_allocator(const void *options) {
    EXPECT_OK(muster_runtime_close(runtime));
    const muster_status status = muster_allocator_set(options);
    char message[512];
    muster_last_error_copy(message, sizeof message);
    EXPECT_OK(muster_runtime_open(NULL, &runtime));
    return status ? muster_fail(status, message) : MUSTER_OK;
}

static void allocator_defaults(const void *options) {
    allocations = 0;
    EXPECT_OK(use_allocator(options));
    EXPECT(allocations == 0);
}

static void allocator_fields(void *options) {
#ifndef OLDEST_muster_allocator_options
    muster_allocator_options *o = options;
    o->allocate = count_allocation;
    o->release = release_it;
    EXPECT_OK(use_allocator(options));
    EXPECT(allocations > 10); /* those of the runtime, too */
    EXPECT_OK(use_allocator(NULL));
    o->allocate = NULL;
    o->release = NULL;
#endif
    (void)options;
}

static void init_info(void *info) { muster_device_info_init(info); }

static muster_status use_info(void *info) { return muster_runtime_get_device_info(runtime, 1, info); }

static void info_result(const void *info) {
#ifndef OLDEST_muster_device_info
    const muster_device_info *i = info;
    EXPECT(i->ordinal == 1 && i->memory_total > 0 && strcmp(i->backend, "host") == 0 && strncmp(i->name, "host", 4) == 0);
#endif
    (void)info;
}

static void init_counts(void *counts) { muster_driver_counts_init(counts); }

static muster_status use_counts(void *counts) { return run_driver(&(driving){.steps = 150, .counts = counts}); }

static void counts_result(const void *counts) {
#ifndef OLDEST_muster_driver_counts
    const muster_driver_counts *c = counts;
    EXPECT(c->fetches == 2 && c->integrations == 2);
#endif
    (void)counts;
}

/* ---- graph options ---- */

/* The environment's MUSTER_DEVICES is host:1 here. Integers have no average, which the meaning "per
 * worker" would take. */
static muster_status compile_integers(const void *options) {
    muster_graph *graph;
    muster_function *function;
    char message[512];
    EXPECT_OK(muster_graph_create(runtime, "integers", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_I32, MUSTER_SHAPE(3), MUSTER_BROADCAST);
    EXPECT_OK(muster_graph_output(graph, "y", x, MUSTER_AUTO));
    const muster_status status = muster_graph_compile(graph, options, &function);
    muster_last_error_copy(message, sizeof message);
    EXPECT_OK(muster_graph_destroy(graph));
    return status ? muster_fail(status, message) : muster_function_destroy(function);
}

static void init_graph(void *options) { muster_graph_options_init(options); }

static muster_status use_graph(const void *options) { return compile_integers(options); }

static void graph_defaults(const void *options) { EXPECT_OK(compile_integers(options)); }

static void graph_fields(void *options) {
#ifndef OLDEST_muster_graph_options
    ((muster_graph_options *)options)->meaning = MUSTER_PER_WORKER;
    EXPECT(compile_integers(options) == MUSTER_UNSUPPORTED && strstr(muster_last_error(), "i32 has no average"));
#endif
    (void)options;
}

static void init_memory(void *memory) { muster_graph_memory_init(memory); }

/* tanh(sum(x)): the sum is an intermediate value. */
static muster_status use_memory(void *memory) {
    static float x[3], y;
    muster_graph *graph;
    muster_function *function;
    EXPECT_OK(muster_graph_create(runtime, "memory", &graph));
    muster_expr *input = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(3), MUSTER_BROADCAST), *sum, *result;
    EXPECT_OK(muster_expr_apply(graph, "sum", &input, 1, NULL, NULL, &sum));
    EXPECT_OK(muster_expr_apply(graph, "tanh", &sum, 1, NULL, NULL, &result));
    EXPECT_OK(muster_graph_output(graph, "y", result, MUSTER_AUTO));
    EXPECT_OK(muster_graph_compile(graph, NULL, &function));
    EXPECT_OK(muster_graph_destroy(graph));
    const muster_tensor in = muster_f32(x, 3), out = muster_f32(&y);
    EXPECT_OK(muster_function_call(function, &in, 1, &out, 1, NULL));
    const muster_status status = muster_graph_function_memory(function, 0, memory);
    EXPECT_OK(muster_function_destroy(function));
    return status;
}

static void memory_result(const void *memory) {
#ifndef OLDEST_muster_graph_memory
    const muster_graph_memory *m = memory;
    EXPECT(m->block_bytes == 64 && m->largest_bytes == 64);
#endif
    (void)memory;
}

static muster_status check_exp(const void *options) {
    muster_graph *graph;
    muster_expr *loss;
    char message[512];
    EXPECT_OK(muster_graph_create(runtime, "exp", &graph));
    muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SCALAR, MUSTER_BROADCAST);
    EXPECT_OK(muster_expr_apply(graph, "exp", &x, 1, NULL, NULL, &loss));
    const muster_status status = muster_gradient_check(loss, NULL, 0, options, NULL);
    muster_last_error_copy(message, sizeof message);
    EXPECT_OK(muster_graph_destroy(graph));
    return status ? muster_fail(status, message) : MUSTER_OK;
}

static void init_check(void *options) { muster_gradient_check_options_init(options); }

static muster_status use_check(const void *options) { return check_exp(options); }

static void check_defaults(const void *options) { EXPECT_OK(check_exp(options)); }

static void check_fields(void *options) {
#ifndef OLDEST_muster_gradient_check_options
    ((muster_gradient_check_options *)options)->size = -1;
    EXPECT(check_exp(options) == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), "size: expected 0 or more, received -1"));
#endif
    (void)options;
}

/* ---- operator options ---- */

static void init_operator(void *options) { muster_operator_options_init(options); }

/* Options without anything describe no operator, which is said once all of them have been read. */
static muster_status use_operator(const void *options) {
    muster_operator *made;
    const muster_status status = muster_operator_create(runtime, "operator_of_versions", options, &made);
    if (status == MUSTER_OK) return muster_operator_destroy(made);
    return strstr(muster_last_error(), "bodies: expected a text, a body or a launch") ? MUSTER_OK : status;
}

static void operator_defaults(const void *options) {
    EXPECT_OK(use_operator(options));
    EXPECT(strstr(muster_last_error(), "bodies: expected a text, a body or a launch"));
}

static void operator_fields(void *options) {
#ifndef OLDEST_muster_operator_options
    static const char *const operands[] = {"x", NULL};
    ((muster_operator_options *)options)->operands = operands;
    ((muster_operator_options *)options)->text = "1 +";
    EXPECT(use_operator(options) == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), "\"1 +\", column 4"));
#endif
    (void)options;
}

/* ---- rule options, descriptions of states ---- */

/* A function that trains one number by momentum; its variable and function end with *state. */
static muster_status minimise(const void *options, void *description) {
    float value = 1;
    muster_graph *graph;
    muster_variable *p;
    muster_function *function = NULL;
    char message[512] = "";
    EXPECT_OK(muster_variable_create(runtime, "p", muster_f32(&value), &p));
    EXPECT_OK(muster_graph_create(runtime, "rule", &graph));
    muster_expr *parameter = muster_graph_parameter(graph, p);
    muster_status status = muster_graph_minimise(graph, &parameter, &parameter, 1, MUSTER_MOMENTUM, options);
    if (status == MUSTER_OK) EXPECT_OK(muster_graph_compile(graph, NULL, &function));
    if (function && description) status = muster_function_state_describe(function, 0, description);
    if (function && !description) {
        EXPECT_OK(muster_function_call(function, NULL, 0, NULL, 0, NULL));
        EXPECT_OK(muster_variable_get(p, 0, muster_f32(&value)));
        EXPECT(value > 0.98f && value < 1); /* 1 - 0.01 */
    }
    muster_last_error_copy(message, sizeof message);
    EXPECT_OK(muster_function_destroy(function));
    EXPECT_OK(muster_graph_destroy(graph));
    EXPECT_OK(muster_variable_destroy(p));
    return status ? muster_fail(status, message) : MUSTER_OK;
}

static void init_rule(void *options) { muster_rule_options_init(options); }

static muster_status use_rule(const void *options) { return minimise(options, NULL); }

static void rule_defaults(const void *options) { EXPECT_OK(minimise(options, NULL)); }

static void rule_fields(void *options) {
#ifndef OLDEST_muster_rule_options
    ((muster_rule_options *)options)->momentum = 2;
    EXPECT(minimise(options, NULL) == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), "momentum: expected"));
#endif
    (void)options;
}

static void init_state(void *description) { muster_state_description_init(description); }

static muster_status use_state(void *description) { return minimise(NULL, description); }

static void state_result(const void *description) {
#ifndef OLDEST_muster_state_description
    EXPECT(strcmp(((const muster_state_description *)description)->name, "velocity") == 0);
#endif
    (void)description;
}

/* ---- initialiser options ---- */

static void init_initialiser(void *options) { muster_initialiser_options_init(options); }

/* Of two elements, the first. */
static muster_status initialise(const void *options, float *first) {
    float values[2] = {3, 4};
    muster_variable *variable;
    char message[512];
    EXPECT_OK(muster_variable_create(runtime, "initialised", muster_f32(values, 2), &variable));
    const muster_status status = muster_variable_initialise(variable, options);
    muster_last_error_copy(message, sizeof message);
    EXPECT_OK(muster_variable_get(variable, 0, muster_f32(values, 2)));
    *first = values[0];
    EXPECT_OK(muster_variable_destroy(variable));
    return status ? muster_fail(status, message) : MUSTER_OK;
}

static muster_status use_initialiser(const void *options) {
    float first;
    return initialise(options, &first);
}

static void initialiser_defaults(const void *options) {
    float first = 1;
    EXPECT_OK(initialise(options, &first));
    EXPECT(first == 0);
}

static void initialiser_fields(void *options) {
#ifndef OLDEST_muster_initialiser_options
    float first = 0;
    ((muster_initialiser_options *)options)->value = 7;
    EXPECT_OK(initialise(options, &first));
    EXPECT(first == 7);
#endif
    (void)options;
}

/* ---- the subjects ---- */

typedef struct subject {
    const char *name;
    size_t size; /* in the headers of this program */
    void (*init)(void *);
    /* option structs: the call that reads it, what it does by default, and that it reads a field */
    muster_status (*use)(const void *options);
    void (*defaults)(const void *options);
    void (*fields)(void *options);
    const char *where; /* the public function that complains */
    /* result structs */
    muster_status (*get)(void *result);
    void (*result)(const void *result);
} subject;

#define OPTIONS(type, noun, where) \
    { #type, sizeof(type), init_##noun, use_##noun, noun##_defaults, noun##_fields, where, NULL, NULL }
#define RESULT(type, noun, where) \
    { #type, sizeof(type), init_##noun, NULL, NULL, NULL, where, use_##noun, noun##_result }
static const subject subjects[] = {
    OPTIONS(muster_runtime_options, runtime, "muster_runtime_open"),
    OPTIONS(muster_call_options, call, "muster_function_call"),
    OPTIONS(muster_kernel_options, kernel, "muster_kernel_create"),
    OPTIONS(muster_server_options, server, "muster_server_create"),
    OPTIONS(muster_driver_options, driver, "muster_easgd_create"),
    OPTIONS(muster_allocator_options, allocator, "muster_allocator_set"),
    OPTIONS(muster_graph_options, graph, "muster_graph_compile"),
    OPTIONS(muster_gradient_check_options, check, "muster_gradient_check"),
    OPTIONS(muster_operator_options, operator, "muster_operator_create"),
    OPTIONS(muster_rule_options, rule, "muster_graph_minimise"),
    OPTIONS(muster_initialiser_options, initialiser, "muster_variable_initialise"),
    RESULT(muster_device_info, info, "muster_runtime_get_device_info"),
    RESULT(muster_kernel_limits, limits, "muster_kernel_get_limits"),
    RESULT(muster_server_statistics, statistics, "muster_server_get_statistics"),
    RESULT(muster_driver_counts, counts, "muster_driver_get_counts"),
    RESULT(muster_state_description, state, "muster_function_state_describe"),
    RESULT(muster_graph_memory, memory, "muster_graph_function_memory"),
};

static bool is_filler(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != FILLER) return false;
    return true;
}

static bool is_zero(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0) return false;
    return true;
}

static void expect_guards(const unsigned char *frame, size_t size) {
    EXPECT(is_filler(frame, GUARD));
    if (!is_filler(frame + GUARD + size, GUARD)) fail(__LINE__, "the library has written beyond the program's %zu bytes", size);
}

static void expect_refusal(const subject *s, muster_status expected, const char *message, const void *options) {
    const muster_status status = s->use(options);
    if (status != expected || !strstr(muster_last_error(), message))
        fail(__LINE__, "expected %s, '%s', received %s", muster_status_name(expected), message, muster_status_name(status));
}

/* The added bytes, one after another: zero is accepted, anything else refused with its offset. */
static void test_added(const subject *s, unsigned char *it, size_t known) {
    char message[400];
    for (size_t i = known; i < s->size; i += s->size - 1 - known) {
        snprintf(message, sizeof message,
                 "%s: options: expected the %zu bytes of %s that this library knows, with nothing but zeros behind them, received %zu "
                 "bytes with a "
                 "field set at offset %zu",
                 s->where, known, s->name, s->size, i);
        it[i] = 1;
        expect_refusal(s, MUSTER_UNSUPPORTED, message, it);
        it[i] = 0;
    }
    EXPECT_OK(s->use(it));
}

static void test_options(const subject *s, size_t known) {
    _Alignas(16) unsigned char frame[GUARD + LARGEST + GUARD];
    unsigned char *it = frame + GUARD;
    memset(frame, FILLER, sizeof frame);
    s->init(it);
    EXPECT(*(size_t *)it == s->size && is_zero(it + sizeof(size_t), s->size - sizeof(size_t)));
    expect_guards(frame, s->size);
    s->defaults(it);
    if (s->size > known) test_added(s, it, known);
    s->fields(it);
    expect_guards(frame, s->size);
}

static void test_result(const subject *s, size_t known) {
    _Alignas(16) unsigned char frame[GUARD + LARGEST + GUARD];
    unsigned char *it = frame + GUARD;
    memset(frame, FILLER, sizeof frame);
    s->init(it);
    EXPECT_OK(s->get(it));
    EXPECT(*(size_t *)it == s->size);
    s->result(it);
    if (s->size > known) EXPECT(is_zero(it + known, s->size - known));
    expect_guards(frame, s->size);
    *(size_t *)it = 3;
    EXPECT(s->get(it) == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), s->where) && strstr(muster_last_error(), "received 3"));
    expect_guards(frame, s->size);
}

int main(int argc, char **argv) {
    const subject *s = NULL;
    char constant[64];
    if (argc != 4) return 2;
    subject_name = argv[1];
    variant = argv[2];
    const size_t known = (size_t)atoll(argv[3]);
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (strcmp(subjects[i].name, subject_name) == 0) s = &subjects[i];
    EXPECT(s && s->size <= LARGEST);
    snprintf(constant, sizeof constant, "sizeof(%s)", s->name);
    EXPECT(muster_constant(constant) == (int64_t)known);
    EXPECT(strcmp(variant, "plus") == 0 ? s->size > known : s->size < known);
    if (strcmp(variant, "oldest") == 0) EXPECT(s->size == sizeof(size_t));
    EXPECT_OK(muster_runtime_open(NULL, &runtime));
    EXPECT_OK(muster_function_create(runtime, "sum", sum_rows, NULL, &sum_function));
    EXPECT_OK(muster_function_input(sum_function, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    EXPECT_OK(muster_function_output(sum_function, "sum", MUSTER_F32, 0, MUSTER_SUM));
    if (s->use)
        test_options(s, known);
    else
        test_result(s, known);
    EXPECT_OK(muster_runtime_close(runtime));
    return 0;
}

/* Rows of function.h, kernel.h and server.h, outside of bodies. */
#include "messages.h"

#include <math.h>

static muster_status nothing(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static void news(void *user) { (void)user; }

static void creating(void) {
    muster_runtime *runtime = messages_of.runtime;
    muster_function *unused;
    const muster_backend_body good = {"host", nothing}, no_body = {"host", NULL}, unknown = {"abacus", nothing};
    REFUSE(INVALID_ARGUMENT, "runtime", muster_function_create, NULL, "n", nothing, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_create, runtime, NULL, nothing, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_create, runtime, "", nothing, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_create, runtime, "function", nothing, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "body", muster_function_create, runtime, "n", NULL, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_create, runtime, "n", nothing, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_function_create_with, NULL, "n", &good, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_create_with, runtime, NULL, &good, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "bodies", muster_function_create_with, runtime, "n", NULL, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "bodies", muster_function_create_with, runtime, "n", &no_body, 1, NULL, &unused);
    REFUSE(UNSUPPORTED, "bodies", muster_function_create_with, runtime, "n", &unknown, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "body_count", muster_function_create_with, runtime, "n", &good, 0, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "body_count", muster_function_create_with, runtime, "n", &good, -1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_create_with, runtime, "n", &good, 1, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_function_create_owned, NULL, "n", &good, 1, NULL, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_create_owned, runtime, NULL, &good, 1, NULL, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "bodies", muster_function_create_owned, runtime, "n", NULL, 1, NULL, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "body_count", muster_function_create_owned, runtime, "n", &good, 0, NULL, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_create_owned, runtime, "n", &good, 1, NULL, NULL, NULL);
    GIVES(muster_function_destroy, muster_function_destroy(NULL) == MUSTER_OK);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_function_find, NULL, "function", &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_find, runtime, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_find, runtime, "nothing", &unused);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_find, runtime, "function", NULL);
}

static void describing(void) {
    muster_function *f = messages_of.function;
    muster_variable *variable = messages_of.variable;
    const muster_port port = {.kind = 9}, nameless = {.kind = MUSTER_PORT_INPUT, .dtype = MUSTER_F32, .mode = MUSTER_BROADCAST};
    muster_port read;
    REFUSE(INVALID_ARGUMENT, "function", muster_function_input, NULL, "n", MUSTER_F32, 1, MUSTER_SCATTER);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_input, f, NULL, MUSTER_F32, 1, MUSTER_SCATTER);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_input, f, "x", MUSTER_F32, 1, MUSTER_SCATTER);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_function_input, f, "n", 99, 1, MUSTER_SCATTER);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_function_input, f, "n", MUSTER_F32, -1, MUSTER_SCATTER);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_function_input, f, "n", MUSTER_F32, 9, MUSTER_SCATTER);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_function_input, f, "n", MUSTER_F32, 0, MUSTER_SCATTER);
    REFUSE(INVALID_ARGUMENT, "mode", muster_function_input, f, "n", MUSTER_F32, 1, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_output, NULL, "n", MUSTER_F32, 1, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "name", muster_function_output, f, NULL, MUSTER_F32, 1, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_function_output, f, "n", 99, 1, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_function_output, f, "n", MUSTER_F32, 9, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_function_output, f, "n", MUSTER_F32, 0, MUSTER_GATHER);
    REFUSE(INVALID_ARGUMENT, "mode", muster_function_output, f, "n", MUSTER_F32, 1, MUSTER_SCATTER);
    REFUSE(UNSUPPORTED, "mode", muster_function_output, f, "n", MUSTER_I32, 1, MUSTER_AVG);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_variable, NULL, variable, MUSTER_USE_READ);
    REFUSE(INVALID_ARGUMENT, "variable", muster_function_variable, f, NULL, MUSTER_USE_READ);
    REFUSE(INVALID_ARGUMENT, "use", muster_function_variable, f, variable, 0);
    REFUSE(INVALID_ARGUMENT, "use", muster_function_variable, f, variable, 4);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_update, NULL, variable, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "variable", muster_function_update, f, NULL, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "mode", muster_function_update, f, variable, MUSTER_GATHER);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_describe, NULL, &port, 1);
    REFUSE(INVALID_ARGUMENT, "ports", muster_function_describe, f, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "ports", muster_function_describe, f, &port, 1);
    REFUSE(INVALID_ARGUMENT, "ports", muster_function_describe, f, &nameless, 1);
    REFUSE(INVALID_ARGUMENT, "count", muster_function_describe, f, &port, -1);
    GIVES(muster_function_port_count, muster_function_port_count(NULL) == -1);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_port, NULL, 0, &read);
    REFUSE(OUT_OF_RANGE, "index", muster_function_port, f, -1, &read);
    REFUSE(OUT_OF_RANGE, "index", muster_function_port, f, 2, &read);
    REFUSE(INVALID_ARGUMENT, "port", muster_function_port, f, 0, NULL);
    double weights[2];
    REFUSE(INVALID_ARGUMENT, "function", muster_function_weights, NULL, 1, weights);
    REFUSE(INVALID_ARGUMENT, "count", muster_function_weights, f, 2, weights);
    REFUSE(INVALID_ARGUMENT, "weights", muster_function_weights, f, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_set_runs_without_rows, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_set_shards_together, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_set_default_stream, NULL, 0);
    REFUSE(INVALID_ARGUMENT, "mode", muster_function_set_default_stream, f, 99);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_set_source, NULL, "x", MUSTER_SOURCE_ALL);
    REFUSE(INVALID_ARGUMENT, "input", muster_function_set_source, f, NULL, MUSTER_SOURCE_ALL);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_set_target, NULL, "x", MUSTER_TARGET_ALL);
    REFUSE(INVALID_ARGUMENT, "output", muster_function_set_target, f, NULL, MUSTER_TARGET_ALL);
}

/* What every way of a call with inputs and outputs in order refuses. */
#define REFUSE_CALL(called, ...)                                                                               \
    do {                                                                                                       \
        static float x_[4][2], y_[2];                                                                          \
        muster_function *f = messages_of.function;                                                             \
        const muster_tensor x = muster_f32(x_, 4, 2), y = muster_f32(y_, 2), none = {0};                       \
        const muster_tensor ints = muster_i32((int32_t *)(void *)x_, 4, 2);                                    \
        const muster_tensor *inputs = &x, *outputs = &y;                                                       \
        int32_t input_count = 1, output_count = 1;                                                             \
        muster_call_options options = {.struct_size = sizeof options};                                         \
        REFUSE_CALL_(INVALID_ARGUMENT, "function", f, NULL, called, __VA_ARGS__);                              \
        REFUSE_CALL_(INVALID_ARGUMENT, "inputs", inputs, NULL, called, __VA_ARGS__);                           \
        REFUSE_CALL_(INVALID_ARGUMENT, "inputs", inputs, &none, called, __VA_ARGS__);                          \
        REFUSE_CALL_(DTYPE_MISMATCH, "inputs", inputs, &ints, called, __VA_ARGS__);                            \
        REFUSE_CALL_(SHAPE_MISMATCH, "inputs", inputs, &y, called, __VA_ARGS__);                               \
        REFUSE_CALL_(INVALID_ARGUMENT, "input_count", input_count, 2, called, __VA_ARGS__);                    \
        REFUSE_CALL_(INVALID_ARGUMENT, "input_count", input_count, -1, called, __VA_ARGS__);                   \
        REFUSE_CALL_(INVALID_ARGUMENT, "outputs", outputs, NULL, called, __VA_ARGS__);                         \
        REFUSE_CALL_(SHAPE_MISMATCH, "outputs", outputs, &x, called, __VA_ARGS__);                             \
        REFUSE_CALL_(INVALID_ARGUMENT, "output_count", output_count, 0, called, __VA_ARGS__);                  \
        REFUSE_CALL_(INVALID_ARGUMENT, "output_count", output_count, -1, called, __VA_ARGS__);                 \
        REFUSE_CALL_(INVALID_ARGUMENT, "struct_size", options.struct_size, 5, called, __VA_ARGS__);            \
        REFUSE_CALL_(INVALID_ARGUMENT, "reserved", options.reserved, 1, called, __VA_ARGS__);                  \
        REFUSE_CALL_(INVALID_ARGUMENT, "slices", options.slices, -1, called, __VA_ARGS__);                     \
        REFUSE_CALL_(INVALID_ARGUMENT, "queue_timeout_ns", options.queue_timeout_ns, -1, called, __VA_ARGS__); \
        REFUSE_CALL_(INVALID_ARGUMENT, "batch", options.batch.kind, 9, called, __VA_ARGS__);                   \
        REFUSE_CALL_(INVALID_ARGUMENT, "replica_batch", options.replica_batch_count, -1, called, __VA_ARGS__); \
        REFUSE_CALL_(INVALID_ARGUMENT, "replica_batch", options.replica_batch_count, 1, called, __VA_ARGS__);  \
        options.batch = (muster_selection){.kind = MUSTER_SELECT_COUNT};                                       \
        REFUSE_CALL_(OUT_OF_RANGE, "batch", options.batch.stop, 5, called, __VA_ARGS__);                       \
    } while (0)
/* One argument is wrong during one row. */
#define REFUSE_CALL_(code, argument, variable, wrong, called, ...) \
    do {                                                           \
        const __typeof__(variable) kept_ = variable;               \
        variable = wrong;                                          \
        REFUSE(code, argument, called, __VA_ARGS__);               \
        variable = kept_;                                          \
    } while (0)

static void calls(void) {
    muster_pending *pending = NULL;
    int32_t done;
    const char *in_name = "x", *out_name = "y", *const no_name = NULL, *wrong_name = "z";
    const char *const *in_names = &in_name, *const *out_names = &out_name, *const *const wrong_names = &wrong_name;
    muster_call_options_init_sized(NULL, 8);
    GIVES(muster_call_options_init_sized, true);
    REFUSE_CALL(muster_function_call, f, inputs, input_count, outputs, output_count, &options);
    REFUSE_CALL(muster_function_call_single, f, inputs, input_count, outputs, output_count, &options);
    REFUSE_CALL(muster_function_prepare, f, inputs, input_count, outputs, output_count, &options);
    REFUSE_CALL(muster_function_call_async, f, inputs, input_count, outputs, output_count, &options, &pending);
    static float x_[4][2], y_[2];
    const muster_tensor x = muster_f32(x_, 4, 2), y = muster_f32(y_, 2);
    muster_function *f = messages_of.function;
    REFUSE(INVALID_ARGUMENT, "pending", muster_function_call_async, f, &x, 1, &y, 1, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_call_named, NULL, in_names, &x, 1, out_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "input_names", muster_function_call_named, f, NULL, &x, 1, out_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "input_names", muster_function_call_named, f, &no_name, &x, 1, out_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "input_names", muster_function_call_named, f, wrong_names, &x, 1, out_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "input_names", muster_function_call_named, f, (const char *const[]){"x", "x"}, (const muster_tensor[]){x, x},
           2, out_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "inputs", muster_function_call_named, f, in_names, NULL, 1, out_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "input_count", muster_function_call_named, f, in_names, &x, -1, out_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "input_names", muster_function_call_named, f, in_names, &x, 0, out_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "output_names", muster_function_call_named, f, in_names, &x, 1, NULL, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "output_names", muster_function_call_named, f, in_names, &x, 1, wrong_names, &y, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "outputs", muster_function_call_named, f, in_names, &x, 1, out_names, NULL, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "output_count", muster_function_call_named, f, in_names, &x, 1, out_names, &y, -1, NULL);
    REFUSE(INVALID_ARGUMENT, "pending", muster_pending_wait, NULL);
    REFUSE(INVALID_ARGUMENT, "pending", muster_pending_test, NULL, &done);
    REFUSE(INVALID_ARGUMENT, "done", muster_pending_test, &pending, NULL);
    GIVES(muster_pending_destroy, muster_pending_destroy(NULL) == MUSTER_OK);
    REFUSE(INVALID_ARGUMENT, "function", muster_pending_notify, NULL, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "fd", muster_pending_notify_fd, NULL, -1);
    GIVES(muster_pending_notify, muster_pending_notify(NULL, news, NULL) == MUSTER_OK);
}

void messages_functions(void) {
    creating();
    describing();
    calls();
}

static void launches(void) {
    muster_kernel *kernel = messages_of.kernel;
    const muster_grid grid = {.dims = 1, .groups = {1}, .threads = {1}}, flat = {.dims = 4},
                      negative = {.dims = 1, .groups = {-1}, .threads = {1}};
    static float values[4];
    const muster_argument good[2] = {muster_argument_buffer(muster_f32(values, 4)), muster_argument_size(4)};
    const muster_argument none[2] = {muster_argument_buffer(muster_tensor_none()), muster_argument_size(4)};
    const muster_argument wrong[2] = {muster_argument_size(4), muster_argument_size(4)};
    const muster_argument far[2] = {muster_argument_int(99, 1), muster_argument_size(4)};
    REFUSE(INVALID_ARGUMENT, "kernel", muster_kernel_call, NULL, &grid, good, 2);
    REFUSE(INVALID_ARGUMENT, "grid", muster_kernel_call, kernel, NULL, good, 2);
    REFUSE(INVALID_ARGUMENT, "grid", muster_kernel_call, kernel, &flat, good, 2);
    REFUSE(INVALID_ARGUMENT, "grid", muster_kernel_call, kernel, &negative, good, 2);
    REFUSE(INVALID_ARGUMENT, "arguments", muster_kernel_call, kernel, &grid, NULL, 2);
    REFUSE(INVALID_ARGUMENT, "argument", muster_kernel_call, kernel, &grid, none, 2);
    REFUSE(INVALID_ARGUMENT, "argument", muster_kernel_call, kernel, &grid, wrong, 2);
    REFUSE(INVALID_ARGUMENT, "argument", muster_kernel_call, kernel, &grid, far, 2);
    REFUSE(INVALID_ARGUMENT, "argument_count", muster_kernel_call, kernel, &grid, good, 1);
    REFUSE(INVALID_ARGUMENT, "argument_count", muster_kernel_call, kernel, &grid, good, -1);
    REFUSE(INVALID_ARGUMENT, "kernel", muster_kernel_call_elements, NULL, 4, 0, good, 2);
    REFUSE(INVALID_ARGUMENT, "elements", muster_kernel_call_elements, kernel, -1, 0, good, 2);
    REFUSE(INVALID_ARGUMENT, "local_bytes", muster_kernel_call_elements, kernel, 4, -1, good, 2);
    REFUSE(INVALID_ARGUMENT, "arguments", muster_kernel_call_elements, kernel, 4, 0, NULL, 2);
    REFUSE(INVALID_ARGUMENT, "argument_count", muster_kernel_call_elements, kernel, 4, 0, good, 3);
}

static void reading(void) {
    static const char text[] = "#section kernels\n#kernel k : size :\nKERNEL void k(ga_size n) { }\n", malformed[] = "#kernel k\n";
    muster_runtime *runtime = messages_of.runtime;
    muster_kernel *read[1];
    const int64_t bytes = sizeof text - 1;
    int32_t count;
    REFUSE(INVALID_ARGUMENT, "runtime", muster_kernels_load, NULL, "k.kernels", NULL, 0, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "path", muster_kernels_load, runtime, NULL, NULL, 0, read, 1, &count);
    REFUSE(SYSTEM, "path", muster_kernels_load, runtime, "/nowhere/k.kernels", NULL, 0, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "types", muster_kernels_load, runtime, "/nowhere/k.kernels", NULL, 1, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "kernels", muster_kernels_load, runtime, "/nowhere/k.kernels", NULL, 0, NULL, 1, &count);
    REFUSE(INVALID_ARGUMENT, "count", muster_kernels_load, runtime, "/nowhere/k.kernels", NULL, 0, read, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_kernels_parse, NULL, "n", text, bytes, NULL, 0, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "name", muster_kernels_parse, runtime, NULL, text, bytes, NULL, 0, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "text", muster_kernels_parse, runtime, "n", NULL, bytes, NULL, 0, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "bytes", muster_kernels_parse, runtime, "n", text, -1, NULL, 0, read, 1, &count);
    /* The argument is the text, which the message calls by its name, with line and column. */
    REFUSE(INVALID_ARGUMENT, "n", muster_kernels_parse, runtime, "n", malformed, sizeof malformed - 1, NULL, 0, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "types", muster_kernels_parse, runtime, "n", text, bytes, NULL, 1, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "types", muster_kernels_parse, runtime, "n", text, bytes, (const muster_dtype[]){99}, 1, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "type_count", muster_kernels_parse, runtime, "n", text, bytes, NULL, -1, read, 1, &count);
    REFUSE(INVALID_ARGUMENT, "kernels", muster_kernels_parse, runtime, "n", text, bytes, NULL, 0, NULL, 1, &count);
    REFUSE(OUT_OF_RANGE, "capacity", muster_kernels_parse, runtime, "n", text, bytes, NULL, 0, read, 0, &count);
    REFUSE(INVALID_ARGUMENT, "capacity", muster_kernels_parse, runtime, "n", text, bytes, NULL, 0, read, -1, &count);
    REFUSE(INVALID_ARGUMENT, "count", muster_kernels_parse, runtime, "n", text, bytes, NULL, 0, read, 1, NULL);
}

void messages_kernels(void) {
    static const char source[] = "KERNEL void k(ga_size n) { }";
    const int32_t size[1] = {MUSTER_PARAMETER_SIZE}, unknown[1] = {99};
    muster_runtime *runtime = messages_of.runtime;
    muster_kernel *kernel = messages_of.kernel, *unused;
    muster_kernel_options options = {.struct_size = sizeof options, .flags = "GA_USE_MAGIC"};
    muster_kernel_limits limits, misfit = {.struct_size = 1};
    muster_kernel_limits_init(&limits);
    muster_kernel_options_init_sized(NULL, 8);
    GIVES(muster_kernel_options_init_sized, true);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_kernel_create, NULL, "k", source, size, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_kernel_create, runtime, NULL, source, size, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_kernel_create, runtime, "other", source, size, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_kernel_create, runtime, "no name", source, size, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "source", muster_kernel_create, runtime, "k", NULL, size, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "source", muster_kernel_create, runtime, "k", "KERNEL void k(ga_size n) { ? }", size, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "parameters", muster_kernel_create, runtime, "k", source, NULL, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "parameter", muster_kernel_create, runtime, "k", source, unknown, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "parameter_count", muster_kernel_create, runtime, "k", source, size, -1, NULL, &unused);
    REFUSE(OUT_OF_RANGE, "parameter_count", muster_kernel_create, runtime, "k", source, size, 65, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "kernel", muster_kernel_create, runtime, "k", source, size, 1, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "flags", muster_kernel_create, runtime, "k", source, size, 1, &options, &unused);
    options = (muster_kernel_options){.struct_size = sizeof options, .thread_count = 1};
    REFUSE(INVALID_ARGUMENT, "threads", muster_kernel_create, runtime, "k", source, size, 1, &options, &unused);
    options.thread_count = -1;
    REFUSE(INVALID_ARGUMENT, "thread_count", muster_kernel_create, runtime, "k", source, size, 1, &options, &unused);
    options = (muster_kernel_options){.struct_size = sizeof options, .reserved = 1};
    REFUSE(INVALID_ARGUMENT, "reserved", muster_kernel_create, runtime, "k", source, size, 1, &options, &unused);
    GIVES(muster_kernel_destroy, muster_kernel_destroy(NULL) == MUSTER_OK);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_kernel_find, NULL, "k", &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_kernel_find, runtime, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_kernel_find, runtime, "nothing", &unused);
    REFUSE(INVALID_ARGUMENT, "kernel", muster_kernel_find, runtime, "k", NULL);
    GIVES(muster_dtype_kernel_name, muster_dtype_kernel_name(99) == NULL);
    GIVES(muster_kernel_name, muster_kernel_name(NULL) == NULL);
    GIVES(muster_kernel_parameter_count, muster_kernel_parameter_count(NULL) == -1);
    GIVES(muster_kernel_parameter, muster_kernel_parameter(kernel, 2) == -1 && muster_kernel_parameter(kernel, -1) == -1);
    GIVES(muster_kernel_log, muster_kernel_log(NULL) == NULL && muster_kernel_log(kernel) != NULL);
    GIVES(muster_kernel_create_log, muster_kernel_create_log() != NULL);
    REFUSE(INVALID_ARGUMENT, "kernel", muster_kernel_get_limits, NULL, 0, &limits);
    REFUSE(OUT_OF_RANGE, "rank", muster_kernel_get_limits, kernel, 1, &limits);
    REFUSE(OUT_OF_RANGE, "rank", muster_kernel_get_limits, kernel, -1, &limits);
    REFUSE(INVALID_ARGUMENT, "limits", muster_kernel_get_limits, kernel, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "limits", muster_kernel_get_limits, kernel, 0, &misfit);
    GIVES(muster_argument_buffer, muster_argument_buffer(muster_tensor_none()).type == MUSTER_PARAMETER_BUFFER);
    GIVES(muster_argument_strided, muster_argument_strided(muster_tensor_none()).type == MUSTER_PARAMETER_BUFFER);
    GIVES(muster_argument_base, muster_argument_base(muster_tensor_none()).type == MUSTER_PARAMETER_BUFFER);
    GIVES(muster_argument_size, muster_argument_size(1).type == MUSTER_PARAMETER_SIZE);
    GIVES(muster_argument_ssize, muster_argument_ssize(-1).type == MUSTER_PARAMETER_SSIZE);
    GIVES(muster_argument_float, muster_argument_float(99, 1).type == 99);
    GIVES(muster_argument_int, muster_argument_int(99, 1).type == 99);
    GIVES(muster_argument_bits, muster_argument_bits(99, 1).type == 99);
    reading();
    launches();
}

static muster_status no_rule(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count, double scale) {
    (void)user, (void)dtype, (void)value, (void)tensor, (void)first, (void)count, (void)scale;
    return MUSTER_OK;
}

static void clients(void) {
    static float values[6], square[4][4];
    double wide[4] = {0};
    muster_client *client = messages_of.client, *unused;
    muster_request *request = NULL;
    int32_t done;
    const muster_tensor good = muster_f32(values, 4);
    const muster_tensor column = muster_tensor_slice_axis(muster_f32(&square[0][0], 4, 4), 1, 0, 1);
    muster_tensor elsewhere = good;
    elsewhere.device = 3;
    REFUSE(INVALID_ARGUMENT, "server", muster_client_open, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "client", muster_client_open, messages_of.server, NULL);
    GIVES(muster_client_close, muster_client_close(NULL) == MUSTER_OK);
    REFUSE(INVALID_ARGUMENT, "client", muster_client_send, NULL, 0, MUSTER_RULE_ADD, 0, good, 0, NULL);
    REFUSE(OUT_OF_RANGE, "index", muster_client_send, client, -1, MUSTER_RULE_ADD, 0, good, 0, NULL);
    REFUSE(OUT_OF_RANGE, "index", muster_client_send, client, 1, MUSTER_RULE_ADD, 0, good, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "rule", muster_client_send, client, 0, 0, 0, good, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "rule", muster_client_send, client, 0, MUSTER_RULE_USER, 0, good, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "scale", muster_client_send, client, 0, MUSTER_RULE_ADD_SCALED, (double)INFINITY, good, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_client_send, client, 0, MUSTER_RULE_ADD, 0, muster_tensor_none(), 0, NULL);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_client_send, client, 0, MUSTER_RULE_ADD, 0, elsewhere, 0, NULL);
    REFUSE(SHAPE_MISMATCH, "tensor", muster_client_send, client, 0, MUSTER_RULE_ADD, 0, muster_f32(values, 5), 0, NULL);
    REFUSE(DTYPE_MISMATCH, "tensor", muster_client_send, client, 0, MUSTER_RULE_ADD, 0, muster_f64(wide, 4), 0, NULL);
    REFUSE(UNSUPPORTED, "tensor", muster_client_send, client, 0, MUSTER_RULE_ADD, 0, column, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "flags", muster_client_send, client, 0, MUSTER_RULE_ADD, 0, good, 2, NULL);
    REFUSE(INVALID_ARGUMENT, "client", muster_client_receive, NULL, 0, good, NULL);
    REFUSE(OUT_OF_RANGE, "index", muster_client_receive, client, 1, good, NULL);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_client_receive, client, 0, muster_tensor_none(), NULL);
    REFUSE(DTYPE_MISMATCH, "tensor", muster_client_receive, client, 0, muster_f64(wide, 4), NULL);
    REFUSE(UNSUPPORTED, "tensor", muster_client_receive, client, 0, column, NULL);
    REFUSE(INVALID_ARGUMENT, "client", muster_client_send_all, NULL, MUSTER_RULE_ADD, 0, &good, 1, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "rule", muster_client_send_all, client, 99, 0, &good, 1, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "scale", muster_client_send_all, client, MUSTER_RULE_ADD_SCALED, NAN, &good, 1, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "tensors", muster_client_send_all, client, MUSTER_RULE_ADD, 0, NULL, 1, 0, NULL);
    REFUSE(UNSUPPORTED, "tensors", muster_client_send_all, client, MUSTER_RULE_ADD, 0, &column, 1, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "count", muster_client_send_all, client, MUSTER_RULE_ADD, 0, &good, 2, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "flags", muster_client_send_all, client, MUSTER_RULE_ADD, 0, &good, 1, 2, NULL);
    REFUSE(INVALID_ARGUMENT, "client", muster_client_receive_all, NULL, &good, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "tensors", muster_client_receive_all, client, NULL, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "count", muster_client_receive_all, client, &good, -1, NULL);
    muster_variable *const variable = messages_of.variable, *const none = NULL;
    REFUSE(INVALID_ARGUMENT, "client", muster_client_send_variables, NULL, MUSTER_RULE_ADD, 0, &variable, 1);
    REFUSE(INVALID_ARGUMENT, "rule", muster_client_send_variables, client, 99, 0, &variable, 1);
    REFUSE(INVALID_ARGUMENT, "variables", muster_client_send_variables, client, MUSTER_RULE_ADD, 0, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "variables", muster_client_send_variables, client, MUSTER_RULE_ADD, 0, &none, 1);
    REFUSE(INVALID_ARGUMENT, "count", muster_client_send_variables, client, MUSTER_RULE_ADD, 0, &variable, 0);
    REFUSE(INVALID_ARGUMENT, "client", muster_client_receive_variables, NULL, &variable, 1);
    REFUSE(INVALID_ARGUMENT, "variables", muster_client_receive_variables, client, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "variables", muster_client_receive_variables, client, &none, 1);
    REFUSE(INVALID_ARGUMENT, "count", muster_client_receive_variables, client, &variable, 2);
    REFUSE(INVALID_ARGUMENT, "request", muster_request_wait, NULL);
    REFUSE(INVALID_ARGUMENT, "request", muster_request_test, NULL, &done);
    REFUSE(INVALID_ARGUMENT, "done", muster_request_test, &request, NULL);
    REFUSE(INVALID_ARGUMENT, "requests", muster_requests_wait_all, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "count", muster_requests_wait_all, &request, -1);
    REFUSE(INVALID_ARGUMENT, "function", muster_request_notify, NULL, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "fd", muster_request_notify_fd, NULL, -1);
}

void messages_servers(void) {
    static float values[6];
    muster_runtime *runtime = messages_of.runtime;
    muster_server *server = messages_of.server, *unused;
    muster_server_options options = {.struct_size = sizeof options};
    muster_server_statistics statistics, misfit = {.struct_size = 1};
    const muster_tensor good = muster_f32(values, 4), bytes = muster_u8((uint8_t *)(void *)values, 4);
    muster_tensor elsewhere = good;
    muster_variable *const list[1] = {messages_of.variable}, *const empty[1] = {NULL};
    muster_rule rule;
    int64_t first, elements;
    elsewhere.device = 3;
    muster_server_statistics_init(&statistics);
    muster_server_options_init_sized(NULL, 8);
    GIVES(muster_server_options_init_sized, true);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_server_create, NULL, "n", &good, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_server_create, runtime, NULL, &good, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_server_create, runtime, "server", &good, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "values", muster_server_create, runtime, "n", NULL, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "values", muster_server_create, runtime, "n", &elsewhere, 1, NULL, &unused);
    REFUSE(UNSUPPORTED, "values", muster_server_create, runtime, "n", &bytes, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "count", muster_server_create, runtime, "n", &good, 0, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "count", muster_server_create, runtime, "n", &good, -1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "server", muster_server_create, runtime, "n", &good, 1, NULL, NULL);
    options.shards = -1;
    REFUSE(INVALID_ARGUMENT, "shards", muster_server_create, runtime, "n", &good, 1, &options, &unused);
    options = (muster_server_options){.struct_size = sizeof options, .progress = 65};
    REFUSE(INVALID_ARGUMENT, "progress", muster_server_create, runtime, "n", &good, 1, &options, &unused);
    options = (muster_server_options){.struct_size = sizeof options, .initial = 2};
    REFUSE(INVALID_ARGUMENT, "initial", muster_server_create, runtime, "n", &good, 1, &options, &unused);
    options = (muster_server_options){.struct_size = sizeof options, .reserved = 2};
    REFUSE(INVALID_ARGUMENT, "reserved", muster_server_create, runtime, "n", &good, 1, &options, &unused);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_server_create_from, NULL, "n", list, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_server_create_from, runtime, "", list, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "variables", muster_server_create_from, runtime, "n", NULL, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "variables", muster_server_create_from, runtime, "n", empty, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "count", muster_server_create_from, runtime, "n", list, 0, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "server", muster_server_create_from, runtime, "n", list, 1, NULL, NULL);
    GIVES(muster_server_destroy, muster_server_destroy(NULL) == MUSTER_OK);
    GIVES(muster_server_count, muster_server_count(NULL) == -1);
    GIVES(muster_server_elements, muster_server_elements(server, 1) == -1 && muster_server_elements(server, -1) == -1);
    GIVES(muster_server_shards, muster_server_shards(NULL) == -1);
    REFUSE(INVALID_ARGUMENT, "server", muster_server_shard, NULL, 0, 0, &first, &elements);
    REFUSE(INVALID_ARGUMENT, "first", muster_server_shard, server, 0, 0, NULL, &elements);
    REFUSE(INVALID_ARGUMENT, "elements", muster_server_shard, server, 0, 0, &first, NULL);
    REFUSE(OUT_OF_RANGE, "index", muster_server_shard, server, 1, 0, &first, &elements);
    REFUSE(OUT_OF_RANGE, "index", muster_server_shard, server, -1, 0, &first, &elements);
    REFUSE(OUT_OF_RANGE, "shard", muster_server_shard, server, 0, 1, &first, &elements);
    REFUSE(OUT_OF_RANGE, "shard", muster_server_shard, server, 0, -1, &first, &elements);
    REFUSE(INVALID_ARGUMENT, "server", muster_server_add_rule, NULL, "r", no_rule, NULL, &rule);
    REFUSE(INVALID_ARGUMENT, "name", muster_server_add_rule, server, NULL, no_rule, NULL, &rule);
    REFUSE(INVALID_ARGUMENT, "function", muster_server_add_rule, server, "r", NULL, NULL, &rule);
    REFUSE(INVALID_ARGUMENT, "rule", muster_server_add_rule, server, "r", no_rule, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "server", muster_server_add_rule_owned, NULL, "r", no_rule, NULL, NULL, &rule);
    REFUSE(INVALID_ARGUMENT, "name", muster_server_add_rule_owned, server, NULL, no_rule, NULL, NULL, &rule);
    REFUSE(INVALID_ARGUMENT, "function", muster_server_add_rule_owned, server, "r", NULL, NULL, NULL, &rule);
    REFUSE(INVALID_ARGUMENT, "rule", muster_server_add_rule_owned, server, "r", no_rule, NULL, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "server", muster_server_get_statistics, NULL, &statistics);
    REFUSE(INVALID_ARGUMENT, "statistics", muster_server_get_statistics, server, NULL);
    REFUSE(INVALID_ARGUMENT, "statistics", muster_server_get_statistics, server, &misfit);
    clients();
}

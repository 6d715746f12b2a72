/* Rows of runtime.h and variable.h. */
#include "messages.h"

static muster_status open_with(muster_runtime_options options) {
    muster_runtime *runtime;
    options.struct_size = sizeof options;
    return muster_runtime_open(&options, &runtime);
}
/* muster_runtime_open with one field of the options set. */
#define REFUSE_OPEN(code, name, ...) \
    messages_refused("muster_runtime_open", name, MUSTER_##code, open_with((muster_runtime_options){__VA_ARGS__}))

static void opening(void) {
    muster_runtime_options options = {.struct_size = 3};
    muster_runtime *runtime;
    muster_runtime_options_init_sized(NULL, 8);
    GIVES(muster_runtime_options_init_sized, true);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_open, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "options", muster_runtime_open, &options, &runtime);
    REFUSE_OPEN(INVALID_ARGUMENT, "devices", .devices = "abacus");
    REFUSE_OPEN(INVALID_ARGUMENT, "devices", .devices = "host:");
    REFUSE_OPEN(INVALID_ARGUMENT, "devices", .devices = "host:0");
    REFUSE_OPEN(INVALID_ARGUMENT, "devices", .devices = "host:-1");
    REFUSE_OPEN(INVALID_ARGUMENT, "devices", .devices = "host:2,,host:1");
    REFUSE_OPEN(INVALID_ARGUMENT, "devices", .devices = "");
    REFUSE_OPEN(INVALID_ARGUMENT, "keep_blas_threads", .devices = "host:1", .keep_blas_threads = 2);
    REFUSE_OPEN(INVALID_ARGUMENT, "no_pinning", .devices = "host:1", .no_pinning = -1);
    REFUSE_OPEN(INVALID_ARGUMENT, "logical_shards", .devices = "host:2", .logical_shards = 3);
    REFUSE_OPEN(INVALID_ARGUMENT, "logical_shards", .devices = "host:1", .logical_shards = 65537);
    REFUSE_OPEN(INVALID_ARGUMENT, "tf32", .devices = "host:1", .tf32 = 7);
    REFUSE_OPEN(INVALID_ARGUMENT, "log_level", .devices = "host:1", .log_level = 5);
    REFUSE_OPEN(INVALID_ARGUMENT, "log_level", .devices = "host:1", .log_level = -1);
    REFUSE_OPEN(INVALID_ARGUMENT, "p2p", .devices = "host:1", .p2p = 2);
    REFUSE_OPEN(INVALID_ARGUMENT, "on_lost", .devices = "host:1", .on_lost = 2);
    REFUSE_OPEN(INVALID_ARGUMENT, "on_lost", .devices = "host:1", .on_lost = -1);
    REFUSE_OPEN(INVALID_ARGUMENT, "wire_dtype", .devices = "host:1", .wire_dtype = MUSTER_F64);
    REFUSE_OPEN(INVALID_ARGUMENT, "wire_dtype", .devices = "host:2", .logical_shards = 2, .wire_dtype = MUSTER_F16);
    REFUSE_OPEN(INVALID_ARGUMENT, "mpi_communicator", .devices = "host:1", .mpi_communicator = INT64_MIN);
    REFUSE_OPEN(INVALID_ARGUMENT, "collective_algorithm", .devices = "host:1", .collective_algorithm = "magic");
    REFUSE_OPEN(UNAVAILABLE, "collective_algorithm", .devices = "host:1", .collective_algorithm = "nccl");
    GIVES(muster_runtime_cancel, (muster_runtime_cancel(NULL), true));
    GIVES(muster_runtime_close, muster_runtime_close(NULL) == MUSTER_OK);
    GIVES(muster_runtime_size, muster_runtime_size(NULL) == -1);
    GIVES(muster_runtime_device, muster_runtime_device(NULL, 0) == NULL);
    GIVES(muster_runtime_device, muster_runtime_device(messages_of.runtime, -1) == NULL);
    GIVES(muster_runtime_device, muster_runtime_device(messages_of.runtime, 1) == NULL);
    GIVES(muster_runtime_description, muster_runtime_description(NULL) == NULL);
    GIVES(muster_runtime_processes, muster_runtime_processes(NULL) == -1);
    GIVES(muster_runtime_process, muster_runtime_process(NULL) == -1);
    GIVES(muster_runtime_first_rank, muster_runtime_first_rank(NULL, 0) == -1);
    GIVES(muster_runtime_hosts, muster_runtime_hosts(NULL) == -1);
    GIVES(muster_runtime_host, muster_runtime_host(NULL, 0) == NULL);
    GIVES(muster_worker_process, muster_worker_process(NULL) == -1);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_abort, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "code", muster_runtime_abort, messages_of.runtime, 0);
    REFUSE(INVALID_ARGUMENT, "code", muster_runtime_abort, messages_of.runtime, 256);
}

static void machine(void) {
    muster_library_info library;
    muster_threshold_info threshold;
    muster_library_info_init(&library);
    muster_threshold_info_init(&threshold);
    GIVES(muster_library_count, muster_library_count() >= 10);
    REFUSE(OUT_OF_RANGE, "index", muster_library_get_info, -1, &library);
    REFUSE(INVALID_ARGUMENT, "info", muster_library_get_info, 0, NULL);
    GIVES(muster_threshold_count, muster_threshold_count() >= 3);
    REFUSE(OUT_OF_RANGE, "index", muster_threshold_get_info, 0, -1, &threshold);
    REFUSE(INVALID_ARGUMENT, "info", muster_threshold_get_info, 0, 0, NULL);
}

static void memory_and_names(void) {
    static char memory[64];
    muster_runtime *runtime = messages_of.runtime;
    int32_t rank;
    const muster_tensor host = muster_u8((uint8_t *)memory, 4);
    muster_tensor elsewhere = host;
    elsewhere.device = 3;
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_register_memory, NULL, memory, 8);
    REFUSE(INVALID_ARGUMENT, "address", muster_runtime_register_memory, runtime, NULL, 8);
    REFUSE(INVALID_ARGUMENT, "bytes", muster_runtime_register_memory, runtime, memory, 0);
    REFUSE(INVALID_ARGUMENT, "bytes", muster_runtime_register_memory, runtime, memory, -1);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_unregister_memory, NULL, memory);
    REFUSE(INVALID_ARGUMENT, "address", muster_runtime_unregister_memory, runtime, memory);
    REFUSE(INVALID_ARGUMENT, "address", muster_runtime_unregister_memory, runtime, NULL);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_name_device, NULL, "left", 0);
    REFUSE(INVALID_ARGUMENT, "name", muster_runtime_name_device, runtime, NULL, 0);
    REFUSE(INVALID_ARGUMENT, "name", muster_runtime_name_device, runtime, "", 0);
    REFUSE(INVALID_ARGUMENT, "name", muster_runtime_name_device, runtime, "7", 0);
    REFUSE(OUT_OF_RANGE, "rank", muster_runtime_name_device, runtime, "left", -1);
    REFUSE(OUT_OF_RANGE, "rank", muster_runtime_name_device, runtime, "left", 1);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_set_default_device, NULL, "0");
    REFUSE(INVALID_ARGUMENT, "name", muster_runtime_set_default_device, runtime, NULL);
    REFUSE(INVALID_ARGUMENT, "name", muster_runtime_set_default_device, runtime, "nowhere");
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_find_device, NULL, "0", &rank);
    REFUSE(INVALID_ARGUMENT, "name", muster_runtime_find_device, runtime, "nowhere", &rank);
    REFUSE(INVALID_ARGUMENT, "rank", muster_runtime_find_device, runtime, "0", NULL);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_infer_device, NULL, &host, 1, &rank);
    REFUSE(INVALID_ARGUMENT, "tensors", muster_runtime_infer_device, runtime, NULL, 1, &rank);
    REFUSE(INVALID_ARGUMENT, "tensors", muster_runtime_infer_device, runtime, &elsewhere, 1, &rank);
    REFUSE(INVALID_ARGUMENT, "count", muster_runtime_infer_device, runtime, &host, -1, &rank);
    REFUSE(INVALID_ARGUMENT, "rank", muster_runtime_infer_device, runtime, &host, 1, NULL);
}

static void devices_and_buffers(void) {
    muster_runtime *runtime = messages_of.runtime;
    muster_buffer *buffer, *buffers[2];
    muster_device_info info = {.struct_size = sizeof info}, misfit = {.struct_size = 3};
    assert_ok(muster_buffer_create(MUSTER_F32, 1, 1, &buffer));
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_get_device_info, NULL, 0, &info);
    REFUSE(OUT_OF_RANGE, "rank", muster_runtime_get_device_info, runtime, 1, &info);
    REFUSE(OUT_OF_RANGE, "rank", muster_runtime_get_device_info, runtime, -1, &info);
    REFUSE(INVALID_ARGUMENT, "info", muster_runtime_get_device_info, runtime, 0, NULL);
    REFUSE(INVALID_ARGUMENT, "info", muster_runtime_get_device_info, runtime, 0, &misfit);
    GIVES(muster_device_count, muster_device_count() >= 1);
    REFUSE(OUT_OF_RANGE, "index", muster_device_get_info, -1, &info);
    REFUSE(INVALID_ARGUMENT, "info", muster_device_get_info, 0, NULL);
    machine();
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_register_buffer, NULL, buffer);
    REFUSE(INVALID_ARGUMENT, "buffer", muster_runtime_register_buffer, runtime, NULL);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_unregister_buffer, NULL, buffer);
    REFUSE(INVALID_ARGUMENT, "buffer", muster_runtime_unregister_buffer, runtime, NULL);
    REFUSE(INVALID_ARGUMENT, "buffer", muster_runtime_unregister_buffer, runtime, buffer);
    REFUSE(INVALID_ARGUMENT, "function", muster_function_buffers, NULL, 1, buffers, 1);
    REFUSE(INVALID_ARGUMENT, "oversize", muster_function_buffers, messages_of.function, 3, buffers, 1);
    REFUSE(INVALID_ARGUMENT, "buffers", muster_function_buffers, messages_of.function, 1, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "count", muster_function_buffers, messages_of.function, 1, buffers, 2);
    muster_buffer_destroy(buffer);
}

static void device_tensors(void) {
    static float values[4];
    muster_runtime *runtime = messages_of.runtime;
    const int64_t two = 2, negative = -2;
    const muster_tensor host = muster_f32(values, 2);
    muster_tensor tensor, unused, elsewhere = host;
    elsewhere.device = 3;
    assert_ok(muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 1, &two, &tensor));
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_tensor_create, NULL, NULL, MUSTER_F32, 1, &two, &unused);
    REFUSE(INVALID_ARGUMENT, "device", muster_runtime_tensor_create, runtime, "nowhere", MUSTER_F32, 1, &two, &unused);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_runtime_tensor_create, runtime, NULL, 99, 1, &two, &unused);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_runtime_tensor_create, runtime, NULL, MUSTER_DTYPE_NONE, 1, &two, &unused);
    REFUSE(INVALID_ARGUMENT, "dimensions", muster_runtime_tensor_create, runtime, NULL, MUSTER_F32, -1, &two, &unused);
    REFUSE(INVALID_ARGUMENT, "dimensions", muster_runtime_tensor_create, runtime, NULL, MUSTER_F32, 9, &two, &unused);
    REFUSE(INVALID_ARGUMENT, "shape", muster_runtime_tensor_create, runtime, NULL, MUSTER_F32, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "shape", muster_runtime_tensor_create, runtime, NULL, MUSTER_F32, 1, &negative, &unused);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_runtime_tensor_create, runtime, NULL, MUSTER_F32, 1, &two, NULL);
    unused = host;
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_tensor_on, NULL, "0", &unused);
    REFUSE(INVALID_ARGUMENT, "device", muster_runtime_tensor_on, runtime, "nowhere", &unused);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_runtime_tensor_on, runtime, "0", NULL);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_runtime_tensor_on, runtime, "0", &elsewhere);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_tensor_destroy, NULL, tensor);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_runtime_tensor_destroy, runtime, host);
    REFUSE(INVALID_ARGUMENT, "tensor", muster_runtime_tensor_destroy, runtime, elsewhere);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_tensor_copy, NULL, host, tensor);
    REFUSE(INVALID_ARGUMENT, "from", muster_runtime_tensor_copy, runtime, elsewhere, tensor);
    REFUSE(INVALID_ARGUMENT, "from", muster_runtime_tensor_copy, runtime, muster_tensor_none(), tensor);
    REFUSE(INVALID_ARGUMENT, "to", muster_runtime_tensor_copy, runtime, tensor, elsewhere);
    REFUSE(DTYPE_MISMATCH, "to", muster_runtime_tensor_copy, runtime, tensor, muster_i32((int32_t *)(void *)values, 2));
    REFUSE(SHAPE_MISMATCH, "to", muster_runtime_tensor_copy, runtime, tensor, muster_f32(values, 3));
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_dump, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "events", muster_runtime_dump, runtime, -1);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_runtime_trace, NULL, "trace.json");
    REFUSE(INVALID_ARGUMENT, "path", muster_runtime_trace, runtime, NULL);
    REFUSE(INVALID_ARGUMENT, "path", muster_runtime_trace, runtime, "");
    REFUSE(SYSTEM, "path", muster_runtime_trace, runtime, "/nowhere/trace.json");
}

void messages_runtimes(void) {
    opening();
    memory_and_names();
    devices_and_buffers();
    device_tensors();
}

/* What every function of a list of variables refuses. */
#define REFUSE_LIST(function, ...)                                                     \
    do {                                                                               \
        muster_variable *const *variables = NULL;                                      \
        int32_t count = 1;                                                             \
        REFUSE(INVALID_ARGUMENT, "variables", function, __VA_ARGS__);                  \
        variables = (muster_variable *[]){NULL};                                       \
        REFUSE(INVALID_ARGUMENT, "variables", function, __VA_ARGS__);                  \
        variables = (muster_variable *[]){messages_of.variable, messages_of.variable}; \
        count = 2;                                                                     \
        REFUSE(INVALID_ARGUMENT, "variables", function, __VA_ARGS__);                  \
        count = -1;                                                                    \
        REFUSE(INVALID_ARGUMENT, "count", function, __VA_ARGS__);                      \
    } while (0)

static void lists(void) {
    static float values[2][2], many[2][2][2];
    const muster_tensor pair[2] = {muster_f32(values, 2, 2), muster_f32(values, 2, 2)};
    const muster_tensor three = muster_f32(&many[0][0][0], 1, 2, 2), ints = muster_i32((int32_t *)(void *)values, 2, 2);
    const muster_tensor narrow = muster_f32(&values[0][0], 2, 1);
    muster_variable *const list[1] = {messages_of.variable};
    const muster_selection beyond = {.kind = MUSTER_SELECT_COUNT, .stop = 3}, unknown = {.kind = 9};
    REFUSE_LIST(muster_variables_broadcast, variables, pair, count);
    REFUSE(DTYPE_MISMATCH, "values", muster_variables_broadcast, list, &ints, 1);
    REFUSE(SHAPE_MISMATCH, "values", muster_variables_broadcast, list, &three, 1);
    REFUSE_LIST(muster_variables_scatter, variables, pair, count, NULL);
    REFUSE(INVALID_ARGUMENT, "values", muster_variables_scatter, list, NULL, 1, NULL);
    REFUSE(OUT_OF_RANGE, "selection", muster_variables_scatter, list, pair, 1, &beyond);
    REFUSE(INVALID_ARGUMENT, "selection", muster_variables_scatter, list, pair, 1, &unknown);
    REFUSE_LIST(muster_variables_all_reduce, variables, count, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "op", muster_variables_all_reduce, list, 1, 0);
    REFUSE_LIST(muster_variables_reduce, variables, count, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "op", muster_variables_reduce, list, 1, 6);
    REFUSE_LIST(muster_variables_reduce_scatter, variables, count, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "op", muster_variables_reduce_scatter, list, 1, -1);
    REFUSE_LIST(muster_variables_all_gather, variables, count);
    REFUSE_LIST(muster_variables_all_to_all, variables, count);
    REFUSE_LIST(muster_variables_broadcast_from, variables, count, 0);
    REFUSE(OUT_OF_RANGE, "rank", muster_variables_broadcast_from, list, 1, -1);
    REFUSE(OUT_OF_RANGE, "rank", muster_variables_broadcast_from, list, 1, 1);
    REFUSE_LIST(muster_variables_scatter_from, variables, count, 0);
    REFUSE(OUT_OF_RANGE, "rank", muster_variables_scatter_from, list, 1, 1);
    REFUSE_LIST(muster_variables_reduce_at, variables, count, MUSTER_SUM, 0);
    REFUSE(OUT_OF_RANGE, "rank", muster_variables_reduce_at, list, 1, MUSTER_SUM, 1);
    REFUSE(INVALID_ARGUMENT, "op", muster_variables_reduce_at, list, 1, 0, 0);
    REFUSE_LIST(muster_variables_gather_at, variables, count, 0);
    REFUSE(OUT_OF_RANGE, "rank", muster_variables_gather_at, list, 1, -1);
    REFUSE_LIST(muster_variables_reduce_to, variables, pair, count, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "results", muster_variables_reduce_to, list, NULL, 1, MUSTER_SUM);
    REFUSE(SHAPE_MISMATCH, "results", muster_variables_reduce_to, list, &narrow, 1, MUSTER_SUM);
    REFUSE(INVALID_ARGUMENT, "op", muster_variables_reduce_to, list, pair, 1, 0);
    const double weight = 1, negative = -1;
    REFUSE_LIST(muster_variables_all_reduce_weighted, variables, count, &weight, 1);
    REFUSE(INVALID_ARGUMENT, "weights", muster_variables_all_reduce_weighted, list, 1, NULL, 1);
    REFUSE(INVALID_ARGUMENT, "weights", muster_variables_all_reduce_weighted, list, 1, &negative, 1);
    REFUSE(INVALID_ARGUMENT, "weight_count", muster_variables_all_reduce_weighted, list, 1, &weight, 2);
    REFUSE_LIST(muster_variables_reduce_weighted_at, variables, count, &weight, 1, 0);
    REFUSE(INVALID_ARGUMENT, "weights", muster_variables_reduce_weighted_at, list, 1, NULL, 1, 0);
    REFUSE(OUT_OF_RANGE, "rank", muster_variables_reduce_weighted_at, list, 1, &weight, 1, 1);
    REFUSE_LIST(muster_variables_reduce_weighted_to, variables, pair, count, &weight, 1);
    REFUSE(INVALID_ARGUMENT, "results", muster_variables_reduce_weighted_to, list, NULL, 1, &weight, 1);
    REFUSE(INVALID_ARGUMENT, "weights", muster_variables_reduce_weighted_to, list, pair, 1, NULL, 1);
    REFUSE_LIST(muster_variables_stack, variables, &three, count);
    REFUSE(INVALID_ARGUMENT, "results", muster_variables_stack, list, NULL, 1);
    REFUSE(SHAPE_MISMATCH, "results", muster_variables_stack, list, pair, 1);
    REFUSE_LIST(muster_variables_concatenate, variables, pair, count);
    REFUSE(INVALID_ARGUMENT, "results", muster_variables_concatenate, list, NULL, 1);
    REFUSE(DTYPE_MISMATCH, "results", muster_variables_concatenate, list, &ints, 1);
}

void messages_variables(void) {
    static float values[2][2];
    muster_runtime *runtime = messages_of.runtime;
    muster_variable *variable = messages_of.variable, *unused;
    const muster_tensor value = muster_f32(values, 2, 2), vector = muster_f32(&values[0][0], 2);
    muster_tensor elsewhere = value;
    int64_t shape[2];
    const int64_t negative = -1;
    const muster_selection beyond = {.kind = MUSTER_SELECT_COUNT, .stop = 3}, unknown = {.kind = 9};
    elsewhere.device = 3;
    REFUSE(INVALID_ARGUMENT, "runtime", muster_variable_create, NULL, "n", value, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_variable_create, runtime, NULL, value, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_variable_create, runtime, "", value, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_variable_create, runtime, "variable", value, &unused);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_create, runtime, "n", muster_tensor_none(), &unused);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_create, runtime, "n", elsewhere, &unused);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_create, runtime, "n", value, NULL);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_variable_create_empty, NULL, "n", MUSTER_F32, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_variable_create_empty, runtime, NULL, MUSTER_F32, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_variable_create_empty, runtime, "n", 99, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "dtype", muster_variable_create_empty, runtime, "n", MUSTER_DTYPE_NONE, 1, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_variable_create_empty, runtime, "n", MUSTER_F32, 0, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_variable_create_empty, runtime, "n", MUSTER_F32, 9, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "row_shape", muster_variable_create_empty, runtime, "n", MUSTER_F32, 2, &negative, &unused);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_create_empty, runtime, "n", MUSTER_F32, 1, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_set_selected, NULL, 0, value, NULL);
    REFUSE(OUT_OF_RANGE, "rank", muster_variable_set_selected, variable, 1, value, NULL);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_set_selected, variable, 0, elsewhere, NULL);
    REFUSE(INVALID_ARGUMENT, "selection", muster_variable_set_selected, variable, 0, value, &unknown);
    REFUSE(OUT_OF_RANGE, "selection", muster_variable_set_selected, variable, 0, value, &beyond);
    GIVES(muster_variable_destroy, muster_variable_destroy(NULL) == MUSTER_OK);
    REFUSE(INVALID_ARGUMENT, "runtime", muster_variable_find, NULL, "variable", &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_variable_find, runtime, NULL, &unused);
    REFUSE(INVALID_ARGUMENT, "name", muster_variable_find, runtime, "nothing", &unused);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_find, runtime, "variable", NULL);
    GIVES(muster_variable_name, muster_variable_name(NULL) == NULL);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_set, NULL, 0, value);
    REFUSE(OUT_OF_RANGE, "rank", muster_variable_set, variable, -1, value);
    REFUSE(OUT_OF_RANGE, "rank", muster_variable_set, variable, 1, value);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_set, variable, 0, muster_tensor_none());
    REFUSE(SHAPE_MISMATCH, "value", muster_variable_set, variable, 0, vector);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_set, variable, 0, elsewhere);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_get, NULL, 0, value);
    REFUSE(OUT_OF_RANGE, "rank", muster_variable_get, variable, -1, value);
    REFUSE(OUT_OF_RANGE, "rank", muster_variable_get, variable, 1, value);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_get, variable, 0, muster_tensor_none());
    REFUSE(SHAPE_MISMATCH, "value", muster_variable_get, variable, 0, vector);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_get, variable, 0, elsewhere);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_shape, NULL, 0, 2, shape);
    REFUSE(OUT_OF_RANGE, "rank", muster_variable_shape, variable, 1, 2, shape);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_variable_shape, variable, 0, 1, shape);
    REFUSE(INVALID_ARGUMENT, "shape", muster_variable_shape, variable, 0, 2, NULL);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_lengths, NULL, 1, shape);
    REFUSE(INVALID_ARGUMENT, "count", muster_variable_lengths, variable, 2, shape);
    REFUSE(INVALID_ARGUMENT, "lengths", muster_variable_lengths, variable, 1, NULL);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_split, NULL, 0);
    REFUSE(OUT_OF_RANGE, "axis", muster_variable_split, variable, -1);
    REFUSE(OUT_OF_RANGE, "axis", muster_variable_split, variable, 2);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_join, NULL);
    GIVES(muster_variable_split_axis, muster_variable_split_axis(NULL) == -1);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_whole_shape, NULL, 2, shape);
    REFUSE(INVALID_ARGUMENT, "ndim", muster_variable_whole_shape, variable, 1, shape);
    REFUSE(INVALID_ARGUMENT, "shape", muster_variable_whole_shape, variable, 2, NULL);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_get_whole, NULL, value);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_get_whole, variable, muster_tensor_none());
    REFUSE(SHAPE_MISMATCH, "value", muster_variable_get_whole, variable, vector);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_get_whole, variable, elsewhere);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_set_whole, NULL, value);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_set_whole, variable, muster_tensor_none());
    REFUSE(SHAPE_MISMATCH, "value", muster_variable_set_whole, variable, vector);
    REFUSE(INVALID_ARGUMENT, "value", muster_variable_set_whole, variable, elsewhere);
    muster_initialiser_options drawn = {.struct_size = sizeof drawn, .kind = 9};
    muster_initialiser_options_init_sized(NULL, 8);
    GIVES(muster_initialiser_options_init_sized, true);
    REFUSE(INVALID_ARGUMENT, "variable", muster_variable_initialise, NULL, NULL);
    REFUSE(INVALID_ARGUMENT, "kind", muster_variable_initialise, variable, &drawn);
    drawn = (muster_initialiser_options){.struct_size = 4};
    REFUSE(INVALID_ARGUMENT, "options", muster_variable_initialise, variable, &drawn);
    GIVES(muster_variable_ndim, muster_variable_ndim(NULL) == -1);
    GIVES(muster_variable_dtype, muster_variable_dtype(NULL) == MUSTER_DTYPE_NONE);
    lists();
}

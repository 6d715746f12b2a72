/* Launching: inside a body on its worker's device, outside on the device of the tensors. */
#include "kernel_private.h"
#include "options_impl.h"
#include "tensors_impl.h"

#include <stdio.h>
#include <string.h>

/* Groups for each processor of a GPU: enough to hide the waits for memory; each thread then takes
 * several elements. */
enum {
    GROUPS_PER_PROCESSOR = 32,
    LOOPS_PER_PROCESSOR = 2,
    ELEMENTS_PER_THREAD = 1024 /* elements for which it pays to start a thread of a CPU */
};

static muster_status check_kernel(const muster_worker *worker, const muster_kernel *kernel, const char *where) {
    MUSTER_TRY(mst_worker_check(worker, where));
    if (!kernel) return mst_error_null(where, "kernel", "a kernel");
    if (worker->pool == kernel->object.runtime->pool) return MUSTER_OK;
    if (!kernel->object.runtime->pool) return mst_pool_ready(NULL, where);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: kernel: expected one of the worker's runtime, received '%.100s' of another", where,
                     kernel->name);
}

/* ---- the grid ---- */

static muster_status launch_refuse_grid(const mst_kernel_launch *launch, const char *what, int64_t limit, int64_t received) {
    const muster_status code = received < 0 ? MUSTER_INVALID_ARGUMENT : MUSTER_OUT_OF_RANGE;
    return mst_error(code, "%s: grid of kernel '%.100s': expected %s, from 0 to %lld on this device, received %lld", launch->where,
                     launch->kernel->name, what, (long long)limit, (long long)received);
}

/* *empty: there are no elements. */
static muster_status read_grid(const mst_kernel_launch *launch, const muster_grid *given, const mst_program_limits *limits,
                               mst_program_grid *grid, bool *empty) {
    static const char *const groups[] = {"groups[0]", "groups[1]", "groups[2]"}, *const threads[] = {"threads[0]", "threads[1]",
                                                                                                     "threads[2]"};
    int64_t all = 1;
    if (given->reserved != 0)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: grid of kernel '%.100s': reserved: expected 0, received %d", launch->where,
                         launch->kernel->name, (int)given->reserved);
    if (given->dims < 1 || given->dims > MST_PROGRAM_DIMS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: grid of kernel '%.100s': expected 1 to %d dims, received %d", launch->where,
                         launch->kernel->name, MST_PROGRAM_DIMS, (int)given->dims);
    *grid = (mst_program_grid){.dims = given->dims, .groups = {1, 1, 1}, .threads = {1, 1, 1}, .local_bytes = given->local_bytes};
    *empty = false;
    for (int32_t d = 0; d < given->dims; d++) {
        if (given->groups[d] < 0 || given->groups[d] > limits->groups_in[d])
            return launch_refuse_grid(launch, groups[d], limits->groups_in[d], given->groups[d]);
        if (given->threads[d] < 0 || given->threads[d] > limits->threads_in[d])
            return launch_refuse_grid(launch, threads[d], limits->threads_in[d], given->threads[d]);
        grid->groups[d] = given->groups[d];
        grid->threads[d] = given->threads[d];
        *empty |= given->groups[d] == 0 || given->threads[d] == 0;
        if (given->threads[d] > 0 && __builtin_mul_overflow(all, given->threads[d], &all)) all = INT64_MAX;
    }
    if (all > limits->threads) return launch_refuse_grid(launch, "threads of a group in all", limits->threads, all);
    if (given->local_bytes < 0 || given->local_bytes > limits->local_bytes)
        return launch_refuse_grid(launch, "local_bytes", limits->local_bytes, given->local_bytes);
    return MUSTER_OK;
}

static int64_t quotient_up(int64_t a, int64_t b) { return a / b + (a % b > 0); }

/* On a CPU a group is a loop. Threads that divide the elements among themselves are few. Otherwise
 * every thread takes one element: threads that step over all of memory would read it in the worst
 * order. */
static void schedule(const mst_kernel_device *device, int64_t elements, muster_grid *grid) {
    const mst_program_limits *limits = &device->limits;
    int64_t threads = limits->threads_in[0] < limits->threads ? limits->threads_in[0] : limits->threads, most = limits->groups_in[0];
    if (threads > MST_KERNEL_THREADS)
        threads = MST_KERNEL_THREADS;
    else if (limits->preferred > 0 && threads > limits->preferred)
        threads -= threads % limits->preferred;
    const int64_t enough = limits->processors > 0 ? limits->processors * (device->loops ? LOOPS_PER_PROCESSOR : GROUPS_PER_PROCESSOR) : 1;
    if ((device->language == MST_LANGUAGE_CUDA || device->loops) && most > enough) most = enough;
    const int64_t threads_wanted = device->loops ? quotient_up(elements, ELEMENTS_PER_THREAD) : elements;
    if (device->loops && threads > threads_wanted) threads = threads_wanted > 0 ? threads_wanted : 1;
    const int64_t wanted = quotient_up(threads_wanted, threads);
    *grid = (muster_grid){.dims = 1, .groups = {wanted < most ? wanted : most}, .threads = {threads}};
}

static muster_status check_elements(const char *where, const muster_kernel *kernel, int64_t elements) {
    if (elements >= 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: elements of kernel '%.100s': expected 0 or more, received %lld", where, kernel->name,
                     (long long)elements);
}

/* ---- on a worker ---- */

muster_status mst_kernel_launch_on(muster_worker *worker, const mst_kernel_launch *launch) {
    mst_program_value values[MUSTER_KERNEL_PARAMETERS_MAX];
    mst_program_grid grid;
    muster_grid chosen;
    bool empty;
    const muster_kernel *kernel = launch->kernel;
    MUSTER_TRY(check_kernel(worker, kernel, launch->where));
    const mst_kernel_device *device = &kernel->devices[worker->rank];
    if (launch->grid)
        chosen = *launch->grid;
    else {
        MUSTER_TRY(check_elements(launch->where, kernel, launch->elements));
        schedule(device, launch->elements, &chosen);
        chosen.local_bytes = launch->local_bytes;
    }
    MUSTER_TRY(read_grid(launch, &chosen, &device->limits, &grid, &empty));
    MUSTER_TRY(mst_arguments_read(worker, kernel, launch->where, launch->arguments, launch->count, values));
    if (empty) return MUSTER_OK;
    return worker->device->program->launch(worker->device, device->program, 0, &grid, values);
}

static muster_status no_grid(const char *where) { return mst_error_null(where, "grid", "a grid"); }

muster_status muster_kernel_launch(muster_worker *worker, muster_kernel *kernel, const muster_grid *grid, const muster_argument *arguments,
                                   int32_t argument_count) {
    const mst_kernel_launch launch = {
        .where = "muster_kernel_launch", .kernel = kernel, .grid = grid, .arguments = arguments, .count = argument_count};
    return grid ? mst_kernel_launch_on(worker, &launch) : no_grid(launch.where);
}

muster_status muster_kernel_launch_elements(muster_worker *worker, muster_kernel *kernel, int64_t elements, int64_t local_bytes,
                                            const muster_argument *arguments, int32_t argument_count) {
    const mst_kernel_launch launch = {.where = "muster_kernel_launch_elements",
                                      .kernel = kernel,
                                      .elements = elements,
                                      .local_bytes = local_bytes,
                                      .arguments = arguments,
                                      .count = argument_count};
    return mst_kernel_launch_on(worker, &launch);
}

muster_status muster_kernel_suggest_grid(muster_worker *worker, const muster_kernel *kernel, int64_t elements, muster_grid *grid) {
    static const char where[] = "muster_kernel_suggest_grid";
    MUSTER_TRY(check_kernel(worker, kernel, where));
    if (!grid) return no_grid(where);
    MUSTER_TRY(check_elements(where, kernel, elements));
    schedule(&kernel->devices[worker->rank], elements, grid);
    return MUSTER_OK;
}

muster_status muster_worker_sync(muster_worker *worker) {
    MUSTER_TRY(mst_worker_check(worker, "muster_worker_sync"));
    return mst_worker_sync(worker);
}

/* ---- from outside ---- */

static muster_status launch_infer(const mst_kernel_launch *launch, int32_t *rank) {
    const muster_argument *arguments = launch->arguments;
    const int32_t count = arguments && launch->count > 0 && launch->count == launch->kernel->parameter_count
                              ? launch->count
                              : 0; /* the launch refuses other counts */
    /* Scalars hold "no tensor". */
    const mst_tensor_list tensors = {count > 0 ? &arguments[0].tensor : NULL, sizeof *arguments};
    char where[256];
    snprintf(where, sizeof where, "%s: kernel '%.100s'", launch->where, launch->kernel->name);
    MUSTER_TRY(mst_runtime_infer_device(launch->kernel->object.runtime, tensors, count, where, "arguments", rank));
    for (int32_t i = 0; i < count; i++) {
        char what[160];
        snprintf(what, sizeof what, "arguments[%d] of kernel '%.100s'", (int)i, launch->kernel->name);
        if (arguments[i].tensor.dtype != MUSTER_DTYPE_NONE && arguments[i].tensor.device >= 0)
            MUSTER_TRY(mst_runtime_check_placed(launch->kernel->object.runtime, arguments[i].tensor, launch->where, what));
    }
    return MUSTER_OK;
}

static muster_status launch_and_wait(muster_worker *worker, void *argument) {
    MUSTER_TRY(mst_kernel_launch_on(worker, argument));
    return mst_worker_sync(worker);
}

static muster_status call(mst_kernel_launch *launch) {
    int32_t rank;
    if (!launch->kernel) return mst_error_null(launch->where, "kernel", "a kernel");
    muster_runtime *runtime = launch->kernel->object.runtime;
    MUSTER_TRY(mst_pool_enter(runtime->pool, launch->where, 0));
    muster_status status = launch_infer(launch, &rank);
    if (status == MUSTER_OK)
        status = mst_runtime_run_on(runtime, (mst_on_device){.rank = rank, .task = launch_and_wait, .argument = launch});
    mst_pool_leave(runtime->pool);
    return status;
}

muster_status muster_kernel_call(muster_kernel *kernel, const muster_grid *grid, const muster_argument *arguments, int32_t argument_count) {
    mst_kernel_launch launch = {
        .where = "muster_kernel_call", .kernel = kernel, .grid = grid, .arguments = arguments, .count = argument_count};
    return grid ? call(&launch) : no_grid(launch.where);
}

muster_status muster_kernel_call_elements(muster_kernel *kernel, int64_t elements, int64_t local_bytes, const muster_argument *arguments,
                                          int32_t argument_count) {
    mst_kernel_launch launch = {.where = "muster_kernel_call_elements",
                                .kernel = kernel,
                                .elements = elements,
                                .local_bytes = local_bytes,
                                .arguments = arguments,
                                .count = argument_count};
    return call(&launch);
}

muster_status muster_kernel_get_limits(const muster_kernel *kernel, int32_t rank, muster_kernel_limits *limits) {
    static const char where[] = "muster_kernel_get_limits";
    if (!kernel) return mst_error_null(where, "kernel", "a kernel");
    if (!limits) return mst_error_null(where, "limits", "the address of the limits");
    MUSTER_TRY(mst_runtime_check_open(kernel->object.runtime, where));
    const int32_t size = kernel->object.runtime->size;
    if (rank < 0 || rank >= size)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: rank: expected 0 to %d, received %d", where, (int)size - 1, (int)rank);
    const mst_program_limits *known = &kernel->devices[rank].limits;
    muster_kernel_limits result = {
        .threads = known->threads, .preferred = known->preferred, .processors = known->processors, .local_bytes = known->local_bytes};
    for (int d = 0; d < MST_PROGRAM_DIMS; d++) {
        result.threads_in[d] = known->threads_in[d];
        result.groups_in[d] = known->groups_in[d];
    }
    return mst_result_write(where, "limits", "muster_kernel_limits", &result, sizeof result, limits);
}

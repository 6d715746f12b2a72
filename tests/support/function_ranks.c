#include "function_ranks.h"
#include "runtime_gpus.h"

#include <stdatomic.h>
#include <stdlib.h>

const ranks_layout ranks_layouts[RANKS_LAYOUTS] = {{1, 1, {1}},       {1, 2, {2}},          {1, 3, {3}},    {1, 4, {4}},   {2, 2, {1, 1}},
                                                   {3, 3, {1, 1, 1}}, {4, 4, {1, 1, 1, 1}}, {2, 4, {2, 2}}, {2, 4, {3, 1}}};

/* A body in one layout. */
typedef struct ranks_launch {
    const ranks_layout *layout;
    const char *name; /* of the communicator; NULL: the library's choice */
    ranks_body body;
    muster_status expected;
    const char *text; /* NULL: the body succeeds */
    _Atomic int32_t ran;
    _Atomic int32_t refused; /* processes */
} ranks_launch;

static muster_status ranks_main(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    ranks_launch *launch = user;
    (void)in, (void)out;
    const muster_status status = launch->body(worker, muster_worker_rank(worker), muster_worker_size(worker));
    if (status == MUSTER_OK) atomic_fetch_add(&launch->ran, 1);
    return status;
}

static void ranks_call(launch_process *p, ranks_launch *launch, muster_runtime *runtime) {
    muster_function *f;
    launch_check(p, muster_runtime_size(runtime) == launch->layout->ranks);
    launch_ok(p, muster_function_create(runtime, "case", ranks_main, launch, &f));
    if (launch->text) {
        launch_refused(p, muster_function_call(f, NULL, 0, NULL, 0, NULL), launch->expected, launch->text);
        atomic_fetch_add(&launch->refused, 1);
    } else {
        launch_ok(p, muster_function_call(f, NULL, 0, NULL, 0, NULL));
    }
}

static void ranks_process(launch_process *p) {
    ranks_launch *launch = p->context;
    char devices[16];
    snprintf(devices, sizeof devices, "host:%d", (int)launch->layout->each[p->process]);
    muster_runtime_options options = launch_options(devices);
    options.no_pinning = 1;
    options.collective_algorithm = launch->name;
    muster_runtime *runtime;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    ranks_call(p, launch, runtime);
    const muster_status closed = muster_runtime_close(runtime);
    if (!p->error[0]) launch_ok(p, closed);
}

/* The simulated machine of the GPUs belongs to one process. */
static int32_t ranks_layout_count(void) { return on_gpus() ? 4 : RANKS_LAYOUTS; }

static const char *const ranks_names[] = {NULL, "naive", "flat", "hierarchical", "two_dimensional", "single_node", "non_cuda_aware"};
enum { RANKS_NAMES = sizeof ranks_names / sizeof *ranks_names };
static int32_t ranks_name_count(void) { return on_gpus() ? 1 : RANKS_NAMES; } /* the others are about several processes */

int32_t ranks_in_all(void) { return ranks_name_count() * (on_gpus() ? 1 + 2 + 3 + 4 : 1 + 2 + 3 + 4 + 2 + 3 + 4 + 4 + 4); }

void ranks_run(ranks_body body) {
    int32_t ran = 0;
    for (int32_t n = 0; n < ranks_name_count(); n++)
        for (int32_t l = 0; l < ranks_layout_count(); l++) {
            ranks_launch launch = {.layout = &ranks_layouts[l], .name = ranks_names[n], .body = body};
            launch_run(&(wire_launch_options){.processes = launch.layout->processes}, ranks_process, &launch);
            ran += launch.ran;
        }
    assert_int_equal(ran, ranks_in_all());
}

void ranks_refused(ranks_body body, muster_status expected, const char *text) {
    int32_t processes = 0;
    for (int32_t l = 0; l < ranks_layout_count(); l++) {
        ranks_launch launch = {.layout = &ranks_layouts[l], .body = body, .expected = expected, .text = text};
        if (launch.layout->ranks == 1) continue;
        launch_run(&(wire_launch_options){.processes = launch.layout->processes}, ranks_process, &launch);
        processes += launch.refused;
    }
    assert_int_equal(processes, on_gpus() ? 3 : 3 + 2 + 3 + 4 + 2 + 2);
}

/* ---- in a body ---- */

muster_status ranks_filled(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, double value,
                           muster_tensor *tensor) {
    *tensor = muster_worker_scratch(worker, dtype, ndim, shape);
    return muster_fill(worker, value, *tensor);
}

muster_status ranks_given(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, const double *values,
                          muster_tensor *tensor) {
    *tensor = muster_worker_scratch(worker, dtype, ndim, shape);
    const muster_tensor wide = muster_worker_scratch(worker, MUSTER_F64, ndim, shape);
    const muster_status status = muster_worker_write(worker, muster_tensor_make(MUSTER_F64, (void *)(uintptr_t)values, ndim, shape), wide);
    return status ? status : muster_copy(worker, wide, *tensor);
}

muster_status ranks_counted(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, double first,
                            muster_tensor *tensor) {
    int64_t count = 1;
    for (int32_t i = 0; i < ndim; i++) count *= shape[i];
    double *values = malloc(((size_t)count + 1) * sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = first + (double)i;
    const muster_status status = ranks_given(worker, dtype, ndim, shape, values, tensor);
    free(values);
    return status;
}

/* The elements as f64, which the caller frees. */
static muster_status ranks_values(muster_worker *worker, muster_tensor tensor, double **values) {
    const int64_t count = muster_tensor_count(tensor);
    *values = malloc(((size_t)count + 1) * sizeof **values);
    const muster_tensor wide = muster_worker_scratch(worker, MUSTER_F64, tensor.ndim, tensor.shape);
    muster_status status = muster_copy(worker, tensor, wide);
    if (!status) status = muster_worker_read(worker, wide, muster_tensor_make(MUSTER_F64, *values, tensor.ndim, tensor.shape));
    return status;
}

/* step 1: values has one number per element; 0: one for all. */
static muster_status ranks_compare(muster_worker *worker, muster_tensor tensor, const double *expected, int64_t step, const char *what) {
    double *received;
    muster_status status = ranks_values(worker, tensor, &received);
    for (int64_t i = 0; status == MUSTER_OK && i < muster_tensor_count(tensor); i++) {
        if (received[i] == expected[i * step]) continue;
        char text[160];
        snprintf(text, sizeof text, "%s: element %lld of %s: expected %g, received %g", what, (long long)i, muster_dtype_name(tensor.dtype),
                 expected[i * step], received[i]);
        status = muster_fail(MUSTER_USER, text);
    }
    free(received);
    return status;
}

muster_status ranks_expect(muster_worker *worker, muster_tensor tensor, const double *values, const char *what) {
    return ranks_compare(worker, tensor, values, 1, what);
}

muster_status ranks_expect_all(muster_worker *worker, muster_tensor tensor, double value, const char *what) {
    return ranks_compare(worker, tensor, &value, 0, what);
}

#include "function_ranks.h"
#include "base_seed.h"
#include "collectives_processes.h"
#include "runtime_gpus.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_LAYOUTS = 11 };
static const ranks_layout ranks_layouts[RANKS_LAYOUTS] = {{1, 1, {1}},    {1, 2, {2}},       {1, 3, {3}},      {1, 4, {4}},
                                                          {2, 2, {1, 1}}, {3, 3, {1, 1, 1}}, {2, 3, {1, 2}},   {4, 4, {1, 1, 1, 1}},
                                                          {2, 4, {2, 2}}, {2, 4, {3, 1}},    {3, 4, {1, 2, 1}}};
/* How many ranks of these layouts a process runs, by the number of processes of a launch. */
static const int32_t ranks_own[LAUNCH_PROCESSES + 1][LAUNCH_PROCESSES] = {
    {0}, {1 + 2 + 3 + 4}, {1 + 1 + 2 + 3, 1 + 2 + 2 + 1}, {1 + 1, 1 + 2, 1 + 1}, {1, 1, 1, 1}};
/* How many of the layouts have several ranks. */
static const int32_t ranks_several[LAUNCH_PROCESSES + 1] = {0, 3, 4, 2, 1};

/* A body in one layout. */
typedef struct ranks_launch {
    const ranks_layout *layout;
    const char *name;  /* of the communicator; NULL: the library's choice */
    const char *hosts; /* the digit of each process's host; NULL: all are on one */
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
    if (processes_launched()) options.nodes = "mpi";
    muster_runtime *runtime;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    ranks_call(p, launch, runtime);
    const muster_status closed = muster_runtime_close(runtime);
    if (!p->error[0]) launch_ok(p, closed);
}

/* Where mpirun has started this program, it is one of the processes. */
static void ranks_launch_own(ranks_launch *launch) {
    launch_process own = {.process = processes_own(), .processes = processes_count(), .context = launch};
    if (launch->hosts) setenv("MUSTER_HOSTNAME", (char[]){'h', launch->hosts[own.process], 0}, 1);
    ranks_process(&own);
    unsetenv("MUSTER_HOSTNAME");
    if (own.error[0]) fail_msg("process %d: %s", (int)own.process, own.error);
}

static ranks_launch *ranks_now;
const ranks_layout *ranks_current_layout(void) { return ranks_now->layout; }
const char *ranks_current_name(void) { return ranks_now->name; }

static void ranks_launch_run(ranks_launch *launch) {
    ranks_now = launch;
    const wire_launch_options options = {.processes = launch->layout->processes, .hosts = launch->hosts};
    if (processes_launched())
        ranks_launch_own(launch);
    else
        (launch->text ? launch_run_failing : launch_run)(&options, ranks_process, launch);
}

/* ---- the layouts and names of this run ---- */

/* Has this run launches of so many processes? The simulated machine of the GPUs belongs to one
 * process. */
static bool ranks_has(int32_t processes) {
    if (processes_launched()) return processes == processes_count();
    return !on_gpus() || processes == 1;
}

static const char *const ranks_names[] = {NULL, "non_cuda_aware", "naive", "flat", "hierarchical", "two_dimensional", "single_node"};
enum { RANKS_NAMES = sizeof ranks_names / sizeof *ranks_names };
/* GPUs of one process know none of them, and those of several what is made for GPUs. */
static int32_t ranks_name_count(void) {
    if (!on_gpus()) return RANKS_NAMES;
    return processes_count() > 1 ? 2 : 1;
}

/* Sanitizers run a third or a seventh of the pairs of a name and a layout, another one for each
 * body; of GPUs, which have one name, a third. */
static int32_t ranks_of(void) { return (int32_t)(on_gpus() ? test_one_in(1, 3, 3) : test_one_in(1, 3, RANKS_NAMES)); }
static bool ranks_drawn(int32_t name, int32_t layout) {
    static int32_t bodies;
    if (name == 0 && layout == 0) bodies++;
    return test_keeps(name + layout + bodies, ranks_of());
}
static bool ranks_sampled(void) { return ranks_of() > 1; }
static int32_t ranks_last; /* ranks of the last sample */

int32_t ranks_in_all(void) {
    int32_t ranks = 0;
    if (ranks_sampled()) return ranks_last;
    for (int32_t n = 1; n <= LAUNCH_PROCESSES; n++)
        for (int32_t p = 0; p < LAUNCH_PROCESSES && ranks_has(n); p++)
            if (!processes_launched() || p == processes_own()) ranks += ranks_own[n][p];
    return ranks_name_count() * ranks;
}

void ranks_run(ranks_body body) {
    int32_t ran = 0;
    ranks_last = 0;
    for (int32_t n = 0; n < ranks_name_count(); n++)
        for (int32_t l = 0; l < RANKS_LAYOUTS; l++) {
            ranks_launch launch = {.layout = &ranks_layouts[l], .name = ranks_names[n], .body = body};
            if (!ranks_drawn(n, l) || !ranks_has(launch.layout->processes)) continue;
            ranks_launch_run(&launch);
            ran += launch.ran;
            ranks_last += launch.layout->ranks;
        }
    assert_int_equal(ran, ranks_in_all());
    assert_true(ran > 0);
}

void ranks_run_on(const char *hosts, ranks_body body) {
    const int32_t processes = (int32_t)strlen(hosts);
    if (!ranks_has(processes)) return;
    for (int32_t l = 0; l < RANKS_LAYOUTS; l++) {
        ranks_launch launch = {.layout = &ranks_layouts[l], .hosts = hosts, .body = body};
        if (launch.layout->processes != processes || launch.layout->ranks != processes) continue;
        ranks_launch_run(&launch);
        assert_int_equal(launch.ran, processes_launched() ? 1 : processes);
    }
}

void ranks_refused(ranks_body body, muster_status expected, const char *text) {
    int32_t refused = 0, all = 0, drawn = 0;
    for (int32_t n = 0; n < ranks_name_count(); n++)
        for (int32_t l = 0; l < RANKS_LAYOUTS; l++) {
            ranks_launch launch = {.layout = &ranks_layouts[l], .name = ranks_names[n], .body = body, .expected = expected, .text = text};
            if (!ranks_drawn(n, l) || launch.layout->ranks == 1 || !ranks_has(launch.layout->processes)) continue;
            ranks_launch_run(&launch);
            refused += launch.refused;
            drawn += launch.layout->processes;
        }
    for (int32_t n = 1; n <= LAUNCH_PROCESSES; n++)
        if (ranks_has(n)) all += ranks_several[n] * (processes_launched() ? 1 : n);
    assert_int_equal(refused, ranks_sampled() ? drawn : ranks_name_count() * all);
}

/* ---- in a body ---- */

muster_status ranks_filled(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, double value,
                           muster_tensor *tensor) {
    MUSTER_TRY(muster_worker_scratch(worker, dtype, ndim, shape, tensor));
    return muster_fill(worker, value, *tensor);
}

muster_status ranks_given(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, const double *values,
                          muster_tensor *tensor) {
    MUSTER_TRY(muster_worker_scratch(worker, dtype, ndim, shape, tensor));
    muster_tensor wide;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, ndim, shape, &wide));
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
    muster_tensor wide;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F64, tensor.ndim, tensor.shape, &wide));
    muster_status status = muster_copy(worker, tensor, wide);
    if (!status) status = muster_worker_read(worker, wide, muster_tensor_make(MUSTER_F64, *values, tensor.ndim, tensor.shape));
    return status;
}

/* What rounding may change of a mean, relatively: the weight 1/3 is no sum of powers of two. */
static double ranks_rounding(muster_dtype dtype, int32_t size) {
    if ((size & (size - 1)) == 0) return 0;
    return 2 * (dtype == MUSTER_F16 ? 0x1p-10 : dtype == MUSTER_F32 ? 0x1p-23 : 0x1p-52);
}

/* step 1: values has one number per element; 0: one for all. rounding: how far they may be,
 * relatively. */
static muster_status ranks_compare(muster_worker *worker, muster_tensor tensor, const double *expected, int64_t step, double rounding,
                                   const char *what) {
    double *received;
    muster_status status = ranks_values(worker, tensor, &received);
    for (int64_t i = 0; status == MUSTER_OK && i < muster_tensor_count(tensor); i++) {
        if (fabs(received[i] - expected[i * step]) <= rounding * fabs(expected[i * step])) continue;
        char text[160];
        snprintf(text, sizeof text, "%s: element %lld of %s: expected %.17g, received %.17g", what, (long long)i,
                 muster_dtype_name(tensor.dtype), expected[i * step], received[i]);
        status = muster_fail(MUSTER_USER, text);
    }
    free(received);
    return status;
}

muster_status ranks_expect(muster_worker *worker, muster_tensor tensor, const double *values, const char *what) {
    return ranks_compare(worker, tensor, values, 1, 0, what);
}

muster_status ranks_expect_all(muster_worker *worker, muster_tensor tensor, double value, const char *what) {
    return ranks_compare(worker, tensor, &value, 0, 0, what);
}

muster_status ranks_expect_means(muster_worker *worker, muster_tensor tensor, const double *values, const char *what) {
    return ranks_compare(worker, tensor, values, 1, ranks_rounding(tensor.dtype, muster_worker_size(worker)), what);
}

muster_status ranks_expect_mean(muster_worker *worker, muster_tensor tensor, double value, const char *what) {
    return ranks_compare(worker, tensor, &value, 0, ranks_rounding(tensor.dtype, muster_worker_size(worker)), what);
}

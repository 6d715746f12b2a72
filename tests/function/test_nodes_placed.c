/* An input that process 0 alone passes may lie in the memory of its device: the rows reach all
 * processes, and are read once. Outputs on devices take no more rounds than they need. The
 * processes are threads with runtimes of their own. */
#include "device_discrete.h"
#include "muster/function.h"
#include "muster/ops.h"
#include "runtime_impl.h"
#include "runtime_launch.h"

#include <stdatomic.h>
#include <string.h>

enum { PROCESSES = 2, ROWS = 6, COLUMNS = 1100 /* more than a round has room for */ };

typedef struct placed_case {
    const char *name;
    muster_input_mode mode;
    bool listed, strided;
} placed_case;

static const placed_case cases[] = {
    {"rows", .mode = MUSTER_SCATTER},
    {"listed rows", .mode = MUSTER_SCATTER, .listed = true},
    {"every second column", .mode = MUSTER_SCATTER, .strided = true},
    {"a whole tensor", .mode = MUSTER_BROADCAST},
};
enum { CASES = sizeof cases / sizeof *cases };

static _Atomic int checked;

static float value_at(int64_t row, int64_t column) { return (float)(row * 700 + column % 100); }

static muster_status give_back(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_copy(worker, in[0], out[0]);
}

/* Of a whole tensor, which each rank has, the sum; else the rows. */
static muster_status make(muster_runtime *runtime, const placed_case *c, muster_function **f) {
    MUSTER_TRY(muster_function_create(runtime, "give back", give_back, NULL, f));
    MUSTER_TRY(muster_function_input(*f, "x", MUSTER_F32, 2, c->mode));
    MUSTER_TRY(muster_function_set_source(*f, "x", MUSTER_SOURCE_MASTER));
    return muster_function_output(*f, "y", MUSTER_F32, 2, c->mode == MUSTER_BROADCAST ? MUSTER_SUM : MUSTER_GATHER);
}

static void run_case(launch_process *p, muster_runtime *runtime, const placed_case *c) {
    static const int64_t wide[] = {ROWS, 2 * COLUMNS}, list[] = {5, 1, 1, 4};
    static _Thread_local float x[ROWS * 2 * COLUMNS], y[ROWS * COLUMNS];
    const int64_t rows = c->listed ? 4 : ROWS, step = c->strided ? 2 : 1;
    const float times = c->mode == MUSTER_BROADCAST ? PROCESSES : 1;
    muster_tensor on_device = muster_tensor_none(), in = muster_tensor_none();
    muster_function *f;
    launch_ok(p, make(runtime, c, &f));
    for (int64_t i = 0; i < ROWS * 2 * COLUMNS; i++) x[i] = value_at(i / (2 * COLUMNS), i % (2 * COLUMNS));
    if (p->process == 0) {
        launch_ok(p, muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 2, wide, &on_device));
        launch_ok(p, muster_runtime_tensor_copy(runtime, muster_tensor_make(MUSTER_F32, x, 2, wide), on_device));
        in = on_device;
        in.shape[1] = COLUMNS;
        in.strides[1] = step;
    }
    muster_call_options options;
    muster_call_options_init(&options);
    if (c->listed) options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = list, .index_count = 4};
    for (int turn = 0; turn < 2; turn++) {
        muster_tensor out = muster_tensor_make(MUSTER_F32, y, 2, (int64_t[]){rows, COLUMNS});
        memset(y, 0, sizeof y);
        launch_ok(p, muster_function_call(f, &in, 1, &out, 1, &options));
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < COLUMNS; i++)
                if (y[r * COLUMNS + i] != times * value_at(c->listed ? list[r] : r, i * step)) launch_check(p, !"a wrong row");
    }
    launch_ok(p, muster_function_destroy(f));
    if (p->process == 0) muster_runtime_tensor_destroy(runtime, on_device);
    atomic_fetch_add(&checked, 1);
}

static void run_process(launch_process *p) {
    muster_runtime_options options = launch_options("discrete:1");
    muster_runtime *runtime;
    options.no_pinning = 1;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    for (int c = 0; c < CASES; c++) run_case(p, runtime, &cases[c]);
    const muster_status closed = muster_runtime_close(runtime);
    if (!p->error[0]) launch_ok(p, closed);
}

static void test_what_process_0_has_on_its_device_reaches_all(void **state) {
    (void)state;
    assert_int_equal(mst_discrete_register(), MUSTER_OK);
    launch_run(&(wire_launch_options){.processes = PROCESSES}, run_process, NULL);
    assert_int_equal(checked, PROCESSES * CASES);
    assert_int_equal(CASES, 4);
}

/* ---- how often the input is read ---- */

enum { ROW_BYTES = COLUMNS * (int)sizeof(float) };
static _Atomic int64_t bytes_out;
static mst_device_memory_table counting;
static muster_status (*copy_out)(mst_device *device, void *to_host, const void *from_device, int64_t bytes);

/* What is smaller than a row is no input. */
static muster_status count_out(mst_device *device, void *to_host, const void *from_device, int64_t bytes) {
    if (bytes >= ROW_BYTES) atomic_fetch_add(&bytes_out, bytes);
    return copy_out(device, to_host, from_device, bytes);
}

static muster_status sum_up(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_sum(worker, in[0], out[0]);
}

static void read_once(launch_process *p, muster_runtime *runtime, muster_input_mode mode) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    static _Thread_local float x[ROWS * COLUMNS];
    muster_tensor in = muster_tensor_none();
    muster_function *f;
    float y = 0;
    launch_ok(p, muster_function_create(runtime, "sum up", sum_up, NULL, &f));
    launch_ok(p, muster_function_input(f, "x", MUSTER_F32, 2, mode));
    launch_ok(p, muster_function_set_source(f, "x", MUSTER_SOURCE_MASTER));
    launch_ok(p, muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) x[i] = 1;
    if (p->process == 0) {
        launch_ok(p, muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 2, shape, &in));
        launch_ok(p, muster_runtime_tensor_copy(runtime, muster_tensor_make(MUSTER_F32, x, 2, shape), in));
        atomic_store(&bytes_out, 0);
    }
    launch_ok(p, muster_function_call(f, &in, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL));
    const float times = mode == MUSTER_BROADCAST ? (float)muster_runtime_size(runtime) : 1;
    launch_check(p, y == times * ROWS * COLUMNS);
    if (p->process == 0) launch_check(p, atomic_load(&bytes_out) == (int64_t)ROWS * ROW_BYTES);
    launch_ok(p, muster_function_destroy(f));
    if (p->process == 0) muster_runtime_tensor_destroy(runtime, in);
    atomic_fetch_add(&checked, 1);
}

/* Process 0 has a worker that reads the input by the host copy, from which the rows are sent. */
static void run_reader(launch_process *p) {
    muster_runtime_options options = launch_options(p->process == 0 ? "discrete:1,host:1" : "host:1");
    muster_runtime *runtime;
    options.no_pinning = 1;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    if (p->process == 0) {
        counting = *runtime->devices[0]->memory;
        copy_out = counting.copy_out;
        counting.copy_out = count_out;
        runtime->devices[0]->memory = &counting;
    }
    read_once(p, runtime, MUSTER_SCATTER);
    if (!p->error[0]) read_once(p, runtime, MUSTER_BROADCAST);
    const muster_status closed = muster_runtime_close(runtime);
    if (!p->error[0]) launch_ok(p, closed);
}

static void test_what_process_0_has_on_its_device_is_read_once(void **state) {
    (void)state;
    assert_int_equal(mst_discrete_register(), MUSTER_OK);
    checked = 0;
    launch_run(&(wire_launch_options){.processes = PROCESSES}, run_reader, NULL);
    assert_int_equal(checked, PROCESSES * 2);
}

/* ---- rounds ---- */

/* The messages of a call that gives each process rows of its own, when all have made it. */
static void count_messages(launch_process *p, muster_function *f, muster_tensor in, muster_tensor out, int64_t *messages) {
    launch_check(p, launch_meet(p));
    const int64_t before = wire_launch_count(p->wire).sent;
    launch_check(p, launch_meet(p));
    launch_ok(p, muster_function_call(f, &in, 1, &out, 1, NULL));
    launch_check(p, launch_meet(p));
    *messages = wire_launch_count(p->wire).sent - before;
    launch_check(p, launch_meet(p));
}

/* Nothing of rows that a body has written to their places on a device can fail when the processes
 * have agreed on the end of the call: that takes no other round than rows in host memory. */
static void run_own_rows(launch_process *p) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    static _Thread_local float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    const muster_tensor in = muster_tensor_make(MUSTER_F32, x, 2, shape), host = muster_tensor_make(MUSTER_F32, y, 2, shape);
    muster_runtime_options options = launch_options("discrete:1");
    muster_runtime *runtime;
    muster_tensor on_device;
    muster_function *f;
    int64_t messages[2] = {0};
    options.no_pinning = 1;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, muster_function_create(runtime, "own", give_back, NULL, &f));
    launch_ok(p, muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    launch_ok(p, muster_function_set_source(f, "x", MUSTER_SOURCE_OWN));
    launch_ok(p, muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
    launch_ok(p, muster_function_set_target(f, "y", MUSTER_TARGET_OWN));
    launch_ok(p, muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 2, shape, &on_device));
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) x[i] = value_at(i / COLUMNS + p->process, i % COLUMNS);
    for (int turn = 0; turn < 2 && !p->error[0]; turn++) { /* the first calls make what they need */
        count_messages(p, f, in, host, &messages[0]);
        if (!p->error[0]) count_messages(p, f, in, on_device, &messages[1]);
    }
    if (p->error[0]) return;
    launch_check(p, messages[0] > 0);
    launch_check(p, messages[1] == messages[0]);
    memset(y, 0, sizeof y);
    launch_ok(p, muster_runtime_tensor_copy(runtime, on_device, host));
    launch_check(p, memcmp(x, y, sizeof y) == 0);
    muster_runtime_tensor_destroy(runtime, on_device);
    launch_ok(p, muster_runtime_close(runtime));
    atomic_fetch_add(&checked, 1);
}

static void test_own_rows_in_their_places_on_a_device_take_no_other_round(void **state) {
    (void)state;
    assert_int_equal(mst_discrete_register(), MUSTER_OK);
    checked = 0;
    launch_run(&(wire_launch_options){.processes = PROCESSES}, run_own_rows, NULL);
    assert_int_equal(checked, PROCESSES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_process_0_has_on_its_device_reaches_all),
        cmocka_unit_test(test_what_process_0_has_on_its_device_is_read_once),
        cmocka_unit_test(test_own_rows_in_their_places_on_a_device_take_no_other_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* An input that process 0 alone passes may lie in the memory of its device: the rows reach all
 * processes. The processes are threads with runtimes of their own. */
#include "device_discrete.h"
#include "muster/function.h"
#include "muster/ops.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_process_0_has_on_its_device_reaches_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Calls on devices with memory and queues of their own ("discrete"): what overlaps, what is copied
 * where, and what happens when a device does not come back. */
#include "base_await.h"
#include "call_private.h"
#include "device_discrete.h"
#include "function_fixture.h"

#include "base_pace.h"
#include "muster/ops.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 48, SLICES = 6, COLUMNS = 5, MILLISECOND = 1000000 };

static void pass_time(void) { nanosleep(&(struct timespec){0, MILLISECOND}, NULL); }

static void fill(float *x, int count) {
    for (int i = 0; i < count; i++) x[i] = (float)(i % 97) - 40;
}

/* ---- slices ---- */

/* Work of the device that ends only once the rows of the next slice have come: if they waited for
 * it, it would give up and say so. */
static muster_status wait_for_copies(void *user) {
    const int64_t wanted = *(const int64_t *)user;
    for (int i = 0; i < 20000 && mst_discrete_async_copies() < wanted; i++) pass_time();
    return mst_discrete_async_copies() < wanted ? mst_error(MUSTER_INTERNAL, "the next slice waits for this one") : MUSTER_OK;
}

static muster_status overlapping(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    static int64_t wanted[SLICES];
    const int64_t *before = user;
    const int64_t slice = muster_worker_slice(w);
    wanted[slice] = *before + slice + (slice == SLICES - 1 ? 1 : 2);
    MUSTER_TRY(mst_discrete_call(w->device, wait_for_copies, &wanted[slice]));
    return muster_sum(w, in[0], out[0]);
}

static void rows_of_a_slice_travel_while_the_one_before_computes(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("discrete", 1);
    muster_function *f;
    float x[ROWS], y = 0, expected = 0;
    int64_t before = mst_discrete_async_copies();
    muster_call_options options;
    fill(x, ROWS);
    for (int i = 0; i < ROWS; i++) expected += x[i];
    assert_ok(muster_function_create(runtime, "f", overlapping, &before, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    muster_call_options_init(&options);
    options.slices = SLICES;
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, &options));
    assert_float_equal(y, expected, 0);
    assert_int_equal(mst_discrete_async_copies() - before, SLICES); /* each once */
    fixture_close(runtime);
}

static muster_status echo(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    MUSTER_TRY(muster_unary_op(w, MUSTER_ABS, in[0], out[0]));
    return muster_sum(w, in[0], out[1]);
}

/* Random delays of both queues, few and many slices, whole rows, strided rows and lists of them: a
 * buffer that is filled too early shows as a wrong row. */
static void staging_buffers_are_not_filled_before_they_are_free(void **state) {
    (void)state;
    uint64_t seed = fixture_seed();
    enum { WIDE = 2 * COLUMNS };
    float x[ROWS * WIDE], y[ROWS * COLUMNS], sum;
    int64_t rows[ROWS];
    fill(x, ROWS * WIDE);
    for (int round = 0; round < fixture_rounds(12, 100); round++) {
        mst_discrete_set_delays(300, seed + (uint64_t)round);
        muster_runtime *runtime = fixture_open_shards("discrete", 2, round % 3 == 2 ? 4 : 0);
        muster_function *f;
        muster_call_options options;
        const int kind = round % 4, stride = kind & 1 ? WIDE : COLUMNS;
        int64_t count = ROWS;
        assert_ok(muster_function_create(runtime, "f", echo, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
        assert_ok(muster_function_output(f, "s", MUSTER_F32, 0, MUSTER_SUM));
        muster_call_options_init(&options);
        options.slices = 1 + (int64_t)fixture_random(&seed, 9);
        if (kind & 2) {
            count = 1 + (int64_t)fixture_random(&seed, ROWS);
            options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = count};
        }
        muster_tensor in = muster_f32(x, ROWS, COLUMNS);
        in.strides[0] = stride;
        for (int call = 0; call < 3; call++) {
            float expected = 0;
            for (int64_t r = 0; r < count; r++) rows[r] = kind & 2 ? (int64_t)fixture_random(&seed, ROWS) : r;
            memset(y, 0, sizeof y);
            assert_ok(muster_function_call(f, &in, 1, (muster_tensor[]){muster_f32(y, count, COLUMNS), muster_f32(&sum)}, 2, &options));
            for (int64_t r = 0; r < count; r++)
                for (int c = 0; c < COLUMNS; c++) {
                    const float value = x[rows[r] * stride + c];
                    expected += value;
                    assert_float_equal(y[r * COLUMNS + c], value < 0 ? -value : value, 0);
                }
            assert_float_equal(sum, expected, 0); /* small whole numbers: exact in any order */
        }
        fixture_close(runtime);
    }
    mst_discrete_set_delays(0, 1);
}

/* ---- memory ---- */

static void a_repeated_call_finds_all_its_memory(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("discrete", 2);
    muster_function *f;
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS], sum;
    int64_t rows[ROWS], host = 0, device = 0;
    muster_call_options options;
    fill(x, ROWS * COLUMNS);
    for (int i = 0; i < ROWS; i++) rows[i] = ROWS - 1 - i;
    assert_ok(muster_function_create(runtime, "f", echo, NULL, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
    assert_ok(muster_function_output(f, "s", MUSTER_F32, 0, MUSTER_SUM));
    muster_call_options_init(&options);
    options.slices = 5;
    options.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = ROWS};
    for (int call = 0; call < 4; call++) {
        const int64_t allocations = mst_memory_count();
        assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS, COLUMNS)}, 1,
                                       (muster_tensor[]){muster_f32(y, ROWS, COLUMNS), muster_f32(&sum)}, 2, &options));
        if (call == 1) host = mst_discrete_live_host(), device = mst_discrete_live();
        if (call < 2) continue;
        assert_int_equal(mst_memory_count() - allocations, 0);
        assert_int_equal(mst_discrete_live_host(), host);
        assert_int_equal(mst_discrete_live(), device);
    }
    assert_true(host > 0);
    fixture_close(runtime);
    assert_int_equal(mst_discrete_live_host(), 0);
    assert_int_equal(mst_discrete_live(), 0);
    assert_true(mst_discrete_launches(NULL) > 0); /* of the kernel sources */
}

/* In flight a device has only what was reserved: the call that wanted more fails, the next finds
 * it. */
static muster_status late_scratch(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    w->device->in_flight = true;
    muster_tensor scratch;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, (int64_t[]){100000}, &scratch));
    MUSTER_TRY(muster_fill(w, 1, scratch));
    return muster_sum(w, muster_tensor_slice(scratch, 0, 1000), out[0]); /* of few elements: needs no scratch of its own */
}

static void what_was_refused_in_flight_is_there_for_the_next_call(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("discrete", 2);
    muster_function *f;
    float y = 0;
    mst_discrete_refuse_in_flight(true);
    assert_ok(muster_function_create(runtime, "f", late_scratch, NULL, &f));
    assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    assert_refused(muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(&y)}, 1, NULL), MUSTER_OUT_OF_MEMORY, "400000");
    assert_ok(muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(&y)}, 1, NULL));
    assert_float_equal(y, 2000, 0);
    mst_discrete_refuse_in_flight(false);
    fixture_close(runtime);
}

/* ---- contexts ---- */

static muster_status context_is_the_devices(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    return mst_discrete_context() == w->device ? MUSTER_OK : muster_fail(MUSTER_USER, "another context");
}

static void the_callers_context_is_put_back(void **state) {
    (void)state;
    static mst_device other;
    for (int count = 1; count <= 2; count++) {
        muster_runtime *runtime = fixture_open("discrete", count);
        muster_function *f;
        assert_ok(muster_function_create(runtime, "f", context_is_the_devices, NULL, &f));
        mst_discrete_set_context(&other);
        assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
        assert_ptr_equal(mst_discrete_context(), &other);
        assert_ok(muster_function_call_single(f, NULL, 0, NULL, 0, NULL));
        assert_ptr_equal(mst_discrete_context(), &other);
        mst_discrete_set_context(NULL);
        fixture_close(runtime);
    }
}

/* ---- devices that do not come back ---- */

static muster_runtime *open_impatient(const char *devices, int64_t fail_after_ns) {
    muster_runtime_options options;
    muster_runtime *runtime;
    assert_ok(mst_discrete_register());
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.fail_after_ns = fail_after_ns;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_status add_up(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    return muster_sum(w, in[0], out[0]);
}

static void describe_sum(muster_runtime *runtime, muster_function **f) {
    assert_ok(muster_function_create(runtime, "f", add_up, NULL, f));
    assert_ok(muster_function_input(*f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(*f, "y", MUSTER_F32, 0, MUSTER_SUM));
}

static void a_device_that_does_not_come_back_is_named_and_not_used_again(void **state) {
    (void)state;
    muster_runtime *runtime = open_impatient("discrete:3", test_patience(100 * MILLISECOND));
    muster_function *f;
    float x[ROWS], y = 0;
    fill(x, ROWS);
    describe_sum(runtime, &f);
    mst_discrete_stall(1);
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL),
                   MUSTER_TIMEOUT, "s for its device discrete 1; it issued last: call f #");
    assert_refused(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL),
                   MUSTER_DEVICE_LOST, "device discrete 1 of rank 1 has not come back from an earlier call");
    /* rank 0 has its device */
    assert_ok(muster_function_call_single(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL));
    fixture_close(runtime);
    mst_discrete_stall(-1);
}

/* Runs until rank 0 has failed, and while rank 1 notices that. */
static muster_status outlast_the_run(void *user) {
    const muster_worker *worker = user;
    TEST_AWAIT(muster_worker_cancelled(worker), 1000000);
    for (int i = 0; i < 50; i++) pass_time();
    return MUSTER_OK;
}

/* Rank 1's device is still busy when rank 0 fails: it is waited for, not given up. */
static muster_status fail_beside_a_slow_device(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    return muster_worker_rank(w) == 1 ? mst_discrete_call(w->device, outlast_the_run, w) : muster_fail(MUSTER_USER, "rank 0 fails");
}

static void a_failure_elsewhere_leaves_a_busy_device_usable(void **state) {
    (void)state;
    muster_runtime *runtime = open_impatient("discrete:2", -1);
    muster_function *failing, *f;
    float x[ROWS], y = 0, expected = 0;
    fill(x, ROWS);
    for (int i = 0; i < ROWS; i++) expected += x[i];
    assert_ok(muster_function_create(runtime, "failing", fail_beside_a_slow_device, NULL, &failing));
    describe_sum(runtime, &f);
    assert_refused(muster_function_call(failing, NULL, 0, NULL, 0, NULL), MUSTER_USER, "rank 0 fails (rank 0)");
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL));
    assert_float_equal(y, expected, 0);
    fixture_close(runtime);
}

static void an_asynchronous_call_on_a_stalled_device_ends_too(void **state) {
    (void)state;
    muster_runtime *runtime = open_impatient("discrete:1", test_patience(100 * MILLISECOND));
    muster_function *f;
    muster_pending *pending;
    float x[ROWS], y = 0;
    fill(x, ROWS);
    describe_sum(runtime, &f);
    mst_discrete_stall(0);
    assert_ok(
        muster_function_call_async(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, NULL, &pending));
    fixture_close(runtime);
    assert_refused(muster_pending_wait(&pending), MUSTER_TIMEOUT, "rank 0 waited");
    mst_discrete_stall(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_slice_travel_while_the_one_before_computes),
        cmocka_unit_test(staging_buffers_are_not_filled_before_they_are_free),
        cmocka_unit_test(a_repeated_call_finds_all_its_memory),
        cmocka_unit_test(what_was_refused_in_flight_is_there_for_the_next_call),
        cmocka_unit_test(the_callers_context_is_put_back),
        cmocka_unit_test(a_device_that_does_not_come_back_is_named_and_not_used_again),
        cmocka_unit_test(a_failure_elsewhere_leaves_a_busy_device_usable),
        cmocka_unit_test(an_asynchronous_call_on_a_stalled_device_ends_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

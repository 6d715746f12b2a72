/* Workers on host devices and the programs that they launch: who waits for them, and how long. */
#include "../device/program_support.h"
#include "base_await.h"
#include "clock_impl.h"
#include "muster/worker.h"
#include "pool_impl.h"
#include "tensor_impl.h"

enum { WORKERS = 2 };

static char logged[4096];
static void keep(void *user, muster_log_level level, const char *line) {
    (void)user, (void)level;
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", line);
}

static mst_device *devices[WORKERS];
static mst_program *programs[WORKERS];
static mst_pool *pool;

/* Each element goes up by one, once the first of `go` is not 0. */
static const source gated = {
    .name = "gated",
    .text = "__kernel void gated(volatile __global int *go, __global int *a) { while (go[0] == 0) ; a[get_global_id(0)] += 1; }\n",
    .parameters = {{BUFFER}, {BUFFER}},
    .count = 2};

static int begin_with(int64_t warn_ns, int64_t fail_ns) {
    const mst_pool_options options = {.warn_after_ns = warn_ns, .fail_after_ns = fail_ns, .log = keep};
    logged[0] = 0;
    for (int r = 0; r < WORKERS; r++) {
        assert_ok(mst_host_device_table.open(&mst_host_device_table, r == 0 ? "0" : "1", &devices[r]));
        programs[r] = opened_program(devices[r], &gated);
    }
    assert_ok(mst_pool_create(&options, devices, WORKERS, &pool));
    return 0;
}

static int begin_test(void **state) {
    (void)state;
    return begin_with(-1, -1);
}

static int begin_with_a_deadline(void **state) {
    (void)state;
    return begin_with(10 * 1000 * 1000, test_patience(50 * 1000 * 1000));
}

static int end_test(void **state) {
    (void)state;
    mst_pool_destroy(pool);
    for (int r = 0; r < WORKERS; r++) {
        closed_program(devices[r], programs[r]);
        devices[r]->table->close(devices[r]);
    }
    return 0;
}

typedef struct work {
    int32_t *go;
    int32_t a[WORKERS][64], copy[WORKERS][64];
    int32_t fails;      /* this rank's task does, after the launch */
    muster_status seen; /* by the rank that waits */
} work;

static muster_status launch_gated(muster_worker *worker, work *w) {
    const mst_program_grid grid = grid_of(1, 64, 0);
    return worker->device->program->launch(worker->device, programs[worker->rank], 0, &grid,
                                           (mst_program_value[]){buffer_of(w->go, 4), buffer_of(w->a[worker->rank], sizeof w->a[0])});
}

static void check_all(int32_t a[WORKERS][64], int32_t expected) {
    for (int r = 0; r < WORKERS; r++)
        for (int i = 0; i < 64; i++) assert_int_equal(a[r][i], expected);
}

static muster_status launch_and_leave(muster_worker *worker, void *argument) { return launch_gated(worker, argument); }

static void the_end_of_a_run_waits_for_programs(void **state) {
    (void)state;
    int32_t go = 1;
    work w = {.go = &go, .fails = -1};
    for (int round = 1; round <= 20; round++) {
        assert_ok(mst_pool_run(pool, launch_and_leave, &w));
        assert_false(devices[0]->queued || devices[1]->queued);
        check_all(w.a, round);
    }
}

static muster_status launch_and_read(muster_worker *worker, void *argument) {
    work *w = argument;
    const int64_t shape[] = {64};
    muster_tensor a = muster_tensor_make(MUSTER_I32, w->a[worker->rank], 1, shape),
                  copy = muster_tensor_make(MUSTER_I32, w->copy[worker->rank], 1, shape);
    MUSTER_TRY(launch_gated(worker, w));
    MUSTER_TRY(muster_worker_read(worker, a, copy));
    if (worker->device->queued) return mst_error(MUSTER_INTERNAL, "still queued");
    MUSTER_TRY(launch_gated(worker, w));
    for (int i = 0; i < 64; i++) w->copy[worker->rank][i] += 10;
    return muster_worker_write(worker, copy, a); /* behind the second launch */
}

static void reads_and_writes_come_after_programs(void **state) {
    (void)state;
    int32_t go = 1;
    work w = {.go = &go, .fails = -1};
    assert_ok(mst_pool_run(pool, launch_and_read, &w));
    check_all(w.copy, 11);
    check_all(w.a, 11);
}

/* Everything has ended when the caller gets the failure, whose memory it is. */
static muster_status launch_and_fail(muster_worker *worker, void *argument) {
    work *w = argument;
    MUSTER_TRY(launch_gated(worker, w));
    if (worker->rank != w->fails) return MUSTER_OK;
    return muster_fail(MUSTER_USER, "on purpose");
}

static void a_failed_run_waits_for_programs_too(void **state) {
    (void)state;
    int32_t go = 1;
    for (int fails = 0; fails < WORKERS; fails++) {
        work w = {.go = &go, .fails = fails};
        assert_refused(mst_pool_run(pool, launch_and_fail, &w), MUSTER_USER, "on purpose");
        assert_false(devices[0]->queued || devices[1]->queued);
        check_all(w.a, 1);
    }
}

static void *open_the_gate(void *argument) {
    __atomic_store_n((int32_t *)argument, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Rank 1 gives up in time, and the run ends when the kernel has. The other opens the gate only when
 * the run is aborted. */
static muster_status wait_too_long(muster_worker *worker, void *argument) {
    work *w = argument;
    if (worker->rank == 1) {
        MUSTER_TRY(launch_gated(worker, w));
        return mst_worker_sync(worker);
    }
    TEST_AWAIT(mst_pool_aborted(worker), 0);
    open_the_gate(w->go);
    return MUSTER_OK;
}

static void a_program_that_takes_too_long_fails_the_run(void **state) {
    (void)state;
    int32_t go = 0;
    work w = {.go = &go, .fails = -1};
    assert_refused(mst_pool_run(pool, wait_too_long, &w), MUSTER_TIMEOUT, "for its device host cpu 1");
    assert_non_null(strstr(logged, "has waited"));
    assert_false(devices[1]->queued || devices[1]->lost);
    assert_int_equal(w.a[1][63], 1);
    go = 1;
    assert_ok(mst_pool_run(pool, launch_and_leave, &w)); /* the next run is as any */
    assert_int_equal(w.a[1][63], 2);
}

/* A rank that waits learns that another has failed, unless its kernel ends before it looks. */
static muster_status wait_while_another_fails(muster_worker *worker, void *argument) {
    work *w = argument;
    if (worker->rank == 1) {
        MUSTER_TRY(launch_gated(worker, w));
        return w->seen = mst_worker_sync(worker);
    }
    mst_error(MUSTER_USER, "the reason");
    mst_pool_abort(worker, MUSTER_USER);
    await_pause(1000000);
    open_the_gate(w->go);
    return MUSTER_USER;
}

static void the_loss_of_a_run_ends_waits_for_programs(void **state) {
    enum { WANTED = 5, ROUNDS = 200 };
    int32_t learned = 0;
    (void)state;
    for (int round = 0; round < ROUNDS && learned < WANTED; round++) {
        int32_t go = 0;
        work w = {.go = &go, .fails = -1};
        assert_int_equal(mst_pool_run(pool, wait_while_another_fails, &w), MUSTER_USER);
        assert_true(w.seen == MUSTER_ABORTED || w.seen == MUSTER_OK);
        learned += w.seen == MUSTER_ABORTED;
        assert_false(devices[1]->queued);
        assert_int_equal(w.a[1][0], 1);
    }
    assert_int_equal(learned, WANTED);
}

/* A kernel that does not end: the device is lost, every later run is refused with its name, and its
 * memory is the kernel's. */
static muster_status never_ends(muster_worker *worker, void *argument) {
    return worker->rank == 1 ? launch_gated(worker, argument) : MUSTER_OK;
}

static void a_program_that_never_ends_costs_the_device(void **state) {
    (void)state;
    int32_t go = 0;
    work w = {.go = &go, .fails = -1};
    assert_refused(mst_pool_run(pool, never_ends, &w), MUSTER_TIMEOUT, "for its device host cpu 1");
    assert_true(devices[1]->lost);
    assert_refused(mst_pool_run(pool, launch_and_leave, &w), MUSTER_DEVICE_LOST, "host cpu 1");
    open_the_gate(&go);
    /* this function's memory, which the kernel uses */
    TEST_AWAIT(__atomic_load_n(&w.a[1][63], __ATOMIC_SEQ_CST) != 0, 0);
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_end_of_a_run_waits_for_programs, begin_test, end_test),
        cmocka_unit_test_setup_teardown(reads_and_writes_come_after_programs, begin_test, end_test),
        cmocka_unit_test_setup_teardown(a_failed_run_waits_for_programs_too, begin_test, end_test),
        cmocka_unit_test_setup_teardown(a_program_that_takes_too_long_fails_the_run, begin_with_a_deadline, end_test),
        cmocka_unit_test_setup_teardown(the_loss_of_a_run_ends_waits_for_programs, begin_test, end_test),
        cmocka_unit_test_setup_teardown(a_program_that_never_ends_costs_the_device, begin_with_a_deadline, end_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

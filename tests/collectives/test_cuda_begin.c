/* Collectives that only begin, on simulated GPUs whose streams stand still: what waits for what,
 * and what does not. */
#include "collectives_values.h"
#include "cuda/cuda_impl.h"
#include "muster/ops.h"
#include "scheduler_scratch.h"
#include "sim.h"

#include <stdlib.h>
#include <time.h>

/* elements of i64: SMALL goes between peers, LARGE by NCCL where each rank has a GPU of its own */
enum { RANKS = 3, SMALL = 1000, LARGE = 100000, WAYS = 3 };
static const struct {
    const char *devices;
    int64_t count;
} ways[WAYS] = {{"cuda", SMALL}, {"cuda", LARGE}, {"cuda-virtual", LARGE}};

static mst_device_event *event; /* of rank 0's device */

static void run_every_way(mst_task task) {
    for (int way = 0; way < WAYS; way++) {
        collectives_pool c;
        int64_t count = ways[way].count;
        muster_sim_reset(&(muster_sim_options){.devices = RANKS, .longest_delay = 20, .connections = 32}); /* no stream shares one */
        mst_cuda_forget_lost();
        setenv("MUSTER_TEST_DEVICES", ways[way].devices, 1);
        collectives_open(&c, 0, RANKS);
        assert_ok(mst_device_event_create(c.devices[0], &event));
        assert_ok(collectives_run(&c, task, &count));
        mst_device_event_destroy(event);
        assert_string_equal(muster_sim_hazards(), "");
        collectives_close(&c);
    }
}

/* ---- streams of rank 0 ---- */

/* From here on the queue does nothing: until muster_sim_release, or, in a test that fails, for so
 * many milliseconds. */
enum { HELD = 10000 };
static void hold(muster_worker *w, mst_queue queue) {
    mst_device *device = w->device;
    device->work_queue = queue;
    muster_sim_stall_stream(mst_cuda_work_stream(device), HELD);
    device->work_queue = MST_QUEUE_COMPUTE;
}

/* Is what the queue has now done within so many milliseconds? */
static muster_status is_done(mst_queue queue, int milliseconds, bool *done) {
    MUSTER_TRY(mst_device_event_record(event, queue));
    *done = false;
    for (int i = 0; i < milliseconds && !*done; i++) {
        MUSTER_TRY(mst_device_event_query(event, done));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return MUSTER_OK;
}

enum { SOON = 40, LATE = 20000 };

static muster_tensor empty(muster_worker *w, int64_t count) { return scratch_tensor(w, MUSTER_I64, 1, &count); }

static muster_status check_sum(muster_worker *w, muster_tensor sum) { return values_expect(w, sum, RANKS * (RANKS - 1) / 2, RANKS); }

/* ---- what waits for what ---- */

static muster_status computes_beside_it(muster_worker *w, void *argument) {
    const int64_t count = *(int64_t *)argument;
    bool done = true;
    muster_tensor x = values_make(w, count, w->rank, 1), sum = empty(w, count), source = values_make(w, count, 5, 1),
                  other = empty(w, count);
    MUSTER_TRY(mst_worker_all_reduce_begin(w, NULL, MUSTER_SUM, x, sum));
    if (w->rank == 0) {
        hold(w, MST_QUEUE_COMPUTE);
        MUSTER_TRY(muster_copy(w, source, other));
        MUSTER_TRY(is_done(MST_QUEUE_EXCHANGE, LATE, &done));
        VALUES_REQUIRE(done);
        MUSTER_TRY(is_done(MST_QUEUE_COMPUTE, 1, &done));
        VALUES_REQUIRE(!done);
        muster_sim_release();
        MUSTER_TRY(values_expect(w, other, 5, 1));
    }
    MUSTER_TRY(mst_worker_exchange_end(w));
    return check_sum(w, sum);
}

static void the_exchange_ends_while_compute_stands_still(void **state) {
    (void)state;
    run_every_way(computes_beside_it);
}

static muster_status input_is_late(muster_worker *w, void *argument) {
    const int64_t count = *(int64_t *)argument;
    bool done = true;
    muster_tensor source = values_make(w, count, w->rank, 1), x = empty(w, count), sum = empty(w, count);
    if (w->rank == 0) hold(w, MST_QUEUE_COMPUTE);
    MUSTER_TRY(muster_copy(w, source, x));
    MUSTER_TRY(mst_worker_all_reduce_begin(w, NULL, MUSTER_SUM, x, sum));
    if (w->rank == 0) {
        MUSTER_TRY(is_done(MST_QUEUE_EXCHANGE, SOON, &done));
        VALUES_REQUIRE(!done);
        muster_sim_release();
    }
    MUSTER_TRY(mst_worker_exchange_end(w));
    return check_sum(w, sum);
}

static void it_waits_for_what_was_computed_before(void **state) {
    (void)state;
    run_every_way(input_is_late);
}

static muster_status output_is_late(muster_worker *w, void *argument) {
    const int64_t count = *(int64_t *)argument;
    bool done = true;
    muster_tensor x = values_make(w, count, w->rank, 1), sum = empty(w, count);
    if (w->rank == 0) hold(w, MST_QUEUE_EXCHANGE);
    MUSTER_TRY(mst_worker_all_reduce_begin(w, NULL, MUSTER_SUM, x, sum));
    if (w->rank == 0) {
        MUSTER_TRY(is_done(MST_QUEUE_COMPUTE, LATE, &done));
        VALUES_REQUIRE(done);
    }
    MUSTER_TRY(mst_worker_exchange_end(w));
    if (w->rank == 0) {
        MUSTER_TRY(is_done(MST_QUEUE_COMPUTE, SOON, &done));
        VALUES_REQUIRE(!done);
        muster_sim_release();
    }
    return check_sum(w, sum);
}

/* Between enter and leave: a transport whose staging memory is too small releases it, waits for the
 * device, and asks for more. */
static muster_status inside_enter(muster_worker *w, int what) {
    void *memory = NULL;
    if (what == 0) return mst_worker_sync(w);
    if (what == 1) return mst_device_exchange_end(w->device);
    MUSTER_TRY(mst_worker_allocate(w, 4096, &memory));
    w->device->memory->release(w->device, memory);
    MUSTER_TRY(mst_worker_allocate(w, 4096, &memory));
    w->device->memory->release(w->device, memory);
    return MUSTER_OK;
}

static muster_status output_is_late_behind_waits(muster_worker *w, void *argument) {
    const int64_t count = *(int64_t *)argument;
    if (w->rank > 0) return MUSTER_OK;
    for (int what = 0; what < 3; what++) {
        bool done = true;
        muster_tensor source = values_make(w, count, 5, 1), other = empty(w, count);
        MUSTER_TRY(mst_device_exchange_enter(w->device));
        MUSTER_TRY(inside_enter(w, what));
        hold(w, MST_QUEUE_EXCHANGE);
        w->device->work_queue = MST_QUEUE_EXCHANGE;
        MUSTER_TRY(muster_copy(w, source, other));
        mst_device_exchange_leave(w->device);
        MUSTER_TRY(mst_worker_exchange_end(w));
        MUSTER_TRY(is_done(MST_QUEUE_COMPUTE, SOON, &done));
        VALUES_REQUIRE(!done);
        muster_sim_release();
        MUSTER_TRY(values_expect(w, other, 5, 1));
    }
    return MUSTER_OK;
}

static void the_end_waits_for_it_also_where_the_device_was_waited_for_before(void **state) {
    (void)state;
    run_every_way(output_is_late_behind_waits);
}

static void what_comes_after_the_end_waits_for_it(void **state) {
    (void)state;
    run_every_way(output_is_late);
}

static muster_status another_follows(muster_worker *w, void *argument) {
    const int64_t count = *(int64_t *)argument;
    bool done = true;
    muster_tensor x = values_make(w, count, w->rank, 1), sum = empty(w, count), sum_of_sums = empty(w, count);
    if (w->rank == 0) hold(w, MST_QUEUE_EXCHANGE);
    MUSTER_TRY(mst_worker_all_reduce_begin(w, NULL, MUSTER_SUM, x, sum));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, sum, sum_of_sums));
    if (w->rank == 0) {
        MUSTER_TRY(is_done(MST_QUEUE_COMPUTE, SOON, &done));
        VALUES_REQUIRE(!done);
        muster_sim_release();
    }
    return values_expect(w, sum_of_sums, RANKS * RANKS * (RANKS - 1) / 2, RANKS * RANKS);
}

static void a_collective_that_does_not_only_begin_comes_after_it(void **state) {
    (void)state;
    run_every_way(another_follows);
}

/* ---- memory ---- */

/* Memory that is released while EXCHANGE is busy is used again only after it. */
static muster_status releases_early(muster_worker *w, void *argument) {
    const int64_t count = *(int64_t *)argument;
    mst_device *device = w->device;
    bool done = true;
    void *address = NULL, *again = NULL;
    muster_tensor x = values_make(w, count, w->rank, 1), sum = empty(w, count);
    MUSTER_TRY(device->memory->allocate(device, 4096, &address));
    if (w->rank == 0) hold(w, MST_QUEUE_EXCHANGE);
    MUSTER_TRY(mst_worker_all_reduce_begin(w, NULL, MUSTER_SUM, x, sum));
    device->memory->release(device, address);
    MUSTER_TRY(device->memory->allocate(device, 4096, &again));
    if (w->rank == 0) {
        MUSTER_TRY(is_done(MST_QUEUE_COMPUTE, SOON, &done));
        VALUES_REQUIRE(!done);
        muster_sim_release();
    }
    device->memory->release(device, again);
    MUSTER_TRY(mst_worker_exchange_end(w));
    return check_sum(w, sum);
}

static void memory_released_meanwhile_is_not_used_before_the_end(void **state) {
    (void)state;
    run_every_way(releases_early);
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exchange_ends_while_compute_stands_still),
        cmocka_unit_test(it_waits_for_what_was_computed_before),
        cmocka_unit_test(what_comes_after_the_end_waits_for_it),
        cmocka_unit_test(the_end_waits_for_it_also_where_the_device_was_waited_for_before),
        cmocka_unit_test(a_collective_that_does_not_only_begin_comes_after_it),
        cmocka_unit_test(memory_released_meanwhile_is_not_used_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The life of NCCL's communicators between GPUs of the simulated machine: what they connect and
 * when, which of them are given up, how they end when something is stuck, and what the log says. */
#include "base_await.h"
#include "collectives_values.h"
#include "cuda/cuda_api_private.h"
#include "cuda/cuda_impl.h"
#include "nccl/nccl_api_private.h"
#include "sim.h"

#include "base_pace.h"
#include "scheduler_stand_still.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* elements of i64, for each algorithm of the simulated NCCL: below 64 KiB, below 1 MiB, above */
enum { RANKS = 4, SMALL = 1000, MIDDLE = 50000, LARGE = 200000, DEVICE_MEMORY = 256 << 20 };
#define SECOND 1000000000LL

/* ---- the log: each line behind the first letter of its level ---- */

static char log_text[8192];
static void keep_line(void *user, muster_log_level level, const char *line) {
    (void)user;
    const size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%c %s\n",
             level == MUSTER_LOG_ERROR     ? 'E'
             : level == MUSTER_LOG_WARNING ? 'W'
                                           : '?',
             line);
}

/* The number of lines that begin so. */
static int log_lines(const char *begin) {
    int count = 0;
    for (const char *line = log_text; line && *line; line = strchr(line, '\n') + 1) count += strncmp(line, begin, strlen(begin)) == 0;
    return count;
}

/* ---- machines and pools ---- */

static void begin(uint64_t memory) {
    log_text[0] = '\0';
    muster_sim_reset(&(muster_sim_options){.devices = RANKS, .no_peers = true, .longest_delay = 20, .memory = memory});
    mst_cuda_forget_lost();
}

static void open_for(collectives_pool *c, int64_t fail_after_ns, int64_t create_ns) {
    mst_pool_options options = {.warn_after_ns = -1, .fail_after_ns = fail_after_ns, .dedicated_rank0 = true, .log = keep_line};
    const mst_communicator_options communicator = {.nccl_create_ns = create_ns};
    setenv("MUSTER_TEST_DEVICES", "cuda", 1);
    collectives_open_devices(c, 0, RANKS);
    assert_ok(mst_pool_create(&options, c->devices, c->size, &c->pool));
    assert_ok(mst_communicator_create(c->pool, &communicator, &c->communicator));
}

static void open_usual(collectives_pool *c) { open_for(c, test_patience(30 * SECOND), 0); }

static muster_status sum_of(muster_worker *w, int64_t count) {
    muster_tensor x = values_make(w, count, w->rank, 1);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return values_expect(w, x, RANKS * (RANKS - 1) / 2, RANKS);
}
static muster_status large_sum(muster_worker *w, void *argument) { return (void)argument, sum_of(w, LARGE); }

static uint64_t connections(void) { return muster_sim_calls("ncclConnect"); }

/* ---- connections ---- */

static muster_status every_collective(muster_worker *w, muster_communicator *within, int64_t count) {
    const int64_t all = count * RANKS;
    muster_tensor one, many;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &one));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &all, &many));
    const int64_t half = count * 2;
    muster_tensor some = many;
    if (within) MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &half, &some));
    MUSTER_TRY(muster_fill(w, 1, one));
    MUSTER_TRY(muster_fill(w, 1, many));
    MUSTER_TRY(muster_worker_all_reduce(w, within, MUSTER_SUM, one, one));
    MUSTER_TRY(muster_worker_all_reduce(w, within, MUSTER_MAX, one, one)); /* by messages and Muster's kernel */
    MUSTER_TRY(muster_worker_reduce(w, within, MUSTER_SUM, 1, one, one));
    MUSTER_TRY(muster_worker_broadcast(w, within, 1, one, one));
    MUSTER_TRY(muster_worker_all_gather(w, within, one, some));
    MUSTER_TRY(muster_worker_all_to_all(w, within, some, some));
    MUSTER_TRY(muster_worker_reduce_scatter(w, within, MUSTER_SUM, some, one));
    MUSTER_TRY(muster_worker_gather(w, within, 1, one, some));
    return muster_worker_scatter(w, within, 0, some, one);
}

static muster_status every_size(muster_worker *w, void *argument) {
    static const int64_t counts[] = {1, SMALL, MIDDLE, LARGE};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) MUSTER_TRY(every_collective(w, argument, counts[i]));
    return MUSTER_OK;
}

static muster_status every_size_in_a_part(muster_worker *w, void *argument) {
    uint64_t *connected = argument;
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(w, NULL, w->rank % 2, 0, &part));
    if (w->rank == 0) *connected = connections();
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(every_size(w, part));
    return muster_worker_release(w, part);
}

/* A connection that is made while a collective is in flight can wait for a device that waits for
 * this one. */
static void all_connections_are_made_at_open_and_at_a_split(void **state) {
    (void)state;
    collectives_pool c;
    uint64_t in_parts = 0;
    begin(DEVICE_MEMORY);
    open_usual(&c);
    const uint64_t at_open = connections();
    assert_true(at_open > 0);
    assert_ok(collectives_run(&c, every_size, NULL));
    assert_true(muster_sim_calls("ncclAllReduce") > RANKS);
    assert_int_equal(connections(), at_open);
    assert_ok(collectives_run(&c, every_size_in_a_part, &in_parts));
    assert_true(in_parts > at_open);
    assert_int_equal(connections(), in_parts);
    assert_string_equal(log_text, "");
    collectives_close(&c);
}

/* Every ninth connection of the opening fails once, for want of shared memory: NCCL is given up,
 * and the sums are right without it. */
static void an_nccl_that_cannot_connect_is_given_up(void **state) {
    (void)state;
    collectives_pool c;
    begin(DEVICE_MEMORY);
    open_usual(&c);
    const uint64_t made = connections();
    collectives_close(&c);
    assert_true(made > 9);
    for (uint64_t kth = 1; kth <= made; kth += 9) {
        char ways[500];
        begin(DEVICE_MEMORY);
        muster_sim_inject("ncclConnect", kth, MST_NCCL_SYSTEM_ERROR);
        open_usual(&c);
        assert_int_equal(muster_sim_injected(), 1);
        assert_int_equal(log_lines("W muster: NCCL's communicators could not be made; collectives go other ways"), 1);
        assert_non_null(strstr(log_text, "/dev/shm"));
        assert_non_null(strstr(log_text, "NCCL_DEBUG=WARN"));
        assert_non_null(strstr(log_text, "creating shared memory segment"));
        assert_non_null(strstr(mst_communicator_description(c.communicator, ways, sizeof ways), "no NCCL: "));
        const uint64_t before = muster_sim_calls("ncclAllReduce");
        for (int i = 0; i < 2; i++) assert_ok(collectives_run(&c, large_sum, NULL));
        assert_int_equal(muster_sim_calls("ncclAllReduce"), before);
        collectives_close(&c);
    }
}

static void an_nccl_that_connects_for_ever_is_given_up(void **state) {
    (void)state;
    collectives_pool c;
    begin(DEVICE_MEMORY);
    muster_sim_inject("ncclConnect", 2, MST_NCCL_IN_PROGRESS);
    open_for(&c, test_patience(30 * SECOND), test_patience(SECOND / 2));
    assert_non_null(strstr(log_text, "NCCL: ncclGroupEnd: rank "));
    assert_ok(collectives_run(&c, large_sum, NULL));
    collectives_close(&c);
}

/* ---- memory ---- */

/* The devices have room for Muster and for nothing of NCCL's. */
static void an_nccl_without_device_memory_is_given_up(void **state) {
    (void)state;
    collectives_pool c;
    begin(DEVICE_MEMORY);
    open_usual(&c);
    const uint64_t used = muster_sim_memory_used(0);
    collectives_close(&c);
    begin(used - (100 << 10));
    open_usual(&c);
    assert_int_equal(log_lines("W muster: NCCL's communicators could not be made"), 1);
    assert_non_null(strstr(log_text, "out of memory"));
    assert_ok(collectives_run(&c, large_sum, NULL));
    collectives_close(&c);
}

static muster_status fail_on_one(muster_worker *w, void *argument) {
    (void)argument;
    MUSTER_TRY(sum_of(w, LARGE));
    if (w->rank == RANKS - 1) return mst_error(MUSTER_USER, "the last rank has had enough");
    return sum_of(w, LARGE);
}

static void making_communicators_anew_takes_no_more_memory(void **state) {
    (void)state;
    enum { TIMES = 8 };
    collectives_pool c;
    begin(DEVICE_MEMORY);
    open_usual(&c);
    assert_ok(collectives_run(&c, large_sum, NULL));
    const uint64_t used = muster_sim_memory_used(1), made = muster_sim_calls("ncclCommInitRankConfig");
    for (int i = 0; i < TIMES; i++) {
        muster_sim_inject("ncclAllReduce", RANKS, MST_NCCL_REMOTE_ERROR);
        assert_refused(collectives_run(&c, large_sum, NULL), MUSTER_SYSTEM, "ncclAllReduce");
        assert_ok(collectives_run(&c, large_sum, NULL));
        assert_int_equal(muster_sim_memory_used(1), used);
    }
    assert_int_equal(muster_sim_calls("ncclCommInitRankConfig"), made + TIMES * RANKS);
    assert_string_equal(log_text, ""); /* each failure was followed by a call that NCCL has served */
    collectives_close(&c);
}

/* ---- when something is stuck ---- */

static muster_status sum_then_sum_in_a_part(muster_worker *w, void *argument) {
    await_barrier *all = argument;
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(w, NULL, w->rank / 2, 0, &part));
    muster_tensor x = values_make(w, LARGE, w->rank, 1), y = values_make(w, LARGE, w->rank, 1);
    await_barrier_wait(all); /* one of Muster's is a group of NCCL's, too */
    if (w->rank == 0) muster_sim_inject("ncclGroupEnd", 1, MST_NCCL_IN_PROGRESS);
    await_barrier_wait(all);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return muster_worker_all_reduce(w, part, MUSTER_SUM, y, y);
}

/* One rank never issues the sum of all. The two ranks of the other part wait in it on their GPUs,
 * and have a sum of their part behind it. */
static void a_part_behind_a_stuck_collective_ends_at_the_deadline(void **state) {
    (void)state;
    collectives_pool c;
    await_barrier all = {.threads = RANKS};
    begin(DEVICE_MEMORY);
    open_for(&c, test_patience(SECOND / 2), 0);
    assert_int_equal(collectives_run(&c, sum_then_sum_in_a_part, &all), MUSTER_TIMEOUT);
    assert_int_equal(muster_sim_injected(), 1);
    assert_ok(collectives_run(&c, large_sum, NULL));
    assert_string_equal(log_text, "");
    collectives_close(&c);
}

/* The queue of one GPU never gets as far as the collective, as behind a kernel of the program that
 * does not end. The call ends, and so does the runtime: what NCCL holds there is left and said. */
static void an_endless_kernel_in_front_of_a_collective_ends_at_the_deadline(void **state) {
    (void)state;
    collectives_pool c;
    char notice[MST_MESSAGE_SIZE];
    begin(DEVICE_MEMORY);
    open_for(&c, test_patience(SECOND / 2), 0);
    assert_ok(collectives_run(&c, large_sum, NULL));
    muster_sim_inject_queue_stall("ncclAllReduce", 1, 0);
    assert_refused(collectives_run(&c, large_sum, NULL), MUSTER_TIMEOUT, "s for its device cuda:");
    assert_int_equal(collectives_run(&c, large_sum, NULL), MUSTER_DEVICE_LOST);
    mst_communicator_destroy(c.communicator);
    mst_pool_destroy(c.pool);
    for (int32_t r = c.size - 1; r >= 0; r--) c.devices[r]->table->close(c.devices[r]);
    assert_int_equal(log_lines("W muster: NCCL's communicators do not end, because work in front of their last collective does not"), 1);
    while (mst_cuda_take_notice(notice)) continue;
    assert_string_equal(muster_sim_hazards(), "");
    muster_sim_inject_clear();
    muster_sim_reset(NULL);
    mst_cuda_forget_lost();
}

/* ---- NCCL that fails again and again, and the levels of the lines ---- */

/* The trial in front of the call is well. */
static muster_status failing_sum(muster_worker *w, void *argument) {
    (void)argument;
    if (w->rank == 0) muster_sim_inject("ncclAllReduce", 1, MST_NCCL_SYSTEM_ERROR);
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    return sum_of(w, LARGE);
}

static void give_up_after_three_calls(void) {
    static const char last[] = "E muster: NCCL has failed in several calls, one after the other, and is not tried any more";
    collectives_pool c;
    begin(DEVICE_MEMORY);
    open_usual(&c);
    for (int i = 0; i < 3; i++) {
        assert_refused(collectives_run(&c, failing_sum, NULL), MUSTER_SYSTEM, "ncclAllReduce");
        assert_string_equal(log_text, "");
    }
    mst_rendezvous_test_hook = NULL;
    const uint64_t before = muster_sim_calls("ncclAllReduce");
    for (int i = 0; i < 2; i++) assert_ok(collectives_run(&c, large_sum, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), before);
    assert_int_equal(log_lines(last), 1);
    assert_non_null(strstr(log_text, "/dev/shm"));
    assert_int_equal(log_lines("W"), 0);
    collectives_close(&c);
}

static void an_nccl_that_fails_in_three_calls_is_given_up(void **state) {
    (void)state;
    give_up_after_three_calls();
}

/* Rank 0 alone enters NCCL. The others have met it, and see the end of the call before. */
static bool others_are_slow(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    if (collective != MST_ALL_REDUCE || moment != MST_MOMENT_WRITES || worker->rank == 0) return false;
    stand_still_until_cancelled(worker);
    *status = mst_error(MUSTER_ABORTED, "the call has ended");
    return true;
}

static void an_nccl_that_fails_before_other_ranks_enter_it_is_given_up(void **state) {
    (void)state;
    mst_rendezvous_test_hook = others_are_slow;
    give_up_after_three_calls();
}

/* Making them anew fails three times: twice it will be tried again, then not. */
static void the_last_of_three_failures_to_make_them_anew_is_an_error(void **state) {
    (void)state;
    collectives_pool c;
    begin(DEVICE_MEMORY);
    open_usual(&c);
    assert_refused(collectives_run(&c, fail_on_one, NULL), MUSTER_USER, "has had enough");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            log_lines("W muster: NCCL's communicators could not be made anew after an aborted call; the next call tries again"), i);
        assert_int_equal(log_lines("E"), 0);
        muster_sim_inject("ncclGetUniqueId", 1, MST_NCCL_SYSTEM_ERROR);
        assert_ok(collectives_run(&c, large_sum, NULL));
    }
    assert_int_equal(log_lines("W"), 2);
    assert_int_equal(log_lines("E muster: NCCL's communicators could not be made anew, and are not tried any more"), 1);
    assert_ok(collectives_run(&c, large_sum, NULL));
    assert_int_equal(log_lines("W") + log_lines("E"), 3);
    collectives_close(&c);
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    setenv("MUSTER_DEVICE_MEMORY", "33554432", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_connections_are_made_at_open_and_at_a_split),
        cmocka_unit_test(an_nccl_that_cannot_connect_is_given_up),
        cmocka_unit_test(an_nccl_that_connects_for_ever_is_given_up),
        cmocka_unit_test(an_nccl_without_device_memory_is_given_up),
        cmocka_unit_test(making_communicators_anew_takes_no_more_memory),
        cmocka_unit_test(a_part_behind_a_stuck_collective_ends_at_the_deadline),
        cmocka_unit_test(an_endless_kernel_in_front_of_a_collective_ends_at_the_deadline),
        cmocka_unit_test(an_nccl_that_fails_in_three_calls_is_given_up),
        cmocka_unit_test(an_nccl_that_fails_before_other_ranks_enter_it_is_given_up),
        cmocka_unit_test(the_last_of_three_failures_to_make_them_anew_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

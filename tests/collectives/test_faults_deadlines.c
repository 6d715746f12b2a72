/* No wait lasts for ever: who waits for something that does not come is told whom it waited for and
 * what that rank did last, and the pool works afterwards. Nothing here depends on how fast the
 * machine is: a late rank waits until the call is lost, and where a busy machine made another rank
 * late, too, the same is done again with a longer deadline. */
#include "base_await.h"
#include "base_check.h"
#include "collectives_faults.h"
#include "scheduler_stand_still.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MILLISECOND = 1000000, SIZES = 3 };

typedef struct world {
    collectives_pool c;
    /* tensors of 3 f32 in the memory of the worker's device */
    muster_status (*body)(struct world *, muster_worker *, muster_tensor mine, muster_tensor theirs);
    int32_t late;
    int64_t deadline;
    int32_t caller; /* the thread that makes the call */
    _Atomic int32_t lines, came_back, left;
    _Atomic int32_t sleepers[4]; /* by rank: its thread, which will sleep */
    char log[16][256];
} world;

static void keep_line(void *user, muster_log_level level, const char *line) {
    (void)level;
    world *t = user;
    int32_t at = atomic_load(&t->lines);
    if (at < 16) snprintf(t->log[at], sizeof t->log[at], "%s", line);
    atomic_store(&t->lines, at + 1);
}

static void open_world(world *t, int32_t size, int32_t discrete, int64_t warn_after_ns, int64_t fail_after_ns) {
    memset(t, 0, sizeof *t);
    collectives_open_options(
        &t->c, size - discrete, discrete, NULL,
        &(mst_pool_options){
            .spin_ns = 20000, .warn_after_ns = warn_after_ns, .fail_after_ns = fail_after_ns, .log = keep_line, .log_user = t});
}

static muster_status task(muster_worker *w, void *argument) {
    world *t = argument;
    static const int64_t three = 3;
    muster_tensor mine, theirs;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &three, &mine));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &three, &theirs));
    float numbers[3] = {1, 2, 3};
    MUSTER_TRY(muster_worker_write(w, muster_f32(numbers, 3), mine));
    return t->body(t, w, mine, theirs);
}

static muster_status run(world *t) {
    faults_say(t->c.pool, "a deadline of %lld ms", (long long)(t->deadline / MILLISECOND));
    t->caller = (int32_t)syscall(SYS_gettid);
    atomic_store(&t->left, 0);
    char message[MST_MESSAGE_SIZE];
    const muster_status status = collectives_run_until(&t->c, task, t, t->deadline);
    mst_error_save(message);
    collectives_strip(message);
    return status == MUSTER_OK ? status : mst_error_restore(status, message);
}

/* Do the texts stand in the message, in this order? NULL ends them early. */
static bool says(const char *message, const char *const texts[3]) {
    for (int32_t i = 0; i < 3 && texts[i]; i++) {
        message = strstr(message, texts[i]);
        if (!message) return false;
    }
    return true;
}

/* The call ends with `code` and a message with the texts of one of `ways`, which is still there. */
static void must_end_in(world *t, muster_status code, int32_t ways, const char *const texts[][3]) {
    for (t->deadline = 30 * MILLISECOND; t->deadline < test_patience(4000LL * MILLISECOND); t->deadline *= 2) {
        muster_status status = run(t);
        for (int32_t i = 0; status == code && i < ways; i++) {
            if (says(muster_last_error(), texts[i])) return;
        }
        if (status != MUSTER_TIMEOUT || t->deadline > test_patience(2000LL * MILLISECOND))
            fail_msg("expected %s with \"%s\", received %s \"%s\"", muster_status_name(code), texts[0][0], muster_status_name(status),
                     muster_last_error());
    }
}

static void must_end(world *t, muster_status code, const char *first, const char *second, const char *third) {
    must_end_in(t, code, 1, (const char *const[][3]){{first, second, third}});
}

static void must_go_on(world *t) {
    const char *complaint = faults_all_kinds(&t->c);
    if (complaint) fail_msg("the next call: %s", complaint);
}

/* As must_end, and the next calls are right. */
static void must_fail(world *t, muster_status code, const char *first, const char *second, const char *third) {
    must_end(t, code, first, second, third);
    must_go_on(t);
}

/* On 2, 3 and 4 workers, with host devices and with discrete ones. */
static void on_pools(void (*check)(world *)) {
    for (int32_t size = 2; size <= FAULTS_RANKS; size++) {
        for (int32_t discrete = 0; discrete <= size; discrete += size) {
            world t;
            open_world(&t, size, discrete, -1, 60000LL * MILLISECOND);
            check(&t);
            collectives_close(&t.c);
        }
    }
}

/* ---- messages that have no other side ---- */

enum { TAG = 7 };

static muster_status receive_body(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    (void)mine;
    if (muster_worker_rank(w) == t->late) return stand_still_until_cancelled(w), MUSTER_OK;
    return muster_worker_rank(w) == (t->late + 1) % t->c.size ? muster_worker_recv(w, NULL, t->late, TAG, theirs) : MUSTER_OK;
}

static muster_status send_body(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    (void)theirs;
    if (muster_worker_rank(w) == t->late) return stand_still_until_cancelled(w), MUSTER_OK;
    return muster_worker_rank(w) == (t->late + 1) % t->c.size ? muster_worker_send(w, NULL, t->late, TAG, mine) : MUSTER_OK;
}

/* Are the ranks in one process? Then who waits knows what the other did last, else where it is. */
static bool together(const world *t, int32_t one, int32_t other) {
    return !t->c.nodes || mst_nodes_process_of(t->c.nodes, one) == mst_nodes_process_of(t->c.nodes, other);
}

static void check_one_side(world *t, const char *what) {
    for (t->late = 0; t->late < t->c.size; t->late++) {
        char first[80], second[120], third[80];
        int32_t waiting = (t->late + 1) % t->c.size;
        if (!together(t, waiting, t->late)) {
            snprintf(first, sizeof first, "%s: process %d (", what, (int)mst_nodes_process_of(t->c.nodes, waiting));
            snprintf(second, sizeof second, " for process %d (", (int)mst_nodes_process_of(t->c.nodes, t->late));
            must_fail(t, MUSTER_TIMEOUT, first, second, NULL);
            continue;
        }
        snprintf(first, sizeof first, "%s: rank %d waited ", what, (int)waiting);
        snprintf(second, sizeof second, " for rank %d, which made no progress; rank %d did last: ", (int)t->late, (int)t->late);
        snprintf(third, sizeof third, "; rank %d waits for %s with tag 7 #1 (rank %d)", (int)waiting, what, (int)waiting);
        must_fail(t, MUSTER_TIMEOUT, first, second, third);
    }
}

static void check_receive(world *t) {
    t->body = receive_body;
    check_one_side(t, "recv");
}
static void check_send(world *t) {
    t->body = send_body;
    check_one_side(t, "send");
}
static void a_receive_without_a_send_ends_at_the_deadline_and_names_both_ranks(void **unused) { (void)unused, on_pools(check_receive); }
static void a_send_without_a_receive_ends_at_the_deadline_and_names_both_ranks(void **unused) { (void)unused, on_pools(check_send); }

static muster_status lonely_receive(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    (void)t, (void)mine;
    return muster_worker_rank(w) == 0 ? muster_worker_recv(w, NULL, 1, TAG, theirs) : MUSTER_OK;
}
static muster_status lonely_send(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    (void)t, (void)theirs;
    return muster_worker_rank(w) == 0 ? muster_worker_send(w, NULL, 1, TAG, mine) : MUSTER_OK;
}
static void check_returned(world *t) {
    t->body = lonely_receive;
    must_fail(t, MUSTER_INVALID_ARGUMENT, "recv: rank 1 returned without sending the message of recv with tag 7, for which rank 0 waits",
              NULL, NULL);
    t->body = lonely_send;
    must_fail(t, MUSTER_INVALID_ARGUMENT, "send: rank 1 returned without receiving the message of send with tag 7, for which rank 0 waits",
              NULL, NULL);
}
static void a_message_whose_other_side_has_returned_is_an_error_at_once(void **unused) { (void)unused, on_pools(check_returned); }

/* ---- cycles ---- */

static muster_status send_cycle(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    (void)theirs;
    return muster_worker_send(w, NULL, (muster_worker_rank(w) + 1) % t->c.size, TAG, mine);
}
static muster_status receive_cycle(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    (void)mine;
    return muster_worker_recv(w, NULL, (muster_worker_rank(w) + 1) % t->c.size, TAG, theirs);
}

/* Of the cycle the message names two neighbours. */
static void check_pair(const world *t) {
    const char *waited = strstr(muster_last_error(), ": rank "), *whom = strstr(muster_last_error(), " for rank ");
    int one = -1, other = -1;
    if (strstr(muster_last_error(), " for process ")) return; /* the other rank is in another process */
    if (!waited || !whom) fail_msg("received \"%s\"", muster_last_error());
    assert_int_equal(sscanf(waited, ": rank %d", &one), 1);
    assert_int_equal(sscanf(whom, " for rank %d", &other), 1);
    assert_int_equal(other, (one + 1) % t->c.size);
}

/* A rank that waits for one of another process knows of the process. On a busy machine a rank can
 * come to a short deadline while it waits for its own device; then the cycle is run again. */
static void must_end_in_cycle(world *t) {
    must_end_in(t, MUSTER_TIMEOUT, 2, (const char *const[][3]){{" waited ", " for process "}, {" waited ", " for rank "}});
}

/* Workers of one process that wait for each other are refused at once. */
static void must_end_cycle(world *t, const char *at_once) {
    if (t->c.nodes)
        must_end_in_cycle(t);
    else
        must_end(t, MUSTER_INVALID_ARGUMENT, at_once, " for rank ", t->c.size > 2 ? ": none can go on" : ": neither can go on");
    if (t->c.size > 2) check_pair(t);
    must_go_on(t);
}

static void check_cycles(world *t) {
    t->body = send_cycle;
    must_end_cycle(t, " waits in send with tag 7");
    t->body = receive_cycle;
    must_end_cycle(t, " waits in recv with tag 7");
}
static void a_cycle_of_sends_or_of_receives_ends(void **unused) { (void)unused, on_pools(check_cycles); }

/* ---- messages that do not fit: an error at once, though the deadline is far away ---- */

static muster_status pair(muster_worker *w, muster_tensor mine, int32_t tag_out, muster_tensor theirs, int32_t tag_in) {
    if (muster_worker_rank(w) == 0) return muster_worker_send(w, NULL, 1, tag_out, mine);
    return muster_worker_rank(w) == 1 ? muster_worker_recv(w, NULL, 0, tag_in, theirs) : MUSTER_OK;
}
static muster_status other_tag(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    return (void)t, pair(w, mine, 8, theirs, TAG);
}
static muster_status fewer(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    return (void)t, pair(w, mine, TAG, muster_tensor_slice(theirs, 0, 2), TAG);
}
static muster_status other_dtype(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    theirs.dtype = MUSTER_I32;
    return (void)t, pair(w, mine, TAG, theirs, TAG);
}
/* In a group the receiver may take messages in any order, but not one that does not exist. */
static muster_status missing_in_group(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    (void)t;
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    for (int32_t tag = 1; tag <= 3; tag++) {
        muster_tensor one = muster_tensor_slice(muster_worker_rank(w) == 0 ? mine : theirs, tag - 1, tag);
        MUSTER_TRY(pair(w, one, tag, one, tag == 3 ? 9 : 4 - tag - 1));
    }
    return muster_worker_group_end(w, NULL);
}

static void refused_at_once(world *t, muster_status (*body)(world *, muster_worker *, muster_tensor, muster_tensor), const char *message) {
    t->body = body;
    t->deadline = 0;
    faults_say(t->c.pool, "expecting \"%s\" at once", message);
    char expected[200];
    snprintf(expected, sizeof expected, "%s", message);
    /* both sides find it, and with several processes the lower rank decides */
    if (t->c.nodes && strstr(expected, " (rank 1)")) *strstr(expected, " (rank 1)") = 0;
    assert_refused(run(t), MUSTER_INVALID_ARGUMENT, expected);
    const char *complaint = faults_all_kinds(&t->c);
    if (complaint) fail_msg("the next call: %s", complaint);
}

static void check_unmatched(world *t) {
    refused_at_once(t, other_tag, "recv: rank 1 expected 3 f32 with tag 7 from rank 0, which waits to send 3 f32 with tag 8 (rank 1)");
    refused_at_once(t, fewer, "recv: rank 1 expected 2 f32 with tag 7 from rank 0, which waits to send 3 f32 with tag 7 (rank 1)");
    refused_at_once(t, other_dtype, "recv: rank 1 expected 3 i32 with tag 7 from rank 0, which waits to send 3 f32 with tag 7 (rank 1)");
    refused_at_once(t, missing_in_group,
                    "recv: rank 1 expected 1 f32 with tag 9 from rank 0, which waits to send 1 f32 with tag 3 (rank 1)");
}
static void messages_that_do_not_fit_are_an_error_at_once_with_both_sides(void **unused) { (void)unused, on_pools(check_unmatched); }

/* ---- who stays away ---- */

static bool sleeps(int32_t thread) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file)) fail_msg("%s cannot be read", path);
    fclose(file);
    const char *state = strrchr(text, ')');
    return state && state[2] == 'S';
}

/* Waits until this thread of the process sleeps. */
static void await_sleep(int32_t thread) { TEST_AWAIT(sleeps(thread), MILLISECOND); }

/* The late rank stays away after an all_reduce until the others have left their bodies, and the
 * caller's thread, unless it is the late rank's own, sleeps: it waits for the end of the call. */
static void stay_away(world *t, const muster_worker *w) {
    stand_still_until_cancelled(w);
    TEST_AWAIT(atomic_load(&t->left) >= t->c.size - 1, MILLISECOND);
    if (t->caller != (int32_t)syscall(SYS_gettid)) await_sleep(t->caller);
    atomic_store(&t->came_back, 1);
}

static muster_status away_body(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    const bool late = muster_worker_rank(w) == t->late;
    muster_status status = muster_worker_all_reduce(w, NULL, MUSTER_SUM, mine, theirs);
    if (late && status == MUSTER_OK) stay_away(t, w);
    if (status == MUSTER_OK) status = muster_worker_barrier(w, NULL);
    if (!late) atomic_fetch_add(&t->left, 1);
    return status;
}

static void check_away(world *t) {
    t->body = away_body;
    for (t->late = 0; t->late < t->c.size; t->late++) {
        char wanted[120];
        snprintf(wanted, sizeof wanted, " for rank %d, which made no progress; rank %d did last: collective all_reduce #1, 12 bytes, took ",
                 (int)t->late, (int)t->late);
        atomic_store(&t->came_back, 0);
        must_end(t, MUSTER_TIMEOUT, wanted, " waits for barrier #2 (rank ", NULL);
        assert_int_equal(atomic_load(&t->came_back), 1);
        must_go_on(t);
    }
}
static void who_stays_away_is_named_with_what_it_did_last_and_the_call_waits_for_its_return(void **unused) {
    (void)unused, on_pools(check_away);
}

/* ---- the warning ---- */

static muster_status warned_body(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    TEST_AWAIT(muster_worker_rank(w) != t->late || atomic_load(&t->lines) >= 1 + t->c.size, MILLISECOND);
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, mine, theirs);
}

static bool logged(const world *t, const char *text) {
    for (int32_t i = 0; i < 16 && i < atomic_load(&t->lines); i++) {
        if (strstr(t->log[i], text)) return true;
    }
    return false;
}

static void a_long_wait_is_reported_with_what_every_worker_did_last_and_goes_on(void **unused) {
    (void)unused;
    for (int32_t late = 0; late < 2; late++) {
        world t;
        open_world(&t, 2, 0, 20 * MILLISECOND, -1);
        char waited[80];
        t.body = warned_body;
        t.late = late;
        assert_ok(run(&t));
        snprintf(waited, sizeof waited, " s in all_reduce #1 for rank %d; the workers did last:", (int)late);
        assert_true(logged(&t, waited));
        assert_true(logged(&t, "muster:   worker 0 on host") && logged(&t, "muster:   worker 1 on host"));
        assert_null(faults_all_kinds(&t.c));
        collectives_close(&t.c);
    }
}

/* ---- who is told when ---- */

/* Rank 0 waits for a message of rank 1, which has returned; then it stays in its body until the
 * others, who sleep in a barrier, have been told. */
static muster_status lingering_body(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    (void)mine;
    if (muster_worker_rank(w) == 1) return MUSTER_OK;
    if (muster_worker_rank(w) > 1) {
        atomic_store(&t->sleepers[muster_worker_rank(w)], (int32_t)syscall(SYS_gettid));
        muster_status status = muster_worker_barrier(w, NULL);
        atomic_fetch_add(&t->came_back, 1);
        return status;
    }
    for (int32_t r = 2; r < t->c.size; r++) {
        TEST_AWAIT(atomic_load(&t->sleepers[r]) != 0, MILLISECOND);
        await_sleep(atomic_load(&t->sleepers[r]));
    }
    muster_status status = muster_worker_recv(w, NULL, 1, TAG, theirs);
    TEST_AWAIT(atomic_load(&t->came_back) >= t->c.size - 2, MILLISECOND);
    return status;
}

static void sleepers_are_told_of_a_failure_before_who_failed_returns(void **unused) {
    (void)unused;
    world t;
    open_world(&t, 4, 0, -1, -1);
    t.body = lingering_body;
    faults_say(t.c.pool, "sleepers in a barrier, without a deadline");
    assert_refused(run(&t), MUSTER_INVALID_ARGUMENT, "recv: rank 1 returned without sending");
    assert_null(faults_all_kinds(&t.c));
    collectives_close(&t.c);
}

/* ---- computing is not being late ---- */

static int64_t cpu_time_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static muster_status computing_body(world *t, muster_worker *w, muster_tensor mine, muster_tensor theirs) {
    if (muster_worker_rank(w) == t->late) {
        for (int64_t end = cpu_time_ns() + 3 * t->deadline; cpu_time_ns() < end && !muster_worker_cancelled(w);) {}
    }
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, mine, theirs);
}

/* Three times as long as the deadline; longer deadlines for machines on which a thread that wants
 * to run does not for so long. */
static void a_rank_that_computes_is_not_late(void **unused) {
    (void)unused;
    world t;
    open_world(&t, 3, 0, -1, -1);
    t.body = computing_body;
    for (t.late = 0; t.late < 3; t.late += 2) {
        muster_status status = MUSTER_TIMEOUT;
        for (t.deadline = 100 * MILLISECOND; status == MUSTER_TIMEOUT && t.deadline <= test_patience(1600LL * MILLISECOND); t.deadline *= 2)
            status = run(&t);
        assert_ok(status);
    }
    collectives_close(&t.c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_without_a_send_ends_at_the_deadline_and_names_both_ranks),
        cmocka_unit_test(a_send_without_a_receive_ends_at_the_deadline_and_names_both_ranks),
        cmocka_unit_test(a_message_whose_other_side_has_returned_is_an_error_at_once),
        cmocka_unit_test(a_cycle_of_sends_or_of_receives_ends),
        cmocka_unit_test(messages_that_do_not_fit_are_an_error_at_once_with_both_sides),
        cmocka_unit_test(who_stays_away_is_named_with_what_it_did_last_and_the_call_waits_for_its_return),
        cmocka_unit_test(a_long_wait_is_reported_with_what_every_worker_did_last_and_goes_on),
        cmocka_unit_test(sleepers_are_told_of_a_failure_before_who_failed_returns),
        cmocka_unit_test(a_rank_that_computes_is_not_late),
    };
    faults_watch();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Failures inside parts of the workers: a failure in one part ends the whole call, in the other
 * parts, too; the parts work afterwards, and so does the world. */
#include "base_check.h"
#include "base_pace.h"
#include "base_seed.h"
#include "collectives_faults.h"
#include "nodes/slabs_private.h"
#include "scheduler_stand_still.h"

#include <stdio.h>
#include <time.h>

enum { MILLISECOND = 1000000, COUNT = 5 };

/* ELSEWHERE: a collective of the world instead */
typedef enum { FAILS, RETURNS, SLEEPS, WRONG_COUNT, ELSEWHERE, PART_FAULTS } part_fault;

static const char *const part_fault_names[PART_FAULTS] = {"fails", "returns", "sleeps", "enters with a wrong count",
                                                          "enters a collective of all workers"};

typedef struct world {
    collectives_pool c;
    /* by rank: of the ranks of equal parity; of neighbours */
    muster_communicator *parts[FAULTS_RANKS], *pairs[FAULTS_RANKS];
    int32_t guilty; /* -1: nobody */
    part_fault fault;
    bool endless; /* the others' part goes on until it is told */
    muster_status statuses[FAULTS_RANKS];
    char messages[FAULTS_RANKS][MST_MESSAGE_SIZE];
} world;

/* Sums of rank + 1 over the members. */
static muster_status sum_over(muster_worker *w, muster_communicator *part, int64_t count, double expected) {
    static const int64_t room = COUNT + 1;
    float numbers[COUNT + 1], sums[COUNT + 1];
    muster_tensor mine, all;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &room, &mine));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &room, &all));
    for (int64_t i = 0; i < room; i++) numbers[i] = (float)(muster_worker_rank(w) + 1);
    MUSTER_TRY(muster_worker_write(w, muster_f32(numbers, room), mine));
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, muster_tensor_slice(mine, 0, count), muster_tensor_slice(all, 0, count)));
    MUSTER_TRY(muster_worker_read(w, muster_tensor_slice(all, 0, count), muster_f32(sums, count)));
    mst_worker_scratch_rewind(w);
    for (int64_t i = 0; i < count; i++) {
        if (sums[i] != (float)expected) return mst_error(MUSTER_BAD_STATE, "a sum of %g instead of %g", (double)sums[i], expected);
    }
    return MUSTER_OK;
}

static double sum_of(const world *t, int32_t first, int32_t stride) {
    double sum = 0;
    for (int32_t r = first; r < t->c.size; r += stride) sum += r + 1;
    return sum;
}
static double sum_of_part(const world *t, int32_t rank) { return sum_of(t, rank % 2, 2); }
static double sum_of_pair(const world *t, int32_t rank) {
    int32_t first = rank / 2 * 2;
    return first + 1 < t->c.size ? 2 * first + 3 : first + 1;
}

static muster_status misbehave(world *t, muster_worker *w) {
    int32_t rank = muster_worker_rank(w);
    char words[64];
    switch (t->fault) {
    case FAILS:
        snprintf(words, sizeof words, "the dog of rank %d ate it", (int)rank);
        return muster_fail(MUSTER_USER, words);
    case RETURNS:
        return MUSTER_OK;
    case SLEEPS:
        stand_still_until_cancelled(w);
        return MUSTER_OK;
    case WRONG_COUNT:
        return sum_over(w, t->parts[rank], COUNT + 1, 0);
    default:
        return muster_worker_barrier(w, NULL);
    }
}

/* One in the world, one in the part, one in the pair, and all together at the end. */
static muster_status do_steps(world *t, muster_worker *w) {
    int32_t rank = muster_worker_rank(w);
    MUSTER_TRY(sum_over(w, NULL, COUNT, sum_of(t, 0, 1)));
    if (rank == t->guilty) return misbehave(t, w);
    while (t->endless && rank % 2 != t->guilty % 2) MUSTER_TRY(sum_over(w, t->parts[rank], COUNT, sum_of_part(t, rank)));
    MUSTER_TRY(sum_over(w, t->parts[rank], COUNT, sum_of_part(t, rank)));
    MUSTER_TRY(sum_over(w, t->pairs[rank], COUNT, sum_of_pair(t, rank)));
    return muster_worker_barrier(w, NULL);
}

static muster_status steps(muster_worker *w, void *argument) {
    world *t = argument;
    int32_t rank = muster_worker_rank(w);
    t->statuses[rank] = do_steps(t, w);
    if (t->statuses[rank] != MUSTER_OK) mst_error_save(t->messages[rank]);
    return t->statuses[rank];
}

static muster_status make_parts(muster_worker *w, void *argument) {
    world *t = argument;
    int32_t rank = muster_worker_rank(w);
    MUSTER_TRY(muster_worker_split(w, NULL, rank % 2, rank, &t->parts[rank]));
    return muster_worker_split(w, NULL, rank / 2, rank, &t->pairs[rank]);
}

static muster_status release_parts(muster_worker *w, void *argument) {
    world *t = argument;
    int32_t rank = muster_worker_rank(w);
    MUSTER_TRY(muster_worker_release(w, t->pairs[rank]));
    return muster_worker_release(w, t->parts[rank]);
}

static void open_world(world *t, int32_t size, int32_t discrete, const char *algorithm) {
    memset(t, 0, sizeof *t);
    collectives_open_with(&t->c, size - discrete, discrete, algorithm, 60000LL * MILLISECOND);
    t->guilty = -1;
    assert_ok(collectives_run(&t->c, make_parts, t));
}

static muster_status run(world *t, int64_t deadline) {
    char message[MST_MESSAGE_SIZE];
    const muster_status status = collectives_run_until(&t->c, steps, t, deadline);
    mst_error_save(message);
    collectives_gather(&t->c, t->statuses, sizeof *t->statuses);
    collectives_gather(&t->c, t->messages, sizeof *t->messages);
    collectives_strip(message);
    return status == MUSTER_OK ? status : mst_error_restore(status, message);
}

static void next_call_is_right(world *t) {
    t->guilty = -1;
    assert_ok(run(t, 0));
}

static void on_pools(void (*check)(world *)) {
    static const char *const algorithms[] = {"reference", "inline", "direct", NULL};
    /* on GPUs each on some size */
    const int64_t one_in = collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE ? test_one_in(2, 2, 2) : 1;
    for (int32_t size = 3; size <= FAULTS_RANKS; size++) {
        for (int32_t a = 0; a < 4; a++) {
            world t;
            if (!test_keeps(size + a, one_in)) continue;
            open_world(&t, size, a % 2 ? size / 2 : 0, algorithms[a]);
            check(&t);
            assert_ok(collectives_run(&t.c, release_parts, &t));
            assert_null(faults_all_kinds(&t.c));
            collectives_close(&t.c);
        }
    }
}

/* ---- by fault ---- */

static bool alone_in_part(const world *t, int32_t rank) { return rank + 2 >= t->c.size && rank < 2; }

/* Who misses it first says so: in the part, in the pair, or among all, where it has its worker's
 * number alone. */
static bool names_guilty(const world *t) {
    char among_all[64], in_part[64];
    snprintf(among_all, sizeof among_all, "rank %d returned", (int)t->guilty);
    snprintf(in_part, sizeof in_part, "(worker %d) returned", (int)t->guilty);
    return strstr(muster_last_error(), among_all) || strstr(muster_last_error(), in_part);
}

/* Is it the sentence? Who waits for another process knows none of its ranks. */
static bool is_told(const world *t, const char *text) {
    if (strstr(muster_last_error(), text)) return true;
    return t->c.nodes && t->fault == SLEEPS && strstr(muster_last_error(), " waited ") && strstr(muster_last_error(), " for process ");
}

/* What the caller is told. Those stuck with each other are told of at the deadline, and which of
 * them is named is chance. */
static muster_status expected(const world *t, char text[128]) {
    int32_t g = t->guilty;
    text[0] = 0;
    switch (t->fault) {
    case FAILS:
        return snprintf(text, 128, "the dog of rank %d ate it (rank %d)", (int)g, (int)g), MUSTER_USER;
    case RETURNS:
        return snprintf(text, 128, " returned without entering "), MUSTER_INVALID_ARGUMENT;
    case SLEEPS:
        return snprintf(text, 128, ", which made no progress; rank "), MUSTER_TIMEOUT;
    case WRONG_COUNT:
        return snprintf(text, 128, "collective mismatch: rank 1 (worker %d) called all_reduce sum of ", 2 + (int)g % 2),
               MUSTER_INVALID_ARGUMENT;
    default:
        return MUSTER_TIMEOUT;
    }
}

static void run_fault(world *t) {
    char text[128], where[160];
    muster_status wanted = expected(t, text), status = MUSTER_OK;
    snprintf(where, sizeof where, "rank %d of %d %s", (int)t->guilty, (int)t->c.size, part_fault_names[t->fault]);
    bool waits = t->fault == SLEEPS || t->fault == ELSEWHERE;
    faults_say(t->c.pool, "%s", where);
    /* A longer deadline where a busy machine made somebody else late, too. */
    for (int64_t deadline = 20 * MILLISECOND; deadline < test_patience(4000LL * MILLISECOND); deadline *= 2) {
        status = run(t, waits ? deadline : 0);
        if (!waits || status != MUSTER_TIMEOUT || is_told(t, text)) break;
    }
    /* of those that wait for each other the last one may find it before the deadline */
    const bool found = t->fault == ELSEWHERE && status == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), " can go on");
    if (found) wanted = status;
    if (!found && (status != wanted || !is_told(t, text)))
        fail_msg("%s: expected %s with \"%s\", received %s \"%s\"", where, muster_status_name(wanted), text, muster_status_name(status),
                 muster_last_error());
    if (t->fault == RETURNS && !names_guilty(t)) fail_msg("%s: received \"%s\"", where, muster_last_error());
    for (int32_t r = 0; r < t->c.size; r++) {
        bool known = t->statuses[r] == wanted || t->statuses[r] == MUSTER_ABORTED || (r == t->guilty && t->statuses[r] == MUSTER_OK);
        if (!known) fail_msg("%s: rank %d received %s \"%s\"", where, (int)r, muster_status_name(t->statuses[r]), t->messages[r]);
    }
    next_call_is_right(t);
}

static void check_faults(world *t) {
    for (part_fault d = FAILS; d < PART_FAULTS; d++) {
        for (int32_t guilty = 0; guilty < t->c.size; guilty++) {
            t->fault = d;
            t->guilty = guilty;
            /* alone in its part it does no wrong to it */
            if (!alone_in_part(t, guilty) || d == FAILS || d == RETURNS || d == SLEEPS) run_fault(t);
        }
    }
}
static void a_failure_in_one_part_ends_the_call_and_the_next_one_is_right(void **unused) { (void)unused, on_pools(check_faults); }

static void check_endless(world *t) {
    for (int32_t guilty = 0; guilty < t->c.size; guilty++) {
        t->endless = true;
        t->fault = FAILS;
        t->guilty = guilty;
        faults_say(t->c.pool, "rank %d fails while another part goes on", (int)guilty);
        assert_int_equal(run(t, 0), MUSTER_USER);
        for (int32_t r = 0; r < t->c.size; r++) assert_int_equal(t->statuses[r], r == guilty ? MUSTER_USER : MUSTER_ABORTED);
        t->endless = false;
        next_call_is_right(t);
    }
}
static void a_part_that_waits_for_nobody_outside_is_told_at_its_next_collective(void **unused) { (void)unused, on_pools(check_endless); }

/* ---- both sides of a mismatch in a part ---- */

static void check_names(world *t) {
    if (t->c.size < 4) return;
    t->fault = WRONG_COUNT;
    t->guilty = 3; /* rank 1 of the part of 1 and 3 */
    assert_refused(
        run(t, 0), MUSTER_INVALID_ARGUMENT,
        "collective mismatch: rank 1 (worker 3) called all_reduce sum of 6 f32, rank 0 (worker 1) called all_reduce sum of 5 f32");
    next_call_is_right(t);
}
static void a_mismatch_in_a_part_names_its_ranks_and_their_calls(void **unused) { (void)unused, on_pools(check_names); }

/* ---- while parts are made ---- */

typedef struct making {
    int32_t guilty;
    muster_status statuses[FAULTS_RANKS];
} making;

/* Parts of parts: the guilty rank fails between the two splits. */
static muster_status make_nested(muster_worker *w, void *argument) {
    making *m = argument;
    int32_t rank = muster_worker_rank(w);
    muster_communicator *part, *inner;
    MUSTER_TRY(muster_worker_split(w, NULL, rank / 3, rank, &part));
    if (rank == m->guilty) return muster_fail(MUSTER_USER, "not among friends");
    muster_status status = muster_worker_split(w, part, 0, -rank, &inner);
    if (status == MUSTER_OK) {
        status = muster_worker_barrier(w, inner);
        MUSTER_TRY(muster_worker_release(w, inner));
    }
    MUSTER_TRY(muster_worker_release(w, part));
    return m->statuses[rank] = status;
}

static void a_failure_while_parts_are_made_leaves_nothing_behind(void **unused) {
    (void)unused;
    for (int32_t guilty = -1; guilty < 3; guilty++) {
        const int64_t live = mst_memory_live(), kept = mst_wire_kept() + mst_slabs_kept();
        collectives_pool c;
        collectives_open(&c, 3, 0);
        making m = {.guilty = guilty};
        for (int32_t i = 0; i < 20; i++) {
            muster_status status = collectives_run(&c, make_nested, &m);
            collectives_gather(&c, m.statuses, sizeof *m.statuses);
            assert_int_equal(status, guilty < 0 ? MUSTER_OK : MUSTER_USER);
            for (int32_t r = 0; r < 3 && guilty >= 0; r++) assert_int_equal(m.statuses[r], r == guilty ? MUSTER_OK : MUSTER_ABORTED);
            assert_null(faults_all_kinds(&c));
        }
        collectives_close(&c);
        /* what the wire may still use stays on purpose */
        assert_int_equal(mst_memory_live() - live, mst_wire_kept() + mst_slabs_kept() - kept);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_in_one_part_ends_the_call_and_the_next_one_is_right),
        cmocka_unit_test(a_part_that_waits_for_nobody_outside_is_told_at_its_next_collective),
        cmocka_unit_test(a_mismatch_in_a_part_names_its_ranks_and_their_calls),
        cmocka_unit_test(a_failure_while_parts_are_made_leaves_nothing_behind),
    };
    faults_watch();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

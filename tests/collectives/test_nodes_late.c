/* A rank that stays away from a collective of several processes: every sentence names it, or its
 * process where nobody else there could tell, and no rank that only waits for others. */
#include "base_check.h"
#include "base_pace.h"
#include "collectives_spans.h"
#include "scheduler_stand_still.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MILLISECOND = 1000000, LAYOUTS = 5 };

typedef struct layout {
    int32_t counts[3], processes;
} layout;
static const layout layouts[LAYOUTS] = {{{2, 1}, 2}, {{1, 2}, 2}, {{3, 1}, 2}, {{2, 2}, 2}, {{1, 1, 1}, 3}};

typedef struct trial {
    int32_t late;
    muster_status status[SPANS_RANKS];
    char message[SPANS_RANKS][MST_MESSAGE_SIZE];
} trial;

static muster_status wait_for_all(muster_worker *w, void *argument) {
    trial *t = argument;
    const int32_t rank = spans_rank(w);
    if (rank == t->late) {
        stand_still_until_cancelled(w);
        return MUSTER_OK;
    }
    t->status[rank] = muster_worker_barrier(w, NULL);
    if (t->status[rank] != MUSTER_OK) mst_error_save(t->message[rank]);
    return t->status[rank];
}

/* What is wrong with a message; NULL: nothing. */
static const char *blames(const char *message, int32_t late, int32_t process, bool company) {
    char right[64], of_process[64];
    snprintf(right, sizeof right, " for rank %d, which made no progress", (int)late);
    snprintf(of_process, sizeof of_process, " for process %d (host host%d)", (int)process, (int)process);
    const char *blamed = strstr(message, " for rank ");
    if (blamed && strncmp(blamed, right, strlen(right)) != 0) return "it blames another rank";
    if (!blamed && !strstr(message, of_process)) return "it names neither the rank nor its process";
    return !company && blamed ? "nobody in its process could name the rank" : NULL;
}

/* What is wrong with a trial: the message of each process is judged, and that of each rank whose
 * own wait has come to its deadline. NULL: nothing; *message: the one that was judged last. */
static const char *judge(const spans_launch *launch, const trial *t, int32_t process, const char **message) {
    const bool company = launch->process[process].count > 1;
    for (int32_t p = 0; p < launch->processes; p++) {
        *message = launch->process[p].message;
        if (launch->process[p].status != MUSTER_TIMEOUT) return "expected TIMEOUT in every process";
        const char *wrong = blames(*message, t->late, process, company);
        if (wrong) return wrong;
    }
    for (int32_t r = 0; r < launch->total; r++) {
        *message = t->message[r];
        const char *wrong = t->status[r] == MUSTER_TIMEOUT ? blames(*message, t->late, process, company) : NULL;
        if (wrong) return wrong;
        if (r != t->late && t->status[r] != MUSTER_TIMEOUT && t->status[r] != MUSTER_ABORTED)
            return "expected TIMEOUT or ABORTED of a rank";
    }
    return NULL;
}

/* A busy machine makes others late, too: then once more with a longer deadline. That nobody is
 * blamed who waits for another process, scheduler/test_deadline shows, which has no other one. */
static void run_trial(const layout *l, int32_t late, int32_t process) {
    const char *wrong = "never run", *message = "";
    const int64_t first = test_patience(100 * MILLISECOND);
    for (int64_t deadline = first; wrong && deadline <= 16 * first; deadline *= 2) {
        spans_launch launch;
        static trial t;
        t = (trial){.late = late};
        spans_open(&launch, &(spans_options){.counts = l->counts, .processes = l->processes, .fail_after_ns = deadline});
        (void)spans_run(&launch, wait_for_all, &t);
        wrong = judge(&launch, &t, process, &message);
        if (wrong)
            print_message("%d processes, rank %d, %d ms: %s: \"%s\"\n", (int)l->processes, (int)late, (int)(deadline / MILLISECOND), wrong,
                          message);
        spans_close(&launch);
    }
    if (wrong) fail_msg("%s", wrong);
}

static void test_who_is_missing_is_named(void **state) {
    (void)state;
    int32_t trials = 0;
    for (int32_t i = 0; i < LAYOUTS; i++)
        for (int32_t p = 0, late = 0; p < layouts[i].processes; p++)
            for (int32_t m = 0; m < layouts[i].counts[p]; m++, late++, trials++) run_trial(&layouts[i], late, p);
    assert_int_equal(trials, 3 + 3 + 4 + 4 + 3);
}

/* Rank 0 waits for rank 2 of the other process, and rank 1 of its own fails. */
static muster_status fail_beside_one_that_waits(muster_worker *w, void *argument) {
    trial *t = argument;
    float value;
    const int32_t rank = spans_rank(w);
    if (rank == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 50 * MILLISECOND}, NULL); /* in which rank 0 begins to wait */
        return muster_fail(MUSTER_USER, "rank 1 fails");
    }
    (void)mst_error(MUSTER_USER, "an older message");
    t->status[rank] = muster_worker_recv(w, NULL, rank == 0 ? 2 : 0, 1, muster_tensor_make(MUSTER_F32, &value, 0, NULL));
    mst_error_save(t->message[rank]);
    return t->status[rank];
}

static void test_a_failure_ends_the_wait_for_another_process(void **state) {
    static trial t;
    spans_launch launch;
    (void)state;
    t = (trial){.late = -1};
    spans_open(&launch, &(spans_options){.counts = (const int32_t[]){2, 1}, .processes = 2});
    assert_int_equal(spans_run(&launch, fail_beside_one_that_waits, &t), MUSTER_USER);
    assert_int_equal(t.status[0], MUSTER_ABORTED);
    if (!strstr(t.message[0], "muster_worker_recv: rank 0") || !strstr(t.message[0], "the call was aborted"))
        fail_msg("expected the function, the rank and why, received \"%s\"", t.message[0]);
    assert_non_null(strstr(launch.process[0].message, "rank 1 fails"));
    spans_close(&launch);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_who_is_missing_is_named),
                                       cmocka_unit_test(test_a_failure_ends_the_wait_for_another_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

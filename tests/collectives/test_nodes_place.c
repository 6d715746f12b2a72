/* Where the members of a communicator are: hosts and ranks inside of them, on one process and over
 * several, and for parts. What is expected is written down by hand. */
#include "base_check.h"
#include "collectives_spans.h"
#include "collectives_values.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The places of all members as text: "intra_rank/intra_size@inter_rank/inter_size", by rank. */
static muster_status expect_places(const muster_communicator *communicator, const char *expected) {
    char text[400] = "";
    for (int32_t r = 0; r < muster_communicator_size(communicator); r++) {
        muster_place place;
        const size_t at = strlen(text);
        MUSTER_TRY(muster_communicator_place(communicator, r, &place));
        snprintf(text + at, sizeof text - at, "%s%d/%d@%d/%d", r ? " " : "", place.intra_rank, place.intra_size, place.inter_rank,
                 place.inter_size);
    }
    return strcmp(text, expected) == 0 ? MUSTER_OK : mst_error(MUSTER_USER, "expected places \"%s\", received \"%s\"", expected, text);
}

typedef struct expectation {
    const char *hosts; /* of the processes */
    int32_t counts[SPANS_PROCESSES];
    const char *whole;
    const char *reversed; /* a part of all ranks in reverse order */
    const char *odd;      /* the part of the odd ranks */
} expectation;

static const expectation expectations[] = {
    /* a host each; and [A, B, A, B], [A, A, B] and [B, A, A], whose hosts count by the smallest
     * rank */
    {"01", {1, 1}, "0/1@0/2 0/1@1/2", "0/1@0/2 0/1@1/2", "0/1@0/1"},
    {"0101", {1, 1, 1, 1}, "0/2@0/2 0/2@1/2 1/2@0/2 1/2@1/2", "0/2@0/2 0/2@1/2 1/2@0/2 1/2@1/2", "0/2@0/1 1/2@0/1"},
    {"001", {1, 1, 1}, "0/2@0/2 1/2@0/2 0/1@1/2", "0/1@0/2 0/2@1/2 1/2@1/2", "0/1@0/1"},
    {"100", {1, 1, 1}, "0/1@0/2 0/2@1/2 1/2@1/2", "0/2@0/2 1/2@0/2 0/1@1/2", "0/1@0/1"},
    /* processes with several ranks: their members count through a host */
    {"010", {2, 1, 1}, "0/3@0/2 1/3@0/2 0/1@1/2 2/3@0/2", "0/3@0/2 0/1@1/2 1/3@0/2 2/3@0/2", "0/2@0/1 1/2@0/1"},
    {"01", {1, 3}, "0/1@0/2 0/3@1/2 1/3@1/2 2/3@1/2", "0/3@0/2 1/3@0/2 2/3@0/2 0/1@1/2", "0/2@0/1 1/2@0/1"},
    {"00", {2, 2}, "0/4@0/1 1/4@0/1 2/4@0/1 3/4@0/1", "0/4@0/1 1/4@0/1 2/4@0/1 3/4@0/1", "0/2@0/1 1/2@0/1"},
};
enum { EXPECTATIONS = sizeof expectations / sizeof *expectations };

static muster_status place_task(muster_worker *w, void *argument) {
    const expectation *e = argument;
    const int32_t r = muster_worker_rank(w);
    muster_communicator *reversed, *odd;
    MUSTER_TRY(expect_places(muster_worker_communicator(w), e->whole));
    MUSTER_TRY(muster_worker_split(w, NULL, 0, -r, &reversed));
    MUSTER_TRY(expect_places(reversed, e->reversed));
    MUSTER_TRY(muster_worker_split(w, NULL, r % 2 ? 1 : -1, 0, &odd));
    if (r % 2) MUSTER_TRY(expect_places(odd, e->odd));
    MUSTER_TRY(muster_worker_release(w, odd));
    return muster_worker_release(w, reversed);
}

static void test_several_processes(void **state) {
    (void)state;
    int32_t cases = 0;
    for (; cases < EXPECTATIONS; cases++) {
        const expectation *e = &expectations[cases];
        spans_launch launch;
        spans_open(&launch, &(spans_options){.counts = e->counts, .processes = (int32_t)strlen(e->hosts), .hosts = e->hosts});
        assert_ok(spans_run(&launch, place_task, (void *)(uintptr_t)e));
        spans_close(&launch);
    }
    assert_int_equal(cases, 7);
}

static muster_status one_process_task(muster_worker *w, void *argument) {
    static const char *const whole[] = {"0/1@0/1", "0/2@0/1 1/2@0/1", "0/3@0/1 1/3@0/1 2/3@0/1"};
    const expectation e = {.whole = whole[muster_worker_size(w) - 1], .reversed = e.whole, .odd = "0/1@0/1"};
    (void)argument;
    return place_task(w, (void *)(uintptr_t)&e);
}

static void test_one_process(void **state) {
    (void)state;
    for (int32_t size = 1; size <= 3; size++) values_run_on(one_process_task, NULL, size);
}

static muster_status refused_task(muster_worker *w, void *argument) {
    const muster_communicator *all = muster_worker_communicator(w);
    muster_place place = {7, 7, 7, 7};
    (void)argument;
    const int32_t size = muster_communicator_size(all);
    if (muster_communicator_place(NULL, 0, &place) != MUSTER_INVALID_ARGUMENT || !strstr(muster_last_error(), "communicator: expected"))
        return mst_error(MUSTER_USER, "NULL is not refused");
    if (muster_communicator_place(all, 0, NULL) != MUSTER_INVALID_ARGUMENT || !strstr(muster_last_error(), "place: expected"))
        return mst_error(MUSTER_USER, "no place is not refused");
    for (int32_t rank = -1; rank <= size; rank += size + 1)
        if (muster_communicator_place(all, rank, &place) != MUSTER_OUT_OF_RANGE || !strstr(muster_last_error(), "rank: expected 0 to 1"))
            return mst_error(MUSTER_USER, "rank %d is not refused: %s", rank, muster_last_error());
    if (place.intra_rank != 7 || place.inter_size != 7) return mst_error(MUSTER_USER, "a refused call has changed the place");
    return muster_communicator_place(all, size - 1, &place);
}

static void test_refusals(void **state) {
    (void)state;
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = (const int32_t[]){1, 1}, .processes = 2});
    assert_ok(spans_run(&launch, refused_task, NULL));
    spans_close(&launch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_processes),
        cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The recorder: newest events, in order, beside a writer. */
#include "recorder_impl.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static mst_recorder *new_recorder(void) {
    mst_recorder *recorder = mst_alloc(sizeof(*recorder));
    assert_non_null(recorder);
    return recorder;
}

static void record(mst_recorder *recorder, const char *name, uint64_t sequence, int64_t bytes) {
    mst_record_end(recorder, mst_record_begin(recorder, MST_EVENT_COLLECTIVE, name, sequence, bytes));
}

static void an_empty_recorder_says_nothing_yet(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    char text[160];
    assert_string_equal(mst_recorder_last(recorder, text, sizeof(text)), "nothing yet");
    assert_int_equal(mst_recorder_progress(recorder), 0);
    mst_free(recorder);
}

static void the_last_event_tells_what_it_is(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    char text[160];
    uint64_t event = mst_record_begin(recorder, MST_EVENT_COLLECTIVE, "all_reduce", 12, 4096);
    assert_memory_equal(mst_recorder_last(recorder, text, sizeof(text)), "collective all_reduce #12, 4096 bytes, since ", 45);
    mst_record_end(recorder, event);
    assert_memory_equal(mst_recorder_last(recorder, text, sizeof(text)), "collective all_reduce #12, 4096 bytes, took ", 44);
    mst_free(recorder);
}

static void progress_grows_with_every_begin_and_end(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    uint64_t before = mst_recorder_progress(recorder);
    for (int32_t i = 0; i < 3 * MST_RECORDER_EVENTS; i++) {
        uint64_t event = mst_record_begin(recorder, MST_EVENT_BODY, "f", 1, 0);
        assert_true(mst_recorder_progress(recorder) > before);
        before = mst_recorder_progress(recorder);
        mst_record_end(recorder, event);
        assert_true(mst_recorder_progress(recorder) > before);
        before = mst_recorder_progress(recorder);
    }
    mst_free(recorder);
}

typedef struct dump {
    int32_t lines;
    uint64_t first, last;
    int32_t rank;
    bool ordered, matching;
} dump;

static void take_line(void *user, const char *line) {
    dump *d = user;
    uint64_t sequence;
    int64_t bytes;
    int rank;
    if (sscanf(line, "rank %d: collective c #%" SCNu64 ", %" SCNd64 " bytes", &rank, &sequence, &bytes) != 3) return;
    if (d->lines == 0) d->first = sequence;
    else if (sequence <= d->last) d->ordered = false;
    if ((uint64_t)bytes != sequence * 3) d->matching = false;
    d->last = sequence;
    d->rank = rank;
    d->lines++;
}

static dump dump_of(const mst_recorder *recorder, int32_t events) {
    dump d = {.ordered = true, .matching = true};
    mst_recorder_dump(recorder, 7, events, take_line, &d);
    return d;
}

static void a_dump_gives_the_newest_events_oldest_first(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    for (uint64_t i = 1; i <= 1000; i++) record(recorder, "c", i, (int64_t)i * 3);
    dump d = dump_of(recorder, 10);
    assert_int_equal(d.lines, 10);
    assert_int_equal(d.first, 991);
    assert_int_equal(d.last, 1000);
    assert_int_equal(d.rank, 7);
    assert_true(d.ordered && d.matching);
    assert_int_equal(dump_of(recorder, 100000).lines, MST_RECORDER_EVENTS - 1);
    assert_int_equal(dump_of(recorder, -1).lines, 0);
    mst_free(recorder);
}

typedef struct writer {
    mst_recorder *recorder;
    _Atomic bool stop;
} writer;

static void *write_events(void *context) {
    writer *w = context;
    for (uint64_t i = 1; !atomic_load(&w->stop); i++) record(w->recorder, "c", i, (int64_t)i * 3);
    return NULL;
}

static void a_reader_beside_the_writer_sees_whole_events(void **state) {
    (void)state;
    writer w = {.recorder = new_recorder()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_events, &w), 0);
    for (int32_t i = 0; i < 200; i++) {
        dump d = dump_of(w.recorder, 100);
        assert_true(d.ordered);
        assert_true(d.matching);
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    mst_free(w.recorder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_recorder_says_nothing_yet),
        cmocka_unit_test(the_last_event_tells_what_it_is),
        cmocka_unit_test(progress_grows_with_every_begin_and_end),
        cmocka_unit_test(a_dump_gives_the_newest_events_oldest_first),
        cmocka_unit_test(a_reader_beside_the_writer_sees_whole_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

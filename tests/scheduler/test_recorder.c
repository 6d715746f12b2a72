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

static void a_message_tells_its_peer_and_tag(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    char text[160];
    uint64_t event = mst_record_message_begin(recorder, "send", 12, 4096, 3, 7);
    const char running[] = "message send #12 with worker 3, tag 7, 4096 bytes, since ",
               ended[] = "message send #12 with worker 3, tag 7, 4096 bytes, took ";
    assert_memory_equal(mst_recorder_last(recorder, text, sizeof(text)), running, sizeof(running) - 1);
    mst_record_end(recorder, event);
    assert_memory_equal(mst_recorder_last(recorder, text, sizeof(text)), ended, sizeof(ended) - 1);
    mst_free(recorder);
}

static void a_message_keeps_the_largest_and_the_smallest_numbers(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    mst_recorded events[2];
    const int64_t bytes = (1ll << 48) - 1;
    mst_record_end(recorder, mst_record_message_begin(recorder, "send", (1 << 25) - 1, bytes, 4095, INT32_MAX));
    mst_record_end(recorder, mst_record_message_begin(recorder, "recv", 1, 0, 0, 0));
    assert_int_equal(mst_recorder_read(recorder, events, 2, NULL), 2);
    assert_true(events[0].kind == MST_EVENT_MESSAGE && events[0].sequence == (1 << 25) - 1 && events[0].bytes == bytes);
    assert_true(events[0].peer == 4095 && events[0].tag == INT32_MAX);
    assert_true(events[1].kind == MST_EVENT_MESSAGE && events[1].sequence == 1 && events[1].bytes == 0 && events[1].peer == 0 &&
                events[1].tag == 0);
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
    if (d->lines == 0)
        d->first = sequence;
    else if (sequence <= d->last)
        d->ordered = false;
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

static void an_event_around_more_than_the_ring_holds_is_lost(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    char text[160];
    uint64_t around = mst_record_begin(recorder, MST_EVENT_CALL, "around", 1, 0), inside = 0;
    for (uint64_t i = 1; i <= MST_RECORDER_EVENTS; i++) inside = mst_record_begin(recorder, MST_EVENT_COLLECTIVE, "inside", i, 0);
    mst_record_end(recorder, around); /* its place is that of the newest event, which has not ended */
    assert_memory_equal(mst_recorder_last(recorder, text, sizeof(text)), "collective inside #256, since ", 30);
    mst_record_end(recorder, inside);
    assert_memory_equal(mst_recorder_last(recorder, text, sizeof(text)), "collective inside #256, took ", 29);
    mst_free(recorder);
}

static void an_event_around_as_many_as_the_ring_holds_ends(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    mst_recorded events[MST_RECORDER_EVENTS];
    uint64_t around = mst_record_begin(recorder, MST_EVENT_CALL, "around", 1, 0), begun;
    for (uint64_t i = 2; i < MST_RECORDER_EVENTS; i++) record(recorder, "inside", i, 0);
    mst_record_end(recorder, around);
    assert_int_equal(mst_recorder_read(recorder, events, MST_RECORDER_EVENTS, &begun), MST_RECORDER_EVENTS - 1);
    assert_int_equal(begun, MST_RECORDER_EVENTS - 1);
    assert_string_equal(events[0].name, "around");
    assert_int_equal(events[0].kind, MST_EVENT_CALL);
    assert_true(events[0].end >= events[254].end && events[254].end >= events[254].start && events[0].start <= events[1].start);
    mst_free(recorder);
}

static void a_ring_of_another_length_is_used_whole(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    mst_recorded events[MST_RECORDER_EVENTS];
    assert_int_equal(mst_recorder_open(recorder, 32, false, "test"), MUSTER_OK);
    for (uint64_t i = 1; i <= 100; i++) record(recorder, "c", i, 0);
    assert_int_equal(mst_recorder_read(recorder, events, MST_RECORDER_EVENTS, NULL), 31);
    for (uint64_t i = 0; i < 31; i++) assert_int_equal(events[i].sequence, 70 + i);
    assert_int_equal(mst_recorder_read(recorder, events, 3, NULL), 3);
    assert_int_equal(events[0].sequence, 98);
    mst_recorder_close(recorder);
    mst_free(recorder);
}

typedef struct overtaking {
    mst_recorder *recorder;
    dump dump;
    int32_t lines;
} overtaking;

/* The writer overtakes the reader between two events: 200 new ones behind the first line. */
static void record_behind_the_first_line(void *user, const char *line) {
    overtaking *o = user;
    take_line(&o->dump, line);
    for (uint64_t i = 1; o->lines == 0 && i <= 200; i++) record(o->recorder, "c", 1000 + i, (int64_t)(1000 + i) * 3);
    o->lines++;
}

static void events_overwritten_during_a_dump_are_left_out(void **state) {
    (void)state;
    overtaking o = {.recorder = new_recorder(), .dump = {.ordered = true, .matching = true}};
    for (uint64_t i = 1; i <= 1000; i++) record(o.recorder, "c", i, (int64_t)i * 3);
    mst_recorder_dump(o.recorder, 7, 1000, record_behind_the_first_line, &o);
    /* Of 746 to 1000: the first, then those that 1001 to 1200 have not replaced; the place of 945
     * is the next to be written. */
    assert_int_equal(o.lines, 1 + 1000 - 945);
    assert_int_equal(o.dump.first, 746);
    assert_int_equal(o.dump.last, 1000);
    assert_true(o.dump.ordered && o.dump.matching);
    mst_free(o.recorder);
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

static void a_reader_of_a_short_ring_sees_whole_events(void **state) {
    (void)state;
    writer w = {.recorder = new_recorder()};
    pthread_t thread;
    mst_recorded events[16];
    assert_int_equal(mst_recorder_open(w.recorder, 16, false, "test"), MUSTER_OK);
    assert_int_equal(pthread_create(&thread, NULL, write_events, &w), 0);
    for (int32_t i = 0; i < 20000; i++) {
        int64_t count = mst_recorder_read(w.recorder, events, 16, NULL);
        for (int64_t e = 0; e < count; e++) {
            assert_true((uint64_t)events[e].bytes == 3 * events[e].sequence && events[e].kind == MST_EVENT_COLLECTIVE);
            assert_true(events[e].end == 0 || events[e].end >= events[e].start);
            if (e > 0) assert_true(events[e].sequence > events[e - 1].sequence && events[e].start >= events[e - 1].end);
        }
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    mst_recorder_close(w.recorder);
    mst_free(w.recorder);
}

static void a_recorder_that_is_off_counts_but_shows_nothing(void **state) {
    (void)state;
    mst_recorder *recorder = new_recorder();
    mst_recorded events[16];
    char text[160];
    uint64_t begun = 1;
    assert_int_equal(mst_recorder_open(recorder, 0, false, "test"), MUSTER_OK);
    for (uint64_t i = 1; i < 2 * MST_RECORDER_EVENTS; i++) {
        uint64_t before = mst_recorder_progress(recorder);
        record(recorder, "inside", i, 0);
        assert_true(mst_recorder_progress(recorder) > before);
    }
    assert_int_equal(mst_recorder_read(recorder, events, 16, &begun), 0);
    assert_int_equal(begun, 0);
    assert_int_equal(dump_of(recorder, 100).lines, 0);
    assert_string_equal(mst_recorder_last(recorder, text, sizeof(text)), "unknown, since the recorder is off");
    mst_recorder_close(recorder);
    mst_free(recorder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorder_that_is_off_counts_but_shows_nothing),
        cmocka_unit_test(an_empty_recorder_says_nothing_yet),
        cmocka_unit_test(the_last_event_tells_what_it_is),
        cmocka_unit_test(a_message_tells_its_peer_and_tag),
        cmocka_unit_test(a_message_keeps_the_largest_and_the_smallest_numbers),
        cmocka_unit_test(progress_grows_with_every_begin_and_end),
        cmocka_unit_test(a_dump_gives_the_newest_events_oldest_first),
        cmocka_unit_test(an_event_around_more_than_the_ring_holds_is_lost),
        cmocka_unit_test(an_event_around_as_many_as_the_ring_holds_ends),
        cmocka_unit_test(a_ring_of_another_length_is_used_whole),
        cmocka_unit_test(events_overwritten_during_a_dump_are_left_out),
        cmocka_unit_test(a_reader_of_a_short_ring_sees_whole_events),
        cmocka_unit_test(a_reader_beside_the_writer_sees_whole_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

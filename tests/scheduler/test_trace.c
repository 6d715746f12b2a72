/* The recorders as a trace file: JSON, nesting, names, rings that wrap, writers beside, paths that
 * fail. */
#include "base_check.h"
#include "scheduler_trace_check.h"
#include "trace_impl.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* One or two workers, a folder of their own and a path in it. */
typedef struct bench {
    mst_recorder *recorders[2];
    mst_trace_track tracks[2];
    char folder[200], path[260];
} bench;

static bench open_bench(void) {
    static const char *const devices[] = {"host cpu 3", "host cpu 7"};
    bench b;
    mst_trace_folder(b.folder, sizeof b.folder);
    snprintf(b.path, sizeof b.path, "%s/trace.json", b.folder);
    for (int r = 0; r < 2; r++) {
        b.recorders[r] = mst_alloc(sizeof(mst_recorder));
        assert_non_null(b.recorders[r]);
        b.tracks[r] = (mst_trace_track){.recorder = b.recorders[r], .device = devices[r]};
    }
    return b;
}

static void close_bench(bench *b) {
    for (int r = 0; r < 2; r++) {
        mst_recorder_close(b->recorders[r]);
        mst_free(b->recorders[r]);
    }
    mst_trace_folder_remove(b->folder);
}

static void write_trace(bench *b) { assert_ok(mst_trace_write(b->tracks, 2, b->path, "test")); }

static void record(mst_recorder *recorder, const char *name, uint64_t sequence, int64_t bytes) {
    mst_record_end(recorder, mst_record_begin(recorder, MST_EVENT_COLLECTIVE, name, sequence, bytes));
}

/* In a process of its own, which has written no trace before: its first `files` temporary names
 * are taken. Returns what it exits with: 0: the trace is written; 1: it is refused, since a file
 * exists. */
static int write_beside(const bench *b, int files) {
    int result;
    const pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < files; i++) {
            char path[320];
            snprintf(path, sizeof path, "%s.%d.%d.tmp", b->path, (int)getpid(), i);
            FILE *file = fopen(path, "w");
            if (!file || fclose(file) != 0) _exit(3);
        }
        const muster_status status = mst_trace_write(b->tracks, 2, b->path, "test");
        _exit(status == MUSTER_OK ? 0 : strstr(muster_last_error(), strerror(EEXIST)) ? 1 : 2);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    return WEXITSTATUS(result);
}

/* A process that was killed while it wrote leaves a file, and a later one may have its id. The
 * first test, since the names of a process are numbered. */
static void files_that_were_left_are_passed_over(void **state) {
    (void)state;
    static const int files[] = {0, 1, 99, 100};
    int cases = 0;
    for (; cases < 4; cases++) {
        bench b = open_bench();
        const bool written = files[cases] < 100;
        assert_int_equal(write_beside(&b, files[cases]), written ? 0 : 1);
        assert_int_equal(mst_trace_folder_entries(b.folder), files[cases] + written);
        if (written) assert_trace(b.path, "events == []");
        close_bench(&b);
    }
    assert_int_equal(cases, 4);
}

static void workers_that_did_nothing_have_empty_tracks(void **state) {
    (void)state;
    bench b = open_bench();
    write_trace(&b);
    assert_trace(b.path, "events == []");
    assert_trace(b.path,
                 "meta(0, 'thread_name') == [{'name': 'rank 0 host cpu 3'}] and meta(1, 'thread_name') == [{'name': 'rank 1 host cpu 7'}]");
    assert_trace(b.path, "[meta(r, 'thread_sort_index')[0]['sort_index'] for r in (0, 1)] == [0, 1]");
    assert_trace(b.path, "len(meta(None, 'process_name')) == 1 and len({e['pid'] for e in trace['traceEvents']}) == 1");
    close_bench(&b);
}

static void an_event_keeps_all_that_was_recorded(void **state) {
    (void)state;
    bench b = open_bench();
    record(b.recorders[1], "all_reduce", 12, 4096);
    write_trace(&b);
    assert_trace(b.path,
                 "len(events) == 1 and of(1)[0]['name'] == 'all_reduce' and of(1)[0]['ph'] == 'X' and of(1)[0]['cat'] == 'collective'");
    assert_trace(b.path, "events[0]['args'] == {'sequence': 12, 'bytes': 4096, 'kind': 'collective'}");
    close_bench(&b);
}

/* An hour is more than what happens between this event and the file. */
static void times_are_those_of_process_0(void **state) {
    (void)state;
    static const int64_t hour_ns = 3600000000000;
    bench b = open_bench();
    char expression[120];
    record(b.recorders[0], "all_reduce", 1, 8);
    const double now_us = (double)mst_now_ns() / 1e3;
    for (int32_t hours = -1; hours <= 1; hours++) {
        for (int r = 0; r < 2; r++) b.tracks[r].ahead_ns = hours * hour_ns;
        write_trace(&b);
        snprintf(expression, sizeof expression, "abs(events[0]['ts'] - max(0, %.0f)) < 1.8e9", now_us - 3.6e9 * hours);
        assert_trace(b.path, expression);
    }
    close_bench(&b);
}

static void a_message_has_its_peer_and_tag(void **state) {
    (void)state;
    bench b = open_bench();
    mst_record_end(b.recorders[1], mst_record_message_begin(b.recorders[1], "recv", 12, 4096, 0, 7));
    write_trace(&b);
    assert_trace(b.path, "events[0]['name'] == 'recv' and events[0]['cat'] == 'message'");
    assert_trace(b.path, "events[0]['args'] == {'sequence': 12, 'bytes': 4096, 'kind': 'message', 'peer': 0, 'tag': 7}");
    close_bench(&b);
}

static void times_are_microseconds_of_the_monotonic_clock(void **state) {
    (void)state;
    bench b = open_bench();
    char expression[200];
    mst_ticks_per_ns(); /* measures for a millisecond the first time */
    int64_t before = mst_now_ns();
    uint64_t event = mst_record_begin(b.recorders[0], MST_EVENT_BODY, "pause", 1, 0);
    usleep(20000);
    mst_record_end(b.recorders[0], event);
    int64_t after = mst_now_ns();
    write_trace(&b);
    /* Half of what it must be and twice what it may be: the tick rate is measured, the unit is what
     * is tested. */
    snprintf(expression, sizeof expression, "10000 <= events[0]['dur'] <= %lld and abs(events[0]['ts'] - %lld) < 1e6",
             (long long)(after - before) / 500, (long long)before / 1000);
    assert_trace(b.path, expression);
    close_bench(&b);
}

static void events_nest_and_times_grow(void **state) {
    (void)state;
    bench b = open_bench();
    for (int call = 0; call < 20; call++) {
        uint64_t event = mst_record_begin(b.recorders[0], MST_EVENT_CALL, "outer", (uint64_t)call, 0);
        for (int i = 0; i < 5; i++) record(b.recorders[0], "inner", (uint64_t)i, 8);
        mst_record_end(b.recorders[0], event);
    }
    write_trace(&b);
    assert_trace(b.path, "[e['name'] for e in of(0)] == (['outer'] + ['inner'] * 5) * 20");
    assert_trace(b.path, "all(a['ts'] <= b['ts'] for a, b in zip(of(0), of(0)[1:]))");
    assert_trace(b.path, "all(of(0)[i]['ts'] + of(0)[i]['dur'] + 1e-4 >= "
                         "of(0)[i + k]['ts'] + of(0)[i + k]['dur'] for i in range(0, 120, 6) for k in range(6))");
    assert_trace(b.path, "all(a['ts'] + a['dur'] <= b['ts'] + 1e-4 for a, b in zip(of(0)[::6], of(0)[6::6]))");
    close_bench(&b);
}

static void an_unfinished_event_only_begins(void **state) {
    (void)state;
    bench b = open_bench();
    mst_record_begin(b.recorders[0], MST_EVENT_CALL, "stuck", 1, 0);
    record(b.recorders[0], "done", 2, 0);
    write_trace(&b);
    assert_trace(b.path, "[(e['name'], e['ph'], 'dur' in e) for e in events] == [('stuck', 'B', False), ('done', 'X', True)]");
    close_bench(&b);
}

static void names_of_any_bytes_are_escaped(void **state) {
    (void)state;
    bench b = open_bench();
    static const char *const names[] = {"a\"b\\c/d",
                                        "line\nbreak\ttab\x01",
                                        "\xC3\xA9t\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80",
                                        "",
                                        "bad \xFF\xC3(",
                                        "long \xC0\xAF\xE0\x80\xAF",
                                        "surrogate \xED\xA0\x80",
                                        "beyond \xF4\x90\x80\x80",
                                        "cut \xE2\x82"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) record(b.recorders[0], names[i], i, 0);
    record(b.recorders[0], NULL, 99, 0);
    b.tracks[1].device = "\"quoted\"\n";
    write_trace(&b);
    assert_trace(b.path,
                 "[e['name'] for e in events][:4] == ['a\"b\\\\c/d', 'line\\nbreak\\ttab\\x01', '\\xe9t\\xe9 \\u20ac \\U0001f600', '']");
    assert_trace(b.path, "[e['name'] for e in events][4:6] == ['bad \\ufffd\\ufffd(', 'long ' + 5 * '\\ufffd']");
    assert_trace(
        b.path,
        "[e['name'] for e in events][6:] == ['surrogate ' + 3 * '\\ufffd', 'beyond ' + 4 * '\\ufffd', 'cut ' + 2 * '\\ufffd', '?']");
    assert_trace(b.path, "meta(1, 'thread_name')[0]['name'] == 'rank 1 \"quoted\"\\n'");
    close_bench(&b);
}

static void a_ring_that_wraps_shows_its_newest_events(void **state) {
    (void)state;
    bench b = open_bench();
    assert_ok(mst_recorder_open(b.recorders[1], 16, false, "test"));
    for (uint64_t i = 1; i <= 1000; i++) record(b.recorders[0], "c", i, 0);
    for (uint64_t i = 1; i <= 100; i++) record(b.recorders[1], "c", i, 0);
    write_trace(&b);
    assert_trace(b.path, "[e['args']['sequence'] for e in of(0)] == list(range(746, 1001))");
    assert_trace(b.path, "[e['args']['sequence'] for e in of(1)] == list(range(86, 101))");
    assert_trace(b.path, "trace['otherData']['events lost'] == 745 + 85");
    close_bench(&b);
}

static void a_longer_ring_keeps_more(void **state) {
    (void)state;
    bench b = open_bench();
    assert_ok(mst_recorder_open(b.recorders[0], 4096, false, "test"));
    for (uint64_t i = 1; i <= 5000; i++) record(b.recorders[0], "c", i, 0);
    write_trace(&b);
    assert_trace(b.path, "[e['args']['sequence'] for e in of(0)] == list(range(906, 5001))");
    close_bench(&b);
}

typedef struct busy {
    mst_recorder *recorder;
    _Atomic bool stop;
} busy;

static void *keep_recording(void *context) {
    busy *w = context;
    for (uint64_t i = 1; !atomic_load(&w->stop); i++) {
        uint64_t event = mst_record_begin(w->recorder, MST_EVENT_CALL, "outer", i, (int64_t)i * 3);
        record(w->recorder, "inner", i, (int64_t)i * 3);
        mst_record_end(w->recorder, event);
    }
    return NULL;
}

/* What it holds is consistent: the numbers of an event fit together, sequences and times grow. */
static void a_trace_beside_busy_workers_holds_whole_events(void **state) {
    (void)state;
    enum { TRACES = 5 };
    bench b = open_bench();
    char paths[TRACES][260];
    busy w[2] = {{.recorder = b.recorders[0]}, {.recorder = b.recorders[1]}};
    pthread_t threads[2];
    assert_ok(mst_recorder_open(b.recorders[1], 16, false, "test"));
    for (int r = 0; r < 2; r++) assert_int_equal(pthread_create(&threads[r], NULL, keep_recording, &w[r]), 0);
    while (mst_recorder_progress(b.recorders[0]) < 10) sched_yield();
    for (int i = 0; i < TRACES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.json", b.folder, i);
        assert_ok(mst_trace_write(b.tracks, 2, paths[i], "test"));
    }
    for (int r = 0; r < 2; r++) {
        atomic_store(&w[r].stop, true);
        pthread_join(threads[r], NULL);
    }
    for (int i = 0; i < TRACES; i++) {
        assert_trace(
            paths[i],
            "all(e['args']['bytes'] == 3 * e['args']['sequence'] and e['ph'] in 'XB' and e.get('dur', 0) >= 0 for e in events) and "
            "all(e['args']['kind'] == ('call' if e['name'] == 'outer' else 'collective') for e in events) and "
            "all(a['args']['sequence'] <= b['args']['sequence'] and a['ts'] <= b['ts'] for r in (0, 1) for a, b in zip(of(r), of(r)[1:]))");
    }
    close_bench(&b);
}

static void a_trace_replaces_the_file_and_leaves_nothing_else(void **state) {
    (void)state;
    bench b = open_bench();
    write_trace(&b);
    record(b.recorders[0], "later", 1, 0);
    write_trace(&b);
    assert_trace(b.path, "[e['name'] for e in events] == ['later']");
    assert_int_equal(mst_trace_folder_entries(b.folder), 1);
    close_bench(&b);
}

static void a_link_keeps_being_one(void **state) {
    (void)state;
    bench b = open_bench();
    char link[260];
    struct stat found;
    write_trace(&b);
    snprintf(link, sizeof link, "%s/link", b.folder);
    assert_int_equal(symlink("trace.json", link), 0);
    record(b.recorders[0], "later", 1, 0);
    assert_ok(mst_trace_write(b.tracks, 2, link, "test"));
    assert_int_equal(lstat(link, &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    assert_trace(b.path, "len(events) == 1");
    close_bench(&b);
}

static void paths_that_cannot_be_written_are_refused(void **state) {
    (void)state;
    bench b = open_bench();
    int64_t live = mst_memory_live();
    char missing[300], *longest = mst_alloc(9000);
    assert_refused(mst_trace_write(b.tracks, 2, NULL, "test"), MUSTER_INVALID_ARGUMENT,
                   "test: path: expected the path of a file, received NULL");
    assert_refused(mst_trace_write(b.tracks, 2, "", "test"), MUSTER_INVALID_ARGUMENT, "received ''");
    assert_refused(mst_trace_write(b.tracks, 2, b.folder, "test"), MUSTER_INVALID_ARGUMENT, "which is something else");
    assert_refused(mst_trace_write(b.tracks, 2, "/dev/null", "test"), MUSTER_INVALID_ARGUMENT,
                   "received '/dev/null', which is something else");
    snprintf(missing, sizeof missing, "%s/none/trace.json", b.folder);
    assert_refused(mst_trace_write(b.tracks, 2, missing, "test"), MUSTER_SYSTEM,
                   "test: path: expected a file that can be written, received '");
    assert_refused(mst_trace_write(b.tracks, 2, missing, "test"), MUSTER_SYSTEM, "No such file or directory");
    memset(longest, 'x', 8999);
    assert_refused(mst_trace_write(b.tracks, 2, longest, "test"), MUSTER_SYSTEM, "File name too long");
    mst_free(longest);
    assert_int_equal(mst_trace_folder_entries(b.folder), 0);
    assert_int_equal(mst_memory_live(), live);
    close_bench(&b);
}

/* As on a full disk: the file is there already when writing fails. */
static void a_file_that_cannot_be_finished_is_removed(void **state) {
    (void)state;
    bench b = open_bench();
    write_trace(&b);
    assert_int_equal(mst_trace_folder_entries(b.folder), 1);
    for (uint64_t i = 0; i < 255; i++) record(b.recorders[0], "c", i, 0);
    pid_t child = fork(); /* the limit and the signal are the child's alone */
    if (child == 0) {
        struct rlimit limit = {4096, 4096};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(mst_trace_write(b.tracks, 2, b.path, "test") == MUSTER_SYSTEM && strstr(muster_last_error(), "File too large") ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_int_equal(mst_trace_folder_entries(b.folder), 1);
    assert_trace(b.path, "events == []"); /* the old one */
    close_bench(&b);
}

static void a_failing_allocation_writes_nothing(void **state) {
    (void)state;
    bench b = open_bench();
    int64_t live = mst_memory_live();
    mst_memory_fail_at(1);
    muster_status status = mst_trace_write(b.tracks, 2, b.path, "test");
    mst_memory_fail_at(0);
    assert_refused(status, MUSTER_OUT_OF_MEMORY, "test: out of memory");
    mst_memory_fail_at(1);
    status = mst_recorder_open(b.recorders[0], 1024, false, "test");
    mst_memory_fail_at(0);
    assert_refused(status, MUSTER_OUT_OF_MEMORY, "test: out of memory, 40960 bytes");
    record(b.recorders[0], "still", 1, 0);
    assert_int_equal(mst_trace_folder_entries(b.folder), 0);
    assert_int_equal(mst_memory_live(), live);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_were_left_are_passed_over),
        cmocka_unit_test(workers_that_did_nothing_have_empty_tracks),
        cmocka_unit_test(an_event_keeps_all_that_was_recorded),
        cmocka_unit_test(times_are_those_of_process_0),
        cmocka_unit_test(a_message_has_its_peer_and_tag),
        cmocka_unit_test(times_are_microseconds_of_the_monotonic_clock),
        cmocka_unit_test(events_nest_and_times_grow),
        cmocka_unit_test(an_unfinished_event_only_begins),
        cmocka_unit_test(names_of_any_bytes_are_escaped),
        cmocka_unit_test(a_ring_that_wraps_shows_its_newest_events),
        cmocka_unit_test(a_longer_ring_keeps_more),
        cmocka_unit_test(a_trace_beside_busy_workers_holds_whole_events),
        cmocka_unit_test(a_trace_replaces_the_file_and_leaves_nothing_else),
        cmocka_unit_test(a_link_keeps_being_one),
        cmocka_unit_test(paths_that_cannot_be_written_are_refused),
        cmocka_unit_test(a_file_that_cannot_be_finished_is_removed),
        cmocka_unit_test(a_failing_allocation_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

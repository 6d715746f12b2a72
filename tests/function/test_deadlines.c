/* Deadlines of one call: they take the place of the runtime's for this call alone. No test depends
 * on how fast anything is: who is late waits for the failure itself, and a call that must not fail
 * waits for something that comes. */
#include "base_machine.h"
#include "base_pace.h"
#include "base_skip.h"
#include "function_fixture.h"
#include "muster/communicator.h"
#include "muster/nodes.h"
#include "scheduler_stand_still.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { MILLISECOND = 1000000 };

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    int32_t late;         /* the rank that keeps the others waiting; -1: none */
    bool comes;           /* after a while; or not before it is cancelled */
    bool until_warned;    /* it comes when a warning has been logged */
    _Atomic int warnings; /* lines of the log */
} world;

static void pass_time(int64_t ns) { nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL); }

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    world *t = user;
    if (muster_worker_rank(w) == t->late) {
        if (t->comes && !t->until_warned) pass_time(test_patience(150 * MILLISECOND));
        for (int i = 0; t->until_warned && i < (int)(20000 * test_pace()) && atomic_load(&t->warnings) == 0; i++) pass_time(MILLISECOND);
        if (!t->comes) stand_still_until_cancelled(w);
    }
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    return muster_sum(w, in[0], out[0]);
}

static void count_line(void *user, muster_log_level level, const char *line) {
    (void)level;
    world *t = user;
    if (strstr(line, "waited") || strstr(line, "waits")) atomic_fetch_add(&t->warnings, 1);
}

static void open_world(world *t, int64_t warn_after_ns, int64_t fail_after_ns) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    memset(t, 0, sizeof *t);
    options.devices = "host:3";
    options.logical_shards = -1;
    options.warn_after_ns = warn_after_ns;
    options.fail_after_ns = test_patience(fail_after_ns);
    options.log = count_line;
    options.log_user = t;
    assert_ok(muster_runtime_open(&options, &t->runtime));
    assert_ok(muster_function_create(t->runtime, "f", body, t, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(t->f, "y", MUSTER_F32, 0, MUSTER_SUM));
}

static muster_status call(world *t, int32_t late, bool comes, const muster_call_options *options) {
    float x[6] = {1, 2, 3, 4, 5, 6}, y = 0;
    t->late = late;
    t->comes = comes;
    const muster_status status =
        muster_function_call(t->f, (muster_tensor[]){muster_f32(x, 6)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, options);
    if (!status) assert_float_equal(y, 21, 0);
    return status;
}

/* The call has failed because that rank is late. A rank of its process names it; the others know
 * its process. */
static void assert_late(const world *t, muster_status status, int32_t late) {
    char rank[64], of_process[64];
    int32_t process = 0;
    while (muster_runtime_first_rank(t->runtime, process + 1) <= late) process++;
    snprintf(rank, sizeof rank, "for rank %d, which made no progress", (int)late);
    snprintf(of_process, sizeof of_process, "for process %d (", (int)process);
    const bool several = muster_runtime_processes(t->runtime) > 1;
    assert_refused(status, MUSTER_TIMEOUT, several && !strstr(muster_last_error(), rank) ? of_process : rank);
}

static muster_call_options deadlines(int64_t warn_after_ns, int64_t fail_after_ns) {
    muster_call_options options;
    muster_call_options_init(&options);
    options.warn_after_ns = warn_after_ns;
    options.fail_after_ns = fail_after_ns == 1 ? 1 : test_patience(fail_after_ns); /* 1: at once, on any machine */
    return options;
}

static void the_call_fails_at_its_own_deadline_and_names_the_late_rank(void **unused) {
    (void)unused;
    world t;
    open_world(&t, -1, -1);
    const muster_call_options soon = deadlines(0, 60 * MILLISECOND);
    for (int32_t late = 0; late < 3; late++) {
        assert_late(&t, call(&t, late, false, &soon), late);
        assert_ok(call(&t, -1, false, NULL));
    }
    fixture_close(t.runtime);
}

static void the_next_call_has_the_deadlines_of_the_runtime_again(void **unused) {
    (void)unused;
    world t;
    open_world(&t, -1, 60 * MILLISECOND);
    const muster_call_options never = deadlines(0, -1), much_later = deadlines(0, 1000000LL * MILLISECOND);
    assert_ok(call(&t, 1, true, &never));
    assert_late(&t, call(&t, 1, false, NULL), 1);
    assert_ok(call(&t, 2, true, &much_later));
    assert_late(&t, call(&t, 2, false, NULL), 2);
    assert_ok(call(&t, -1, false, NULL));
    fixture_close(t.runtime);
}

static void a_refused_call_leaves_no_deadline_behind(void **unused) {
    (void)unused;
    world t;
    open_world(&t, -1, -1);
    const muster_call_options soon = deadlines(0, 1);
    assert_refused(muster_function_call(t.f, NULL, 0, NULL, 0, &soon), MUSTER_INVALID_ARGUMENT,
                   "input_count: expected the 1 of function 'f', received 0");
    assert_ok(call(&t, 1, true, NULL));
    fixture_close(t.runtime);
}

static void a_single_call_leaves_no_deadline_behind(void **unused) {
    (void)unused;
    world t;
    float x[6] = {1, 2, 3, 4, 5, 6}, y = 0;
    if (on_gpus()) SKIP("not on GPUs: a call waits for its GPU, which takes longer than this deadline");
    open_world(&t, -1, -1);
    const muster_call_options soon = deadlines(0, 1);
    t.late = -1;
    assert_ok(muster_function_call_single(t.f, (muster_tensor[]){muster_f32(x, 6)}, 1, (muster_tensor[]){muster_f32(&y)}, 1, &soon));
    assert_float_equal(y, 21, 0);
    assert_ok(call(&t, 1, true, NULL));
    fixture_close(t.runtime);
}

static void the_call_warns_at_its_own_time(void **unused) {
    (void)unused;
    world t;
    open_world(&t, -1, -1);
    const muster_call_options warn = deadlines(30 * MILLISECOND, 0), warn_and_fail = deadlines(30 * MILLISECOND, 200 * MILLISECOND);
    assert_ok(call(&t, 1, true, NULL));
    assert_int_equal(processes_sum(atomic_load(&t.warnings)), 0);
    t.until_warned = true;
    assert_ok(call(&t, 1, true, &warn));
    t.until_warned = false;
    assert_true(processes_sum(atomic_load(&t.warnings)) > 0);
    atomic_store(&t.warnings, 0);
    assert_late(&t, call(&t, 2, false, &warn_and_fail), 2);
    assert_true(processes_sum(atomic_load(&t.warnings)) > 0);
    fixture_close(t.runtime);
}

/* ---- options of other sizes ---- */

static void options_of_older_programs_are_read_as_far_as_they_go(void **unused) {
    (void)unused;
    world t;
    open_world(&t, -1, -1);
    muster_call_options old = deadlines(1, 1); /* an older program has other things there */
    old.slices = 2;
    old.struct_size = offsetof(muster_call_options, warn_after_ns);
    assert_ok(call(&t, 1, true, &old));
    old.slices = -1;
    assert_refused(call(&t, -1, false, &old), MUSTER_INVALID_ARGUMENT, "slices: expected at least 0 (0 means 1), received -1");
    old.struct_size = offsetof(muster_call_options, replica_batch);
    assert_ok(call(&t, 1, true, &old));
    old.struct_size--;
    assert_refused(call(&t, -1, false, &old), MUSTER_INVALID_ARGUMENT,
                   "options: struct_size of muster_call_options: expected the size of the program's struct, a multiple of 8 up to 4096 "
                   "(muster_call_options_init sets 104), received 47");
    fixture_close(t.runtime);
}

static void options_of_newer_programs_must_not_ask_for_what_is_unknown(void **unused) {
    (void)unused;
    world t;
    struct {
        muster_call_options known;
        int64_t later;
    } newer = {.known = deadlines(0, 60 * MILLISECOND), .later = 0};
    open_world(&t, -1, -1);
    newer.known.struct_size = sizeof newer;
    assert_late(&t, call(&t, 1, false, &newer.known), 1);
    newer.later = 1;
    assert_refused(
        call(&t, -1, false, &newer.known), MUSTER_UNSUPPORTED,
        "options: expected the 104 bytes of muster_call_options that this library knows, with nothing but zeros behind them, received "
        "112 bytes with a field set at offset 104");
    newer.later = 0;
    assert_ok(call(&t, -1, false, &newer.known));
    fixture_close(t.runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_call_fails_at_its_own_deadline_and_names_the_late_rank),
        cmocka_unit_test(the_next_call_has_the_deadlines_of_the_runtime_again),
        cmocka_unit_test(a_refused_call_leaves_no_deadline_behind),
        cmocka_unit_test(a_single_call_leaves_no_deadline_behind),
        cmocka_unit_test(the_call_warns_at_its_own_time),
        cmocka_unit_test(options_of_older_programs_are_read_as_far_as_they_go),
        cmocka_unit_test(options_of_newer_programs_must_not_ask_for_what_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Ending calls of several processes: told in one of them, wherever its workers are by then, they
 * fail in all with the same sentence. Those that wait for their turn fail one by one, and no later
 * ones do. The processes are threads with runtimes of their own, on two or three hosts. */
#include "base_seed.h"
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/ops.h"
#include "muster/variable.h"
#include "runtime_launch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST = 3, QUEUED = 64, ROWS = 12 };

/* What bodies do until the call is ended. The odd process is the last one. */
typedef enum {
    ALL_LOOK,
    ODD_LOOKS_OTHERS_MEET,
    ODD_MEETS_OTHERS_LOOK,
    ODD_LOOKS_OTHERS_RECEIVE,
    ODD_HAS_RETURNED, /* and waits for the end of the call */
    OTHERS_HAVE_RETURNED,
    ODD_FAILS_ITS_OWN_WAY, /* when it sees that the call is ended */
    WAYS,
    SLEEP = WAYS, /* and do not look */
    RETURN
} way;

typedef struct scene {
    int32_t processes, ranks, told;
    _Atomic way way;
    _Atomic int entered, returned;
    _Atomic bool open; /* bodies that sleep wake */
    muster_runtime *_Atomic runtimes[MOST];
    _Atomic int32_t statuses[MOST];
    _Atomic int checked, ok, ended;
} scene;

/* What a process has. */
typedef struct program {
    launch_process *p;
    scene *s;
    muster_runtime *runtime;
    muster_function *f;
    muster_variable *v;
} program;

static void pass_time(void) { nanosleep(&(struct timespec){0, 200000}, NULL); }

/* ---- bodies ---- */

static muster_status look(muster_worker *w) {
    while (!muster_worker_cancelled(w)) pass_time();
    return MUSTER_OK;
}

static muster_status meet(muster_worker *w) {
    float x = 1, sum;
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, muster_f32(&x), muster_f32(&sum));
}

static muster_status receive(muster_worker *w) {
    float x;
    return muster_worker_recv(w, NULL, muster_worker_size(w) - 1, 7, muster_f32(&x));
}

static muster_status act(const scene *s, muster_worker *w, bool odd) {
    switch (atomic_load(&s->way)) {
    case ALL_LOOK:
        return look(w);
    case ODD_LOOKS_OTHERS_MEET:
        return odd ? look(w) : meet(w);
    case ODD_MEETS_OTHERS_LOOK:
        return odd ? meet(w) : look(w);
    case ODD_LOOKS_OTHERS_RECEIVE:
        return odd ? look(w) : receive(w);
    case ODD_HAS_RETURNED:
        return odd ? MUSTER_OK : look(w);
    case OTHERS_HAVE_RETURNED:
        return odd ? look(w) : MUSTER_OK;
    case ODD_FAILS_ITS_OWN_WAY:
        MUSTER_TRY(look(w));
        return odd ? muster_fail(MUSTER_USER, "stopped") : MUSTER_OK;
    default:
        while (s->way == SLEEP && !atomic_load(&s->open)) pass_time();
        return MUSTER_OK;
    }
}

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const program *g = user;
    muster_tensor update;
    atomic_fetch_add(&g->s->entered, 1);
    MUSTER_TRY(act(g->s, w, muster_worker_process(w) == g->s->processes - 1));
    atomic_fetch_add(&g->s->returned, 1);
    if (g->s->way < SLEEP) return MUSTER_OK;
    MUSTER_TRY(muster_worker_update(w, g->v, &update));
    MUSTER_TRY(muster_fill(w, 1, update));
    return muster_sum(w, in[0], out[0]);
}

/* ---- programs ---- */

static float rows[ROWS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static bool is_told(const program *g) { return g->p->process == g->s->told; }
static int ranks_in_all(const scene *s) { return s->processes * s->ranks; }

static bool program_open(launch_process *p, program *g) {
    const char *const devices[] = {"", "host:1", "host:2"};
    float zero = 0;
    *g = (program){.p = p, .s = p->context};
    const muster_runtime_options options = launch_options(devices[g->s->ranks]);
    const muster_tensor value = muster_f32(&zero);
    muster_status status = muster_runtime_open(&options, &g->runtime);
    if (!status) status = muster_variable_create(g->runtime, "v", value, &g->v);
    if (!status) status = muster_function_create(g->runtime, "f", body, g, &g->f);
    if (!status) status = muster_function_input(g->f, "x", MUSTER_F32, 1, MUSTER_SCATTER);
    if (!status) status = muster_function_output(g->f, "y", MUSTER_F32, 0, MUSTER_SUM);
    if (!status) status = muster_function_update(g->f, g->v, MUSTER_MASTER);
    g->s->runtimes[p->process] = g->runtime;
    if (!status) return launch_meet(p);
    snprintf(p->error, sizeof p->error, "%s", muster_last_error());
    launch_note_failure();
    return false;
}

static void program_close(launch_process *p, program *g) {
    if (!launch_meet(p)) return;
    atomic_fetch_add(&g->s->checked, 1);
    launch_ok(p, muster_runtime_close(g->runtime));
}

static muster_status call(const program *g, float *y) {
    const muster_tensor in = muster_f32(rows, ROWS), out = muster_f32(y);
    return muster_function_call(g->f, &in, 1, &out, 1, NULL);
}

static muster_status send(const program *g, float *y, muster_pending **pending) {
    const muster_tensor in = muster_f32(rows, ROWS), out = muster_f32(y);
    return muster_function_call_async(g->f, &in, 1, &out, 1, NULL, pending);
}

static void wait_for(_Atomic int *count, int least) {
    while (atomic_load(count) < least && !launch_has_failed()) pass_time();
}

/* The updates of calls that were ended are nowhere. */
static void check_works(launch_process *p, const program *g) {
    float y = 0, value = -1;
    launch_ok(p, muster_variable_get(g->v, 0, muster_f32(&value)));
    launch_check(p, value == 0);
    if (!launch_meet(p)) return;
    g->s->way = RETURN;
    launch_ok(p, call(g, &y));
    launch_check(p, y == 78);
    launch_ok(p, muster_variable_get(g->v, 0, muster_f32(&value)));
    launch_check(p, value == 1);
    value = 0;
    launch_ok(p, muster_variable_set(g->v, 0, muster_f32(&value)));
}

static const char *sentence(const scene *s, const char *where, char text[200]) {
    snprintf(text, 200, "%s: muster_runtime_cancel has ended the call, in process %d (host host%d)", where, (int)s->told, (int)s->told);
    return text;
}

/* ---- wherever it is ---- */

static void end_in_each_way(launch_process *p) {
    program g;
    char text[200];
    if (!program_open(p, &g)) return;
    for (int way = 0; way < WAYS; way++) {
        float y = -1;
        muster_pending *pending;
        if (!launch_meet(p)) return;
        g.s->way = way;
        g.s->entered = g.s->returned = 0;
        if (!launch_meet(p)) return;
        launch_ok(p, send(&g, &y, &pending));
        wait_for(&g.s->entered, ranks_in_all(g.s));
        if (way == ODD_HAS_RETURNED) wait_for(&g.s->returned, g.s->ranks);
        if (way == OTHERS_HAVE_RETURNED) wait_for(&g.s->returned, ranks_in_all(g.s) - g.s->ranks);
        for (int i = 0; i < 10; i++) pass_time(); /* to the end of the call */
        if (!launch_meet(p)) return;
        if (is_told(&g)) muster_runtime_cancel(g.runtime);
        launch_says(p, muster_pending_wait(&pending), MUSTER_CANCELLED, sentence(g.s, "muster_function_call_async: function 'f'", text));
        check_works(p, &g);
        if (p->error[0]) return;
    }
    program_close(p, &g);
}

static void run_each(launch_body run, int *runs) {
    for (int processes = 2; processes <= MOST; processes++)
        for (int ranks = 1; ranks <= 2; ranks++)
            for (int told = 0; told < processes; told++) {
                scene s = {.processes = processes, .ranks = ranks, .told = told};
                launch_run_failing(&(wire_launch_options){.processes = processes, .processes_per_host = 1}, run, &s);
                assert_int_equal(s.checked, processes);
                ++*runs;
            }
    assert_int_equal(*runs, 2 * (2 + 3));
}

static void a_running_call_ends_in_all_processes(void **state) {
    int runs = 0;
    (void)state;
    run_each(end_in_each_way, &runs);
}

/* ---- those that wait ---- */

typedef struct setter {
    const program *g;
    muster_status status;
    char message[256];
    _Atomic bool came;
} setter;

static void *set_variable(void *context) {
    setter *s = context;
    float two = 2;
    wire_launch_join(s->g->p->wire, s->g->p->process);
    atomic_store(&s->came, true);
    s->status = muster_variable_set(s->g->v, 0, muster_f32(&two));
    snprintf(s->message, sizeof s->message, "%s", muster_last_error());
    wire_launch_join(NULL, 0);
    return NULL;
}

static void end_what_waits(launch_process *p) {
    program g;
    char text[200];
    float y[QUEUED + 2];
    muster_pending *pending[QUEUED + 2];
    pthread_t thread;
    if (!program_open(p, &g)) return;
    setter set = {.g = &g};
    g.s->way = SLEEP;
    for (int i = 0; i <= QUEUED; i++) {
        y[i] = -1;
        launch_ok(p, send(&g, &y[i], &pending[i]));
        if (i == 0) wait_for(&g.s->entered, ranks_in_all(g.s)); /* the one that runs does not count */
    }
    launch_check(p, pthread_create(&thread, NULL, set_variable, &set) == 0);
    while (!set.came) pass_time();
    for (int i = 0; i < 20; i++) pass_time(); /* until it waits for its turn */
    if (!launch_meet(p)) return;
    if (is_told(&g)) muster_runtime_cancel(g.runtime);
    if (!launch_meet(p)) return;
    y[QUEUED + 1] = -1;
    launch_ok(p, send(&g, &y[QUEUED + 1], &pending[QUEUED + 1])); /* later than the cancel */
    atomic_store(&g.s->open, true);
    launch_says(p, muster_pending_wait(&pending[0]), MUSTER_CANCELLED, sentence(g.s, "muster_function_call_async: function 'f'", text));
    for (int i = 1; i <= QUEUED; i++)
        launch_says(p, muster_pending_wait(&pending[i]), MUSTER_CANCELLED, sentence(g.s, "muster_function_call_async", text));
    pthread_join(thread, NULL);
    launch_check(p, set.status == MUSTER_CANCELLED && strcmp(set.message, sentence(g.s, "muster_variable_set", text)) == 0);
    launch_ok(p, muster_pending_wait(&pending[QUEUED + 1]));
    for (int i = 1; i <= QUEUED; i++) launch_check(p, y[i] == -1);
    launch_check(p, y[QUEUED + 1] == 78);
    launch_check(p, g.s->entered == 2 * ranks_in_all(g.s));
    float value = -1;
    launch_ok(p, muster_variable_get(g.v, 0, muster_f32(&value)));
    launch_check(p, value == 1); /* by the last call alone */
    program_close(p, &g);
}

static void all_that_wait_fail_one_by_one_and_no_later_ones(void **state) {
    int runs = 0;
    (void)state;
    run_each(end_what_waits, &runs);
}

/* The process that is told waits for the others, which have not made the call yet. */
static void end_before_the_others_come(launch_process *p) {
    program g;
    char text[200];
    float y = -1;
    muster_pending *pending;
    if (!program_open(p, &g)) return;
    g.s->way = RETURN;
    if (is_told(&g)) {
        launch_ok(p, send(&g, &y, &pending));
        for (int i = 0; i < 10; i++) pass_time();
        muster_runtime_cancel(g.runtime);
        if (!launch_meet(p)) return;
        launch_refused(p, muster_pending_wait(&pending), MUSTER_CANCELLED, sentence(g.s, "", text));
    } else {
        if (!launch_meet(p)) return;
        launch_refused(p, call(&g, &y), MUSTER_CANCELLED, sentence(g.s, "", text));
    }
    launch_check(p, y == -1 || y == 78);
    check_works(p, &g);
    if (!p->error[0]) program_close(p, &g);
}

static void a_call_that_others_have_not_made_ends_when_they_do(void **state) {
    int runs = 0;
    (void)state;
    run_each(end_before_the_others_come, &runs);
}

static void end_nothing(launch_process *p) {
    program g;
    if (!program_open(p, &g)) return;
    if (is_told(&g)) muster_runtime_cancel(g.runtime);
    check_works(p, &g);
    if (!p->error[0]) program_close(p, &g);
}

static void nothing_is_remembered(void **state) {
    int runs = 0;
    (void)state;
    run_each(end_nothing, &runs);
}

/* ---- on one device ---- */

static muster_status single_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const program *g = user;
    (void)in;
    if (g->s->way == RETURN) return muster_fill(w, 3, out[0]);
    for (int i = 0; i < 10; i++) pass_time(); /* the others come to the end of the call */
    muster_runtime_cancel(g->s->runtimes[g->s->told]);
    return look(w);
}

/* It runs in process 0, also where another process is told. */
static void end_a_single_call(launch_process *p) {
    program g;
    muster_function *single;
    char text[200];
    float y = -1;
    if (!program_open(p, &g)) return;
    const muster_tensor out = muster_f32(&y);
    launch_ok(p, muster_function_create(g.runtime, "single", single_body, &g, &single));
    launch_ok(p, muster_function_output(single, "y", MUSTER_F32, 0, MUSTER_SUM));
    g.s->way = ALL_LOOK;
    if (!launch_meet(p)) return;
    launch_says(p, muster_function_call_single(single, NULL, 0, &out, 1, NULL), MUSTER_CANCELLED,
                sentence(g.s, "muster_function_call_single: function 'single'", text));
    if (!launch_meet(p)) return;
    g.s->way = RETURN;
    launch_ok(p, muster_function_call_single(single, NULL, 0, &out, 1, NULL));
    launch_check(p, y == 3);
    program_close(p, &g);
}

static void a_single_call_ends_wherever_it_is_told(void **state) {
    int runs = 0;
    (void)state;
    run_each(end_a_single_call, &runs);
}

/* ---- at any time ---- */

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

typedef struct ender {
    scene *s;
    uint64_t seed;
    int64_t longest_ns;
    _Atomic bool over;
} ender;

static void *end_often(void *context) {
    ender *e = context;
    while (!e->over) {
        e->seed = e->seed * 6364136223846793005u + 1442695040888963407u;
        const int64_t begin = now_ns(), delay_ns = (int64_t)((e->seed >> 33) % (uint64_t)e->longest_ns);
        while (now_ns() - begin < delay_ns) sched_yield();
        muster_runtime_cancel(e->s->runtimes[(e->seed >> 20) % (uint64_t)e->s->processes]);
    }
    return NULL;
}

static muster_status meets(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    for (int i = 0; i < 5; i++) {
        MUSTER_TRY(muster_sum(w, in[0], out[0]));
        MUSTER_TRY(meet(w));
    }
    return MUSTER_OK;
}

/* All processes get the same status and sentence, and with OK the right sum. */
static void call_while_calls_end(launch_process *p) {
    program g;
    muster_function *f;
    static char sentences[MOST][256];
    const int64_t calls = test_is_full() ? 10000 : 60;
    if (!program_open(p, &g)) return;
    launch_ok(p, muster_function_create(g.runtime, "meets", meets, NULL, &f));
    launch_ok(p, muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    launch_ok(p, muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
    const muster_tensor in = muster_f32(rows, ROWS);
    float y = 0;
    const muster_tensor out = muster_f32(&y);
    launch_ok(p, muster_function_call(f, &in, 1, &out, 1, NULL));
    const int64_t begin = now_ns();
    launch_ok(p, muster_function_call(f, &in, 1, &out, 1, NULL));
    ender e = {.s = g.s, .seed = test_seed() + (uint64_t)g.s->ranks, .longest_ns = 3 * (now_ns() - begin) + 1000};
    pthread_t thread;
    if (!launch_meet(p)) return;
    if (p->process == 0) launch_check(p, pthread_create(&thread, NULL, end_often, &e) == 0);
    for (int64_t i = 0; i < calls; i++) {
        y = 0;
        const muster_status status = muster_function_call(f, &in, 1, &out, 1, NULL);
        g.s->statuses[p->process] = status;
        snprintf(sentences[p->process], sizeof sentences[0], "%s", status ? muster_last_error() : "");
        if (!launch_meet(p)) break;
        launch_check(p, (status == MUSTER_OK && y == 78) || status == MUSTER_CANCELLED);
        launch_check(p, g.s->statuses[0] == status && strcmp(sentences[0], sentences[p->process]) == 0);
        if (p->process == 0) atomic_fetch_add(status == MUSTER_OK ? &g.s->ok : &g.s->ended, 1);
        if (!launch_meet(p)) break;
    }
    e.over = true;
    if (p->process == 0) pthread_join(thread, NULL);
    program_close(p, &g);
}

static void whenever_it_comes_all_processes_have_one_outcome(void **state) {
    (void)state;
    for (int processes = 2; processes <= MOST; processes++) {
        scene s = {.processes = processes, .ranks = processes == 2 ? 2 : 1};
        launch_run_failing(&(wire_launch_options){.processes = processes, .processes_per_host = 1}, call_while_calls_end, &s);
        assert_int_equal(s.checked, processes);
        assert_true(s.ok > 0 && s.ended > 0);
        print_message("%d processes: %d calls returned OK, %d were ended\n", processes, s.ok, s.ended);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_call_ends_in_all_processes),
        cmocka_unit_test(all_that_wait_fail_one_by_one_and_no_later_ones),
        cmocka_unit_test(a_call_that_others_have_not_made_ends_when_they_do),
        cmocka_unit_test(nothing_is_remembered),
        cmocka_unit_test(a_single_call_ends_wherever_it_is_told),
        cmocka_unit_test(whenever_it_comes_all_processes_have_one_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

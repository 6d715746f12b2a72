/* Training over several processes, each a thread of this program, whose steps one of them ends at
 * instants drawn by seed. Whatever the instant, all processes have one outcome, and the parameters
 * are those before the step or behind it, bit for bit as in a training that nobody disturbs. So are
 * the states of the rule, since the steps behind give the same bits, too. */
#include "base_seed.h"
#include "graph_training.h"
#include "runtime_launch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { STEPS = 12, LAYOUTS = 3 };

typedef struct layout {
    int32_t processes;
    const char *devices[LAUNCH_PROCESSES];
} layout;
static const layout layouts[LAYOUTS] = {{2, {"host:1", "host:1"}}, {2, {"host:2", "host:1"}}, {3, {"host:1", "host:1", "host:1"}}};

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* What the processes of a launch share. */
typedef struct disturbed {
    const layout *layout;
    training_way way;
    int64_t trials; /* at least so many, and until both outcomes have come */
    uint64_t seed;
    training_values expected[STEPS + 1]; /* after so many steps that nobody disturbs */
    training training[LAUNCH_PROCESSES];
    _Atomic int32_t statuses[LAUNCH_PROCESSES];
    int64_t longest_ns;
    /* Of the trial: who is told, and when; negative: the thread ends. */
    int32_t told;
    int64_t delay_ns;
    _Atomic int64_t asked, done;
    _Atomic int64_t ok, ended;
    _Atomic bool over;
} disturbed;

static void *end_calls(void *context) {
    disturbed *d = context;
    for (int64_t trial = 1;; trial++) {
        while (atomic_load(&d->asked) < trial) sched_yield();
        if (d->delay_ns < 0) return NULL;
        const int64_t begin = now_ns();
        while (now_ns() - begin < d->delay_ns) sched_yield();
        muster_runtime_cancel(d->training[d->told].runtime);
        atomic_store(&d->done, trial);
    }
}

static uint64_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static bool open_training(launch_process *p, training *t) {
    disturbed *d = p->context;
    muster_runtime *runtime;
    const muster_runtime_options options = launch_options(d->layout->devices[p->process]);
    if (muster_runtime_open(&options, &runtime) != MUSTER_OK) {
        snprintf(p->error, sizeof p->error, "%s", muster_last_error());
        launch_note_failure();
        return false;
    }
    training_open(t, runtime, d->way);
    return true;
}

static void train_alone(launch_process *p, training *t) {
    disturbed *d = p->context;
    training_values values;
    for (int step = 0; step <= STEPS; step++) {
        training_read(t, &values);
        if (p->process == 0) d->expected[step] = values;
        launch_ok(p, training_step(t));
    }
    launch_ok(p, muster_runtime_close(t->runtime));
}

/* The call, ended somewhere in it, before it, or behind it, in one process. Then all look at their
 * parameters. */
static void try_once(launch_process *p, training *t, int *step) {
    disturbed *d = p->context;
    training_values values;
    if (p->process == 0) {
        d->told = (int32_t)(draw(&d->seed) % (uint64_t)p->processes);
        d->delay_ns = (int64_t)(draw(&d->seed) % (uint64_t)d->longest_ns);
        d->asked++;
    }
    if (!launch_meet(p)) return;
    const muster_status status = training_step(t);
    char message[256];
    snprintf(message, sizeof message, "%s", muster_last_error());
    d->statuses[p->process] = status;
    while (d->done < d->asked && !launch_has_failed()) sched_yield(); /* the next call is untouched */
    if (!launch_meet(p)) return;
    launch_check(p, status == d->statuses[0]);
    if (status != MUSTER_OK && (status != MUSTER_CANCELLED || !strstr(message, "muster_runtime_cancel has ended the call, in process ")))
        launch_fail(p, "%s", message);
    *step += status == MUSTER_OK;
    training_read(t, &values);
    if (memcmp(&values, &d->expected[*step], sizeof values) != 0)
        launch_fail(p, "%s: after %s the parameters are not those of step %d", training_way_names[d->way], muster_status_name(status),
                    *step);
    if (p->process == 0) atomic_fetch_add(status == MUSTER_OK ? &d->ok : &d->ended, 1);
}

static void train_disturbed(launch_process *p, training *t) {
    disturbed *d = p->context;
    int step = 0;
    launch_ok(p, training_step(t)); /* makes the plan */
    const int64_t begin = now_ns();
    launch_ok(p, training_step(t));
    if (p->process == 0) d->longest_ns = (now_ns() - begin) * 3 / 2 + 1000;
    for (step = 2; step < STEPS && !d->over;) {
        try_once(p, t, &step);
        if (p->error[0] || !launch_meet(p)) return;
        if (p->process == 0) d->over = d->ok + d->ended >= d->trials && d->ok && d->ended;
        if (!launch_meet(p)) return;
    }
    launch_ok(p, muster_runtime_close(t->runtime));
}

static void run_process(launch_process *p) {
    disturbed *d = p->context;
    training *t = &d->training[p->process];
    pthread_t thread;
    if (!open_training(p, t)) return;
    train_alone(p, t);
    if (p->process == 0 && !p->error[0]) launch_check(p, pthread_create(&thread, NULL, end_calls, d) == 0);
    while (!p->error[0] && !d->over) {
        if (!open_training(p, t) || !launch_meet(p)) break;
        train_disturbed(p, t);
    }
    if (p->process != 0) return;
    d->delay_ns = -1;
    d->asked++;
    pthread_join(thread, NULL);
}

static void a_step_is_made_in_all_processes_or_in_none(void **state) {
    int64_t ok = 0, ended = 0, runs = 0;
    static disturbed d;
    (void)state;
    const int64_t each = 10000 / test_one_in(50, 100, 200) / (TRAINING_WAYS * LAYOUTS) + 1; /* in all: 10,000, or a sample */
    for (int way = 0; way < TRAINING_WAYS; way++)
        for (int l = 0; l < LAYOUTS; l++) {
            if (!test_is_full() && (uint64_t)l != ((uint64_t)way + test_seed()) % LAYOUTS) continue; /* a sample */
            runs++;
            d = (disturbed){.layout = &layouts[l], .way = way, .trials = each, .seed = test_seed() * 1000 + (uint64_t)runs};
            launch_run_failing(&(wire_launch_options){.processes = layouts[l].processes, .processes_per_host = 1}, run_process, &d);
            assert_true(d.ok + d.ended >= each && d.ok > 0 && d.ended > 0);
            ok += d.ok;
            ended += d.ended;
        }
    assert_int_equal(runs, test_is_full() ? TRAINING_WAYS * LAYOUTS : TRAINING_WAYS);
    print_message("%d steps returned OK, %d were ended\n", (int)ok, (int)ended);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_is_made_in_all_processes_or_in_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

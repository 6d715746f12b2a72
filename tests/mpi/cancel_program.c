/* What cancel_suite.py starts under mpirun: calls that one process ends by a signal handler, in a
 * body, in an exchange, while others wait for their turn, and at any instant of a training. Each
 * process prints what its calls return. */
#include "muster/graph.h"
#include "muster/muster.h"
#include "muster/nodes.h"
#include "muster/rule.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { QUEUED = 64, STEPS = 30, IN = 8, OUT = 4, ROWS = 24, LONGEST_US = 600 };

static muster_runtime *runtime;
static _Atomic int entered, cancels;

static void end_calls(int signal_number) {
    (void)signal_number;
    muster_runtime_cancel(runtime);
    atomic_fetch_add(&cancels, 1);
}

static void cancel_after(int64_t us) {
    const struct itimerval timer = {.it_value = {us / 1000000, us % 1000000}};
    if (setitimer(ITIMER_REAL, &timer, NULL) != 0) abort();
}

static void pass_time(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }

static muster_status meet(muster_worker *worker) {
    float x = 1;
    const muster_tensor one = muster_f32(&x);
    return muster_worker_all_reduce(worker, NULL, MUSTER_SUM, one, one);
}

/* user: the first process whose bodies only look. */
static muster_status body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    atomic_fetch_add(&entered, 1);
    if (muster_worker_process(worker) < *(int *)user) return meet(worker);
    while (!muster_worker_cancelled(worker)) pass_time();
    return MUSTER_OK;
}

static muster_status works(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    MUSTER_TRY(meet(worker));
    return muster_fill(worker, 1, out[0]);
}

static void say(const char *what, muster_status status) {
    printf("process %d: %s: %s %s\n", (int)muster_runtime_process(runtime), what, muster_status_name(status),
           status ? muster_last_error() : "");
    fflush(stdout);
}

/* One line, since launchers mix the lines of processes. */
static void say_alike(muster_pending **pending, int count) {
    char first[512] = "", what[40];
    int alike = 0;
    muster_status status = MUSTER_OK;
    for (int i = 0; i < count; i++) {
        status = muster_pending_wait(&pending[i]);
        if (i == 0) snprintf(first, sizeof first, "%s", muster_last_error());
        alike += status == MUSTER_CANCELLED && strcmp(muster_last_error(), first) == 0;
    }
    snprintf(what, sizeof what, "%d queued", alike);
    say(what, status);
}

#define CHECK(expression)                                                         \
    do {                                                                          \
        const muster_status status_ = (expression);                               \
        if (status_) say(#expression, status_), muster_runtime_abort(runtime, 9); \
    } while (0)

/* The last process ends a call while bodies run, with `queued` calls behind it. */
static void end_bodies(int lookers_from, int queued) {
    muster_function *f, *after;
    muster_pending *pending[QUEUED + 1];
    float y = 0;
    const muster_tensor out = muster_f32(&y);
    const int last = muster_runtime_processes(runtime) - 1, ends = muster_runtime_process(runtime) == last;
    CHECK(muster_function_create(runtime, "f", body, &lookers_from, &f));
    CHECK(muster_function_create(runtime, "works", works, NULL, &after));
    CHECK(muster_function_output(after, "y", MUSTER_F32, 0, MUSTER_SUM));
    for (int i = 0; i <= queued; i++) CHECK(muster_function_call_async(f, NULL, 0, NULL, 0, NULL, &pending[i]));
    while (!entered) pass_time();
    if (ends) cancel_after(50000);
    say("first", muster_pending_wait(&pending[0]));
    while (ends && !cancels) pass_time();
    if (queued) say_alike(pending + 1, queued);
    CHECK(muster_function_call(after, NULL, 0, &out, 1, NULL));
    printf("process %d: then %g, %d bodies\n", (int)muster_runtime_process(runtime), (double)y, entered);
}

/* ---- training ---- */

static muster_variable *w;
static muster_function *step;
static double x[ROWS * IN], t[ROWS * OUT];

static muster_status make_training(void) {
    static double first[IN * OUT];
    muster_graph *g;
    muster_expr *d;
    for (int i = 0; i < IN * OUT; i++) first[i] = (double)(i * 37 % 101 - 50) / 100;
    for (int i = 0; i < ROWS * IN; i++) x[i] = (double)(i * 31 % 97 - 48) / 40;
    for (int i = 0; i < ROWS * OUT; i++) t[i] = (double)(i * 13 % 23 - 11) / 20;
    MUSTER_TRY(muster_variable_create(runtime, "w", muster_f64(first, IN, OUT), &w));
    MUSTER_TRY(muster_graph_create(runtime, "training", &g));
    (void)muster_graph_input(g, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, IN), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, OUT), MUSTER_SCATTER);
    muster_expr *p = muster_graph_parameter(g, w), *loss = muster_expr_parse(g, "mean((tanh(x @ w) - t) ** 2)");
    MUSTER_TRY(muster_gradient(loss, &p, 1, &d));
    MUSTER_TRY(muster_graph_minimise(g, &p, &d, 1, MUSTER_ADAM, NULL));
    MUSTER_TRY(muster_graph_output(g, "loss", loss, MUSTER_AUTO));
    MUSTER_TRY(muster_graph_compile(g, NULL, &step));
    return muster_graph_destroy(g);
}

static muster_status take_step(void) {
    double loss;
    const muster_tensor in[] = {muster_f64(x, ROWS, IN), muster_f64(t, ROWS, OUT)}, out = muster_f64(&loss);
    return muster_function_call(step, in, 2, &out, 1, NULL);
}

/* The first training is undisturbed. In those behind it one process or another ends steps. All make
 * the same calls, since all get the same outcomes. */
static void train(int64_t trials, unsigned seed) {
    static double expected[STEPS + 1][IN * OUT], values[IN * OUT];
    const int processes = muster_runtime_processes(runtime), own = muster_runtime_process(runtime);
    int64_t ok = 0, ended = 0;
    for (int round = 0; round == 0 || ok + ended < trials || !ok || !ended; round++) {
        int made = 0;
        CHECK(make_training());
        for (int64_t i = 0; made <= STEPS && (round == 0 || ok + ended < trials || !ok || !ended); i++) {
            if (round == 0) CHECK(muster_variable_get_whole(w, muster_f64(expected[made], IN, OUT)));
            seed = seed * 1103515245u + 12345u;
            if (made == STEPS) break;
            if (round > 0 && (int)(seed >> 16) % processes == own) cancel_after(1 + (int64_t)(seed >> 8) % LONGEST_US);
            const muster_status status = take_step();
            cancel_after(0);
            if (status && (round == 0 || status != MUSTER_CANCELLED)) say("step", status);
            made += status == MUSTER_OK;
            if (round == 0) continue;
            *(status ? &ended : &ok) += 1;
            CHECK(muster_variable_get_whole(w, muster_f64(values, IN, OUT)));
            if (memcmp(values, expected[made], sizeof values) != 0) printf("process %d: WRONG after step %d\n", own, made), made = STEPS;
        }
        CHECK(muster_function_destroy(step));
        CHECK(muster_variable_destroy(w));
    }
    printf("process %d: %lld steps, %lld ended\n", own, (long long)ok, (long long)ended);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    const struct sigaction action = {.sa_handler = end_calls, .sa_flags = SA_RESTART};
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = count > 2 ? arguments[2] : "host:1";
    if (muster_runtime_open(&options, &runtime) != MUSTER_OK) return printf("%s\n", muster_last_error()), 1;
    if (sigaction(SIGALRM, &action, NULL) != 0) return 1;
    if (!strcmp(way, "look")) end_bodies(0, 0);
    if (!strcmp(way, "meet")) end_bodies(muster_runtime_processes(runtime) - 1, 0);
    if (!strcmp(way, "queued")) end_bodies(0, QUEUED);
    if (!strcmp(way, "train")) train(count > 3 ? atoll(arguments[3]) : 100, count > 4 ? (unsigned)atoll(arguments[4]) : 1);
    fflush(stdout);
    return muster_runtime_close(runtime) != MUSTER_OK;
}

/* Training whose calls are ended at instants drawn by seed. Whatever the instant, the parameters
 * are those before the step or those behind it, bit for bit as in a training that nobody disturbs,
 * and so are the states of the rule, since the steps behind give the same bits, too. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_training.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { STEPS = 12 };

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- who ends the calls ---- */

typedef struct ender {
    muster_runtime *runtime;
    _Atomic int64_t asked, done; /* the numbers of the trials */
    int64_t delay_ns;            /* of the trial that is asked; negative: the thread ends */
} ender;

static void *end_calls(void *context) {
    ender *e = context;
    for (int64_t trial = 1;; trial++) {
        while (atomic_load(&e->asked) < trial) {}
        if (e->delay_ns < 0) return NULL;
        const int64_t begin = now_ns();
        while (now_ns() - begin < e->delay_ns) {}
        muster_runtime_cancel(e->runtime);
        atomic_store(&e->done, trial);
    }
}

static uint64_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

typedef struct counts {
    int64_t ok, ended;
} counts;

/* One trial: the call, ended somewhere in it, before it, or behind it. */
static bool trial(training *t, ender *e, int64_t longest_ns, uint64_t *seed) {
    e->delay_ns = (int64_t)(draw(seed) % (uint64_t)longest_ns);
    const int64_t number = atomic_fetch_add(&e->asked, 1) + 1;
    const muster_status status = training_step(t);
    while (atomic_load(&e->done) < number) {} /* the next call is untouched */
    if (status != MUSTER_OK && status != MUSTER_CANCELLED) fail_msg("%s", muster_last_error());
    return status == MUSTER_OK;
}

/* Some steps, again and again until they are made. */
static void train_disturbed(const char *devices, training_way way, const training_values *expected, int64_t trials, uint64_t *seed,
                            counts *c) {
    training t;
    training_values got;
    training_open(&t, graph_runtime(devices), way);
    ender e = {.runtime = t.runtime};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_calls, &e), 0);
    assert_ok(training_step(&t)); /* makes the plan */
    const int64_t begin = now_ns();
    assert_ok(training_step(&t));
    const int64_t longest_ns = (now_ns() - begin) * 3 / 2 + 1000;
    for (int64_t i = 0, step = 2; i < trials && step < STEPS; i++) {
        const bool is_ok = trial(&t, &e, longest_ns, seed);
        *(is_ok ? &c->ok : &c->ended) += 1;
        step += is_ok;
        training_read(&t, &got);
        if (memcmp(&got, &expected[step], sizeof got) != 0)
            fail_msg("%s on %s, trial %d: the parameters are not those of step %d", training_way_names[way], devices, (int)i, (int)step);
    }
    e.delay_ns = -1;
    atomic_fetch_add(&e.asked, 1);
    pthread_join(thread, NULL);
    assert_ok(muster_runtime_close(t.runtime));
}

static void parameters_are_those_before_a_step_or_behind_it(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:3"};
    enum { MACHINES = 3 };
    static training_values expected[STEPS + 1];
    counts all = {0, 0};
    uint64_t seed = test_seed();
    int64_t kinds = 0;
    (void)state;
    const int64_t instants = test_one_in(40, 80, 160) * (on_gpus() ? 10 : 1), each = 10000 / instants / (TRAINING_WAYS * MACHINES) + 1;
    for (int way = 0; way < TRAINING_WAYS; way++)
        for (int m = 0; m < MACHINES; m++, kinds++) {
            training t;
            counts c = {0, 0};
            training_open(&t, graph_runtime(devices[m]), way);
            for (int step = 0; step <= STEPS; step++) {
                training_read(&t, &expected[step]);
                assert_ok(training_step(&t));
            }
            assert_ok(muster_runtime_close(t.runtime));
            while (c.ok + c.ended < each || !c.ok || !c.ended) train_disturbed(devices[m], way, expected, each, &seed, &c);
            all.ok += c.ok;
            all.ended += c.ended;
        }
    assert_int_equal(kinds, TRAINING_WAYS * MACHINES);
    assert_true(all.ok + all.ended >= kinds * each && all.ok >= kinds && all.ended >= kinds);
    print_message("%d calls returned OK, %d were ended\n", (int)all.ok, (int)all.ended);
}

/* A long graph: the call ends at the next step, not at its end. */
static void a_call_ends_at_the_next_step(void **state) {
    enum { WIDE = 160 };
    const int layers = on_gpus() ? 40 : 200;
    (void)state;
    for (int count = 1; count <= 2; count++) {
        static double x[WIDE * WIDE], y[WIDE * WIDE];
        muster_runtime *runtime = graph_runtime(count == 1 ? "host:1" : "host:2");
        muster_graph *g;
        muster_function *f;
        muster_pending *pending;
        double mean;
        int32_t ended = 0;
        assert_ok(muster_graph_create(runtime, "long", &g));
        muster_expr *h = muster_graph_input(g, "x", MUSTER_F64, MUSTER_SHAPE(MUSTER_ROWS, WIDE), MUSTER_SCATTER);
        muster_expr *m = muster_graph_input(g, "m", MUSTER_F64, MUSTER_SHAPE(WIDE, WIDE), MUSTER_BROADCAST);
        for (int i = 0; i < layers; i++) h = muster_expr_parse(g, "tanh(h @ m)", "h", h, "m", m);
        assert_ok(muster_graph_output(g, "mean", muster_expr_parse(g, "mean(h)", "h", h), MUSTER_AUTO));
        assert_ok(muster_graph_compile(g, NULL, &f));
        const muster_tensor in[] = {muster_f64(x, WIDE, WIDE), muster_f64(y, WIDE, WIDE)}, out = muster_f64(&mean);
        assert_ok(muster_function_call(f, in, 2, &out, 1, NULL));
        for (int i = 0; i < 20; i++) {
            assert_ok(muster_function_call_async(f, in, 2, &out, 1, NULL, &pending));
            nanosleep(&(struct timespec){0, 1000000}, NULL);
            muster_runtime_cancel(runtime);
            const muster_status status = muster_pending_wait(&pending);
            if (status != MUSTER_OK) assert_int_equal(status, MUSTER_CANCELLED);
            ended += status == MUSTER_CANCELLED;
        }
        assert_true(ended > 0);
        assert_ok(muster_function_call(f, in, 2, &out, 1, NULL));
        assert_ok(muster_graph_destroy(g));
        assert_ok(muster_runtime_close(runtime));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_before_a_step_or_behind_it),
        cmocka_unit_test(a_call_ends_at_the_next_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

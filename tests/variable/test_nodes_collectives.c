/* Collectives between the replicas of several processes, beside loops over the matrices of all
 * ranks (support/variable_moves.h). */
#include "communicator_impl.h"
#include "runtime_launch.h"
#include "variable_moves.h"

enum { LAYOUTS = 5 };
static const struct layout {
    int32_t processes, devices[LAUNCH_PROCESSES], size;
} layouts[LAYOUTS] = {{2, {1, 1}, 2}, {2, {2, 1}, 3}, {2, {1, 3}, 4}, {3, {1, 2, 1}, 4}, {4, {1, 1, 1, 1}, 4}};

/* ---- one operation in one process ---- */

static void compare(launch_process *p, moves_trial *t, const char *name) {
    for (int32_t i = 0; i < MOVES_VARIABLES; i++) {
        for (int32_t r = 0; r < t->size; r++) {
            moves_matrix found = {0};
            int64_t shape[2];
            launch_ok(p, muster_variable_shape(t->variables[i], r, 2, shape));
            found.rows = shape[0];
            found.columns = shape[1];
            launch_check(p, found.rows * found.columns <= MOVES_ELEMENTS);
            launch_ok(p, muster_variable_get(t->variables[i], r, muster_f32(found.at, found.rows, found.columns)));
            if (!moves_equal(&found, &t->after[i][r]))
                launch_fail(p, "%s, root %d: variable %d on rank %d", name, (int)t->root, (int)i, (int)r);
        }
        if (t->expected[i].rows && !moves_equal(&t->results[i], &t->expected[i])) launch_fail(p, "%s: result %d", name, (int)i);
    }
}

static void try_one(launch_process *p, moves_trial *t, const moves_operation *operation) {
    moves_fill(t, operation);
    for (int32_t i = 0; i < MOVES_VARIABLES; i++) {
        for (int32_t r = 0; r < t->size; r++) {
            const moves_matrix *m = &t->before[i][r];
            launch_ok(p, muster_variable_set(t->variables[i], r, muster_f32((float *)m->at, m->rows, m->columns)));
        }
    }
    muster_status status = operation->run(t);
    if (status != MUSTER_OK) launch_fail(p, "%s, root %d: %s", operation->name, (int)t->root, muster_last_error());
    compare(p, t, operation->name);
    if (!p->error[0]) launch_ok(p, moves_join(t));
}

/* ---- all operations in all layouts ---- */

typedef struct one_process {
    muster_runtime *runtime;
    moves_trial trial;
    int32_t done;
} one_process;

typedef struct launch {
    const struct layout *layout;
    one_process trials[LAUNCH_PROCESSES];
} launch;

static void open_trial(launch_process *p, const struct layout *layout, one_process *one) {
    moves_trial *t = &one->trial;
    char devices[16];
    float zeros[8] = {0};
    snprintf(devices, sizeof devices, "host:%d", (int)layout->devices[p->process]);
    const muster_runtime_options options = launch_options(devices);
    launch_ok(p, muster_runtime_open(&options, &one->runtime));
    t->size = muster_runtime_size(one->runtime);
    launch_check(p, t->size == layout->size);
    launch_ok(p, muster_variable_create(one->runtime, "v", muster_f32(zeros, 1, 3), &t->variables[0]));
    launch_ok(p, muster_variable_create(one->runtime, "w", muster_f32(zeros, 1, 4), &t->variables[1]));
}

static void try_all(launch_process *p) {
    launch *l = p->context;
    one_process *one = &l->trials[p->process];
    moves_trial *t = &one->trial;
    open_trial(p, l->layout, one);
    for (int32_t o = 0; o < MOVES && !p->error[0]; o++) {
        const int32_t roots = moves_operations[o].rooted ? t->size : 1;
        for (t->root = 0; t->root < roots && !p->error[0]; t->root++, one->done++) try_one(p, t, &moves_operations[o]);
    }
    if (!p->error[0]) launch_ok(p, muster_runtime_close(one->runtime));
}

static void every_operation_reaches_the_replicas_of_all_processes(void **state) {
    (void)state;
    static launch l;
    int32_t total = 0;
    for (int32_t i = 0; i < LAYOUTS; i++) {
        memset(&l, 0, sizeof l);
        l.layout = &layouts[i];
        launch_run(&(wire_launch_options){.processes = l.layout->processes}, try_all, &l);
        total += l.trials[0].done;
        for (int32_t p = 0; p < l.layout->processes; p++)
            assert_int_equal(l.trials[p].done, MOVES - MOVES_WITH_ROOT + MOVES_WITH_ROOT * l.layout->size);
    }
    assert_int_equal(total, 155);
}

/* ---- a failure on one rank ---- */

/* Rank 2 fails when it enters an all_reduce; the others wait for it there. */
static bool fail_on_rank_2(muster_worker *worker, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    if (moment != MST_MOMENT_ENTERS || collective != MST_ALL_REDUCE || muster_worker_rank(worker) != 2) return false;
    *status = mst_error(MUSTER_SYSTEM, "muster_variables_all_reduce: the cable is out");
    return true;
}

static void fail_once(launch_process *p) {
    launch *l = p->context;
    one_process *one = &l->trials[p->process];
    moves_trial *t = &one->trial;
    open_trial(p, l->layout, one);
    if (p->error[0]) return;
    launch_refused(p, muster_variables_all_reduce(t->variables, MOVES_VARIABLES, MUSTER_SUM), MUSTER_SYSTEM, "the cable is out (rank 2)");
    for (int32_t o = 0; o < MOVES && !p->error[0]; o++)
        if (strcmp(moves_operations[o].name, "all_gather") == 0) try_one(p, t, &moves_operations[o]);
    if (!p->error[0]) launch_ok(p, muster_runtime_close(one->runtime));
}

static void a_failure_on_one_rank_fails_in_all_processes(void **state) {
    (void)state;
    static launch l;
    mst_rendezvous_test_hook = fail_on_rank_2;
    for (int32_t i = 1; i < LAYOUTS; i++) {
        memset(&l, 0, sizeof l);
        l.layout = &layouts[i];
        launch_run(&(wire_launch_options){.processes = l.layout->processes}, fail_once, &l);
    }
    mst_rendezvous_test_hook = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_reaches_the_replicas_of_all_processes),
        cmocka_unit_test(a_failure_on_one_rank_fails_in_all_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

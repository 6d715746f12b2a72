/* Variables that a call which failed has left undefined: whatever reads a replica is refused, by a
 * message that names the variable, until the replica is set; what only sets it is not. */
#include "base_check.h"
#include "device_discrete.h"
#include "muster/function.h"
#include "muster/initialiser.h"
#include "muster/nodes.h"
#include "variable_impl.h"

enum { DEVICES = 3, ROWS = 6 };
static const char *const machines[] = {"host:3", "discrete:3"};
static float numbers[DEVICES * ROWS], result[DEVICES * DEVICES * ROWS];
static const double weights[DEVICES] = {1, 2, 3};

typedef struct world {
    muster_runtime *runtime;
    muster_variable *v, *sound; /* sound: never undefined */
    muster_function *function;
} world;

static muster_runtime *open_devices(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_variable *variable_of(muster_runtime *runtime, const char *name) {
    muster_variable *v;
    assert_ok(muster_variable_create(runtime, name, muster_f32(numbers, ROWS), &v));
    return v;
}

static world make_world(muster_runtime *runtime) {
    world w = {.runtime = runtime};
    for (int32_t i = 0; i < DEVICES * ROWS; i++) numbers[i] = (float)i;
    w.v = variable_of(w.runtime, "heights");
    w.sound = variable_of(w.runtime, "sound");
    return w;
}

static void end_world(world *w) {
    assert_ok(muster_function_destroy(w->function));
    assert_ok(muster_variable_destroy(w->v));
    assert_ok(muster_variable_destroy(w->sound));
}

/* ---- what reads ---- */

typedef muster_status (*step)(world *w);

static muster_status gets(world *w) { return muster_variable_get(w->v, 0, muster_f32(result, ROWS)); }
static muster_status gets_of_another(world *w) { return muster_variable_get(w->v, 2, muster_f32(result, ROWS)); }
static muster_status gets_whole(world *w) { return muster_variable_get_whole(w->v, muster_f32(result, ROWS)); }
static muster_status broadcasts_replica(world *w) { return muster_variables_broadcast((muster_variable *[]){w->sound, w->v}, NULL, 2); }
static muster_status broadcasts_from(world *w) { return muster_variables_broadcast_from(&w->v, 1, 2); }
static muster_status scatters_from(world *w) { return muster_variables_scatter_from(&w->v, 1, 1); }
static muster_status all_reduces(world *w) { return muster_variables_all_reduce((muster_variable *[]){w->sound, w->v}, 2, MUSTER_SUM); }
static muster_status reduces(world *w) { return muster_variables_reduce(&w->v, 1, MUSTER_MAX); }
static muster_status reduces_at(world *w) { return muster_variables_reduce_at(&w->v, 1, MUSTER_MAX, 1); }
static muster_status reduce_scatters(world *w) { return muster_variables_reduce_scatter(&w->v, 1, MUSTER_SUM); }
static muster_status all_gathers(world *w) { return muster_variables_all_gather(&w->v, 1); }
static muster_status gathers_at(world *w) { return muster_variables_gather_at(&w->v, 1, 2); }
static muster_status all_to_alls(world *w) { return muster_variables_all_to_all(&w->v, 1); }
static muster_status reduces_to(world *w) {
    return muster_variables_reduce_to(&w->v, (muster_tensor[]){muster_f32(result, ROWS)}, 1, MUSTER_SUM);
}
static muster_status stacks(world *w) { return muster_variables_stack(&w->v, (muster_tensor[]){muster_f32(result, DEVICES, ROWS)}, 1); }
static muster_status concatenates(world *w) {
    return muster_variables_concatenate(&w->v, (muster_tensor[]){muster_f32(result, DEVICES * ROWS)}, 1);
}
static muster_status averages(world *w) { return muster_variables_all_reduce_weighted(&w->v, 1, weights, DEVICES); }
static muster_status averages_at(world *w) { return muster_variables_reduce_weighted_at(&w->v, 1, weights, DEVICES, 1); }
static muster_status averages_to(world *w) {
    return muster_variables_reduce_weighted_to(&w->v, (muster_tensor[]){muster_f32(result, ROWS)}, 1, weights, DEVICES);
}
static muster_status splits(world *w) { return muster_variable_split(w->v, 0); }
static muster_status calls(world *w) { return muster_function_call(w->function, NULL, 0, NULL, 0, NULL); }
static muster_status calls_on_one(world *w) { return muster_function_call_single(w->function, NULL, 0, NULL, 0, NULL); }
static muster_status calls_later(world *w) {
    muster_pending *pending;
    MUSTER_TRY(muster_function_call_async(w->function, NULL, 0, NULL, 0, NULL, &pending));
    return muster_pending_wait(&pending);
}

/* Reads the replicas of these ranks: a bit for each. */
typedef struct reader {
    const char *where;
    step step;
    uint32_t reads;
} reader;
static const reader readers[] = {
    {"muster_variable_get", gets, 1},
    {"muster_variable_get", gets_of_another, 4},
    {"muster_variable_get_whole", gets_whole, 1},
    {"muster_variables_broadcast", broadcasts_replica, 1},
    {"muster_variables_broadcast_from", broadcasts_from, 4},
    {"muster_variables_scatter_from", scatters_from, 2},
    {"muster_variables_all_reduce", all_reduces, 7},
    {"muster_variables_reduce", reduces, 7},
    {"muster_variables_reduce_at", reduces_at, 7},
    {"muster_variables_reduce_scatter", reduce_scatters, 7},
    {"muster_variables_all_gather", all_gathers, 7},
    {"muster_variables_gather_at", gathers_at, 7},
    {"muster_variables_all_to_all", all_to_alls, 7},
    {"muster_variables_reduce_to", reduces_to, 7},
    {"muster_variables_stack", stacks, 7},
    {"muster_variables_concatenate", concatenates, 7},
    {"muster_variables_all_reduce_weighted", averages, 7},
    {"muster_variables_reduce_weighted_at", averages_at, 7},
    {"muster_variables_reduce_weighted_to", averages_to, 7},
    {"muster_variable_split", splits, 1},
    {"muster_function_call", calls, 7},
    {"muster_function_call_single", calls_on_one, 1},
    {"muster_function_call_async", calls_later, 7},
};
enum { READERS = sizeof readers / sizeof *readers };

static muster_status reading_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out, (void)user;
    (void)worker;
    return MUSTER_OK;
}

static void add_reading_function(world *w) {
    assert_ok(muster_function_create(w->runtime, "looks", reading_body, NULL, &w->function));
    assert_ok(muster_function_variable(w->function, w->v, MUSTER_USE_READ));
}

/* The replicas of a process are those of its own ranks. */
static bool is_here(const muster_runtime *runtime, int32_t rank) {
    const int32_t process = muster_runtime_process(runtime);
    return rank >= muster_runtime_first_rank(runtime, process) && rank < muster_runtime_first_rank(runtime, process + 1);
}
static const mst_replica *replica_of(const world *w, int32_t rank) {
    return &w->v->replicas[rank - muster_runtime_first_rank(w->runtime, muster_runtime_process(w->runtime))];
}

/* Undefined on every rank, then set on all but one. */
static int32_t check_reader(muster_runtime *runtime, const reader *r) {
    char expected[200];
    int32_t checked = 0;
    for (int32_t bad = -1; bad < DEVICES; bad++, checked++) {
        world w = make_world(runtime);
        add_reading_function(&w);
        mst_variable_set_undefined(w.v);
        for (int32_t rank = 0; bad >= 0 && rank < DEVICES; rank++)
            if (rank != bad) assert_ok(muster_variable_set(w.v, rank, muster_f32(numbers, ROWS)));
        const muster_status status = r->step(&w);
        if (bad < 0 || r->reads >> bad & 1) {
            snprintf(expected, sizeof expected, "%s: variable 'heights': expected a defined value", r->where);
            assert_refused(status, MUSTER_BAD_STATE, expected);
            for (int32_t rank = 0; rank < DEVICES; rank++) { /* nothing has changed */
                if (is_here(runtime, rank)) assert_int_equal(replica_of(&w, rank)->undefined, bad < 0 || rank == bad);
                assert_ok(muster_variable_get(w.sound, rank, muster_f32(result, ROWS)));
                assert_memory_equal(result, numbers, ROWS * sizeof *numbers);
            }
        } else if (status != MUSTER_OK) {
            fail_msg("%s: rank %d: %s", r->where, (int)bad, muster_last_error());
        }
        end_world(&w);
    }
    return checked;
}

static void test_what_reads_an_undefined_replica_is_refused(void **state) {
    int32_t checked = 0;
    (void)state;
    for (int32_t discrete = 0; discrete < 2; discrete++) {
        muster_runtime *runtime = open_devices(machines[discrete]);
        for (int32_t i = 0; i < READERS; i++) checked += check_reader(runtime, &readers[i]);
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, 2 * READERS * (1 + DEVICES));
}

/* ---- what sets ---- */

static muster_status update_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    world *w = user;
    (void)in, (void)out;
    muster_tensor new_value;
    MUSTER_TRY(muster_worker_update(worker, w->v, &new_value));
    return muster_fill(worker, 3, new_value);
}

static muster_status sets_all(world *w) {
    for (int32_t r = 0; r < DEVICES; r++) MUSTER_TRY(muster_variable_set(w->v, r, muster_f32(numbers, ROWS)));
    return MUSTER_OK;
}
static muster_status sets_selected(world *w) {
    const muster_selection two = {.kind = MUSTER_SELECT_COUNT, .stop = 2};
    for (int32_t r = 0; r < DEVICES; r++) MUSTER_TRY(muster_variable_set_selected(w->v, r, muster_f32(numbers, ROWS), &two));
    return MUSTER_OK;
}
static muster_status sets_whole(world *w) { return muster_variable_set_whole(w->v, muster_f32(numbers, ROWS)); }
static muster_status broadcasts(world *w) { return muster_variables_broadcast(&w->v, (muster_tensor[]){muster_f32(numbers, ROWS)}, 1); }
static muster_status scatters(world *w) {
    return muster_variables_scatter(&w->v, (muster_tensor[]){muster_f32(numbers, DEVICES * ROWS)}, 1, NULL);
}
static muster_status sets_and_broadcasts(world *w) {
    MUSTER_TRY(muster_variable_set(w->v, 1, muster_f32(numbers, ROWS)));
    return muster_variables_broadcast_from(&w->v, 1, 1);
}
static muster_status sets_and_scatters(world *w) {
    MUSTER_TRY(muster_variable_set(w->v, 2, muster_f32(numbers, ROWS)));
    return muster_variables_scatter_from(&w->v, 1, 2);
}
static muster_status sets_and_splits(world *w) {
    MUSTER_TRY(muster_variable_set(w->v, 0, muster_f32(numbers, ROWS)));
    return muster_variable_split(w->v, 0);
}
static muster_status initialises(world *w) {
    muster_initialiser_options options;
    muster_initialiser_options_init(&options);
    return muster_variable_initialise(w->v, &options);
}
static muster_status updates(world *w) {
    MUSTER_TRY(muster_function_create(w->runtime, "updates", update_body, w, &w->function));
    MUSTER_TRY(muster_function_update(w->function, w->v, MUSTER_SUM));
    return muster_function_call(w->function, NULL, 0, NULL, 0, NULL);
}

static void test_what_sets_all_replicas_makes_them_defined(void **state) {
    static const step setters[] = {sets_all,          sets_selected,   sets_whole,  broadcasts, scatters, sets_and_broadcasts,
                                   sets_and_scatters, sets_and_splits, initialises, updates};
    enum { SETTERS = sizeof setters / sizeof *setters };
    int32_t checked = 0;
    (void)state;
    for (int32_t discrete = 0; discrete < 2; discrete++) {
        muster_runtime *runtime = open_devices(machines[discrete]);
        for (int32_t i = 0; i < SETTERS; i++, checked++) {
            world w = make_world(runtime);
            mst_variable_set_undefined(w.v);
            if (setters[i](&w) != MUSTER_OK) fail_msg("setter %d: %s", (int)i, muster_last_error());
            for (int32_t r = 0; r < DEVICES; r++)
                if (is_here(runtime, r) && replica_of(&w, r)->undefined) fail_msg("setter %d leaves rank %d undefined", (int)i, (int)r);
            end_world(&w);
        }
        assert_ok(muster_runtime_close(runtime));
    }
    assert_int_equal(checked, 2 * SETTERS);
}

/* ---- split variables ---- */

static void test_every_part_of_a_split_variable_counts(void **state) {
    (void)state;
    world w = make_world(open_devices("host:3"));
    assert_ok(muster_variable_split(w.v, 0));
    mst_variable_set_undefined(w.v);
    for (int32_t r = 0; r < DEVICES; r++) {
        assert_refused(muster_variable_get_whole(w.v, muster_f32(result, ROWS)), MUSTER_BAD_STATE, "variable 'heights'");
        assert_refused(muster_variable_join(w.v), MUSTER_BAD_STATE, "muster_variable_join: variable 'heights'");
        assert_refused(muster_variable_get(w.v, r, muster_f32(result, ROWS / DEVICES)), MUSTER_BAD_STATE, "elements on rank");
        assert_ok(muster_variable_set(w.v, r, muster_f32(numbers + 2 * r, ROWS / DEVICES)));
    }
    assert_ok(muster_variable_get_whole(w.v, muster_f32(result, ROWS)));
    assert_memory_equal(result, numbers, ROWS * sizeof *numbers);
    mst_variable_set_undefined(w.v);
    assert_ok(muster_variable_set_whole(w.v, muster_f32(numbers, ROWS)));
    assert_ok(muster_variable_join(w.v));
    assert_ok(muster_runtime_close(w.runtime));
}

/* A set that is refused or fails leaves the mark. */
static void test_a_set_that_fails_leaves_it_undefined(void **state) {
    static int32_t integers[ROWS];
    (void)state;
    world w = make_world(open_devices("host:3"));
    mst_variable_set_undefined(w.v);
    assert_refused(muster_variable_set_whole(w.v, muster_i32(integers, ROWS)), MUSTER_DTYPE_MISMATCH, "heights");
    mst_memory_fail_at(1);
    assert_int_equal(muster_variable_set_whole(w.v, muster_f32(numbers, ROWS)), MUSTER_OUT_OF_MEMORY);
    mst_memory_fail_at(0);
    for (int32_t r = 0; r < DEVICES; r++)
        assert_refused(muster_variable_get(w.v, r, muster_f32(result, ROWS)), MUSTER_BAD_STATE, "variable 'heights'");
    assert_ok(muster_runtime_close(w.runtime));
}

static int set_up(void **state) {
    (void)state;
    return mst_discrete_register();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_reads_an_undefined_replica_is_refused),
        cmocka_unit_test(test_what_sets_all_replicas_makes_them_defined),
        cmocka_unit_test(test_every_part_of_a_split_variable_counts),
        cmocka_unit_test(test_a_set_that_fails_leaves_it_undefined),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

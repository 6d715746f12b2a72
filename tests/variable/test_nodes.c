/* Variables of several processes: every operation beside the same one in one process with as many
 * devices, which is the oracle. */
#include "base_pace.h"
#include "muster/initialiser.h"
#include "muster/variable.h"
#include "runtime_launch.h"

#include <stdlib.h>

typedef struct layout {
    int32_t processes, devices[LAUNCH_PROCESSES];
} layout;
static const layout layouts[] = {{2, {1, 1}}, {2, {2, 1}}, {2, {1, 3}}, {3, {1, 2, 1}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, FLOATS = 4096 };

/* What a program of variables has read, in the order of its reads. */
typedef struct results {
    float values[FLOATS];
    int32_t count;
} results;
typedef muster_status (*variable_program)(muster_runtime *runtime, results *r);

typedef struct run {
    const layout *layout;
    variable_program program;
    results of[LAUNCH_PROCESSES];
} run;

static void run_program(launch_process *p) {
    run *r = p->context;
    char devices[16];
    muster_runtime *runtime;
    snprintf(devices, sizeof devices, "host:%d", (int)r->layout->devices[p->process]);
    const muster_runtime_options options = launch_options(devices);
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, r->program(runtime, &r->of[p->process]));
    launch_ok(p, muster_runtime_close(runtime));
}

/* The same results, bit for bit, in all processes of all layouts as in one process. */
static void compare_with_one_process(variable_program program, int32_t least) {
    static run several, alone;
    for (int i = 0; i < LAYOUTS; i++) {
        int32_t size = 0;
        for (int32_t p = 0; p < layouts[i].processes; p++) size += layouts[i].devices[p];
        const layout one = {1, {size}};
        alone = (run){.layout = &one, .program = program};
        several = (run){.layout = &layouts[i], .program = program};
        launch_run(&(wire_launch_options){.processes = 1}, run_program, &alone);
        launch_run(&(wire_launch_options){.processes = layouts[i].processes}, run_program, &several);
        assert_in_range(alone.of[0].count, least, FLOATS);
        for (int32_t p = 0; p < layouts[i].processes; p++) {
            assert_int_equal(several.of[p].count, alone.of[0].count);
            assert_memory_equal(several.of[p].values, alone.of[0].values, (size_t)alone.of[0].count * sizeof(float));
        }
    }
}

/* ---- reading ---- */

static muster_status read_rank(muster_variable *variable, int32_t rank, results *r) {
    int64_t shape[2];
    MUSTER_TRY(muster_variable_shape(variable, rank, 2, shape));
    r->values[r->count++] = (float)shape[0];
    MUSTER_TRY(muster_variable_get(variable, rank, muster_f32(r->values + r->count, shape[0], shape[1])));
    r->count += (int32_t)(shape[0] * shape[1]);
    return MUSTER_OK;
}

static muster_status read_all(muster_runtime *runtime, muster_variable *variable, results *r) {
    for (int32_t rank = 0; rank < muster_runtime_size(runtime); rank++) MUSTER_TRY(read_rank(variable, rank, r));
    return MUSTER_OK;
}

static void fill(float *values, int count, float first) {
    for (int i = 0; i < count; i++) values[i] = first + (float)i * .37f;
}

/* ---- the programs ---- */

static muster_status set_ranks(muster_runtime *runtime, results *r) {
    const int32_t size = muster_runtime_size(runtime);
    float values[12];
    muster_variable *v;
    fill(values, 12, 1);
    MUSTER_TRY(muster_variable_create(runtime, "v", muster_f32(values, 3, 4), &v));
    MUSTER_TRY(read_all(runtime, v, r));
    for (int32_t rank = 0; rank < size; rank++) {
        fill(values, 12, 100.f * (float)(rank + 1));
        MUSTER_TRY(muster_variable_set(v, rank, muster_f32(values, 1 + rank % 3, 4)));
    }
    MUSTER_TRY(read_all(runtime, v, r));
    int64_t lengths[8];
    MUSTER_TRY(muster_variable_lengths(v, size, lengths));
    for (int32_t rank = 0; rank < size; rank++) r->values[r->count++] = (float)lengths[rank];
    fill(values, 12, -5);
    MUSTER_TRY(muster_variables_broadcast(&v, (muster_tensor[]){muster_f32(values, 2, 4)}, 1));
    return read_all(runtime, v, r);
}

static void a_value_is_set_and_read_on_any_rank(void **state) {
    (void)state;
    compare_with_one_process(set_ranks, 50);
}

static muster_status scatter_and_join(muster_runtime *runtime, results *r) {
    const int32_t size = muster_runtime_size(runtime);
    float values[44], result[44];
    muster_variable *v, *w;
    fill(values, 44, 3);
    MUSTER_TRY(muster_variable_create_empty(runtime, "v", MUSTER_F32, 2, (int64_t[]){4}, &v));
    MUSTER_TRY(muster_variable_create(runtime, "w", muster_f32(values, 1, 4), &w));
    const int64_t rows[] = {9, 0, 4, 4, 7};
    const muster_selection selection = {.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = 5};
    for (int pass = 0; pass < 2; pass++) {
        const int count = pass ? 5 : 11;
        MUSTER_TRY(muster_variables_scatter(&v, (muster_tensor[]){muster_f32(values, 11, 4)}, 1, pass ? &selection : NULL));
        MUSTER_TRY(read_all(runtime, v, r));
        MUSTER_TRY(muster_variables_concatenate(&v, (muster_tensor[]){muster_f32(result, count, 4)}, 1));
        for (int i = 0; i < 4 * count; i++) r->values[r->count++] = result[i];
    }
    for (int32_t rank = 0; rank < size; rank++) MUSTER_TRY(muster_variable_set(w, rank, muster_f32(values + 4 * rank, 1, 4)));
    float stacked[8 * 4 * 2] = {0};
    muster_tensor strided = muster_f32(stacked, size, 1, 4);
    strided.strides[0] = 8;
    strided.strides[2] = 2;
    MUSTER_TRY(muster_variables_stack(&w, &strided, 1));
    for (int i = 0; i < 8 * size; i++) r->values[r->count++] = stacked[i];
    return MUSTER_OK;
}

static void rows_are_scattered_stacked_and_concatenated(void **state) {
    (void)state;
    compare_with_one_process(scatter_and_join, 100);
}

static muster_status draw_numbers(muster_runtime *runtime, results *r) {
    float values[12] = {0}, whole[12];
    muster_variable *v;
    muster_initialiser_options options;
    muster_initialiser_options_init(&options);
    MUSTER_TRY(muster_variable_create(runtime, "v", muster_f32(values, 3, 4), &v));
    for (int kind = MUSTER_INITIALISER_UNIFORM; kind <= MUSTER_INITIALISER_ORTHOGONAL; kind++) {
        options.kind = kind;
        options.seed = (uint64_t)kind + 5;
        MUSTER_TRY(muster_variable_initialise(v, &options));
        MUSTER_TRY(read_all(runtime, v, r));
        MUSTER_TRY(muster_variable_get_whole(v, muster_f32(whole, 3, 4)));
        for (int i = 0; i < 12; i++) r->values[r->count++] = whole[i];
    }
    return MUSTER_OK;
}

static void random_numbers_are_those_of_one_process(void **state) {
    (void)state;
    compare_with_one_process(draw_numbers, 100);
}

/* ---- refusals ---- */

typedef struct refusal {
    int which;
    muster_variable *destroyed; /* of process 1 */
    char messages[LAUNCH_PROCESSES][512];
    muster_status statuses[LAUNCH_PROCESSES];
} refusal;
enum {
    OTHER_NAME,
    OTHER_SHAPE,
    OTHER_RANK,
    OTHER_OPERATION,
    NAME_TAKEN,
    RANK_BEYOND,
    OTHER_SEED,
    ROOT_BEYOND,
    /* refused in process 1 alone */
    NO_VALUES,
    NO_DIMENSION,
    NO_DISTRIBUTION,
    NO_RESULTS,
    NO_LIST,
    NO_VARIABLE,
    VARIABLE_TWICE,
    DESTROYED,
    NO_ADDRESS,
    REFUSALS
};

static muster_status refused_call(const refusal *r, int32_t process, muster_runtime *runtime, muster_variable *v) {
    float values[4] = {1, 2, 3, 4};
    muster_variable *other;
    const muster_tensor result = muster_f32(values, 2), results[2] = {result, result};
    muster_variable *const list[2] = {v, process && r->which == NO_VARIABLE ? NULL : v};
    muster_initialiser_options options;
    muster_initialiser_options_init(&options);
    options.seed = 3 + (uint64_t)process;
    switch (r->which) {
    case OTHER_NAME:
        return muster_variable_create(runtime, process ? "b" : "a", muster_f32(values, 4), &other);
    case OTHER_SHAPE:
        return muster_variable_set(v, 0, muster_f32(values, process + 2));
    case OTHER_RANK:
        return muster_variable_set(v, process, muster_f32(values, 2));
    case OTHER_OPERATION:
        return process ? muster_variable_set(v, 0, muster_f32(values, 2)) : muster_variable_get(v, 0, muster_f32(values, 2));
    case NAME_TAKEN:
        return muster_variable_create(runtime, "v", muster_f32(values, 4), &other);
    case RANK_BEYOND:
        return muster_variable_get(v, 3, muster_f32(values, 2));
    case OTHER_SEED:
        return muster_variable_initialise(v, &options);
    case NO_VALUES:
        return muster_variable_create(runtime, "a", muster_f32(process ? NULL : values, 4), &other);
    case NO_DIMENSION:
        return muster_variable_create_empty(runtime, "a", MUSTER_F32, process ? 0 : 1, NULL, &other);
    case NO_DISTRIBUTION:
        options.seed = 3;
        if (process) options.kind = 99;
        return muster_variable_initialise(v, &options);
    case NO_RESULTS:
        return muster_variables_reduce_to(&v, process ? NULL : &result, 1, MUSTER_SUM);
    case NO_LIST:
        return muster_variables_scatter(&v, process ? NULL : &result, 1, NULL);
    case NO_VARIABLE:
    case VARIABLE_TWICE:
        return muster_variables_scatter(list, results, process ? 2 : 1, NULL);
    case DESTROYED:
        return muster_variables_scatter(process ? (muster_variable *const[]){r->destroyed, v} : list, results, process ? 2 : 1, NULL);
    case NO_ADDRESS:
        return muster_variable_create(runtime, "a", muster_f32(values, 4), process ? NULL : &other);
    default:
        return muster_variables_broadcast_from(&v, 1, 3);
    }
}

static void make_refused_call(launch_process *p) {
    refusal *r = p->context;
    float values[2] = {5, 6}, back[2] = {0};
    muster_variable *v;
    muster_runtime *runtime;
    const muster_runtime_options options = launch_options(p->process ? "host:2" : "host:1");
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, muster_variable_create(runtime, "v", muster_f32(values, 2), &v));
    muster_variable *destroyed;
    launch_ok(p, muster_variable_create(runtime, "d", muster_f32(values, 2), &destroyed));
    launch_ok(p, muster_variable_destroy(destroyed));
    if (p->process) r->destroyed = destroyed;
    r->statuses[p->process] = refused_call(r, p->process, runtime, v);
    snprintf(r->messages[p->process], sizeof r->messages[p->process], "%s", muster_last_error());
    for (int32_t rank = 0; rank < 3; rank++) { /* nothing has changed, and the next calls are right */
        launch_ok(p, muster_variable_get(v, rank, muster_f32(back, 2)));
        launch_check(p, back[0] == 5 && back[1] == 6);
    }
    launch_check(p, muster_variable_find(runtime, "a", &v) == MUSTER_INVALID_ARGUMENT);
    launch_check(p, muster_variable_find(runtime, "b", &v) == MUSTER_INVALID_ARGUMENT);
    launch_ok(p, muster_runtime_close(runtime));
}

static void what_differs_is_refused_in_all_processes(void **state) {
    (void)state;
    static const char *const texts[REFUSALS][2] = {
        {"muster_variable_create of variable 'b' here", "muster_variable_create of variable 'a' in process 0"},
        {"value of variable 'v': expected (2,) f32 as in process 0 (host host0), received (3,) f32 in process 1 (host host0)",
         "muster_variable_set of variable 'v'"},
        {"rank: expected 0 as in process 0 (host host0), received 1 in process 1 (host host0)", "muster_variable_set of variable 'v'"},
        {"muster_variable_set of variable 'v' here", "muster_variable_get of variable 'v' in process 0"},
        {"muster_variable_create", "'v'"},
        {"muster_variable_get: rank: expected 0 to 2, received 3", ""},
        {"options: expected the same as in process 0 (host host0), received others in process 1 (host host0)",
         "muster_variable_initialise of variable 'v'"},
        {"muster_variables_broadcast_from: rank: expected 0 to 2, received 3", ""},
        {"muster_variable_create: value: ", "NULL"},
        {"muster_variable_create_empty: ndim: expected 1 to 8, received 0", ""},
        {"muster_variable_initialise: ", "99"},
        {"muster_variables_reduce_to: results: expected 1 tensors, received NULL", ""},
        {"muster_variables_scatter: values: expected 1 tensors, received NULL", ""},
        {"muster_variables_scatter: variables[1]: expected a variable, received NULL", ""},
        {"muster_variables_scatter: variables[1]: expected every variable once, received 'v' again", ""},
        {"muster_variables_scatter: ", "destroyed"},
        {"muster_variable_create: variable: ", "NULL"},
    };
    static refusal r;
    for (r.which = 0; r.which < REFUSALS; r.which++) {
        launch_run(&(wire_launch_options){.processes = 2}, make_refused_call, &r);
        for (int32_t p = 0; p < 2; p++) {
            assert_int_not_equal(r.statuses[p], MUSTER_OK);
            assert_int_equal(r.statuses[p], r.statuses[0]);
            assert_string_equal(strchr(r.messages[p], ':'), strchr(r.messages[0], ':')); /* behind each one's own function */
            for (int i = 0; i < 2; i++)
                if (!strstr(r.messages[p], texts[r.which][i]))
                    fail_msg("case %d: \"%s\" lacks \"%s\"", r.which, r.messages[p], texts[r.which][i]);
        }
    }
    assert_int_equal(r.which, 17);
}

/* ---- values that differ ---- */

static void set_different_values(launch_process *p) {
    const int32_t checked = *(const int32_t *)p->context;
    float values[2] = {5, 6}, back[2] = {0};
    muster_variable *v;
    muster_runtime *runtime;
    const muster_runtime_options options = launch_options("host:1");
    launch_ok(p, muster_runtime_open(&options, &runtime));
    launch_ok(p, muster_variable_create(runtime, "v", muster_f32(values, 2), &v));
    values[1] += (float)p->process;
    if (checked)
        launch_refused(p, muster_variable_set(v, 0, muster_f32(values, 2)), MUSTER_INVALID_ARGUMENT,
                       "value of variable 'v': expected the same elements in all processes, received others in process 1");
    else
        launch_ok(p, muster_variable_set(v, 0, muster_f32(values, 2)));
    launch_ok(p, muster_variable_get(v, 0, muster_f32(back, 2)));
    launch_check(p, back[1] == 6);
    launch_ok(p, muster_runtime_close(runtime));
}

static void values_are_compared_where_it_is_asked_for(void **state) {
    (void)state;
    for (int32_t checked = 0; checked < 2; checked++) {
        setenv("MUSTER_CHECK", checked ? "1" : "0", 1);
        launch_run(&(wire_launch_options){.processes = 2}, set_different_values, &checked);
    }
    unsetenv("MUSTER_CHECK");
}

/* ---- memory ---- */

/* The k-th allocation of an operation fails, in whichever process makes it. Of values that do not
 * lie one behind the other, a process compares a copy. */
typedef enum poor_operation { SET, CREATE, SPLIT, JOIN, POOR_OPERATIONS } poor_operation;
enum { FAILING_ALLOCATIONS = 40 };

typedef struct poverty {
    poor_operation operation;
    muster_status statuses[2][FAILING_ALLOCATIONS];
} poverty;

typedef struct poor_program {
    muster_runtime *runtime;
    muster_variable *v, *m, *made;
    float given[4], matrix[4];
} poor_program;

static muster_tensor even_of(poor_program *g) {
    muster_tensor even = muster_f32(g->given, 2);
    even.strides[0] = 2;
    return even;
}

static muster_status operate(poor_program *g, poor_operation operation) {
    g->made = NULL;
    if (operation == SET) return muster_variable_set(g->v, 0, even_of(g));
    if (operation == CREATE) return muster_variable_create(g->runtime, "made", even_of(g), &g->made);
    return operation == SPLIT ? muster_variable_split(g->m, 0) : muster_variable_join(g->m);
}

/* Back to what was before the operation. */
static muster_status operate_back(poor_program *g, poor_operation operation) {
    if (operation == SPLIT) return muster_variable_join(g->m);
    if (operation == JOIN) return muster_variable_split(g->m, 0);
    return muster_variable_destroy(g->made);
}

static void operate_without_memory(launch_process *p) {
    poverty *c = p->context;
    float back[4] = {0};
    poor_program g = {.given = {5, 0, 6, 0}, .matrix = {1, 2, 3, 4}};
    muster_runtime_options options = launch_options("host:1");
    options.fail_after_ns = test_patience(5000000000); /* far above what an operation takes: a process that waits alone fails the test */
    launch_ok(p, muster_runtime_open(&options, &g.runtime));
    launch_ok(p, muster_variable_create(g.runtime, "v", muster_f32(back, 2), &g.v));
    launch_ok(p, muster_variable_create(g.runtime, "m", muster_f32(g.matrix, 2, 2), &g.m));
    if (c->operation == JOIN) launch_ok(p, muster_variable_split(g.m, 0));
    for (int k = 0; k < FAILING_ALLOCATIONS; k++) {
        launch_check(p, launch_fail_allocation(p, k + 1));
        c->statuses[p->process][k] = operate(&g, c->operation);
        launch_check(p, launch_fail_allocation(p, 0));
        if (c->statuses[p->process][k] != MUSTER_OK) launch_ok(p, operate(&g, c->operation)); /* nothing half-done is in the way */
        launch_ok(p, operate_back(&g, c->operation));
        launch_ok(p, muster_variable_set(g.v, 0, even_of(&g)));
        launch_ok(p, muster_variable_get(g.v, 0, muster_f32(back, 2)));
        launch_check(p, back[0] == 5 && back[1] == 6);
        launch_ok(p, muster_variable_get_whole(g.m, muster_f32(back, 2, 2)));
        launch_check(p, memcmp(back, g.matrix, sizeof back) == 0);
    }
    launch_ok(p, muster_runtime_close(g.runtime));
}

static void a_lack_of_memory_fails_an_operation_in_all_processes(void **state) {
    (void)state;
    static const int least[POOR_OPERATIONS] = {2, 4, 4, 4}; /* both processes allocate */
    static poverty c;
    setenv("MUSTER_CHECK", "1", 1);
    for (c.operation = SET; c.operation < POOR_OPERATIONS; c.operation++) {
        int failed = 0;
        launch_run(&(wire_launch_options){.processes = 2}, operate_without_memory, &c);
        for (int k = 0; k < FAILING_ALLOCATIONS; k++) {
            assert_int_equal(c.statuses[0][k], c.statuses[1][k]);
            if (c.statuses[0][k] != MUSTER_OK) assert_int_equal(c.statuses[0][k], MUSTER_OUT_OF_MEMORY);
            failed += c.statuses[0][k] != MUSTER_OK;
        }
        assert_in_range(failed, least[c.operation], FAILING_ALLOCATIONS - 1); /* the last k is beyond the operation's allocations */
    }
    unsetenv("MUSTER_CHECK");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_set_and_read_on_any_rank),       cmocka_unit_test(rows_are_scattered_stacked_and_concatenated),
        cmocka_unit_test(random_numbers_are_those_of_one_process),   cmocka_unit_test(what_differs_is_refused_in_all_processes),
        cmocka_unit_test(values_are_compared_where_it_is_asked_for), cmocka_unit_test(a_lack_of_memory_fails_an_operation_in_all_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

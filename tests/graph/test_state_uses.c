/* States of which each device keeps a portion, and what else uses them: operations on
 * variables, other functions, the graph itself; and compiling that fails. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "memory_impl.h"
#include "muster/rule.h"

#include <string.h>

enum { COUNT = 100, ROWS = 4 };

typedef struct uses {
    muster_runtime *runtime;
    muster_graph *graph;
    muster_variable *w, *velocity;
    muster_function *function;
} uses;

/* Minimises sum(x) sum(w) by momentum; not compiled. The gradient of each element is the sum of x.
 * */
static uses begin(const char *devices) {
    static float start[COUNT];
    uses u = {.runtime = graph_runtime(devices)};
    assert_ok(muster_variable_create(u.runtime, "w", muster_f32(start, COUNT), &u.w));
    assert_ok(muster_graph_create(u.runtime, "uses", &u.graph));
    (void)muster_graph_input(u.graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *p = muster_graph_parameter(u.graph, u.w), *g;
    assert_ok(muster_gradient(muster_expr_parse(u.graph, "sum(x) * sum(w)"), &p, 1, &g));
    muster_rule_options options;
    muster_rule_options_init(&options);
    options.learning_rate = 0.25;
    options.momentum = 0.5;
    assert_ok(muster_graph_minimise(u.graph, &p, &g, 1, MUSTER_MOMENTUM, &options));
    assert_ok(muster_variable_find(u.runtime, "uses/w/velocity", &u.velocity));
    return u;
}

static void call(const uses *u, muster_tensor *out) {
    float x[ROWS] = {1, 2, 3, 2};
    const muster_tensor in = muster_f32(x, ROWS);
    assert_ok(muster_function_call(u->function, &in, 1, out, out ? 1 : 0, NULL));
}

/* All elements of the velocity. */
static void check_velocity(const uses *u, float expected) {
    float values[COUNT];
    assert_ok(muster_function_state_get(u->function, u->w, "velocity", muster_f32(values, COUNT)));
    for (int32_t i = 0; i < COUNT; i++) assert_true(values[i] == expected);
}

static void end(uses *u) {
    assert_ok(muster_graph_destroy(u->graph));
    assert_ok(muster_runtime_close(u->runtime));
}

static muster_status no_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)worker, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static void test_operations_refuse_a_state_in_portions(void **state) {
    static const char refusal[] =
        "variable 'uses/w/velocity': expected one with a value on each device, received the state of an update rule";
    float values[COUNT];
    int64_t shape[2];
    int32_t refused = 0;
    (void)state;
    uses u = begin("host:2");
    for (int32_t compiled = 0; compiled < 2; compiled++) {
        muster_variable *v = u.velocity;
        muster_function *other;
        const muster_tensor value = muster_f32(values, COUNT);
        if (compiled) assert_ok(muster_graph_compile(u.graph, NULL, &u.function));
        const muster_selection all = {.kind = MUSTER_SELECT_ALL};
        assert_ok(muster_function_create(u.runtime, "other", no_body, NULL, &other));
        const muster_status statuses[] = {muster_variable_get(v, 0, value),
                                          muster_variable_set(v, 1, value),
                                          muster_variable_set_selected(v, 0, value, &all),
                                          muster_variable_shape(v, 0, 1, shape),
                                          muster_variable_lengths(v, 2, shape),
                                          muster_variable_split(v, 0),
                                          muster_variable_join(v),
                                          muster_variables_broadcast(&v, &value, 1),
                                          muster_variables_all_reduce(&v, 1, MUSTER_SUM),
                                          muster_variables_reduce_to(&v, &value, 1, MUSTER_SUM),
                                          muster_variables_concatenate(&v, &value, 1),
                                          muster_function_variable(other, v, MUSTER_USE_READ),
                                          muster_function_update(other, v, MUSTER_SUM)};
        assert_refused(muster_variable_get(v, 0, value), MUSTER_UNSUPPORTED, refusal);
        assert_refused(muster_function_variable(other, v, MUSTER_USE_READ), MUSTER_UNSUPPORTED, refusal);
        for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++, refused++)
            if (statuses[i] != MUSTER_UNSUPPORTED) fail_msg("operation %d: %s", (int)i, muster_status_name(statuses[i]));
        assert_ok(muster_function_destroy(other));
        assert_ok(muster_variable_get_whole(v, value));
        assert_ok(muster_variable_whole_shape(v, 1, shape));
        assert_true(shape[0] == COUNT && values[0] == 0 && values[COUNT - 1] == 0);
    }
    assert_int_equal(refused, 26);
    call(&u, NULL);
    check_velocity(&u, -2);
    end(&u);
}

/* Every device then has the whole state, as on one device. */
static void test_a_graph_may_read_its_states(void **state) {
    static const char *const machines[] = {"host:1", "host:2", "host:3"};
    (void)state;
    for (int32_t m = 0; m < 3; m++) {
        float sum = 0;
        muster_tensor out = muster_f32(&sum);
        uses u = begin(machines[m]);
        muster_expr *v = muster_graph_parameter(u.graph, u.velocity);
        assert_ok(muster_graph_output(u.graph, "sum", muster_expr_parse(u.graph, "sum(v)", "v", v, NULL), MUSTER_AUTO));
        assert_ok(muster_graph_compile(u.graph, NULL, &u.function));
        const float velocities[] = {0, -2, -3, -3.5f};
        for (int32_t step = 0; step < 3; step++) {
            call(&u, &out);
            assert_true(sum == velocities[step] * COUNT); /* the old value */
            check_velocity(&u, velocities[step + 1]);
        }
        end(&u);
    }
}

/* The rate of another call of muster_graph_minimise reads the velocity: no device may keep a part
 * of it only. The bias begins at 0, and its gradient is the sum of x, 8. */
static void test_a_rate_may_read_a_state(void **state) {
    static const char *const machines[] = {"host:1", "host:2", "host:3"};
    (void)state;
    for (int32_t m = 0; m < 3; m++) {
        float bias[3] = {0}, expected = 0;
        muster_variable *b;
        muster_rule_options options;
        uses u = begin(machines[m]);
        assert_ok(muster_variable_create(u.runtime, "b", muster_f32(bias, 3), &b));
        muster_expr *p = muster_graph_parameter(u.graph, b), *v = muster_graph_parameter(u.graph, u.velocity), *g;
        assert_ok(muster_gradient(muster_expr_parse(u.graph, "sum(x) * sum(b)"), &p, 1, &g));
        muster_rule_options_init(&options);
        options.rate = muster_expr_parse(u.graph, "sum(v) / -100", "v", v, NULL); /* 0, 2, 3 */
        assert_ok(muster_graph_minimise(u.graph, &p, &g, 1, MUSTER_SGD, &options));
        assert_ok(muster_graph_compile(u.graph, NULL, &u.function));
        const float velocities[] = {0, -2, -3, -3.5f};
        for (int32_t step = 0; step < 3; step++) {
            call(&u, NULL);
            expected -= -velocities[step] * 8; /* the old value */
            assert_ok(muster_variable_get_whole(b, muster_f32(bias, 3)));
            for (int32_t i = 0; i < 3; i++)
                if (bias[i] != expected)
                    fail_msg("%s, step %d: expected %g, received %g", machines[m], (int)step, (double)expected, (double)bias[i]);
            check_velocity(&u, velocities[step + 1]);
        }
        end(&u);
    }
}

/* On several devices one pass over the memory writes them, so the function has no updates. */
static void test_what_rules_write_is_said_by_the_ports(void **state) {
    int32_t written = 0;
    (void)state;
    uses u = begin("host:2");
    assert_ok(muster_graph_compile(u.graph, NULL, &u.function));
    muster_port port;
    for (int32_t i = 0; muster_function_port(u.function, i, &port) == MUSTER_OK; i++) {
        if (port.variable != u.w && port.variable != u.velocity) continue;
        assert_int_equal(port.kind, MUSTER_PORT_VARIABLE);
        assert_int_equal(port.mode, MUSTER_USE_READ_WRITE);
        written++;
    }
    assert_int_equal(written, 2);
    end(&u);
}

/* By its name, between minimise and compile. */
static void test_a_state_that_is_set_before_compiling_stays(void **state) {
    static const char *const machines[] = {"host:1", "host:3"};
    (void)state;
    for (int32_t m = 0; m < 2; m++) {
        float values[COUNT];
        uses u = begin(machines[m]);
        for (int32_t i = 0; i < COUNT; i++) values[i] = 8;
        assert_ok(muster_variable_set_whole(u.velocity, muster_f32(values, COUNT)));
        assert_ok(muster_graph_compile(u.graph, NULL, &u.function));
        check_velocity(&u, 8);
        call(&u, NULL);
        check_velocity(&u, 2);
        end(&u);
    }
}

/* A state that another function uses stays whole, so that the graph cannot be compiled. */
static void test_a_state_that_another_function_uses_is_not_divided(void **state) {
    float values[COUNT] = {0};
    muster_function *other;
    (void)state;
    uses u = begin("host:2");
    assert_ok(muster_variable_set_whole(u.velocity, muster_f32(values, COUNT)));
    assert_ok(muster_function_create(u.runtime, "other", no_body, NULL, &other));
    assert_ok(muster_function_variable(other, u.velocity, MUSTER_USE_READ));
    assert_refused(muster_graph_compile(u.graph, NULL, &u.function), MUSTER_BAD_STATE,
                   "muster_graph_compile: variable 'uses/w/velocity': expected no other function that uses the state of an update rule");
    assert_ok(muster_function_destroy(other));
    assert_ok(muster_graph_compile(u.graph, NULL, &u.function));
    call(&u, NULL);
    check_velocity(&u, -2);
    end(&u);
}

/* Each allocation of compiling fails once, then one of each get and set: the state is as it was,
 * and the next try works. */
static void test_a_failed_allocation_keeps_the_values(void **state) {
    int32_t failed = 0;
    float values[COUNT], read[2 * COUNT];
    muster_tensor strided = muster_f32(read, COUNT);
    strided.strides[0] = 2;
    (void)state;
    uses u = begin("host:2");
    for (int32_t i = 0; i < COUNT; i++) values[i] = (float)i;
    assert_ok(muster_variable_set_whole(u.velocity, muster_f32(values, COUNT)));
    muster_status status = MUSTER_OUT_OF_MEMORY;
    for (int64_t k = 1; status == MUSTER_OUT_OF_MEMORY; k++, failed++) {
        mst_memory_fail_at(k);
        status = muster_graph_compile(u.graph, NULL, &u.function);
        mst_memory_fail_at(0);
        memset(read, 0, sizeof read);
        assert_ok(muster_variable_get_whole(u.velocity, muster_f32(read, COUNT)));
        assert_memory_equal(read, values, sizeof values);
    }
    assert_ok(status);
    assert_true(failed > 30);
    for (int32_t set = 0; set < 2; set++) {
        status = MUSTER_OUT_OF_MEMORY;
        for (int64_t k = 1; status == MUSTER_OUT_OF_MEMORY; k++) {
            mst_memory_fail_at(k);
            status = set ? muster_function_state_set(u.function, u.w, "velocity", strided)
                         : muster_function_state_get(u.function, u.w, "velocity", strided);
            mst_memory_fail_at(0);
        }
        assert_ok(status);
    }
    for (int32_t i = 0; i < COUNT; i++) assert_true(read[2 * i] == values[i]);
    call(&u, NULL);
    assert_ok(muster_function_state_get(u.function, u.w, "velocity", strided));
    for (int32_t i = 0; i < COUNT; i++) assert_true(read[2 * i] == values[i] / 2 - 2);
    end(&u);
}

/* Then the same graph is compiled in a way in which every device has the states. */
static void test_a_failed_compilation_leaves_no_portions(void **state) {
    int32_t failed = 0;
    (void)state;
    for (muster_status status = MUSTER_OUT_OF_MEMORY; status == MUSTER_OUT_OF_MEMORY; failed++) {
        muster_graph_options options;
        muster_graph_options_init(&options);
        options.meaning = MUSTER_PER_WORKER;
        uses u = begin("host:2");
        mst_memory_fail_at(failed + 1);
        status = muster_graph_compile(u.graph, NULL, &u.function);
        mst_memory_fail_at(0);
        if (status != MUSTER_OK) assert_ok(muster_graph_compile(u.graph, &options, &u.function));
        call(&u, NULL);
        check_velocity(&u, status == MUSTER_OK ? -2 : -0.75f); /* the sum of all rows, or of the master's */
        end(&u);
    }
    assert_true(failed > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations_refuse_a_state_in_portions),
                                       cmocka_unit_test(test_a_graph_may_read_its_states),
                                       cmocka_unit_test(test_a_rate_may_read_a_state),
                                       cmocka_unit_test(test_what_rules_write_is_said_by_the_ports),
                                       cmocka_unit_test(test_a_state_that_is_set_before_compiling_stays),
                                       cmocka_unit_test(test_a_state_that_another_function_uses_is_not_divided),
                                       cmocka_unit_test(test_a_failed_allocation_keeps_the_values),
                                       cmocka_unit_test(test_a_failed_compilation_leaves_no_portions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

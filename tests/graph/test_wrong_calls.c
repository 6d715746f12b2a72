/* Calls of compiled graphs with wrong shapes, on one device and on several: the message shows the
 * caller's tensors, not the parts of the workers. */
#include "graph_fixture.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 6, COLUMNS = 3, MOST = 64 };

typedef struct wrong_call {
    const char *text; /* of the output */
    muster_graph_meaning meaning;
    int32_t mode;
    int64_t input[2], size, output[2]; /* size: of the input "s", which has the size "time" */
    int32_t output_ndim;
    const char *message;  /* without what comes before the port, and the rank at the end */
    const char *on_three; /* on three devices; NULL: the same */
} wrong_call;

static const wrong_call calls[] = {
    {"x * 2", MUSTER_ONE_DEVICE, MUSTER_AUTO, {ROWS, 5}, 2, {ROWS, COLUMNS}, 2, "input \"x\": expected (rows, 3), received (6, 5)", NULL},
    {"x * 2", MUSTER_PER_WORKER, MUSTER_GATHER, {ROWS, 5}, 2, {ROWS, COLUMNS}, 2, "input \"x\": expected (rows, 3), received (6, 5)", NULL},
    {"x * 2",
     MUSTER_ONE_DEVICE,
     MUSTER_AUTO,
     {ROWS, COLUMNS},
     2,
     {ROWS, 4},
     2,
     "output \"y\": expected shape (6, 3), received (6, 4)",
     NULL},
    {"x * 2",
     MUSTER_PER_WORKER,
     MUSTER_GATHER,
     {ROWS, COLUMNS},
     2,
     {ROWS, 4},
     2,
     "output \"y\": expected shape (6, 3), received (6, 4)",
     NULL},
    {"sum(x, 0)", MUSTER_ONE_DEVICE, MUSTER_AUTO, {ROWS, COLUMNS}, 2, {4}, 1, "output \"y\": expected shape (3,), received (4,)", NULL},
    {"sum(x, 0)", MUSTER_PER_WORKER, MUSTER_SUM, {ROWS, COLUMNS}, 2, {4}, 1, "output \"y\": expected shape (3,), received (4,)", NULL},
    {"sum(t, 1) + sum(s)",
     MUSTER_ONE_DEVICE,
     MUSTER_AUTO,
     {ROWS, COLUMNS},
     3,
     {ROWS},
     1,
     "input \"t\": expected (rows, time) with time = 3, as in an input before it, received (6, 2)",
     NULL},
    {"x * 2",
     MUSTER_PER_WORKER,
     MUSTER_AUTO,
     {ROWS, COLUMNS},
     2,
     {ROWS + 1, COLUMNS},
     2,
     "output \"y\": expected shape (6, 3), received (7, 3)",
     "output \"y\": expected shape (2, 3), that of the rows of each worker, since MUSTER_AUTO averages the values of workers with "
     "MUSTER_PER_WORKER (MUSTER_GATHER collects all rows), received (7, 3)"},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* s gives the size time, t has it, too. */
static muster_function *compile(muster_runtime *runtime, const wrong_call *its) {
    muster_graph *g;
    muster_function *function;
    muster_graph_options options;
    assert_ok(muster_graph_create(runtime, "g", &g));
    const int64_t time = muster_graph_size(g, "time");
    (void)muster_graph_input(g, "s", MUSTER_F32, MUSTER_SHAPE(time), MUSTER_BROADCAST);
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, time), MUSTER_SCATTER);
    assert_ok(muster_graph_output(g, "y", muster_expr_parse(g, its->text), its->mode));
    muster_graph_options_init(&options);
    options.meaning = its->meaning;
    assert_ok(muster_graph_compile(g, &options, &function));
    assert_ok(muster_graph_destroy(g));
    return function;
}

static void call_check(const char *devices, const wrong_call *its, const char *expected) {
    static float x[MOST], t[MOST], s[MOST], y[MOST];
    muster_runtime *runtime = graph_runtime(devices);
    muster_function *function = compile(runtime, its);
    const muster_tensor in[] = {muster_tensor_make(MUSTER_F32, s, 1, &its->size), muster_tensor_make(MUSTER_F32, x, 2, its->input),
                                muster_tensor_make(MUSTER_F32, t, 2, (const int64_t[]){ROWS, 2})};
    const muster_tensor out = muster_tensor_make(MUSTER_F32, y, its->output_ndim, its->output);
    if (muster_function_call(function, in, 3, &out, 1, NULL) != MUSTER_SHAPE_MISMATCH) fail_msg("%s on %s: no error", its->text, devices);
    const char *received = strstr(muster_last_error(), "function 'g': ");
    const size_t length = strlen(expected);
    received = received ? received + strlen("function 'g': ") : muster_last_error();
    if (strncmp(received, expected, length) != 0 || (received[length] && strncmp(received + length, " (rank ", 7) != 0))
        fail_msg("%s on %s:\n  expected: %s\n  received: %s", its->text, devices, expected, received);
    assert_ok(muster_runtime_close(runtime));
}

static void messages_show_the_tensors_of_the_caller(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:3"};
    int32_t checked = 0;
    (void)state;
    for (int32_t c = 0; c < CALLS; c++)
        for (int32_t d = 0; d < 3; d++) {
            if (calls[c].on_three && d == 1) continue;
            call_check(devices[d], &calls[c], calls[c].on_three && d ? calls[c].on_three : calls[c].message);
            checked++;
        }
    assert_int_equal(checked, 3 * CALLS - 1);
}

/* A training step with predictions as an output, whose tensor has other rows than the batch:
 * refused before any worker runs, when the call is made, queued or prepared, so that parameters and
 * states are those before. */
static void outputs_with_other_rows_leave_parameters_as_they_are(void **state) {
    static const char *const devices[] = {"host:1", "host:2", "host:3"};
    static const int64_t wrong[] = {0, 5, 7, 32};
    enum { BATCH = 6 };
    int32_t refused = 0;
    (void)state;
    for (int32_t d = 0; d < 3; d++)
        for (int32_t worker = 0; worker < 2; worker++) {
            muster_runtime *runtime = graph_runtime(devices[d]);
            muster_variable *w;
            muster_graph *g;
            muster_function *f;
            muster_pending *pending = NULL;
            muster_graph_options options;
            float start[COLUMNS] = {1, 2, 3}, x[BATCH][COLUMNS] = {{1}, {2, 3}}, y[32][COLUMNS], before[COLUMNS], after[COLUMNS], loss;
            assert_ok(muster_variable_create(runtime, "w", muster_f32(start, COLUMNS), &w));
            assert_ok(muster_graph_create(runtime, "g", &g));
            (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
            muster_expr *p = muster_graph_parameter(g, w), *dp, *error = muster_expr_parse(g, "mean((x @ w - 1) ** 2)", "w", p);
            assert_ok(muster_gradient(error, &p, 1, &dp));
            assert_ok(muster_graph_minimise(g, &p, &dp, 1, MUSTER_ADAM, NULL));
            assert_ok(muster_graph_output(g, "loss", error, MUSTER_AUTO));
            assert_ok(muster_graph_output(g, "y", muster_expr_parse(g, "x * w", "w", p), worker ? MUSTER_GATHER : MUSTER_AUTO));
            muster_graph_options_init(&options);
            if (worker) options.meaning = MUSTER_PER_WORKER;
            assert_ok(muster_graph_compile(g, &options, &f));
            assert_ok(muster_graph_destroy(g));
            const muster_tensor in = muster_f32(x, BATCH, COLUMNS);
            muster_tensor out[] = {muster_f32(&loss), muster_f32(y, BATCH, COLUMNS)};
            assert_ok(muster_function_call(f, &in, 1, out, 2, NULL));
            assert_ok(muster_variable_get_whole(w, muster_f32(before, COLUMNS)));
            for (int32_t i = 0; i < 4; i++, refused++) {
                char expected[96];
                snprintf(expected, sizeof expected, "output 'y' of function 'g': expected 6 rows, as the call has, received %d",
                         (int)wrong[i]);
                out[1] = muster_f32(y, wrong[i], COLUMNS);
                assert_refused(muster_function_call(f, &in, 1, out, 2, NULL), MUSTER_SHAPE_MISMATCH, expected);
                assert_refused(muster_function_prepare(f, &in, 1, out, 2, NULL), MUSTER_SHAPE_MISMATCH, expected);
                assert_refused(muster_function_call_async(f, &in, 1, out, 2, NULL, &pending), MUSTER_SHAPE_MISMATCH, expected);
            }
            assert_ok(muster_variable_get_whole(w, muster_f32(after, COLUMNS)));
            assert_memory_equal(before, after, sizeof after);
            out[1] = muster_f32(y, BATCH, COLUMNS);
            assert_ok(muster_function_call(f, &in, 1, out, 2, NULL));
            assert_ok(muster_runtime_close(runtime));
        }
    assert_int_equal(refused, 3 * 2 * 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_show_the_tensors_of_the_caller),
                                       cmocka_unit_test(outputs_with_other_rows_leave_parameters_as_they_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

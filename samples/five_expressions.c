/* five_expressions.c: the functions of the samples modes, data, variables, batch_slices and
 * replica_batch, written as expressions in place of bodies. How they are called is the same, and so
 * are the results. */
#include <string.h>

#include "sample.h"

static muster_graph *new_graph(muster_runtime *rt, const char *name) {
    muster_graph *g;
    CHECK(muster_graph_create(rt, name, &g));
    return g;
}

/* Each worker computes from its own rows, as a body does. */
static muster_function *compile(muster_graph *g) {
    muster_function *f;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    CHECK(muster_graph_compile(g, &options, &f));
    CHECK(muster_graph_destroy(g));
    return f;
}

static void output(muster_graph *g, const char *name, const char *text, muster_collect_mode mode) {
    (void)muster_graph_output(g, name, muster_expr_parse(g, text), mode);
}

/* The ways in which an output is collected. */
static void modes(muster_runtime *rt) {
    enum { OUTPUTS = 7, ROWS = 5 };
    float x[ROWS] = {1, 2, 3, 4, 5}, r[OUTPUTS - 1], gathered[ROWS];
    muster_graph *g = new_graph(rt, "modes");
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    output(g, "avg", "mean(x)", MUSTER_AUTO);
    output(g, "sum", "sum(x)", MUSTER_SUM);
    output(g, "prod", "prod(x)", MUSTER_PROD);
    output(g, "max", "max(x)", MUSTER_MAX);
    output(g, "min", "min(x)", MUSTER_MIN);
    output(g, "none", "sum(x)", MUSTER_MASTER); /* of the rows of rank 0: 1 + 2 */
    output(g, "gather", "10 * x", MUSTER_GATHER);
    muster_function *f = compile(g);
    const muster_tensor in = muster_f32(x, ROWS),
                        out[OUTPUTS] = {muster_f32(&r[0]), muster_f32(&r[1]), muster_f32(&r[2]),         muster_f32(&r[3]),
                                        muster_f32(&r[4]), muster_f32(&r[5]), muster_f32(gathered, ROWS)};
    CHECK(muster_function_call(f, &in, 1, out, OUTPUTS, NULL));
    sample_print("modes: avg, sum, prod, max, min, none:", r, 6);
    EXPECT(r[0] == 3 && r[1] == 15 && r[2] == 120 && r[3] == 5 && r[4] == 1 && r[5] == 3);
    for (int i = 0; i < ROWS; i++) EXPECT(gathered[i] == 10 * x[i]);
}

/* Some rows of a buffer. */
static void data(muster_runtime *rt) {
    enum { ROWS = 1000, COLUMNS = 4 };
    static uint8_t bytes[ROWS][COLUMNS];
    float sums[COLUMNS], expected[COLUMNS] = {0};
    muster_buffer *buffer;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            bytes[i][j] = (uint8_t)(i % 100 + j);
            if (i >= 100 && i < 200) expected[j] += (float)bytes[i][j];
        }
    CHECK(muster_buffer_create(MUSTER_F32, 2, 1.5, &buffer));
    CHECK(muster_buffer_set_value(buffer, muster_u8(bytes, ROWS, COLUMNS), MUSTER_CAST_SAFE));
    muster_graph *g = new_graph(rt, "column sums");
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    output(g, "sums", "sum(x, axis=0)", MUSTER_SUM);
    muster_function *f = compile(g);
    muster_call_options options;
    muster_call_options_init(&options);
    options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 100, .stop = 200};
    const muster_tensor in = muster_buffer_tensor(buffer), out = muster_f32(sums, COLUMNS);
    CHECK(muster_function_call(f, &in, 1, &out, 1, &options));
    sample_print("data: sums of the rows 100 to 199:", sums, COLUMNS);
    EXPECT(memcmp(sums, expected, sizeof sums) == 0);
    muster_buffer_destroy(buffer);
}

/* s becomes the sum over the rows of x * s, on each device by its own rows. */
static void variables(muster_runtime *rt) {
    float ones[2] = {1, 1}, x[4][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}}, both[2][2];
    const muster_tensor rows = muster_f32(x, 4, 2), reset = muster_f32(ones, 2), replicas = muster_f32(both, 2, 2);
    muster_variable *s;
    CHECK(muster_variable_create(rt, "s", reset, &s));
    muster_graph *g = new_graph(rt, "weigh");
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 2), MUSTER_SCATTER);
    (void)muster_graph_parameter(g, s);
    (void)muster_graph_update(g, s, muster_expr_parse(g, "sum(x * s, axis=0)"), MUSTER_SUM);
    muster_function *f = compile(g);
    CHECK(muster_function_call_single(f, &rows, 1, NULL, 0, NULL));
    CHECK(muster_variables_stack(&s, &replicas, 1));
    EXPECT(sample_all(both[0], 2, 10) && sample_all(both[1], 2, 1)); /* all rows on the master alone */
    CHECK(muster_variables_broadcast(&s, &reset, 1));
    CHECK(muster_function_call(f, &rows, 1, NULL, 0, NULL));
    CHECK(muster_variables_stack(&s, &replicas, 1));
    sample_print("variables: each device by its own rows:", both[0], 4);
    EXPECT(sample_all(both[0], 2, 3) && sample_all(both[1], 2, 7));
    CHECK(muster_variables_all_reduce(&s, 1, MUSTER_SUM));
    CHECK(muster_variables_stack(&s, &replicas, 1));
    EXPECT(sample_all(both[0], 4, 10));
}

/* The rows that a call uses, an input that has just these, and slices. */
static void batch_slices(muster_runtime *rt) {
    enum { ROWS = 1000, SELECTED = 100 };
    float x[ROWS], weight[SELECTED], two = 2, expected = 0, sum, max, product;
    for (int i = 0; i < ROWS; i++) x[i] = (float)(i * 37 % 101);
    for (int i = 0; i < SELECTED; i++) expected += x[100 + i] * (weight[i] = (float)(i % 5));
    muster_variable *v;
    CHECK(muster_variable_create(rt, "v", muster_f32(&two), &v));
    muster_graph *g = new_graph(rt, "weighted");
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_input(g, "weight", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_MINIBATCH);
    (void)muster_graph_parameter(g, v);
    output(g, "sum", "sum(x * weight)", MUSTER_SUM);
    output(g, "max", "max(x)", MUSTER_MAX);
    (void)muster_graph_update(g, v, muster_expr_parse(g, "v * sum(x * weight)"), MUSTER_SUM);
    muster_function *f = compile(g);
    const muster_tensor in[] = {muster_f32(x, ROWS), muster_f32(weight, SELECTED)}, out[] = {muster_f32(&sum), muster_f32(&max)};
    const muster_tensor start = muster_f32(&two), total = muster_f32(&product);
    for (int64_t slices = 1; slices <= 4; slices += 3) {
        muster_call_options options;
        muster_call_options_init(&options);
        options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 100, .stop = 200};
        options.slices = slices;
        CHECK(muster_variables_broadcast(&v, &start, 1));
        CHECK(muster_function_call(f, in, 2, out, 2, &options));
        CHECK(muster_variables_reduce_to(&v, &total, 1, MUSTER_SUM));
        printf("batch_slices: %" PRId64 " slices: sum %g, max %g, variable %g\n", slices, (double)sum, (double)max, (double)product);
        EXPECT(sum == expected && max == 100 && product == 2 * expected);
    }
}

/* Rows that live on the devices: no inputs. */
static void replica_batch(muster_runtime *rt) {
    enum { ROWS = 200, HALF = ROWS / 2 };
    float x[ROWS], expected = 0, sum, mean;
    for (int i = 0; i < ROWS; i++) x[i] = (float)(i * i % 103);
    for (int i = 10; i < 30; i++) expected += x[i] + x[HALF + i];
    const muster_tensor rows = muster_f32(x, ROWS), out[] = {muster_f32(&sum), muster_f32(&mean)};
    muster_variable *v;
    CHECK(muster_variable_create(rt, "x", rows, &v));
    CHECK(muster_variables_scatter(&v, &rows, 1, NULL));
    muster_graph *g = new_graph(rt, "own rows");
    (void)muster_graph_parameter_rows(g, v);
    output(g, "sum", "sum(x)", MUSTER_SUM);
    output(g, "mean", "mean(x)", MUSTER_AUTO);
    muster_function *f = compile(g);
    const muster_selection range = {.kind = MUSTER_SELECT_RANGE, .start = 10, .stop = 30};
    for (int64_t slices = 1; slices <= 4; slices += 3) {
        muster_call_options options;
        muster_call_options_init(&options);
        options.replica_batch = &range;
        options.replica_batch_count = 1;
        options.slices = slices;
        CHECK(muster_function_call(f, NULL, 0, out, 2, &options));
        printf("replica_batch: %" PRId64 " slices: sum %g, mean %g\n", slices, (double)sum, (double)mean);
        EXPECT(sum == expected && fabsf(mean - expected / 40) <= 1e-5f * mean);
    }
}

int main(void) {
    muster_runtime *rt = sample_open_exactly("host:2", 2);
    modes(rt);
    data(rt);
    variables(rt);
    batch_slices(rt);
    replica_batch(rt);
    CHECK(muster_runtime_close(rt));
    return 0;
}

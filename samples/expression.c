/* expression.c: mean(x.dot(y), axis=0), on all devices, each with some rows, and on one alone. */
#include "sample.h"
int main(void) {
    float x[6][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}}, y[2][3] = {{1, 0, -1}, {2, 1, 0}}, all[3], one[3];
    muster_runtime *rt = sample_open("host:2");
    muster_graph *g;
    muster_function *f;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER; /* each device averages its own rows, and their averages are averaged */
    CHECK(muster_graph_create(rt, "mean of products", &g));
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 2), MUSTER_SCATTER);
    (void)muster_graph_input(g, "y", MUSTER_F32, MUSTER_SHAPE(2, 3), MUSTER_BROADCAST);
    (void)muster_graph_output(g, "r", muster_expr_parse(g, "mean(dot(x, y), axis=0)"), MUSTER_AUTO);
    CHECK(muster_graph_compile(g, &options, &f));
    const muster_tensor in[] = {muster_f32(x, 6, 2), muster_f32(y, 2, 3)}, out[] = {muster_f32(all, 3), muster_f32(one, 3)};
    CHECK(muster_function_call(f, in, 2, &out[0], 1, NULL));
    CHECK(muster_function_call_single(f, in, 2, &out[1], 1, NULL));
    sample_print("mean(x.dot(y), axis=0) =", all, 3);
    for (int i = 0; i < 3; i++) EXPECT(fabsf(all[i] - one[i]) < 1e-5f && fabsf(all[i] - (float[]){20, 7, -6}[i]) < 1e-5f);
    CHECK(muster_graph_destroy(g));
    return muster_runtime_close(rt) != MUSTER_OK;
}

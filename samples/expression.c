/* expression.c: what Muster computes, written as an expression: mean(x.dot(y), axis=0) on all
 * devices, each with a part of the rows, and by a single call on one. No body is written by
 * hand. */
#include "sample.h"

enum { N = 6, K = 2, M = 3 };

int main(void) {
    float x[N][K] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}}, y[K][M] = {{1, 0, -1}, {2, 1, 0}}, all[M], one[M];
    muster_runtime *rt = sample_open("host:2");
    muster_graph *g;
    muster_function *f;
    CHECK(muster_graph_create(rt, "mean of products", &g));
    muster_expr *rows = muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *matrix = muster_graph_input(g, "y", MUSTER_F32, MUSTER_SHAPE(K, M), MUSTER_BROADCAST);
    muster_graph_output(g, "r", muster_expr_mean(muster_expr_dot(rows, matrix), MUSTER_LIST(axis, 0)), MUSTER_AUTO);
    CHECK(muster_graph_compile(g, &(muster_graph_options){.struct_size = sizeof(muster_graph_options), .meaning = MUSTER_PER_WORKER}, &f));
    const muster_tensor in[] = {muster_f32(x, N, K), muster_f32(y, K, M)}, out[] = {muster_f32(all, M), muster_f32(one, M)};
    CHECK(muster_function_call(f, in, 2, &out[0], 1, NULL));
    CHECK(muster_function_call_single(f, in, 2, &out[1], 1, NULL));
    for (int i = 0; i < M; i++) EXPECT(all[i] == one[i]);
    printf("mean(x.dot(y), axis=0) = %g %g %g\n", (double)all[0], (double)all[1], (double)all[2]);
    CHECK(muster_graph_destroy(g));
    return muster_runtime_close(rt) != MUSTER_OK;
}

/* The parts of C++ on the pages: a sum over an axis, as a struct of fields and as a text. */
#include "docs.h"

#include <muster/expr.h>

int main() {
    muster_runtime *rt = docs_open();
    muster_graph *g;
    muster_function *f;
    check(muster_graph_create(rt, "sums", &g));
    muster_expr *x =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 2), MUSTER_SCATTER);
    /* snippet: reduction */
    const int64_t rows[] = {0};
    muster_sum_attributes by_row = {};
    by_row.axis = rows, by_row.axis_count = 1;
    muster_expr *sum = muster_expr_sum_at(MUSTER_HERE, x, by_row);
    /* end of snippet */
    EXPECT(muster_expr_ndim(sum) == 1);
    check(muster_graph_output(g, "struct", sum, MUSTER_AUTO));
    check(muster_graph_output(g, "text", muster_expr_parse(g, "sum(x, axis=0)"), MUSTER_AUTO));
    check(muster_graph_compile(g, nullptr, &f));
    check(muster_graph_destroy(g));
    const float values[3][2] = {{1, 2}, {3, 4}, {5, 7}};
    float sums[2][2] = {};
    const muster_tensor in = muster_f32(values, {3, 2});
    const muster_tensor out[] = {muster_f32(sums[0], {2}), muster_f32(sums[1], {2})};
    check(muster_function_call(f, &in, 1, out, 2, nullptr));
    for (const auto &received : sums) EXPECT(received[0] == 9 && received[1] == 13);
    check(muster_runtime_close(rt));
    return 0;
}

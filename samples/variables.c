/* variables.c: variables have a replica on every device. A function updates its own replica;
 * communicating is a separate, explicit step.
 *
 * s = [1 1] on both devices, x has the rows [1 1] [2 2] [3 3] [4 4], and f does: s <- sum over rows
 * of x * s. */
#include <string.h>

#include "sample.h"

static muster_status weigh(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)out;
    muster_variable *s = user;
    muster_tensor product;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, in[0].shape, &product));
    muster_tensor value;
    MUSTER_TRY(muster_worker_variable(w, s, &value));
    MUSTER_TRY(muster_binary_op(w, MUSTER_MUL, in[0], value, product));
    muster_tensor new_value;
    MUSTER_TRY(muster_worker_update(w, s, &new_value));
    return muster_reduce(w, MUSTER_SUM, product, 0, new_value);
}

static void expect_replicas(muster_variable *s, const char *title, float master, float other) {
    float both[2][2];
    /* gather, stacked along a new first axis */
    CHECK(muster_variables_stack(&s, (muster_tensor[]){muster_f32(both, 2, 2)}, 1));
    printf("%-34s rank 0: [%g %g]  rank 1: [%g %g]\n", title, (double)both[0][0], (double)both[0][1], (double)both[1][0],
           (double)both[1][1]);
    EXPECT(sample_all(both[0], 2, master));
    EXPECT(sample_all(both[1], 2, other));
}

static void worked_case(muster_runtime *rt) {
    float ones[2] = {1, 1}, x[4][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}}, total[2];
    muster_tensor rows = muster_f32(x, 4, 2), reset = muster_f32(ones, 2);
    muster_variable *s;
    muster_function *f;
    CHECK(muster_variable_create(rt, "s", reset, &s));
    CHECK(muster_function_create(rt, "weigh", weigh, s, &f));
    CHECK(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    CHECK(muster_function_variable(f, s, MUSTER_USE_READ));
    CHECK(muster_function_update(f, s, MUSTER_SUM));

    CHECK(muster_function_call_single(f, &rows, 1, NULL, 0, NULL));
    expect_replicas(s, "all rows on the master alone", 10, 1);

    CHECK(muster_variables_broadcast(&s, &reset, 1));
    expect_replicas(s, "reset by broadcast", 1, 1);
    CHECK(muster_function_call(f, &rows, 1, NULL, 0, NULL));
    expect_replicas(s, "called on both", 3, 7);

    /* to a host array; the replicas keep their values */
    CHECK(muster_variables_reduce_to(&s, (muster_tensor[]){muster_f32(total, 2)}, 1, MUSTER_SUM));
    EXPECT(sample_all(total, 2, 10));
    CHECK(muster_variables_reduce(&s, 1, MUSTER_SUM));
    expect_replicas(s, "reduced into the master", 10, 7);

    CHECK(muster_variables_broadcast(&s, &reset, 1));
    CHECK(muster_function_call(f, &rows, 1, NULL, 0, NULL));
    CHECK(muster_variables_all_reduce(&s, 1, MUSTER_SUM));
    expect_replicas(s, "called, then all-reduced", 10, 10);
}

static void scatter_and_gather(muster_runtime *rt) {
    float rows[5] = {0, 1, 2, 3, 4}, back[5], part[3];
    int64_t lengths[2];
    muster_variable *v;
    CHECK(muster_variable_create(rt, "v", muster_f32(rows, 5), &v));
    CHECK(muster_variables_scatter(&v, (muster_tensor[]){muster_f32(rows, 5)}, 1, NULL));
    CHECK(muster_variable_lengths(v, 2, lengths));
    printf("5 rows scattered: %" PRId64 " and %" PRId64 "\n", lengths[0], lengths[1]);
    EXPECT(lengths[0] == 2 && lengths[1] == 3);
    CHECK(muster_variable_get(v, 1, muster_f32(part, 3)));
    EXPECT(part[0] == 2 && part[1] == 3 && part[2] == 4);

    /* replicas of different shape: refused, by name */
    EXPECT(muster_variables_all_reduce(&v, 1, MUSTER_SUM) == MUSTER_SHAPE_MISMATCH);
    printf("refused: %s\n", muster_last_error());

    CHECK(muster_variables_concatenate(&v, (muster_tensor[]){muster_f32(back, 5)}, 1));
    EXPECT(memcmp(back, rows, sizeof rows) == 0);
    CHECK(muster_variables_all_gather(&v, 1)); /* now every device has all rows */
    CHECK(muster_variable_lengths(v, 2, lengths));
    EXPECT(lengths[0] == 5 && lengths[1] == 5);

    muster_selection some = {.kind = MUSTER_SELECT_RANGE, .start = 1, .stop = 5};
    CHECK(muster_variables_scatter(&v, (muster_tensor[]){muster_f32(rows, 5)}, 1, &some));
    CHECK(muster_variable_get(v, 0, muster_f32(part, 2)));
    EXPECT(part[0] == 1 && part[1] == 2);
    CHECK(muster_variable_set(v, 0, muster_f32(back, 4))); /* sets one replica only, with another shape */
    CHECK(muster_variable_lengths(v, 2, lengths));
    EXPECT(lengths[0] == 4 && lengths[1] == 2);
    CHECK(muster_variable_destroy(v));
}

int main(void) {
    muster_runtime *rt = sample_open_exactly("host:2", 2);
    worked_case(rt);
    scatter_and_gather(rt);
    CHECK(muster_runtime_close(rt));
    return 0;
}

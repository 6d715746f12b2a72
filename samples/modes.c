/* modes.c: the seven ways in which an output is collected from the workers, side by side in one
 * function.
 *
 * x = [1 2 3 4 5] on two devices: worker 0 has the rows 1 2, worker 1 the rows 3 4 5. Each worker
 * reduces its own rows; the collect mode determines how the two results become one. The average is
 * weighted by rows: (2 * 1.5 + 3 * 4) / 5 = 3, not (1.5 + 4) / 2 = 2.75. */
#include "sample.h"

enum { AVG, SUM, PROD, MAX, MIN, GATHER, NONE, OUTPUTS, ROWS = 5 };

static muster_status modes(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    static const muster_reduction reductions[] = {MUSTER_AVG, MUSTER_SUM, MUSTER_PROD, MUSTER_MAX, MUSTER_MIN};
    for (int i = AVG; i <= MIN; i++) /* a call may request only some outputs */
        if (out[i].dtype != MUSTER_DTYPE_NONE) MUSTER_TRY(muster_reduce(w, reductions[i], in[0], -1, out[i]));
    if (out[GATHER].dtype != MUSTER_DTYPE_NONE) MUSTER_TRY(muster_scale_add(w, 10, in[0], 0, out[GATHER]));
    if (out[NONE].dtype != MUSTER_DTYPE_NONE) MUSTER_TRY(muster_sum(w, in[0], out[NONE]));
    return MUSTER_OK;
}

int main(void) {
    float x[ROWS] = {1, 2, 3, 4, 5}, avg, sum, prod, max, min, gather[ROWS], none;
    muster_runtime *rt = sample_open_exactly("host:2", 2);
    muster_function *f;
    CHECK(muster_function_create(rt, "modes", modes, NULL, &f));
    CHECK(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    CHECK(muster_function_output(f, "avg", MUSTER_F32, 0, MUSTER_AVG));
    CHECK(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    CHECK(muster_function_output(f, "prod", MUSTER_F32, 0, MUSTER_PROD));
    CHECK(muster_function_output(f, "max", MUSTER_F32, 0, MUSTER_MAX));
    CHECK(muster_function_output(f, "min", MUSTER_F32, 0, MUSTER_MIN));
    CHECK(muster_function_output(f, "gather", MUSTER_F32, 1, MUSTER_GATHER));
    CHECK(muster_function_output(f, "none", MUSTER_F32, 0, MUSTER_MASTER));

    muster_tensor out[OUTPUTS] = {muster_f32(&avg), muster_f32(&sum),         muster_f32(&prod), muster_f32(&max),
                                  muster_f32(&min), muster_f32(gather, ROWS), muster_f32(&none)};
    CHECK(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS)}, 1, out, OUTPUTS, NULL));
    sample_print("x      ", x, ROWS);
    sample_print("avg    ", &avg, 1);
    sample_print("sum    ", &sum, 1);
    sample_print("prod   ", &prod, 1);
    sample_print("max    ", &max, 1);
    sample_print("min    ", &min, 1);
    sample_print("gather ", gather, ROWS);
    sample_print("none   ", &none, 1);
    EXPECT(avg == 3 && sum == 15 && prod == 120 && max == 5 && min == 1);
    for (int i = 0; i < ROWS; i++) EXPECT(gather[i] == 10 * x[i]);
    EXPECT(none == 3); /* the master's own rows: 1 + 2 */

    /* Only some outputs, by name: the others are neither computed nor collected. */
    float only_max = 0;
    CHECK(muster_function_call_named(f, (const char *[]){"x"}, (muster_tensor[]){muster_f32(x, ROWS)}, 1, (const char *[]){"max"},
                                     (muster_tensor[]){muster_f32(&only_max)}, 1, NULL));
    EXPECT(only_max == 5);

    /* One row, two devices: the worker without rows does not run, and does not count in the
     * average, maximum, minimum or product. */
    float one = -7;
    CHECK(muster_function_call(f, (muster_tensor[]){muster_f32(&one, 1)}, 1,
                               (muster_tensor[]){muster_f32(&avg), muster_f32(&sum), muster_f32(&prod), muster_f32(&max), muster_f32(&min),
                                                 muster_f32(gather, 1), muster_tensor_none()},
                               OUTPUTS, NULL));
    printf("of the one row -7: avg %g sum %g prod %g max %g min %g gather %g\n", (double)avg, (double)sum, (double)prod, (double)max,
           (double)min, (double)gather[0]);
    EXPECT(avg == -7 && sum == -7 && prod == -7 && max == -7 && min == -7 && gather[0] == -70);
    CHECK(muster_runtime_close(rt));
    return 0;
}

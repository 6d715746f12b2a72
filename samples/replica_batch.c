/* replica_batch.c: the data lives on the devices (scattered once into a variable). The function has
 * no inputs; replica_batch selects the rows that each worker uses of its own part. */
#include "sample.h"

enum { ROWS = 200, HALF = ROWS / 2 };

/* The sum and the mean over the selected rows of the worker's part of x. The number of these rows
 * is the worker's weight in the average over the workers. */
static muster_status own_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    muster_tensor x;
    MUSTER_TRY(muster_worker_variable(w, user, &x));
    MUSTER_TRY(muster_sum(w, x, out[0]));
    return muster_mean(w, x, out[1]);
}

static void run(muster_function *f, const char *title, const muster_selection *replica_batch, int32_t count, float sum, int64_t rows) {
    for (int64_t slices = 1; slices <= 4; slices += 3) {
        float got_sum, got_mean;
        muster_call_options options;
        muster_call_options_init(&options);
        options.replica_batch = replica_batch;
        options.replica_batch_count = count;
        options.slices = slices;
        CHECK(muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(&got_sum), muster_f32(&got_mean)}, 2, &options));
        printf("%-32s slices %" PRId64 ": sum %g, mean %g\n", title, slices, (double)got_sum, (double)got_mean);
        EXPECT(got_sum == sum);
        EXPECT(fabsf(got_mean - sum / (float)rows) <= 1e-5f * fabsf(got_mean));
    }
}

static float sum_of(const float *x, const int64_t *rows, int64_t start, int64_t count) {
    float sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[rows ? rows[i] : start + i];
    return sum;
}

int main(void) {
    float x[ROWS];
    for (int i = 0; i < ROWS; i++) x[i] = (float)(i * i % 103);
    muster_runtime *rt = sample_open_exactly("host:2", 2);
    muster_variable *v;
    muster_function *f;
    CHECK(muster_variable_create(rt, "x", muster_f32(x, ROWS), &v));
    /* rank 0: rows 0 to 99, rank 1: the rest */
    CHECK(muster_variables_scatter(&v, (muster_tensor[]){muster_f32(x, ROWS)}, 1, NULL));
    CHECK(muster_function_create(rt, "own_rows", own_rows, v, &f));
    CHECK(muster_function_output(f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    CHECK(muster_function_output(f, "mean", MUSTER_F32, 0, MUSTER_AVG));
    CHECK(muster_function_variable(f, v, MUSTER_USE_READ_SLICEABLE));

    run(f, "all rows", NULL, 0, sum_of(x, NULL, 0, ROWS), ROWS);

    muster_selection range = {.kind = MUSTER_SELECT_RANGE, .start = 10, .stop = 30};
    run(f, "rows 10 to 29 of each", &range, 1, sum_of(x, NULL, 10, 20) + sum_of(x, NULL, HALF + 10, 20), 40);

    int64_t first[] = {5, 0, 99, 5, 20}, second[] = {1, 2, 3, 4, 98, 97, 50};
    muster_selection list = {.kind = MUSTER_SELECT_LIST, .indices = first, .index_count = 5};
    run(f, "the same 5 rows of each", &list, 1, sum_of(x, first, 0, 5) + sum_of(x + HALF, first, 0, 5), 10);

    muster_selection each[] = {list, {.kind = MUSTER_SELECT_LIST, .indices = second, .index_count = 7}};
    run(f, "5 rows of rank 0, 7 of rank 1", each, 2, sum_of(x, first, 0, 5) + sum_of(x + HALF, second, 0, 7), 12);

    /* one list for each worker or one range for each: not both kinds in one call */
    muster_selection mixed[] = {list, range};
    float sum, mean;
    muster_call_options options;
    muster_call_options_init(&options);
    options.replica_batch = mixed;
    options.replica_batch_count = 2;
    muster_status status = muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(&sum), muster_f32(&mean)}, 2, &options);
    EXPECT(status != MUSTER_OK);
    printf("refused: %s\n", muster_last_error());
    CHECK(muster_runtime_close(rt));
    return 0;
}

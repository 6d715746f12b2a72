/* batch_slices.c: which rows a call uses (batch), an input that holds just those rows (minibatch),
 * and the number of slices into which a worker cuts its rows (slices), together with an update of a
 * variable. */
#include "sample.h"

enum { ROWS = 1000, SELECTED = 100 };

/* s = sum of x * weight over the rows; variable v <- v * (that sum of this worker's rows) */
static muster_status weighted(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_variable *v = user;
    MUSTER_TRY(muster_dot(w, in[0], in[1], out[0]));
    MUSTER_TRY(muster_reduce(w, MUSTER_MAX, in[0], -1, out[1]));
    muster_tensor value;
    MUSTER_TRY(muster_worker_variable(w, v, &value));
    muster_tensor new_value;
    MUSTER_TRY(muster_worker_update(w, v, &new_value));
    return muster_binary_op(w, MUSTER_MUL, value, out[0], new_value);
}

typedef struct setting {
    muster_function *function;
    muster_variable *v;
    float x[ROWS], weight[SELECTED];
} setting;

/* Runs with 1 and with 4 slices: the sum, the maximum and the variable must come out the same. */
static void run(setting *s, const char *title, muster_selection batch, float expected, float expected_max) {
    int64_t count = batch.kind == MUSTER_SELECT_LIST ? batch.index_count : batch.stop - batch.start;
    muster_tensor in[2] = {muster_f32(s->x, ROWS), muster_f32(s->weight, count)};
    for (int64_t slices = 1; slices <= 4; slices += 3) {
        float sum, max, two = 2, product;
        muster_call_options options;
        muster_call_options_init(&options);
        options.batch = batch;
        options.slices = slices;
        CHECK(muster_variables_broadcast(&s->v, (muster_tensor[]){muster_f32(&two)}, 1));
        CHECK(muster_function_call(s->function, in, 2, (muster_tensor[]){muster_f32(&sum), muster_f32(&max)}, 2, &options));
        /* Every slice computed its update from the original 2, so the replicas add up to 2 * sum
         * however many slices there were. */
        CHECK(muster_variables_reduce_to(&s->v, (muster_tensor[]){muster_f32(&product)}, 1, MUSTER_SUM));
        printf("%-22s slices %" PRId64 ": weighted sum %g, max %g, variable %g\n", title, slices, (double)sum, (double)max,
               (double)product);
        EXPECT(sum == expected && max == expected_max && product == 2 * expected);
    }
}

static float expected_sum(const setting *s, const int64_t *rows, int64_t start, int64_t count, float *max) {
    float sum = 0;
    *max = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        float x = s->x[rows ? rows[i] : start + i];
        sum += x * s->weight[i]; /* row 0 of a minibatch input belongs to the lowest selected position */
        if (x > *max) *max = x;
    }
    return sum;
}

static void describe(muster_runtime *rt, setting *s) {
    float two = 2;
    CHECK(muster_variable_create(rt, "v", muster_f32(&two), &s->v));
    CHECK(muster_function_create(rt, "weighted", weighted, s->v, &s->function));
    CHECK(muster_function_input(s->function, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    CHECK(muster_function_input(s->function, "weight", MUSTER_F32, 1, MUSTER_MINIBATCH));
    CHECK(muster_function_output(s->function, "sum", MUSTER_F32, 0, MUSTER_SUM));
    CHECK(muster_function_output(s->function, "max", MUSTER_F32, 0, MUSTER_MAX));
    CHECK(muster_function_variable(s->function, s->v, MUSTER_USE_READ));
    CHECK(muster_function_update(s->function, s->v, MUSTER_SUM));
}

int main(void) {
    static setting s;
    /* small whole numbers: sums are exact in any order */
    for (int i = 0; i < ROWS; i++) s.x[i] = (float)(i * 37 % 101);
    for (int i = 0; i < SELECTED; i++) s.weight[i] = (float)(i % 5);
    int64_t rows[SELECTED];
    for (int i = 0; i < SELECTED; i++) rows[i] = i * i % ROWS; /* any order, repeats allowed */

    muster_runtime *rt = sample_open("host:2");
    describe(rt, &s);
    float max, sum = expected_sum(&s, NULL, 0, 10, &max);
    run(&s, "the first 10 rows", (muster_selection){.kind = MUSTER_SELECT_COUNT, .stop = 10}, sum, max);
    sum = expected_sum(&s, NULL, 100, SELECTED, &max);
    run(&s, "rows 100 to 199", (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 100, .stop = 200}, sum, max);
    sum = expected_sum(&s, rows, 0, SELECTED, &max);
    run(&s, "a list of 100 rows", (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = rows, .index_count = SELECTED}, sum, max);

    muster_call_options options;
    muster_call_options_init(&options);
    options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 500, .stop = 500};
    muster_status status = muster_function_call(s.function, (muster_tensor[]){muster_f32(s.x, ROWS), muster_f32(s.weight, 0)}, 2,
                                                (muster_tensor[]){muster_f32(&sum), muster_f32(&max)}, 2, &options);
    EXPECT(status != MUSTER_OK); /* an empty batch */
    printf("refused: %s\n", muster_last_error());
    CHECK(muster_runtime_close(rt));
    return 0;
}

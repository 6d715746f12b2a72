/* functions.c: the code of docs/functions.md. */
#include "docs.h"

#include <math.h>
#include <signal.h>

/* snippet: body */
/* in[0]: this worker's rows of x (n, k). out[0] (k): the mean of each column over these rows. */
static muster_status column_means(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                                  void *user) {
    (void)user;
    return muster_reduce(w, MUSTER_AVG, in[0], 0, out[0]);
}
/* end of snippet */

enum { N = 7, K = 3 };

static void describe_and_call(muster_runtime *rt) {
    float x[N][K], means[K];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) x[i][j] = (float)(i * (j + 1));
    /* snippet: describe */
    muster_function *f;
    check(muster_function_create(rt, "column_means", column_means, NULL, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_output(f, "means", MUSTER_F32, 1, MUSTER_AVG));

    const muster_tensor inputs[] = {muster_f32(x, N, K)}, outputs[] = {muster_f32(means, K)};
    check(muster_function_call(f, inputs, 1, outputs, 1, NULL));
    /* end of snippet */
    for (int j = 0; j < K; j++)
        EXPECT(means[j] > 3 * (j + 1) - 1e-5f && means[j] < 3 * (j + 1) + 1e-5f);

    /* snippet: by_name */
    const char *input_names[] = {"x"}, *output_names[] = {"means"};
    check(muster_function_call_named(f, input_names, inputs, 1, output_names, outputs, 1, NULL));
    /* end of snippet */
    EXPECT(means[0] > 3 - 1e-5f && means[0] < 3 + 1e-5f);

    /* snippet: batch */
    muster_call_options options;
    muster_call_options_init(&options);
    options.batch =
        (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 2, .stop = 6}; /* rows 2 to 5 */
    options.slices = 2;
    check(muster_function_call(f, inputs, 1, outputs, 1, &options));
    /* end of snippet */
    EXPECT(means[0] > 3.5f - 1e-5f && means[0] < 3.5f + 1e-5f);
}

/* snippet: update */
/* s becomes s + the sum of this worker's rows of x. */
static muster_status accumulate(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                                void *user) {
    (void)out;
    muster_variable *s = user;
    muster_tensor sums, value, new_value;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, in[0].shape + 1, &sums));
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, sums));
    MUSTER_TRY(muster_worker_variable(w, s, &value));
    MUSTER_TRY(muster_worker_update(w, s, &new_value));
    return muster_binary_op(w, MUSTER_ADD, value, sums, new_value);
}
/* end of snippet */

static void variables(muster_runtime *rt) {
    float x[N][K], total[K];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) x[i][j] = (float)(i * (j + 1));
    /* snippet: variables */
    const float zeros[K] = {0};
    muster_variable *s;
    muster_function *f;
    check(muster_variable_create(rt, "s", muster_f32(zeros, K), &s));
    check(muster_function_create(rt, "accumulate", accumulate, s, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_variable(f, s, MUSTER_USE_READ));
    check(muster_function_update(f, s, MUSTER_SUM));

    const muster_tensor rows = muster_f32(x, N, K), result = muster_f32(total, K);
    /* Each device accumulates its own rows. */
    check(muster_function_call(f, &rows, 1, NULL, 0, NULL));
    /* The sum over the devices, in host memory; then the same on every device. */
    check(muster_variables_reduce_to(&s, &result, 1, MUSTER_SUM));
    check(muster_variables_all_reduce(&s, 1, MUSTER_SUM));
    /* end of snippet */
    for (int j = 0; j < K; j++) EXPECT(total[j] == (float)(21 * (j + 1)));
}

enum { DEVICES_MAX = 16 };

/* m becomes the mean of this worker's rows of x. */
static muster_status own_means(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                               void *user) {
    (void)out;
    muster_tensor new_user;
    MUSTER_TRY(muster_worker_update(w, user, &new_user));
    return muster_reduce(w, MUSTER_AVG, in[0], 0, new_user);
}

static void rows_on_devices(muster_runtime *rt) {
    float x[N][K], part[2][K];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) x[i][j] = (float)(i * (j + 1));
    /* snippet: empty */
    const int64_t row[] = {K}; /* the shape of one row */
    const int64_t chosen[] = {6, 0};
    const muster_selection some = {.kind = MUSTER_SELECT_LIST, .indices = chosen, .index_count = 2};
    const muster_tensor rows = muster_f32(x, N, K);
    muster_variable *data;
    check(muster_variable_create_empty(rt, "data", MUSTER_F32, 2, row, &data)); /* 0 rows */
    /* Each device gets its part of the rows. */
    check(muster_variables_scatter(&data, &rows, 1, NULL));
    /* Device 0 gets rows 6 and 0 instead. */
    check(muster_variable_set_selected(data, 0, rows, &some));
    /* end of snippet */
    check(muster_variable_get(data, 0, muster_f32(part, 2, K)));
    EXPECT(part[0][1] == 12 && part[1][1] == 0);
}

static void averages(muster_runtime *rt) {
    float x[N][K];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) x[i][j] = (float)(i * (j + 1));
    /* snippet: weighted */
    const float zeros[K] = {0};
    const muster_tensor rows = muster_f32(x, N, K);
    float mean[K];
    const muster_tensor result = muster_f32(mean, K);
    double weights[DEVICES_MAX]; /* one for each device */
    muster_variable *m;
    muster_function *f;
    check(muster_variable_create(rt, "m", muster_f32(zeros, K), &m));
    check(muster_function_create(rt, "own_means", own_means, m, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_update(f, m, MUSTER_AVG));

    /* Each device keeps the mean of its own rows. */
    check(muster_function_call(f, &rows, 1, NULL, 0, NULL));
    check(muster_function_weights(f, muster_runtime_size(rt), weights));
    /* The mean of all rows, although the devices had different numbers of them. */
    check(muster_variables_reduce_weighted_to(&m, &result, 1, weights, muster_runtime_size(rt)));
    /* end of snippet */
    EXPECT(mean[0] > 3 - 1e-5f && mean[0] < 3 + 1e-5f);
}

static void asynchronous(muster_runtime *rt) {
    static float x[N][K];
    float means[K];
    muster_function *f;
    check(muster_function_create(rt, "means_later", column_means, NULL, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_output(f, "means", MUSTER_F32, 1, MUSTER_AVG));
    const muster_tensor inputs[] = {muster_f32(x, N, K)}, outputs[] = {muster_f32(means, K)};
    /* snippet: async_call */
    muster_pending *pending;
    check(muster_function_call_async(f, inputs, 1, outputs, 1, NULL, &pending));
    /* The program does something else. It must not write x, nor read means. */
    check(muster_pending_wait(&pending)); /* the call's status and message; the handle is gone */
    /* end of snippet */
    EXPECT(means[K - 1] == 0);
}

/* snippet: openmp */
/* Scales the rows of x to length 1. Returns the sum of their lengths. */
static double normalise(const float *x, float *y, int64_t n, int64_t k) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        double squares = 0;
        for (int64_t j = 0; j < k; j++) squares += (double)x[i * k + j] * x[i * k + j];
        for (int64_t j = 0; j < k; j++) y[i * k + j] = (float)(x[i * k + j] / sqrt(squares));
        sum += sqrt(squares);
    }
    return sum;
}
/* end of snippet */

/* snippet: plain */
static muster_status normalise_body(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                                    void *user) {
    (void)w, (void)user;
    const float *x = MUSTER_DATA(const float, in[0]);
    float *y = MUSTER_DATA(float, out[0]);
    double *sum = MUSTER_DATA(double, out[1]);
    const int64_t n = in[0].shape[0], k = in[0].shape[1]; /* n: this worker's rows */
    *sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double squares = 0;
        for (int64_t j = 0; j < k; j++) squares += (double)x[i * k + j] * x[i * k + j];
        for (int64_t j = 0; j < k; j++) y[i * k + j] = (float)(x[i * k + j] / sqrt(squares));
        *sum += sqrt(squares);
    }
    return MUSTER_OK;
}
/* end of snippet */

static void plain_body(muster_runtime *rt) {
    float x[N][K], y[N][K], before[N][K];
    double sum;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) x[i][j] = (float)(i + j + 1);
    /* snippet: plain_call */
    muster_function *f;
    MUSTER_MUST(muster_function_create(rt, "normalise", normalise_body, NULL, &f));
    MUSTER_MUST(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    MUSTER_MUST(muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
    MUSTER_MUST(muster_function_output(f, "sum", MUSTER_F64, 0, MUSTER_SUM));

    const muster_tensor inputs[] = {muster_f32(x, N, K)};
    const muster_tensor outputs[] = {muster_f32(y, N, K), muster_f64(&sum)};
    MUSTER_MUST(muster_function_call(f, inputs, 1, outputs, 2, NULL));
    /* end of snippet */
    const double expected = normalise(&x[0][0], &before[0][0], N, K);
    EXPECT(fabs(sum - expected) < 1e-9 && memcmp(y, before, sizeof y) == 0);
}

/* snippet: filter */
/* Gives the rows of x whose first element is positive. */
static muster_status positive(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                              void *user) {
    (void)out, (void)user;
    const float *x = MUSTER_DATA(const float, in[0]);
    const int64_t n = in[0].shape[0], k = in[0].shape[1];
    int64_t found = 0;
    muster_tensor rows;
    for (int64_t i = 0; i < n; i++) found += x[i * k] > 0;
    MUSTER_TRY(muster_worker_output_rows(w, 0, found, &rows));
    float *y = MUSTER_DATA(float, rows);
    for (int64_t i = 0; i < n; i++)
        if (x[i * k] > 0) {
            memcpy(y, x + i * k, (size_t)k * sizeof *y);
            y += k;
        }
    return MUSTER_OK;
}
/* end of snippet */

static void filter(muster_runtime *rt) {
    float x[N][K];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) x[i][j] = (float)(i - 3);
    const muster_tensor inputs[] = {muster_f32(x, N, K)};
    muster_function *f;
    check(muster_function_create(rt, "positive", positive, NULL, &f));
    check(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
    /* snippet: buffer */
    muster_buffer *rows;
    muster_call_options options;
    const muster_tensor none = muster_tensor_none();
    check(muster_buffer_create(MUSTER_F32, 2, 1.5, &rows));
    check(muster_buffer_set_shape(rows, MUSTER_SHAPE(0, K))); /* rows of K elements, none so far */
    muster_call_options_init(&options);
    options.output_buffers = &rows; /* one entry for each output */
    check(muster_function_call(f, inputs, 1, &none, 1, &options));
    const muster_tensor found = muster_buffer_tensor(rows); /* as many rows as there are */
    /* end of snippet */
    EXPECT(found.shape[0] == 3 && found.shape[1] == K);
    for (int i = 0; i < 3; i++) EXPECT(MUSTER_DATA(float, found)[i * K] == (float)(i + 1));
    muster_buffer_destroy(rows);
}

static muster_runtime *runtime;

/* snippet: cancel */
static void on_interrupt(int signal_number) {
    (void)signal_number;
    muster_runtime_cancel(runtime); /* while the runtime is open */
}
/* end of snippet */

/* No call runs: the next one knows nothing of it. */
static void ending(muster_runtime *rt) {
    runtime = rt;
    EXPECT(signal(SIGINT, on_interrupt) != SIG_ERR);
    EXPECT(raise(SIGINT) == 0);
    asynchronous(rt);
}

int main(void) {
    muster_runtime *rt = docs_open();
    plain_body(rt);
    filter(rt);
    describe_and_call(rt);
    variables(rt);
    rows_on_devices(rt);
    averages(rt);
    ending(rt);
    check(muster_runtime_close(rt));
    return 0;
}

/* expressions.c: the code of docs/expressions.md. */
#include "docs.h"

#include <math.h>
#include <string.h>

enum { N = 8, K = 3, H = 4, MOST_DEVICES = 64 };

static float x[N][K], targets[N];

static void numbers(void) {
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < K; k++) x[i][k] = (float)((3 * i + 5 * k) % 7) / 4;
        targets[i] = (float)(i % 3);
    }
}

static void first(muster_runtime *rt) {
    float means[H], y[K][H];
    for (int k = 0; k < K; k++)
        for (int h = 0; h < H; h++) y[k][h] = (float)(k - h);
    /* snippet: first */
    muster_graph *g;
    muster_function *f;
    check(muster_graph_create(rt, "mean of products", &g));
    muster_expr *rows =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *matrix =
        muster_graph_input(g, "y", MUSTER_F32, MUSTER_SHAPE(K, H), MUSTER_BROADCAST);
    muster_expr *mean = muster_expr_mean(muster_expr_matmul(rows, matrix), MUSTER_LIST(axis, 0));
    (void)muster_graph_output(g, "mean", mean, MUSTER_AUTO);
    check(muster_graph_compile(g, NULL, &f)); /* NULL: the usual options */
    check(muster_graph_destroy(g));
    /* end of snippet */
    /* snippet: call */
    const muster_tensor in[] = {muster_f32(x, N, K), muster_f32(y, K, H)};
    const muster_tensor out[] = {muster_f32(means, H)};
    check(muster_function_call(f, in, 2, out, 1, NULL));
    /* end of snippet */
    double expected = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < K; k++) expected += (double)x[i][k] * (k - 1) / N;
    EXPECT(means[1] > expected - 1e-5 && means[1] < expected + 1e-5);
}

/* snippet: passes */
static muster_status passes(muster_worker *w, const muster_tensor *in, muster_tensor *out,
                            void *user) {
    (void)out;
    for (int pass = 0; pass < 10; pass++)
        for (int64_t row = 0; row + 2 <= muster_worker_rows(w); row += 2) {
            const muster_tensor batch[] = {muster_tensor_slice(in[0], row, row + 2),
                                           muster_tensor_slice(in[1], row, row + 2), in[2]};
            muster_tensor loss = muster_tensor_none(); /* not computed */
            MUSTER_TRY(muster_worker_run(w, user, batch, 3, &loss, 1));
        }
    return MUSTER_OK;
}
/* end of snippet */

/* Each replica is trained with the rows of its worker alone. */
static void inside(muster_runtime *rt, muster_function *step, muster_variable *w) {
    float speed = 0.01f, zeros[K] = {0}, trained[K], changed[K];
    const muster_tensor in[] = {muster_f32(x, N, K), muster_f32(targets, N), muster_f32(&speed)};
    const int32_t last = muster_runtime_size(rt) - 1;
    check(muster_variables_broadcast(&w, (muster_tensor[]){muster_f32(zeros, K)}, 1));
    /* snippet: inside */
    muster_function *loop;
    check(muster_function_create(rt, "loop", passes, step, &loop));
    check(muster_function_input(loop, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    check(muster_function_input(loop, "t", MUSTER_F32, 1, MUSTER_SCATTER));
    check(muster_function_input(loop, "rate", MUSTER_F32, 0, MUSTER_BROADCAST));
    check(muster_function_graph(loop, step));
    check(muster_function_call(loop, in, 3, NULL, 0, NULL));
    /* end of snippet */
    double expected[K] = {0};
    for (int pass = 0; pass < 10; pass++)
        for (int batch = 0; batch < N / (last + 1); batch += 2) {
            double gradient[K] = {0};
            for (int row = batch; row < batch + 2; row++) {
                double difference = -(double)targets[row];
                for (int k = 0; k < K; k++) difference += (double)x[row][k] * expected[k];
                for (int k = 0; k < K; k++) gradient[k] += difference * (double)x[row][k];
            }
            for (int k = 0; k < K; k++) expected[k] -= 0.01 * gradient[k];
        }
    check(muster_variable_get(w, 0, muster_f32(trained, K)));
    check(muster_variable_get(w, last, muster_f32(changed, K)));
    for (int k = 0; k < K; k++)
        EXPECT((double)trained[k] > expected[k] - 1e-4 && (double)trained[k] < expected[k] + 1e-4);
    EXPECT(last == 0 || memcmp(trained, changed, sizeof trained) != 0);
}

/* A step of gradient descent for the mean of (x @ w - t)^2 over all rows. */
static void step_by_hand(double rate, double *w) {
    double gradient[K] = {0};
    for (int row = 0; row < N; row++) {
        double difference = -(double)targets[row];
        for (int k = 0; k < K; k++) difference += (double)x[row][k] * w[k];
        for (int k = 0; k < K; k++) gradient[k] += 2 * difference * (double)x[row][k] / N;
    }
    for (int k = 0; k < K; k++) w[k] -= rate * gradient[k];
}

/* Every device has the value of one device with all rows. */
static void expect_trained(muster_runtime *rt, muster_variable *w, const double *expected) {
    float trained[K];
    for (int32_t r = 0; r < muster_runtime_size(rt); r++) {
        check(muster_variable_get(w, r, muster_f32(trained, K)));
        for (int k = 0; k < K; k++)
            EXPECT((double)trained[k] > expected[k] - 1e-4 &&
                   (double)trained[k] < expected[k] + 1e-4);
    }
}

static void train(muster_runtime *rt) {
    float zeros[K] = {0}, loss = 0, before = 0;
    /* snippet: train */
    muster_graph *g;
    muster_function *step;
    muster_variable *w;
    check(muster_variable_create(rt, "w", muster_f32(zeros, K), &w));
    check(muster_graph_create(rt, "step", &g));
    muster_expr *rows =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *t =
        muster_graph_input(g, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *rate = muster_graph_input(g, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *p = muster_graph_parameter(g, w), *d;
    muster_expr *error = muster_expr_subtract(muster_expr_matmul(rows, p), t);
    muster_expr *mean = muster_expr_mean(muster_expr_square(error));
    (void)muster_gradient(mean, &p, 1, &d);
    (void)muster_graph_update(g, w, muster_expr_subtract(p, muster_expr_multiply(rate, d)),
                              MUSTER_AUTO);
    (void)muster_graph_output(g, "loss", mean, MUSTER_AUTO);
    check(muster_graph_compile(g, NULL, &step));
    check(muster_graph_destroy(g));
    /* end of snippet */
    float speed = 0.1f;
    double expected[K] = {0};
    const muster_tensor in[] = {muster_f32(x, N, K), muster_f32(targets, N), muster_f32(&speed)};
    const muster_tensor out = muster_f32(&loss);
    for (int i = 0; i < 20; i++) {
        check(muster_function_call(step, in, 3, &out, 1, NULL));
        if (i == 0) before = loss;
        step_by_hand(0.1, expected);
    }
    EXPECT(loss < before);
    expect_trained(rt, w, expected);
}

/* The same step, which each worker makes by itself. */
static void train_apart(muster_runtime *rt) {
    float zeros[K] = {0}, loss = 0, speed = 0.1f;
    double expected[K] = {0};
    muster_graph *g;
    muster_function *step;
    muster_variable *w;
    const int32_t devices = muster_runtime_size(rt);
    const muster_tensor in[] = {muster_f32(x, N, K), muster_f32(targets, N), muster_f32(&speed)};
    const muster_tensor out = muster_f32(&loss);
    check(muster_variable_create(rt, "apart", muster_f32(zeros, K), &w));
    check(muster_graph_create(rt, "step apart", &g));
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    (void)muster_graph_input(g, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_input(g, "rate", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *p = muster_graph_parameter(g, w), *d;
    muster_expr *mean = muster_expr_parse(g, "mean((x @ apart - t) ** 2)");
    (void)muster_gradient(mean, &p, 1, &d);
    (void)muster_graph_update(g, w, muster_expr_parse(g, "apart - rate * d", "d", d), MUSTER_AUTO);
    (void)muster_graph_output(g, "loss", mean, MUSTER_AUTO);
    /* snippet: apart */
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    check(muster_graph_compile(g, &options, &step));
    /* end of snippet */
    check(muster_graph_destroy(g));
    for (int i = 0; i < 20; i++) {
        /* snippet: together */
        double weights[MOST_DEVICES];
        check(muster_function_call(step, in, 3, &out, 1, NULL));
        check(muster_function_weights(step, devices, weights));
        check(muster_variables_all_reduce_weighted(&w, 1, weights, devices));
        /* end of snippet */
        step_by_hand(0.1, expected);
    }
    expect_trained(rt, w, expected);
    inside(rt, step, w);
}

/* Second derivatives of sum(w ** 3): 6 w on the diagonal, else 0. */
static void second(muster_runtime *rt) {
    muster_graph *g;
    muster_function *f;
    float at[K] = {1, -2, 0.5f}, second[K][K];
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    check(muster_graph_create(rt, "second order", &g));
    muster_expr *w = muster_graph_input(g, "w", MUSTER_F32, MUSTER_SHAPE(K), MUSTER_BROADCAST);
    muster_expr *loss = muster_expr_parse(g, "sum(w * w * w)");
    /* snippet: second */
    muster_expr *gradient, *hessian[K];
    (void)muster_gradient(loss, &w, 1, &gradient);
    for (int k = 0; k < K; k++) { /* row k: the gradient of element k */
        muster_expr *element =
            muster_expr_slice(gradient, MUSTER_LIST(start, k), MUSTER_LIST(stop, k + 1));
        (void)muster_gradient(muster_expr_sum(element), &w, 1, &hessian[k]);
    }
    (void)muster_graph_output(g, "hessian", muster_expr_stack(hessian, K), MUSTER_AUTO);
    /* end of snippet */
    check(muster_graph_compile(g, &options, &f));
    check(muster_graph_destroy(g));
    const muster_tensor in = muster_f32(at, K), out = muster_f32(second, K, K);
    check(muster_function_call(f, &in, 1, &out, 1, NULL));
    for (int i = 0; i < K; i++)
        for (int k = 0; k < K; k++) EXPECT(second[i][k] == (i == k ? 6 * at[k] : 0));
}

/* One loss for rows from the host, and for rows that live on the devices. */
static void substitute(muster_runtime *rt) {
    muster_graph *g;
    muster_function *f;
    muster_variable *data;
    float from_host = 0, from_devices = 0;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    check(muster_graph_create(rt, "two losses", &g));
    /* snippet: substitute */
    muster_expr *given =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *loss = muster_expr_parse(g, "mean(x * x)");
    check(muster_variable_create(rt, "data", muster_f32(x, N, K), &data));
    check(muster_variables_scatter(&data, (muster_tensor[]){muster_f32(x, N, K)}, 1, NULL));
    muster_expr *kept = muster_graph_parameter_rows(g, data);
    muster_expr *other = muster_expr_substitute(loss, &given, &kept, 1); /* mean(data * data) */
    /* end of snippet */
    (void)muster_graph_output(g, "from the host", loss, MUSTER_AUTO);
    (void)muster_graph_output(g, "from the devices", other, MUSTER_AUTO);
    check(muster_graph_compile(g, &options, &f));
    check(muster_graph_destroy(g));
    /* snippet: wanted */
    const muster_tensor in = muster_f32(x, N, K);
    check(muster_function_call(
        f, &in, 1, (muster_tensor[]){muster_f32(&from_host), muster_tensor_none()}, 2, NULL));
    check(muster_function_call_named(f, (const char *[]){"x"}, &in, 1,
                                     (const char *[]){"from the devices"},
                                     (muster_tensor[]){muster_f32(&from_devices)}, 1, NULL));
    /* end of snippet */
    EXPECT(from_host > 0 && from_devices > from_host * 0.9999f &&
           from_devices < from_host * 1.0001f);
}

/* A named size: every call has its own number of steps in time. */
static void sizes(muster_runtime *rt) {
    muster_graph *g;
    muster_function *f;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    check(muster_graph_create(rt, "sizes", &g));
    /* snippet: sizes */
    const int64_t time = muster_graph_size(g, "time");
    muster_expr *series = muster_graph_input(g, "series", MUSTER_F32,
                                             MUSTER_SHAPE(MUSTER_ROWS, time), MUSTER_SCATTER);
    muster_expr *total = muster_expr_parse(g, "sum(series, axis=1)");
    /* end of snippet */
    (void)series;
    (void)muster_graph_output(g, "total", total, MUSTER_GATHER);
    check(muster_graph_compile(g, &options, &f));
    check(muster_graph_destroy(g));
    for (int columns = 1; columns <= K; columns++) {
        float result[N];
        const muster_tensor in = muster_tensor_slice_axis(muster_f32(x, N, K), 1, 0, columns),
                            out = muster_f32(result, N);
        check(muster_function_call(f, &in, 1, &out, 1, NULL));
        for (int i = 0; i < N; i++) {
            float sum = 0;
            for (int k = 0; k < columns; k++) sum += x[i][k];
            EXPECT(result[i] == sum);
        }
    }
}

static void texts(muster_runtime *rt) {
    muster_graph *g;
    muster_function *f;
    float result = 0;
    check(muster_graph_create(rt, "texts", &g));
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    /* snippet: texts */
    muster_expr *a =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *h = muster_expr_parse(g, "relu(x[:, 0:2] - 0.5)"); /* inputs by their names */
    muster_expr *z = muster_expr_parse(g, "m = mean(h, axis=1); sum((m - 1) ** 2)", "h", h);
    /* end of snippet */
    (void)a;
    /* snippet: checked */
    check(muster_gradient_check(z, NULL, 0, NULL, NULL)); /* all inputs and parameters */
    /* end of snippet */
    (void)muster_graph_output(g, "z", z, MUSTER_SUM);
    check(muster_graph_compile(g, &options, &f));
    check(muster_graph_destroy(g));
    const muster_tensor in = muster_f32(x, N, K), out = muster_f32(&result);
    check(muster_function_call(f, &in, 1, &out, 1, NULL));
    double expected = 0;
    for (int i = 0; i < N; i++) {
        double mean = 0;
        for (int k = 0; k < 2; k++) mean += x[i][k] > 0.5f ? ((double)x[i][k] - 0.5) / 2 : 0;
        expected += (mean - 1) * (mean - 1);
    }
    EXPECT(result > expected - 1e-4 && result < expected + 1e-4);
}

/* The running statistics become those of the rows, which all calls have alike. */
/* What the training has made of x, and what inference makes of it by the running statistics. */
static void normalised(muster_runtime *rt) {
    static const float zeros[K], ones[K] = {1, 1, 1}, halves[K] = {0.5f, 0.5f, 0.5f};
    muster_graph *g, *inference;
    muster_function *step, *infer;
    muster_variable *mean, *variance, *scale;
    check(muster_graph_create(rt, "normalised", &g));
    check(muster_variable_create(rt, "mean", muster_f32(zeros, K), &mean));
    check(muster_variable_create(rt, "variance", muster_f32(ones, K), &variance));
    check(muster_variable_create(rt, "scale", muster_f32(halves, K), &scale));
    muster_expr *rows =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    /* snippet: normalised */
    muster_expr *m = muster_graph_parameter(g, mean), *v = muster_graph_parameter(g, variance);
    muster_expr *s = muster_graph_parameter(g, scale);
    muster_expr *y = muster_expr_batch_norm(rows, m, v, s, NULL, 1e-5, .training = 1);
    (void)muster_graph_update(g, mean, muster_expr_batch_norm_mean(rows, m, 0.1), MUSTER_AUTO);
    (void)muster_graph_update(g, variance, muster_expr_batch_norm_variance(rows, m, v, 0.1),
                              MUSTER_AUTO);
    /* end of snippet */
    (void)muster_graph_output(g, "y", y, MUSTER_AUTO);
    check(muster_graph_compile(g, NULL, &step));
    check(muster_graph_destroy(g));
    check(muster_graph_create(rt, "inference", &inference));
    rows = muster_graph_input(inference, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K),
                              MUSTER_SCATTER);
    m = muster_graph_parameter(inference, mean);
    v = muster_graph_parameter(inference, variance);
    s = muster_graph_parameter(inference, scale);
    /* snippet: later */
    muster_expr *later = muster_expr_batch_norm(rows, m, v, s, NULL, 1e-5);
    /* end of snippet */
    (void)muster_graph_output(inference, "later", later, MUSTER_AUTO);
    check(muster_graph_compile(inference, NULL, &infer));
    check(muster_graph_destroy(inference));
    float now[N][K], then[N][K];
    const muster_tensor in = muster_f32(x, N, K);
    const muster_tensor out[] = {muster_f32(now, N, K), muster_f32(then, N, K)};
    for (int i = 0; i < 200; i++) check(muster_function_call(step, &in, 1, out, 1, NULL));
    check(muster_function_call(infer, &in, 1, out + 1, 1, NULL));
    for (int k = 0; k < K; k++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < N; i++) {
            sum += now[i][k];
            squares += now[i][k] * now[i][k];
            EXPECT(then[i][k] - now[i][k] < 1e-4f && now[i][k] - then[i][k] < 1e-4f);
        }
        EXPECT(sum < 1e-5 && sum > -1e-5 && squares < N * 0.251 && squares > N * 0.249);
    }
}

/* With weights of 1 the middle of an image of ones has the sum of its window. */
static void convolved(muster_runtime *rt) {
    enum { SIDE = 6, CHANNELS = 2, WINDOW = 5, HALF = SIDE / 2 };
    static float ones[N * SIDE * SIDE], result[N][CHANNELS * HALF * HALF], zeros[CHANNELS];
    muster_graph *g;
    muster_function *f;
    for (int i = 0; i < N * SIDE * SIDE; i++) ones[i] = 1;
    check(muster_graph_create(rt, "convolved", &g));
    muster_expr *images = muster_graph_input(
        g, "images", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 1, SIDE, SIDE), MUSTER_SCATTER);
    muster_expr *w1 = muster_graph_input(
        g, "w1", MUSTER_F32, MUSTER_SHAPE(CHANNELS, 1, WINDOW, WINDOW), MUSTER_BROADCAST);
    muster_expr *b1 =
        muster_graph_input(g, "b1", MUSTER_F32, MUSTER_SHAPE(CHANNELS), MUSTER_BROADCAST);
    /* snippet: convolved */
    muster_expr *h = muster_expr_convolution(images, w1, b1, MUSTER_LIST(padding, 2, 2));
    h = muster_expr_max_pool(muster_expr_relu(h), MUSTER_SHAPE(2, 2));
    muster_expr *flat = muster_expr_reshape(h, MUSTER_SHAPE(MUSTER_ROWS, MUSTER_INFER));
    /* end of snippet */
    (void)muster_graph_output(g, "flat", flat, MUSTER_AUTO);
    check(muster_graph_compile(g, NULL, &f));
    check(muster_graph_destroy(g));
    const muster_tensor in[] = {muster_f32(ones, N, 1, SIDE, SIDE),
                                muster_f32(ones, CHANNELS, 1, WINDOW, WINDOW),
                                muster_f32(zeros, CHANNELS)};
    const muster_tensor out = muster_f32(result, N, CHANNELS * HALF * HALF);
    check(muster_function_call(f, in, 3, &out, 1, NULL));
    for (int i = 0; i < N; i++)
        EXPECT(result[i][0] == 16 && result[i][HALF + 1] == WINDOW * WINDOW &&
               result[i][CHANNELS * HALF * HALF - 1] == 16);
}

/* With equal keys each place has the average of the values up to it. */
static void attended(muster_runtime *rt) {
    enum { TIME = 4, HEADS = 2, WIDTH = 3 };
    static float values[N][TIME][HEADS * WIDTH], result[N][TIME][HEADS * WIDTH];
    static float weights[3][HEADS * WIDTH][HEADS * WIDTH]; /* q and k are 0, v is the input */
    muster_graph *g;
    muster_function *f;
    muster_expr *w[3];
    static const char *const names[] = {"wq", "wk", "wv"};
    for (int k = 0; k < HEADS * WIDTH; k++) weights[2][k][k] = 1;
    for (int i = 0; i < N; i++)
        for (int t = 0; t < TIME; t++)
            for (int k = 0; k < HEADS * WIDTH; k++) values[i][t][k] = (float)(i + t * (k + 1));
    check(muster_graph_create(rt, "attended", &g));
    muster_expr *input = muster_graph_input(
        g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, TIME, HEADS * WIDTH), MUSTER_SCATTER);
    for (int i = 0; i < 3; i++)
        w[i] = muster_graph_input(g, names[i], MUSTER_F32,
                                  MUSTER_SHAPE(HEADS * WIDTH, HEADS * WIDTH), MUSTER_BROADCAST);
    /* snippet: attended */
    const int64_t split[] = {MUSTER_ROWS, TIME, HEADS, WIDTH};
    const int64_t merged[] = {MUSTER_ROWS, TIME, HEADS * WIDTH};
    muster_expr *heads[3]; /* q, k and v, each (rows, HEADS, TIME, WIDTH) */
    for (int i = 0; i < 3; i++)
        heads[i] =
            muster_expr_transpose(muster_expr_reshape(muster_expr_matmul(input, w[i]), 4, split),
                                  MUSTER_LIST(axes, 0, 2, 1, 3));
    muster_expr *seen = muster_expr_attention(heads[0], heads[1], heads[2], NULL, 0, .causal = 1);
    seen =
        muster_expr_reshape(muster_expr_transpose(seen, MUSTER_LIST(axes, 0, 2, 1, 3)), 3, merged);
    /* end of snippet */
    (void)muster_graph_output(g, "seen", seen, MUSTER_AUTO);
    check(muster_graph_compile(g, NULL, &f));
    check(muster_graph_destroy(g));
    const muster_tensor in[] = {muster_f32(values, N, TIME, HEADS * WIDTH),
                                muster_f32(weights[0], HEADS * WIDTH, HEADS * WIDTH),
                                muster_f32(weights[1], HEADS * WIDTH, HEADS * WIDTH),
                                muster_f32(weights[2], HEADS * WIDTH, HEADS * WIDTH)};
    const muster_tensor out = muster_f32(result, N, TIME, HEADS * WIDTH);
    check(muster_function_call(f, in, 4, &out, 1, NULL));
    for (int i = 0; i < N; i++)
        for (int t = 0; t < TIME; t++)
            for (int k = 0; k < HEADS * WIDTH; k++) {
                const float expected = (float)i + 0.5f * (float)(t * (k + 1));
                EXPECT(result[i][t][k] > expected - 1e-4f && result[i][t][k] < expected + 1e-4f);
            }
}

static int near(float received, double expected) {
    return fabs((double)received - expected) < 1e-5;
}

/* All gates are open and there is nothing to add but 1, so c counts the steps. */
static void remembered(muster_runtime *rt) {
    enum { STEPS = 3, INPUTS = 2, STATES = 2, LAYERS = 3 };
    static float values[N][STEPS][INPUTS], result[N][STEPS][2 * STATES], end[N][STATES];
    static float zeros[4 * STATES][2 * STATES], open[4 * STATES];
    static const char *const names[LAYERS][3] = {
        {"w0", "r0", "b0"}, {"w1", "r1", "b1"}, {"w2", "r2", "b2"}};
    int64_t long_enough[N];
    muster_graph *g;
    muster_function *f;
    muster_expr *w[LAYERS], *r[LAYERS], *b[LAYERS];
    muster_tensor in[2 + 3 * LAYERS];
    int count = 0;
    for (int i = 0; i < N; i++) long_enough[i] = i % (STEPS + 1);
    for (int k = 0; k < 4 * STATES; k++) open[k] = 100;
    check(muster_graph_create(rt, "remembered", &g));
    muster_expr *x = muster_graph_input(g, "x", MUSTER_F32,
                                        MUSTER_SHAPE(MUSTER_ROWS, STEPS, INPUTS), MUSTER_SCATTER);
    muster_expr *lengths =
        muster_graph_input(g, "lengths", MUSTER_I64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    in[count++] = muster_f32(values, N, STEPS, INPUTS);
    in[count++] = muster_tensor_make(MUSTER_I64, long_enough, MUSTER_SHAPE(N));
    for (int i = 0; i < LAYERS; i++) {
        w[i] = muster_graph_input(g, names[i][0], MUSTER_F32,
                                  MUSTER_SHAPE(4 * STATES, i ? STATES : INPUTS), MUSTER_BROADCAST);
        r[i] = muster_graph_input(g, names[i][1], MUSTER_F32, MUSTER_SHAPE(4 * STATES, STATES),
                                  MUSTER_BROADCAST);
        b[i] = muster_graph_input(g, names[i][2], MUSTER_F32, MUSTER_SHAPE(4 * STATES),
                                  MUSTER_BROADCAST);
        in[count++] = muster_f32(zeros, 4 * STATES, i ? STATES : INPUTS);
        in[count++] = muster_f32(zeros, 4 * STATES, STATES);
        in[count++] = muster_f32(open, 4 * STATES);
    }
    /* snippet: remembered */
    muster_expr *zero = muster_graph_number(g, 0); /* the states before the first step */
    muster_expr *first = muster_expr_lstm(x, w[0], r[0], b[0], zero, zero, lengths);
    muster_expr *ahead = muster_expr_lstm(first, w[1], r[1], b[1], zero, zero, lengths);
    muster_expr *back =
        muster_expr_lstm(first, w[2], r[2], b[2], zero, zero, lengths, .reverse = 1);
    muster_expr *both[2] = {ahead, back};
    muster_expr *y = muster_expr_concatenate(both, 2, .axis = 2); /* (rows, STEPS, 2 * STATES) */
    muster_expr *last = muster_expr_result(ahead, 1);             /* (rows, STATES) */
    /* end of snippet */
    (void)muster_graph_output(g, "y", y, MUSTER_AUTO);
    (void)muster_graph_output(g, "last", last, MUSTER_AUTO);
    check(muster_graph_compile(g, NULL, &f));
    check(muster_graph_destroy(g));
    const muster_tensor out[] = {muster_f32(result, N, STEPS, 2 * STATES),
                                 muster_f32(end, N, STATES)};
    check(muster_function_call(f, in, count, out, 2, NULL));
    for (int i = 0; i < N; i++)
        for (int t = 0; t < STEPS; t++) {
            const int length = (int)long_enough[i];
            EXPECT(near(result[i][t][0], t < length ? tanh(t + 1) : 0));
            EXPECT(near(result[i][t][2 * STATES - 1], t < length ? tanh(length - t) : 0));
            EXPECT(near(end[i][0], tanh(length)));
        }
}

static void dropped(muster_runtime *rt) {
    muster_graph *g;
    muster_function *f;
    check(muster_graph_create(rt, "dropped", &g));
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    muster_expr *rows =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    /* snippet: dropout */
    muster_expr *calls =
        muster_graph_input(g, "calls", MUSTER_I64, MUSTER_SCALAR, MUSTER_BROADCAST);
    muster_expr *kept = muster_expr_dropout(rows, calls, 0.5, 1); /* half of the elements, seed 1 */
    /* end of snippet */
    (void)muster_graph_output(g, "kept", kept, MUSTER_GATHER);
    check(muster_graph_compile(g, &options, &f));
    check(muster_graph_destroy(g));
    int64_t call = 0;
    float result[N][K];
    const muster_tensor in[] = {muster_f32(x, N, K), muster_i64(&call)};
    const muster_tensor out = muster_f32(result, N, K);
    check(muster_function_call(f, in, 2, &out, 1, NULL));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < K; k++) EXPECT(result[i][k] == 0 || result[i][k] == 2 * x[i][k]);
}

static void wrong(muster_runtime *rt) {
    muster_graph *g;
    /* snippet: wrong */
    check(muster_graph_create(rt, "wrong", &g));
    muster_expr *a =
        muster_graph_input(g, "a", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, 784), MUSTER_SCATTER);
    muster_expr *b =
        muster_graph_input(g, "b", MUSTER_F32, MUSTER_SHAPE(800, 10), MUSTER_BROADCAST);
    muster_expr *c = muster_expr_relu(muster_expr_matmul(a, b)); /* no status to look at */
    (void)muster_graph_output(g, "c", c, MUSTER_AUTO);
    muster_function *f;
    if (muster_graph_compile(g, NULL, &f) != MUSTER_OK) puts(muster_last_error());
    /* end of snippet */
    EXPECT(
        strstr(muster_last_error(), "muster_expr_matmul: b \"b\": expected extent 784 in axis 0"));
    EXPECT(strstr(muster_last_error(), "expressions.c:"));
    check(muster_graph_destroy(g));
}

/* The guide shows parts without a line for each argument that they do not use. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
/* Twice as many columns, the second half of which is `factor` times x. */
/* snippet: parts */
static muster_status double_rule(muster_operator_node *node, muster_expr *const *in, int32_t count,
                                 void *user) {
    const int64_t rows = muster_expr_size(in[0], 0), columns = muster_expr_size(in[0], 1);
    muster_graph *graph = muster_operator_graph(node);
    const int64_t shape[] = {rows, muster_graph_size_product(graph, columns, 2)};
    return muster_operator_result(node, 0, muster_expr_dtype(in[0]), 2, shape);
}

static muster_status double_body(muster_worker *worker, const muster_operator_node *node,
                                 const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t columns = in[0].shape[1];
    const muster_tensor left = muster_tensor_slice_axis(out[0], 1, 0, columns);
    const muster_tensor right = muster_tensor_slice_axis(out[0], 1, columns, 2 * columns);
    muster_attribute factor;
    MUSTER_TRY(muster_operator_attribute_value(node, "factor", &factor));
    MUSTER_TRY(muster_copy(worker, in[0], left));
    return muster_binary_scalar(worker, MUSTER_MUL, in[0], factor.number, right);
}

static muster_status double_gradient(const muster_operator_node *node, muster_expr *const *in,
                                     muster_expr *const *y, muster_expr *const *dy,
                                     muster_expr **dx, void *user) {
    muster_graph *graph = muster_operator_graph(node);
    muster_attribute factor;
    MUSTER_TRY(muster_operator_attribute_value(node, "factor", &factor));
    dx[0] = muster_expr_parse(graph, "dy[:, 0:3] + factor * dy[:, 3:6]", "dy", dy[0], "factor",
                              muster_graph_number(graph, factor.number));
    return MUSTER_OK;
}
/* end of snippet */

static void operators(muster_runtime *rt) {
    /* snippet: swish */
    muster_operator_options swish;
    muster_operator *op;
    muster_operator_options_init(&swish);
    swish.operands = (const char *const[]){"x", NULL};
    swish.attributes = (const muster_operator_attribute[]){
        {.name = "b", .kind = MUSTER_ATTRIBUTE_NUMBER, .number = 1}, {.name = NULL}};
    swish.text = "x / (1 + exp(-b * x))";
    check(muster_operator_create(rt, "swish", &swish, &op)); /* swish(x), swish(x, b=2) */
    /* end of snippet */
    /* snippet: create */
    const muster_operator_backend everywhere = {NULL, double_body};
    muster_operator_options twice;
    muster_operator_options_init(&twice);
    twice.operands = (const char *const[]){"x", NULL};
    twice.attributes = (const muster_operator_attribute[]){
        {.name = "factor", .kind = MUSTER_ATTRIBUTE_NUMBER, .number = 2}, {.name = NULL}};
    twice.rule = double_rule;
    twice.bodies = &everywhere;
    twice.body_count = 1;
    twice.gradient = double_gradient;
    check(muster_operator_create(rt, "twice_as_wide", &twice, &op));
    /* end of snippet */
    muster_graph *g;
    muster_function *f;
    float sums[2 * K], d[N][K], swished;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.meaning = MUSTER_PER_WORKER;
    options.check_memory = 1;
    check(muster_graph_create(rt, "operators", &g));
    muster_expr *a =
        muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER);
    muster_expr *wide = muster_expr_parse(g, "sum(twice_as_wide(x, factor=3), axis=0)"), *gradient;
    (void)muster_gradient(muster_expr_sum(wide), &a, 1, &gradient);
    (void)muster_graph_output(g, "sums", wide, MUSTER_SUM);
    (void)muster_graph_output(g, "d", gradient, MUSTER_GATHER);
    (void)muster_graph_output(g, "swish", muster_expr_parse(g, "sum(swish(0 * x))"), MUSTER_SUM);
    check(muster_graph_compile(g, &options, &f));
    check(muster_graph_destroy(g));
    const muster_tensor in = muster_f32(x, N, K);
    const muster_tensor out[] = {muster_f32(sums, 2 * K), muster_f32(d, N, K),
                                 muster_f32(&swished)};
    check(muster_function_call(f, &in, 1, out, 3, NULL));
    for (int k = 0; k < K; k++)
        EXPECT(sums[K + k] > 2.99f * sums[k] && sums[K + k] < 3.01f * sums[k]);
    EXPECT(d[0][0] == 4 && d[N - 1][K - 1] == 4 && swished == 0);
}

int main(void) {
    muster_runtime *rt;
    numbers();
    check(muster_runtime_open(NULL, &rt));
    first(rt);
    train(rt);
    train_apart(rt);
    second(rt);
    substitute(rt);
    sizes(rt);
    texts(rt);
    normalised(rt);
    convolved(rt);
    attended(rt);
    remembered(rt);
    dropped(rt);
    wrong(rt);
    operators(rt);
    check(muster_runtime_close(rt));
    return 0;
}

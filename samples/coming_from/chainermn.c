/* chainermn.c: what ChainerMN's tutorial and its tests of communicators show, translated.
 *
 *   subcomm = comm.split(comm.rank % 2, comm.rank)
 *     the even ranks, and the odd ones
 *   comm.multi_node_mean_grad(model)
 *     gradients filled with r, r + 1 and r + 2 on rank r of P become their means, which are
 *     (P - 1) / 2, and 1 and 2 more
 *   train = chainermn.scatter_dataset(train, comm)
 *     each worker gets a part of the rows
 *   optimizer = chainermn.create_multi_node_optimizer(optimizer, comm)
 *     every worker steps by the mean of all gradients
 *
 * A scattered input is the scattered data set. Nothing is duplicated: with 10 rows on 4 workers the
 * parts have 2, 3, 2 and 3 rows, where ChainerMN gives each 3. A graph with an update rule is the
 * multi-node optimizer: its result is that of one worker with all rows. */
#include "../sample.h"

enum { MOST = 64, ROWS = 10, K = 2, STEPS = 50 };

/* places, (1, 4), gathered: rank, size, rank and size in the part. means, (1, 3), gathered: the
 * mean gradients. */
static muster_status communicate(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)user;
    const int32_t rank = muster_worker_rank(w), size = muster_worker_size(w);
    muster_communicator *subcomm;
    MUSTER_TRY(muster_worker_split(w, NULL, rank % 2, rank, &subcomm));
    const int32_t places[4] = {rank, size, muster_communicator_rank(subcomm, w), muster_communicator_size(subcomm)};
    MUSTER_TRY(muster_worker_release(w, subcomm));
    const muster_tensor place = muster_tensor_reshape(out[0], 1, (int64_t[]){4}), mean = muster_tensor_reshape(out[1], 1, (int64_t[]){3});
    for (int i = 0; i < 4; i++) MUSTER_TRY(muster_fill(w, places[i], muster_tensor_slice(place, i, i + 1)));
    for (int i = 0; i < 3; i++) MUSTER_TRY(muster_fill(w, rank + i, muster_tensor_slice(mean, i, i + 1)));
    return muster_worker_all_reduce(w, NULL, MUSTER_AVG, mean, mean);
}

static void communicators(muster_runtime *rt) {
    static float places[MOST][4], means[MOST][3];
    const int32_t size = muster_runtime_size(rt);
    muster_function *f;
    EXPECT(size <= MOST);
    CHECK(muster_function_create(rt, "communicate", communicate, NULL, &f));
    CHECK(muster_function_output(f, "places", MUSTER_F32, 2, MUSTER_GATHER));
    CHECK(muster_function_output(f, "means", MUSTER_F32, 2, MUSTER_GATHER));
    CHECK(muster_function_call(f, NULL, 0, (muster_tensor[]){muster_f32(places, size, 4), muster_f32(means, size, 3)}, 2, NULL));
    for (int32_t r = 0; r < size; r++) {
        printf("comm.rank %g of %g, subcomm.rank %g of %g, mean gradients %g %g %g\n", (double)places[r][0], (double)places[r][1],
               (double)places[r][2], (double)places[r][3], (double)means[r][0], (double)means[r][1], (double)means[r][2]);
        EXPECT(places[r][0] == (float)r && places[r][2] == (float)(r / 2) && places[r][3] == (float)((size + 1 - r % 2) / 2));
        for (int i = 0; i < 3; i++) EXPECT(fabsf(means[r][i] - ((float)(size - 1) / 2 + (float)i)) < 1e-6f);
    }
}

/* One worker with all rows, in plain C: w -= 0.1 * gradient of mean((x @ w - t) ** 2). */
static void alone(float (*x)[K], const float *t, double *w) {
    for (int step = 0; step < STEPS; step++) {
        double gradient[K] = {0};
        for (int i = 0; i < ROWS; i++) {
            const double error = x[i][0] * w[0] + x[i][1] * w[1] - t[i];
            for (int k = 0; k < K; k++) gradient[k] += 2 * error * x[i][k] / ROWS;
        }
        for (int k = 0; k < K; k++) w[k] -= 0.1 * gradient[k];
    }
}

static void optimizer(muster_runtime *rt) {
    float x[ROWS][K], t[ROWS], w[K] = {0}, loss;
    double expected[K] = {0};
    for (int i = 0; i < ROWS; i++) x[i][0] = (float)i / ROWS, x[i][1] = 1, t[i] = 3 * x[i][0] - 1;
    muster_variable *weights;
    muster_graph *g;
    muster_function *update;
    muster_rule_options rule;
    CHECK(muster_variable_create(rt, "w", muster_f32(w, K), &weights)); /* equal on all devices: no bcast_data */
    CHECK(muster_graph_create(rt, "update", &g));
    (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, K), MUSTER_SCATTER); /* scatter_dataset */
    (void)muster_graph_input(g, "t", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    muster_expr *p = muster_graph_parameter(g, weights), *d;
    muster_expr *mean = muster_expr_parse(g, "mean((x @ w - t) ** 2)");
    (void)muster_gradient(mean, &p, 1, &d);
    muster_rule_options_init(&rule);
    rule.learning_rate = 0.1;
    (void)muster_graph_minimise(g, &p, &d, 1, MUSTER_SGD, &rule); /* create_multi_node_optimizer(SGD(0.1), comm) */
    (void)muster_graph_output(g, "loss", mean, MUSTER_AUTO);      /* create_multi_node_evaluator */
    CHECK(muster_graph_compile(g, NULL, &update));
    CHECK(muster_graph_destroy(g));
    for (int step = 0; step < STEPS; step++)
        CHECK(muster_function_call(update, (muster_tensor[]){muster_f32(x, ROWS, K), muster_f32(t, ROWS)}, 2,
                                   (muster_tensor[]){muster_f32(&loss)}, 1, NULL));
    alone(x, t, expected);
    for (int32_t r = 0; r < muster_runtime_size(rt); r++) {
        CHECK(muster_variable_get(weights, r, muster_f32(w, K)));
        for (int k = 0; k < K; k++) EXPECT(fabs((double)w[k] - expected[k]) < 1e-5);
    }
    printf("after %d updates w is %.4f %.4f, as with one worker: %.4f %.4f\n", STEPS, (double)w[0], (double)w[1], expected[0], expected[1]);
}

int main(void) {
    muster_runtime *rt = sample_open("host:4");
    communicators(rt);
    optimizer(rt);
    CHECK(muster_runtime_close(rt));
    return 0;
}

/* jax.c: four examples of JAX's documentation, translated, with what it says that they print.
 *
 *   x = np.arange(4)
 *   jax.pmap(lambda x: jax.lax.psum(x, 'i'), axis_name='i')(x)
 *     [6 6 6 6]
 *   jax.pmap(lambda x: x / jax.lax.psum(x, 'i'), axis_name='i')(x)
 *     [0. 0.16666667 0.33333334 0.5]
 *   the first with jax.lax.psum(x, 'i', axis_index_groups=[[0, 1], [2, 3]])
 *     [1 1 5 5]
 *   jax.grad(lambda x: jnp.sum(1.0 / (1.0 + jnp.exp(-x))))(jnp.arange(3.))
 *     [0.25 0.19661194 0.10499357]
 *
 * pmap is a call whose input is scattered: with four rows on four devices each body has one. psum
 * is an all-reduce, and axis_index_groups are parts of the communicator. grad is
 * muster_gradient. */
#include "../sample.h"

enum { DEVICES = 4, K = 3 };

/* x (1): this device's element. sums (1), parts (1) and shares (1): the sum over all devices, that
 * over the devices {0, 1} or {2, 3}, and x divided by the first. */
static muster_status sums(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    const int32_t rank = muster_worker_rank(w);
    muster_communicator *part;
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, in[0], out[0]));
    MUSTER_TRY(muster_worker_split(w, NULL, rank / 2, rank, &part));
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, in[0], out[1]));
    MUSTER_TRY(muster_worker_release(w, part));
    return muster_binary_op(w, MUSTER_DIV, in[0], out[0], out[2]);
}

static void mapped(muster_runtime *rt) {
    float x[DEVICES] = {0, 1, 2, 3}, found[3][DEVICES];
    static const char *const names[] = {"psum(x)", "psum(x) in groups", "x / psum(x)"};
    muster_function *f;
    CHECK(muster_function_create(rt, "sums", sums, NULL, &f));
    CHECK(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    for (int i = 0; i < 3; i++) CHECK(muster_function_output(f, names[i], MUSTER_F32, 1, MUSTER_GATHER));
    const muster_tensor in = muster_f32(x, DEVICES);
    const muster_tensor out[] = {muster_f32(found[0], DEVICES), muster_f32(found[1], DEVICES), muster_f32(found[2], DEVICES)};
    CHECK(muster_function_call(f, &in, 1, out, 3, NULL));
    for (int i = 0; i < 3; i++) {
        printf("%-18s", names[i]);
        sample_print("", found[i], DEVICES);
    }
    for (int i = 0; i < DEVICES; i++) {
        EXPECT(found[0][i] == 6);
        EXPECT(found[1][i] == (i < 2 ? 1 : 5));
        EXPECT(fabsf(found[2][i] - (float[]){0, 0.16666667f, 0.33333334f, 0.5f}[i]) < 1e-7f);
    }
}

static void derived(muster_runtime *rt) {
    float x[K] = {0, 1, 2}, found[K];
    muster_graph *g;
    muster_function *f;
    CHECK(muster_graph_create(rt, "sum of logistic", &g));
    muster_expr *input = muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(K), MUSTER_BROADCAST), *gradient;
    (void)muster_gradient(muster_expr_parse(g, "sum(1.0 / (1.0 + exp(-x)))"), &input, 1, &gradient);
    (void)muster_graph_output(g, "gradient", gradient, MUSTER_AUTO);
    CHECK(muster_graph_compile(g, NULL, &f)); /* jit */
    CHECK(muster_graph_destroy(g));
    CHECK(muster_function_call(f, (muster_tensor[]){muster_f32(x, K)}, 1, (muster_tensor[]){muster_f32(found, K)}, 1, NULL));
    printf("%-18s", "grad(sum_logistic)");
    sample_print("", found, K);
    for (int i = 0; i < K; i++) EXPECT(fabsf(found[i] - (float[]){0.25f, 0.19661194f, 0.10499357f}[i]) < 1e-7f);
}

int main(void) {
    muster_runtime *rt = sample_open_exactly("host:4", DEVICES);
    mapped(rt);
    derived(rt);
    CHECK(muster_runtime_close(rt));
    return 0;
}

/* neon.c: the example of neon's page "Distributed Implementations using multiple GPUs", a network
 * with 3 hidden layers of 6, 200 and 20 units.
 *
 * That page says: in model-parallel mode each device retains a slice of the weight matrix, and the
 * output activations are combined; the network "can be parallelized across at most 2 GPUs (because
 * GCD(6, 200, 20) == 2)", with 12 units in the first layer across 4, and AlexNet's 4096, 4096 and
 * 1000 across 8.
 *
 * Here muster_graph_split makes a layer model-parallel, and the slices may differ by one unit, so
 * that any number of devices works and computes what one device would. */

#include "../sample.h"

enum { LAYERS = 3, INPUTS = 8, ROWS = 5, LARGEST = 200, MOST = 64 };
static const int64_t units[LAYERS] = {6, 200, 20};

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

/* The weights of a layer, w[units][inputs], the same for any number of devices. */
static void draw(float *w, int64_t outputs, int64_t inputs) {
    for (int64_t i = 0; i < outputs * inputs; i++) w[i] = (float)(i * 7 % 11 - 5) / 20;
}

/* y = tanh(w x) of each layer, in plain C. */
static void forward(const float *x, float *y) {
    static float w[LARGEST * LARGEST];
    double from[LARGEST], to[LARGEST];
    int64_t inputs = INPUTS;
    for (int64_t i = 0; i < inputs; i++) from[i] = (double)x[i];
    for (int l = 0; l < LAYERS; l++) {
        draw(w, units[l], inputs);
        for (int64_t o = 0; o < units[l]; o++) {
            to[o] = 0;
            for (int64_t i = 0; i < inputs; i++) to[o] += (double)w[o * inputs + i] * from[i];
        }
        for (int64_t o = 0; o < units[l]; o++) from[o] = tanh(to[o]);
        inputs = units[l];
    }
    for (int64_t o = 0; o < inputs; o++) y[o] = (float)from[o];
}

/* The network, each of whose layers is split along its units. */
static muster_function *network(muster_runtime *rt, muster_variable **weights) {
    static float w[LARGEST * LARGEST];
    muster_graph *g;
    muster_function *f;
    CHECK(muster_graph_create(rt, "mlp", &g));
    muster_expr *h = muster_graph_input(g, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, INPUTS), MUSTER_SCATTER);
    int64_t inputs = INPUTS;
    for (int l = 0; l < LAYERS; l++) {
        char name[16];
        snprintf(name, sizeof name, "fc%d", l + 1);
        draw(w, units[l], inputs);
        CHECK(muster_variable_create(rt, name, muster_f32(w, units[l], inputs), &weights[l]));
        muster_expr *p = muster_graph_parameter(g, weights[l]);
        CHECK(muster_graph_split(p, 0)); /* each device keeps the weights of its units */
        h = muster_expr_tanh(muster_expr_matmul(h, muster_expr_transpose(p)));
        inputs = units[l];
    }
    (void)muster_graph_output(g, "y", h, MUSTER_AUTO);
    CHECK(muster_graph_compile(g, NULL, &f));
    CHECK(muster_graph_destroy(g));
    return f;
}

int main(void) {
    float x[ROWS][INPUTS], y[ROWS][20], expected[20];
    muster_runtime *rt = sample_open("host:3");
    muster_variable *weights[LAYERS];
    const int32_t size = muster_runtime_size(rt);
    int64_t kept[MOST];
    EXPECT(size <= MOST);
    muster_function *f = network(rt, weights);
    printf("neon: 6, 200, 20 units on at most %d GPUs, 12, 200, 20 on %d, AlexNet on %d\n", (int)gcd(gcd(6, 200), 20),
           (int)gcd(gcd(12, 200), 20), (int)gcd(4096, 1000));
    EXPECT(gcd(gcd(6, 200), 20) == 2 && gcd(gcd(12, 200), 20) == 4 && gcd(4096, 1000) == 8);
    for (int l = 0; l < LAYERS; l++) {
        int64_t sum = 0;
        CHECK(muster_variable_lengths(weights[l], size, kept));
        printf("here: %d devices, which keep", size);
        for (int32_t r = 0; r < size; r++) printf(" %d", (int)kept[r]), sum += kept[r];
        printf(" of %d units\n", (int)units[l]);
        EXPECT(sum == units[l] && (size != 3 || kept[0] == units[l] / 3));
    }
    for (int i = 0; i < ROWS * INPUTS; i++) x[i / INPUTS][i % INPUTS] = (float)(i % 9 - 4) / 4;
    CHECK(muster_function_call(f, (muster_tensor[]){muster_f32(x, ROWS, INPUTS)}, 1, (muster_tensor[]){muster_f32(y, ROWS, 20)}, 1, NULL));
    for (int i = 0; i < ROWS; i++) {
        forward(x[i], expected);
        for (int o = 0; o < 20; o++) EXPECT(fabsf(y[i][o] - expected[o]) < 1e-5f);
    }
    printf("the outputs are those of one device\n");
    CHECK(muster_runtime_close(rt));
    return 0;
}

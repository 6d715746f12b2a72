/* theano_op.c: the Op of Theano's page "Creating a new Op", which takes x to a * x + b, as an
 * operator with a body in C. That page says:
 *
 *   mult4plus5op == another_mult4plus5op, and mult4plus5op != mult2plus3op
 *   f(inp) is 4 * inp + 5, and g(inp) is 2 * inp + 3, for inp of shape (5, 4)
 *
 * __props__ are attributes, make_node and infer_shape the rule (here the usual one: dtype and shape
 * of x), perform or c_code the body, grad the gradient. */

#include "../sample.h"

enum { ROWS = 5, COLUMNS = 4 };

static muster_status factor(const muster_operator_node *node, const char *name, double *value) {
    muster_attribute attribute;
    MUSTER_TRY(muster_operator_attribute_value(node, name, &attribute));
    *value = attribute.number;
    return MUSTER_OK;
}

/* c_code: a loop over this device's rows, which are in one piece in host memory. */
static muster_status axpb_body(muster_worker *w, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                               void *user) {
    (void)w, (void)user;
    const float *x = in[0].data;
    float *y = out[0].data;
    const int64_t count = muster_tensor_count(in[0]);
    double a, b;
    MUSTER_TRY(factor(node, "a", &a));
    MUSTER_TRY(factor(node, "b", &b));
    for (int64_t i = 0; i < count; i++) y[i] = (float)a * x[i] + (float)b;
    return MUSTER_OK;
}

/* The same for devices whose memory C cannot read, by operations that run on every device. */
static muster_status axpb_anywhere(muster_worker *w, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                                   void *user) {
    (void)user;
    double a, b;
    MUSTER_TRY(factor(node, "a", &a));
    MUSTER_TRY(factor(node, "b", &b));
    MUSTER_TRY(muster_binary_scalar(w, MUSTER_MUL, in[0], a, out[0]));
    return muster_binary_scalar(w, MUSTER_ADD, out[0], b, out[0]);
}

/* grad: a * output_grads[0] */
static muster_status axpb_gradient(const muster_operator_node *node, muster_expr *const *x, muster_expr *const *y, muster_expr *const *dy,
                                   muster_expr **dx, void *user) {
    (void)x, (void)y, (void)user;
    double a;
    MUSTER_TRY(factor(node, "a", &a));
    dx[0] = muster_expr_multiply(dy[0], muster_graph_number(muster_operator_graph(node), a));
    return MUSTER_OK;
}

static void create(muster_runtime *rt) {
    static const muster_operator_backend bodies[] = {{"host", axpb_body}, {NULL, axpb_anywhere}};
    muster_operator_options options;
    muster_operator *op;
    muster_operator_options_init(&options);
    options.operands = (const char *const[]){"x", NULL};
    options.attributes = (const muster_operator_attribute[]){{.name = "a", .kind = MUSTER_ATTRIBUTE_NUMBER, .required = 1},
                                                             {.name = "b", .kind = MUSTER_ATTRIBUTE_NUMBER, .required = 1},
                                                             {.name = NULL}};
    options.bodies = bodies;
    options.body_count = 2;
    options.gradient = axpb_gradient;
    options.distribution = MUSTER_OPERATOR_ROWWISE; /* each device computes its own rows */
    CHECK(muster_operator_create(rt, "axpb", &options, &op));
}

int main(void) {
    float x[ROWS][COLUMNS], f[ROWS][COLUMNS], g[ROWS][COLUMNS], d[ROWS][COLUMNS];
    muster_runtime *rt = sample_open("host:2");
    muster_graph *graph;
    muster_function *function;
    create(rt);
    CHECK(muster_graph_create(rt, "axpb", &graph));
    muster_expr *input = muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER), *gradient;
    muster_expr *mult4plus5 = muster_expr_parse(graph, "axpb(x, a=4, b=5)"), *another = muster_expr_parse(graph, "axpb(x, a=4, b=5)");
    muster_expr *mult2plus3 = muster_expr_parse(graph, "axpb(x, a=2, b=3)");
    (void)muster_gradient(muster_expr_sum(mult4plus5), &input, 1, &gradient);
    (void)muster_graph_output(graph, "f", mult4plus5, MUSTER_AUTO);
    (void)muster_graph_output(graph, "g", mult2plus3, MUSTER_AUTO);
    (void)muster_graph_output(graph, "d", gradient, MUSTER_AUTO);
    CHECK(muster_graph_compile(graph, NULL, &function));
    EXPECT(mult4plus5 == another && mult4plus5 != mult2plus3); /* equal expressions are one */
    CHECK(muster_graph_destroy(graph));
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i / COLUMNS][i % COLUMNS] = (float)i / 2;
    const muster_tensor in = muster_f32(x, ROWS, COLUMNS);
    const muster_tensor out[] = {muster_f32(f, ROWS, COLUMNS), muster_f32(g, ROWS, COLUMNS), muster_f32(d, ROWS, COLUMNS)};
    CHECK(muster_function_call(function, &in, 1, out, 3, NULL));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) EXPECT(f[i][j] == 4 * x[i][j] + 5 && g[i][j] == 2 * x[i][j] + 3 && d[i][j] == 4);
    sample_print("4 * x + 5, first row:", f[0], COLUMNS);
    sample_print("2 * x + 3, first row:", g[0], COLUMNS);
    sample_print("gradient of sum(4 * x + 5), first row:", d[0], COLUMNS);
    CHECK(muster_runtime_close(rt));
    return 0;
}

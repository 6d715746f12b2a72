/* expression_eye.c: Theano's Eye as an operator of expressions, both ways: by a body of worker
 * operations, and by the text of a kernel. Both give the diagonals that eye.c gives. */
#include "sample.h"

/* The result is (n, m) f32: sizes and diagonal are attributes. */
static muster_status eye_rule(muster_operator_node *node, muster_expr *const *x, int32_t count, void *user) {
    muster_attribute shape;
    (void)x, (void)count, (void)user;
    MUSTER_TRY(muster_operator_attribute_value(node, "shape", &shape));
    if (shape.count != 2) return muster_fail(MUSTER_SHAPE_MISMATCH, "shape: expected 2 sizes");
    return muster_operator_result(node, 0, MUSTER_F32, 2, shape.integers);
}

static muster_status eye_body(muster_worker *worker, const muster_operator_node *node, const muster_tensor *in, muster_tensor *out,
                              void *user) {
    muster_attribute k;
    (void)in, (void)user;
    MUSTER_TRY(muster_operator_attribute_value(node, "k", &k));
    return muster_eye(worker, k.integer, out[0]);
}

static const char eye_kernel[] = "#section kernels\n"
                                 "#kernel eye : size, *, size, ssize :\n"
                                 "KERNEL void eye(ga_size count, GLOBAL_MEM DTYPE_OUTPUT_0 *y, ga_size m, ga_ssize k) {\n"
                                 "    MUSTER_EACH(i, count) {\n"
                                 "        y[i] = (ga_ssize)(i % m) - (ga_ssize)(i / m) == k ? 1 : 0;\n"
                                 "    }\n"
                                 "}\n";

static void create_operators(muster_runtime *rt) {
    static const muster_operator_attribute attributes[] = {
        {"shape", 0, MUSTER_ATTRIBUTE_SIZES, 1}, {"k", 0, MUSTER_ATTRIBUTE_INTEGER, 0}, {NULL, 0, 0, 0}};
    static const muster_operator_backend body = {NULL, eye_body};
    muster_operator_options by_body, by_kernel;
    muster_operator *made;
    muster_operator_options_init(&by_body);
    by_body.attributes = attributes;
    by_body.rule = eye_rule;
    by_kernel = by_body;
    by_body.bodies = &body;
    by_body.body_count = 1;
    CHECK(muster_operator_create(rt, "eye_by_body", &by_body, &made));
    by_kernel.kernels = eye_kernel;
    by_kernel.launch = "result.elements, result, result.shape[1], k";
    CHECK(muster_operator_create(rt, "eye_by_kernel", &by_kernel, &made));
}

int main(void) {
    static const int diagonals[] = {0, 1, -2};
    muster_runtime *rt = sample_open("host:2");
    create_operators(rt);
    for (int i = 0; i < 3; i++) {
        char body[64], kernel[64];
        float y[2][3][4], x = 0;
        muster_graph *g;
        muster_function *f;
        muster_graph_options options;
        muster_graph_options_init(&options);
        options.meaning = MUSTER_PER_WORKER;
        snprintf(body, sizeof body, "eye_by_body([3, 4], %d) + x", diagonals[i]); /* the library multiplies, adds, ... what it gives */
        snprintf(kernel, sizeof kernel, "eye_by_kernel([3, 4], %d) + x", diagonals[i]);
        CHECK(muster_graph_create(rt, "eye", &g));
        (void)muster_graph_input(g, "x", MUSTER_F32, MUSTER_SCALAR, MUSTER_BROADCAST);
        (void)muster_graph_output(g, "by body", muster_expr_parse(g, body), MUSTER_AUTO);
        (void)muster_graph_output(g, "by kernel", muster_expr_parse(g, kernel), MUSTER_AUTO);
        CHECK(muster_graph_compile(g, &options, &f));
        CHECK(muster_graph_destroy(g));
        const muster_tensor in = muster_f32(&x), out[] = {muster_f32(y[0], 3, 4), muster_f32(y[1], 3, 4)};
        CHECK(muster_function_call(f, &in, 1, out, 2, NULL));
        for (int row = 0; row < 3; row++)
            for (int column = 0; column < 4; column++) {
                const float expected = column - row == diagonals[i] ? 1.0f : 0.0f;
                EXPECT(y[0][row][column] == expected && y[1][row][column] == expected);
            }
        printf("eye(3, 4, %d) is the same by a body and by a kernel\n", diagonals[i]);
        CHECK(muster_function_destroy(f));
    }
    return muster_runtime_close(rt) != MUSTER_OK;
}

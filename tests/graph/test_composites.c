/* Operations that are made of others: wrong arguments name the operation as the program wrote it;
 * sizes that only a call knows; gradients at kinks, and where a part of the operation overflows;
 * indices that are wrong at run time. */
#include "base_machine.h"
#include "graph_fixture.h"
#include "graph_private.h"
#include "muster/expr.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4, COLUMNS = 3, MESSAGE = 512 };

/* x (rows, 3), n (2, 6) and m (3, 3) f32; i (rows) and j (2, 6) i64; b (2, 6) bool. */
static muster_graph *open_graph(muster_runtime *runtime) {
    muster_graph *graph;
    assert_ok(muster_graph_create(runtime, "composites", &graph));
    (void)muster_graph_input(graph, "x", MUSTER_F32, MUSTER_SHAPE(MUSTER_ROWS, COLUMNS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "n", MUSTER_F32, MUSTER_SHAPE(2, 6), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "m", MUSTER_F32, MUSTER_SHAPE(3, 3), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "i", MUSTER_I64, MUSTER_SHAPE(MUSTER_ROWS), MUSTER_SCATTER);
    (void)muster_graph_input(graph, "j", MUSTER_I64, MUSTER_SHAPE(2, 6), MUSTER_BROADCAST);
    (void)muster_graph_input(graph, "b", MUSTER_BOOL, MUSTER_SHAPE(2, 6), MUSTER_BROADCAST);
    return graph;
}

/* The simulated machine would compile a program for each group of a graph. */
static muster_function *compile(muster_graph *graph) {
    muster_function *function;
    muster_graph_options options;
    muster_graph_options_init(&options);
    options.unfused = on_gpus();
    assert_ok(muster_graph_compile(graph, &options, &function));
    return function;
}

static void wrong_arguments_are_refused(void **state) {
    static const struct {
        const char *text;
        muster_status status;
        const char *expected;
    } rows[] = {
        {"j ** -1", MUSTER_UNSUPPORTED,
         "muster_expr_power: b: expected a plain number, an integer from 0 on, for powers of integers, received -1"},
        {"j ** 0.5", MUSTER_UNSUPPORTED, "for powers of integers, received 0.5"},
        {"j ** j", MUSTER_UNSUPPORTED, "muster_expr_power: b \"j\": expected a plain number, an integer from 0 on"},
        {"2 ** j", MUSTER_UNSUPPORTED, "for powers of integers, received \"j\" (2, 6) i64"},
        {"n << 1", MUSTER_UNSUPPORTED, "muster_expr_left_shift: a \"n\": expected"},
        {"j >> 0.5", MUSTER_OUT_OF_RANGE, "muster_expr_right_shift: b: expected a number that i64 holds, received 0.5"},
        {"1 << 0.5", MUSTER_OUT_OF_RANGE, "muster_expr_left_shift: b: expected a number that i64 holds, received 0.5"},
        {"j * where(b, 0.5, 0)", MUSTER_OUT_OF_RANGE, "a: expected a number that i64 holds, received 0.5"},
        {"where(n, 1, 0)", MUSTER_UNSUPPORTED, "muster_expr_where: condition \"n\": expected bool, received f32"},
        {"where(b, 1, 0) @ n", MUSTER_SHAPE_MISMATCH, "muster_expr_matmul: "},
        {"j + inf", MUSTER_OUT_OF_RANGE, "muster_expr_add: b: expected a number that i64 holds, received inf"},
        {"inf(n)", MUSTER_INVALID_ARGUMENT, "unknown operation \"inf\""},
        {"sort(n, axis=2)", MUSTER_OUT_OF_RANGE, "muster_expr_sort: axis: expected an axis of x \"n\" (2, 6) f32, received 2"},
        {"sort(n, [0, 1])", MUSTER_INVALID_ARGUMENT, "muster_expr_sort: axis: expected one axis, received 2"},
        {"argsort(n, descending=2)", MUSTER_OUT_OF_RANGE, "muster_expr_argsort: descending: expected 0 or 1, received 2"},
        {"argmax(n, 0, keepdims=2)", MUSTER_OUT_OF_RANGE, "muster_expr_argmax: keepdims: expected 0 or 1, received 2"},
        {"var(n, ddof=-1)", MUSTER_OUT_OF_RANGE, "muster_expr_var: ddof: expected a number from 0 on, received -1"},
        {"cumprod(n, 1, dtype=bool)", MUSTER_UNSUPPORTED, "muster_expr_cumprod: dtype: expected f16"},
        {"cumprod(n, 2)", MUSTER_OUT_OF_RANGE, "muster_expr_cumprod: axis: expected an axis of x \"n\""},
        {"logaddexp(n, j)", MUSTER_DTYPE_MISMATCH, "muster_expr_logaddexp: b \"j\": expected f32, the dtype of a \"n\""},
        {"logaddexp(j, j)", MUSTER_UNSUPPORTED, "muster_expr_logaddexp: a \"j\": expected f16, bf16, f32 or f64"},
        {"log_sigmoid(j)", MUSTER_UNSUPPORTED, "muster_expr_log_sigmoid: x \"j\": expected"},
        {"pad(n, [1, 2, 3])", MUSTER_SHAPE_MISMATCH,
         "muster_expr_pad: before: expected one entry for all axes, or one for each axis of x \"n\" (2, 6) f32, received 3"},
        {"pad(n, 1, [1, 2, 3])", MUSTER_SHAPE_MISMATCH, "muster_expr_pad: after: expected one entry for all axes"},
        {"pad(x, 1)", MUSTER_UNSUPPORTED, "muster_expr_pad: before: expected no padding of a size that only a call knows in axis 0"},
        {"elu(j)", MUSTER_UNSUPPORTED, "muster_expr_elu: x \"j\": expected f16, bf16, f32 or f64, received i64"},
        {"celu(n, 0)", MUSTER_INVALID_ARGUMENT, "muster_expr_celu: alpha: expected a number above 0, received 0"},
        {"huber(n, n, -1)", MUSTER_INVALID_ARGUMENT, "muster_expr_huber: delta: expected a number above 0, received -1"},
        {"layer_norm(j)", MUSTER_UNSUPPORTED, "muster_expr_layer_norm: x \"j\": expected f16, bf16, f32 or f64, received i64"},
        {"layer_norm(n, epsilon=-0.5)", MUSTER_INVALID_ARGUMENT,
         "muster_expr_layer_norm: epsilon: expected a number from 0 on, received -0.5"},
        {"layer_norm(n, n)", MUSTER_SHAPE_MISMATCH, "muster_expr_layer_norm: scale \"n\": expected"},
        {"layer_norm(n, axis=2)", MUSTER_OUT_OF_RANGE, "muster_expr_layer_norm: axis: expected"},
        {"layer_norm(n, axis=-3)", MUSTER_OUT_OF_RANGE, "muster_expr_layer_norm: axis: expected"},
        {"rms_norm(n, epsilon=-1)", MUSTER_INVALID_ARGUMENT, "muster_expr_rms_norm: epsilon: expected a number from 0 on, received -1"},
        {"group_norm(n, groups=0)", MUSTER_OUT_OF_RANGE, "muster_expr_group_norm: groups: expected a number from 1 on, received 0"},
        {"group_norm(n, groups=5)", MUSTER_SHAPE_MISMATCH, "muster_expr_group_norm: x \"n\": expected channels that 5 groups divide"},
        {"group_norm(n, groups=1, epsilon=-1)", MUSTER_INVALID_ARGUMENT, "muster_expr_group_norm: epsilon: expected"},
        {"instance_norm(n)", MUSTER_SHAPE_MISMATCH, "muster_expr_instance_norm: x \"n\": expected 3 to 8 axes (rows, channels, ...)"},
        {"local_response_norm(n, size=0)", MUSTER_OUT_OF_RANGE,
         "muster_expr_local_response_norm: size: expected a number of channels from 1 on, received 0"},
        {"batch_norm(j, i, i)", MUSTER_UNSUPPORTED, "muster_expr_batch_norm: x \"j\": expected f16, bf16, f32 or f64, received i64"},
        {"batch_norm(i, i, i)", MUSTER_UNSUPPORTED, "muster_expr_batch_norm: x \"i\": expected f16, bf16, f32 or f64, received i64"},
        {"batch_norm(m[0], m[0], m[0])", MUSTER_SHAPE_MISMATCH,
         "muster_expr_batch_norm: x: expected 2 to 8 axes (rows, channels, ...), received"},
        {"batch_norm(x, m[0], n[0])", MUSTER_SHAPE_MISMATCH, "muster_expr_batch_norm: variance: expected (3,), received (6,)"},
        {"batch_norm(x, m[0], m[0], m, m[0])", MUSTER_SHAPE_MISMATCH,
         "muster_expr_batch_norm: scale \"m\": expected (3,), received (3, 3)"},
        {"batch_norm(x, 0, m[0])", MUSTER_DTYPE_MISMATCH,
         "muster_expr_batch_norm: mean: expected f32, the dtype of x \"x\" (rows, 3) f32, received a plain number"},
        {"batch_norm(x, m[0], cast(m[0], f64))", MUSTER_DTYPE_MISMATCH, "muster_expr_batch_norm: variance: expected f32, the dtype of x"},
        {"batch_norm(cast(x, f16), m[0], cast(m[0], f64))", MUSTER_DTYPE_MISMATCH,
         "muster_expr_batch_norm: variance: expected f16 or f32, the dtype of x"},
        {"batch_norm(x, m[0], m[0], epsilon=-1)", MUSTER_INVALID_ARGUMENT,
         "muster_expr_batch_norm: epsilon: expected a number from 0 on, received -1"},
        {"batch_norm(x, m[0], m[0], training=2)", MUSTER_OUT_OF_RANGE, "muster_expr_batch_norm: training: expected 0 or 1, received 2"},
        {"batch_norm(x, m[0], m[0], per_device=-1)", MUSTER_OUT_OF_RANGE,
         "muster_expr_batch_norm: per_device: expected 0 or 1, received -1"},
        {"batch_norm_mean(x, n[0])", MUSTER_SHAPE_MISMATCH, "muster_expr_batch_norm_mean: mean: expected (3,), received (6,)"},
        {"batch_norm_mean(x, m[0], 1.5)", MUSTER_OUT_OF_RANGE,
         "muster_expr_batch_norm_mean: momentum: expected a number from 0 to 1, received 1.5"},
        {"batch_norm_variance(x, m[0], m[0], -0.5)", MUSTER_OUT_OF_RANGE,
         "muster_expr_batch_norm_variance: momentum: expected a number from 0 to 1, received -0.5"},
        {"batch_norm_variance(x, m[0], m[0], ddof=-1)", MUSTER_OUT_OF_RANGE,
         "muster_expr_batch_norm_variance: ddof: expected a number from 0 on, received -1"},
        {"hinge(n, j)", MUSTER_DTYPE_MISMATCH, "muster_expr_hinge: target \"j\": expected f32"},
        {"mean_squared_error(x, m[0:2])", MUSTER_SHAPE_MISMATCH,
         "muster_expr_mean_squared_error: target: expected a shape that broadcasts"},
        {"mean_squared_error(x, m[0], axis=2)", MUSTER_OUT_OF_RANGE, "muster_expr_mean_squared_error: axis: expected an axis of (rows, 3)"},
        {"mean_squared_error(x, m[0], axis=-3)", MUSTER_OUT_OF_RANGE,
         "muster_expr_mean_squared_error: axis: expected an axis of (rows, 3)"},
        {"huber(m, n)", MUSTER_SHAPE_MISMATCH, "muster_expr_huber: target \"n\": expected a shape that broadcasts"},
        {"hinge(m, n)", MUSTER_SHAPE_MISMATCH, "muster_expr_hinge: target \"n\": expected a shape that broadcasts"},
        {"sigmoid_cross_entropy(m, n)", MUSTER_SHAPE_MISMATCH, "muster_expr_sigmoid_cross_entropy: target \"n\": expected a shape that"},
        {"cross_entropy(n, j)", MUSTER_SHAPE_MISMATCH, "muster_expr_cross_entropy: labels \"j\": expected one label for each row of"},
        {"cross_entropy(x, x)", MUSTER_UNSUPPORTED, "muster_expr_cross_entropy: labels \"x\": expected u8, i32 or i64, received f32"},
        {"norm(n, 0)", MUSTER_INVALID_ARGUMENT, "muster_expr_norm: ord: expected a number other than 0, received 0"},
        {"std(n, axis=2)", MUSTER_OUT_OF_RANGE, "muster_expr_std: axis: expected an axis of x \"n\""},
        {"sum(n, 0, keepdims=2)", MUSTER_OUT_OF_RANGE, "muster_expr_sum: keepdims: expected 0 or 1, received 2"},
        {"max(n, keepdims=-1)", MUSTER_OUT_OF_RANGE, "muster_expr_max: keepdims: expected 0 or 1, received -1"},
        {"logsumexp(n, keepdims=-1)", MUSTER_OUT_OF_RANGE, "muster_expr_logsumexp: keepdims: expected 0 or 1, received -1"},
        {"var(n, keepdims=3)", MUSTER_OUT_OF_RANGE, "muster_expr_var: keepdims: expected 0 or 1, received 3"},
        {"std(n, keepdims=2)", MUSTER_OUT_OF_RANGE, "muster_expr_std: keepdims: expected 0 or 1, received 2"},
        {"norm(n, 2, keepdims=2)", MUSTER_OUT_OF_RANGE, "muster_expr_norm: keepdims: expected 0 or 1, received 2"},
        {"norm(n, 3, 1, keepdims=2)", MUSTER_OUT_OF_RANGE, "muster_expr_norm: keepdims: expected 0 or 1, received 2"},
        {"any(b, keepdims=2)", MUSTER_OUT_OF_RANGE, "muster_expr_any: keepdims: expected 0 or 1, received 2"},
        {"all(b, keepdims=2)", MUSTER_OUT_OF_RANGE, "muster_expr_all: keepdims: expected 0 or 1, received 2"},
        {"mean_squared_error(n, n, keepdims=2)", MUSTER_OUT_OF_RANGE,
         "muster_expr_mean_squared_error: keepdims: expected 0 or 1, received 2"},
        {"max_pool(reshape(n, [1, 2, 6]), [2], ceil_mode=2)", MUSTER_OUT_OF_RANGE,
         "muster_expr_max_pool: ceil_mode: expected 0 or 1, received 2"},
        {"l2_pool(reshape(n, [1, 2, 6]), [2], ceil_mode=-1)", MUSTER_OUT_OF_RANGE,
         "muster_expr_l2_pool: ceil_mode: expected 0 or 1, received -1"},
        {"average_pool(reshape(n, [1, 2, 6]), [2], exclude_padding=7)", MUSTER_OUT_OF_RANGE,
         "muster_expr_average_pool: exclude_padding: expected 0 or 1, received 7"},
        {"moveaxis(n, 0, [0, 1])", MUSTER_INVALID_ARGUMENT,
         "muster_expr_moveaxis: destination: expected as many axes as source has, received 2"},
        {"moveaxis(n, 2, 0)", MUSTER_OUT_OF_RANGE, "muster_expr_moveaxis: source: expected axes of x, received 2"},
        {"moveaxis(n, [0, -2], [0, 1])", MUSTER_INVALID_ARGUMENT, "muster_expr_moveaxis: source: expected each axis once, received -2"},
        {"split(n, 4, 0, 1)", MUSTER_INVALID_ARGUMENT,
         "muster_expr_split: sections: expected a number that divides the size of the axis, received 4"},
        {"split(n, 0, 0, 1)", MUSTER_INVALID_ARGUMENT, "received 0"},
        {"split(n, 3, 3, 1)", MUSTER_OUT_OF_RANGE, "muster_expr_split: index: expected one of the sections, from 0 on, received 3"},
        {"split(n, 3, -1, 1)", MUSTER_OUT_OF_RANGE, "received -1"},
        {"split(x, 2, 0)", MUSTER_UNSUPPORTED, "muster_expr_split: axis: expected one whose size does not depend on the call"},
        {"repeat(n, -1)", MUSTER_INVALID_ARGUMENT, "muster_expr_repeat: repeats: expected 0 or more, received -1"},
        {"repeat(n, 2, 2)", MUSTER_OUT_OF_RANGE, "muster_expr_repeat: axis: expected an axis of x \"n\""},
        {"tile(n, [2, -2])", MUSTER_INVALID_ARGUMENT, "muster_expr_tile: reps: expected numbers from 0 on, received -2"},
        {"tile(n, [1, 1, 1, 1, 1, 1, 1, 1, 2])", MUSTER_UNSUPPORTED, "muster_expr_tile: reps: expected at most 8 entries, received 9"},
        {"diagonal(n[0])", MUSTER_SHAPE_MISMATCH, "muster_expr_diagonal: x: expected 2 dimensions or more, received (6,)"},
        {"diagonal(n, 0, 1, -1)", MUSTER_INVALID_ARGUMENT, "muster_expr_diagonal: axis2: expected another axis than axis1, received 1"},
        {"trace(x)", MUSTER_UNSUPPORTED, "muster_expr_trace: axis1: expected two axes whose sizes do not depend on the call"},
        {"trace(n, dtype=f64, axis1=1, axis2=1)", MUSTER_INVALID_ARGUMENT, "muster_expr_trace: axis2: expected another axis than axis1"},
        {"take_along_axis(m, j, 0)", MUSTER_SHAPE_MISMATCH, "muster_expr_take_along_axis: indices \"j\": expected the shape of x \"m\""},
        {"take_along_axis(n, n, 0)", MUSTER_UNSUPPORTED, "indices \"n\": expected u8, i32 or i64, received f32"},
        {"add_along_axis(n, j, 4, 2)", MUSTER_OUT_OF_RANGE, "muster_expr_add_along_axis: axis: expected an axis of x \"n\""},
        {"add_along_axis(n[0:1], j, 4, 1)", MUSTER_SHAPE_MISMATCH, "muster_expr_add_along_axis: indices \"j\": expected the shape of x"},
        {"add_along_axis(b, j, 4, 1)", MUSTER_UNSUPPORTED, "x \"b\": expected f16, bf16, f32"},
        {"scatter_add(n, i, 3, 2)", MUSTER_OUT_OF_RANGE, "muster_expr_scatter_add: axis: expected an axis of x \"n\""},
        {"linspace(0, 1, -1, f32)", MUSTER_INVALID_ARGUMENT, "muster_expr_linspace: num: expected 0 or more, received -1"},
        {"linspace(0, 1, 3, i32)", MUSTER_UNSUPPORTED, "muster_expr_linspace: dtype: expected a float dtype"},
        {"concatenate(x, x)", MUSTER_UNSUPPORTED,
         "muster_expr_concatenate: x[0] \"x\": expected operands without rows in axis 0, since the rows of a call are spread over its "
         "workers"},
        {"einsum('ij', n, n)", MUSTER_INVALID_ARGUMENT, "muster_expr_einsum: expected 1 operand for these subscripts, received 2"},
        {"einsum('ij,jk', n)", MUSTER_INVALID_ARGUMENT, "muster_expr_einsum: expected 2 operands for these subscripts, received 1"},
        {"einsum('i1', n)", MUSTER_INVALID_ARGUMENT, "subscripts: expected letters"},
        {"einsum('..j', n)", MUSTER_INVALID_ARGUMENT, "subscripts: expected letters, \"...\" once in a list"},
        {"einsum('...j...', n)", MUSTER_INVALID_ARGUMENT, "subscripts: expected letters, \"...\" once in a list"},
        {"einsum('...j->j', n)", MUSTER_INVALID_ARGUMENT, "subscripts: expected \"...\" in the result, as in the operands"},
        {"einsum('...ijk', n)", MUSTER_SHAPE_MISMATCH, "x[0] \"n\": expected 3 dimensions or more, one for each letter, received (2, 6)"},
        {"einsum('ii', n)", MUSTER_SHAPE_MISMATCH, "x[0] \"n\": expected size 2 for \"i\", received (2, 6)"},
        {"einsum('ii,i', n[:1], n[0])", MUSTER_SHAPE_MISMATCH, "expected size 6 for \"i\", received (1, 6)"},
        {"einsum('...i,...', n, n)", MUSTER_SHAPE_MISMATCH, "x[1] \"n\": expected size 2 for \"...\", received (2, 6)"},
        {"einsum('ij->k', n)", MUSTER_INVALID_ARGUMENT,
         "subscripts: expected a result whose letters the operands have, received \"ij->k\""},
        {"einsum('ij->ii', n)", MUSTER_INVALID_ARGUMENT, "subscripts: expected a result that has each letter once"},
        {"einsum('ij-', n)", MUSTER_INVALID_ARGUMENT, "subscripts: expected letters"},
        {"einsum('i', n)", MUSTER_SHAPE_MISMATCH, "x[0] \"n\": expected 1 dimension, one for each letter, received (2, 6)"},
        {"einsum('ij,jk', n, n)", MUSTER_SHAPE_MISMATCH, "x[1] \"n\": expected size 6 for \"j\", received (2, 6)"},
        {"einsum('ij,kl,mn,op,qr', n, n, n, n, n)", MUSTER_INVALID_ARGUMENT, "subscripts: expected a result of at most 8 dimensions"},
        {"einsum('ij', b)", MUSTER_UNSUPPORTED, "muster_expr_einsum: x[0] \"b\": expected"},
        {"einsum('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', n)", MUSTER_INVALID_ARGUMENT,
         "subscripts: expected at most 64 characters"},
    };
    int32_t refused = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, refused++) {
        muster_graph *graph = open_graph(*state);
        const bool made = muster_expr_ndim(muster_expr_parse(graph, rows[i].text)) >= 0;
        if (made || muster_graph_status(graph) != rows[i].status || !strstr(muster_last_error(), rows[i].expected))
            fail_msg("%s: %s", rows[i].text, made ? "it is not refused" : muster_last_error());
        assert_ok(muster_graph_destroy(graph));
    }
    assert_int_equal(refused, 121);
}

/* ---- sizes that only a call knows ---- */

static float run_text(muster_runtime *runtime, const char *text, int64_t rows, const float *x, const int64_t *labels, muster_status *status,
                      char message[MESSAGE]) {
    muster_graph *graph = open_graph(runtime);
    muster_function *function;
    float sum = NAN, n[2][6] = {{0}}, m[3][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
    int64_t j[2][6] = {{0}};
    uint8_t b[2][6] = {{0}};
    muster_expr *made = muster_expr_parse(graph, text);
    if (muster_expr_ndim(made) < 0) fail_msg("%s: %s", text, muster_last_error());
    assert_ok(muster_graph_output(graph, "sum", APPLY(graph, "sum", made), MUSTER_AUTO));
    function = compile(graph);
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor in[] = {muster_f32((float *)(uintptr_t)x, rows, COLUMNS),
                                muster_f32(n, 2, 6),
                                muster_f32(m, 3, 3),
                                muster_i64((int64_t *)(uintptr_t)labels, rows),
                                muster_i64(j, 2, 6),
                                muster_tensor_make(MUSTER_BOOL, b, 2, (const int64_t[]){2, 6})};
    const muster_tensor out = muster_f32(&sum);
    *status = muster_function_call(function, in, 6, &out, 1, NULL);
    snprintf(message, MESSAGE, "%s", muster_last_error());
    assert_ok(muster_function_destroy(function));
    return sum;
}

/* x = 1, 2, ... 12 in rows of 3; labels 0, 1, 2, 0; the sums are computed by hand. */
static void rows_of_the_call_are_followed(void **state) {
    static const float x[ROWS * COLUMNS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const int64_t labels[ROWS] = {0, 1, 2, 0};
    static const struct {
        const char *text;
        double all, first; /* of all rows, of the first two */
    } rows[] = {
        {"tile(x, [2, 3])", 6 * 78, 6 * 21},
        {"repeat(x, 2, axis=0)", 2 * 78, 2 * 21},
        {"repeat(x, 2)", 2 * 78, 2 * 21},
        {"ravel(x)", 78, 21},
        {"moveaxis(x, 0, 1) @ (x * 0 + 1)", 3 * 78, 3 * 21},
        {"einsum('ri,ij->rj', x, m)", 22 * 6 + 26 * 15 + 30 * 24, 5 * 6 + 7 * 15 + 9 * 24},
        {"take_along_axis(x, i[:, None], 1)", 1 + 5 + 9 + 10, 1 + 5},
        {"negative_log_likelihood(x, i)", -25, -6},
        {"negative_log_likelihood(x, i, ignore=0)", -14, -5},
        {"embedding(x, i)", 6 + 15 + 24 + 6, 6 + 15},
        {"norm(x, 1, axis=0)", 78, 21},
        {"mean_squared_error(x, x - 2)", 4, 4},
        {"mean_squared_error(x, x - 2, axis=-1)", 4 * 4, 2 * 4},
        {"mean_squared_error(x, x - 2, axis=-2)", 3 * 4, 3 * 4},
        {"mean_squared_error(x, x - 2, axis=[-1, 0], keepdims=1)", 4, 4},
    };
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int32_t part = 0; part < 2; part++, compared++) {
            muster_status status;
            char message[MESSAGE];
            const double expected = part ? rows[i].first : rows[i].all;
            const float sum = run_text(*state, rows[i].text, part ? 2 : ROWS, x, labels, &status, message);
            if (status != MUSTER_OK) fail_msg("%s: %s", rows[i].text, message);
            if (fabs((double)sum - expected) > 1e-3) fail_msg("%s: expected %g, received %g", rows[i].text, expected, (double)sum);
        }
    }
    assert_int_equal(compared, 30);
}

/* Axis -1 is the last one, axis 1 here, and -2 the first. */
static void axes_are_counted_from_the_last(void **state) {
    static const float x[ROWS * COLUMNS] = {3, 1, 2, 0.5f, 4, 1, 2, 2, 5, 1, 0.25f, 3};
    static const int64_t labels[ROWS] = {0};
    static const char *const texts[] = {
        "sum(x, axis=%d)",         "mean(x, axis=%d)",     "prod(x, axis=%d)",     "max(x, axis=%d)",
        "min(x, axis=%d)",         "var(x, axis=%d)",      "std(x, axis=%d)",      "norm(x, axis=%d)",
        "logsumexp(x, axis=%d)",   "cumsum(x, axis=%d)",   "cumprod(x, axis=%d)",  "softmax(x, axis=%d) * x",
        "log_softmax(x, axis=%d)", "flip(x, axis=%d) * x", "sort(x, axis=%d) * x", "mean_squared_error(x, 2, axis=%d)",
        "repeat(x, 2, axis=%d)"};
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int axis = 0; axis < 2; axis++, compared++) {
            muster_status status[2];
            char text[2][MESSAGE], message[MESSAGE];
            float sum[2];
            for (int from_last = 0; from_last < 2; from_last++) {
                snprintf(text[from_last], MESSAGE, texts[i], axis - 2 * from_last);
                sum[from_last] = run_text(*state, text[from_last], ROWS, x, labels, &status[from_last], message);
                if (status[from_last] != MUSTER_OK) fail_msg("%s: %s", text[from_last], message);
            }
            if (sum[0] != sum[1]) fail_msg("%s: %g, %s: %g", text[0], (double)sum[0], text[1], (double)sum[1]);
        }
    assert_int_equal(compared, 34);
}

/* An index of another row, or of none, is refused, and reads nothing. The message names what the
 * program wrote, the index as the program passed it, and its place. */
static void wrong_indices_end_the_call(void **state) {
    static const float x[ROWS * COLUMNS] = {0};
    static const struct {
        int64_t labels[ROWS];
        const char *received;
    } wrong[] = {
        {{0, 3, 0, 0}, "3 at 1"},
        {{-1, 0, 0, 0}, "-1 at 0"},
        {{0, 0, 0, INT64_MAX}, "9223372036854775807 at 3"},
        {{0, 0, INT64_MIN, 4}, "-9223372036854775808 at 2"},
    };
    static const struct {
        const char *text, *name, *what;
    } texts[] = {
        {"take_along_axis(x, i[:, None], 1)", "take_along_axis", "indices"},
        {"add_along_axis(x[:, 0:1], i[:, None], 3, 1)", "add_along_axis", "indices"},
        {"cross_entropy(x, i)", "cross_entropy", "labels"},
        {"negative_log_likelihood(x, i)", "negative_log_likelihood", "labels"},
        {"cross_entropy(x, i, ignore=1)", "cross_entropy", "labels"},
    };
    static const int64_t ignored[ROWS] = {0, -100, 0, 0};
    muster_status status;
    char message[MESSAGE], expected[MESSAGE];
    int32_t refused = 0;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++, refused++) {
            (void)run_text(*state, texts[t].text, ROWS, x, wrong[i].labels, &status, message);
            assert_int_equal(status, MUSTER_OUT_OF_RANGE);
            snprintf(expected, sizeof expected, "muster_expr_%s: %s: expected %s in [0, 3), received %s (in %s", texts[t].name,
                     texts[t].what, texts[t].what, wrong[i].received, texts[t].name);
            if (!strstr(message, expected)) fail_msg("%s: expected '%s', received '%s'", texts[t].text, expected, message);
        }
    assert_int_equal(refused, 20);
    /* a label to ignore may be anything */
    const float sum = run_text(*state, "cross_entropy(x, i, ignore=-100)", ROWS, x, ignored, &status, message);
    assert_ok(status);
    assert_true(fabs((double)sum - 3 * log(3)) < 1e-5);
    /* also one that the dtype of the labels does not hold */
    static const int64_t labels[ROWS] = {0, 2, 1, 2};
    static const char *const narrow[] = {"cross_entropy(x, cast(i, u8), ignore=-100)", "cross_entropy(x, cast(i, u8), ignore=256)",
                                         "cross_entropy(x, cast(i, i32), ignore=-2147483649)",
                                         "negative_log_likelihood(log_softmax(x, axis=-1), cast(i, u8), ignore=-1)"};
    for (size_t t = 0; t < sizeof narrow / sizeof *narrow; t++) {
        const float all = run_text(*state, narrow[t], ROWS, x, labels, &status, message);
        if (status != MUSTER_OK || !(fabs((double)all - 4 * log(3)) < 1e-5)) fail_msg("%s: %g, %s", narrow[t], (double)all, message);
    }
}

/* ---- gradients where parts of an operation have none ---- */

static void gradients_at_kinks_are_finite(void **state) {
    static const struct {
        const char *text;
        double x, expected;
    } rows[] = {
        {"norm(x)", 0, 0},
        {"std(x)", 0, 0},
        {"norm(x[0:1])", -2, -1},
        {"norm(x, 3)", 0, 0},
        {"norm(x, 0.5)", 0, 0},
        {"norm(x[0:1], 3)", -2, -1},
        {"norm(concatenate(x[0:1] * 0, x[1:2]), 0.5)", 2, 0},
        {"x ** 0", 0, 0},
        {"x ** 0", -2, 0},
        {"x ** 1", 0, 1},
        {"power(x, stop_gradient(x * 0))", 0, 0},
        {"power(x, stop_gradient(x * 0))", -2, 0},
        {"power(x, 1 - arange(2, dtype=f64))", 0, 1},
        {"power(x, arange(2, dtype=f64))", 0, 0},
        {"elu(x)", 1000, 1},
        {"elu(x)", 0, 1},
        {"selu(x)", 1000, 1.0507009873554805},
        {"celu(x, 2)", 5000, 1},
        {"leaky_relu(x, 0.25)", 0, 0.25},
        {"sigmoid_cross_entropy(x, 0)", 0, 0.5},
        {"sigmoid_cross_entropy(x, 1)", 0, -0.5},
        {"sigmoid_cross_entropy(x, 0.25)", 1000, 0.75},
        {"sigmoid_cross_entropy(x, 0.25)", -1000, -0.25},
        {"huber(x, 0, 2)", 1e200, 2},
        {"huber(x, 0, 2)", -1e200, -2},
        {"mish(x)", 1000, 1},
        {"hard_sigmoid(x)", 1e300, 0},
        {"softsign(x)", 0, 1},
    };
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, compared++) {
        muster_graph *graph;
        muster_function *function;
        double x[2] = {rows[i].x, rows[i].x}, dx[2];
        muster_expr *d;
        assert_ok(muster_graph_create(*state, "kinks", &graph));
        muster_expr *in = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SHAPE(2), MUSTER_BROADCAST);
        assert_ok(muster_gradient(APPLY(graph, "sum", muster_expr_parse(graph, rows[i].text)), &in, 1, &d));
        assert_ok(muster_graph_output(graph, "dx", d, MUSTER_AUTO));
        function = compile(graph);
        assert_ok(muster_graph_destroy(graph));
        const muster_tensor given = muster_f64(x, 2), out = muster_f64(dx, 2);
        assert_ok(muster_function_call(function, &given, 1, &out, 1, NULL));
        assert_ok(muster_function_destroy(function));
        if (!(fabs(dx[0] - rows[i].expected) <= 1e-12))
            fail_msg("%s at %g: expected %g, received %g", rows[i].text, rows[i].x, rows[i].expected, dx[0]);
    }
    assert_int_equal(compared, 28);
}

/* ---- squares and counts that the dtype does not hold ---- */

/* *sum = the sum of the text, whose x has the dtype, and dx = its gradient. */
static void run_typed(muster_runtime *runtime, const char *dtype, const char *text, const muster_tensor *x, double *sum, double *dx) {
    char narrow[64];
    muster_graph *graph;
    muster_expr *d;
    assert_ok(muster_graph_create(runtime, "typed", &graph));
    muster_expr *in = muster_graph_input(graph, "x64", MUSTER_F64, 2, x->shape, MUSTER_BROADCAST);
    snprintf(narrow, sizeof narrow, "cast(x64, %s)", dtype);
    muster_expr *typed = muster_expr_parse(graph, narrow);
    muster_expr *result = muster_expr_parse(graph, text, "x", typed);
    if (muster_expr_ndim(result) < 0) fail_msg("%s: %s", text, muster_last_error());
    muster_expr *loss = muster_expr_parse(graph, "sum(cast(result, f64))", "result", result);
    assert_ok(muster_gradient(loss, &in, 1, &d));
    assert_ok(muster_graph_output(graph, "sum", loss, MUSTER_AUTO));
    assert_ok(muster_graph_output(graph, "dx", d, MUSTER_AUTO));
    muster_function *function = compile(graph);
    assert_ok(muster_graph_destroy(graph));
    const muster_tensor out[] = {muster_f64(sum), muster_f64(dx, x->shape[0], x->shape[1])};
    assert_ok(muster_function_call(function, x, 1, out, 2, NULL));
    assert_ok(muster_function_destroy(function));
}

static bool is_near(double received, double expected, double tolerance) { return fabs(received - expected) <= tolerance * fabs(expected); }

/* The first column has 300 and -300 in turns, the second one 300 and zeros, all times the scale.
 * Expected are, by hand, the sum of the results, and the gradients of three elements. */
static void squares_may_be_larger_than_the_dtype(void **state) {
    enum { N = 100 };
    static const struct {
        const char *dtype, *text;
        double scale, sum, first[2], second; /* the gradients of x[0, 0], x[0, 1], and x[1, 1] */
    } rows[] = {
        {"f16", "norm(x, 2, axis=0)", 1, 3300, {0.1, 1}, 0},
        {"f16", "norm(x, 2, axis=0, keepdims=True)", 1, 3300, {0.1, 1}, 0},
        {"f16", "norm(x[:, 0:1], keepdims=True)", 1, 3000, {0.1, 0}, 0},
        {"f16", "norm(x[:, 0:1])", 1, 3000, {0.1, 0}, 0},
        {"f16", "norm(x, 3, axis=0)", 1, 1692.4766500838336, {0.046415888336127795, 1}, 0},
        {"f16", "std(x, axis=0)", 1, 329.84962311231894, {0.01, 0.09949874371066199}, -0.001005037815259212},
        {"f16", "var(x[:, 1:2], axis=0)", 1, 891, {0, 5.94}, -0.06},
        {"f16", "var(x[:, 1:2])", 1, 891, {0, 5.94}, -0.06},
        {"f16", "mean_squared_error(x[:, 1:2], x[:, 1:2] * 0, axis=0)", 1, 900, {0, 6}, 0},
        {"bf16", "norm(x, 2, axis=0)", 1e20, 3300e20, {0.1, 1}, 0},
        {"f32", "norm(x, 2, axis=0)", 1e20, 3300e20, {0.1, 1}, 0},
        {"f32", "norm(x[:, 0:1])", 1e20, 3000e20, {0.1, 0}, 0},
        {"f32", "norm(x[:, 0:1], keepdims=True)", 1e20, 3000e20, {0.1, 0}, 0},
        {"f16", "huber(x[0:1], 0, 400)", 1, 90000, {300, 300}, 0},
        {"f32", "huber(x[0:1], 0, 1e38)", 7e16, 2.1e19 * 2.1e19, {2.1e19, 2.1e19}, 0},
        {"f16", "atan2(x[0:1], 300)", 1, 0.78539816339744831 * 2, {1. / 600, 1. / 600}, 0},
        {"f16", "atan2(300, x[0:1])", 1, 0.78539816339744831 * 2, {-1. / 600, -1. / 600}, 0},
        {"f32", "atan2(x[0:1], 3e22)", 1e20, 0.78539816339744831 * 2, {1. / 600e20, 1. / 600e20}, 0},
    };
    static double x[N][2], dx[N][2];
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, compared++) {
        const double tolerance = strcmp(rows[i].dtype, "f32") == 0 ? 1e-6 : strcmp(rows[i].dtype, "f16") == 0 ? 1e-3 : 1e-2;
        double sum;
        for (int32_t r = 0; r < N; r++) {
            x[r][0] = (r % 2 ? -300 : 300) * rows[i].scale;
            x[r][1] = r ? 0 : 300 * rows[i].scale;
        }
        const muster_tensor in = muster_f64(x, N, 2);
        run_typed(*state, rows[i].dtype, rows[i].text, &in, &sum, &dx[0][0]);
        if (!is_near(sum, rows[i].sum, tolerance)) fail_msg("%s of %s: the sum is %g", rows[i].text, rows[i].dtype, sum);
        if (!is_near(dx[0][0], rows[i].first[0], tolerance) || !is_near(dx[0][1], rows[i].first[1], tolerance) ||
            !is_near(dx[1][1], rows[i].second, tolerance))
            fail_msg("%s of %s: the gradients are %g, %g, %g", rows[i].text, rows[i].dtype, dx[0][0], dx[0][1], dx[1][1]);
    }
    assert_int_equal(compared, 18);
}

/* f16 has numbers up to 65504, and bf16 no odd numbers above 256. */
static void averages_of_more_elements_than_the_dtype_counts_have_gradients(void **state) {
    enum { N = 70000 };
    static const struct {
        const char *dtype, *text;
        double expected, tolerance;
    } rows[] = {
        {"f16", "mean(x)", 1. / N, 0x1p-25 * N},
        {"f16", "mean(x, axis=0)", 1. / N, 0x1p-25 * N},
        {"f16", "mean(x, axis=0, keepdims=True)", 1. / N, 0x1p-25 * N},
        {"bf16", "mean(x[0:257])", 1. / 257, 0x1p-9},
    };
    static double x[N], dx[N];
    const muster_tensor in = muster_f64(x, N, 1);
    int32_t compared = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, compared++) {
        double sum;
        run_typed(*state, rows[i].dtype, rows[i].text, &in, &sum, dx);
        if (!is_near(dx[0], rows[i].expected, rows[i].tolerance))
            fail_msg("%s of %s: the gradient is %.9g", rows[i].text, rows[i].dtype, dx[0]);
    }
    assert_int_equal(compared, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_arguments_are_refused),
                                       cmocka_unit_test(rows_of_the_call_are_followed),
                                       cmocka_unit_test(axes_are_counted_from_the_last),
                                       cmocka_unit_test(wrong_indices_end_the_call),
                                       cmocka_unit_test(gradients_at_kinks_are_finite),
                                       cmocka_unit_test(squares_may_be_larger_than_the_dtype),
                                       cmocka_unit_test(averages_of_more_elements_than_the_dtype_counts_have_gradients)};
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}

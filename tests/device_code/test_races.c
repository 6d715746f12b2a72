/* Every built-in kernel text in its branch for GPUs, on the simulated machine with the threads of a
 * block interleaved at random: no race is reported, and the results have the bits of the ordinary
 * run. Each barrier of the texts is left out in turn, and is missed. */
#include "attention/attention_impl.h"
#include "base_check.h"
#include "base_seed.h"
#include "code/peer_parameters_private.h"
#include "communicator_impl.h"
#include "convolution/convolution_impl.h"
#include "gather/gather_parameters_private.h"
#include "nn_impl.h"
#include "op_impl.h"
#include "p2p/p2p_parameters_impl.h"
#include "pool_impl.h"
#include "pooling/pooling_impl.h"
#include "recurrence/recurrence_impl.h"
#include "recurrent/recurrent_impl.h"
#include "reduction/reduction_parameters_private.h"
#include "scheduler_scratch.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

/* One multiprocessor: at most 16 blocks in a launch, so that blocks go round their loops again. */
enum { GRID = 16, ROWS = 2 * GRID + 3, KERNELS = 61, BARRIERS = 5 };
/* Orders of the threads that each case is run in; FULL_SEEDS with MUSTER_TEST_FULL=1. */
enum { SEEDS = 1, FULL_SEEDS = 40 };

/* ---- results: what a case has computed, one after another ---- */
static struct {
    char bytes[1 << 20];
    int64_t used;
} results;

static muster_tensor keep(muster_worker *w, muster_tensor y) {
    int64_t bytes = muster_tensor_count(y) * muster_dtype_size(y.dtype);
    assert_true(results.used + bytes <= (int64_t)sizeof results.bytes);
    assert_ok(muster_worker_read(w, y, muster_tensor_make(y.dtype, results.bytes + results.used, y.ndim, y.shape)));
    results.used += (bytes + 15) / 16 * 16;
    return y;
}

/* ---- operands ---- */
#define SHAPE(...) \
    (int32_t)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static muster_tensor empty(muster_worker *w, muster_dtype dtype, int32_t ndim, const int64_t *shape) {
    muster_tensor made = scratch_tensor(w, dtype, ndim, shape);
    assert_non_null(made.data);
    return made;
}

/* Numbers in [0, below), the same in each run; of floats with a fraction. */
static muster_tensor numbers(muster_worker *w, muster_dtype dtype, int64_t below, int32_t ndim, const int64_t *shape) {
    static _Alignas(16) char values[2 << 20];
    muster_tensor made = empty(w, dtype, ndim, shape);
    const int64_t count = muster_tensor_count(made);
    const bool whole = dtype > MUSTER_F64;
    assert_true(count * 8 <= (int64_t)sizeof values);
    for (int64_t i = 0; i < count; i++) {
        double value = (double)(i * 7 % below) + (whole ? 0 : (double)(i % 8) / 8);
        mst_convert(dtype, values + i * muster_dtype_size(dtype), MUSTER_F64, &value, 1);
    }
    assert_ok(muster_worker_write(w, muster_tensor_make(dtype, values, ndim, shape), made));
    return made;
}

static muster_tensor floats(muster_worker *w, int32_t ndim, const int64_t *shape) { return numbers(w, MUSTER_F32, 13, ndim, shape); }

/* ---- cases ---- */
static void elementwise(muster_worker *w) {
    muster_tensor a = floats(w, SHAPE(ROWS, 130)), b = numbers(w, MUSTER_F32, 11, SHAPE(ROWS, 130)), row = floats(w, SHAPE(130)),
                  y = empty(w, MUSTER_F32, SHAPE(ROWS, 130)), mask = empty(w, MUSTER_BOOL, SHAPE(ROWS, 130)),
                  half = empty(w, MUSTER_F16, SHAPE(ROWS, 130));
    assert_ok(muster_fill(w, 3, y));
    assert_ok(muster_binary_op(w, MUSTER_ADD, a, b, keep(w, y)));
    assert_ok(muster_binary_op(w, MUSTER_MUL, muster_tensor_transpose(a), muster_tensor_transpose(b), muster_tensor_transpose(keep(w, y))));
    assert_ok(muster_binary_op(w, MUSTER_SUB, a, row, keep(w, y)));
    assert_ok(muster_binary_scalar(w, MUSTER_MAXIMUM, a, 5, keep(w, y)));
    assert_ok(muster_unary_op(w, MUSTER_TANH, a, keep(w, y)));
    assert_ok(muster_unary_op(w, MUSTER_NEG, keep(w, y), y)); /* in place */
    assert_ok(muster_scale_add(w, 2, a, 3, keep(w, y)));
    assert_ok(muster_clip(w, 2, 7, a, keep(w, y)));
    assert_ok(muster_bias_relu(w, a, row, keep(w, y)));
    assert_ok(muster_relu_gradient(w, a, b, keep(w, y)));
    assert_ok(muster_compare(w, MUSTER_LESS, a, b, mask));
    assert_ok(muster_predicate_op(w, MUSTER_LOGICAL_NOT, keep(w, mask), mask)); /* in place */
    assert_ok(muster_where(w, keep(w, mask), a, b, keep(w, y)));
    assert_ok(muster_copy(w, keep(w, y), half));
    assert_ok(muster_copy(w, muster_tensor_transpose(a), muster_tensor_transpose(y)));
    keep(w, half);
    keep(w, y);
}

static void random_numbers(muster_worker *w) {
    muster_tensor y = empty(w, MUSTER_F32, SHAPE(4133)), z = empty(w, MUSTER_F64, SHAPE(33, 9));
    assert_ok(muster_random_uniform(w, 7, 3, y));
    assert_ok(muster_random_normal(w, 7, 5, 1, 2, muster_tensor_transpose(z)));
    keep(w, y);
    keep(w, z);
}

static void by_index(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE(50, 9)), indices = numbers(w, MUSTER_I64, 50, SHAPE(ROWS)), y = empty(w, MUSTER_F32, SHAPE(ROWS, 9)),
                  hot = empty(w, MUSTER_F32, SHAPE(ROWS, 50));
    assert_ok(muster_take(w, x, indices, y));
    assert_ok(muster_scatter_add(w, keep(w, y), indices, x));
    assert_ok(muster_one_hot(w, indices, 50, hot));
    assert_ok(mst_worker_gather_rows(w, y.data, x.data, 36, indices.data, ROWS));
    keep(w, x);
    keep(w, y);
    keep(w, hot);
}

/* More chunks than blocks; the second has one index out of range. */
static void indices_out_of_range(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE(50, 1)), indices = numbers(w, MUSTER_U8, 50, SHAPE((2 * GRID + 1) * 4096 + 5)),
                  y = empty(w, MUSTER_F32, SHAPE((2 * GRID + 1) * 4096 + 5, 1));
    muster_tensor few = muster_tensor_slice(x, 0, 49);
    assert_refused(muster_take(w, few, indices, y), MUSTER_OUT_OF_RANGE, "49");
}

static void reductions(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE(ROWS, 300)), few = empty(w, MUSTER_F32, SHAPE(ROWS)), columns = empty(w, MUSTER_F32, SHAPE(300)),
                  whole = numbers(w, MUSTER_I32, 9, SHAPE(ROWS, 20)), sums = empty(w, MUSTER_I32, SHAPE(ROWS));
    assert_ok(muster_reduce(w, MUSTER_SUM, x, 1, few));
    assert_ok(muster_reduce(w, MUSTER_MAX, x, 0, columns));
    assert_ok(muster_reduce(w, MUSTER_AVG, x, 1, keep(w, few)));
    assert_ok(muster_reduce(w, MUSTER_PROD, whole, 1, sums));
    keep(w, few);
    keep(w, columns);
    keep(w, sums);
}

/* Two chunks of each of more results than blocks. */
static void reductions_by_chunks(muster_worker *w) {
    muster_tensor x = numbers(w, MUSTER_U8, 13, SHAPE(GRID + 2, 4100)), y = empty(w, MUSTER_U8, SHAPE(GRID + 2));
    assert_ok(muster_reduce(w, MUSTER_SUM, x, 1, y));
    keep(w, y);
}

static void dot(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE((GRID + 1) * 4096 + 1)), y = empty(w, MUSTER_F32, 0, NULL);
    assert_ok(muster_dot(w, x, x, y));
    keep(w, y);
}

static void gemv(muster_worker *w) {
    muster_tensor a = floats(w, SHAPE(ROWS, 300)), x = floats(w, SHAPE(300)), y = floats(w, SHAPE(ROWS)), few = floats(w, SHAPE(ROWS, 5));
    assert_ok(muster_gemv(w, 2, a, x, 1, y));
    assert_ok(muster_gemv(w, 2, few, muster_tensor_slice(x, 0, 5), 1, keep(w, y)));
    keep(w, y);
}

static void argmax(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE(ROWS, 300)), few = floats(w, SHAPE(ROWS, 20)), at = empty(w, MUSTER_I64, SHAPE(ROWS));
    assert_ok(muster_argmax(w, x, at));
    assert_ok(muster_argmin(w, few, keep(w, at)));
    keep(w, at);
}

/* With the gradient in the place of the logits. */
static void softmax(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE(ROWS, 300)), few = floats(w, SHAPE(ROWS, 20)), labels = numbers(w, MUSTER_I32, 20, SHAPE(ROWS)),
                  loss = empty(w, MUSTER_F32, 0, NULL), gradient = empty(w, MUSTER_F32, SHAPE(ROWS, 20));
    muster_tensor correct = empty(w, MUSTER_I64, 0, NULL);
    assert_ok(muster_softmax_cross_entropy(w, x, labels, 0.5, loss, x, (muster_tensor){0}));
    assert_ok(muster_softmax_cross_entropy(w, few, labels, 0.5, keep(w, loss), gradient, correct));
    keep(w, x);
    keep(w, loss);
    keep(w, correct);
    keep(w, gradient);
}

/* Long rows in the place of the operands, and short ones. */
static void softmax_of_rows(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE(ROWS, 300)), few = floats(w, SHAPE(ROWS, 20)), y = empty(w, MUSTER_F32, SHAPE(ROWS, 20)),
                  sums = empty(w, MUSTER_F32, SHAPE(ROWS));
    assert_ok(muster_logsumexp(w, x, sums));
    assert_ok(muster_log_softmax(w, x, x));
    assert_ok(muster_log_softmax_gradient(w, keep(w, x), x, x));
    assert_ok(muster_softmax(w, keep(w, x), x));
    assert_ok(muster_softmax(w, few, y));
    assert_ok(muster_softmax_gradient(w, y, few, few));
    keep(w, sums);
    keep(w, x);
    keep(w, y);
    keep(w, few);
}

static void ordered_rows(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE(5, 300)), y = empty(w, MUSTER_F32, SHAPE(5, 300)), places = empty(w, MUSTER_I64, SHAPE(5, 300)),
                  few = empty(w, MUSTER_F32, SHAPE(5, 7)), places_of_few = empty(w, MUSTER_I64, SHAPE(5, 7)),
                  numbers = empty(w, MUSTER_F32, SHAPE(4133));
    assert_ok(muster_sort(w, x, y));
    assert_ok(muster_argsort(w, keep(w, y), places));
    assert_ok(muster_top_k(w, x, 7, few, places_of_few));
    keep(w, places);
    keep(w, few);
    keep(w, places_of_few);
    assert_ok(muster_cumsum(w, x, 1, x));
    assert_ok(muster_cumsum(w, keep(w, x), 0, y));
    assert_ok(muster_tril(w, keep(w, y), 3, y));
    assert_ok(muster_triu(w, keep(w, y), -1, x));
    assert_ok(muster_arange(w, 1, 0.5, numbers));
    assert_ok(muster_cumsum(w, keep(w, x), 1, y));
    assert_ok(muster_arange(w, 2, 0.25, numbers));
    assert_ok(muster_cumsum(w, numbers, 0, numbers));
    keep(w, y);
    keep(w, numbers);
}

/* More rows than threads, of one chunk, and few rows of several chunks. */
static void recurrences(muster_worker *w) {
    muster_tensor x = floats(w, SHAPE(2 * GRID, 3)), y = empty(w, MUSTER_F32, SHAPE(2 * GRID, 3)), a = floats(w, SHAPE(5, 300)),
                  b = floats(w, SHAPE(5, 300)), e = empty(w, MUSTER_F32, SHAPE(5, 300));
    assert_ok(mst_recurrence(w, &x, NULL, 1, true, &y));
    keep(w, y);
    assert_ok(mst_recurrence(w, &a, &b, 0, false, &e));
    keep(w, e);
}

/* More keys, and then more queries, than threads, and more columns than a block sums at once. */
static void attentions(muster_worker *w) {
    enum { FEW = GRID + 2, MANY = 259 };
    const mst_attention attention = {.scale = 0.01};
    muster_tensor few = floats(w, SHAPE(FEW, 17)), many = floats(w, SHAPE(MANY, 17)), y = empty(w, MUSTER_F32, SHAPE(FEW, 17)),
                  lse = empty(w, MUSTER_F32, SHAPE(FEW)), rest = empty(w, MUSTER_F32, SHAPE(FEW)), d = empty(w, MUSTER_F32, SHAPE(FEW, 17));
    mst_attention_tensors t = {.q = &few, .k = &many, .v = &many, .y = &y, .lse = &lse, .rest = &rest, .dy = &few, .dq = &d};
    assert_ok(mst_attention_forward(w, &attention, &t, "test"));
    keep(w, y), keep(w, lse), keep(w, rest);
    assert_ok(mst_attention_gradient(w, &attention, &t, "test"));
    keep(w, d);
    muster_tensor mask = floats(w, SHAPE(FEW, MANY)), dmask = empty(w, MUSTER_F32, SHAPE(FEW, MANY));
    t.mask = &mask;
    t.dmask = &dmask;
    assert_ok(mst_attention_mask_gradient(w, &attention, &t, "test"));
    keep(w, dmask);
    muster_tensor of_many = floats(w, SHAPE(MANY)), dv = empty(w, MUSTER_F32, SHAPE(FEW, 17));
    t = (mst_attention_tensors){
        .q = &many, .k = &few, .v = &few, .y = &many, .lse = &of_many, .rest = &of_many, .dy = &many, .dk = &d, .dv = &dv};
    assert_ok(mst_attention_gradient(w, &attention, &t, "test"));
    keep(w, d), keep(w, dv);
}

/* More states of rows than threads. */
static void recurrent_steps(muster_worker *w) {
    enum { ROWS = GRID, STATES = 129, STEPS = 2 };
    for (int32_t kind = MST_RECURRENT_TANH; kind <= MST_RECURRENT_GRU; kind++) {
        const mst_recurrent recurrent = {.kind = kind};
        const int64_t gates = mst_recurrent_gates(kind) * STATES;
        muster_tensor g = floats(w, SHAPE(ROWS, STEPS, gates)), r = floats(w, SHAPE(gates, STATES)), bias = floats(w, SHAPE(STATES));
        muster_tensor y = empty(w, MUSTER_F32, SHAPE(ROWS, STEPS, STATES)), hn = empty(w, MUSTER_F32, SHAPE(ROWS, STATES)),
                      cn = empty(w, MUSTER_F32, SHAPE(ROWS, STATES)), before_h = empty(w, MUSTER_F32, SHAPE(ROWS, STEPS, STATES)),
                      before_c = empty(w, MUSTER_F32, SHAPE(ROWS, STEPS, STATES)),
                      kept = empty(w, MUSTER_F32, SHAPE(ROWS, STEPS, 4 * STATES)), dgates = empty(w, MUSTER_F32, SHAPE(ROWS, STEPS, gates)),
                      dproducts = empty(w, MUSTER_F32, SHAPE(ROWS, STEPS, gates));
        const bool plain = kind <= MST_RECURRENT_RELU;
        mst_recurrent_tensors t = {
            .gates = &g, .r = &r, .bias = &bias, .y = &y, .hn = &hn, .cn = &cn, .before_h = &before_h, .before_c = &before_c};
        if (!plain) t.kept = &kept;
        assert_ok(mst_recurrent_forward(w, &recurrent, &t, "test"));
        keep(w, y), keep(w, hn);
        if (kind == MST_RECURRENT_LSTM) keep(w, cn);
        t = (mst_recurrent_tensors){.r = &r,
                                    .kept = plain ? &y : &kept,
                                    .before_h = &before_h,
                                    .before_c = &before_c,
                                    .dy = &y,
                                    .dgates = &dgates,
                                    .dh0 = &hn,
                                    .dc0 = &cn,
                                    .dproducts = &dproducts};
        assert_ok(mst_recurrent_gradient(w, &recurrent, &t, "test"));
        keep(w, dgates), keep(w, hn);
        if (kind == MST_RECURRENT_GRU) keep(w, dproducts);
    }
}

/* More elements than threads. */
static void convolutions(muster_worker *w) {
    const mst_convolution c = {
        .window = {.axes = 2, .size = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .before = {1, 0}, .after = {0, 0}}, .groups = 1};
    muster_tensor x = floats(w, SHAPE(3, 2, 29, 40)), weights = floats(w, SHAPE(4, 2, 3, 3)), bias = floats(w, SHAPE(4)),
                  y = empty(w, MUSTER_F32, SHAPE(3, 4, 28, 38)), gradient = empty(w, MUSTER_F32, SHAPE(4, 2, 3, 3));
    void *state = NULL;
    assert_ok(mst_convolution_forward(w, &c, &x, &weights, &bias, &y, &state, "test"));
    keep(w, y);
    assert_ok(mst_convolution_weights(w, &c, &x, &y, &gradient, &state, "test"));
    keep(w, gradient);
    assert_ok(mst_convolution_data(w, &c, &y, &weights, &x, &state, "test"));
    keep(w, x);
    mst_convolution_release(state);
}

static void pools(muster_worker *w) {
    const mst_pooling pooling = {
        .window = {.axes = 2, .size = {3, 2}, .stride = {2, 1}, .dilation = {1, 2}, .before = {1, 0}, .after = {0, 1}}, .divides = true};
    muster_tensor x = floats(w, SHAPE(3, 2, 40, 41)), y = empty(w, MUSTER_F32, SHAPE(3, 2, 20, 40)),
                  dx = empty(w, MUSTER_F32, SHAPE(3, 2, 40, 41));
    assert_ok(mst_pooling_max(w, &pooling, &x, &y, "test"));
    keep(w, y);
    assert_ok(mst_pooling_max_gradient(w, &pooling, &x, &y, &dx, "test"));
    assert_ok(mst_pooling_take(w, &pooling, &x, &dx, &y, "test"));
    keep(w, dx);
    assert_ok(mst_pooling_sum_gradient(w, &pooling, &y, &dx, "test"));
    keep(w, y);
    assert_ok(mst_pooling_sum(w, &pooling, &dx, &y, "test"));
    keep(w, y);
}

static void sums_of_collectives(muster_worker *w) {
    enum { COUNT = 1030, INPUTS = 6 };
    static mst_code_kernel kernel = {.name = "mst_p2p_reduce"};
    muster_tensor x = floats(w, SHAPE(INPUTS, COUNT + 2)), y = empty(w, MUSTER_F32, SHAPE(2, COUNT + 2)), sum = floats(w, SHAPE(COUNT)),
                  velocity = floats(w, SHAPE(COUNT));
    assert_ok(muster_fill(w, 0, y));
    for (int32_t odd = 0; odd < 2; odd++) { /* in packs, and one by one */
        mst_p2p_reduce_parameters p = {.count = COUNT, .dtype = MUSTER_F32, .op = MUSTER_SUM, .inputs = INPUTS, .outputs = 2};
        for (int k = 0; k < INPUTS; k++) p.input[k] = (float *)x.data + k * (COUNT + 2) + odd;
        for (int k = 0; k < 2; k++) p.output[k] = (float *)y.data + k * (COUNT + 2) + odd;
        assert_ok(mst_op_code(w, &kernel, p.count, &p, sizeof p));
        p.alpha = 0.5, p.beta = 0.25, p.parameter = sum.data, p.velocity = velocity.data;
        p.output[0] = sum.data; /* the parameter itself */
        keep(w, y);
        assert_ok(mst_op_code(w, &kernel, p.count, &p, sizeof p));
    }
    assert_ok(mst_worker_accumulate(w, MUSTER_MAX, MUSTER_F32, keep(w, sum).data, keep(w, velocity).data, COUNT, 1, false));
    assert_ok(mst_worker_update(w, MUSTER_F32, keep(w, y).data, sum.data, velocity.data, x.data, COUNT, 0.5, 0.25));
    keep(w, sum);
    keep(w, velocity);
    keep(w, y);
}

static void integers_of_collectives(muster_worker *w) {
    enum { COUNT = 1030, ROW = 1040, INPUTS = 6 };
    static mst_code_kernel kernel = {.name = "mst_p2p_reduce_integers"};
    muster_tensor x = numbers(w, MUSTER_U8, 200, SHAPE(INPUTS, ROW)), y = empty(w, MUSTER_U8, SHAPE(2, ROW));
    assert_ok(muster_fill(w, 0, y));
    for (int32_t odd = 0; odd < 2; odd++) { /* in packs, and one by one */
        mst_p2p_reduce_parameters p = {.count = COUNT, .dtype = MUSTER_U8, .op = MUSTER_SUM, .inputs = INPUTS, .outputs = 2};
        for (int k = 0; k < INPUTS; k++) p.input[k] = (uint8_t *)x.data + k * ROW + odd;
        for (int k = 0; k < 2; k++) p.output[k] = (uint8_t *)y.data + k * ROW + odd;
        assert_ok(mst_op_code(w, &kernel, p.count, &p, sizeof p));
        keep(w, y);
    }
}

static void probe_of_peers(muster_worker *w) {
    enum { COUNT = 1000 };
    static mst_code_kernel kernel = {.name = "mst_peer_probe"};
    muster_tensor x = numbers(w, MUSTER_I32, 1000, SHAPE(2, COUNT)), y = empty(w, MUSTER_I32, SHAPE(2, COUNT));
    uint32_t *from = x.data, *to = y.data;
    const mst_peer_parameters p = {from, from + COUNT, to, to + COUNT, COUNT};
    assert_ok(mst_op_code(w, &kernel, p.count, &p, sizeof p));
    keep(w, y);
}

typedef struct device_case {
    const char *name;
    void (*run)(muster_worker *w);
    const char *blocks[3]; /* kernels in which the threads of a block combine what they have */
} device_case;

static const device_case cases[] = {
    {"elementwise", elementwise, {NULL}},
    {"random numbers", random_numbers, {NULL}},
    {"by index", by_index, {NULL}},
    {"indices out of range", indices_out_of_range, {"mst_indices"}},
    {"reductions", reductions, {"mst_reduce_blocks"}},
    {"reductions by chunks", reductions_by_chunks, {"mst_reduce_blocks", "mst_reduce_partials"}},
    {"dot", dot, {"mst_dot"}},
    {"gemv", gemv, {"mst_gemv_blocks"}},
    {"argmax", argmax, {"mst_argmax_blocks"}},
    {"softmax", softmax, {"mst_softmax_blocks", "mst_softmax_sum"}},
    {"softmax of rows", softmax_of_rows, {"mst_softmax_rows_blocks"}},
    {"ordered rows", ordered_rows, {NULL}},
    {"convolutions", convolutions, {NULL}},
    {"pooling", pools, {NULL}},
    {"attention", attentions, {NULL}},
    {"recurrent layers", recurrent_steps, {NULL}},
    {"recurrences", recurrences, {NULL}},
    {"sums of collectives", sums_of_collectives, {NULL}},
    {"integers of collectives", integers_of_collectives, {NULL}},
    {"probe of peers", probe_of_peers, {NULL}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- running them ---- */
static muster_worker *worker;
static mst_pool *pool;
static mst_device *device;

static void log_nothing(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static int open_device(void **state) {
    (void)state;
    muster_sim_reset(&(muster_sim_options){.devices = 1, .multiprocessors = 1});
    const mst_device_table *table = mst_device_find("cuda");
    mst_pool_options options = {.spin_ns = 0, .warn_after_ns = -1, .fail_after_ns = -1, .log = log_nothing};
    if (!table || mst_code_add(&mst_ops_code) != MUSTER_OK || mst_code_add(&mst_nn_code) != MUSTER_OK ||
        mst_code_add(&mst_collectives_code) != MUSTER_OK || table->open(table, "0", &device) != MUSTER_OK ||
        mst_pool_create(&options, &device, 1, &pool) != MUSTER_OK)
        return -1;
    return mst_pool_enter(pool, "test", 0) == MUSTER_OK ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    mst_pool_leave(pool);
    mst_pool_destroy(pool);
    device->table->close(device);
    return 0;
}

static muster_status run_body(muster_worker *w, void *argument) {
    const device_case *c = argument;
    results.used = 0;
    memset(results.bytes, 0, sizeof results.bytes);
    worker = w;
    c->run(w);
    return MUSTER_OK;
}

static void run_case(const device_case *c) { assert_ok(mst_pool_run_single(pool, run_body, (void *)(uintptr_t)c)); }

/* ---- the tests ---- */
static void test_no_kernel_races_and_all_give_the_usual_bits(void **state) {
    static char usual[sizeof results.bytes];
    (void)state;
    const uint64_t first = test_seed();
    const int seeds = test_is_full() ? FULL_SEEDS : SEEDS;
    int runs = 0;
    for (int i = 0; i < CASES; i++) {
        muster_sim_check_races(0);
        run_case(&cases[i]);
        memcpy(usual, results.bytes, sizeof usual);
        for (uint64_t seed = first; seed < first + (uint64_t)seeds; seed++, runs++) {
            muster_sim_check_races(seed);
            run_case(&cases[i]);
            if (*muster_sim_hazards()) fail_msg("%s, seed %d: %s", cases[i].name, (int)seed, muster_sim_hazards());
            if (memcmp(usual, results.bytes, sizeof usual) != 0) fail_msg("%s, seed %d: other bits than usual", cases[i].name, (int)seed);
        }
    }
    assert_int_equal(runs, seeds * CASES);
    assert_int_equal(mst_code_kernel_count(), KERNELS);
    for (int32_t i = 0; i < mst_code_kernel_count(); i++)
        if (muster_sim_launches(mst_code_kernel_name(i)) < 1 + (uint64_t)seeds) fail_msg("no case launches %s", mst_code_kernel_name(i));
}

/* Each "__syncthreads(" and "__syncwarp(" of the texts. */
typedef struct barrier {
    const char *file;
    int line;
} barrier;

static int find_barriers(const mst_code_sources *sources, barrier *found, int count) {
    for (int32_t i = 0; i < sources->header_count + sources->family_count; i++) {
        const mst_code_source *source =
            i < sources->header_count ? &sources->headers[i] : &sources->families[i - sources->header_count].source;
        int line = 1;
        for (const char *at = source->text; *at; at++) {
            line += *at == '\n';
            if (strncmp(at, "__sync", 6) != 0) continue;
            assert_in_range(count, 0, BARRIERS - 1);
            found[count++] = (barrier){source->name, line};
        }
    }
    return count;
}

/* The last barrier keeps the next combination by the same function from writing where a slow thread
 * has not read its result yet. Kernels that combine by different functions in turn, each with
 * shared memory of its own, do not need it: the barriers of the one between order the two. */
static bool is_needed(const char *kernel, int number) { return number < BARRIERS - 1 || strncmp(kernel, "mst_softmax", 11) != 0; }

static void miss(const barrier *left_out, int number, const device_case *c, int *found, int *not_needed) {
    muster_sim_leave_out_barrier(left_out->file, left_out->line);
    run_case(c);
    assert_true(muster_sim_left_out() > 0);
    muster_sim_leave_out_barrier("", 0);
    for (int k = 0; k < 3 && c->blocks[k]; k++) {
        char expected[80];
        snprintf(expected, sizeof expected, "kernel %s: race: ", c->blocks[k]);
        bool missed = strstr(muster_sim_hazards(), expected) != NULL;
        if (missed != is_needed(c->blocks[k], number))
            fail_msg("%s(%d): %s: expected %s, received: %s", left_out->file, left_out->line, c->blocks[k], missed ? "no race" : "a race",
                     muster_sim_hazards());
        *(missed ? found : not_needed) += 1;
    }
    muster_sim_hazards_clear();
}

static void test_each_barrier_is_missed(void **state) {
    barrier barriers[BARRIERS];
    (void)state;
    int count = find_barriers(&mst_device_code, barriers, 0), found = 0, not_needed = 0;
    count = find_barriers(&mst_ops_code, barriers, count);
    count = find_barriers(&mst_nn_code, barriers, count);
    count = find_barriers(&mst_collectives_code, barriers, count);
    assert_int_equal(count, BARRIERS);
    muster_sim_check_races(3);
    for (int i = 0; i < BARRIERS; i++)
        for (int j = 0; j < CASES; j++)
            if (cases[j].blocks[0]) miss(&barriers[i], i, &cases[j], &found, &not_needed);
    assert_int_equal(found, 10 * BARRIERS - 3);
    assert_int_equal(not_needed, 3);
}

/* Threads of one block and of two that write one element. */
static void test_threads_that_share_an_element_are_found(void **state) {
    static mst_code_kernel kernel = {.name = "mst_fill"};
    (void)state;
    muster_sim_check_races(3);
    for (int64_t count = 1; count <= 257; count += 256) {
        muster_sim_hazards_clear();
        mst_element_parameters p = {.count = count, .op = 4, .iterator = {.ndim = 1, .operands = 1, .shape = {count}}};
        void *data = NULL;
        assert_ok(device->memory->allocate(device, 1024, &data));
        p.iterator.base[0] = data;
        assert_ok(device->code->launch(device, &kernel, count, &p, sizeof p));
        assert_ok(device->table->synchronize(device));
        assert_int_equal(muster_sim_hazard_count(), count > 1);
        device->memory->release(device, data);
    }
    assert_non_null(strstr(muster_sim_hazards(), "kernel mst_fill: race: "));
    muster_sim_hazards_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_kernel_races_and_all_give_the_usual_bits),
        cmocka_unit_test(test_each_barrier_is_missed),
        cmocka_unit_test(test_threads_that_share_an_element_are_found),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}

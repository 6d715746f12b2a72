/* The five computations of pooling against loops in f64: random shapes, each kind of layout, all
 * dtypes, on CPU cores and by the kernels. The numbers are small integers, so that many are equal
 * and sums are exact; among them NaN and -infinity. */
#include "base_check.h"
#include "base_machine.h"
#include "device_discrete.h"
#include "nn_impl.h"
#include "op_impl.h"
#include "ops_fixture.h"
#include "pooling/pooling_impl.h"

#include <math.h>

enum { X, Y, Z, OPERANDS, AXES = 3, MOST = 5 };
enum { CONTIGUOUS, CHANNELS_LAST, STRIDED, LAYOUTS };
enum { MAX, TAKE, MAX_GRADIENT, SUM, SUM_GRADIENT, KINDS };
static const char *const kinds[] = {"max", "take", "max_gradient", "sum", "sum_gradient"};
static const int32_t result_of[] = {Y, Y, Z, Y, X};

/* ---- cases ---- */

typedef struct shape_case {
    mst_pooling pooling;
    int64_t shapes[OPERANDS][MUSTER_MAX_DIMS];
    int32_t ndim;
} shape_case;

static int64_t between(int64_t low, int64_t high) { return low + ops_random(high - low + 1); }

static void finish_case(shape_case *c, int64_t n, int64_t channels, const int64_t *extents) {
    const mst_window *window = &c->pooling.window;
    c->ndim = window->axes + 2;
    for (int32_t i = 0; i < OPERANDS; i++) {
        c->shapes[i][0] = n;
        c->shapes[i][1] = channels;
        for (int32_t d = 0; d < window->axes; d++)
            c->shapes[i][2 + d] = i == Y ? mst_window_places(window, d, extents[d], c->pooling.ceil_mode) : extents[d];
    }
}

/* Few elements, with everything that can be different. Some windows lie wholly in the padding. */
static void small_case(shape_case *c) {
    int64_t extents[AXES];
    *c = (shape_case){.pooling = {.ceil_mode = ops_random(2), .divides = ops_random(3) > 0, .counts_padding = ops_random(2)}};
    mst_window *window = &c->pooling.window;
    window->axes = (int32_t)between(1, 3);
    for (int32_t d = 0; d < window->axes; d++) {
        extents[d] = ops_random(20) ? between(1, window->axes == 1 ? 40 : 8) : 0;
        window->size[d] = between(1, 3) + (ops_random(8) == 0 ? 5 : 0); /* some are larger than x */
        window->stride[d] = between(1, 3) + (ops_random(5) == 0 ? 3 : 0);
        window->dilation[d] = ops_random(3) ? 1 : between(2, 3);
        window->before[d] = ops_random(2) ? between(0, 3) : 0;
        window->after[d] = ops_random(2) ? between(0, 3) : 0;
    }
    finish_case(c, ops_random(12) ? between(1, 3) : 0, ops_random(16) ? between(1, 4) : 0, extents);
}

/* Lines of several times 512 places, or as many channels. Wide windows and strides that rows are
 * combined for on CPU cores, and those that are one too large for it. */
static void long_case(shape_case *c, bool channels) {
    *c = (shape_case){.pooling = {.divides = true, .counts_padding = ops_random(2), .window = {.axes = channels ? 2 : 1}}};
    mst_window *window = &c->pooling.window;
    for (int32_t d = 0; d < window->axes; d++) {
        window->size[d] = between(2, 5), window->stride[d] = channels ? 2 : between(1, 5),
        window->dilation[d] = channels ? 1 : between(1, 2);
        window->before[d] = between(0, 2), window->after[d] = between(0, 2);
    }
    if (!channels && ops_random(3) == 0) window->size[0] = between(119, 122), window->dilation[0] = 1;
    finish_case(c, 1, channels ? between(1023, 1026) : 2,
                channels ? (const int64_t[]){4, 5} : (const int64_t[]){between(1, 4) * 512 * window->stride[0] + between(-3, 6), 0});
}

static int64_t count_of(const shape_case *c, int32_t operand) {
    int64_t count = 1;
    for (int32_t d = 0; d < c->ndim; d++) count *= c->shapes[operand][d];
    return count;
}

/* The operand in the layout. Nothing repeats an element of a result. */
static ops_pair operand_of(muster_worker *w, muster_dtype dtype, const shape_case *c, int32_t operand, int32_t layout, bool result) {
    const int64_t *shape = c->shapes[operand];
    if (layout == STRIDED && count_of(c, operand) < 600) return ops_view(w, dtype, c->ndim, shape, !result);
    ops_pair pair = ops_make(w, dtype, count_of(c, operand));
    pair.host = muster_tensor_make(dtype, pair.host_storage.data, c->ndim, shape);
    if (layout == CHANNELS_LAST) {
        int64_t stride = shape[1];
        pair.host.strides[1] = 1;
        for (int32_t d = c->ndim - 1; d >= 2; d--) {
            pair.host.strides[d] = stride;
            stride *= shape[d];
        }
        pair.host.strides[0] = stride;
    }
    ops_place(&pair);
    return pair;
}

/* Some elements become NaN, others -infinity. */
static void put_special(muster_worker *w, const ops_pair *pair, int64_t one_of) {
    const muster_dtype dtype = pair->host.dtype;
    for (int64_t i = 0; i < muster_tensor_count(pair->host_storage); i++) {
        const double value = ops_random(2) ? (double)NAN : -(double)INFINITY;
        if (ops_random(one_of) == 0)
            mst_convert(dtype, (char *)pair->host_storage.data + i * muster_dtype_size(dtype), MUSTER_F64, &value, 1);
    }
    ops_send(w, pair);
}

/* ---- the oracle ---- */

static int64_t flat(const int64_t *shape, const int64_t *index) {
    int64_t at = 0;
    for (int32_t d = 0; d < MOST; d++) at = at * shape[d] + index[d];
    return at;
}

/* With three extents, of which those that are missing are 1. */
static void widened(const shape_case *c, int32_t operand, int64_t shape[MOST]) {
    shape[0] = c->shapes[operand][0];
    shape[1] = c->shapes[operand][1];
    for (int32_t d = 2; d < MOST; d++) shape[d] = d - 2 < c->ndim - 2 ? c->shapes[operand][d] : 1;
}

static void values_of(const shape_case *c, const ops_pair *pair, int32_t operand, double *values) {
    int64_t index[MUSTER_MAX_DIMS] = {0}, i = 0;
    if (count_of(c, operand) == 0) return;
    do values[i++] = ops_element(pair->host, c->ndim, index);
    while (ops_next(c->ndim, c->shapes[operand], index));
}

/* The elements of one window: where they lie in x, in the order of the window, and how many the
 * average counts. */
typedef struct window_elements {
    int64_t at[512], count, counted;
} window_elements;

static void find_elements(const shape_case *c, const int64_t *x, const int64_t *place, window_elements *e) {
    const mst_window *w = &c->pooling.window;
    int64_t taps = 1;
    e->count = e->counted = 0;
    for (int32_t d = 0; d < w->axes; d++) taps *= w->size[d];
    assert_true(taps <= 512);
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t index[MOST] = {place[0], place[1]}, rest = tap;
        bool inside = true, padded = true;
        for (int32_t d = w->axes - 1; d >= 0; d--) {
            index[2 + d] = place[2 + d] * w->stride[d] - w->before[d] + rest % w->size[d] * w->dilation[d];
            rest /= w->size[d];
            inside = inside && index[2 + d] >= 0 && index[2 + d] < x[2 + d];
            padded = padded && index[2 + d] < x[2 + d] + w->after[d];
        }
        if (inside) e->at[e->count++] = flat(x, index);
        e->counted += c->pooling.counts_padding ? padded : inside;
    }
}

static void pool_place(const shape_case *c, int32_t kind, const window_elements *e, double *y, double *values[OPERANDS]) {
    int64_t largest = -1;
    double sum = 0;
    for (int64_t i = 0; i < e->count; i++) {
        const double v = values[X][e->at[i]], so_far = largest < 0 ? 0 : values[X][largest];
        if (largest < 0 || v > so_far || (isnan(v) && !isnan(so_far))) largest = e->at[i];
        sum += v;
    }
    const double share = c->pooling.divides ? (double)e->counted : 1;
    if (kind == MAX) *y = largest < 0 ? -(double)INFINITY : values[X][largest];
    if (kind == TAKE) *y = largest < 0 ? 0 : values[Z][largest];
    if (kind == MAX_GRADIENT && largest >= 0) values[Z][largest] += *y;
    if (kind == SUM) *y = sum / share;
    if (kind == SUM_GRADIENT)
        for (int64_t i = 0; i < e->count; i++) values[X][e->at[i]] += *y / share;
}

/* Sets the values of the operand that `kind` computes. Returns how many windows have no
 * elements. */
static int32_t pool(const shape_case *c, int32_t kind, double *values[OPERANDS]) {
    int64_t x[MOST], y[MOST], place[MUSTER_MAX_DIMS] = {0}, i = 0;
    int32_t without = 0;
    window_elements elements;
    widened(c, X, x), widened(c, Y, y);
    for (int64_t e = 0; e < count_of(c, result_of[kind]); e++) values[result_of[kind]][e] = 0;
    if (count_of(c, Y) == 0) return 0;
    do {
        find_elements(c, x, place, &elements);
        without += elements.count == 0;
        pool_place(c, kind, &elements, &values[Y][i++], values);
    } while (ops_next(MOST, y, place));
    return without;
}

/* ---- one case ---- */

static int32_t cases, empty, without_elements;

static muster_status compute(muster_worker *worker, const shape_case *c, int32_t kind, const ops_pair *pairs) {
    const muster_tensor *x = &pairs[X].device, *y = &pairs[Y].device, *z = &pairs[Z].device;
    if (kind == MAX) return mst_pooling_max(worker, &c->pooling, x, y, "test");
    if (kind == TAKE) return mst_pooling_take(worker, &c->pooling, x, z, y, "test");
    if (kind == MAX_GRADIENT) return mst_pooling_max_gradient(worker, &c->pooling, x, y, z, "test");
    if (kind == SUM) return mst_pooling_sum(worker, &c->pooling, x, y, "test");
    return mst_pooling_sum_gradient(worker, &c->pooling, y, x, "test");
}

/* What the storage has besides the view is what it had. */
static void assert_rest_untouched(const shape_case *c, int32_t operand, const ops_pair *pair, const void *before) {
    const int64_t size = muster_dtype_size(pair->host.dtype), bytes = muster_tensor_count(pair->host_storage) * size;
    static _Alignas(64) char after[OPS_STORAGE * 8];
    int64_t index[MUSTER_MAX_DIMS] = {0};
    memcpy(after, pair->host_storage.data, (size_t)bytes);
    if (count_of(c, operand)) do {
            int64_t offset = pair->host.byte_offset;
            for (int32_t d = 0; d < c->ndim; d++) offset += index[d] * pair->host.strides[d] * size;
            memcpy(after + offset, (const char *)before + offset, (size_t)size);
        } while (ops_next(c->ndim, c->shapes[operand], index));
    assert_memory_equal(after, before, bytes);
}

static void compare(const shape_case *c, int32_t kind, const ops_pair *pair, const double *values) {
    const muster_dtype dtype = pair->host.dtype;
    const bool exact = kind == MAX || kind == TAKE || (!c->pooling.divides && (dtype == MUSTER_F32 || dtype == MUSTER_F64));
    const double limit = exact ? 0 : ops_precision(dtype);
    int64_t index[MUSTER_MAX_DIMS] = {0}, i = 0;
    if (count_of(c, result_of[kind]) == 0) return;
    do {
        const double received = ops_element(pair->host, c->ndim, index), expected = values[i++];
        if (isnan(expected) ? isnan(received) : received == expected || fabs(received - expected) <= limit * (1 + fabs(expected))) continue;
        fail_msg("%s, %s, element %d: expected %g, received %g", kinds[kind], muster_dtype_name(dtype), (int)i - 1, expected, received);
    } while (ops_next(c->ndim, c->shapes[result_of[kind]], index));
}

static void run_case(muster_worker *worker, const shape_case *c, muster_dtype dtype, int32_t kind, const int32_t *layouts) {
    static double memory[OPERANDS][OPS_STORAGE];
    static _Alignas(64) char before[OPS_STORAGE * 8];
    double *values[OPERANDS] = {memory[X], memory[Y], memory[Z]};
    ops_pair pairs[OPERANDS];
    const int32_t result = result_of[kind];
    const int64_t mark = muster_worker_scratch_mark(worker);
    for (int32_t i = 0; i < OPERANDS; i++) {
        pairs[i] = operand_of(worker, dtype, c, i, layouts[i], i == result);
        if (i == X && kind <= MAX_GRADIENT && ops_random(2)) put_special(worker, &pairs[i], between(2, 12));
        values_of(c, &pairs[i], i, values[i]);
    }
    memcpy(before, pairs[result].host_storage.data, (size_t)(muster_tensor_count(pairs[result].host_storage) * muster_dtype_size(dtype)));
    without_elements += pool(c, kind, values);
    assert_ok(compute(worker, c, kind, pairs));
    ops_fetch(worker, &pairs[result]);
    compare(c, kind, &pairs[result], values[result]);
    assert_rest_untouched(c, result, &pairs[result], before);
    assert_ok(muster_worker_scratch_release(worker, mark));
    cases++;
    empty += count_of(c, Y) == 0;
}

/* ---- many cases ---- */

static muster_status small_body(muster_worker *worker, void *unused) {
    const int rounds = ops_rounds(60, 1500);
    (void)unused;
    for (int round = 0; round < rounds; round++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
            for (int32_t kind = 0; kind < KINDS; kind++) {
                shape_case c;
                do small_case(&c);
                while (count_of(&c, X) > 4000 || count_of(&c, Y) > 4000);
                const int32_t style = (int32_t)ops_random(LAYOUTS + 1);
                int32_t layouts[OPERANDS] = {style, style, style};
                for (int32_t i = 0; style == LAYOUTS && i < OPERANDS; i++) layouts[i] = (int32_t)ops_random(LAYOUTS);
                run_case(worker, &c, dtype, kind, layouts);
            }
    return MUSTER_OK;
}

static muster_status long_body(muster_worker *worker, void *unused) {
    const int rounds = ops_rounds(2, 40);
    (void)unused;
    for (int round = 0; round < rounds; round++)
        for (muster_dtype dtype = MUSTER_F16; dtype <= MUSTER_F64; dtype++)
            for (int32_t kind = 0; kind < KINDS; kind++)
                for (int32_t channels = 0; channels < 2; channels++) {
                    shape_case c;
                    long_case(&c, channels);
                    const int32_t layout = channels ? CHANNELS_LAST : CONTIGUOUS;
                    run_case(worker, &c, dtype, kind, (const int32_t[]){layout, (int32_t)ops_random(2), layout});
                }
    return MUSTER_OK;
}

static void run_everywhere(mst_task body) {
    static const char *const backends[] = {"host", "discrete"};
    cases = empty = without_elements = 0;
    for (int b = ops_first_backend(); b < 2; b++) {
        ops_seed();
        assert_ok(ops_run_on(backends[b], body, NULL));
    }
}

static void small_shapes_agree_with_loops(void **state) {
    (void)state;
    run_everywhere(small_body);
    assert_int_equal(cases, ops_rounds(60, 1500) * 4 * KINDS * (2 - ops_first_backend()));
    assert_true(empty > cases / 20 && empty < cases / 2);
    assert_true(without_elements > cases / 10);
}

static void long_lines_agree_with_loops(void **state) {
    (void)state;
    run_everywhere(long_body);
    assert_int_equal(cases, ops_rounds(2, 40) * 4 * KINDS * 2 * (2 - ops_first_backend()));
}

/* ---- refusals ---- */

static muster_status refuse_body(muster_worker *worker, void *unused) {
    shape_case c = {.pooling = {.window = {.axes = 2, .size = {2, 1}, .stride = {2, 1}, .dilation = {1, 1}}}};
    ops_pair pairs[OPERANDS];
    int32_t refused = 0;
    (void)unused;
    finish_case(&c, 1, 2, (const int64_t[]){4, 3});
    for (int32_t i = 0; i < OPERANDS; i++) pairs[i] = operand_of(worker, MUSTER_F32, &c, i, CONTIGUOUS, i == Y);
    const muster_tensor x = pairs[X].device, y = pairs[Y].device, z = pairs[Z].device;
    muster_tensor wrong;
#define REFUSED(call, status, message)         \
    do {                                       \
        assert_refused(call, status, message); \
        refused++;                             \
    } while (0)
    wrong = x, wrong.dtype = MUSTER_I32;
    REFUSED(mst_pooling_max(worker, &c.pooling, &wrong, &y, "here"), MUSTER_UNSUPPORTED,
            "here: x: expected f16, bf16, f32 or f64, received i32");
    wrong = y, wrong.dtype = MUSTER_F16;
    REFUSED(mst_pooling_sum(worker, &c.pooling, &x, &wrong, "here"), MUSTER_DTYPE_MISMATCH,
            "here: y: expected the dtype of x, f32, received f16");
    wrong = x, wrong.ndim = 3;
    REFUSED(mst_pooling_sum(worker, &c.pooling, &wrong, &y, "here"), MUSTER_SHAPE_MISMATCH,
            "here: x: expected 4 dimensions, received shape (1, 2, 4)");
    wrong = y, wrong.shape[2] = 1;
    REFUSED(mst_pooling_sum_gradient(worker, &c.pooling, &wrong, &x, "here"), MUSTER_SHAPE_MISMATCH,
            "here: dy: expected shape (1, 2, 2, 3), received (1, 2, 1, 3)");
    REFUSED(mst_pooling_max_gradient(worker, &c.pooling, &x, &y, &y, "here"), MUSTER_SHAPE_MISMATCH, "here: dx: expected");
    REFUSED(mst_pooling_take(worker, &c.pooling, &x, &y, &y, "here"), MUSTER_SHAPE_MISMATCH, "here: z: expected");
    assert_ok(mst_pooling_take(worker, &c.pooling, &x, &z, &y, "here"));
    c.pooling.window.size[0] = 65536, c.pooling.window.size[1] = 32768;
    assert_false(mst_pooling_fits(&c.pooling.window));
    REFUSED(mst_pooling_max(worker, &c.pooling, &x, &y, "here"), MUSTER_UNSUPPORTED,
            "here: size: expected a window of at most 2^31 - 1 elements, received more");
    c.pooling.window.size[1] = 32767;
    assert_true(mst_pooling_fits(&c.pooling.window));
    assert_int_equal(refused, 7);
    return MUSTER_OK;
}

static void wrong_operands_are_refused(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", refuse_body, NULL));
}

static int add_code(void **state) {
    (void)state;
    return mst_code_add(&mst_nn_code) == MUSTER_OK && mst_discrete_register() == MUSTER_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes_agree_with_loops),
        cmocka_unit_test(long_lines_agree_with_loops),
        cmocka_unit_test(wrong_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, add_code, NULL);
}

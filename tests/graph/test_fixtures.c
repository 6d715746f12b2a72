/* Every public operation against NumPy: the texts of fixtures.def, which tests/graph/fixtures.py
 * writes. Operands come in four layouts: as they are, and as views of memory in which they are
 * transposed, reversed, or every second element. Expressions are converted to f64 or i64 to be
 * compared; numbers of small dtypes are given so, too, and are exact. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_fixture.h"
#include "graph_private.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    const char *dtype, *shape, *text, *values; /* text: of an operand, its name */
    int32_t loose;
} fixture;
#define ARRAY(name, dtype, shape, values) {dtype, shape, name, values, 0},
#define CASE(dtype, loose, shape, text, values)
static const fixture arrays[] = {
#include "fixtures.def"
};
#undef ARRAY
#undef CASE
#define ARRAY(name, dtype, shape, values)
#define CASE(dtype, loose, shape, text, values) {dtype, shape, text, values, loose},
static const fixture cases[] = {
#include "fixtures.def"
};
enum { ARRAYS = sizeof arrays / sizeof *arrays, CASES = sizeof cases / sizeof *cases };
enum { BATCH = 64, ELEMENTS = 256, LAYOUTS = 4 };
#ifdef MUSTER_TEST_SANITIZED
enum { GPU_STRIDE = 5 }; /* of the cases, on simulated GPUs */
#else
enum { GPU_STRIDE = 1 };
#endif

/* ---- values ---- */

typedef struct numbers {
    muster_dtype dtype, wide; /* wide: f64 or i64 */
    int32_t ndim;
    int64_t shape[MUSTER_MAX_DIMS], count;
    union {
        double f64[ELEMENTS];
        int64_t i64[ELEMENTS];
    };
} numbers;

static muster_dtype dtype_of(const char *name) {
    for (muster_dtype dtype = MUSTER_DTYPE_NONE + 1; dtype < MST_DTYPE_COUNT; dtype++)
        if (strcmp(muster_dtype_name(dtype), name) == 0) return dtype;
    fail_msg("no dtype %s", name);
    return MUSTER_DTYPE_NONE;
}

static void read_numbers(const fixture *f, numbers *n) {
    char *end;
    *n = (numbers){.dtype = dtype_of(f->dtype), .count = 1};
    n->wide = mst_dtype_is_float(n->dtype) ? MUSTER_F64 : MUSTER_I64;
    for (const char *at = f->shape; *at; at = end + (*end == ' ')) n->count *= n->shape[n->ndim++] = strtoll(at, &end, 10);
    assert_true(n->count <= ELEMENTS);
    const char *at = f->values;
    for (int64_t i = 0; i < n->count; i++, at = end) {
        if (n->wide == MUSTER_F64)
            n->f64[i] = strtod(at, &end);
        else
            n->i64[i] = strtoll(at, &end, 10);
        if (end == at) fail_msg("%s: %lld values expected", f->text, (long long)n->count);
    }
    assert_true(*at == 0);
}

static bool agrees(const numbers *expected, const numbers *received, int64_t i, double error) {
    if (expected->wide == MUSTER_I64) return expected->i64[i] == received->i64[i];
    const double e = expected->f64[i], r = received->f64[i];
    if (isnan(e) || isnan(r)) return isnan(e) && isnan(r);
    return e == r || fabs(r - e) <= error * (1 + fabs(e));
}

static int32_t wrong;

/* Says the first wrong element of a case. */
static void compare(const fixture *f, const numbers *expected, const numbers *received, const char *layout) {
    static const double errors[MST_DTYPE_COUNT] = {[MUSTER_F16] = 2e-3, [MUSTER_BF16] = 1e-2, [MUSTER_F32] = 1e-6, [MUSTER_F64] = 1e-12};
    for (int64_t i = 0; i < expected->count; i++) {
        if (agrees(expected, received, i, f->loose * errors[expected->dtype])) continue;
        print_error("%s (%s, %s): element %lld: ", f->text, f->dtype, layout, (long long)i);
        if (expected->wide == MUSTER_F64)
            print_error("NumPy has %.17g, received %.17g\n", expected->f64[i], received->f64[i]);
        else
            print_error("NumPy has %lld, received %lld\n", (long long)expected->i64[i], (long long)received->i64[i]);
        wrong++;
        return;
    }
}

/* ---- layouts ---- */

static const char *const layout_names[LAYOUTS] = {"contiguous", "transposed", "reversed", "every second"};
enum { PLAIN, TRANSPOSED, REVERSED, SECOND };

/* Where element (index of all) lies in memory, and the shape of that memory. */
static void stored_shape(const numbers *n, int32_t layout, int64_t shape[MUSTER_MAX_DIMS]) {
    for (int32_t d = 0; d < n->ndim; d++) shape[d] = n->shape[layout == TRANSPOSED ? n->ndim - 1 - d : d];
    if (layout == SECOND && n->ndim) shape[n->ndim - 1] = 2 * shape[n->ndim - 1] + 1;
}

static void store(const numbers *n, int32_t layout, numbers *stored) {
    *stored = (numbers){.dtype = n->dtype, .wide = n->wide, .ndim = n->ndim, .count = 1};
    stored_shape(n, layout, stored->shape);
    for (int32_t d = 0; d < n->ndim; d++) stored->count *= stored->shape[d];
    assert_true(stored->count <= ELEMENTS);
    for (int64_t i = 0; i < n->count; i++) {
        int64_t index[MUSTER_MAX_DIMS], rest = i, place = 0;
        for (int32_t d = n->ndim - 1; d >= 0; d--) index[d] = rest % n->shape[d], rest /= n->shape[d];
        for (int32_t d = 0; d < n->ndim; d++) {
            const int32_t from = layout == TRANSPOSED ? n->ndim - 1 - d : d;
            int64_t at = index[from];
            if (layout == REVERSED) at = n->shape[d] - 1 - at;
            if (layout == SECOND && d == n->ndim - 1) at = 2 * at + 1;
            place = place * stored->shape[d] + at;
        }
        stored->i64[place] = n->i64[i]; /* the bits of either */
    }
}

static muster_expr *view(muster_graph *graph, muster_expr *x, const numbers *n, int32_t layout) {
    int64_t start[MUSTER_MAX_DIMS], stop[MUSTER_MAX_DIMS], step[MUSTER_MAX_DIMS];
    if (n->ndim == 0 || layout == PLAIN) return x;
    if (layout == TRANSPOSED) return APPLY(graph, "transpose", x);
    if (layout == REVERSED) return APPLY(graph, "flip", x);
    for (int32_t d = 0; d < n->ndim; d++) start[d] = stop[d] = MUSTER_NONE, step[d] = 1;
    start[n->ndim - 1] = 1;
    step[n->ndim - 1] = 2;
    return apply(graph, "slice", &x, 1,
                 ATTRIBUTES({.name = "start", .integers = start, .count = n->ndim}, {.name = "stop", .integers = stop, .count = n->ndim},
                            {.name = "step", .integers = step, .count = n->ndim}));
}

static muster_expr *cast(muster_graph *graph, muster_expr *x, muster_dtype dtype) {
    return apply(graph, "cast", &x, 1, ATTRIBUTES({.name = "dtype", .integer = dtype}));
}

/* ---- batches of cases, each one function ---- */

typedef struct batch {
    muster_graph *graph;
    int32_t layout;
    const char *names[ARRAYS];
    muster_expr *operands[ARRAYS];
    numbers stored[ARRAYS];
    int32_t operand_count;
    numbers expected[BATCH], received[BATCH];
} batch;

static int32_t uses[MST_OPERATORS];

/* The operands that the text names, and the operations that it calls. */
static void read_names(batch *b, const char *text) {
    for (const char *at = text; *at;) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
        if (!length) {
            at += *at == '\'' ? strcspn(at + 1, "'") + 2 : 1;
            continue;
        }
        char name[40];
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        const mst_operator *op = at[length] == '(' ? mst_operator_find(name) : NULL;
        if (op) uses[op->id]++;
        for (int32_t a = 0; !op && a < ARRAYS; a++) {
            bool known = strcmp(arrays[a].text, name) != 0;
            for (int32_t i = 0; !known && i < b->operand_count; i++) known = strcmp(b->names[i], name) == 0;
            if (known) continue;
            numbers n;
            read_numbers(&arrays[a], &n);
            numbers *stored = &b->stored[b->operand_count];
            store(&n, n.ndim ? b->layout : PLAIN, stored);
            muster_expr *in = muster_graph_input(b->graph, arrays[a].text, n.wide, n.ndim, stored->shape, MUSTER_BROADCAST);
            b->names[b->operand_count] = arrays[a].text;
            b->operands[b->operand_count++] = view(b->graph, cast(b->graph, in, n.dtype), &n, b->layout);
        }
        at += length;
    }
}

static muster_tensor tensor_of(numbers *n) { return muster_tensor_make(n->wide, n->i64, n->ndim, n->shape); }

static void add_case(batch *b, const fixture *f, int32_t at) {
    numbers *n = &b->expected[at];
    char name[16];
    read_numbers(f, n);
    read_names(b, f->text);
    muster_expr *made = muster_expr_parse_named(b->graph, f->text, b->names, b->operands, b->operand_count);
    if (muster_expr_ndim(made) < 0) fail_msg("%s: %s", f->text, muster_last_error());
    bool same = made->type.dtype == n->dtype && made->type.ndim == n->ndim;
    for (int32_t d = 0; same && d < n->ndim; d++) same = mst_dim_constant(made->graph, made->type.dims[d]) == n->shape[d];
    if (!same)
        fail_msg("%s: expected %s (%s), received %s %s", f->text, f->dtype, f->shape, muster_dtype_name(made->type.dtype),
                 muster_expr_shape(made));
    snprintf(name, sizeof name, "r%d", (int)at);
    assert_ok(muster_graph_output(b->graph, name, cast(b->graph, made, n->wide), MUSTER_AUTO));
    b->received[at] = *n;
    memset(b->received[at].i64, 0x55, sizeof b->received[at].i64);
}

static int32_t run_batch(muster_runtime *runtime, int32_t first, int32_t stride, int32_t layout) {
    static batch b;
    muster_tensor in[ARRAYS], out[BATCH];
    muster_function *function;
    muster_graph_options options;
    int32_t count = 0;
    b.operand_count = 0;
    b.layout = layout;
    assert_ok(muster_graph_create(runtime, "fixtures", &b.graph));
    for (int32_t i = first; i < CASES && count < BATCH; i += stride) add_case(&b, &cases[i], count++);
    muster_graph_options_init(&options);
    options.unfused = on_gpus(); /* the simulated machine compiles each group; test_random_graphs has some */
    assert_ok(muster_graph_compile(b.graph, &options, &function));
    assert_ok(muster_graph_destroy(b.graph));
    for (int32_t i = 0; i < b.operand_count; i++) in[i] = tensor_of(&b.stored[i]);
    for (int32_t i = 0; i < count; i++) out[i] = tensor_of(&b.received[i]);
    assert_ok(muster_function_call(function, in, b.operand_count, out, count, NULL));
    assert_ok(muster_function_destroy(function));
    for (int32_t i = 0; i < count; i++) compare(&cases[first + i * stride], &b.expected[i], &b.received[i], layout_names[layout]);
    return count;
}

static void results_are_those_of_numpy(void **state) {
    const bool all = !on_gpus() || test_is_full();
    const int32_t stride = all ? 1 : GPU_STRIDE;
    memset(uses, 0, sizeof uses);
    for (int32_t layout = 0; layout < LAYOUTS; layout++) {
        int32_t compared = 0;
        while (compared * stride < CASES) compared += run_batch(*state, compared * stride, stride, layout);
        assert_int_equal(compared, (CASES + stride - 1) / stride);
        assert_int_equal(wrong, 0);
    }
}

/* Every public operation is in a case but these. The numbers of the first ones are no function of
 * NumPy, and tests/graph/test_random.c has them; test_convolution.c and test_recurrent.c, with
 * PyTorch's numbers, have the others. */
static void every_public_operation_has_a_case(void **state) {
    static const char *const left_out[] = {"random_uniform",        "random_normal", "bernoulli", "dropout", "convolution",
                                           "convolution_transpose", "rnn",           "lstm",      "gru"};
    enum { LEFT_OUT = sizeof left_out / sizeof *left_out };
    int32_t covered = 0, public_count = 0;
    static batch b;
    (void)state;
    memset(uses, 0, sizeof uses);
    assert_ok(muster_graph_create(*state, "names", &b.graph));
    b.operand_count = 0;
    for (int32_t i = 0; i < CASES; i++) read_names(&b, cases[i].text);
    assert_ok(muster_graph_destroy(b.graph));
    for (int32_t id = 0; id < MST_OPERATORS; id++) {
        const mst_operator *op = mst_operators[id];
        bool out = false;
        if (op->flags & MST_OPERATOR_HIDDEN) continue;
        public_count++;
        covered += uses[id] > 0;
        for (int32_t i = 0; i < LEFT_OUT; i++) out |= strcmp(op->name, left_out[i]) == 0;
        if (!uses[id] && !out) fail_msg("%s is in no case", op->name);
    }
    assert_int_equal(covered, public_count - LEFT_OUT);
    assert_int_equal(b.operand_count, ARRAYS); /* and every operand is used */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_public_operation_has_a_case), cmocka_unit_test(results_are_those_of_numpy)};
    return cmocka_run_group_tests(tests, graph_open, graph_close);
}

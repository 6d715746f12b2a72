/* Groups that are written by hand, against plain loops in C; and the pairs of operations that have
 * one loop, against the two loops of the operations. */
#include "graph_fixture.h"
#include "tile_private.h"

#include <math.h>
#include <string.h>

/* ---- groups from texts ---- */

enum { MOST = 5000 };

typedef struct fixture {
    muster_graph *graph;
    mst_fused_group group;
    mst_arena memory;
} fixture;

static muster_runtime *runtime;

static void input(fixture *f, const char *name, muster_dtype dtype, int32_t ndim, const int64_t *shape) {
    f->group.operands[f->group.operand_count++] = muster_graph_input(f->graph, name, dtype, ndim, shape, MUSTER_BROADCAST);
}

static void begin(fixture *f) {
    *f = (fixture){.graph = NULL};
    assert_ok(muster_graph_create(runtime, "group", &f->graph));
}

/* All elementwise operations of the texts are members; each text is a result. */
static void texts(fixture *f, int32_t count, const char *const *all) {
    for (int32_t r = 0; r < count; r++) {
        const muster_expr *result = muster_expr_parse(f->graph, all[r]);
        assert_ok(muster_graph_status(f->graph));
        f->group.member_count = 0;
        for (int32_t id = 0; id < result->graph->node_count; id++)
            if (result->graph->nodes[id]->op && result->graph->nodes[id]->op->elementwise)
                f->group.members[f->group.member_count++] = result->graph->nodes[id];
        f->group.results[f->group.result_count++] = mst_group_find(&f->group, result);
    }
}

static mst_tile_program *make(fixture *f, const muster_tensor *in, muster_tensor *out) {
    const muster_tensor *operands[MST_GROUP_OPERANDS];
    muster_tensor *results[MST_GROUP_RESULTS];
    mst_tile_program *program;
    for (int32_t i = 0; i < f->group.operand_count; i++) operands[i] = &in[i];
    for (int32_t r = 0; r < f->group.result_count; r++) results[r] = &out[r];
    assert_ok(mst_tile_make(&f->memory, &f->group, operands, results, &program));
    return program;
}

static void end(fixture *f) {
    mst_arena_free(&f->memory);
    assert_ok(muster_graph_destroy(f->graph));
}

static double value(int64_t i, int64_t step) { return (double)(i * step % 97) / 8 - 6; } /* a float holds it, and products of two */

/* ---- sizes around those of a tile, and results in place ---- */

/* z = max(x * y + x, y) - x as two pairs; w = x * y is another result, or none. */
static void chain(int64_t n, int32_t place, bool wanted) {
    static double x[MOST], y[MOST], z[MOST + 1], w[MOST + 1];
    fixture f;
    const int64_t shape[] = {n};
    begin(&f);
    input(&f, "x", MUSTER_F64, 1, shape);
    input(&f, "y", MUSTER_F64, 1, shape);
    texts(&f, 2, (const char *const[]){"x * y", "maximum(x * y + x, y) - x"});
    double *const result = place == 1 ? x : place == 2 ? y : z;
    const muster_tensor in[] = {muster_f64(x, n), muster_f64(y, n)};
    muster_tensor out[] = {wanted ? muster_f64(w, n) : muster_tensor_none(), muster_f64(result, n)};
    for (int64_t i = 0; i < n; i++) x[i] = value(i, 7), y[i] = value(i, 31);
    z[n] = w[n] = w[0] = -99;
    const mst_tile_program *program = make(&f, in, out);
    assert_int_equal(program->instruction_count,
                     wanted ? 4 : 2); /* x * y, a pair, a subtraction, and a copy of x * y if it lies in x or y */
    const int64_t allocations = mst_memory_count();
    mst_tile_run(program);
    assert_int_equal(mst_memory_count(), allocations);
    for (int64_t i = 0; i < n; i++) {
        const double a = value(i, 7), b = value(i, 31), t = a * b + a;
        assert_true(result[i] == (t > b ? t : b) - a);
        if (wanted) assert_true(w[i] == a * b);
    }
    assert_true(z[n] == -99 && w[n] == -99 && (wanted || w[0] == -99));
    end(&f);
}

static void test_sizes(void **state) {
    static const int64_t sizes[] = {0, 1, 2, 511, 512, 513, 1023, 1024, 1025, 4999};
    int32_t cases = 0;
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int32_t place = 0; place < 3; place++)
            for (int32_t wanted = 0; wanted < 2; wanted++, cases++) chain(sizes[s], place, wanted);
    assert_int_equal(cases, 60);
}

/* The first result has the memory of an operand that the second one reads later. The tensors move
 * between two runs, after which nothing shares memory any more. */
static void test_hazard(void **state) {
    static float x[MOST], y[MOST], z[MOST], w[MOST];
    fixture f;
    const int64_t n = 3000;
    (void)state;
    begin(&f);
    input(&f, "x", MUSTER_F32, 1, &n);
    input(&f, "y", MUSTER_F32, 1, &n);
    texts(&f, 2, (const char *const[]){"exp(y)", "exp(exp(y) - 9) + x"});
    muster_tensor in[] = {muster_f32(x, n), muster_f32(y, n)}, out[] = {muster_f32(x, n), muster_f32(z, n)};
    const mst_tile_program *program = make(&f, in, out);
    assert_int_equal(program->hazard_count, 1);
    for (int32_t run = 0; run < 2; run++) {
        for (int64_t i = 0; i < n; i++) x[i] = (float)value(i, 7), y[i] = (float)value(i, 31) / 8;
        mst_tile_run(program);
        for (int64_t i = 0; i < n; i++) {
            const double expected = exp(value(i, 31) / 8);
            assert_true(fabs((run ? w : x)[i] - expected) <= 1e-6 * expected);
            assert_true(fabs(z[i] - (exp(expected - 9) + value(i, 7))) <= 1e-5);
            if (run) assert_true(x[i] == (float)value(i, 7));
        }
        out[0].data = w;
    }
    end(&f);
}

/* ---- rows ---- */

/* A bias for each column, a factor for each row, and a number for all, over rows of k columns. */
static void rows_of(int64_t n, int64_t k, bool transposed) {
    static int32_t x[MOST], bias[MOST], z[MOST];
    int32_t factor[MOST], shift = 5;
    fixture f;
    const int64_t matrix[] = {n, k}, column[] = {n, 1};
    begin(&f);
    input(&f, "x", MUSTER_I32, 2, matrix);
    input(&f, "bias", MUSTER_I32, 1, &k);
    input(&f, "factor", MUSTER_I32, 2, column);
    input(&f, "shift", MUSTER_I32, 0, NULL);
    texts(&f, 1, (const char *const[]){"(x + bias) * factor - shift * 3"});
    muster_tensor in[] = {muster_i32(x, n, k), muster_i32(bias, k), muster_i32(factor, n, 1), muster_i32(&shift)},
                  out = muster_i32(z, n, k);
    if (transposed) in[0].strides[0] = 1, in[0].strides[1] = n;
    for (int64_t i = 0; i < n * k; i++) x[i] = (int32_t)(i * 7 % 1000), z[i] = -1;
    for (int64_t i = 0; i < k; i++) bias[i] = (int32_t)i;
    for (int64_t i = 0; i < n; i++) factor[i] = (int32_t)(i % 100 - 50);
    const mst_tile_program *program = make(&f, in, &out);
    mst_tile_run(program);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) {
            const int32_t a = x[transposed ? j * n + i : i * k + j];
            assert_int_equal(z[i * k + j], (a + (int32_t)j) * (int32_t)(i % 100 - 50) - 15);
        }
    if (k > 1 && k <= MST_TILE_ROW && n > 1) assert_true(program->inside == k);
    end(&f);
}

static void test_rows(void **state) {
    static const int64_t columns[] = {1, 2, 3, 10, 100, 255, 256, 257, 1024, 1025};
    int32_t cases = 0;
    (void)state;
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
        for (int32_t transposed = 0; transposed < 2; transposed++)
            for (int64_t n = 1; n * columns[c] <= MOST; n = n * 3 + 1, cases++) rows_of(n, columns[c], transposed);
    assert_int_equal(cases, 90);
}

/* ---- registers and memory ---- */

/* A chain of 20 functions needs one register; each instruction computes in place. */
static void test_registers(void **state) {
    static float x[MOST], z[MOST];
    fixture f;
    const int64_t n = MOST;
    int32_t most = 0;
    (void)state;
    begin(&f);
    input(&f, "x", MUSTER_F32, 1, &n);
    texts(&f, 1,
          (const char *const[]){"sin(cos(sin(cos(sin(cos(sin(cos(sin(cos(sin(cos(sin(cos(sin(cos(sin(cos(sin(cos(x))))))))))))))))))))"});
    const muster_tensor in[] = {muster_f32(x, n)};
    muster_tensor out = muster_f32(z, n);
    const mst_tile_program *program = make(&f, in, &out);
    assert_int_equal(program->instruction_count, 20);
    for (int32_t i = 0; i < program->instruction_count; i++)
        for (int32_t k = 0; k < 2; k++)
            if (program->instructions[i].places[k] > most) most = program->instructions[i].places[k];
    assert_int_equal(most, program->tensor_count); /* the place behind the tensors, and no other */
    end(&f);
}

static void test_no_memory(void **state) {
    static float x[100], z[100];
    const int64_t n = 100;
    const muster_tensor tensor = muster_f32(x, n), *const in[] = {&tensor};
    muster_tensor result = muster_f32(z, n), *const out[] = {&result};
    mst_tile_program *program;
    fixture f;
    int32_t failures = 0;
    (void)state;
    begin(&f);
    input(&f, "x", MUSTER_F32, 1, &n);
    texts(&f, 1, (const char *const[]){"(exp(x) + 1) * x"});
    for (;; failures++) {
        const int64_t live = mst_memory_live();
        mst_memory_fail_at(failures + 1);
        const muster_status status = mst_tile_make(&f.memory, &f.group, in, out, &program);
        mst_memory_fail_at(0);
        mst_arena_free(&f.memory);
        assert_int_equal(mst_memory_live(), live);
        if (status == MUSTER_OK) break;
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
    }
    assert_true(failures >= 2);
    end(&f);
}

/* ---- pairs ---- */

static const struct {
    const mst_op_row *operation;
    int32_t op, operands;
} pair_operations[] = {{&mst_operation_binary, MUSTER_ADD, 2},     {&mst_operation_binary, MUSTER_SUB, 2},
                       {&mst_operation_binary, MUSTER_MUL, 2},     {&mst_operation_binary, MUSTER_MAXIMUM, 2},
                       {&mst_operation_binary, MUSTER_MINIMUM, 2}, {&mst_operation_unary, MUSTER_RELU, 1},
                       {&mst_operation_unary, MUSTER_ABS, 1},      {&mst_operation_unary, MUSTER_SQUARE, 1}};
enum { PAIR_OPERATIONS = sizeof pair_operations / sizeof *pair_operations, LONGEST = 70 };

/* Random values, of which the products are not exact, and special ones in all combinations. */
static void pair_fill(muster_dtype dtype, char operands[3][LONGEST * 8]) {
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-310, 1};
    static uint32_t state = 1;
    for (int32_t k = 0; k < 3; k++)
        for (int64_t i = 0; i < LONGEST; i++) {
            state = state * 1664525 + 1013904223;
            const double number = (double)(int32_t)state / 3e8, any = special[(state >> 8) % 7];
            mst_convert(dtype, operands[k] + i * muster_dtype_size(dtype), MUSTER_F64, i % 3 ? &number : &any, 1);
        }
}

static bool same_value(muster_dtype dtype, const char *a, const char *b) {
    double x, y;
    mst_convert(MUSTER_F64, &x, dtype, a, 1);
    mst_convert(MUSTER_F64, &y, dtype, b, 1);
    return memcmp(a, b, (size_t)muster_dtype_size(dtype)) == 0 || (isnan(x) && isnan(y));
}

static void pair_check(muster_dtype dtype, int32_t first, int32_t second, bool swapped, int64_t n, bool in_place) {
    const int64_t size = muster_dtype_size(dtype), stride[] = {size, size, size, size};
    char operands[3][LONGEST * 8], t[LONGEST * 8], expected[LONGEST * 8], *at[4];
    mst_op_loop loops[2];
    int32_t count = 0;
    pair_fill(dtype, operands);
    const mst_op_value values[] = {{.integer = pair_operations[first].op}, {.integer = pair_operations[second].op}};
    assert_ok(pair_operations[first].operation->loop(&dtype, &values[0], &loops[0]));
    assert_ok(pair_operations[second].operation->loop(&dtype, &values[1], &loops[1]));
    char *const of_first[] = {operands[0], pair_operations[first].operands == 2 ? operands[1] : t, t};
    char *const of_second[] = {swapped ? operands[2] : t,
                               pair_operations[second].operands == 1 ? expected
                               : swapped                             ? t
                                                                     : operands[2],
                               expected};
    loops[0].run(loops[0].context, of_first, stride, n);
    if (swapped && pair_operations[second].operands == 1) return;
    loops[1].run(loops[1].context, of_second, stride, n);
    const mst_iterator_loop pair = mst_op_pair(dtype, pair_operations[first].operation, pair_operations[first].op,
                                               pair_operations[second].operation, pair_operations[second].op, swapped);
    assert_non_null(pair);
    at[count++] = operands[0];
    if (pair_operations[first].operands == 2) at[count++] = operands[1];
    if (pair_operations[second].operands == 2) at[count++] = operands[2];
    at[count] = in_place ? at[count - 1] : t;
    memset(t, 0, sizeof t);
    pair(NULL, at, stride, n);
    for (int64_t i = 0; i < n; i++)
        if (!same_value(dtype, at[count] + i * size, expected + i * size))
            fail_msg("%s: pair of %d and %d%s, element %d of %d", muster_dtype_name(dtype), (int)first, (int)second,
                     swapped ? " (swapped)" : "", (int)i, (int)n);
}

static void test_pairs(void **state) {
    static const int64_t sizes[] = {0, 1, 7, 8, 16, 17, 31, 33, 64, LONGEST};
    int32_t cases = 0;
    (void)state;
    for (int32_t first = 0; first < PAIR_OPERATIONS; first++)
        for (int32_t second = 0; second < PAIR_OPERATIONS; second++)
            for (int32_t swapped = 0; swapped < 2; swapped++)
                for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                    for (int32_t in_place = 0; in_place < 2; in_place++, cases++) {
                        pair_check(MUSTER_F32, first, second, swapped, sizes[s], in_place);
                        pair_check(MUSTER_F64, first, second, swapped, sizes[s], in_place);
                    }
    assert_int_equal(cases, 8 * 8 * 2 * 10 * 2);
    assert_null(mst_op_pair(MUSTER_F16, &mst_operation_binary, MUSTER_ADD, &mst_operation_binary, MUSTER_ADD, false));
    assert_null(mst_op_pair(MUSTER_F32, &mst_operation_binary, MUSTER_DIV, &mst_operation_binary, MUSTER_ADD, false));
    assert_null(mst_op_pair(MUSTER_F32, &mst_operation_binary, MUSTER_ADD, &mst_operation_unary, MUSTER_EXP, false));
}

static int open_runtime(void **state) {
    (void)state;
    runtime = graph_runtime("host:1");
    return 0;
}
static int close_runtime(void **state) {
    (void)state;
    assert_ok(muster_runtime_close(runtime));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),     cmocka_unit_test(test_hazard),    cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_registers), cmocka_unit_test(test_no_memory), cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests(tests, open_runtime, close_runtime);
}

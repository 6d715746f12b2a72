/* Initial values: each kind against numbers made from muster_philox4x32, its moments, the same bits
 * on every number and kind of devices and along every split, orthogonality, and refusals. */
#include "base_check.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "device_impl.h"
#include "muster/initialiser.h"
#include "variable_impl.h"

#include <math.h>
#include <stdlib.h>

static const char *const machines[] = {"host:1", "host:2", "host:3", "host:4", "host:8", "discrete:1", "discrete:3", "host:1,discrete:2"};
enum { MACHINES = sizeof machines / sizeof *machines, KINDS = 9, SEED = 1234, ROOM = 4096 };

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_variable *create(muster_runtime *runtime, muster_dtype dtype, int32_t ndim, const int64_t *shape) {
    muster_tensor zeros = muster_tensor_make(dtype, NULL, ndim, shape);
    void *memory = calloc((size_t)muster_tensor_count(zeros) + 1, 8);
    muster_variable *made;
    assert_non_null(memory);
    zeros = muster_tensor_make(dtype, memory, ndim, shape);
    assert_ok(muster_variable_create(runtime, "v", zeros, &made));
    free(memory);
    return made;
}

static muster_initialiser_options options_of(muster_initialiser kind, uint64_t seed) {
    muster_initialiser_options options;
    muster_initialiser_options_init(&options);
    options.kind = kind;
    options.seed = seed;
    return options;
}

/* The uniform number i of the stream, by the definition in muster/ops.h. */
static double uniform_at(muster_dtype dtype, uint64_t seed, uint64_t i) {
    const uint64_t block = dtype == MUSTER_F64 ? i / 2 : i / 4;
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    muster_philox4x32(counter, key, out);
    if (dtype != MUSTER_F64) return ldexp((double)(out[i % 4] >> 8), -24);
    return ldexp((double)(((uint64_t)out[2 * (i % 2) + 1] << 32 | out[2 * (i % 2)]) >> 11), -53);
}

static double normal_at(muster_dtype dtype, uint64_t seed, uint64_t i) {
    const double u = uniform_at(dtype, seed, i & ~(uint64_t)1), v = uniform_at(dtype, seed, i | 1), angle = 6.283185307179586 * v;
    return sqrt(-2 * log(1 - u)) * (i % 2 ? sin(angle) : cos(angle));
}

/* ---- each kind by its formula ---- */

typedef struct formula {
    muster_initialiser kind;
    double low, high; /* of the uniform ones */
    double deviation; /* of the normal ones; 0: uniform */
} formula;

/* The shape (6, 10): 6 inputs and 10 outputs. Gain 3, low -2, high 5, mean 0, deviation .5. */
static const formula matrix_formulas[] = {
    {MUSTER_INITIALISER_UNIFORM, -2, 5, 0},
    {MUSTER_INITIALISER_NORMAL, 0, 0, .5},
    {MUSTER_INITIALISER_GLOROT_UNIFORM, -1.8371173070873836, 1.8371173070873836, 0}, /* 3 sqrt(6 / 16) */
    {MUSTER_INITIALISER_GLOROT_NORMAL, 0, 0, 1.0606601717798212},                    /* 3 sqrt(2 / 16) */
    {MUSTER_INITIALISER_HE_UNIFORM, -3, 3, 0},                                       /* 3 sqrt(6 / 6) */
    {MUSTER_INITIALISER_HE_NORMAL, 0, 0, 1.7320508075688772}};                       /* 3 sqrt(2 / 6) */
/* (8, 3, 2, 5): a convolution of 3 channels to 8, fan_in 30, fan_out 80. */
static const formula kernel_formulas[] = {
    {MUSTER_INITIALISER_GLOROT_UNIFORM, -.7006490497453707, .7006490497453707, 0}, /* 3 sqrt(6 / 110) */
    {MUSTER_INITIALISER_HE_NORMAL, 0, 0, .7745966692414834}};                      /* 3 sqrt(2 / 30) */

static void check_formula(muster_runtime *runtime, const formula *f, muster_dtype dtype, int32_t ndim, const int64_t *shape,
                          int32_t in_axis, int32_t out_axis) {
    double got64[240];
    float got32[240];
    muster_variable *v = create(runtime, dtype, ndim, shape);
    muster_initialiser_options options = options_of(f->kind, SEED);
    options.gain = 3;
    options.low = -2;
    options.high = 5;
    options.deviation = .5;
    options.in_axis = in_axis;
    options.out_axis = out_axis;
    assert_ok(muster_variable_initialise(v, &options));
    const muster_tensor to = muster_tensor_make(dtype, dtype == MUSTER_F64 ? (void *)got64 : got32, ndim, shape);
    assert_ok(muster_variable_get_whole(v, to));
    for (int64_t i = 0; i < muster_tensor_count(to); i++) {
        const double expected = f->deviation > 0 ? f->deviation * normal_at(dtype, SEED, (uint64_t)i)
                                                 : f->low + (f->high - f->low) * uniform_at(dtype, SEED, (uint64_t)i);
        const double got = dtype == MUSTER_F64 ? got64[i] : (double)got32[i];
        if (!(fabs(got - expected) <= (dtype == MUSTER_F64 ? 1e-12 : 2e-6)))
            fail_msg("kind %d, element %d: expected %.17g, received %.17g", (int)f->kind, (int)i, expected, got);
    }
    assert_ok(muster_variable_destroy(v));
}

static void each_kind_has_its_formula(void **state) {
    (void)state;
    const int64_t matrix[] = {6, 10}, turned[] = {10, 6}, kernel[] = {8, 3, 2, 5}, last[] = {2, 5, 3, 8};
    muster_runtime *runtime = open_text("host:2");
    int cases = 0;
    for (muster_dtype dtype = MUSTER_F32; dtype != 0; dtype = dtype == MUSTER_F32 ? MUSTER_F64 : 0) {
        for (size_t i = 0; i < sizeof matrix_formulas / sizeof *matrix_formulas; i++, cases += 2) {
            check_formula(runtime, &matrix_formulas[i], dtype, 2, matrix, 0, 0);
            check_formula(runtime, &matrix_formulas[i], dtype, 2, turned, 1, 0); /* as PyTorch has layers */
        }
        for (size_t i = 0; i < sizeof kernel_formulas / sizeof *kernel_formulas; i++, cases += 2) {
            check_formula(runtime, &kernel_formulas[i], dtype, 4, kernel, 0, 0);
            check_formula(runtime, &kernel_formulas[i], dtype, 4, last, 2, 3); /* as JAX has convolutions */
        }
    }
    assert_int_equal(cases, 32);
    assert_ok(muster_runtime_close(runtime));
}

/* The probability below a truncated number is that of its uniform number. */
static void a_truncated_number_inverts_the_distribution(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    muster_variable *v = create(runtime, MUSTER_F64, 1, (const int64_t[]){ROOM});
    muster_initialiser_options options = options_of(MUSTER_INITIALISER_TRUNCATED_NORMAL, SEED);
    static double got[ROOM];
    options.mean = 3;
    options.deviation = 2;
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get_whole(v, muster_f64(got, ROOM)));
    const double cut = .5 * erfc(sqrt(2));
    for (int i = 0; i < ROOM; i++) {
        const double z = (got[i] - 3) / 2, below = .5 * erfc(-z / sqrt(2)), u = uniform_at(MUSTER_F64, SEED, (uint64_t)i);
        assert_true(z >= -2 && z <= 2);
        assert_true(fabs(below - (cut + u * (1 - 2 * cut))) < 1e-14);
    }
    assert_ok(muster_runtime_close(runtime));
}

/* ---- moments ---- */

static void numbers_have_their_moments(void **state) {
    (void)state;
    enum { N = 200000 };
    const struct {
        muster_initialiser kind;
        double mean, deviation, fourth; /* fourth: E (x - mean)^4 / deviation^4 */
    } known[] = {{MUSTER_INITIALISER_UNIFORM, .5, .28867513459481287, 1.8},
                 {MUSTER_INITIALISER_NORMAL, 0, 1, 3},
                 {MUSTER_INITIALISER_TRUNCATED_NORMAL, 0, .87962566103423978, 2.3655}};
    const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64};
    muster_runtime *runtime = open_text("host:2");
    int cases = 0;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        for (int d = 0; d < 2; d++, cases++) {
            muster_variable *v = create(runtime, dtypes[d], 1, (const int64_t[]){N});
            const muster_initialiser_options options = options_of(known[k].kind, 77);
            double *got = calloc(N, sizeof *got), mean = 0, second = 0, fourth = 0;
            assert_non_null(got);
            assert_ok(muster_variable_initialise(v, &options));
            assert_ok(muster_variable_get_whole(v, muster_tensor_make(dtypes[d], got, 1, (const int64_t[]){N})));
            for (int i = N - 1; i >= 0 && d == 0; i--) got[i] = ((const float *)(const void *)got)[i];
            for (int i = 0; i < N; i++) mean += got[i] / N;
            for (int i = 0; i < N; i++) {
                const double x = (got[i] - mean) * (got[i] - mean);
                second += x / N;
                fourth += x * x / N;
            }
            assert_true(fabs(mean - known[k].mean) < .01);
            assert_true(fabs(sqrt(second) / known[k].deviation - 1) < .01);
            assert_true(fabs(fourth / (second * second) - known[k].fourth) < .05);
            free(got);
            assert_ok(muster_variable_destroy(v));
        }
    }
    assert_int_equal(cases, 6);
    assert_ok(muster_runtime_close(runtime));
}

/* ---- the same bits everywhere ---- */

/* Initialises on the machine, and copies every replica or the whole value. */
static int draw_on(const char *machine, muster_dtype dtype, const int64_t shape[3], int32_t axis, char *to) {
    muster_runtime *runtime = open_text(machine);
    muster_variable *v = create(runtime, dtype, 3, shape);
    const muster_tensor all = muster_tensor_make(dtype, to, 3, shape);
    const int64_t bytes = muster_tensor_bytes(all);
    if (axis >= 0) assert_ok(muster_variable_split(v, axis));
    for (muster_initialiser kind = 0; kind < KINDS; kind++) {
        muster_initialiser_options options = options_of(kind, 99);
        char other[ROOM];
        options.value = 2.5;
        assert_ok(muster_variable_initialise(v, &options));
        assert_ok(muster_variable_get_whole(v, muster_tensor_make(dtype, to + kind * bytes, 3, shape)));
        for (int32_t r = 0; r < muster_runtime_size(runtime) && axis < 0; r++) {
            assert_ok(muster_variable_get(v, r, muster_tensor_make(dtype, other, 3, shape)));
            assert_memory_equal(other, to + kind * bytes, (size_t)bytes);
        }
        assert_int_equal(muster_variable_split_axis(v), axis);
    }
    assert_ok(muster_runtime_close(runtime));
    return KINDS;
}

static void the_bits_depend_on_no_devices(void **state) {
    (void)state;
    static _Alignas(8) char expected[KINDS * ROOM], got[KINDS * ROOM];
    const int64_t shape[] = {5, 7, 3};
    const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_F16, MUSTER_BF16};
    int cases = 0;
    for (int d = 0; d < 4; d++) {
        const size_t bytes = (size_t)(KINDS * 105 * muster_dtype_size(dtypes[d]));
        draw_on("host:1", dtypes[d], shape, -1, expected);
        for (int a = 0; a < KINDS; a++) /* different kinds, different numbers */
            for (int b = 0; b < a; b++)
                assert_memory_not_equal(expected + a * (int)(bytes / KINDS), expected + b * (int)(bytes / KINDS), bytes / KINDS);
        for (int m = 0; m < MACHINES; m++) {
            for (int32_t axis = -1; axis < 3; axis++) {
                memset(got, 0xCD, bytes);
                cases += draw_on(machines[m], dtypes[d], shape, axis, got);
                assert_memory_equal(got, expected, bytes);
            }
        }
    }
    assert_int_equal(cases, 4 * MACHINES * 4 * KINDS);
    assert_int_equal(mst_discrete_live(), 0);
}

/* ---- orthogonal matrices ---- */

/* Q'Q = 1 (QQ' = 1 where there are fewer rows), and R = Q'G is upper triangular with a positive
 * diagonal, G the matrix of normal numbers: that Q is the only one. */
static void check_orthogonal(muster_runtime *runtime, int64_t rows, int64_t columns) {
    const int64_t m = rows > columns ? rows : columns, n = rows > columns ? columns : rows;
    double *q = calloc((size_t)(m * n) + 1, sizeof *q);
    const int64_t shape[] = {rows, columns};
    muster_variable *v = create(runtime, MUSTER_F64, 2, shape);
    muster_initialiser_options options = options_of(MUSTER_INITIALISER_ORTHOGONAL, 5);
    options.gain = 2;
    assert_non_null(q);
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get_whole(v, muster_f64(q, rows, columns)));
#define AT(i, j) (rows >= columns ? (i)*columns + (j) : (j)*columns + (i))
    for (int64_t a = 0; a < n; a++) {
        for (int64_t b = 0; b < n; b++) {
            double dot = 0, r = 0;
            for (int64_t i = 0; i < m; i++) {
                dot += q[AT(i, a)] / 2 * q[AT(i, b)] / 2;
                r += q[AT(i, a)] / 2 * normal_at(MUSTER_F64, 5, (uint64_t)(AT(i, b)));
            }
            assert_true(fabs(dot - (a == b)) < 1e-13 * (double)(m + 10));
            if (a == b) assert_true(r > 0);
            if (a > b) assert_true(fabs(r) < 1e-12 * (double)(m + 10));
        }
    }
#undef AT
    free(q);
    assert_ok(muster_variable_destroy(v));
}

/* The matrix as it is made with this BLAS. NULL: the default one. */
static double *orthogonal_by(const char *blas, const int64_t shape[2], bool *lapack) {
    const muster_initialiser_options options = options_of(MUSTER_INITIALISER_ORTHOGONAL, 5);
    double *q = calloc((size_t)(shape[0] * shape[1]), sizeof *q);
    assert_non_null(q);
    if (blas) setenv("MUSTER_BLAS", blas, 1);
    muster_runtime *runtime = open_text("host:2");
    muster_variable *v = create(runtime, MUSTER_F64, 2, shape);
    assert_ok(mst_blas_use());
    *lapack = mst_blas_get()->dgeqrf != NULL;
    mst_blas_close();
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get_whole(v, muster_f64(q, shape[0], shape[1])));
    assert_ok(muster_runtime_close(runtime));
    unsetenv("MUSTER_BLAS");
    return q;
}

/* Both make the same matrix up to rounding, and other bits: so each is used. */
static void lapack_and_own_loops_agree(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1, 1}, {9, 9}, {17, 16}, {16, 17}, {200, 150}, {150, 200}, {3, 400}};
    int cases = 0, different = 0;
    bool lapack, none;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++, cases++) {
        double *a = orthogonal_by(NULL, shapes[s], &lapack), *b = orthogonal_by("none", shapes[s], &none);
        double worst = 0;
        for (int64_t i = 0; i < shapes[s][0] * shapes[s][1]; i++) worst = fmax(worst, fabs(a[i] - b[i]));
        assert_false(none);
        assert_true(worst < 1e-11);
        different += worst > 0;
        free(a);
        free(b);
    }
    assert_int_equal(cases, 7);
    if (!lapack) SKIP("no LAPACK in the BLAS of this machine");
    assert_true(different >= 5);
}

static void orthogonal_matrices_are_orthogonal(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1, 1},   {1, 5},   {5, 1},  {2, 2},  {7, 7},   {8, 8},  {9, 9},
                                 {17, 16}, {16, 17}, {40, 3}, {3, 40}, {65, 64}, {50, 80}};
    const int64_t kernel[] = {4, 3, 2}, none[] = {0, 3};
    const muster_initialiser_options options = options_of(MUSTER_INITIALISER_ORTHOGONAL, 5);
    muster_runtime *runtime = open_text("host:2");
    float as_matrix[24], got[24];
    int cases = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++, cases++) check_orthogonal(runtime, shapes[s][0], shapes[s][1]);
    muster_variable *v = create(runtime, MUSTER_F32, 3, kernel);
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get(v, 0, muster_f32(got, 4, 3, 2)));
    assert_ok(muster_variable_destroy(v));
    v = create(runtime, MUSTER_F32, 2, (const int64_t[]){4, 6});
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get(v, 0, muster_f32(as_matrix, 4, 6)));
    assert_memory_equal(got, as_matrix, sizeof got);
    assert_ok(muster_variable_destroy(v));
    v = create(runtime, MUSTER_F32, 2, none);
    for (muster_initialiser kind = 0; kind < KINDS; kind++) {
        const muster_initialiser_options any = options_of(kind, 0);
        assert_ok(muster_variable_initialise(v, &any));
    }
    assert_ok(muster_runtime_close(runtime));
    setenv("MUSTER_BLAS", "none", 1); /* by Muster's own loops */
    runtime = open_text("host:1");
    assert_null(mst_blas_get()->dgeqrf);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++, cases++) check_orthogonal(runtime, shapes[s][0], shapes[s][1]);
    assert_int_equal(cases, 2 * 13);
    unsetenv("MUSTER_BLAS");
    assert_ok(muster_runtime_close(runtime));
}

/* ---- defaults and refusals ---- */

static void defaults_and_every_dtype_of_a_constant(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    int64_t integers[3] = {9, 9, 9};
    float numbers[3] = {9, 9, 9}, same[3];
    muster_variable *v = create(runtime, MUSTER_I64, 1, (const int64_t[]){3});
    muster_initialiser_options options = options_of(MUSTER_INITIALISER_CONSTANT, 0);
    options.value = -4;
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get(v, 1, muster_i64(integers, 3)));
    for (int i = 0; i < 3; i++) assert_int_equal(integers[i], -4);
    assert_ok(muster_variable_initialise(v, NULL));
    assert_ok(muster_variable_get(v, 1, muster_i64(integers, 3)));
    for (int i = 0; i < 3; i++) assert_int_equal(integers[i], 0);
    options.kind = MUSTER_INITIALISER_NORMAL;
    assert_refused(muster_variable_initialise(v, &options), MUSTER_UNSUPPORTED,
                   "muster_variable_initialise: variable 'v': expected a float dtype for random numbers, received i64");
    assert_ok(muster_variable_destroy(v));
    v = create(runtime, MUSTER_F32, 1, (const int64_t[]){3});
    options.mean = 6;
    options.deviation = -1; /* 0 */
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get(v, 1, muster_f32(numbers, 3)));
    for (int i = 0; i < 3; i++) assert_true(numbers[i] == 6);
    options.kind = MUSTER_INITIALISER_UNIFORM;
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get(v, 1, muster_f32(numbers, 3)));
    options.seed = 1;
    assert_ok(muster_variable_initialise(v, &options));
    assert_ok(muster_variable_get(v, 1, muster_f32(same, 3)));
    assert_memory_not_equal(numbers, same, sizeof same);
    for (int i = 0; i < 3; i++) assert_true((double)numbers[i] == uniform_at(MUSTER_F32, 0, (uint64_t)i));
    options.kind = MUSTER_INITIALISER_HE_NORMAL;
    assert_refused(muster_variable_initialise(v, &options), MUSTER_SHAPE_MISMATCH,
                   "expected at least 2 dimensions for this kind, received 1");
    assert_ok(muster_runtime_close(runtime));
}

static void refuse(muster_variable *v, muster_status status, const char *text, muster_initialiser_options options) {
    options.struct_size = sizeof options;
    assert_refused(muster_variable_initialise(v, &options), status, text);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    muster_variable *v = create(runtime, MUSTER_F32, 2, (const int64_t[]){2, 3});
    float got[6];
    refuse(v, MUSTER_INVALID_ARGUMENT, "muster_variable_initialise: options: kind: expected a muster_initialiser, received 9",
           (muster_initialiser_options){.kind = 9});
    refuse(v, MUSTER_INVALID_ARGUMENT, "kind: expected a muster_initialiser, received -1", (muster_initialiser_options){.kind = -1});
    refuse(v, MUSTER_INVALID_ARGUMENT, "reserved: expected 0, received 1", (muster_initialiser_options){.reserved = 1});
    refuse(v, MUSTER_INVALID_ARGUMENT, "high: expected a finite number that is not below low",
           (muster_initialiser_options){.kind = MUSTER_INITIALISER_UNIFORM, .low = 2, .high = 1});
    refuse(v, MUSTER_INVALID_ARGUMENT, "low", (muster_initialiser_options){.kind = MUSTER_INITIALISER_UNIFORM, .low = -INFINITY});
    refuse(v, MUSTER_INVALID_ARGUMENT, "high",
           (muster_initialiser_options){.kind = MUSTER_INITIALISER_UNIFORM, .low = -1e308, .high = 1e308});
    refuse(v, MUSTER_INVALID_ARGUMENT, "mean", (muster_initialiser_options){.kind = MUSTER_INITIALISER_NORMAL, .mean = NAN});
    refuse(v, MUSTER_INVALID_ARGUMENT, "deviation", (muster_initialiser_options){.kind = MUSTER_INITIALISER_NORMAL, .deviation = NAN});
    refuse(v, MUSTER_INVALID_ARGUMENT, "gain", (muster_initialiser_options){.kind = MUSTER_INITIALISER_HE_NORMAL, .gain = -1});
    refuse(v, MUSTER_OUT_OF_RANGE, "in_axis: variable 'v': expected 0 to 1, received 2",
           (muster_initialiser_options){.kind = MUSTER_INITIALISER_HE_NORMAL, .in_axis = 2});
    refuse(v, MUSTER_OUT_OF_RANGE, "out_axis: variable 'v': expected 0 to 1, received -1",
           (muster_initialiser_options){.kind = MUSTER_INITIALISER_HE_NORMAL, .out_axis = -1});
    refuse(v, MUSTER_INVALID_ARGUMENT, "out_axis: expected another axis than in_axis, received 1 for both",
           (muster_initialiser_options){.kind = MUSTER_INITIALISER_HE_NORMAL, .in_axis = 1, .out_axis = 1});
    assert_ok(muster_variable_get(v, 0, muster_f32(got, 2, 3)));
    for (int i = 0; i < 6; i++) assert_true(got[i] == 0);
    assert_ok(muster_variable_set(v, 1, muster_f32(got, 3, 2)));
    refuse(v, MUSTER_SHAPE_MISMATCH, "variable 'v': rank 1 has shape (3, 2), rank 0 has (2, 3)", (muster_initialiser_options){.value = 1});
    assert_ok(muster_runtime_close(runtime));
}

static void failing_allocations_change_nothing(void **state) {
    (void)state;
    const char *const few[] = {"host:3", "discrete:3"};
    for (int c = 0; c < 4; c++) {
        const muster_initialiser_options options = options_of(c / 2 ? MUSTER_INITIALISER_ORTHOGONAL : MUSTER_INITIALISER_NORMAL, 3);
        bool done = false;
        for (int64_t k = 1; !done; k++) {
            muster_runtime *runtime = open_text(few[c % 2]);
            muster_variable *v = create(runtime, MUSTER_F32, 2, (const int64_t[]){5, 4});
            float got[20];
            assert_ok(muster_variable_split(v, 1));
            mst_memory_fail_at(k);
            const int64_t before = mst_memory_count();
            const muster_status status = muster_variable_initialise(v, &options);
            done = mst_memory_count() - before < k;
            mst_memory_fail_at(0);
            assert_true(done || status == MUSTER_OUT_OF_MEMORY);
            assert_ok(muster_variable_get_whole(v, muster_f32(got, 5, 4)));
            for (int i = 0; i < 20; i++) assert_true((got[i] == 0) == (status != MUSTER_OK));
            assert_ok(muster_runtime_close(runtime));
        }
    }
    assert_int_equal(mst_discrete_live(), 0);
}

static int setup(void **state) {
    (void)state;
    return mst_discrete_register();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_formula),
        cmocka_unit_test(a_truncated_number_inverts_the_distribution),
        cmocka_unit_test(numbers_have_their_moments),
        cmocka_unit_test(the_bits_depend_on_no_devices),
        cmocka_unit_test(orthogonal_matrices_are_orthogonal),
        cmocka_unit_test(lapack_and_own_loops_agree),
        cmocka_unit_test(defaults_and_every_dtype_of_a_constant),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(failing_allocations_change_nothing),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

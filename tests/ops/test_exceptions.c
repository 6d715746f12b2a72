/* Elementwise operations raise neither FE_INVALID nor FE_DIVBYZERO where operands and results are
 * finite: a program may trap them (feenableexcept). In f32, f64, f16 and bf16, of one element and
 * of as many as fill vectors. */
#include "base_check.h"
#include "base_machine.h"
#include "base_skip.h"
#include "dtype_impl.h"
#include "ops_fixture.h"

#include <fenv.h>
#include <math.h>

enum { MOST = 67, UNARY = 35, BINARY = 12 };

static const double values[] = {0,    -0.0, 1,    -1, 0.5, 2,   -2,   3,   1e-3, 0x1p-149, -0x1p-140, 0x1p-126, 7.5,
                                -7.5, 15,   15.5, 20, -20, 100, -100, 700, 6e4,  -6e4,     1e10,      -1e10,    3e30};
enum { VALUES = sizeof values / sizeof *values };
static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_F16, MUSTER_BF16};

typedef struct counts {
    int unary, binary; /* cases with finite results */
} counts;

/* Every element is `value`, as the dtype holds it; what it holds. */
static double fill(muster_dtype dtype, void *at, int count, double value) {
    double held;
    for (int i = 0; i < count; i++) mst_convert(dtype, (char *)at + i * muster_dtype_size(dtype), MUSTER_F64, &value, 1);
    mst_convert(MUSTER_F64, &held, dtype, at, 1);
    return held;
}

static bool is_finite(muster_dtype dtype, const void *at, int count) {
    double held;
    for (int i = 0; i < count; i++) {
        mst_convert(MUSTER_F64, &held, dtype, (const char *)at + i * muster_dtype_size(dtype), 1);
        if (!isfinite(held)) return false;
    }
    return true;
}

static muster_tensor tensor_of(muster_dtype dtype, void *at, int64_t count) { return muster_tensor_make(dtype, at, 1, &count); }

static void check(const char *kind, int op, muster_dtype dtype, double x, double y, int count) {
    const int raised = fetestexcept(FE_INVALID | FE_DIVBYZERO);
    if (raised)
        fail_msg("%s %d of %d %s: %a and %a raise%s%s", kind, op, count, muster_dtype_name(dtype), x, y,
                 raised & FE_INVALID ? " FE_INVALID" : "", raised & FE_DIVBYZERO ? " FE_DIVBYZERO" : "");
}

static void check_unary(muster_worker *w, counts *done, muster_dtype dtype, double value, int count) {
    double x[MOST], y[MOST];
    const double held = fill(dtype, x, count, value);
    if (!isfinite(held)) return;
    for (int op = 1; op <= UNARY; op++) {
        if (op == MUSTER_BITWISE_NOT) continue;
        feclearexcept(FE_ALL_EXCEPT);
        assert_ok(muster_unary_op(w, op, tensor_of(dtype, x, count), tensor_of(dtype, y, count)));
        const int raised = fetestexcept(FE_INVALID | FE_DIVBYZERO);
        if (!is_finite(dtype, y, count)) continue;
        feclearexcept(FE_ALL_EXCEPT);
        feraiseexcept(raised);
        check("unary", op, dtype, held, 0, count);
        done->unary++;
    }
}

static void check_binary(muster_worker *w, counts *done, muster_dtype dtype, double first, double second, int count) {
    double x[MOST], y[MOST], z[MOST];
    const double a = fill(dtype, x, count, first), b = fill(dtype, y, count, second);
    if (!isfinite(a) || !isfinite(b)) return;
    for (int op = 1; op <= BINARY; op++) {
        feclearexcept(FE_ALL_EXCEPT);
        assert_ok(muster_binary_op(w, op, tensor_of(dtype, x, count), tensor_of(dtype, y, count), tensor_of(dtype, z, count)));
        const int raised = fetestexcept(FE_INVALID | FE_DIVBYZERO);
        if (!is_finite(dtype, z, count)) continue;
        feclearexcept(FE_ALL_EXCEPT);
        feraiseexcept(raised);
        check("binary", op, dtype, a, b, count);
        done->binary++;
    }
}

static muster_status check_all(muster_worker *w, void *argument) {
    counts *done = argument;
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < VALUES; i++)
            for (int count = 1; count <= MOST; count += MOST - 1) {
                check_unary(w, done, dtypes[d], values[i], count);
                for (int j = 0; j < VALUES; j++) check_binary(w, done, dtypes[d], values[i], values[j], count);
            }
    return MUSTER_OK;
}

static void finite_operands_with_finite_results_raise_nothing(void **state) {
    (void)state;
    counts done = {0};
    if (on_gpus()) SKIP("not on GPUs: kernels raise no exceptions in the program");
    assert_ok(ops_run_on("host", check_all, &done));
    assert_true(done.unary > 5000 && done.binary > 30000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(finite_operands_with_finite_results_raise_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

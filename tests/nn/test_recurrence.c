/* Recurrences along the rows of a matrix against a loop in f64 or 64-bit integers, on CPU cores
 * and by device code: lengths on both sides of the bounds of its chunks, rows that lie behind
 * each other and beside each other, with sums and without. */
#include "base_check.h"
#include "base_machine.h"
#include "device_discrete.h"
#include "nn_impl.h"
#include "ops_fixture.h"
#include "recurrence/recurrence_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64, MUSTER_I64, MUSTER_U64};
static const int64_t lengths[] = {0, 1, 2, 63, 64, 65, 128, 129, 990, 4097};
static const int64_t counts[] = {1, 7, 33};
enum { DTYPES = 4, LENGTHS = 10, COUNTS = 3 };
/* SMALL: the results are small integers. RANGE: they are in the range of f64, but the products of
 * chunks of device code are not. */
typedef enum values { SMALL, RANGE, VALUES } values;

static double a_values[OPS_STORAGE], b_values[OPS_STORAGE];
static int64_t compared;

static double a_value(values kind, int64_t j) {
    if (kind == SMALL) return ops_random(9) ? (double)ops_random(2) * 2 - 1 : 0;
    if (j == 5) return 1e-250;
    if (j == 70 || j == 71) return -1e200;
    return j == 135 || j == 136 ? 1e-200 : j % 7 == 3 ? -1 : 1;
}

static void *element(muster_tensor x, int64_t row, int64_t j) {
    return (char *)muster_tensor_address(x) + (row * x.strides[0] + j * x.strides[1]) * muster_dtype_size(x.dtype);
}

static ops_pair matrix(muster_worker *worker, muster_dtype dtype, int64_t rows, int64_t length, bool beside, const double *from) {
    ops_pair x = ops_make(worker, dtype, rows * length);
    x.host = muster_tensor_make(dtype, x.host_storage.data, 2, (const int64_t[]){rows, length});
    if (beside) x.host.strides[0] = 1, x.host.strides[1] = rows;
    for (int64_t r = 0; from && r < rows; r++)
        for (int64_t j = 0; j < length; j++) {
            void *at = element(x.host, r, j);
            const double value = from[r * length + j];
            if (dtype == MUSTER_F32)
                *(float *)at = (float)value;
            else if (dtype == MUSTER_F64)
                *(double *)at = value;
            else
                *(int64_t *)at = (int64_t)value;
        }
    ops_place(&x);
    ops_send(worker, &x);
    return x;
}

static bool is_near(double expected, double received, bool exact) {
    if (isnan(expected) || isnan(received)) return isnan(expected) && isnan(received);
    return expected == received || (!exact && fabs(expected - received) <= 1e-12 * fabs(expected));
}

static void check_row(muster_dtype dtype, const ops_pair *y, int64_t row, int64_t length, bool with_b, double first, bool inclusive,
                      bool exact) {
    double e = first;
    for (int64_t j = 0; j < length; j++) {
        const double before = e, *b = with_b ? &b_values[row * length + j] : NULL;
        e = a_values[row * length + j] * e + (b ? *b : 0);
        double expected = inclusive ? e : before, received;
        const void *at = element(y->host, row, j);
        received = dtype == MUSTER_F32   ? (double)*(const float *)at
                   : dtype == MUSTER_F64 ? *(const double *)at
                                         : (double)*(const int64_t *)at;
        if (dtype == MUSTER_F32) expected = (double)(float)expected;
        if (!is_near(expected, received, exact))
            fail_msg("%s, row %lld of length %lld, element %lld: expected %.17g, received %.17g", muster_dtype_name(dtype), (long long)row,
                     (long long)length, (long long)j, expected, received);
        compared++;
    }
}

static void run_case(muster_worker *worker, muster_dtype dtype, int64_t rows, int64_t length, values kind, int way) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    const bool with_b = way & 1, inclusive = way & 2, beside = way & 4;
    const double first = kind == SMALL ? way % 3 : 1;
    for (int64_t i = 0; i < rows * length; i++) {
        a_values[i] = a_value(kind, i % length);
        b_values[i] = kind == SMALL ? (double)ops_random(5) - 2 : 0;
    }
    const ops_pair a = matrix(worker, dtype, rows, length, beside, a_values), b = matrix(worker, dtype, rows, length, false, b_values),
                   y = matrix(worker, dtype, rows, length, !beside, NULL);
    assert_ok(mst_recurrence(worker, &a.device, with_b ? &b.device : NULL, first, inclusive, &y.device));
    ops_fetch(worker, &y);
    for (int64_t r = 0; r < rows; r++) check_row(dtype, &y, r, length, with_b, first, inclusive, kind == SMALL);
    assert_ok(muster_worker_scratch_release(worker, mark));
}

static muster_status body(muster_worker *worker, void *unused) {
    (void)unused;
    for (int d = 0; d < DTYPES; d++)
        for (int l = 0; l < LENGTHS; l++)
            for (int c = 0; c < COUNTS; c++)
                for (int way = 0; way < 8; way++) {
                    if (lengths[l] * counts[c] > OPS_STORAGE) continue;
                    run_case(worker, dtypes[d], counts[c], lengths[l], SMALL, way);
                    if (dtypes[d] == MUSTER_F64) run_case(worker, MUSTER_F64, counts[c], lengths[l], RANGE, way);
                }
    return MUSTER_OK;
}

static void recurrences_are_those_of_a_loop(void **state) {
    static const char *const backends[] = {"host", "discrete"};
    const int64_t elements = 8 * ((1 + 2 + 63 + 64 + 65 + 128 + 129 + 990) * 41 + 4097 * 8);
    (void)state;
    compared = 0;
    for (int b = ops_first_backend(); b < 2; b++) {
        ops_seed();
        assert_ok(ops_run_on(backends[b], body, NULL));
    }
    assert_int_equal(compared, elements * (DTYPES + 1) * (2 - ops_first_backend()));
}

static int add_code(void **state) {
    (void)state;
    return mst_code_add(&mst_nn_code) == MUSTER_OK && mst_discrete_register() == MUSTER_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recurrences_are_those_of_a_loop)};
    return cmocka_run_group_tests(tests, add_code, NULL);
}

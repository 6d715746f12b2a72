/* Every row of the registry refuses a size that differs from the same axis of another operand: each
 * operand, its first and its last axis, one more and one less. */
#include "base_check.h"
#include "device_discrete.h"
#include "ops_oracle.h"

#include <stdio.h>
#include <string.h>

static muster_dtype dtype_of(const mst_operand *operand) {
    const uint32_t f32 = MST_DTYPE_BIT(MUSTER_F32);
    return operand->dtypes == 0 || (operand->dtypes & f32) ? MUSTER_F32 : (muster_dtype)__builtin_ctz(operand->dtypes);
}

/* The size of an axis: another one for each letter. */
static int64_t size_of(char letter) { return 4 + letter % 8; }

static bool has_any_shape(const mst_operand *operand) { return strpbrk(operand->dims, "*~?") != NULL; }

static void make_operands(muster_worker *w, const mst_op_row *o, const mst_op_value *values, muster_tensor t[MST_OPERANDS]) {
    for (int32_t i = 0; o->operands[i].name; i++) {
        const char *dims = o->operands[i].dims;
        int64_t shape[MUSTER_MAX_DIMS] = {5, 6, 7};
        const int32_t ndim = has_any_shape(&o->operands[i]) ? 3 : (int32_t)strlen(dims);
        for (int32_t d = 0; d < ndim && !has_any_shape(&o->operands[i]); d++) shape[d] = size_of(dims[d]);
        t[i] = muster_tensor_make(dtype_of(&o->operands[i]), NULL, ndim, shape);
    }
    assert_ok(mst_operation_infer(o, values, t, "infer"));
    for (int32_t i = 0; o->operands[i].name; i++) assert_ok(muster_worker_scratch(w, t[i].dtype, t[i].ndim, t[i].shape, &t[i]));
}

/* Does another operand share the axis? Rows with a shape rule of their own ("?") say so in their
 * oracles. */
static bool is_shared(const mst_op_row *o, int32_t operand, int32_t axis) {
    for (int32_t i = 0; o->operands[i].name; i++) {
        if (i == operand) continue;
        if (has_any_shape(&o->operands[operand]) ? has_any_shape(&o->operands[i])
                                                 : strchr(o->operands[i].dims, o->operands[operand].dims[axis]) != NULL)
            return true;
    }
    return false;
}

static muster_status check(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const muster_tensor *t) {
    return o->check(w, MST_TENSORS(&t[0], &t[1], &t[2], &t[3], &t[4]), values, "where");
}

static muster_status change_sizes(muster_worker *w, void *argument) {
    int64_t *refused = argument;
    for (int32_t id = 0; id < MST_OPERATIONS; id++) {
        const mst_op_row *o = mst_operations[id];
        const mst_op_value *values = ops_oracle_find(id)->values;
        muster_tensor t[MST_OPERANDS] = {{0}};
        if (o->infer) continue;
        make_operands(w, o, values, t);
        assert_ok(check(w, o, values, t));
        for (int32_t i = 0; o->operands[i].name; i++)
            for (int32_t d = 0; d < t[i].ndim; d++)
                for (int64_t change = -1; change <= 1 && is_shared(o, i, d); change += 2) {
                    muster_tensor wrong[MST_OPERANDS];
                    memcpy(wrong, t, sizeof wrong);
                    wrong[i].shape[d] += change;
                    if (check(w, o, values, wrong) != MUSTER_SHAPE_MISMATCH)
                        fail_msg("%s takes axis %d of %s %+d", o->name, (int)d, o->operands[i].name, (int)change);
                    if (strncmp(muster_last_error(), "where: ", 7) != 0) fail_msg("%s: %s", o->name, muster_last_error());
                    ++*refused;
                }
    }
    return MUSTER_OK;
}

/* reduce: y lacks one axis of x, the first, the middle or the last. */
static muster_status change_reduced_sizes(muster_worker *w, void *argument) {
    int64_t *refused = argument;
    const int64_t shape[] = {5, 6, 7};
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 3, shape, &x));
    for (int32_t axis = 0; axis < 3; axis++) {
        int64_t left[2];
        for (int32_t d = 0, used = 0; d < 3; d++)
            if (d != axis) left[used++] = shape[d];
        muster_tensor y;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, left, &y));
        assert_ok(muster_reduce(w, MUSTER_SUM, x, axis, y));
        for (int32_t d = 0; d < 2; d++)
            for (int64_t change = -1; change <= 1; change += 2) {
                muster_tensor wrong = y;
                wrong.shape[d] += change;
                assert_refused(muster_reduce(w, MUSTER_SUM, x, axis, wrong), MUSTER_SHAPE_MISMATCH, "muster_reduce: y: expected shape (");
                ++*refused;
            }
    }
    return MUSTER_OK;
}

static void test_every_size_is_compared(void **state) {
    (void)state;
    static const char *const backends[] = {"host", "discrete"};
    for (int b = 0; b < 2; b++) {
        int64_t refused = 0;
        assert_ok(ops_run_on(backends[b], change_sizes, &refused));
        assert_true(refused >= 132); /* of the rows that have operands with equal sizes */
        refused = 0;
        assert_ok(ops_run_on(backends[b], change_reduced_sizes, &refused));
        assert_int_equal(refused, 3 * 2 * 2);
    }
}

int main(void) {
    if (mst_discrete_register() != MUSTER_OK || mst_blas_open(false) != MUSTER_OK) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_size_is_compared)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mst_blas_close();
    return failed;
}

/* Results that overlap another operand, or repeat elements, are refused by every row of the
 * registry; the same elements are good where the result may be computed in place. */
#include "base_check.h"
#include "device_discrete.h"
#include "ops_oracle.h"

#include <stdio.h>
#include <string.h>

enum { SIDE = 6, POOL = 1 << 14 };

/* The results that may be an input itself, and the number of inputs of their shape. */
static const struct {
    const char *operation, *result;
    int64_t inputs;
} in_place[] = {
    // clang-format off
    {"axpy", "y", 1},
    {"bias_relu", "y", 1},
    {"binary_scalar", "y", 1},
    {"clip", "y", 1},
    {"compare", "y", 0}, /* of operands of one byte; not among the cases here */
    {"predicate", "y", 0}, /* of an operand of one byte; not among the cases here */
    {"scalar_binary", "y", 1},
    {"where", "y", 2},
    {"binary", "y", 2},
    {"copy", "y", 1},
    {"reduce", "y", 0}, /* of a single element; not among the cases here */
    {"reduce_axes", "y", 0},
    {"relu_gradient", "dx", 2},
    {"cumsum", "y", 1},
    {"log_softmax", "y", 1},
    {"log_softmax_gradient", "dx", 2},
    {"softmax", "y", 1},
    {"softmax_gradient", "dx", 2},
    {"tril", "y", 1},
    {"triu", "y", 1},
    {"scale_add", "y", 1},
    {"softmax_cross_entropy", "gradient", 1},
    {"unary", "y", 1},
    // clang-format on
};

static bool may_be_in_place(const mst_op_row *o, int32_t result) {
    for (size_t i = 0; i < sizeof in_place / sizeof *in_place; i++)
        if (strcmp(o->name, in_place[i].operation) == 0 && strcmp(o->operands[result].name, in_place[i].result) == 0) return true;
    return false;
}

static void test_the_list_of_results_in_place_is_that_of_the_rows(void **state) {
    (void)state;
    int32_t listed = 0;
    for (int32_t id = 0; id < MST_OPERATIONS; id++) {
        const mst_op_row *o = mst_operations[id];
        for (int32_t i = 0; o->operands[i].name; i++) {
            const bool in_row = o->operands[i].use & MST_IN_PLACE, in_list = may_be_in_place(o, i);
            listed += in_list;
            if (in_row != in_list)
                fail_msg("%s: %s: in in_place[] of tests/ops/test_overlap.c: expected %s, as the row of the operation says, received %s",
                         o->function, o->operands[i].name, in_row ? "a line (MST_IN_PLACE)" : "no line", in_list ? "one" : "none");
        }
    }
    assert_int_equal(listed, sizeof in_place / sizeof *in_place);
}

static muster_dtype dtype_of(const mst_operand *operand) {
    const uint32_t f32 = MST_DTYPE_BIT(MUSTER_F32);
    return operand->dtypes == 0 || (operand->dtypes & f32) ? MUSTER_F32 : (muster_dtype)__builtin_ctz(operand->dtypes);
}

static bool same_elements(const muster_tensor *a, const muster_tensor *b) {
    return mst_tensor_same_shape(*a, *b) && memcmp(a->strides, b->strides, sizeof a->strides) == 0 &&
           muster_tensor_address(*a) == muster_tensor_address(*b) && muster_dtype_size(a->dtype) == muster_dtype_size(b->dtype);
}

/* Operands apart from each other, in one tensor that they share; every axis has SIDE elements and
 * neighbours are 2 elements apart. */
static void lay_out(muster_worker *w, const mst_op_row *o, const mst_op_value *values, muster_tensor t[MST_OPERANDS]) {
    const int64_t shape[] = {SIDE, SIDE}, pool = POOL;
    muster_tensor memory;
    assert_ok(muster_worker_scratch(w, MUSTER_U8, 1, &pool, &memory));
    assert_ok(muster_fill(w, 0, memory));
    for (int32_t i = 0; o->operands[i].name; i++) {
        const char *dims = o->operands[i].dims;
        t[i] = muster_tensor_make(dtype_of(&o->operands[i]), NULL, strpbrk(dims, "*~?") ? 2 : (int32_t)strlen(dims), shape);
    }
    assert_ok(mst_operation_infer(o, values, t, "infer"));
    for (int32_t i = 0; o->operands[i].name; i++) {
        t[i] = muster_tensor_make(t[i].dtype, memory.data, t[i].ndim, t[i].shape);
        for (int32_t d = 0; d < t[i].ndim; d++) t[i].strides[d] *= 2;
        t[i].byte_offset = memory.byte_offset + i * (POOL / MST_OPERANDS / 8 * 8);
        t[i].device = memory.device;
    }
}

static void assert_collision(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const muster_tensor *t, int32_t result,
                             int32_t other) {
    char expected[160];
    if (mst_operand_is_result(&o->operands[other]) && other < result) { /* the first of two results is named first */
        const int32_t first = other;
        other = result;
        result = first;
    }
    const bool also_same = may_be_in_place(o, result) && !mst_operand_is_result(&o->operands[other]);
    snprintf(expected, sizeof expected, "%s: %s: expected memory that %s does not use%s, received views that overlap", o->function,
             o->operands[result].name, o->operands[other].name, also_same ? ", or the same elements in the same layout" : "");
    assert_refused(o->run(w, t, values), MUSTER_INVALID_ARGUMENT, expected);
}

typedef struct overlap_count {
    int64_t collisions, interleaved, repeats, same;
} overlap_count;

/* The result begins at the last element of the other operand, or as far before it as the alignment
 * of its own elements asks for: hardly any elements but these are shared. */
static void collide_at_the_ends(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const muster_tensor *t, int32_t result,
                                int32_t other, overlap_count *count) {
    muster_tensor moved[MST_OPERANDS];
    memcpy(moved, t, sizeof moved);
    int64_t last = 0;
    for (int32_t d = 0; d < t[other].ndim; d++) last += (t[other].shape[d] - 1) * t[other].strides[d];
    moved[result].byte_offset = t[other].byte_offset + last * muster_dtype_size(t[other].dtype);
    moved[result].byte_offset -= (moved[result].byte_offset - t[0].byte_offset) % muster_dtype_size(t[result].dtype);
    if (last == 0 && same_elements(&moved[result], &moved[other]) && may_be_in_place(o, result)) return;
    assert_collision(w, o, values, moved, result, other);
    count->collisions++;
    moved[result].byte_offset = t[other].byte_offset + last * muster_dtype_size(t[other].dtype) + muster_dtype_size(t[other].dtype);
    if ((moved[result].byte_offset - t[0].byte_offset) % muster_dtype_size(t[result].dtype) != 0) return;
    assert_ok(o->check(w, MST_TENSORS(&moved[0], &moved[1], &moved[2], &moved[3], &moved[4]), values, "where"));
    count->interleaved++;
}

static void share(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const muster_tensor *t, int32_t result, int32_t other,
                  overlap_count *count) {
    muster_tensor same[MST_OPERANDS];
    memcpy(same, t, sizeof same);
    same[result].data = t[other].data;
    same[result].byte_offset = t[other].byte_offset;
    if (may_be_in_place(o, result) && (o->operands[other].use & MST_IN) && same_elements(&same[result], &same[other])) {
        assert_ok(o->run(w, same, values));
        count->same++;
    } else
        assert_collision(w, o, values, same, result, other);
    /* elements between those of the other operand */
    if (muster_dtype_size(t[result].dtype) == muster_dtype_size(t[other].dtype)) {
        same[result].byte_offset += muster_dtype_size(t[other].dtype);
        assert_ok(o->run(w, same, values));
        count->interleaved++;
    }
}

static void repeat_elements(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const muster_tensor *t, int32_t result,
                            overlap_count *count) {
    for (int32_t d = 0; d < t[result].ndim; d++) {
        char expected[128];
        muster_tensor repeated[MST_OPERANDS];
        memcpy(repeated, t, sizeof repeated);
        repeated[result].strides[d] = 0;
        snprintf(expected, sizeof expected, "%s: %s: expected each element of the result once in memory, received shape (", o->function,
                 o->operands[result].name);
        assert_refused(o->run(w, repeated, values), MUSTER_INVALID_ARGUMENT, expected);
        count->repeats++;
    }
}

static muster_status overlaps(muster_worker *w, void *argument) {
    overlap_count *count = argument;
    for (int32_t id = 0; id < MST_OPERATIONS; id++) {
        const mst_op_row *o = mst_operations[id];
        const mst_op_value *values = ops_oracle_find(id)->values;
        const bool product = id == MST_OPERATION_gemm || id == MST_OPERATION_gemm_batched;
        if (product && mst_device_is_host(w->device) && !mst_blas_get()->sgemm) continue;
        muster_tensor t[MST_OPERANDS] = {{0}};
        lay_out(w, o, values, t);
        assert_ok(o->run(w, t, values));
        for (int32_t i = 0; o->operands[i].name; i++) {
            if (!mst_operand_is_result(&o->operands[i])) continue;
            repeat_elements(w, o, values, t, i, count);
            for (int32_t j = 0; o->operands[j].name; j++) {
                if (j == i) continue;
                share(w, o, values, t, i, j, count);
                collide_at_the_ends(w, o, values, t, i, j, count);
            }
        }
    }
    return MUSTER_OK;
}

static void test_results_lie_apart_from_the_other_operands(void **state) {
    (void)state;
    static const char *const backends[] = {"host", "discrete"};
    for (int b = 0; b < 2; b++) {
        overlap_count count = {0};
        assert_ok(ops_run_on(backends[b], overlaps, &count));
        int64_t same = 0;
        for (size_t i = 0; i < sizeof in_place / sizeof *in_place; i++) same += in_place[i].inputs;
        assert_int_equal(count.same, same);
        assert_true(count.collisions >= 30 && count.interleaved >= 44 && count.repeats >= 27);
    }
}

/* y in the memory of x: good in the same layout only. */
static muster_status layouts(muster_worker *w, void *unused) {
    (void)unused;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, (const int64_t[]){4, 4}, &x));
    static const char message[] = "muster_copy: y: expected memory that x does not use, or the same elements in the same layout";
    assert_ok(muster_fill(w, 1, x));
    assert_ok(muster_copy(w, x, x));
    assert_refused(muster_copy(w, muster_tensor_transpose(x), x), MUSTER_INVALID_ARGUMENT, message);
    muster_tensor y = x;
    y.strides[0] = -4, y.byte_offset += 48; /* the same bytes, the rows backwards */
    assert_refused(muster_copy(w, x, y), MUSTER_INVALID_ARGUMENT, message);
    y = x, y.dtype = MUSTER_I32;
    assert_ok(muster_copy(w, x, y));
    y.dtype = MUSTER_F16;
    assert_refused(muster_copy(w, x, y), MUSTER_INVALID_ARGUMENT, message);
    y = muster_tensor_reshape(x, 4, (const int64_t[]){1, 1, 4, 4});
    y.device = x.device, y.strides[0] = 77;
    assert_ok(muster_copy(w, x, y));
    muster_tensor row = muster_tensor_slice(x, 0, 1);
    assert_refused(muster_copy(w, row, x), MUSTER_INVALID_ARGUMENT, message);
    y = x, y.shape[0] = 2, y.strides[0] = INT64_MAX / 2; /* no such address */
    assert_refused(muster_copy(w, muster_tensor_slice(x, 0, 2), y), MUSTER_OVERFLOW, "muster_copy: y: expected strides");
    y.strides[0] = INT64_MIN;
    assert_refused(muster_copy(w, muster_tensor_slice(x, 0, 2), y), MUSTER_OVERFLOW, "muster_copy: y: expected strides");
    /* strides that are not nested, but no element repeats; then one does */
    y = x, y.shape[0] = y.shape[1] = 2, y.strides[0] = 2, y.strides[1] = 3;
    assert_ok(muster_fill(w, 2, y));
    y.shape[0] = 4, y.shape[1] = 3;
    assert_refused(muster_fill(w, 2, y), MUSTER_INVALID_ARGUMENT, "muster_fill: y: expected each element of the result once in memory");
    return MUSTER_OK;
}

static void test_only_the_same_layout_is_in_place(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", layouts, NULL));
    assert_ok(ops_run_on("discrete", layouts, NULL));
}

/* Operands of copy at made-up addresses: only the check of the row sees them. */
static void check_at_the_ends(muster_worker *w, const mst_op_row *copy, int32_t far) {
    const int64_t two = INT64_C(1) << 60, most = (INT64_MAX - 4) / 4; /* strides of 4 bytes */
    const uintptr_t high = (uintptr_t)1 << 63;
    const struct {
        uintptr_t address;
        int64_t shape[2], strides[2];
        bool fits;
    } cases[] = {
        {4096, {1, 2}, {0, most}, true},         {4096, {1, 2}, {0, most + 1}, false},  {4096, {2, 2}, {two, two - 2}, true},
        {4096, {2, 2}, {two, two - 1}, false},   {4096, {1, 2}, {0, -1024}, true},      {4096, {1, 2}, {0, -1025}, false},
        {high, {1, 2}, {0, -2 * two}, true},     {high, {2, 2}, {-1, -2 * two}, false}, {high, {2, 2}, {-two, 1 - two}, true},
        {high, {2, 2}, {-two, -1 - two}, false}, {0 - 8, {1, 1}, {0, 0}, true},         {0 - 4, {1, 1}, {0, 0}, false},
        {0 - 4096, {1, 2}, {0, 1022}, true},     {0 - 4096, {1, 2}, {0, 1023}, false},  {4096, {2, 0}, {INT64_MAX, 1}, true},
        {4096, {1, 2}, {0, INT64_MAX}, false},   {4096, {1, 1}, {INT64_MAX, 4}, true},
    };
    char expected[64];
    snprintf(expected, sizeof expected, "where: %s: expected strides whose addresses fit 64 bits", copy->operands[far].name);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_tensor t[2];
        t[far] = muster_tensor_make(MUSTER_F32, (void *)cases[i].address, 2, cases[i].shape);
        t[1 - far] = muster_tensor_make(MUSTER_F32, (void *)((uintptr_t)1 << 40), 2, cases[i].shape);
        memcpy(t[far].strides, cases[i].strides, sizeof cases[i].strides);
        t[0].device = t[1].device = w->rank;
        const muster_status status = copy->check(w, MST_TENSORS(&t[0], &t[1]), NULL, "where");
        if (cases[i].fits != (status == MUSTER_OK)) fail_msg("case %zu of operand %d: received status %d", i, far, status);
        if (!cases[i].fits) assert_refused(status, MUSTER_OVERFLOW, expected);
    }
}

static muster_status ends(muster_worker *w, void *unused) {
    (void)unused;
    for (int32_t far = 0; far < 2; far++) check_at_the_ends(w, mst_operations[MST_OPERATION_copy], far);
    return MUSTER_OK;
}

static void test_addresses_at_both_ends_of_64_bits(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", ends, NULL));
}

int main(void) {
    if (mst_discrete_register() != MUSTER_OK || mst_blas_open(false) != MUSTER_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_of_results_in_place_is_that_of_the_rows),
        cmocka_unit_test(test_results_lie_apart_from_the_other_operands),
        cmocka_unit_test(test_only_the_same_layout_is_in_place),
        cmocka_unit_test(test_addresses_at_both_ends_of_64_bits),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mst_blas_close();
    return failed;
}

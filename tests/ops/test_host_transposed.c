/* Elementwise operations on operands whose axes lie in memory in every order: they have the bits of
 * the same operation on contiguous ones. */
#include "base_check.h"
#include "muster/ops.h"
#include "ops_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { AXES = 4, ORDERS = 24, OPERANDS = 4, PLACES = 8, KINDS = 7 };

/* The axes, outermost first, in the order of this number. */
static void order_of(int32_t number, int32_t *axes) {
    for (int32_t a = 0; a < AXES; a++) axes[a] = a;
    for (int32_t a = 0, of = ORDERS; a < AXES - 1; a++) {
        of /= AXES - a;
        const int32_t chosen = a + number / of, axis = axes[chosen];
        number %= of;
        for (int32_t b = chosen; b > a; b--) axes[b] = axes[b - 1];
        axes[a] = axis;
    }
}

static muster_status apply_unary(muster_worker *w, const muster_tensor *t) { return muster_unary_op(w, MUSTER_EXP, t[0], t[1]); }
static muster_status apply_clip(muster_worker *w, const muster_tensor *t) { return muster_clip(w, -3, 5, t[0], t[1]); }
static muster_status apply_subtract(muster_worker *w, const muster_tensor *t) { return muster_binary_op(w, MUSTER_SUB, t[0], t[1], t[2]); }
static muster_status apply_compare(muster_worker *w, const muster_tensor *t) { return muster_compare(w, MUSTER_LESS, t[0], t[1], t[2]); }
static muster_status apply_where(muster_worker *w, const muster_tensor *t) { return muster_where(w, t[0], t[1], t[2], t[3]); }

static const struct {
    muster_status (*apply)(muster_worker *w, const muster_tensor *t);
    int32_t operands;
    muster_dtype dtypes[OPERANDS]; /* the result is the last */
} kinds[KINDS] = {
    {apply_unary, 2, {MUSTER_F16, MUSTER_F16}},
    {apply_clip, 2, {MUSTER_F64, MUSTER_F64}},
    {apply_subtract, 3, {MUSTER_F32, MUSTER_F32, MUSTER_F32}},
    {apply_subtract, 3, {MUSTER_I8, MUSTER_I8, MUSTER_I8}},
    {apply_compare, 3, {MUSTER_I64, MUSTER_I64, MUSTER_BOOL}},
    {apply_compare, 3, {MUSTER_F16, MUSTER_F16, MUSTER_BOOL}},
    {apply_where, 4, {MUSTER_BOOL, MUSTER_F64, MUSTER_F64, MUSTER_F64}},
};

static int64_t cases;

/* One element at a time, so that nothing of the library's strides is asked: to contiguous memory,
 * or from it. */
static void copy_elements(const muster_tensor *tensor, char *contiguous, bool to_contiguous) {
    const int64_t size = muster_dtype_size(tensor->dtype);
    int64_t index[AXES] = {0}, e = 0;
    for (int32_t a = 0; a < AXES; a++)
        if (tensor->shape[a] == 0) return;
    do {
        int64_t at = 0;
        for (int32_t a = 0; a < AXES; a++) at += index[a] * tensor->strides[a];
        char *element = (char *)tensor->data + at * size;
        memcpy(to_contiguous ? contiguous + e * size : element, to_contiguous ? element : contiguous + e * size, (size_t)size);
        e++;
    } while (ops_next(AXES, tensor->shape, index));
}

/* A tensor in an order of its axes, with memory of its own, which ends in bytes that stay. */
static muster_tensor tensor_in(muster_dtype dtype, const int64_t *shape, int32_t number) {
    const int64_t size = muster_dtype_size(dtype), count = shape[0] * shape[1] * shape[2] * shape[3];
    int32_t order[AXES];
    order_of(number, order);
    unsigned char *memory = malloc((size_t)(count * size) + PLACES);
    assert_non_null(memory);
    for (int64_t b = 0; b < count * size; b++) memory[b] = (unsigned char)(dtype == MUSTER_BOOL ? ops_random(2) : ops_random(256));
    memset(memory + count * size, 77, PLACES);
    muster_tensor tensor = muster_tensor_make(dtype, memory, AXES, shape);
    for (int64_t a = AXES - 1, stride = 1; a >= 0; a--) {
        tensor.strides[order[a]] = stride;
        stride *= shape[order[a]];
    }
    return tensor;
}

static void one_case(muster_worker *w, int kind, const int64_t *shape, const int32_t *chosen) {
    const int32_t operands = kinds[kind].operands, result = operands - 1;
    const int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    muster_tensor tensors[OPERANDS], contiguous[OPERANDS];
    for (int32_t i = 0; i < operands; i++) {
        tensors[i] = tensor_in(kinds[kind].dtypes[i], shape, chosen[i]);
        contiguous[i] = tensor_in(kinds[kind].dtypes[i], shape, 0);
        copy_elements(&tensors[i], contiguous[i].data, true);
    }
    assert_ok(kinds[kind].apply(w, tensors));
    assert_ok(kinds[kind].apply(w, contiguous));
    const int64_t size = muster_dtype_size(kinds[kind].dtypes[result]);
    char *received = malloc((size_t)(count * size) + 1);
    assert_non_null(received);
    copy_elements(&tensors[result], received, true);
    for (int64_t e = 0; e < count; e++)
        if (memcmp(received + e * size, (char *)contiguous[result].data + e * size, (size_t)size) != 0)
            fail_msg("operation %d, shape %d x %d x %d x %d, orders %d and %d: element %d differs", kind, (int)shape[0], (int)shape[1],
                     (int)shape[2], (int)shape[3], (int)chosen[0], (int)chosen[result], (int)e);
    for (int b = 0; b < PLACES; b++) assert_int_equal(((unsigned char *)tensors[result].data)[count * size + b], 77);
    free(received);
    for (int32_t i = 0; i < operands; i++) {
        free(tensors[i].data);
        free(contiguous[i].data);
    }
    cases++;
}

/* Sides on both sides of the least one, of a cache line of each size of element, and of a block. */
static void draw_shape(int64_t *shape) {
    static const int64_t sides[] = {1, 7, 8, 9, 15, 16, 17, 33, 43, 64, 65, 129};
    enum { SHORT = 7, ALL = sizeof sides / sizeof *sides };
    const int64_t first = ops_random(AXES), second = (first + 1 + ops_random(AXES - 1)) % AXES;
    for (int32_t a = 0; a < AXES; a++) shape[a] = 1 + ops_random(3);
    shape[first] = sides[ops_random(SHORT)];
    shape[second] = sides[ops_random(ALL)];
}

static muster_status every_order(muster_worker *w, void *argument) {
    (void)argument;
    for (int kind = 0; kind < KINDS; kind++)
        for (int32_t c = 0; c < ORDERS * ORDERS; c++) {
            const int32_t result = kinds[kind].operands - 1;
            int32_t chosen[OPERANDS] = {c % ORDERS, (int32_t)ops_random(ORDERS), (int32_t)ops_random(ORDERS), 0};
            int64_t shape[AXES];
            chosen[result] = c / ORDERS;
            draw_shape(shape);
            one_case(w, kind, shape, chosen);
        }
    return MUSTER_OK;
}

static void operands_of_every_order_have_the_bits_of_contiguous_ones(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", every_order, NULL));
    assert_int_equal(cases, KINDS * ORDERS * ORDERS);
}

/* Without an element nothing is read. */
static muster_status empty_shapes(muster_worker *w, void *argument) {
    (void)argument;
    for (int axis = 0; axis < AXES; axis++)
        for (int order = 0; order < ORDERS; order++) {
            int64_t shape[AXES] = {2, 9, 10, 11};
            shape[axis] = 0;
            one_case(w, 2, shape, (const int32_t[]){order, 0, 0});
        }
    return MUSTER_OK;
}

static void empty_operands_have_no_result(void **state) {
    (void)state;
    cases = 0;
    assert_ok(ops_run_on("host", empty_shapes, NULL));
    assert_int_equal(cases, AXES * ORDERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operands_of_every_order_have_the_bits_of_contiguous_ones),
                                       cmocka_unit_test(empty_operands_have_no_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>
#include <stdio.h>

/* The symbols are weak, so that the suite finds a missing oracle and names it; otherwise the
 * program would not link. */
#define MST_OPERATION(name) extern const ops_oracle ops_oracle_##name __attribute__((weak, visibility("hidden")));
#include "operations.def"
#undef MST_OPERATION
const ops_oracle *ops_oracle_find(int32_t id) {
    switch (id) {
#define MST_OPERATION(name)    \
    case MST_OPERATION_##name: \
        return &ops_oracle_##name;
#include "operations.def"
#undef MST_OPERATION
    default:
        return NULL;
    }
}

/* ---- random operands ---- */

int64_t ops_random_size(int64_t below) { return ops_random(12) == 0 ? 0 : 1 + ops_random(below); }

ops_shape ops_random_shape(void) {
    ops_shape s = {.ndim = (int32_t)ops_random(5)};
    for (int32_t d = 0; d < s.ndim; d++) s.size[d] = ops_random_size(5);
    if (s.ndim == 1 && ops_random(2)) s.size[0] = 1 + ops_random(ORACLE_MOST);
    return s;
}

ops_shape ops_random_repeated(const ops_shape *s) {
    ops_shape x = {.ndim = ops_random(2) ? s->ndim : (int32_t)ops_random(s->ndim + 1)};
    for (int32_t d = 0; d < x.ndim; d++) x.size[d] = ops_random(4) == 0 ? 1 : s->size[d + s->ndim - x.ndim];
    return x;
}

muster_dtype ops_random_dtype(const mst_op_row *o) {
    int64_t which = ops_random(__builtin_popcount(o->dtypes));
    for (muster_dtype dtype = 1;; dtype++)
        if ((o->dtypes & MST_DTYPE_BIT(dtype)) && which-- == 0) return dtype;
}

ops_pair ops_input(muster_worker *w, muster_dtype dtype, ops_shape s) { return ops_view(w, dtype, s.ndim, s.size, true); }
ops_pair ops_output(muster_worker *w, muster_dtype dtype, ops_shape s) { return ops_view(w, dtype, s.ndim, s.size, false); }
ops_pair ops_vector(muster_worker *w, muster_dtype dtype, int64_t n, bool repeats) { return ops_view(w, dtype, 1, &n, repeats); }
ops_pair ops_matrix(muster_worker *w, muster_dtype dtype, int64_t n, int64_t k, bool repeats) {
    return ops_view(w, dtype, 2, (const int64_t[]){n, k}, repeats);
}
ops_pair ops_scalar(muster_worker *w, muster_dtype dtype) { return ops_view(w, dtype, 0, NULL, false); }
double ops_at(const ops_pair *p, int64_t i, int64_t j) { return ops_element(p->host, p->host.ndim, (const int64_t[]){i, j}); }

void *ops_place_of(muster_tensor tensor, const int64_t *index) {
    int64_t offset = 0;
    for (int32_t d = 0; d < tensor.ndim; d++) offset += index[d] * tensor.strides[d];
    return (char *)muster_tensor_address(tensor) + offset * muster_dtype_size(tensor.dtype);
}

void ops_fill_with_nan(muster_worker *w, ops_pair *p) {
    for (int64_t i = 0; i < p->host_storage.shape[0]; i++) {
        const double nan = NAN;
        mst_convert(p->host.dtype, ops_place_of(p->host_storage, &i), MUSTER_F64, &nan, 1);
    }
    ops_send(w, p);
}

/* ---- calls ---- */

static uint32_t applied[MST_OPERATIONS];

uint32_t ops_applied(int32_t id) {
    uint32_t seen = applied[id];
    applied[id] = 0;
    return seen;
}

static struct {
    int64_t cases;
    uint32_t dtypes;
} counted[MST_OPERATIONS];

void ops_count_case(const mst_op_row *o, muster_dtype dtype) {
    counted[o->id].cases += (o->dtypes & MST_DTYPE_BIT(dtype)) != 0;
    counted[o->id].dtypes |= MST_DTYPE_BIT(dtype);
}

int64_t ops_counted_cases(int32_t id, uint32_t *dtypes) {
    const int64_t cases = counted[id].cases;
    *dtypes = counted[id].dtypes;
    counted[id].cases = 0;
    counted[id].dtypes = 0;
    return cases;
}

static bool has_letters(const mst_operand *operand) {
    return operand->dims[0] == '\0' || (operand->dims[0] >= 'a' && operand->dims[0] <= 'z');
}

/* The first operand that has the dtype of the operation. */
static int32_t leader(const mst_op_row *o) {
    int32_t i = 0;
    while (o->operands[i].name && o->operands[i].dtypes) i++;
    return o->operands[i].name ? i : 0;
}

/* A result that is read, too, and whose shape no input determines. */
static bool keeps_its_shape(const mst_operand *operand) { return operand->dims[0] == '?' && (operand->use & MST_IN); }

/* Asserts that the shape rule gives the dtypes and shapes of the results. With broadcasting a
 * result may be larger than the inferred shape. */
static void assert_inferred(const mst_op_row *o, const mst_op_value *values, const muster_tensor *tensors) {
    muster_tensor inferred[MST_OPERANDS];
    bool inputs = false, repeated = false;
    memcpy(inferred, tensors, sizeof inferred);
    for (int32_t i = 0; o->operands[i].name; i++) {
        inputs |= !mst_operand_is_result(&o->operands[i]);
        repeated |= o->operands[i].dims[0] == '~';
    }
    for (int32_t i = 0; o->operands[i].name && inputs; i++)
        if (mst_operand_is_result(&o->operands[i]) && !keeps_its_shape(&o->operands[i]) && tensors[i].dtype != MUSTER_DTYPE_NONE)
            inferred[i] = muster_tensor_make(tensors[i].dtype, NULL, 1, (const int64_t[]){77});
    assert_ok(mst_operation_infer(o, values, inferred, "infer"));
    for (int32_t i = 0; o->operands[i].name; i++) {
        if (inferred[i].dtype != tensors[i].dtype) fail_msg("%s: the shape rule gives %s another dtype", o->name, o->operands[i].name);
        if (repeated ? mst_op_broadcasts("infer", "r", &inferred[i], "y", &tensors[i]) != MUSTER_OK
                     : !mst_tensor_same_shape(inferred[i], tensors[i]))
            fail_msg("%s: the shape rule gives %s another shape", o->name, o->operands[i].name);
    }
}

static muster_status check_of(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const muster_tensor *tensors) {
    return o->check(w, MST_TENSORS(&tensors[0], &tensors[1], &tensors[2], &tensors[3], &tensors[4]), values, "where");
}

static void assert_wrong(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const muster_tensor *tensors, int32_t at,
                         const char *what) {
    muster_tensor copies[MST_OPERANDS];
    memcpy(copies, tensors, sizeof copies);
    if (check_of(w, o, values, tensors) == MUSTER_OK) fail_msg("%s takes %s of %s", o->name, what, o->operands[at].name);
    if (strncmp(muster_last_error(), "where: ", 7) != 0) fail_msg("%s: \"%s\" lacks the function", o->name, muster_last_error());
    if (!mst_operand_is_result(&o->operands[at]) && mst_operation_infer(o, values, copies, "where") == MUSTER_OK)
        fail_msg("%s: the shape rule takes %s of %s", o->name, what, o->operands[at].name);
}

/* Another dtype, at an address that is aligned for every dtype, so that only the dtype is wrong. */
static void set_dtype(muster_tensor *tensor, muster_dtype dtype) {
    tensor->dtype = dtype;
    tensor->byte_offset -= (intptr_t)muster_tensor_address(*tensor) % 8;
}

/* Asserts that check and shape rule refuse an additional axis, a dtype that differs from the other
 * operands, and a dtype that the row does not list. */
static void assert_refusals(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const muster_tensor *tensors) {
    const uint32_t dtypes = !mst_device_is_host(w->device) && o->code_dtypes ? o->code_dtypes : o->dtypes;
    const int32_t first = leader(o);
    for (int32_t i = 0; o->operands[i].name; i++) {
        muster_tensor wrong[MST_OPERANDS];
        memcpy(wrong, tensors, sizeof wrong);
        if (tensors[i].dtype == MUSTER_DTYPE_NONE) continue;
        if (has_letters(&o->operands[i]) && tensors[i].ndim < MUSTER_MAX_DIMS) {
            wrong[i].shape[wrong[i].ndim++] = 1;
            assert_wrong(w, o, values, wrong, i, "another number of axes");
        }
        wrong[i] = tensors[i];
        set_dtype(&wrong[i], tensors[i].dtype == MUSTER_U32 ? MUSTER_I32 : MUSTER_U32);
        if (o->operands[i].dtypes ? !(o->operands[i].dtypes & MST_DTYPE_BIT(wrong[i].dtype)) : i != first)
            assert_wrong(w, o, values, wrong, i, "another dtype");
    }
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) {
        muster_tensor wrong[MST_OPERANDS];
        memcpy(wrong, tensors, sizeof wrong);
        if (dtypes & MST_DTYPE_BIT(dtype)) continue;
        for (int32_t i = 0; o->operands[i].name; i++)
            if (!o->operands[i].dtypes && wrong[i].dtype != MUSTER_DTYPE_NONE) set_dtype(&wrong[i], dtype);
        if (check_of(w, o, values, wrong) != MUSTER_UNSUPPORTED)
            fail_msg("%s takes %s, which its row lacks", o->name, muster_dtype_name(dtype));
    }
}

muster_status ops_apply(muster_worker *w, const mst_op_row *o, const mst_op_value *values, const ops_pair *const *pairs) {
    muster_tensor tensors[MST_OPERANDS];
    for (int32_t i = 0; i < MST_OPERANDS; i++) tensors[i] = o->operands[i].name && pairs[i] ? pairs[i]->device : muster_tensor_none();
    applied[o->id] |= MST_DTYPE_BIT(tensors[leader(o)].dtype);
    assert_inferred(o, values, tensors);
    assert_ok(check_of(w, o, values, tensors));
    assert_refusals(w, o, values, tensors);
    return o->run(w, tensors, values);
}

/* ---- results ---- */

double ops_results[ORACLE_MOST * 64];

/* `value` rounded to the dtype; integers keep their low bits. 64-bit integers wrap only below 0,
 * because a double beyond 2^53 has lost its low bits. */
static double held(muster_dtype dtype, double value) {
    if (mst_dtype_is_float(dtype) || dtype == MUSTER_BOOL) {
        uint64_t bits = 0;
        mst_convert(dtype, &bits, MUSTER_F64, &value, 1);
        mst_convert(MUSTER_F64, &value, dtype, &bits, 1);
        return value;
    }
    const int64_t size = muster_dtype_size(dtype);
    if (size == 8) return ops_is_unsigned(dtype) && value < 0 ? value + 0x1p64 : value;
    const double range = ldexp(1, 8 * (int)size), low = ops_is_unsigned(dtype) ? 0 : -range / 2;
    const double above = fmod(value - low, range);
    return (above < 0 ? above + range : above) + low;
}

void ops_check(muster_worker *w, const mst_op_row *o, const ops_pair *y, const double *expected) {
    static char before[OPS_STORAGE * 8];
    const size_t bytes = (size_t)mst_tensor_bytes(y->host_storage);
    const double tolerance = o->error[y->host.dtype];
    int64_t index[MUSTER_MAX_DIMS] = {0}, i = 0;
    assert_true(tolerance <= 10 * ops_precision(y->host.dtype)); /* no row may loosen itself */
    assert_true(bytes <= sizeof before);
    memcpy(before, y->host_storage.data, bytes);
    ops_fetch(w, y);
    if (muster_tensor_count(y->host) > 0) {
        do {
            void *element = ops_place_of(y->host, index);
            ops_assert_near(ops_element(y->host, y->host.ndim, index), held(y->host.dtype, expected[i++]), tolerance);
            memcpy(element, before + ((char *)element - (char *)y->host_storage.data), (size_t)muster_dtype_size(y->host.dtype));
        } while (ops_next(y->host.ndim, y->host.shape, index));
    }
    assert_memory_equal(y->host_storage.data, before, bytes);
}

double ops_scaled(double alpha, double x, double beta, double y) { return alpha * x + (beta == 0 ? 0 : beta * y); }

double ops_uniform(uint64_t seed, muster_dtype dtype, uint64_t number) {
    const uint64_t block = dtype == MUSTER_F32 ? number / 4 : number / 2;
    uint32_t out[4];
    muster_philox4x32((const uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), 0, 0},
                      (const uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, out);
    if (dtype == MUSTER_F32) return ldexp((double)(out[number % 4] >> 8), -24);
    const uint32_t *lanes = out + 2 * (number % 2);
    return ldexp((double)(((uint64_t)lanes[1] << 32 | lanes[0]) >> 11), -53);
}

double ops_dot_of(const ops_pair *a, int64_t i, const ops_pair *b, int64_t j) {
    double sum = 0;
    for (int64_t l = 0; l < a->host.shape[1]; l++) sum += ops_at(a, i, l) * ops_at(b, l, j);
    return sum;
}

#include "op_impl.h"

#include <stdio.h>
#include <string.h>

const mst_op_row *const mst_operations[MST_OPERATIONS] = {
#define MST_OPERATION(name) &mst_operation_##name,
#include "operations.def"
#undef MST_OPERATION
};

const mst_op_row *mst_operation_find(const char *name) {
    for (int32_t i = 0; i < MST_OPERATIONS; i++)
        if (strcmp(mst_operations[i]->name, name) == 0) return mst_operations[i];
    return NULL;
}

const char *mst_dtypes_text(char text[128], uint32_t dtypes) {
    int used = 0;
    text[0] = '\0';
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) {
        if (!(dtypes & MST_DTYPE_BIT(dtype))) continue;
        bool last = dtypes >> dtype == 1;
        used += snprintf(text + used, (size_t)(128 - used), "%s%s", used == 0 ? "" : last ? " or " : ", ", muster_dtype_name(dtype));
    }
    return text;
}

/* ---- the shape rule ---- */

enum { LETTERS = 26 };

/* What is known from the inputs so far: the size of each letter (-1: unknown) and the shape of
 * "*". */
typedef struct bindings {
    int64_t letters[LETTERS];
    muster_tensor any; /* only ndim and shape are set; ndim -1: unknown */
    const char *any_name;
} bindings;

static bool is_any(const mst_operand *operand) { return strcmp(operand->dims, "*") == 0; }
static bool is_repeated(const mst_operand *operand) { return strcmp(operand->dims, "~") == 0; }
static bool is_absent(const mst_operand *operand, const muster_tensor *tensor) {
    return (operand->use & MST_OPTIONAL) && mst_tensor_absent(tensor);
}

static muster_status bind_letters(bindings *b, const mst_operand *operand, const muster_tensor *tensor, const char *where) {
    int64_t expected[MUSTER_MAX_DIMS];
    MUSTER_TRY(mst_op_ndim(where, operand->name, tensor, (int32_t)strlen(operand->dims)));
    for (int32_t d = 0; d < tensor->ndim; d++) {
        int64_t *size = &b->letters[operand->dims[d] - 'a'];
        if (*size < 0) *size = tensor->shape[d];
        expected[d] = *size;
    }
    return mst_op_shape(where, operand->name, tensor, tensor->ndim, expected);
}

/* Broadcasting: a size of 1 takes the other size, and the result has the larger number of axes. */
static muster_status bind_repeated(bindings *b, const mst_operand *operand, const muster_tensor *tensor, const char *where) {
    muster_tensor wide = b->any.ndim > tensor->ndim ? b->any : *tensor;
    for (int32_t d = 0; d < wide.ndim; d++) {
        const int32_t here = d - (wide.ndim - tensor->ndim), there = d - (wide.ndim - (b->any.ndim < 0 ? 0 : b->any.ndim));
        const int64_t a = here < 0 ? 1 : tensor->shape[here], c = there < 0 ? 1 : b->any.shape[there];
        if (a != c && a != 1 && c != 1) return mst_op_broadcasts(where, operand->name, tensor, b->any_name, &b->any);
        wide.shape[d] = a == 1 ? c : a;
    }
    b->any = wide;
    if (!b->any_name) b->any_name = operand->name;
    return MUSTER_OK;
}

static muster_status bind_any(bindings *b, const mst_operand *operand, const muster_tensor *tensor, const char *where) {
    if (b->any.ndim >= 0) return mst_op_same_shape(where, operand->name, tensor, b->any_name, &b->any);
    b->any = *tensor;
    b->any_name = operand->name;
    return MUSTER_OK;
}

static muster_status bind_inputs(const mst_op_row *o, const muster_tensor *tensors, bindings *b, const char *where) {
    *b = (bindings){.any.ndim = -1};
    for (int32_t i = 0; i < LETTERS; i++) b->letters[i] = -1;
    for (int32_t i = 0; o->operands[i].name; i++) {
        const mst_operand *operand = &o->operands[i];
        if (mst_operand_is_result(operand) || is_absent(operand, &tensors[i])) continue;
        MUSTER_TRY(is_any(operand)        ? bind_any(b, operand, &tensors[i], where)
                   : is_repeated(operand) ? bind_repeated(b, operand, &tensors[i], where)
                                          : bind_letters(b, operand, &tensors[i], where));
    }
    return MUSTER_OK;
}

static void infer_result(const bindings *b, const mst_operand *operand, muster_dtype dtype, muster_tensor *result) {
    int64_t shape[MUSTER_MAX_DIMS];
    int32_t ndim = is_any(operand) ? b->any.ndim : (int32_t)strlen(operand->dims);
    if (ndim < 0) return; /* no input determines it, as below */
    for (int32_t d = 0; d < ndim; d++) {
        shape[d] = is_any(operand) ? b->any.shape[d] : b->letters[operand->dims[d] - 'a'];
        if (shape[d] < 0) return;
    }
    *result = muster_tensor_make(dtype, result->data, ndim, shape);
}

/* *dtype becomes the dtype of the operation. */
static muster_status infer_dtype(const mst_op_row *o, const mst_op_value *values, const muster_tensor *tensors, muster_dtype *dtype,
                                 const char *where) {
    int32_t first = -1;
    for (int32_t pass = 0; pass < 2 && first < 0; pass++) /* take it from an input, else from a result */
        for (int32_t i = 0; o->operands[i].name && first < 0; i++)
            if (!o->operands[i].dtypes && mst_operand_is_result(&o->operands[i]) == (pass == 1)) first = i;
    char text[128];
    *dtype = first < 0 ? MUSTER_DTYPE_NONE : tensors[first].dtype;
    if (first >= 0 && (!(o->dtypes & MST_DTYPE_BIT(*dtype)) || (o->takes && !o->takes(*dtype, values))))
        return mst_op_refuse_dtype(where, o->operands[first].name, mst_dtypes_text(text, o->dtypes), *dtype);
    for (int32_t i = 0; o->operands[i].name; i++) {
        const mst_operand *operand = &o->operands[i];
        if (mst_operand_is_result(operand) || is_absent(operand, &tensors[i])) continue;
        if (!operand->dtypes) MUSTER_TRY(mst_op_same_dtype(where, operand->name, tensors[i].dtype, o->operands[first].name, *dtype));
        if (operand->dtypes && !(operand->dtypes & MST_DTYPE_BIT(tensors[i].dtype)))
            return mst_op_refuse_dtype(where, operand->name, mst_dtypes_text(text, operand->dtypes), tensors[i].dtype);
    }
    return MUSTER_OK;
}

/* The only dtype of the set, or NONE. */
static muster_dtype only_dtype(uint32_t dtypes) {
    return dtypes && (dtypes & (dtypes - 1)) == 0 ? (muster_dtype)__builtin_ctz(dtypes) : MUSTER_DTYPE_NONE;
}

muster_status mst_operation_infer(const mst_op_row *o, const mst_op_value *values, muster_tensor *tensors, const char *where) {
    muster_dtype dtype;
    bindings b;
    MUSTER_TRY(infer_dtype(o, values, tensors, &dtype, where));
    if (o->infer) return o->infer(values, tensors, where);
    MUSTER_TRY(bind_inputs(o, tensors, &b, where));
    for (int32_t i = 0; o->operands[i].name; i++) {
        const mst_operand *operand = &o->operands[i];
        if (!mst_operand_is_result(operand) || is_absent(operand, &tensors[i])) continue;
        muster_dtype only = only_dtype(operand->dtypes);
        infer_result(&b, operand, !operand->dtypes ? dtype : only ? only : tensors[i].dtype, &tensors[i]);
    }
    return MUSTER_OK;
}

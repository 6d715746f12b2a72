/* The last check of an operation: do its results lie apart from each other and from the inputs?
 * Most operands lie in address ranges that do not meet, and most results have nested strides; only
 * other ones are searched element by element. */
#include "op_impl.h"

/* The bytes from *begin up to *end contain all elements; both are 0 if there are none. False if an
 * address does not fit 64 bits, also where there is no element to have it. */
static inline bool results_span(const muster_tensor *tensor, uintptr_t *begin, uintptr_t *end) {
    int64_t low = 0, high = 1; /* in elements, from the first one */
    for (int32_t d = 0; d < tensor->ndim; d++) {
        int64_t span;
        if (tensor->shape[d] == 0) {
            *begin = *end = 0;
            return true;
        }
        if (!mst_multiply(tensor->shape[d] - 1, tensor->strides[d], &span)) return false;
        if (span < 0 ? __builtin_add_overflow(low, span, &low) : __builtin_add_overflow(high, span, &high)) return false;
    }
    const int64_t size = (int64_t)mst_dtype_misaligned(tensor->dtype) + 1;
    if (!mst_multiply(low, size, &low) || !mst_multiply(high, size, &high)) return false;
    const uintptr_t address = (uintptr_t)muster_tensor_address(*tensor);
    *begin = address + (uintptr_t)low;
    *end = address + (uintptr_t)high;
    return *begin <= *end;
}

/* Is each stride at least as long as the axes behind it? Then no element repeats. The span is known
 * to fit 64 bits. */
static bool results_nested(const muster_tensor *tensor) {
    int64_t inside = 1;
    for (int32_t d = tensor->ndim - 1; d >= 0; d--) {
        const int64_t stride = tensor->strides[d] < 0 ? -tensor->strides[d] : tensor->strides[d];
        if (tensor->shape[d] <= 1) continue;
        if (stride < inside) return false;
        inside += stride * (tensor->shape[d] - 1);
    }
    return true;
}

/* Does every index have the same address in both? They have the same shape, up to leading sizes of
 * 1, and elements of the same size. */
static bool results_same_elements(const muster_tensor *a, const muster_tensor *b) {
    if (muster_tensor_address(*a) != muster_tensor_address(*b) || muster_dtype_size(a->dtype) != muster_dtype_size(b->dtype)) return false;
    const int32_t ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int32_t d = 1; d <= ndim; d++) {
        const int64_t n = d > a->ndim ? 1 : a->shape[a->ndim - d], m = d > b->ndim ? 1 : b->shape[b->ndim - d];
        if (n != m || (n > 1 && a->strides[a->ndim - d] != b->strides[b->ndim - d])) return false;
    }
    return true;
}

static muster_status refuse_repeats(const char *where, const char *what, const muster_tensor *tensor) {
    char shape[128], strides[128];
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected each element of the result once in memory, received shape %s with strides %s", where, what,
                     mst_shape_text(shape, tensor->ndim, tensor->shape), mst_shape_text(strides, tensor->ndim, tensor->strides));
}

static muster_status refuse_overlap(const char *where, const mst_operand *result, const mst_operand *other) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected memory that %s does not use%s, received views that overlap", where,
                     result->name, other->name,
                     (result->use & MST_IN_PLACE) && !mst_operand_is_result(other) ? ", or the same elements in the same layout" : "");
}

/* Does operand i, a result, overlap operand j where it must not? */
static bool results_collide(const mst_op_row *o, const muster_tensor *const *t, int32_t i, int32_t j) {
    const bool in_place = (o->operands[i].use & MST_IN_PLACE) && (o->operands[j].use & MST_IN);
    return !(in_place && results_same_elements(t[i], t[j])) && mst_tensors_overlap(t[i], t[j]);
}

muster_status mst_op_check_results(const mst_op_row *o, const muster_tensor *const *t, const char *where) {
    uintptr_t begin[MST_OPERANDS], end[MST_OPERANDS];
    int32_t count = 0;
    for (; count < MST_OPERANDS && o->operands[count].name; count++) {
        if (t[count]->dtype == MUSTER_DTYPE_NONE)
            begin[count] = end[count] = 0;
        else if (__builtin_expect(!results_span(t[count], &begin[count], &end[count]), 0)) {
            if (muster_tensor_count(*t[count]) > 0)
                return mst_error(MUSTER_OVERFLOW, "%s: %s: expected strides whose addresses fit 64 bits", where, o->operands[count].name);
            begin[count] = end[count] = 0; /* no element uses the strides */
        }
    }
    for (int32_t i = 0; i < count; i++) {
        if (!mst_operand_is_result(&o->operands[i]) || begin[i] == end[i]) continue;
        if (!results_nested(t[i]) && mst_tensor_repeats(t[i])) return refuse_repeats(where, o->operands[i].name, t[i]);
        for (int32_t j = 0; j < count; j++) {
            if (j == i || begin[i] >= end[j] || begin[j] >= end[i]) continue;
            if (results_collide(o, t, i, j)) return refuse_overlap(where, &o->operands[i], &o->operands[j]);
        }
    }
    return MUSTER_OK;
}

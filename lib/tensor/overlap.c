/* Do strided views share memory? The elements of a view lie at a lowest address plus a sum of one
 * term per axis, index times stride. Two views share a byte if some sum of the terms of both lies
 * in a certain range, where the terms of the second view count downwards. The search goes through
 * the axes from the largest stride to the smallest. At each axis it tries only the indices from
 * which the smaller axes can still get into the range. For views of one matrix these are one or
 * two. */
#include "tensor_impl.h"

#include <stdlib.h>

typedef __int128 wide; /* a sum over the axes of two views may not fit 64 bits */

/* A search that is not decided after this many steps counts as "shares memory". Of 20,000 random
 * pairs of views with 4 axes of up to 20 elements none needed more than 48,000. */
enum { MOST_STEPS = 1 << 16 };

typedef struct overlap_axis {
    uint64_t stride; /* in bytes; 2^63 is the largest */
    wide last;       /* the largest index */
} overlap_axis;

typedef struct overlap_search {
    overlap_axis axes[2 * MUSTER_MAX_DIMS]; /* by falling stride */
    int32_t count, steps;
    wide most[2 * MUSTER_MAX_DIMS + 1];    /* the largest sum of the terms from this axis on */
    uint64_t divisor[2 * MUSTER_MAX_DIMS]; /* of all strides from this axis on */
} overlap_search;

static uint64_t greatest_divisor(uint64_t a, uint64_t b) {
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t overlap_stride(const muster_tensor *tensor, int32_t axis) {
    const int64_t stride = tensor->strides[axis] * muster_dtype_size(tensor->dtype);
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

/* Axes with stride 0 or one index add nothing to a sum. */
static void add_axes(overlap_search *search, const muster_tensor *tensor) {
    for (int32_t i = 0; i < tensor->ndim; i++) {
        const uint64_t stride = tensor->shape[i] > 1 ? overlap_stride(tensor, i) : 0;
        if (stride) search->axes[search->count++] = (overlap_axis){stride, tensor->shape[i] - 1};
    }
}

static int by_falling_stride(const void *a, const void *b) {
    const uint64_t first = ((const overlap_axis *)a)->stride, second = ((const overlap_axis *)b)->stride;
    return first < second ? 1 : first > second ? -1 : 0;
}

/* Sorts the axes and joins those of equal stride, whose indices may then be added. */
static void sort_axes(overlap_search *search, bool join) {
    int32_t used = 0;
    qsort(search->axes, (size_t)search->count, sizeof search->axes[0], by_falling_stride);
    for (int32_t i = 0; i < search->count; i++) {
        if (join && used > 0 && search->axes[used - 1].stride == search->axes[i].stride)
            search->axes[used - 1].last += search->axes[i].last;
        else
            search->axes[used++] = search->axes[i];
    }
    search->count = used;
}

static void sum_axes(overlap_search *search) {
    search->steps = 0;
    search->most[search->count] = 0;
    for (int32_t i = search->count - 1; i >= 0; i--) {
        const overlap_axis *axis = &search->axes[i];
        search->most[i] = search->most[i + 1] + axis->last * axis->stride;
        search->divisor[i] = i + 1 < search->count ? greatest_divisor(search->divisor[i + 1], axis->stride) : axis->stride;
    }
}

/* Is some sum of the terms from axis `at` on in [low, high]? */
static bool sum_falls_into(overlap_search *search, int32_t at, wide low, wide high) {
    if (++search->steps > MOST_STEPS) return true;
    if (low <= 0 && high >= 0) return true; /* every index 0 */
    if (high < 0 || low > search->most[at]) return false;
    if (high / search->divisor[at] * search->divisor[at] < low) return false; /* the range holds no multiple of the divisor */
    const overlap_axis *axis = &search->axes[at];
    const wide rest = low - search->most[at + 1];
    wide index = rest > 0 ? (rest + axis->stride - 1) / axis->stride : 0;
    for (; index <= axis->last && index * axis->stride <= high; index++)
        if (sum_falls_into(search, at + 1, low - index * axis->stride, high - index * axis->stride)) return true;
    return false;
}

mst_span mst_tensor_span(const muster_tensor *tensor) {
    const int64_t size = muster_dtype_size(tensor->dtype);
    mst_span span = {0, size};
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) return (mst_span){0, 0};
        const int64_t width = (tensor->shape[i] - 1) * tensor->strides[i] * size;
        *(width < 0 ? &span.low : &span.high) += width;
    }
    return span;
}

bool mst_tensors_overlap(const muster_tensor *a, const muster_tensor *b) {
    const mst_span spans[2] = {mst_tensor_span(a), mst_tensor_span(b)};
    const wide length_a = (wide)spans[0].high - spans[0].low, length_b = (wide)spans[1].high - spans[1].low;
    overlap_search search = {.count = 0};
    if (length_a == 0 || length_b == 0) return false;
    /* from the lowest address of a to the lowest of b */
    const wide apart =
        (wide)(uintptr_t)muster_tensor_address(*b) + spans[1].low - (wide)(uintptr_t)muster_tensor_address(*a) - spans[0].low;
    if (apart >= length_a || -apart >= length_b) return false;
    add_axes(&search, a);
    add_axes(&search, b);
    sort_axes(&search, true);
    sum_axes(&search);
    const wide last_b = apart + length_b - muster_dtype_size(b->dtype); /* from the lowest of a to the last element of b */
    return sum_falls_into(&search, 0, last_b - (muster_dtype_size(a->dtype) - 1), last_b + muster_dtype_size(b->dtype) - 1);
}

/* Two indices of a view give one address if the sum of their differences is 0. Looks for such
 * differences that are 0 in all axes before `first` and positive there. */
static bool differences_cancel(const overlap_search *given, int32_t first) {
    overlap_search search = {.count = given->count - first};
    wide all = 0;
    for (int32_t i = 0; i < search.count; i++) {
        search.axes[i] = given->axes[first + i];
        if (i == 0) continue;
        all += search.axes[i].last * search.axes[i].stride;
        search.axes[i].last *= 2; /* from -last to last, counted from 0 */
    }
    search.axes[0].last--; /* from 1 on */
    sum_axes(&search);
    return sum_falls_into(&search, 0, all - search.axes[0].stride, all - search.axes[0].stride);
}

bool mst_tensor_repeats(const muster_tensor *tensor) {
    overlap_search search = {.count = 0};
    bool still = false;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) return false;
        still |= tensor->shape[i] > 1 && tensor->strides[i] == 0;
    }
    if (still) return true;
    add_axes(&search, tensor);
    sort_axes(&search, false);
    for (int32_t i = 0; i < search.count; i++)
        if (differences_cancel(&search, i)) return true;
    return false;
}

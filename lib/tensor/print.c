/* The text of a tensor, such as "f32 (2, 3) [[1, 2, 3], [4, 5, 6]]". */
#include "locale_impl.h"
#include "tensor_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Of an axis with more than MOST elements only the first and last EDGE are shown. */
enum { MOST = 8, EDGE = 3 };

typedef struct print_text {
    char *text;
    int64_t size, length; /* length: of the whole text, which may be longer than size */
} print_text;

static void add(print_text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(print_text *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int64_t left = to->length < to->size ? to->size - to->length : 0;
    const int added = mst_vsnprintf(left ? to->text + to->length : NULL, (size_t)left, format, arguments);
    va_end(arguments);
    if (added > 0) to->length += added;
}

static void print_element(print_text *to, muster_dtype dtype, const char *at) {
    if (dtype == MUSTER_I64) {
        add(to, "%" PRId64, *(const int64_t *)(const void *)at);
    } else if (dtype == MUSTER_U64) {
        add(to, "%" PRIu64, *(const uint64_t *)(const void *)at);
    } else if (dtype == MUSTER_BOOL) {
        add(to, "%s", *at ? "true" : "false");
    } else {
        double value = 0;
        mst_convert(MUSTER_F64, &value, dtype, at, 1);
        add(to, "%.*g", dtype == MUSTER_F64 ? 17 : dtype == MUSTER_F32 ? 9 : dtype == MUSTER_F16 || dtype == MUSTER_BF16 ? 5 : 10, value);
    }
}

/* The axes from `axis` on; `at` is the first element. No deeper than MUSTER_MAX_DIMS. */
static void print_axis(print_text *to, const muster_tensor *tensor, int32_t axis, const char *at) {
    if (axis == tensor->ndim) {
        print_element(to, tensor->dtype, at);
        return;
    }
    const int64_t n = tensor->shape[axis], stride = tensor->strides[axis] * muster_dtype_size(tensor->dtype);
    add(to, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) add(to, ", ");
        if (n > MOST && i == EDGE) {
            add(to, "..., ");
            i = n - EDGE;
        }
        print_axis(to, tensor, axis + 1, at + i * stride);
    }
    add(to, "]");
}

muster_status muster_tensor_print(muster_tensor tensor, char *text, int64_t size, int64_t *length) {
    char shape[128];
    print_text to = {.text = text, .size = size};
    if (length) *length = 0;
    if (size < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: size: expected 0 or more, received %" PRId64, __func__, size);
    if (size > 0 && !text) return mst_error_null(__func__, "text", "memory of `size` bytes");
    if (size > 0) text[0] = '\0';
    if (tensor.dtype == MUSTER_DTYPE_NONE) {
        add(&to, "no tensor");
    } else {
        MUSTER_TRY(mst_tensor_check(tensor, __func__, "tensor"));
        add(&to, "%s %s ", muster_dtype_name(tensor.dtype), mst_shape_text(shape, tensor.ndim, tensor.shape));
        if (tensor.device == MUSTER_DEVICE_HOST)
            print_axis(&to, &tensor, 0, muster_tensor_count(tensor) ? muster_tensor_address(tensor) : NULL);
        else
            add(&to, "in memory of rank %" PRId32, tensor.device);
    }
    if (length) *length = to.length;
    return MUSTER_OK;
}

/* Arguments: making them, and checking them against the declared parameters. */
#include "kernel_private.h"
#include "tensors_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What an argument holds, in `form`. */
enum { PLAIN, BASE, STRIDED, TOO_LARGE_FLOAT, TOO_LARGE_INT };

muster_argument muster_argument_buffer(muster_tensor tensor) {
    return (muster_argument){.type = MUSTER_PARAMETER_BUFFER, .tensor = tensor};
}
muster_argument muster_argument_strided(muster_tensor tensor) {
    return (muster_argument){.type = MUSTER_PARAMETER_BUFFER, .form = STRIDED, .tensor = tensor};
}
muster_argument muster_argument_base(muster_tensor tensor) {
    return (muster_argument){.type = MUSTER_PARAMETER_BUFFER, .form = BASE, .tensor = tensor};
}
muster_argument muster_argument_size(uint64_t value) { return (muster_argument){.type = MUSTER_PARAMETER_SIZE, .bits = value}; }
muster_argument muster_argument_ssize(int64_t value) { return (muster_argument){.type = MUSTER_PARAMETER_SSIZE, .bits = (uint64_t)value}; }
muster_argument muster_argument_bits(int32_t type, uint64_t bits) { return (muster_argument){.type = type, .bits = bits}; }

/* The integers that a type holds, lowest to highest; false: it is no integer type. */
static bool range(int32_t type, int64_t *lowest, uint64_t *highest) {
    const bool is_signed =
        type == MUSTER_I8 || type == MUSTER_I16 || type == MUSTER_I32 || type == MUSTER_I64 || type == MUSTER_PARAMETER_SSIZE;
    const int bits = 8 * mst_type_bytes(type);
    *lowest = 0;
    *highest = 1;
    if (type == MUSTER_BOOL) return true;
    if (bits == 0 || (type >= MUSTER_F16 && type <= MUSTER_F64)) return false;
    *highest = UINT64_MAX >> (64 - bits + is_signed);
    if (is_signed) *lowest = -(int64_t)*highest - 1;
    return true;
}

static uint64_t bits_of_float(int32_t type, double value) {
    if (type == MUSTER_F32) { /* without the general conversion, which takes as long as the rest of an argument */
        const float single = (float)value;
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        return bits;
    }
    _Alignas(8) unsigned char element[8] = {0};
    uint64_t bits = 0;
    uint32_t word;
    uint16_t half;
    mst_convert(type, element, MUSTER_F64, &value, 1);
    switch (mst_type_bytes(type)) {
    case 2:
        memcpy(&half, element, sizeof half), bits = half;
        break;
    case 4:
        memcpy(&word, element, sizeof word), bits = word;
        break;
    default:
        memcpy(&bits, element, sizeof bits);
    }
    return bits;
}

muster_argument muster_argument_int(int32_t type, int64_t value) {
    int64_t lowest;
    uint64_t highest;
    muster_argument made = {.type = type, .bits = (uint64_t)value};
    if (range(type, &lowest, &highest)) {
        if (value < lowest || (value > 0 && (uint64_t)value > highest)) made.form = TOO_LARGE_INT;
    } else if (mst_type_bytes(type) > 0) {
        _Alignas(8) unsigned char element[8] = {0};
        mst_convert(type, element, MUSTER_I64, &value, 1);
        uint16_t half;
        uint32_t word;
        if (mst_type_bytes(type) == 2)
            memcpy(&half, element, sizeof half), made.bits = half;
        else if (mst_type_bytes(type) == 4)
            memcpy(&word, element, sizeof word), made.bits = word;
        else
            memcpy(&made.bits, element, sizeof element);
    }
    return made;
}

muster_argument muster_argument_float(int32_t type, double value) {
    int64_t lowest;
    uint64_t highest;
    muster_argument made = {.type = type};
    if (type != MUSTER_F32 && range(type, &lowest, &highest)) {
        /* The first integer beyond the range is a power of two, which a double holds. */
        const double beyond = ldexp(1, highest == 1 ? 1 : 8 * mst_type_bytes(type) - (lowest < 0));
        const bool fits = value == floor(value) && value >= (double)lowest && value < beyond;
        if (fits)
            made.bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
        else
            made.form = TOO_LARGE_FLOAT, memcpy(&made.bits, &value, sizeof value);
    } else if (mst_type_bytes(type) > 0) {
        made.bits = bits_of_float(type, value);
    }
    return made;
}

/* ---- checking ---- */

typedef struct context {
    const char *where;
    muster_worker *worker;
    const muster_kernel *kernel;
    int32_t index;
} context;

#define REFUSE(code, format, ...) \
    mst_error(code, "%s: arguments[%d] of kernel '%.100s': " format, c->where, (int)c->index, c->kernel->name, __VA_ARGS__)

static muster_status refuse_value(const context *c, const muster_argument *argument) {
    double value;
    memcpy(&value, &argument->bits, sizeof value);
    if (argument->form == TOO_LARGE_FLOAT)
        return REFUSE(MUSTER_OUT_OF_RANGE, "expected a value that %s holds, received %.17g", mst_type_name(argument->type), value);
    return REFUSE(MUSTER_OUT_OF_RANGE, "expected a value that %s holds, received %lld", mst_type_name(argument->type),
                  (long long)argument->bits);
}

static void put_scalar(uint64_t bits, int32_t bytes, mst_program_value *value) {
    const uint8_t byte = (uint8_t)bits;
    const uint16_t half = (uint16_t)bits;
    const uint32_t word = (uint32_t)bits;
    memcpy(value->bytes,
           bytes == 1   ? (const void *)&byte
           : bytes == 2 ? (const void *)&half
           : bytes == 4 ? (const void *)&word
                        : (const void *)&bits,
           (size_t)bytes);
}

static muster_status refuse_device(const context *c, int32_t device) {
    const muster_runtime *runtime = c->kernel->object.runtime;
    char own_device[MST_DEVICE_TEXT], other[MST_DEVICE_TEXT];
    mst_runtime_device_text(c->kernel->object.runtime, c->worker->rank, own_device);
    if (device == MUSTER_DEVICE_HOST)
        return REFUSE(
            MUSTER_INVALID_ARGUMENT,
            "expected memory of device %s, received host memory; muster_worker_write or muster_runtime_tensor_copy copies it there",
            own_device);
    if (device < 0 || device >= runtime->size)
        return REFUSE(MUSTER_INVALID_ARGUMENT, "expected memory of device %s, received memory of device %d, which does not exist",
                      own_device, (int)device);
    mst_runtime_device_text(c->kernel->object.runtime, device, other);
    return REFUSE(MUSTER_INVALID_ARGUMENT,
                  "expected memory of device %s, received memory of device %s; muster_runtime_tensor_copy copies it there", own_device,
                  other);
}

/* Bytes from the first element to the lowest (0 or less) and to the end of the highest. They fit,
 * or the tensor would not be well-formed. */
static void byte_range(const muster_tensor *tensor, int64_t *low, int64_t *high) {
    const int64_t size = muster_dtype_size(tensor->dtype);
    *low = 0;
    *high = muster_tensor_count(*tensor) > 0 ? size : 0;
    for (int32_t d = 0; d<tensor->ndim && * high> 0; d++) {
        const int64_t last = (tensor->shape[d] - 1) * tensor->strides[d] * size;
        *(last < 0 ? low : high) += last;
    }
}

/* A tensor whose memory is known must not reach beyond it. */
static muster_status check_bounds(const context *c, const char *first, int64_t low, int64_t high) {
    const muster_runtime *runtime = c->kernel->object.runtime;
    const int64_t from_first = mst_runtime_tensor_extent(runtime, c->worker->rank, first),
                  from_low = low < 0 ? mst_runtime_tensor_extent(runtime, c->worker->rank, first + low) : from_first;
    if ((from_first < 0 && from_low < 0) || high == low) return MUSTER_OK;
    if (from_low >= high - low && from_first >= high) return MUSTER_OK;
    return REFUSE(MUSTER_OUT_OF_RANGE, "expected a view inside its tensor, received one of %lld bytes where %lld are left",
                  (long long)(high - low), (long long)(from_low >= 0 ? from_low : from_first + low));
}

static muster_status refuse_strided(const context *c, const muster_tensor *tensor) {
    char text[160] = "";
    size_t length = 0;
    for (int32_t d = 0; d < tensor->ndim && length < sizeof text - 24; d++)
        length += (size_t)snprintf(text + length, sizeof text - length, d ? ", %lld" : "%lld", (long long)tensor->strides[d]);
    return REFUSE(MUSTER_INVALID_ARGUMENT,
                  "expected a contiguous tensor, received one with the strides (%s%s); muster_argument_strided passes it to a source that "
                  "takes strides",
                  text, tensor->ndim == 1 ? "," : "");
}

static muster_status read_buffer(const context *c, const muster_argument *argument, mst_program_value *value) {
    const muster_tensor *tensor = &argument->tensor;
    const muster_worker *worker = c->worker;
    int64_t low, high;
    if (mst_tensor_absent(tensor)) {
        if (worker->scratch_status != MUSTER_OK) return mst_worker_kept_failure(worker, c->where, "arguments");
        return REFUSE(MUSTER_INVALID_ARGUMENT, "expected a tensor, received %s", "none");
    }
    muster_status status = mst_tensor_check(*tensor, c->where, "arguments");
    if (status != MUSTER_OK) {
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        return REFUSE(status, "%s", message + strlen(c->where) + strlen(": arguments: "));
    }
    if (tensor->device != worker->rank && !(tensor->device == MUSTER_DEVICE_HOST && mst_device_is_host(worker->device)))
        return refuse_device(c, tensor->device);
    /* The tensor was made by muster_runtime_tensor_create: it may have been destroyed, or belong to
     * another runtime. */
    if (tensor->device >= 0 && tensor->reserved[0] != 0) {
        char what[160];
        snprintf(what, sizeof what, "arguments[%d] of kernel '%.100s'", (int)c->index, c->kernel->name);
        MUSTER_TRY(mst_runtime_check_placed(c->kernel->object.runtime, *tensor, c->where, what));
    }
    if (argument->form == PLAIN && !mst_tensor_contiguous(*tensor)) return refuse_strided(c, tensor);
    char *const first = muster_tensor_address(*tensor);
    byte_range(tensor, &low, &high);
    MUSTER_TRY(check_bounds(c, first, low, high));
    const bool base = argument->form == BASE;
    value->address = base ? tensor->data : first;
    value->extent = high + (base ? tensor->byte_offset : 0);
    return MUSTER_OK;
}

static muster_status read_argument(const context *c, const muster_argument *argument, mst_program_value *value) {
    const int32_t expected = c->kernel->parameters[c->index];
    *value = (mst_program_value){0};
    if (argument->type != expected) {
        if (!mst_type_known(argument->type))
            return REFUSE(MUSTER_INVALID_ARGUMENT, "expected %s, received type %d, which does not exist", mst_type_name(expected),
                          (int)argument->type);
        return REFUSE(MUSTER_INVALID_ARGUMENT, "expected %s, received %s", mst_type_name(expected), mst_type_name(argument->type));
    }
    if (expected == MUSTER_PARAMETER_BUFFER) return read_buffer(c, argument, value);
    if (argument->form != PLAIN) return refuse_value(c, argument);
    put_scalar(argument->bits, mst_type_bytes(expected), value);
    return MUSTER_OK;
}

muster_status mst_arguments_read(muster_worker *worker, const muster_kernel *kernel, const char *where, const muster_argument *arguments,
                                 int32_t count, mst_program_value *values) {
    context c = {.where = where, .worker = worker, .kernel = kernel};
    if (count != kernel->parameter_count)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: argument_count of kernel '%.100s': expected %d, received %d", where, kernel->name,
                         (int)kernel->parameter_count, (int)count);
    if (count > 0 && !arguments)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: arguments of kernel '%.100s': expected %d, received NULL", where, kernel->name,
                         (int)count);
    for (; c.index < count; c.index++) MUSTER_TRY(read_argument(&c, &arguments[c.index], &values[c.index]));
    return MUSTER_OK;
}

/* The public constants and struct sizes by name. This is the rightmost module, so that it sees
 * every public header; tests/abi proves that nothing is missing. */
#include "muster/muster.h"

#include <string.h>

typedef struct constant {
    const char *name;
    int64_t value;
} constant;

#define CONSTANT(name) \
    { #name, name }
#define SIZE(type) \
    { "sizeof(" #type ")", (int64_t)sizeof(type) }

static const constant constants[] = {
    CONSTANT(MUSTER_VERSION_MAJOR),
    CONSTANT(MUSTER_VERSION_MINOR),
    CONSTANT(MUSTER_VERSION_PATCH),
    /* status.h */
    CONSTANT(MUSTER_OK),
    CONSTANT(MUSTER_INVALID_ARGUMENT),
    CONSTANT(MUSTER_SHAPE_MISMATCH),
    CONSTANT(MUSTER_DTYPE_MISMATCH),
    CONSTANT(MUSTER_OUT_OF_RANGE),
    CONSTANT(MUSTER_OVERFLOW),
    CONSTANT(MUSTER_OUT_OF_MEMORY),
    CONSTANT(MUSTER_UNSUPPORTED),
    CONSTANT(MUSTER_UNAVAILABLE),
    CONSTANT(MUSTER_BAD_STATE),
    CONSTANT(MUSTER_ABORTED),
    CONSTANT(MUSTER_TIMEOUT),
    CONSTANT(MUSTER_USER),
    CONSTANT(MUSTER_DEVICE_LOST),
    CONSTANT(MUSTER_SYSTEM),
    CONSTANT(MUSTER_INTERNAL),
    /* allocator.h */
    SIZE(muster_allocator_options),
    /* tensor.h */
    CONSTANT(MUSTER_DTYPE_NONE),
    CONSTANT(MUSTER_F16),
    CONSTANT(MUSTER_BF16),
    CONSTANT(MUSTER_F32),
    CONSTANT(MUSTER_F64),
    CONSTANT(MUSTER_I8),
    CONSTANT(MUSTER_U8),
    CONSTANT(MUSTER_I16),
    CONSTANT(MUSTER_I32),
    CONSTANT(MUSTER_I64),
    CONSTANT(MUSTER_U32),
    CONSTANT(MUSTER_U64),
    CONSTANT(MUSTER_BOOL),
    CONSTANT(MUSTER_MAX_DIMS),
    CONSTANT(MUSTER_DEVICE_HOST),
    SIZE(muster_tensor),
    /* buffer.h */
    CONSTANT(MUSTER_CAST_SAFE),
    CONSTANT(MUSTER_CAST_UNSAFE),
    /* dlpack.h */
    CONSTANT(MUSTER_DLPACK_READ_ONLY),
    CONSTANT(MUSTER_DLPACK_COPIED),
    SIZE(muster_dlpack_tensor),
    SIZE(muster_dlpack_versioned),
    SIZE(muster_dlpack_unversioned),
    /* ops.h */
    CONSTANT(MUSTER_SUM),
    CONSTANT(MUSTER_PROD),
    CONSTANT(MUSTER_MAX),
    CONSTANT(MUSTER_MIN),
    CONSTANT(MUSTER_AVG),
    CONSTANT(MUSTER_NEG),
    CONSTANT(MUSTER_ABS),
    CONSTANT(MUSTER_SQUARE),
    CONSTANT(MUSTER_SQRT),
    CONSTANT(MUSTER_EXP),
    CONSTANT(MUSTER_LOG),
    CONSTANT(MUSTER_TANH),
    CONSTANT(MUSTER_SIGMOID),
    CONSTANT(MUSTER_RELU),
    CONSTANT(MUSTER_RECIPROCAL),
    CONSTANT(MUSTER_SOFTPLUS),
    CONSTANT(MUSTER_ADD),
    CONSTANT(MUSTER_SUB),
    CONSTANT(MUSTER_MUL),
    CONSTANT(MUSTER_DIV),
    CONSTANT(MUSTER_MAXIMUM),
    CONSTANT(MUSTER_MINIMUM),
    CONSTANT(MUSTER_POW),
    CONSTANT(MUSTER_EQUAL),
    CONSTANT(MUSTER_NOT_EQUAL),
    CONSTANT(MUSTER_LESS),
    CONSTANT(MUSTER_LESS_EQUAL),
    CONSTANT(MUSTER_GREATER),
    CONSTANT(MUSTER_GREATER_EQUAL),
    /* runtime.h */
    SIZE(muster_device_info),
    SIZE(muster_runtime_options),
    /* variable.h */
    CONSTANT(MUSTER_SELECT_ALL),
    CONSTANT(MUSTER_SELECT_COUNT),
    CONSTANT(MUSTER_SELECT_RANGE),
    CONSTANT(MUSTER_SELECT_LIST),
    SIZE(muster_selection),
    /* function.h */
    CONSTANT(MUSTER_SCATTER),
    CONSTANT(MUSTER_BROADCAST),
    CONSTANT(MUSTER_MINIBATCH),
    CONSTANT(MUSTER_INPUT_HOST),
    CONSTANT(MUSTER_DEFAULT_STREAM_IGNORED),
    CONSTANT(MUSTER_DEFAULT_STREAM_ORDERED),
    CONSTANT(MUSTER_DEFAULT_STREAM_REFUSED),
    CONSTANT(MUSTER_GATHER),
    CONSTANT(MUSTER_MASTER),
    CONSTANT(MUSTER_USE_READ),
    CONSTANT(MUSTER_USE_READ_WRITE),
    CONSTANT(MUSTER_USE_READ_SLICEABLE),
    SIZE(muster_backend_body),
    SIZE(muster_port),
    CONSTANT(MUSTER_PORT_INPUT),
    CONSTANT(MUSTER_PORT_OUTPUT),
    CONSTANT(MUSTER_PORT_VARIABLE),
    CONSTANT(MUSTER_PORT_UPDATE),
    SIZE(muster_call_options),
    /* kernel.h */
    CONSTANT(MUSTER_PARAMETER_BUFFER),
    CONSTANT(MUSTER_PARAMETER_SIZE),
    CONSTANT(MUSTER_PARAMETER_SSIZE),
    CONSTANT(MUSTER_PARAMETER_USHORT),
    CONSTANT(MUSTER_KERNEL_PARAMETERS_MAX),
    CONSTANT(MUSTER_KERNEL_WARM_MAX),
    CONSTANT(MUSTER_KERNEL_DEFINES_MAX),
    SIZE(muster_kernel_options),
    SIZE(muster_argument),
    SIZE(muster_grid),
    SIZE(muster_kernel_limits),
    /* server.h */
    CONSTANT(MUSTER_RULE_ZERO),
    CONSTANT(MUSTER_RULE_COPY),
    CONSTANT(MUSTER_RULE_ADD),
    CONSTANT(MUSTER_RULE_ADD_SCALED),
    CONSTANT(MUSTER_RULE_USER),
    CONSTANT(MUSTER_INITIAL_MASTER),
    CONSTANT(MUSTER_INITIAL_OWN),
    CONSTANT(MUSTER_SEND_COPY),
    SIZE(muster_server_options),
    SIZE(muster_server_statistics),
    /* driver.h */
    SIZE(muster_driver_parts),
    SIZE(muster_driver_options),
    SIZE(muster_driver_counts),
};

int64_t muster_constant(const char *name) {
    for (size_t i = 0; name && i < sizeof constants / sizeof *constants; i++)
        if (strcmp(constants[i].name, name) == 0) return constants[i].value;
    return INT64_MIN;
}

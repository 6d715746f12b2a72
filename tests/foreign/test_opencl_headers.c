/* Each declaration of ours is Khronos': that this compiles is the test. Run, it says how many symbols were compared. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "base_check.h"
#include "opencl/opencl_api_impl.h"

#define EQUAL(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours);
#define SAME(name) EQUAL(MST_CL_##name, CL_##name)
SAME(SUCCESS)
SAME(DEVICE_NOT_FOUND) SAME(DEVICE_NOT_AVAILABLE) SAME(COMPILER_NOT_AVAILABLE) SAME(OUT_OF_RESOURCES) SAME(OUT_OF_HOST_MEMORY)
    SAME(BUILD_PROGRAM_FAILURE) SAME(COMPILE_PROGRAM_FAILURE) SAME(LINK_PROGRAM_FAILURE) SAME(INVALID_VALUE) SAME(INVALID_BINARY)
        SAME(INVALID_BUILD_OPTIONS) SAME(INVALID_KERNEL_NAME) SAME(PLATFORM_NAME) SAME(DEVICE_TYPE_CPU) SAME(DEVICE_MAX_COMPUTE_UNITS)
            SAME(DEVICE_MAX_WORK_ITEM_SIZES) SAME(DEVICE_MAX_MEM_ALLOC_SIZE) SAME(DEVICE_LOCAL_MEM_SIZE) SAME(DEVICE_AVAILABLE)
                SAME(DEVICE_COMPILER_AVAILABLE) SAME(DEVICE_NAME) SAME(DRIVER_VERSION) SAME(DEVICE_VERSION) SAME(DEVICE_EXTENSIONS)
                    SAME(DEVICE_PARTITION_EQUALLY) SAME(MEM_READ_WRITE) SAME(MEM_USE_HOST_PTR) SAME(PROGRAM_BINARY_SIZES)
                        SAME(PROGRAM_BINARIES) SAME(PROGRAM_BUILD_LOG) SAME(KERNEL_NUM_ARGS) SAME(KERNEL_WORK_GROUP_SIZE)
                            SAME(KERNEL_LOCAL_MEM_SIZE) SAME(COMPLETE) EQUAL(MST_CL_ALLOCATION_FAILURE, CL_MEM_OBJECT_ALLOCATION_FAILURE)
                                EQUAL(MST_CL_KERNEL_PREFERRED_MULTIPLE, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE)
                                    EQUAL(MST_CL_EVENT_EXECUTION_STATUS, CL_EVENT_COMMAND_EXECUTION_STATUS)

#define SAME_TYPE(result, name, arguments) _Static_assert(__builtin_types_compatible_p(__typeof__(name), result arguments), #name);
                                        MST_OPENCL_SYMBOLS(SAME_TYPE)

#define ONE(result, name, arguments) +1
                                            int main(void) {
    print_message("%d symbols\n", 0 MST_OPENCL_SYMBOLS(ONE));
    return 0;
}

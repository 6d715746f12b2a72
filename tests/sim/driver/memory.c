/* Allocation, page-locking, and what an address is. */
#include "driver_impl.h"

#include <stdlib.h>
#include <string.h>

mst_cu_result cuMemAlloc_v2(mst_cu_address *address, size_t bytes) {
    DRIVER_ENTER_DEVICE(cuMemAlloc_v2, sim_current_device());
    DRIVER_CONTEXT(context);
    if (!address) return MST_CU_INVALID_VALUE;
    uint64_t allocated;
    DRIVER_UNSAFE();
    sim_hazard_creation("cuMemAlloc");
    sim_result result = sim_memory_allocate(context->device, bytes, &allocated);
    if (result) return result;
    *address = allocated;
    sim_trace("alloc %d %llx %zu", context->device, *address, bytes);
    return SIM_OK;
}

mst_cu_result cuMemFree_v2(mst_cu_address address) {
    DRIVER_RELEASE(cuMemFree_v2, sim_current_device());
    sim_context *context;
    sim_result required = sim_require(&context);
    if (!context) return DRIVER_RESULT(required);
    DRIVER_UNSAFE();
    sim_result result = SIM_OK;
    if (address) {
        sim_hazard_creation("cuMemFree");
        sim_count_wait("cuMemFree");
        sim_trace("free %d %llx", context->device, address);
        result = sim_memory_release(address);
        if (result && !required) sim_hazard("cuMemFree: device %d: %#llx is not the start of an allocation", context->device, address);
    }
    return DRIVER_RESULT(required ? required : result);
}

mst_cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    DRIVER_ENTER(cuMemGetInfo_v2);
    DRIVER_CONTEXT(context);
    if (!free_bytes || !total_bytes) return MST_CU_INVALID_VALUE;
    *total_bytes = sim_state.options.memory;
    *free_bytes = sim_state.options.memory - sim_memory_used(context->device);
    return MST_CU_SUCCESS;
}

enum { PAGE = 4096, HOST_ALLOC_FLAGS = 7, HOST_REGISTER_FLAGS = 15 };

mst_cu_result cuMemHostAlloc(void **address, size_t bytes, unsigned int flags) {
    DRIVER_ENTER_DEVICE(cuMemHostAlloc, sim_current_device());
    DRIVER_CONTEXT(context);
    if (!address || !bytes || flags & ~(unsigned)HOST_ALLOC_FLAGS) return MST_CU_INVALID_VALUE;
    DRIVER_UNSAFE();
    sim_hazard_creation("cuMemHostAlloc");
    if (bytes > (size_t)1 << 40) return MST_CU_OUT_OF_MEMORY;
    void *memory = NULL;
    if (posix_memalign(&memory, PAGE, bytes) != 0) return MST_CU_OUT_OF_MEMORY;
    /* with unified addressing every context may use it */
    sim_result result = sim_locked_add(context->device, memory, bytes, true, true);
    if (result) {
        free(memory);
        return result;
    }
    *address = memory;
    return MST_CU_SUCCESS;
}

static mst_cu_result unlock(void *address, bool allocated, const char *symbol) {
    sim_context *context;
    sim_result required = sim_require(&context);
    if (!context) return required;
    DRIVER_UNSAFE();
    sim_hazard_creation(symbol);
    sim_result result = sim_locked_remove(address, allocated, symbol);
    if (result && !required)
        sim_hazard("%s: device %d: %p is not the start of page-locked memory of this kind", symbol, context->device, address);
    return required ? required : result;
}

mst_cu_result cuMemFreeHost(void *address) {
    DRIVER_RELEASE(cuMemFreeHost, sim_current_device());
    mst_cu_result result = address ? unlock(address, true, "cuMemFreeHost") : MST_CU_INVALID_VALUE;
    return DRIVER_RESULT(result);
}

mst_cu_result cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags) {
    DRIVER_ENTER_DEVICE(cuMemHostRegister_v2, sim_current_device());
    DRIVER_CONTEXT(context);
    if (!address || !bytes || flags & ~(unsigned)HOST_REGISTER_FLAGS) return MST_CU_INVALID_VALUE;
    DRIVER_UNSAFE();
    sim_hazard_creation("cuMemHostRegister");
    return sim_locked_add(context->device, address, bytes, flags & MST_CU_HOST_REGISTER_PORTABLE, false);
}

mst_cu_result cuMemHostUnregister(void *address) {
    DRIVER_RELEASE(cuMemHostUnregister, sim_current_device());
    mst_cu_result result = unlock(address, false, "cuMemHostUnregister");
    return DRIVER_RESULT(result);
}

enum { POINTER_DEVICE = 3, POINTER_HOST = 4, POINTER_RANGE_START = 11, POINTER_RANGE_SIZE = 12 };

typedef struct place { /* of an address */
    int device;
    bool is_device;
    uint64_t start, id;
    size_t bytes;
} place;

static bool find_place(uint64_t address, place *found) {
    sim_block *block = sim_memory_find(-1, address, 1);
    sim_locked *locked = block ? NULL : sim_locked_find(-1, (const void *)(uintptr_t)address, 1);
    if (block) *found = (place){sim_memory_device((const void *)(uintptr_t)address), true, block->address, block->id, block->bytes};
    if (locked) *found = (place){locked->device, false, (uint64_t)(uintptr_t)locked->start, 0, locked->bytes};
    return block || locked;
}

mst_cu_result cuPointerGetAttribute(void *value, unsigned int attribute, mst_cu_address address) {
    DRIVER_ENTER(cuPointerGetAttribute);
    DRIVER_CONTEXT(context);
    place found;
    if (!value || !find_place(address, &found)) return MST_CU_INVALID_VALUE;
    switch (attribute) {
    case MST_CU_POINTER_CONTEXT:
        *(mst_cu_context *)value = &sim_state.devices[found.device].context;
        break;
    case MST_CU_POINTER_MEMORY_TYPE:
        *(unsigned *)value = found.is_device ? MST_CU_MEMORY_TYPE_DEVICE : MST_CU_MEMORY_TYPE_HOST;
        break;
    case MST_CU_POINTER_DEVICE_ORDINAL:
        *(int *)value = found.device;
        break;
    case MST_CU_POINTER_BUFFER_ID:
        if (!found.id) return MST_CU_INVALID_VALUE;
        *(unsigned long long *)value = found.id;
        break;
    case POINTER_DEVICE:
        *(mst_cu_address *)value = address;
        break;
    case POINTER_HOST:
        if (found.is_device) return MST_CU_INVALID_VALUE;
        *(void **)value = (void *)(uintptr_t)address;
        break;
    case POINTER_RANGE_START:
        *(mst_cu_address *)value = found.start;
        break;
    case POINTER_RANGE_SIZE:
        *(size_t *)value = found.bytes;
        break;
    default:
        return MST_CU_INVALID_VALUE;
    }
    return MST_CU_SUCCESS;
}

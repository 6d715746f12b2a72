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
        if (sim_managed_release((void *)(uintptr_t)address)) return DRIVER_RESULT(required); /* not in the trace, as its allocation */
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
    const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE; /* its pages are its own */
    if (posix_memalign(&memory, PAGE, whole) != 0) return MST_CU_OUT_OF_MEMORY;
    /* with unified addressing every context may use it */
    sim_result result = sim_locked_add(context->device, memory, bytes, SIM_LOCKED_PORTABLE | SIM_LOCKED_ALLOCATED);
    if (result) {
        free(memory);
        return result;
    }
    ASAN_POISON_MEMORY_REGION((char *)memory + bytes, whole - bytes);
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
    const bool read_only = flags & MST_CU_HOST_REGISTER_READ_ONLY;
    const sim_mapping mapping = sim_mapping_of(address, bytes);
    if (sim_managed_touches(address, bytes)) return MST_CU_INVALID_VALUE;
    if (mapping == SIM_UNMAPPED || (mapping == SIM_READ_ONLY && !read_only)) return MST_CU_INVALID_VALUE;
    return sim_locked_add(context->device, address, bytes,
                          (flags & MST_CU_HOST_REGISTER_PORTABLE ? SIM_LOCKED_PORTABLE : 0) | (read_only ? SIM_LOCKED_READ_ONLY : 0));
}

mst_cu_result cuMemHostUnregister(void *address) {
    DRIVER_RELEASE(cuMemHostUnregister, sim_current_device());
    mst_cu_result result = unlock(address, false, "cuMemHostUnregister");
    return DRIVER_RESULT(result);
}

/* ---- managed memory ---- */

mst_cu_result cuMemAllocManaged(mst_cu_address *address, size_t bytes, unsigned int flags) {
    DRIVER_ENTER_DEVICE(cuMemAllocManaged, sim_current_device());
    DRIVER_CONTEXT(context);
    if (!address || !bytes || (flags != 1 && flags != 2)) return MST_CU_INVALID_VALUE; /* CU_MEM_ATTACH_GLOBAL, _HOST */
    sim_hazard_creation("cuMemAllocManaged");
    void *memory = sim_managed_allocate(context->device, bytes);
    if (!memory) return MST_CU_OUT_OF_MEMORY;
    *address = (uintptr_t)memory;
    return MST_CU_SUCCESS;
}

/* ---- what an address is ---- */

enum { POINTER_DEVICE = 3, POINTER_HOST = 4 };

typedef struct place { /* of an address; all 0: of none that the driver knows */
    unsigned type;
    int device;
    bool managed;
    uint64_t start, id; /* id: of an allocation of device memory; else 0 */
    size_t bytes;
} place;

static place find_place(uint64_t address) {
    const void *host = (const void *)(uintptr_t)address;
    sim_block *block = sim_memory_find(-1, address, 1);
    sim_locked *locked = block ? NULL : sim_locked_find(-1, host, 1);
    sim_managed managed;
    if (block) return (place){MST_CU_MEMORY_TYPE_DEVICE, sim_memory_device(host), false, block->address, block->id, block->bytes};
    if (locked)
        return (place){
            MST_CU_MEMORY_TYPE_HOST, locked->device, false, (uint64_t)(uintptr_t)locked->low, 0, (size_t)(locked->high - locked->low)};
    if (sim_managed_find(host, 1, &managed))
        return (place){MST_CU_MEMORY_TYPE_DEVICE, managed.device, true, (uint64_t)(uintptr_t)managed.start, 0, managed.bytes};
    return (place){0};
}

static sim_context *context_of(const place *found) { return found->type ? &sim_state.devices[found->device].context : NULL; }

static bool answer(const place *found, unsigned int attribute, uint64_t address, void *value) {
    const bool known = found->type != 0, host = found->type == MST_CU_MEMORY_TYPE_HOST || found->managed;
    switch (attribute) {
    case MST_CU_POINTER_CONTEXT:
        *(mst_cu_context *)value = context_of(found);
        return true;
    case MST_CU_POINTER_MEMORY_TYPE:
        *(unsigned *)value = found->type;
        return true;
    case MST_CU_POINTER_IS_MANAGED:
        *(unsigned *)value = found->managed;
        return true;
    case MST_CU_POINTER_DEVICE_ORDINAL:
        *(int *)value = known ? found->device : -1;
        return true;
    case MST_CU_POINTER_BUFFER_ID:
        *(unsigned long long *)value = found->id;
        return true;
    case POINTER_DEVICE:
        *(mst_cu_address *)value = known ? address : 0;
        return true;
    case POINTER_HOST:
        *(void **)value = host ? (void *)(uintptr_t)address : NULL;
        return true;
    case MST_CU_POINTER_RANGE_START:
        *(mst_cu_address *)value = found->start;
        return true;
    case MST_CU_POINTER_RANGE_BYTES:
        *(size_t *)value = found->bytes;
        return true;
    default:
        return false;
    }
}

mst_cu_result cuPointerGetAttributes(unsigned int count, unsigned int *attributes, void **values, mst_cu_address address) {
    DRIVER_ENTER(cuPointerGetAttributes);
    DRIVER_CONTEXT(context);
    (void)context;
    if (!count || !attributes || !values) return MST_CU_INVALID_VALUE;
    const place found = find_place(address);
    for (unsigned i = 0; i < count; i++)
        if (!answer(&found, attributes[i], address, values[i])) return MST_CU_INVALID_VALUE;
    return MST_CU_SUCCESS;
}

/* The same about one attribute, where what is not known is refused. */
mst_cu_result cuPointerGetAttribute(void *value, unsigned int attribute, mst_cu_address address) {
    DRIVER_ENTER(cuPointerGetAttribute);
    DRIVER_CONTEXT(context);
    (void)context;
    const place found = find_place(address);
    if (!value || !found.type || (attribute == MST_CU_POINTER_BUFFER_ID && !found.id)) return MST_CU_INVALID_VALUE;
    if (attribute == POINTER_HOST && found.type == MST_CU_MEMORY_TYPE_DEVICE && !found.managed) return MST_CU_INVALID_VALUE;
    return answer(&found, attribute, address, value) ? MST_CU_SUCCESS : MST_CU_INVALID_VALUE;
}

/* Primary contexts, the thread's current one, and peers. What only changes the thread's stack
 * succeeds with a spoiled context, too. */
#include "driver_impl.h"

mst_cu_result cuDevicePrimaryCtxRetain(mst_cu_context *context, mst_cu_device device) {
    DRIVER_ENTER_DEVICE(cuDevicePrimaryCtxRetain, device >= 0 && device < sim_device_count() ? device : -1);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!context) return MST_CU_INVALID_VALUE;
    if (device < 0 || device >= sim_device_count()) return MST_CU_INVALID_DEVICE;
    return sim_context_retain(device, context);
}

mst_cu_result cuDevicePrimaryCtxRelease_v2(mst_cu_device device) {
    if (!sim_device_count() || device < 0 || device >= sim_device_count()) {
        DRIVER_ENTER(cuDevicePrimaryCtxRelease_v2);
        return sim_device_count() ? MST_CU_INVALID_DEVICE : MST_CU_NOT_INITIALIZED;
    }
    DRIVER_RELEASE(cuDevicePrimaryCtxRelease_v2, device);
    sim_result result = sim_context_release(device);
    return DRIVER_RESULT(result);
}

mst_cu_result cuDevicePrimaryCtxReset_v2(mst_cu_device device) {
    DRIVER_ENTER(cuDevicePrimaryCtxReset_v2);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    return device < 0 || device >= sim_device_count() ? MST_CU_INVALID_DEVICE : sim_context_reset(device);
}

mst_cu_result cuCtxPushCurrent_v2(mst_cu_context context) {
    DRIVER_ENTER(cuCtxPushCurrent_v2);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    sim_context *pushed = sim_context_of(context);
    if (!pushed) return MST_CU_INVALID_CONTEXT;
    sim_context_push(pushed);
    return MST_CU_SUCCESS;
}

/* It does its work also where it fails on purpose, and on a context that is lost: else the caller
 * could not put back what was there. */
mst_cu_result cuCtxPopCurrent_v2(mst_cu_context *context) {
    const unsigned injected_ = sim_enter(&driver_symbols[INDEX_cuCtxPopCurrent_v2], -1);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    sim_context *popped = sim_context_pop();
    if (!popped) return MST_CU_INVALID_CONTEXT;
    if (context) *context = popped;
    return DRIVER_RESULT(MST_CU_SUCCESS);
}

mst_cu_result cuCtxGetCurrent(mst_cu_context *context) {
    DRIVER_ENTER(cuCtxGetCurrent);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!context) return MST_CU_INVALID_VALUE;
    *context = sim_current();
    return MST_CU_SUCCESS;
}

mst_cu_result cuCtxSetCurrent(mst_cu_context context) {
    DRIVER_ENTER(cuCtxSetCurrent);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    sim_context *set = sim_context_of(context);
    if (context && !set) return MST_CU_INVALID_CONTEXT;
    sim_context_set(set);
    return MST_CU_SUCCESS;
}

/* Knows one limit: the local memory of each thread. The launch of a kernel that needs more raises
 * it. */
mst_cu_result cuCtxGetLimit(size_t *value, unsigned int limit) {
    DRIVER_ENTER(cuCtxGetLimit);
    DRIVER_CONTEXT(context);
    if (!value) return MST_CU_INVALID_VALUE;
    if (limit != MST_CU_LIMIT_STACK_BYTES) return MST_CU_NOT_SUPPORTED;
    *value = atomic_load_explicit(&context->local_bytes, memory_order_relaxed);
    return MST_CU_SUCCESS;
}

mst_cu_result cuCtxEnablePeerAccess(mst_cu_context peer, unsigned int flags) {
    DRIVER_ENTER_DEVICE(cuCtxEnablePeerAccess, sim_current_device());
    DRIVER_CONTEXT(context);
    sim_context *other = sim_context_of(peer);
    if (flags) return MST_CU_INVALID_VALUE;
    if (!other || other == context) return MST_CU_INVALID_CONTEXT;
    if (sim_context_error(other)) return sim_context_error(other);
    if (!sim_peer_possible(context->device, other->device)) return MST_CU_PEER_ACCESS_UNSUPPORTED;
    DRIVER_UNSAFE();
    sim_hazard_creation("cuCtxEnablePeerAccess");
    unsigned before = atomic_fetch_or_explicit(&context->reaches, 1u << other->device, memory_order_relaxed);
    return before >> other->device & 1 ? MST_CU_PEER_ACCESS_ALREADY_ENABLED : MST_CU_SUCCESS;
}

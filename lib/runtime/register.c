/* Registered host memory, which devices copy from and to without staging. It is pinned for every
 * device that can do so, between calls. A device that cannot pin it stages its copies, and leaves a
 * notice for the log. */
#include "runtime_impl.h"

#include <string.h>

typedef struct mst_registered {
    char *address;
    int64_t bytes;
} mst_registered;

/* Unpins the memory for the first `count` devices. */
static void unlock(muster_runtime *runtime, void *address, int32_t count) {
    for (int32_t r = count - 1; r >= 0; r--) {
        mst_device *device = runtime->devices[r];
        if (device->host_memory) device->host_memory->unpin(device, address);
    }
}

static muster_status lock(muster_runtime *runtime, void *address, int64_t bytes) {
    for (int32_t r = 0; r < runtime->size; r++) {
        mst_device *device = runtime->devices[r];
        if (!device->host_memory) continue;
        const muster_status status = device->host_memory->pin(device, address, bytes);
        if (status == MUSTER_OK) continue;
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        unlock(runtime, address, r);
        return mst_error_restore(status, message);
    }
    return MUSTER_OK;
}

muster_status mst_runtime_register(muster_runtime *runtime, void *memory, int64_t bytes, const char *where) {
    char *address = memory;
    for (int64_t i = 0; i < runtime->registered_count; i++) {
        const mst_registered *other = &runtime->registered[i];
        if (address + bytes <= other->address || other->address + other->bytes <= address) continue;
        return mst_error(
            MUSTER_INVALID_ARGUMENT,
            "%s: address: expected memory that is not registered, received %lld bytes at %p, of which a part is in the %lld bytes at %p",
            where, (long long)bytes, (void *)address, (long long)other->bytes, (void *)other->address);
    }
    MUSTER_TRY(mst_grow((void **)&runtime->registered, &runtime->registered_capacity, runtime->registered_count + 1,
                        sizeof *runtime->registered, where));
    MUSTER_TRY(lock(runtime, address, bytes));
    runtime->registered[runtime->registered_count++] = (mst_registered){address, bytes};
    return MUSTER_OK;
}

muster_status muster_runtime_register_memory(muster_runtime *runtime, void *address, int64_t bytes) {
    static const char where[] = "muster_runtime_register_memory";
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    if (!address) return mst_error_null(where, "address", "memory of the program");
    if (bytes < 1 || (uintptr_t)bytes > UINTPTR_MAX - (uintptr_t)address)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: bytes: expected the size of the memory, received %lld", where, (long long)bytes);
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    const muster_status status = mst_runtime_register(runtime, address, bytes, where);
    mst_pool_leave(runtime->pool);
    if (status == MUSTER_OK) mst_runtime_log_notices(runtime);
    return status;
}

bool mst_runtime_unregister(muster_runtime *runtime, void *address) {
    for (int64_t i = 0; i < runtime->registered_count; i++) {
        if (runtime->registered[i].address != address) continue;
        unlock(runtime, address, runtime->size);
        memmove(runtime->registered + i, runtime->registered + i + 1,
                (size_t)(runtime->registered_count - i - 1) * sizeof *runtime->registered);
        runtime->registered_count--;
        return true;
    }
    return false;
}

muster_status muster_runtime_unregister_memory(muster_runtime *runtime, void *address) {
    static const char where[] = "muster_runtime_unregister_memory";
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    MUSTER_TRY(mst_pool_enter_to_end(runtime->pool, where));
    const bool found = mst_runtime_unregister(runtime, address);
    mst_pool_leave(runtime->pool);
    if (found) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: address: expected one that is registered, received %p", where, address);
}

void mst_runtime_unregister_all(muster_runtime *runtime) {
    while (runtime->registered_count > 0) unlock(runtime, runtime->registered[--runtime->registered_count].address, runtime->size);
    mst_free(runtime->registered);
}

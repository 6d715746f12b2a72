/* Opens NCCL, and translates its results into statuses. */
#include "nccl/nccl_impl.h"
#include "nccl_private.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static mst_nccl_api functions;
#define MST_FOREIGN_STRUCT mst_nccl_api
static const mst_foreign_symbol symbols[] = {MST_NCCL_SYMBOLS(MST_FOREIGN_NEEDED) MST_NCCL_OPTIONAL_SYMBOLS(MST_FOREIGN_OPTIONAL)};
#undef MST_FOREIGN_STRUCT
static const mst_foreign_library library = {"NCCL", (const char *const[]){"libnccl.so.2"}, 1, symbols, sizeof symbols / sizeof *symbols};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool opened;

muster_status mst_nccl_api_get(const mst_nccl_api **api) {
    pthread_mutex_lock(&lock);
    muster_status status = opened ? MUSTER_OK : mst_foreign_open(&library, &functions);
    opened = status == MUSTER_OK;
    pthread_mutex_unlock(&lock);
    *api = opened ? &functions : NULL;
    return status;
}

/* After a CUDA error inside NCCL, asks the device for its own error, which is more specific. */
static muster_status ask_device(const mst_device *device) {
    bool done;
    mst_device *asked = (mst_device *)(uintptr_t)device;
    return device && device->queue ? device->queue->poll(asked, &done) : MUSTER_OK;
}

/* NCCL has no result for a lack of device memory. It says it in the words of CUDA. */
static muster_status status_of(mst_nccl_result result, const char *words) {
    switch (result) {
    case MST_NCCL_UNHANDLED_CUDA_ERROR:
        return strstr(words, "out of memory") ? MUSTER_OUT_OF_MEMORY : MUSTER_SYSTEM;
    case MST_NCCL_INVALID_ARGUMENT:
    case MST_NCCL_INVALID_USAGE:
    case MST_NCCL_INTERNAL_ERROR:
        return MUSTER_INTERNAL;
    default:
        return MUSTER_SYSTEM;
    }
}

muster_status mst_nccl_error(const mst_nccl_api *api, mst_nccl_result result, const char *symbol, const mst_device *device) {
    if (result == MST_NCCL_SUCCESS || result == MST_NCCL_IN_PROGRESS) return MUSTER_OK;
    const char *text = api->ncclGetErrorString(result), *last = api->ncclGetLastError(NULL);
    char words[400];
    snprintf(words, sizeof words, "%s%s%.300s", text ? text : "an unknown result", last && *last ? ": " : "", last ? last : "");
    if (result == MST_NCCL_UNHANDLED_CUDA_ERROR) MUSTER_TRY(ask_device(device));
    return mst_error(status_of(result, words), "%s%sNCCL: %s: expected success, received %s (%u)", device ? device->name : "",
                     device ? ": " : "", symbol, words, result);
}

void mst_nccl_get_facts(mst_library_facts *facts) {
    const mst_nccl_api *api;
    int version = 0;
    if (!mst_cuda_has_driver(facts)) return;
    if (mst_nccl_api_get(&api) != MUSTER_OK) {
        mst_library_missing(facts);
        return;
    }
    if (api->ncclGetVersion(&version) == MST_NCCL_SUCCESS) /* 2.19.3 is 21903 */
        snprintf(facts->version, sizeof facts->version, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    mst_library_found(facts, &api->ncclGetVersion);
}

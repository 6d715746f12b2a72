/* A profiler as NVTX loads one: it takes the places of the functions that it wants to see. */
#include "profiler.h"

#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static profiler_seen all;
static _Thread_local int32_t depth;
static char the_domain;

static nvtxDomainHandle_t NVTX_API create_domain(const char *name) {
    pthread_mutex_lock(&lock);
    all.domains++;
    snprintf(all.domain, sizeof all.domain, "%s", name);
    pthread_mutex_unlock(&lock);
    return (nvtxDomainHandle_t)(void *)&the_domain;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes) {
    pthread_mutex_lock(&lock);
    all.faults += (void *)domain != &the_domain || attributes->messageType != NVTX_MESSAGE_TYPE_ASCII ||
                  attributes->payloadType != NVTX_PAYLOAD_TYPE_INT64;
    if (all.pushes < PROFILER_RANGES) {
        profiler_range *range = &all.ranges[all.pushes];
        *range = (profiler_range){
            .payload = attributes->payload.llValue, .category = attributes->category, .thread = syscall(SYS_gettid), .depth = depth};
        snprintf(range->name, sizeof range->name, "%s", attributes->message.ascii);
    }
    all.pushes++;
    pthread_mutex_unlock(&lock);
    return depth++;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
    pthread_mutex_lock(&lock);
    all.faults += (void *)domain != &the_domain || depth == 0;
    all.pops++;
    pthread_mutex_unlock(&lock);
    return --depth;
}

__attribute__((visibility("default"))) void profiler_look_at(profiler_seen *seen);
void profiler_look_at(profiler_seen *seen) {
    pthread_mutex_lock(&lock);
    *seen = all;
    pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
    const NvtxExportTableCallbacks *callbacks = tables(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions;
    unsigned int size;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) || size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *functions[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *functions[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    *functions[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
    return 1;
}

/* The only file that sees the NVTX header. It brings its own implementation, which looks for a
 * profiler at its first call and never again. */
#include "nvtx_impl.h"

#include "own_thread_impl.h"

#ifdef MST_NVTX_FOUND

#include <nvtx3/nvToolsExt.h>

#include <pthread.h>
#include <stdlib.h>

static nvtxDomainHandle_t domain;
static pthread_once_t once = PTHREAD_ONCE_INIT;

bool mst_nvtx_built(void) { return true; }

static muster_status create_domain(void *unused) {
    (void)unused;
    domain = nvtxDomainCreateA("muster"); /* NULL without a profiler */
    return MUSTER_OK;
}

/* NVTX opens the profiler's library, and has large frames of its own. Without a thread there is no
 * domain. */
static void open_once(void) { (void)mst_own_thread_run(create_domain, NULL, "NVTX"); }

bool mst_nvtx_open(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    /* Without the variable NVTX is not even asked: a profiler that is named later in the life of
     * the process still gets its chance. */
    if (!path || !*path) return false;
    pthread_once(&once, open_once);
    return domain != NULL;
}

void mst_nvtx_push(const char *name, uint32_t category, int64_t bytes) {
    nvtxEventAttributes_t attributes = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .category = category,
        .payloadType = NVTX_PAYLOAD_TYPE_INT64,
        .payload.llValue = bytes,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name ? name : "?",
    };
    nvtxDomainRangePushEx(domain, &attributes);
}

void mst_nvtx_pop(void) { nvtxDomainRangePop(domain); }

#else

bool mst_nvtx_built(void) { return false; }
bool mst_nvtx_open(void) { return false; }
void mst_nvtx_push(const char *name, uint32_t category, int64_t bytes) { (void)name, (void)category, (void)bytes; }
void mst_nvtx_pop(void) {}

#endif

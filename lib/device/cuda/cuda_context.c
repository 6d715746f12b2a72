/* Contexts, errors, and lost devices. */
#include "cuda_device_private.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void lose(mst_cuda_physical *physical, const char *reason) {
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&physical->lost, memory_order_relaxed)) {
        snprintf(physical->reason, sizeof physical->reason, "%s", reason);
        atomic_store_explicit(&physical->lost, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

void mst_cuda_lose(mst_device *device, const char *reason) { lose(mst_cuda_of(device)->physical, reason); }

static _Atomic int32_t given_up;

void mst_cuda_give_up(mst_device *device, const char *reason) {
    mst_cuda_lose(device, reason);
    mst_cuda_leave_running();
}

void mst_cuda_leave_running(void) { atomic_fetch_add(&given_up, 1); }

int32_t mst_cuda_given_up(void) { return atomic_load(&given_up); }

muster_status mst_cuda_report_lost(const mst_cuda *cuda) {
    return mst_error(MUSTER_DEVICE_LOST, "%s is lost until the process ends, because of: %.400s", cuda->label, cuda->physical->reason);
}

muster_status mst_cuda_failed(mst_cuda *cuda, mst_cu_result result, const char *symbol) {
    muster_status status = mst_cuda_error(cuda->api, result, symbol, cuda->label);
    if (status == MUSTER_DEVICE_LOST) lose(cuda->physical, muster_last_error());
    return status;
}

/* cuBLAS hides the driver's error, so the stream is queried for it. */
muster_status mst_cuda_blas_failed(mst_cuda *cuda, mst_cublas_status result, const char *symbol) {
    mst_cu_result cause = cuda->compute ? cuda->api->cuStreamQuery(cuda->compute) : MST_CU_SUCCESS;
    if (mst_cuda_error_is_sticky(cause)) return mst_cuda_failed(cuda, cause, symbol);
    return mst_cublas_error(cuda->blas_api, result, symbol, cuda->label);
}

/* ---- the thread's context ---- */

muster_status mst_cuda_begin(mst_cuda *cuda, mst_cuda_scope *scope) {
    *scope = (mst_cuda_scope){0};
    if (__builtin_expect(mst_cuda_is_lost(cuda), 0)) return mst_cuda_report_lost(cuda);
    MUSTER_TRY(MST_CU(cuda, cuCtxGetCurrent, &scope->before));
    if (scope->before == cuda->context) return MUSTER_OK;
    MUSTER_TRY(MST_CU(cuda, cuCtxPushCurrent_v2, cuda->context));
    scope->pushed = true;
    return MUSTER_OK;
}

muster_status mst_cuda_end(mst_cuda *cuda, const mst_cuda_scope *scope, muster_status status) {
    if (!scope->pushed) return status;
    mst_cu_context popped;
    mst_cu_result result = cuda->api->cuCtxPopCurrent_v2(&popped);
    if (__builtin_expect(result == MST_CU_SUCCESS, 1)) return status;
    (void)cuda->api->cuCtxSetCurrent(scope->before); /* the stack keeps one context too many, but its top is right */
    return status == MUSTER_OK ? mst_cuda_failed(cuda, result, "cuCtxPopCurrent_v2") : status;
}

/* These two may be nested, so they always push and pop. */
muster_status mst_cuda_enter(mst_device *device) {
    mst_cuda *cuda = mst_cuda_of(device);
    if (mst_cuda_is_lost(cuda)) return mst_cuda_report_lost(cuda);
    return MST_CU(cuda, cuCtxPushCurrent_v2, cuda->context);
}

muster_status mst_cuda_leave(mst_device *device) {
    mst_cu_context popped;
    return MST_CU(mst_cuda_of(device), cuCtxPopCurrent_v2, &popped);
}

/* ---- peers ---- */

static muster_status enable_peer(mst_cuda *cuda, const mst_cuda *other, bool *access) {
    int can = 0;
    MUSTER_TRY(MST_CU(cuda, cuDeviceCanAccessPeer, &can, cuda->device, other->device));
    if (!can) return MUSTER_OK;
    mst_cu_result result = cuda->api->cuCtxEnablePeerAccess(other->context, 0);
    /* Too many peers, or no support after all: slower ways to copy remain. */
    if (result == MST_CU_TOO_MANY_PEERS || result == MST_CU_PEER_ACCESS_UNSUPPORTED) return MUSTER_OK;
    if (result != MST_CU_PEER_ACCESS_ALREADY_ENABLED) MUSTER_TRY(mst_cuda_check(cuda, result, "cuCtxEnablePeerAccess"));
    *access = true;
    return MUSTER_OK;
}

muster_status mst_cuda_peer_access(mst_device *device, mst_device *other, bool *access) {
    mst_cuda *cuda = mst_cuda_of(device);
    *access = false;
    if (!mst_device_is_cuda(other)) return MUSTER_OK;
    if (mst_cuda_of(other)->context == cuda->context) {
        *access = true;
        return MUSTER_OK;
    }
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, enable_peer(cuda, mst_cuda_of(other), access));
}

muster_status mst_cuda_check_between_calls(const mst_cuda *cuda, const char *what) {
    if (!cuda->head.in_flight) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: %s: expected to be asked between calls, received a call in flight", cuda->label, what);
}

/* ---- notices ---- */

enum { NOTICES = 16 };
static char notices[NOTICES][MST_MESSAGE_SIZE];
static int32_t notice_count;

void mst_cuda_add_notice(const char *text) {
    pthread_mutex_lock(&lock);
    if (notice_count < NOTICES) snprintf(notices[notice_count++], sizeof notices[0], "%s", text);
    pthread_mutex_unlock(&lock);
}

bool mst_cuda_take_notice(char text[MST_MESSAGE_SIZE]) {
    pthread_mutex_lock(&lock);
    bool found = notice_count > 0;
    if (found) {
        memcpy(text, notices[0], sizeof notices[0]);
        memmove(notices[0], notices[1], (size_t)--notice_count * sizeof notices[0]);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void *mst_cuda_stream(const mst_device *device) { return mst_cuda_of(device)->compute; }
void *mst_cuda_blas(const mst_device *device) { return mst_cuda_of(device)->blas; }
int32_t mst_cuda_ordinal(const mst_device *device) { return mst_cuda_of(device)->ordinal; }

/* Contexts, errors, and lost devices. */
#include "cuda_device_private.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* False: it was lost before. */
static bool lose(mst_cuda_physical *physical, const char *reason) {
    pthread_mutex_lock(&lock);
    const bool first = !atomic_load_explicit(&physical->lost, memory_order_relaxed);
    if (first) {
        snprintf(physical->reason, sizeof physical->reason, "%s", reason);
        atomic_store_explicit(&physical->lost, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return first;
}

void mst_cuda_lose(mst_device *device, const char *reason) { (void)lose(mst_cuda_of(device)->physical, reason); }

static _Atomic int32_t given_up;
_Atomic bool mst_cuda_stuck_work;

void mst_cuda_give_up(mst_device *device, const char *reason) {
    mst_cuda_lose(device, reason);
    mst_cuda_leave_running();
}

void mst_cuda_leave_running(void) { atomic_fetch_add(&given_up, 1); }

int32_t mst_cuda_given_up(void) { return atomic_load(&given_up); }

muster_status mst_cuda_report_lost(const mst_cuda *cuda) {
    return mst_error(MUSTER_DEVICE_LOST, "%s is lost until the process ends, because of: %.400s", cuda->label, cuda->physical->reason);
}

enum { CONFIRMATIONS = 2 };

/* UNKNOWN is what a call may say that failed for once. A GPU that has fallen off the bus says it of
 * everything, for ever. */
static bool stays_unknown(const mst_cuda *cuda) {
    for (int i = 0; i < CONFIRMATIONS; i++) {
        if (!cuda->compute || cuda->api->cuStreamQuery(cuda->compute) != MST_CU_UNKNOWN) return false;
    }
    return true;
}

/* The message so far, and its end. */
static muster_status lost_because(const char *end) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    return mst_error(MUSTER_DEVICE_LOST, "%.440s%s", message, end);
}

/* After an error that does not say whether the work has ended, the work may go on, and write memory
 * of any device. */
static bool work_may_go_on(mst_cu_result result) { return result == MST_CU_UNKNOWN || result == MST_CU_MPS_RPC_FAILURE; }

muster_status mst_cuda_failed(mst_cuda *cuda, mst_cu_result result, const char *symbol) {
    muster_status status = mst_cuda_error(cuda->api, result, symbol, cuda->label);
    if (result == MST_CU_INVALID_CONTEXT || result == MST_CU_INVALID_HANDLE || result == MST_CU_CONTEXT_IS_DESTROYED)
        MUSTER_TRY(mst_cuda_check_reset(cuda));
    if (result == MST_CU_UNKNOWN && stays_unknown(cuda)) status = lost_because("; the next 2 queries of its stream say the same");
    if (status == MUSTER_DEVICE_LOST && lose(cuda->physical, muster_last_error()) && work_may_go_on(result)) mst_cuda_leave_running();
    return status;
}

/* cuBLAS hides the driver's error, so the stream is queried for it. */
muster_status mst_cuda_blas_failed(mst_cuda *cuda, mst_cublas_status result, const char *symbol) {
    mst_cu_result cause = cuda->compute ? cuda->api->cuStreamQuery(cuda->compute) : MST_CU_SUCCESS;
    if (mst_cuda_error_is_sticky(cause)) return mst_cuda_failed(cuda, cause, symbol);
    return mst_cublas_error(cuda->blas_api, result, symbol, cuda->label);
}

/* ---- the thread's capture mode ---- */

static _Thread_local struct {
    int32_t depth;
    unsigned int before; /* the mode that the thread had at depth 0 */
} relaxed;

muster_status mst_cuda_relax(mst_cuda *cuda) {
    if (relaxed.depth == 0) {
        unsigned int mode = MST_CU_CAPTURE_RELAXED;
        MUSTER_TRY(MST_CU(cuda, cuThreadExchangeStreamCaptureMode, &mode));
        relaxed.before = mode;
    }
    relaxed.depth++;
    return MUSTER_OK;
}

void mst_cuda_unrelax(const mst_cuda *cuda) {
    if (--relaxed.depth > 0) return;
    for (int i = 0; i < 2; i++) { /* once more if it fails: the thread may be the program's */
        unsigned int mode = relaxed.before;
        if (cuda->api->cuThreadExchangeStreamCaptureMode(&mode) == MST_CU_SUCCESS) return;
    }
}

/* ---- the thread's context ---- */

/* A context that the program has reset is not current afterwards. */
static muster_status push_context(mst_cuda *cuda) {
    MUSTER_TRY(MST_CU(cuda, cuCtxPushCurrent_v2, cuda->context));
    const muster_status status = mst_cuda_check_reset(cuda);
    if (status != MUSTER_OK) (void)cuda->api->cuCtxPopCurrent_v2(&(mst_cu_context){NULL});
    return status;
}

static muster_status enter_context(mst_cuda *cuda, mst_cuda_scope *scope) {
    MUSTER_TRY(MST_CU(cuda, cuCtxGetCurrent, &scope->before));
    if (scope->before == cuda->context) return MUSTER_OK;
    const muster_status status = push_context(cuda);
    scope->pushed = status == MUSTER_OK;
    return status;
}

muster_status mst_cuda_begin(mst_cuda *cuda, mst_cuda_scope *scope) {
    *scope = (mst_cuda_scope){0};
    if (__builtin_expect(mst_cuda_is_lost(cuda), 0)) return mst_cuda_report_lost(cuda);
    MUSTER_TRY(mst_cuda_relax(cuda));
    const muster_status status = enter_context(cuda, scope);
    if (__builtin_expect(status != MUSTER_OK, 0)) mst_cuda_unrelax(cuda);
    return status;
}

static muster_status leave_context(mst_cuda *cuda, const mst_cuda_scope *scope, muster_status status) {
    if (!scope->pushed) return status;
    mst_cu_context popped;
    mst_cu_result result = cuda->api->cuCtxPopCurrent_v2(&popped);
    if (__builtin_expect(result == MST_CU_SUCCESS, 1)) return status;
    (void)cuda->api->cuCtxSetCurrent(scope->before); /* the stack keeps one context too many, but its top is right */
    return status == MUSTER_OK ? mst_cuda_failed(cuda, result, "cuCtxPopCurrent_v2") : status;
}

muster_status mst_cuda_end(mst_cuda *cuda, const mst_cuda_scope *scope, muster_status status) {
    const muster_status left = leave_context(cuda, scope, status);
    mst_cuda_unrelax(cuda);
    return left;
}

/* ---- a context that the program has reset ---- */

muster_status mst_cuda_remember_workspace(mst_cuda *cuda) {
    return MST_CU(cuda, cuPointerGetAttribute, &cuda->workspace_id, MST_CU_POINTER_BUFFER_ID, cuda->blas_workspace);
}

/* Numbers of allocations do not repeat in a process: an allocation of the program's at the same
 * address has another one. */
static bool workspace_seems_gone(const mst_cuda *cuda) {
    unsigned int type = 0;
    unsigned long long id = 0;
    mst_cu_result result = cuda->api->cuPointerGetAttribute(&type, MST_CU_POINTER_MEMORY_TYPE, cuda->blas_workspace);
    if (result == MST_CU_SUCCESS) result = cuda->api->cuPointerGetAttribute(&id, MST_CU_POINTER_BUFFER_ID, cuda->blas_workspace);
    if (result == MST_CU_SUCCESS) return id != cuda->workspace_id;
    return result == MST_CU_INVALID_VALUE || result == MST_CU_INVALID_CONTEXT || result == MST_CU_CONTEXT_IS_DESTROYED;
}

/* Asked again, as a call may fail for once. */
static bool workspace_is_gone(const mst_cuda *cuda) {
    if (cuda->workspace_id == 0) return false;
    for (int i = 0; i < 1 + CONFIRMATIONS; i++) {
        if (!workspace_seems_gone(cuda)) return false;
    }
    return true;
}

muster_status mst_cuda_check_reset(mst_cuda *cuda) {
    if (__builtin_expect(!workspace_is_gone(cuda), 1)) return MUSTER_OK;
    mst_error(MUSTER_DEVICE_LOST,
              "%s: the program has reset the primary context (cudaDeviceReset or cuDevicePrimaryCtxReset) while a runtime used it, so "
              "that the runtime's memory, streams and events are gone",
              cuda->label);
    (void)lose(cuda->physical, muster_last_error());
    return MUSTER_DEVICE_LOST;
}

/* These two may be nested, so they always push and pop. */
muster_status mst_cuda_enter(mst_device *device) {
    mst_cuda *cuda = mst_cuda_of(device);
    if (mst_cuda_is_lost(cuda)) return mst_cuda_report_lost(cuda);
    MUSTER_TRY(mst_cuda_relax(cuda));
    const muster_status status = push_context(cuda);
    if (status != MUSTER_OK) mst_cuda_unrelax(cuda);
    return status;
}

muster_status mst_cuda_leave(mst_device *device) {
    mst_cuda *cuda = mst_cuda_of(device);
    mst_cu_context popped;
    const mst_cu_result result = cuda->api->cuCtxPopCurrent_v2(&popped);
    mst_cuda_unrelax(cuda);
    /* A body has popped what it had not pushed: with no context, nothing can be said of the
     * device. */
    if (result == MST_CU_INVALID_CONTEXT) return mst_cuda_error(cuda->api, result, "cuCtxPopCurrent_v2", cuda->label);
    return mst_cuda_check(cuda, result, "cuCtxPopCurrent_v2");
}

/* ---- between calls ---- */

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
void *mst_cuda_work_stream(const mst_device *device) { return mst_cuda_stream_of(mst_cuda_of(device), device->work_queue); }
void *mst_cuda_blas(const mst_device *device) { return mst_cuda_of(device)->blas; }
int32_t mst_cuda_ordinal(const mst_device *device) { return mst_cuda_of(device)->ordinal; }

/* The CUDA backend. A device is a GPU, or one of several virtual devices of one GPU. It has its own
 * streams, memory and handles in the GPU's primary context, which all users of the GPU in the
 * process share. */
#include "cuda_device_private.h"
#include "own_thread_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 3 }; /* to enter a context in order to close it: a failure would leak everything in it */

static mst_cuda_physical physicals[MST_CUDA_DEVICES];

mst_cuda_physical *mst_cuda_physical_of(int32_t ordinal) { return &physicals[ordinal]; }

void mst_cuda_forget_lost(void) {
    for (int32_t i = 0; i < MST_CUDA_DEVICES; i++) {
        atomic_store(&physicals[i].lost, false);
        atomic_store(&physicals[i].stuck, false);
    }
    atomic_store(&mst_cuda_stuck_work, false);
    mst_cuda_forget_unpinned();
    mst_cuda_forget_peers();
}

/* ---- opening ---- */

static muster_status read_attribute(mst_cuda *cuda, unsigned int attribute, int32_t *value) {
    int read = 0;
    MUSTER_TRY(MST_CU(cuda, cuDeviceGetAttribute, &read, attribute, cuda->device));
    *value = read;
    return MUSTER_OK;
}

/* Managed memory that the CPU touches while a kernel of such a GPU runs kills the process. */
static muster_status read_managed(mst_cuda *cuda) {
    int32_t managed = 0, concurrent = 0;
    MUSTER_TRY(read_attribute(cuda, MST_CU_ATTRIBUTE_MANAGED_MEMORY, &managed));
    MUSTER_TRY(read_attribute(cuda, MST_CU_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &concurrent));
    cuda->exclusive_managed = managed && !concurrent;
    return MUSTER_OK;
}

static muster_status describe(mst_cuda *cuda) {
    int32_t major = 0, minor = 0;
    char model[48] = "";
    MUSTER_TRY(MST_CU(cuda, cuDeviceGet, &cuda->device, cuda->ordinal));
    MUSTER_TRY(MST_CU(cuda, cuDeviceGetName, model, (int)sizeof model, cuda->device));
    MUSTER_TRY(read_attribute(cuda, MST_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, &cuda->processors));
    MUSTER_TRY(read_attribute(cuda, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    MUSTER_TRY(read_attribute(cuda, MST_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    MUSTER_TRY(mst_cuda_check_capability(cuda->label, model, major, minor));
    cuda->architecture = cuda->head.capability = 10 * major + minor;
    MUSTER_TRY(read_managed(cuda));
    if (cuda->processors < 1) cuda->processors = 1;
    snprintf(cuda->head.name, sizeof cuda->head.name, "%s %.47s", cuda->label, model);
    return MUSTER_OK;
}

/* Warns about CUDA_LAUNCH_BLOCKING=1. NCCL's kernels wait for kernels on other devices, which the
 * same thread could not launch meanwhile. */
static void notice_environment(const mst_cuda *cuda) {
    static _Atomic bool said;
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    int count = 0;
    if (!blocking || strcmp(blocking, "1") != 0) return;
    if (cuda->api->cuDeviceGetCount(&count) != MST_CU_SUCCESS || count < 2 || atomic_exchange(&said, true)) return;
    mst_cuda_add_notice(
        "CUDA_LAUNCH_BLOCKING=1: every launch waits for its kernel, which is slow, and with several GPUs can wait for ever");
}

/* Call it with the context current. */
static muster_status open_parts(mst_cuda *cuda) {
    MUSTER_TRY(mst_cuda_open_queues(cuda));
    MUSTER_TRY(mst_cuda_open_memory(cuda));
    MUSTER_TRY(mst_cuda_open_staging(cuda));
    MUSTER_TRY(mst_cuda_open_loading(cuda));
    MUSTER_TRY(mst_cuda_open_blas(cuda));
    MUSTER_TRY(mst_cuda_remember_workspace(cuda));
    return mst_cuda_open_code(cuda);
}

/* In reverse order. */
static void close_parts(mst_cuda *cuda) {
    mst_cuda_close_code(cuda);
    mst_cuda_close_dnn(cuda);
    mst_cuda_close_blas(cuda);
    mst_cuda_close_staging(cuda);
    mst_cuda_close_memory(cuda);
    mst_cuda_close_queues(cuda);
    mst_cuda_end_host(cuda);
}

static void free_host_parts(mst_cuda *cuda) {
    mst_cuda_forget_host(cuda);
    mst_cuda_forget_events(cuda);
    mst_cuda_forget_code(cuda);
    mst_free(cuda->products);
    mst_free(cuda->segments);
    mst_slab_end(&cuda->slab);
    mst_free(cuda);
}

static void report_leak(const mst_cuda *cuda, const char *why) {
    char text[MST_MESSAGE_SIZE];
    snprintf(text, sizeof text, "%s is closed, but %s: its memory and handles are kept until the process ends", cuda->label, why);
    mst_cuda_add_notice(text);
}

static void close_relaxed(mst_cuda *cuda) {
    mst_cuda_scope scope;
    muster_status entered = MUSTER_INTERNAL;
    for (int i = 0; i < ATTEMPTS && entered != MUSTER_OK; i++) entered = mst_cuda_begin(cuda, &scope);
    if (entered != MUSTER_OK) {
        if (cuda->own_stream)
            report_leak(cuda, mst_cuda_is_lost(cuda) ? "it is lost" : "its context cannot be entered");
        else
            (void)cuda->api->cuDevicePrimaryCtxRelease_v2(cuda->device);
        return;
    }
    const bool idle = mst_cuda_check_reset(cuda) == MUSTER_OK && mst_cuda_drain(cuda);
    if (idle)
        close_parts(cuda);
    else
        report_leak(cuda, mst_cuda_is_lost(cuda) ? "it is lost" : "its queues do not end");
    (void)mst_cuda_end(cuda, &scope, MUSTER_OK);
    if (idle) (void)cuda->api->cuDevicePrimaryCtxRelease_v2(cuda->device);
}

/* Releases the context and everything in it. Destroying objects that a lost or stuck device still
 * uses could wait for ever, so then nothing is destroyed. */
static void close_context(mst_cuda *cuda) {
    if (mst_cuda_is_lost(cuda) || mst_cuda_may_be_used(cuda)) {
        report_leak(cuda, mst_cuda_is_lost(cuda) ? "it is lost" : "another device, which may still use its memory, does not end");
        return;
    }
    /* In a thread whose mode cannot be relaxed, a capture of the program's may be spoiled. */
    const bool relaxed = mst_cuda_relax(cuda) == MUSTER_OK;
    close_relaxed(cuda);
    if (relaxed) mst_cuda_unrelax(cuda);
}

static void close_device(mst_cuda *cuda) {
    if (cuda->context) close_context(cuda);
    free_host_parts(cuda);
}

/* An administrator can forbid processes to use a GPU. The driver then says UNKNOWN. */
static bool is_prohibited(const mst_cuda *cuda) {
    int mode = 0;
    return cuda->api->cuDeviceGetAttribute(&mode, MST_CU_ATTRIBUTE_COMPUTE_MODE, cuda->device) == MST_CU_SUCCESS &&
           mode == MST_CU_COMPUTE_MODE_PROHIBITED;
}

/* Where the service MPS does not answer, there is no context yet that could be lost. */
static muster_status retain(mst_cuda *cuda) {
    const mst_cu_result result = cuda->api->cuDevicePrimaryCtxRetain(&cuda->context, cuda->device);
    if (result == MST_CU_MPS_RPC_FAILURE) {
        char message[MST_MESSAGE_SIZE];
        (void)mst_cuda_error(cuda->api, result, "cuDevicePrimaryCtxRetain", cuda->label);
        mst_error_save(message);
        return mst_error_restore(MUSTER_UNAVAILABLE, message);
    }
    if (result == MST_CU_UNKNOWN && is_prohibited(cuda))
        return mst_error(MUSTER_UNAVAILABLE,
                         "%s: cuDevicePrimaryCtxRetain: expected a GPU that processes may use, received one in the compute mode "
                         "\"prohibited\", which nvidia-smi --compute-mode=0 ends",
                         cuda->label);
    return mst_cuda_check(cuda, result, "cuDevicePrimaryCtxRetain");
}

static muster_status open_relaxed(mst_cuda *cuda) {
    mst_cuda_scope scope;
    MUSTER_TRY(describe(cuda));
    MUSTER_TRY(mst_cuda_read_peers(cuda));
    MUSTER_TRY(retain(cuda));
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    MUSTER_TRY(mst_cuda_end(cuda, &scope, open_parts(cuda)));
    notice_environment(cuda);
    return MUSTER_OK;
}

/* On a thread of its own: the driver and cuBLAS start threads. */
static muster_status open_device(void *argument) {
    mst_cuda *cuda = argument;
    if (mst_cuda_is_lost(cuda)) return mst_cuda_report_lost(cuda);
    MUSTER_TRY(mst_cuda_relax(cuda));
    const muster_status status = open_relaxed(cuda);
    mst_cuda_unrelax(cuda);
    return status;
}

static muster_status cuda_open_as(const mst_device_table *table, const char *argument, const mst_device_settings *settings,
                                  mst_device **device) {
    const mst_cuda_api *api;
    const mst_cublas_api *blas_api;
    int32_t ordinal = 0;
    *device = NULL;
    MUSTER_TRY(mst_cuda_api_get(&api));
    MUSTER_TRY(mst_cublas_api_get(&blas_api));
    MUSTER_TRY(mst_cuda_find(argument, &ordinal));
    mst_cuda *cuda = mst_alloc(sizeof *cuda);
    if (!cuda) return mst_out_of_memory("muster_runtime_open: cuda device", sizeof *cuda);
    *cuda = (mst_cuda){.head = mst_device_head(table),
                       .api = api,
                       .blas_api = blas_api,
                       .physical = mst_cuda_physical_of(ordinal),
                       .given_up_before = mst_cuda_given_up(),
                       .ordinal = ordinal,
                       .settings = *settings};
    cuda->head.physical = ordinal + 1;
    snprintf(cuda->label, sizeof cuda->label, "cuda:%d", (int)ordinal);
    muster_status status = mst_own_thread_run(open_device, cuda, cuda->label);
    if (status == MUSTER_OK) {
        *device = &cuda->head;
        return MUSTER_OK;
    }
    char reason[MST_MESSAGE_SIZE];
    mst_error_save(reason);
    close_device(cuda);
    return mst_error_restore(status, reason);
}

static muster_status cuda_open(const mst_device_table *table, const char *argument, mst_device **device) {
    return cuda_open_as(table, argument, &(mst_device_settings){0}, device);
}

static muster_status cuda_open_with(const char *argument, const mst_device_settings *settings, mst_device **device) {
    return cuda_open_as(&mst_cuda_device_table, argument, settings, device);
}

static void cuda_close(mst_device *device) {
    if (device) close_device(mst_cuda_of(device));
}

static const mst_device_memory_table memory = {
    .allocate = mst_cuda_allocate,
    .release = mst_cuda_release,
    .reserve = mst_cuda_reserve,
    .copy_in = mst_cuda_copy_in,
    .copy_out = mst_cuda_copy_out,
    .copy = mst_cuda_copy,
    .adopt = mst_cuda_adopt_memory,
};

static const mst_device_queue_table queue = {
    .enter = mst_cuda_enter,
    .leave = mst_cuda_leave,
    .poll = mst_cuda_poll,
    .copy_in_async = mst_cuda_copy_in_async,
    .event_create = mst_cuda_event_create,
    .event_destroy = mst_cuda_event_destroy,
    .event_record = mst_cuda_event_record,
    .event_wait = mst_cuda_event_wait,
    .event_query = mst_cuda_event_query,
    .join = mst_cuda_join_queues,
};

static const mst_device_code_table code = {
    .launch = mst_cuda_launch,
    .gemm = mst_cuda_gemm,
    .peer_access = mst_cuda_peer_access,
};

static const mst_device_program_table program = {
    .language = mst_cuda_program_language,
    .open = mst_cuda_program_open,
    .close = mst_cuda_program_close,
    .limits = mst_cuda_program_limits,
    .launch = mst_cuda_program_launch,
};

static const mst_device_host_memory_table host_memory = {
    .allocate = mst_cuda_host_allocate,
    .release = mst_cuda_host_release,
    .pin = mst_cuda_pin,
    .unpin = mst_cuda_unpin,
};

static const mst_device_hardware_table hardware = {
    .plural = "GPUs",
    .probe = mst_cuda_probe,
    .find = mst_cuda_find,
    .describe_libraries = mst_cuda_describe_libraries,
    .open_with = cuda_open_with,
    .get_facts = mst_cuda_get_facts,
    .ordinal = mst_cuda_ordinal,
    .describe_device = mst_cuda_describe_device,
    .take_notice = mst_cuda_take_notice,
    .give_up = mst_cuda_give_up,
};

const mst_device_table mst_cuda_device_table = {
    .backend = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .synchronize = mst_cuda_synchronize,
    .memory = &memory,
    .queue = &queue,
    .code = &code,
    .program = &program,
    .host_memory = &host_memory,
    .hardware = &hardware,
};

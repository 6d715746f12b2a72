/* Inside of the CUDA backend: the device, and what its files ask of each other. */
#ifndef MST_CUDA_DEVICE_IMPL_H
#define MST_CUDA_DEVICE_IMPL_H

#include "cublas_api_impl.h"
#include "cuda_api_impl.h"
#include "cuda_impl.h"
#include "slab_impl.h"

enum {
    MST_CUDA_DEVICES = 64, /* ordinals; more are refused */
    MST_CUDA_CHUNK = 4 << 20,
    /* one copy of a large staged one: the copy of the next into the chunk overlaps its transfer */
    MST_CUDA_PIECE = 1 << 20,
    MST_CUDA_CHUNKS = 2,
    MST_CUDA_OUT_SLOTS = 4,
    MST_CUDA_OUT_PARTS = 16,
    MST_CUDA_THREADS = 256,      /* of a block */
    MST_CUDA_BLOCKS_PER_SM = 16, /* at most */
};

/* What virtual devices of one GPU share, for the life of the process. */
typedef struct mst_cuda_physical {
    _Atomic bool lost;
    char reason[MST_MESSAGE_SIZE]; /* written before `lost` is set, never after */
} mst_cuda_physical;

/* Page-locked memory on its way to the device: filled from its start until the next one's turn
 * comes. */
typedef struct mst_cuda_chunk {
    char *base;
    int64_t filled;
    mst_cu_event done[2]; /* by queue */
    bool waits[2];        /* ... which a transfer out of this chunk went through since it was last empty */
} mst_cuda_chunk;

/* Page-locked memory that the device has been told to write, and where its parts belong. */
typedef struct mst_cuda_slot {
    char *base;
    int64_t filled;
    mst_cu_event done; /* recorded when the next slot's turn comes */
    int32_t count;
    struct {
        void *to;
        int64_t offset, bytes;
    } parts[MST_CUDA_OUT_PARTS];
} mst_cuda_slot;

typedef struct mst_cuda_event mst_cuda_event;

typedef struct mst_cuda {
    mst_device head;
    const mst_cuda_api *api;
    const mst_cublas_api *blas_api;
    mst_cuda_physical *physical;
    int32_t given_up_before; /* mst_cuda_given_up() when it was opened */
    char label[16];          /* "cuda:0" */
    int32_t ordinal, architecture, processors;
    mst_cu_device device;
    mst_cu_context context; /* NULL until retained; as all handles below */

    mst_cu_stream own, compute, copy; /* compute: own, or the adopted one */
    mst_cuda_event *events;           /* all that were ever made (cuda_event.c) */
    mst_cu_event finished, joined;    /* for sync; for what orders one stream behind another */
    bool copy_busy;                   /* something has been issued in COPY since the last sync */

    /* Memory that was released may be in use by work issued in COMPUTE before; copies beside must
     * wait for it. Likewise the other way round. */
    mst_cu_event released;
    bool release_unrecorded;           /* there was a release after `released` was recorded last */
    bool release_recorded;             /* COPY has not waited for `released` yet */
    bool beside_used;                  /* without copies beside nothing is recorded */
    uint64_t beside_begin, beside_end; /* what copies beside have written since the last sync */
    bool released_beside;              /* some of that has been released */

    mst_cublas_handle blas;
    mst_cu_address blas_workspace;
    size_t blas_workspace_bytes;
    bool tf32;

    mst_cu_module module;
    mst_cu_function *functions; /* [function_count], by place */
    int32_t function_count;

    mst_slab slab;
    char slab_what[128];
    mst_cu_address *segments; /* [segment_count] */
    int64_t segment_count, segment_capacity;
    int64_t wish;      /* what was refused in flight */
    int64_t free_seen; /* on the device, when the slab last grew */

    char *in_base, *out_base;
    mst_cuda_chunk chunks[MST_CUDA_CHUNKS];
    int32_t chunk;
    mst_cuda_slot slots[MST_CUDA_OUT_SLOTS];
    int32_t slot;
} mst_cuda;

static inline mst_cuda *mst_cuda_of(const mst_device *device) { return (mst_cuda *)device; }

/* ---- errors (cuda_context.c): every call of the driver goes through this ---- */

/* Sets the message; loses the device if the error is sticky. */
muster_status mst_cuda_failed(mst_cuda *cuda, mst_cu_result result, const char *symbol);
muster_status mst_cuda_blas_failed(mst_cuda *cuda, mst_cublas_status result, const char *symbol);
muster_status mst_cuda_say_lost(const mst_cuda *cuda);

static inline muster_status mst_cuda_check(mst_cuda *cuda, mst_cu_result result, const char *symbol) {
    return __builtin_expect(result == MST_CU_SUCCESS, 1) ? MUSTER_OK : mst_cuda_failed(cuda, result, symbol);
}
static inline muster_status mst_cuda_blas_check(mst_cuda *cuda, mst_cublas_status result, const char *symbol) {
    return __builtin_expect(result == MST_CUBLAS_SUCCESS, 1) ? MUSTER_OK : mst_cuda_blas_failed(cuda, result, symbol);
}
#define MST_CU(cuda, symbol, ...) mst_cuda_check((cuda), (cuda)->api->symbol(__VA_ARGS__), #symbol)
#define MST_CUBLAS(cuda, symbol, ...) mst_cuda_blas_check((cuda), (cuda)->blas_api->symbol(__VA_ARGS__), #symbol)

mst_cuda_physical *mst_cuda_physical_of(int32_t ordinal);
/* How many devices of the process have been given up at work. One that was open then may be what
 * that work still uses: it does not take part in what frees. */
int32_t mst_cuda_given_up(void);
static inline bool mst_cuda_may_be_used(const mst_cuda *cuda) { return mst_cuda_given_up() != cuda->given_up_before; }
static inline bool mst_cuda_is_lost(const mst_cuda *cuda) { return atomic_load_explicit(&cuda->physical->lost, memory_order_acquire); }

/* Around every function of the table: the device's context is the thread's, then what was there
 * before is again. begin fails for a lost device; after a failure no end. */
typedef struct mst_cuda_scope {
    mst_cu_context before;
    bool pushed;
} mst_cuda_scope;
muster_status mst_cuda_begin(mst_cuda *cuda, mst_cuda_scope *scope);
muster_status mst_cuda_end(mst_cuda *cuda, const mst_cuda_scope *scope, muster_status status);

/* Refuses what must not be asked of the driver while collectives are in flight. */
muster_status mst_cuda_check_between_calls(const mst_cuda *cuda, const char *what);

void mst_cuda_add_notice(const char *text);

/* ---- one file each: open makes (a part may be made when it fails), close undoes what is made;
 * both with the context current ---- */
muster_status mst_cuda_open_queues(mst_cuda *cuda);
void mst_cuda_close_queues(mst_cuda *cuda);
muster_status mst_cuda_open_blas(mst_cuda *cuda);
void mst_cuda_close_blas(mst_cuda *cuda);
muster_status mst_cuda_open_code(mst_cuda *cuda);
void mst_cuda_close_code(mst_cuda *cuda);
muster_status mst_cuda_open_staging(mst_cuda *cuda);
void mst_cuda_close_staging(mst_cuda *cuda);
muster_status mst_cuda_open_memory(mst_cuda *cuda);
void mst_cuda_close_memory(mst_cuda *cuda);

/* ---- queues ---- */
muster_status mst_cuda_make_event(mst_cuda *cuda, mst_cu_event *event);
void mst_cuda_end_event(mst_cuda *cuda, mst_cu_event *event); /* what was not made is ignored */
void mst_cuda_close_events(mst_cuda *cuda);                   /* of event_create: the driver's, then ours */
void mst_cuda_forget_events(mst_cuda *cuda);
static inline mst_cu_stream mst_cuda_stream_of(const mst_cuda *cuda, mst_queue queue) {
    return queue == MST_QUEUE_COPY ? cuda->copy : cuda->compute;
}
/* Polls until the event has passed. Errors: what `interrupt` says; the driver's. */
muster_status mst_cuda_wait_event(mst_cuda *cuda, mst_cu_event event);
/* Before closing: polls until both queues are empty, for a bounded time. */
bool mst_cuda_drain(mst_cuda *cuda);
/* Before anything goes into COMPUTE. */
muster_status mst_cuda_record_released(mst_cuda *cuda);
static inline muster_status mst_cuda_before_compute(mst_cuda *cuda) {
    return __builtin_expect(cuda->release_unrecorded && cuda->beside_used, 0) ? mst_cuda_record_released(cuda) : MUSTER_OK;
}
/* Work that is issued from now on in `later` comes after what is in `earlier`. */
muster_status mst_cuda_join(mst_cuda *cuda, mst_cu_stream earlier, mst_cu_stream later);
/* Is the stream one of the device's context? (cuda_foreign.c) */
muster_status mst_cuda_check_stream(mst_cuda *cuda, mst_cu_stream stream, const char *where);
/* The BLAS handle uses the COMPUTE queue and its own workspace. */
muster_status mst_cuda_bind_blas(mst_cuda *cuda, mst_cu_stream stream);

/* ---- staging ---- */
muster_status
/* COMPUTE is empty: what copy_out brought goes where it belongs, and all chunks are empty */
mst_cuda_deliver(mst_cuda *cuda);
void mst_cuda_discard(mst_cuda *cuda); /* COMPUTE is in doubt: nothing is delivered any more */

/* Does the device copy from and to this host memory by itself? */
bool mst_cuda_is_locked(const mst_cuda *cuda, const void *address, int64_t bytes);
void mst_cuda_end_host(const mst_cuda *cuda);    /* what was given back in flight */
void mst_cuda_forget_host(const mst_cuda *cuda); /* the same, without the driver */

/* ---- the table, by file ---- */
muster_status mst_cuda_allocate(mst_device *device, int64_t bytes, void **address);
void mst_cuda_release(mst_device *device, void *address);
muster_status mst_cuda_reserve(mst_device *device, int64_t bytes);
muster_status mst_cuda_copy_in(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
muster_status mst_cuda_copy_in_async(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
muster_status mst_cuda_copy_out(mst_device *device, void *to_host, const void *from_device, int64_t bytes);
muster_status mst_cuda_copy(mst_device *device, void *to_device, const void *from_device, int64_t bytes);
muster_status mst_cuda_synchronize(mst_device *device);
muster_status mst_cuda_poll(mst_device *device, bool *done);
muster_status mst_cuda_event_create(mst_device *device, mst_device_event **event);
void mst_cuda_event_destroy(mst_device_event *event);
muster_status mst_cuda_event_record(mst_device_event *event, mst_queue queue);
muster_status mst_cuda_event_wait(mst_device *device, mst_queue queue, mst_device_event *event);
muster_status mst_cuda_event_query(mst_device_event *event, bool *done);
muster_status mst_cuda_enter(mst_device *device);
muster_status mst_cuda_leave(mst_device *device);
muster_status mst_cuda_peer_access(mst_device *device, mst_device *other, bool *access);
muster_status mst_cuda_launch(mst_device *device, mst_code_kernel *kernel, int64_t work, const void *parameters, int64_t parameter_bytes);
muster_status mst_cuda_gemm(mst_device *device, const mst_gemm *gemm);
muster_status mst_cuda_host_allocate(mst_device *device, int64_t bytes, void **address);
void mst_cuda_host_release(mst_device *device, void *address);
muster_status mst_cuda_pin(mst_device *device, void *address, int64_t bytes);
void mst_cuda_unpin(mst_device *device, void *address);
muster_status mst_cuda_program_language(mst_device *device, int32_t *language);
muster_status mst_cuda_program_open(mst_device *device, const mst_program_request *request, mst_program **program, char **log);
void mst_cuda_program_close(mst_device *device, mst_program *program);
muster_status mst_cuda_program_limits(mst_device *device, const mst_program *program, int32_t kernel, mst_program_limits *limits);
muster_status mst_cuda_program_launch(mst_device *device, mst_program *program, int32_t kernel, const mst_program_grid *grid,
                                      const mst_program_value *values);

#endif

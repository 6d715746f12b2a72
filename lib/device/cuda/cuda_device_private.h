/* Private header of the CUDA backend: the device struct, and the functions that its files share. */
#ifndef MST_CUDA_DEVICE_PRIVATE_H
#define MST_CUDA_DEVICE_PRIVATE_H

#include "cublas_api_private.h"
#include "cuda_api_private.h"
#include "cuda_impl.h"
#include "cudnn_api_private.h"
#include "slab_private.h"

enum {
    MST_CUDA_DEVICES = 64, /* the most GPUs that are used; the ordinals are below this */
    MST_CUDA_CHUNK = 4 << 20,
    /* the most bytes of one staged transfer: copying the next part into the chunk overlaps it */
    MST_CUDA_COPY_MAX = 1 << 20,
    MST_CUDA_CHUNKS = 2,
    MST_CUDA_OUT_SLOTS = 4,
    MST_CUDA_OUT_PARTS = 16,
    MST_CUDA_UNLOCKED = 64,      /* ranges that are remembered as not page-locked */
    MST_CUDA_THREADS = 256,      /* threads per block */
    MST_CUDA_BLOCKS_PER_SM = 16, /* the most blocks of a launch, per multiprocessor */
};

/* State that all virtual devices of one GPU share. It lives as long as the process. */
typedef struct mst_cuda_physical {
    _Atomic bool lost;
    char reason[MST_MESSAGE_SIZE]; /* written before `lost` is set, never after */
    _Atomic bool stuck;            /* work that does not end runs on this GPU or uses its memory; other work goes on beside it */
} mst_cuda_physical;

/* A staging buffer for copies to the device. It is filled from its start until the next chunk takes
 * over. */
typedef struct mst_cuda_chunk {
    char *base;
    int64_t filled;
    /* For COMPUTE and COPY: the end of the transfers out of this chunk. */
    mst_cu_event done[2];
    /* For both: a transfer out of this chunk has been issued since the chunk was last
     * empty. */
    bool waits[2];
} mst_cuda_chunk;

/* A staging buffer for copies from the device, with the list of its parts and their
 * destinations. */
typedef struct mst_cuda_slot {
    char *base;
    int64_t filled;
    mst_cu_event done; /* recorded when the next slot takes over */
    int32_t count;
    struct {
        void *to;
        int64_t offset, bytes;
    } parts[MST_CUDA_OUT_PARTS];
} mst_cuda_slot;

typedef struct mst_cuda_event mst_cuda_event;

/* What decides which kernel of cuBLAS computes a product. kind: the element type, the
 * transpositions, the alignment, whether C is only written; 0: none. */
typedef struct mst_cuda_product {
    uint32_t kind;
    int64_t m, n, k;
} mst_cuda_product;

/* Host memory that the driver did not know as page-locked. */
typedef struct mst_cuda_unlocked {
    uintptr_t begin;
    int64_t bytes;
    int32_t uses_left; /* copies until the driver is asked again */
} mst_cuda_unlocked;

/* What the driver says about an address. */
typedef struct mst_cuda_place {
    unsigned int type; /* MST_CU_MEMORY_TYPE_*; 0: it does not know the address */
    bool managed;
    int ordinal;    /* of the GPU that allocated or registered the memory */
    uint64_t begin; /* of the allocation or registration */
    uint64_t bytes;
} mst_cuda_place;

typedef struct mst_cuda {
    mst_device head;
    const mst_cuda_api *api;
    const mst_cublas_api *blas_api;
    mst_cuda_physical *physical;
    int32_t given_up_before; /* the value of mst_cuda_given_up() when this device was opened */
    char label[16];          /* "cuda:0" */
    int32_t ordinal, architecture, processors;
    bool peers;             /* other GPUs' memory may be accessed directly, where that works */
    bool exclusive_managed; /* the CPU must not touch managed memory while this GPU works */
    mst_device_settings settings;
    mst_cu_device device;
    mst_cu_context context; /* NULL until it is retained; all handles below are NULL until they are created */

    /* Since mst_cuda_default_begin, compute waits for the legacy default stream, or for that of the
     * thread. */
    bool default_awaited, thread_awaited;
    mst_cu_stream own_stream, compute, copy, exchange; /* compute is own_stream or the adopted stream */
    mst_cuda_event *events;                            /* every event ever created (cuda_event.c) */
    /* finished: for synchronize. joined: orders one stream after another. */
    mst_cu_event finished, joined;
    bool copy_busy; /* work has been issued in COPY since the last synchronize */

    /* Work in COMPUTE may still use memory that has been released, so an async copy into that
     * memory waits for that work. Likewise COMPUTE waits for async copies into memory that has been
     * released. */
    mst_cu_event released;
    bool release_unrecorded; /* memory has been released since `released` was last recorded */
    bool release_recorded;   /* `released` is recorded, and COPY has not waited for it yet */
    bool async_used;         /* there has been an async copy; until then nothing is recorded */
    /* Address range that async copies have written since the last synchronize; empty if end is
     * 0. */
    uint64_t async_begin, async_end;
    bool released_async; /* some memory of that range has been released */
    /* Memory has been released while EXCHANGE was busy. COMPUTE waits for EXCHANGE before that
     * memory is used again. */
    bool released_exchanged;

    mst_cublas_handle blas;
    mst_cu_address blas_workspace;
    size_t blas_workspace_bytes;
    unsigned long long workspace_id; /* the driver's number of that allocation; 0: not known yet */
    bool tf32;

    mst_cudnn_handle dnn; /* NULL: no convolution has been asked for, or cuDNN is not there */
    const mst_cudnn_api *dnn_api;
    size_t dnn_workspace_most; /* bytes for one convolution */

    mst_cuda_product *products; /* that have been computed, by their hash */
    int64_t stack_bytes;        /* that the driver has for each thread of a kernel */

    /* The built-in kernels, by place. NULL: not loaded yet, see cuda_code.c. */
    mst_cu_module *modules;     /* [module_count], one for each family */
    mst_cu_function *functions; /* [function_count] */
    int32_t module_count, function_count;
    bool holds_code; /* mst_code_hold has been called */

    mst_slab slab;
    char slab_what[128];
    mst_cu_address *segments; /* [segment_count] */
    int64_t segment_count, segment_capacity;
    bool keeps_headroom; /* see mst_cuda_keep_headroom */
    int64_t wish;        /* bytes of the largest allocation refused while in_flight was set */
    int64_t free_seen;   /* free bytes of the GPU when the slab last grew */

    char *in_base, *out_base;
    mst_cuda_chunk chunks[MST_CUDA_CHUNKS];
    int32_t chunk;
    mst_cuda_slot slots[MST_CUDA_OUT_SLOTS];
    int32_t slot;
    mst_cuda_unlocked unlocked[MST_CUDA_UNLOCKED]; /* by the address of the range */
} mst_cuda;

static inline mst_cuda *mst_cuda_of(const mst_device *device) { return (mst_cuda *)device; }

/* ---- errors (cuda_context.c): every call of the driver goes through these macros ---- */

/* Sets the message. A sticky error marks the device as lost. */
muster_status mst_cuda_failed(mst_cuda *cuda, mst_cu_result result, const char *symbol);
muster_status mst_cuda_blas_failed(mst_cuda *cuda, mst_cublas_status result, const char *symbol);
muster_status mst_cuda_report_lost(const mst_cuda *cuda);

static inline muster_status mst_cuda_check(mst_cuda *cuda, mst_cu_result result, const char *symbol) {
    return __builtin_expect(result == MST_CU_SUCCESS, 1) ? MUSTER_OK : mst_cuda_failed(cuda, result, symbol);
}
static inline muster_status mst_cuda_blas_check(mst_cuda *cuda, mst_cublas_status result, const char *symbol) {
    return __builtin_expect(result == MST_CUBLAS_SUCCESS, 1) ? MUSTER_OK : mst_cuda_blas_failed(cuda, result, symbol);
}
#define MST_CU(cuda, symbol, ...) mst_cuda_check((cuda), (cuda)->api->symbol(__VA_ARGS__), #symbol)
#define MST_CUBLAS(cuda, symbol, ...) mst_cuda_blas_check((cuda), (cuda)->blas_api->symbol(__VA_ARGS__), #symbol)

mst_cuda_physical *mst_cuda_physical_of(int32_t ordinal);
/* The number of times that work was given up while it was running. That work may still use every
 * device that was open at the time, so such a device takes no part in freeing memory. */
int32_t mst_cuda_given_up(void);
/* Work that does not end is somewhere in the process. Freeing memory of any GPU could wait for it,
 * also of GPUs that are opened later. */
extern _Atomic bool mst_cuda_stuck_work;
static inline bool mst_cuda_may_be_used(const mst_cuda *cuda) {
    return mst_cuda_given_up() != cuda->given_up_before || atomic_load_explicit(&mst_cuda_stuck_work, memory_order_relaxed);
}
static inline bool mst_cuda_is_lost(const mst_cuda *cuda) { return atomic_load_explicit(&cuda->physical->lost, memory_order_acquire); }

/* While the program captures a stream into a graph, the driver refuses calls that a graph could not
 * repeat, such as an allocation, and spoils the capture, unless the calling thread's mode is
 * RELAXED. Nothing that Muster calls belongs to a capture, so from relax to unrelax the thread's
 * mode is that one. The two may be nested. Do not call unrelax if relax failed. */
muster_status mst_cuda_relax(mst_cuda *cuda);
void mst_cuda_unrelax(const mst_cuda *cuda);

/* begin makes the device's context current in this thread and relaxes its capture mode, end
 * restores both. Every function of the table runs between the two. begin fails if the device is
 * lost. Do not call end if begin failed. */
typedef struct mst_cuda_scope {
    mst_cu_context before;
    bool pushed;
} mst_cuda_scope;
muster_status mst_cuda_begin(mst_cuda *cuda, mst_cuda_scope *scope);
muster_status mst_cuda_end(mst_cuda *cuda, const mst_cuda_scope *scope, muster_status status);

/* Before handles are used that an earlier call has left, with the context current: loses the device
 * if the program has reset the primary context since the device was opened. All memory, streams and
 * events in it are gone then, and to use a handle can crash. */
muster_status mst_cuda_check_reset(mst_cuda *cuda);
muster_status mst_cuda_remember_workspace(mst_cuda *cuda);

/* Fails while collectives are in flight, when the driver must not be asked for `what`. */
muster_status mst_cuda_check_between_calls(const mst_cuda *cuda, const char *what);

void mst_cuda_add_notice(const char *text);

/* Fails with UNSUPPORTED for GPUs that cannot run the device code. label: "cuda:0". */
muster_status mst_cuda_check_capability(const char *label, const char *model, int32_t major, int32_t minor);

/* ---- one file per pair. open may leave some parts created when it fails; close destroys the parts
 * that exist. Both need the device's context to be current. ---- */
muster_status mst_cuda_open_queues(mst_cuda *cuda);
void mst_cuda_close_queues(mst_cuda *cuda);
muster_status mst_cuda_open_blas(mst_cuda *cuda);
void mst_cuda_close_blas(mst_cuda *cuda);
muster_status mst_cuda_open_code(mst_cuda *cuda);
void mst_cuda_close_code(mst_cuda *cuda);
void mst_cuda_forget_code(mst_cuda *cuda); /* frees what the host holds of the device code, without a call of the driver */
muster_status mst_cuda_open_staging(mst_cuda *cuda);
void mst_cuda_close_staging(mst_cuda *cuda);
muster_status mst_cuda_open_memory(mst_cuda *cuda);
void mst_cuda_close_memory(mst_cuda *cuda);

/* ---- peers (cuda_peer.c) ---- */
muster_status mst_cuda_read_peers(mst_cuda *cuda); /* the setting */
void mst_cuda_forget_peers(void);                  /* for tests: each pair is tried again */

/* alpha and beta of cuBLAS and cuDNN, which have the type of the sum. */
typedef union mst_cuda_factor {
    float f32;
    double f64;
} mst_cuda_factor;
static inline mst_cuda_factor mst_cuda_make_factor(double value, muster_dtype dtype) {
    return dtype == MUSTER_F64 ? (mst_cuda_factor){.f64 = value} : (mst_cuda_factor){.f32 = (float)value};
}

/* ---- queues ---- */
muster_status mst_cuda_make_event(mst_cuda *cuda, mst_cu_event *event);
void mst_cuda_end_event(mst_cuda *cuda, mst_cu_event *event); /* an event that was not created is ignored */
/* close_events destroys the driver's events behind event_create, forget_events frees our
 * structs. */
void mst_cuda_close_events(mst_cuda *cuda);
void mst_cuda_forget_events(mst_cuda *cuda);
static inline mst_cu_stream mst_cuda_stream_of(const mst_cuda *cuda, mst_queue queue) {
    return queue == MST_QUEUE_COPY ? cuda->copy : queue == MST_QUEUE_EXCHANGE ? cuda->exchange : cuda->compute;
}
/* Polls until the event is complete. Errors: of `interrupt`, or of the driver. */
muster_status mst_cuda_wait_event(mst_cuda *cuda, mst_cu_event event);
/* Polls until COMPUTE and EXCHANGE have done what is in them now. Errors: as of wait_event. */
muster_status mst_cuda_await_compute(mst_cuda *cuda);
/* Polls until the stream is empty, for at most `limit_ns`. false: it did not drain in time, or its
 * state is unknown. */
bool mst_cuda_drain_stream(mst_cuda *cuda, mst_cu_stream stream, int64_t limit_ns);
/* Before closing: the same of all queues, for a bounded time. */
bool mst_cuda_drain(mst_cuda *cuda);
/* record_released records `released`. before_compute does so only if async copies need it; call it
 * before anything is issued in COMPUTE. */
muster_status mst_cuda_record_released(mst_cuda *cuda);
static inline muster_status mst_cuda_before_compute(mst_cuda *cuda) {
    return __builtin_expect(cuda->release_unrecorded && cuda->async_used, 0) ? mst_cuda_record_released(cuda) : MUSTER_OK;
}
/* Work issued from now on in `later` starts after the work that is in `earlier` now. */
muster_status mst_cuda_join(mst_cuda *cuda, mst_cu_stream earlier, mst_cu_stream later);
/* Fails unless the stream belongs to the device's context (cuda_foreign.c). */
muster_status mst_cuda_check_stream(mst_cuda *cuda, mst_cu_stream stream, const char *where);
/* Makes the BLAS handle use this stream and the device's own workspace. */
muster_status mst_cuda_bind_blas(mst_cuda *cuda, mst_cu_stream stream);

/* Makes the handle of cuDNN, if there is one, use this stream. */
muster_status mst_cuda_bind_dnn(mst_cuda *cuda, mst_cu_stream stream);
void mst_cuda_close_dnn(mst_cuda *cuda);

/* ---- loading (cuda_loading.c) ---- */
muster_status mst_cuda_open_loading(mst_cuda *cuda); /* closing the device frees what it has allocated */
/* Loads a function now that the driver would load at its first use. */
muster_status mst_cuda_load_function(mst_cuda *cuda, mst_cu_function function);
mst_cuda_product mst_cuda_product_of(const mst_gemm *g);
/* Call it before cuBLAS computes the product: waits for COMPUTE if cuBLAS may have to load a
 * kernel. Errors: as of wait_event. */
muster_status mst_cuda_before_product(mst_cuda *cuda, const mst_cuda_product *product);
void mst_cuda_note_product(mst_cuda *cuda, const mst_cuda_product *product); /* cuBLAS has taken it */
/* Call it before the first launch of a kernel of the user's: waits for COMPUTE if the driver may
 * have to. stack_bytes: what each of its threads needs. Errors: as of wait_event. */
muster_status mst_cuda_before_first_launch(mst_cuda *cuda, int64_t stack_bytes);
/* " (lazy loading)", " (eager loading)"; "": the driver does not say. */
const char *mst_cuda_loading_mode(const mst_cuda *cuda);

/* ---- staging ---- */
/* COMPUTE is empty: copies what copy_out has staged to its destinations, and empties all chunks. */
muster_status mst_cuda_deliver(mst_cuda *cuda);
void mst_cuda_discard(mst_cuda *cuda); /* The state of COMPUTE is unknown: drops the copies that are still to be delivered. */

/* ---- what memory is (cuda_pointer.c) ---- */
/* An address that the driver does not know is no failure: its type is 0. */
mst_cu_result mst_cuda_ask_place(const mst_cuda *cuda, const void *address, mst_cuda_place *place);
/* Is all of [begin, end) in the one page-locked range that `place` describes? */
bool mst_cuda_place_is_locked(const mst_cuda_place *place, uintptr_t begin, uintptr_t end);
/* Sets *locked to whether all of this host memory is page-locked in one piece, so that the device
 * copies it without staging. written: the device will write it. Errors: UNSUPPORTED for managed
 * memory where the CPU could not stage it. */
muster_status mst_cuda_find_locked(mst_cuda *cuda, const void *address, int64_t bytes, bool written, bool *locked);

/* ---- the list of page-locked host memory (cuda_host.c) ---- */
/* Is all of [begin, end) locked in one range of the list? The device must not write READ_ONLY
 * memory. */
typedef enum { MST_CUDA_UNLISTED, MST_CUDA_LISTED, MST_CUDA_LISTED_READ_ONLY } mst_cuda_listed;
mst_cuda_listed mst_cuda_find_listed(uintptr_t begin, uintptr_t end);
void mst_cuda_forget_unpinned(void);             /* for tests: every error of pinning is noticed again */
void mst_cuda_end_host(const mst_cuda *cuda);    /* ends the ranges that were given back in flight */
void mst_cuda_forget_host(const mst_cuda *cuda); /* forgets the ranges that this device gave back, without a call of the driver */

/* ---- the table, by file ---- */
muster_status mst_cuda_allocate(mst_device *device, int64_t bytes, void **address);
void mst_cuda_release(mst_device *device, void *address);
muster_status mst_cuda_reserve(mst_device *device, int64_t bytes);
muster_status mst_cuda_copy_in(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
muster_status mst_cuda_copy_in_async(mst_device *device, void *to_device, const void *from_host, int64_t bytes);
muster_status mst_cuda_copy_out(mst_device *device, void *to_host, const void *from_device, int64_t bytes);
muster_status mst_cuda_copy(mst_device *device, void *to_device, const void *from_device, int64_t bytes);
/* mst_cuda_check_memory, and what COMPUTE gets from now on starts after what is in the default
 * stream now. */
muster_status mst_cuda_adopt_memory(mst_device *device, const void *address, int64_t bytes, const char *where);
muster_status mst_cuda_synchronize(mst_device *device);
muster_status mst_cuda_poll(mst_device *device, bool *done);
muster_status mst_cuda_event_create(mst_device *device, mst_device_event **event);
void mst_cuda_event_destroy(mst_device_event *event);
muster_status mst_cuda_event_record(mst_device_event *event, mst_queue queue);
muster_status mst_cuda_event_wait(mst_device *device, mst_queue queue, mst_device_event *event);
muster_status mst_cuda_event_query(mst_device_event *event, bool *done);
muster_status mst_cuda_join_queues(mst_device *device, mst_queue earlier, mst_queue later);
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

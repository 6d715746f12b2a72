/* The simulated cuDNN: handles, and convolutions on the handle's stream. */
#include "cudnn_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SIM_EXPORT extern int muster_simulated;
int muster_simulated = 1;

#define CUDNN_SYMBOL(result, symbol, arguments) {.name = #symbol},
sim_symbol cudnn_symbols[CUDNN_SYMBOL_COUNT] = {MST_CUDNN_SYMBOLS(CUDNN_SYMBOL)};
static const int codes[] = {MST_CUDNN_HOST_ALLOCATION_FAILED, MST_CUDNN_DEVICE_ALLOCATION_FAILED, MST_CUDNN_INTERNAL_ERROR,
                            MST_CUDNN_EXECUTION_FAILED};

__attribute__((constructor)) static void add_symbols(void) {
    sim_symbols_add("cudnn", cudnn_symbols, CUDNN_SYMBOL_COUNT, codes, sizeof codes / sizeof *codes);
}

enum { VERSION = 91900, HANDLES = 1024, HANDLE_BYTES = 4 << 20 /* of device memory, for each handle */, ALIGNMENT = 256 };
static struct cudnnContext handles[HANDLES];
static atomic_uint next_place;
static atomic_ullong runs; /* that have begun */

static void forget(void) {
    for (int i = 0; i < HANDLES; i++) atomic_store(&handles[i].life, SIM_NEVER);
    cudnn_descriptors_forget();
}
__attribute__((constructor)) static void add_forget(void) { sim_on_reset(forget); }

/* ---- the handle ---- */

mst_cudnn_handle cudnn_handle_of(mst_cudnn_handle handle) {
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)handles;
    if (offset >= sizeof handles || offset % sizeof *handles) return NULL;
    int life = atomic_load_explicit(&handle->life, memory_order_relaxed);
    if (life == SIM_DESTROYED) sim_hazard("use of a destroyed cuDNN handle");
    return life == SIM_ALIVE ? handle : NULL;
}

size_t cudnnGetVersion(void) {
    sim_count(&cudnn_symbols[INDEX_cudnnGetVersion]);
    return VERSION;
}

const char *cudnnGetErrorString(mst_cudnn_status status) {
    static const struct {
        mst_cudnn_status status;
        const char *text;
    } texts[] = {{0, "CUDNN_STATUS_SUCCESS"},
                 {1001, "CUDNN_STATUS_NOT_INITIALIZED"},
                 {1002, "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH"},
                 {1008, "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"},
                 {2000, "CUDNN_STATUS_BAD_PARAM"},
                 {3000, "CUDNN_STATUS_NOT_SUPPORTED"},
                 {4000, "CUDNN_STATUS_INTERNAL_ERROR"},
                 {4003, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
                 {4004, "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"},
                 {5000, "CUDNN_STATUS_EXECUTION_FAILED"}};
    sim_count(&cudnn_symbols[INDEX_cudnnGetErrorString]);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) return texts[i].text;
    return "CUDNN_UNKNOWN_STATUS";
}

mst_cudnn_status cudnnCreate(mst_cudnn_handle *handle) {
    CUDNN_ENTER(cudnnCreate, -1);
    sim_context *context;
    if (!handle) return MST_CUDNN_BAD_PARAM;
    if (sim_require(&context) != SIM_OK) return MST_CUDNN_NOT_INITIALIZED;
    sim_hazard_creation("cudnnCreate");
    if (!sim_memory_take(context->device, HANDLE_BYTES)) return MST_CUDNN_DEVICE_ALLOCATION_FAILED;
    for (int i = 0; i < HANDLES; i++) {
        mst_cudnn_handle made = &handles[atomic_fetch_add_explicit(&next_place, 1, memory_order_relaxed) % HANDLES];
        int life = atomic_load_explicit(&made->life, memory_order_relaxed);
        if (life == SIM_ALIVE || !atomic_compare_exchange_strong(&made->life, &life, SIM_ALIVE)) continue;
        made->context = context;
        made->stream = NULL;
        sim_handle_made("cuDNN handles", context->device);
        *handle = made;
        return MST_CUDNN_SUCCESS;
    }
    sim_memory_give(context->device, HANDLE_BYTES);
    return MST_CUDNN_HOST_ALLOCATION_FAILED;
}

mst_cudnn_status cudnnDestroy(mst_cudnn_handle handle) {
    mst_cudnn_handle found = cudnn_handle_of(handle);
    unsigned injected = sim_enter(&cudnn_symbols[INDEX_cudnnDestroy], cudnn_device_of(found));
    if (!handle) return injected;
    if (!found) return injected ? injected : MST_CUDNN_BAD_PARAM;
    sim_hazard_creation("cudnnDestroy");
    sim_handle_gone("cuDNN handles", found->context->device);
    sim_memory_give(found->context->device, HANDLE_BYTES);
    atomic_store_explicit(&found->life, SIM_DESTROYED, memory_order_release);
    return injected;
}

mst_cudnn_status cudnnSetStream(mst_cudnn_handle handle, struct CUstream_st *stream) {
    mst_cudnn_handle found = cudnn_handle_of(handle);
    CUDNN_ENTER(cudnnSetStream, cudnn_device_of(found));
    if (!found) return MST_CUDNN_BAD_PARAM;
    sim_stream *on = stream ? sim_stream_of(stream) : NULL;
    if (stream && (!on || sim_stream_device(on) != found->context->device)) return MST_CUDNN_BAD_PARAM;
    found->stream = stream;
    return MST_CUDNN_SUCCESS;
}

/* ---- on the stream's thread ---- */

typedef struct work {
    convolve what;
    void *workspace;
    size_t bytes;
} work;

enum { SCRIBBLED = 4096 };

/* Only this convolution uses its workspace while it runs. The accesses are atomic, so that two
 * convolutions with one workspace are reported here, and not by ThreadSanitizer. */
static sim_result run(void *data, sim_stream *stream) {
    const work *w = data;
    const uint64_t number = 1 + atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed);
    _Atomic uint64_t *words = w->workspace;
    const size_t count = (w->bytes < SCRIBBLED ? w->bytes : SCRIBBLED) / sizeof *words;
    for (size_t i = 1; i < count; i++) atomic_store_explicit(&words[i], UINT64_C(0xEEEEEEEEEEEEEEEE), memory_order_relaxed);
    if (count) atomic_store_explicit(&words[0], number, memory_order_relaxed);
    if (!convolve_run(&w->what)) return SIM_LAUNCH_FAILED;
    if (count && atomic_load_explicit(&words[0], memory_order_relaxed) != number)
        sim_hazard("device %d: the workspace of a convolution was written while it ran", sim_stream_device(stream));
    return SIM_OK;
}

/* What a wrong address does is not known before the queue comes to it. */
static sim_result fault(void *data, sim_stream *stream) {
    (void)data, (void)stream;
    return SIM_ILLEGAL_ADDRESS;
}

/* The memory as the stream's thread sees it. False: the device does not reach it. */
static bool find(int device, const void *address, size_t bytes, void **alias) {
    *alias = NULL;
    if (!bytes) return true;
    const int owner = sim_memory_device(address);
    if (owner < 0 || !sim_reaches(device, owner)) return false;
    *alias = sim_memory_alias(owner, address, bytes);
    return *alias != NULL;
}

static mst_cudnn_status push(sim_stream *stream, const char *symbol, const convolve *c, void *const operands[CONVOLVE_OPERANDS],
                             void *workspace, size_t bytes) {
    const int device = sim_stream_device(stream);
    work *w = malloc(sizeof *w);
    if (!w) return MST_CUDNN_HOST_ALLOCATION_FAILED;
    *w = (work){.what = *c, .bytes = bytes};
    sim_entry entry = {.what = symbol, .drop = free, .data = w, .use_count = CONVOLVE_OPERANDS + 1};
    bool found = find(device, workspace, bytes, &w->workspace);
    for (int i = 0; i < CONVOLVE_OPERANDS; i++) {
        entry.uses[i] = (sim_use){operands[i], convolve_bytes(c, i)};
        found = find(device, operands[i], entry.uses[i].bytes, &w->what.operands[i]) && found;
    }
    entry.uses[CONVOLVE_OPERANDS] = (sim_use){workspace, bytes};
    entry.run = found ? run : fault;
    if (sim_stream_push(stream, &entry) == SIM_OK) return MST_CUDNN_SUCCESS;
    free(w);
    return MST_CUDNN_EXECUTION_FAILED;
}

/* ---- issuing ---- */

static uint64_t mix(uint64_t number, uint64_t with) {
    uint64_t state = number ^ with;
    return sim_random(&state);
}

/* Kernels are loaded when a convolution first needs them: here each has one of its own. */
static uint64_t number_of(const sim_context *context, const convolve *c, unsigned algorithm, unsigned math, bool aligned) {
    uint64_t number =
        mix(mix(sim_context_number(context), 0xC0DE), (uint64_t)c->kind << 40 | c->type << 16 | algorithm << 8 | math << 4 | aligned);
    for (int i = 0; i < CONVOLVE_OPERANDS; i++)
        for (int d = 0; d < CONVOLVE_DIMS; d++) number = mix(mix(number, (uint64_t)c->sizes[i][d]), (uint64_t)c->strides[i][d]);
    for (int d = 0; d < CONVOLVE_AXES; d++)
        number = mix(mix(mix(number, (uint64_t)c->padding[d]), (uint64_t)c->stride[d]), (uint64_t)c->dilation[d]);
    return mix(number, (uint64_t)c->groups);
}

static double factor(unsigned type, const void *from) {
    float narrow;
    double wide;
    memcpy(&narrow, from, sizeof narrow);
    if (type != MST_CUDNN_DATA_DOUBLE) return narrow;
    memcpy(&wide, from, sizeof wide);
    return wide;
}

static bool is_transform(int kind, unsigned algorithm) {
    return (kind == CONVOLVE_FORWARD && algorithm >= MST_CUDNN_FORWARD_FFT) || (kind == CONVOLVE_DATA && algorithm >= MST_CUDNN_DATA_FFT) ||
           (kind == CONVOLVE_FILTER && (algorithm == MST_CUDNN_FILTER_FFT || algorithm >= MST_CUDNN_FILTER_WINOGRAD));
}

typedef struct call {
    const char *symbol;
    mst_cudnn_filter w;
    mst_cudnn_convolution convolution;
    unsigned algorithm;
    const void *alpha, *beta;
    void *operands[CONVOLVE_OPERANDS], *workspace;
    size_t bytes;
} call;

static mst_cudnn_status prepare(const call *k, convolve *c) {
    const mst_cudnn_algorithm a = cudnn_algorithm_of(c, k->w, k->convolution, k->algorithm);
    if (a.status) return a.status;
    if (!k->alpha || !k->beta || a.memory > k->bytes || (k->bytes && !k->workspace)) return MST_CUDNN_BAD_PARAM;
    for (int i = 0; i < CONVOLVE_OPERANDS; i++)
        if (!k->operands[i]) return MST_CUDNN_BAD_PARAM;
    c->alpha = factor(c->type, k->alpha);
    c->beta = factor(c->type, k->beta);
    c->tf32 = c->type == MST_CUDNN_DATA_FLOAT && k->convolution->math != MST_CUDNN_FMA_MATH;
    c->transforms = is_transform(c->kind, k->algorithm);
    c->backwards = !a.determinism && atomic_load_explicit(&runs, memory_order_relaxed) % 2;
    return MST_CUDNN_SUCCESS;
}

static mst_cudnn_status issue(mst_cudnn_handle handle, const call *k, convolve *c) {
    sim_context *current;
    const mst_cudnn_status status = prepare(k, c);
    if (status) return status;
    if (sim_require(&current) != SIM_OK) return current ? MST_CUDNN_EXECUTION_FAILED : MST_CUDNN_NOT_INITIALIZED;
    if (current != handle->context)
        sim_hazard("%s: the handle belongs to device %d, the current context to device %d", k->symbol, handle->context->device,
                   current->device);
    if ((uintptr_t)k->workspace % ALIGNMENT)
        sim_hazard("%s: the workspace is not aligned to %d bytes, as allocations of the driver are", k->symbol, ALIGNMENT);
    sim_stream *stream = sim_stream_of(handle->stream);
    if (!stream) return MST_CUDNN_EXECUTION_FAILED;
    const uintptr_t addresses = (uintptr_t)k->operands[0] | (uintptr_t)k->operands[1] | (uintptr_t)k->operands[2];
    if (sim_code_is_new(number_of(current, c, k->algorithm, k->convolution->math, addresses % 16 == 0)))
        sim_code_load(current->device, k->symbol, "the kernels of a new convolution");
    sim_issue_begin(stream, k->symbol);
    const mst_cudnn_status result = push(stream, k->symbol, c, k->operands, k->workspace, k->bytes);
    sim_issue_end(stream);
    return result;
}

#define FOUND(symbol)                                 \
    mst_cudnn_handle found = cudnn_handle_of(handle); \
    CUDNN_ENTER(symbol, cudnn_device_of(found));      \
    if (!found) return MST_CUDNN_BAD_PARAM

static mst_cudnn_status start(mst_cudnn_handle handle, int kind, mst_cudnn_tensor x, mst_cudnn_tensor y, const call *k) {
    convolve c;
    const mst_cudnn_status status = cudnn_make_convolve(kind, x, k->w, k->convolution, y, &c);
    return status ? status : issue(handle, k, &c);
}

mst_cudnn_status cudnnConvolutionForward(mst_cudnn_handle handle, const void *alpha, mst_cudnn_tensor x_as, const void *x,
                                         mst_cudnn_filter w_as, const void *w, mst_cudnn_convolution convolution, unsigned int algorithm,
                                         void *workspace, size_t bytes, const void *beta, mst_cudnn_tensor y_as, void *y) {
    FOUND(cudnnConvolutionForward);
    const call k = {"cudnnConvolutionForward",
                    w_as,
                    convolution,
                    algorithm,
                    alpha,
                    beta,
                    {(void *)(uintptr_t)x, (void *)(uintptr_t)w, y},
                    workspace,
                    bytes};
    return start(found, CONVOLVE_FORWARD, x_as, y_as, &k);
}

mst_cudnn_status cudnnConvolutionBackwardData(mst_cudnn_handle handle, const void *alpha, mst_cudnn_filter w_as, const void *w,
                                              mst_cudnn_tensor dy_as, const void *dy, mst_cudnn_convolution convolution,
                                              unsigned int algorithm, void *workspace, size_t bytes, const void *beta,
                                              mst_cudnn_tensor dx_as, void *dx) {
    FOUND(cudnnConvolutionBackwardData);
    const call k = {"cudnnConvolutionBackwardData",
                    w_as,
                    convolution,
                    algorithm,
                    alpha,
                    beta,
                    {dx, (void *)(uintptr_t)w, (void *)(uintptr_t)dy},
                    workspace,
                    bytes};
    return start(found, CONVOLVE_DATA, dx_as, dy_as, &k);
}

mst_cudnn_status cudnnConvolutionBackwardFilter(mst_cudnn_handle handle, const void *alpha, mst_cudnn_tensor x_as, const void *x,
                                                mst_cudnn_tensor dy_as, const void *dy, mst_cudnn_convolution convolution,
                                                unsigned int algorithm, void *workspace, size_t bytes, const void *beta,
                                                mst_cudnn_filter dw_as, void *dw) {
    FOUND(cudnnConvolutionBackwardFilter);
    const call k = {"cudnnConvolutionBackwardFilter",
                    dw_as,
                    convolution,
                    algorithm,
                    alpha,
                    beta,
                    {(void *)(uintptr_t)x, dw, (void *)(uintptr_t)dy},
                    workspace,
                    bytes};
    return start(found, CONVOLVE_FILTER, x_as, dy_as, &k);
}

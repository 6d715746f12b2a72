/* The simulated cuBLAS: handles, and products on the handle's stream. */
#include "gemm.h"
#include "state_impl.h"

#include <stdlib.h>
#include <string.h>

SIM_EXPORT extern int muster_simulated;
int muster_simulated = 1;

#define CUBLAS_DECLARE(result, name, arguments) SIM_EXPORT result name arguments;
MST_CUBLAS_SYMBOLS(CUBLAS_DECLARE)
MST_CUBLAS_OPTIONAL_SYMBOLS(CUBLAS_DECLARE)
#define CUBLAS_INDEX(result, name, arguments) INDEX_##name,
enum { MST_CUBLAS_SYMBOLS(CUBLAS_INDEX) MST_CUBLAS_OPTIONAL_SYMBOLS(CUBLAS_INDEX) CUBLAS_SYMBOL_COUNT };
#define CUBLAS_SYMBOL(result, symbol, arguments) {.name = #symbol},
static sim_symbol symbols[CUBLAS_SYMBOL_COUNT] = {MST_CUBLAS_SYMBOLS(CUBLAS_SYMBOL) MST_CUBLAS_OPTIONAL_SYMBOLS(CUBLAS_SYMBOL)};
static const int codes[] = {MST_CUBLAS_ALLOC_FAILED, MST_CUBLAS_EXECUTION_FAILED, MST_CUBLAS_INTERNAL_ERROR};

__attribute__((constructor)) static void add_symbols(void) {
    sim_symbols_add("cublas", symbols, CUBLAS_SYMBOL_COUNT, codes, sizeof codes / sizeof *codes);
}

enum { VERSION = 130000, HANDLES = 4096, HANDLE_BYTES = 2 << 20 /* of device memory, for each handle */ };

struct cublasContext {
    atomic_int life;
    sim_context *context;
    struct CUstream_st *stream;
    void *workspace;
    size_t workspace_bytes;
    unsigned math;
};
static struct cublasContext handles[HANDLES];
static atomic_uint next_place;

/* ---- kernels ---- */
/* They are loaded when a product first needs them. Which one a product needs is cuBLAS's own
 * choice, by its types, transpositions, extents and alignments: here each combination has one of
 * its own. */
static uint64_t mix(uint64_t number, uint64_t with) {
    uint64_t state = number ^ with;
    return sim_random(&state);
}

static bool is_aligned(const gemm *g, const void *a, const void *b, const void *c) {
    const uintptr_t element = gemm_element(g->type);
    return !(((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)g->lda * element | (uintptr_t)g->ldb * element |
              (uintptr_t)g->ldc * element) %
             16);
}

static uint64_t number_of(const sim_context *context, const gemm *g, bool aligned) {
    uint64_t number = mix(sim_context_number(context), g->compute);
    number = mix(number, g->type << 3 | (g->transpose_a != 0) << 2 | (g->transpose_b != 0) << 1 | aligned);
    return mix(mix(mix(number, (uint64_t)g->m), (uint64_t)g->n), (uint64_t)g->k);
}

static void forget(void) {
    for (int i = 0; i < HANDLES; i++) atomic_store(&handles[i].life, SIM_NEVER);
}
__attribute__((constructor)) static void add_forget(void) { sim_on_reset(forget); }

static mst_cublas_handle handle_of(mst_cublas_handle handle) {
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)handles;
    if (offset >= sizeof handles || offset % sizeof *handles) return NULL;
    int life = atomic_load_explicit(&handle->life, memory_order_relaxed);
    if (life == SIM_DESTROYED) sim_hazard("use of a destroyed cuBLAS handle");
    return life == SIM_ALIVE ? handle : NULL;
}

static int device_of(mst_cublas_handle handle) { return handle ? sim_context_device(handle->context) : sim_current_device(); }

#define CUBLAS_ENTER(symbol, device)                                      \
    do {                                                                  \
        unsigned injected_ = sim_enter(&symbols[INDEX_##symbol], device); \
        if (injected_) return injected_;                                  \
    } while (0)
#define CUBLAS_HANDLE(found, symbol)             \
    mst_cublas_handle found = handle_of(handle); \
    CUBLAS_ENTER(symbol, device_of(found));      \
    if (!found) return MST_CUBLAS_NOT_INITIALIZED

mst_cublas_status cublasCreate_v2(mst_cublas_handle *handle) {
    CUBLAS_ENTER(cublasCreate_v2, -1);
    sim_context *context;
    if (!handle) return MST_CUBLAS_INVALID_VALUE;
    if (sim_require(&context) != SIM_OK) return MST_CUBLAS_NOT_INITIALIZED;
    sim_hazard_creation("cublasCreate");
    if (!sim_memory_take(context->device, HANDLE_BYTES)) return MST_CUBLAS_ALLOC_FAILED;
    for (int i = 0; i < HANDLES; i++) {
        mst_cublas_handle made = &handles[atomic_fetch_add_explicit(&next_place, 1, memory_order_relaxed) % HANDLES];
        int life = atomic_load_explicit(&made->life, memory_order_relaxed);
        if (life == SIM_ALIVE || !atomic_compare_exchange_strong(&made->life, &life, SIM_ALIVE)) continue;
        made->context = context;
        made->stream = NULL;
        made->workspace = NULL;
        made->workspace_bytes = 0;
        made->math = MST_CUBLAS_DEFAULT_MATH;
        sim_handle_made("cuBLAS handles", context->device);
        *handle = made;
        return MST_CUBLAS_SUCCESS;
    }
    sim_memory_give(context->device, HANDLE_BYTES);
    return MST_CUBLAS_ALLOC_FAILED;
}

mst_cublas_status cublasDestroy_v2(mst_cublas_handle handle) {
    mst_cublas_handle found = handle_of(handle);
    unsigned injected = sim_enter(&symbols[INDEX_cublasDestroy_v2], device_of(found));
    if (!found) return injected ? injected : MST_CUBLAS_NOT_INITIALIZED;
    sim_hazard_creation("cublasDestroy");
    sim_handle_gone("cuBLAS handles", found->context->device);
    sim_memory_give(found->context->device, HANDLE_BYTES);
    atomic_store_explicit(&found->life, SIM_DESTROYED, memory_order_relaxed);
    return injected;
}

/* As the real one, it forgets the workspace that was set. */
mst_cublas_status cublasSetStream_v2(mst_cublas_handle handle, struct CUstream_st *stream) {
    CUBLAS_HANDLE(found, cublasSetStream_v2);
    sim_stream *on = stream ? sim_stream_of(stream) : NULL;
    if (stream && (!on || sim_stream_device(on) != found->context->device)) return MST_CUBLAS_INVALID_VALUE;
    found->stream = stream;
    found->workspace = NULL;
    found->workspace_bytes = 0;
    return MST_CUBLAS_SUCCESS;
}

enum { WORKSPACE_ALIGNMENT = 256 };
mst_cublas_status cublasSetWorkspace_v2(mst_cublas_handle handle, void *workspace, size_t bytes) {
    CUBLAS_HANDLE(found, cublasSetWorkspace_v2);
    if ((uintptr_t)workspace % WORKSPACE_ALIGNMENT) return MST_CUBLAS_INVALID_VALUE;
    if (bytes && !sim_memory_find(found->context->device, (uint64_t)(uintptr_t)workspace, bytes)) return MST_CUBLAS_INVALID_VALUE;
    found->workspace = workspace;
    found->workspace_bytes = bytes;
    return MST_CUBLAS_SUCCESS;
}

mst_cublas_status cublasSetMathMode(mst_cublas_handle handle, unsigned int mode) {
    CUBLAS_HANDLE(found, cublasSetMathMode);
    unsigned base = mode & 15;
    if (mode & ~31u || (base > 3 && base != 4)) return MST_CUBLAS_INVALID_VALUE;
    found->math = mode;
    return MST_CUBLAS_SUCCESS;
}

mst_cublas_status cublasGetVersion_v2(mst_cublas_handle handle, int *version) {
    (void)handle; /* NULL is legal */
    CUBLAS_ENTER(cublasGetVersion_v2, -1);
    if (!version) return MST_CUBLAS_INVALID_VALUE;
    *version = VERSION;
    return MST_CUBLAS_SUCCESS;
}

const char *cublasGetStatusString(mst_cublas_status status) {
    static const struct {
        mst_cublas_status status;
        const char *text;
    } texts[] = {
        {0, "the library was successfully initialized or the operation completed successfully"},
        {1, "the library was not initialized"},
        {3, "the resource allocation failed"},
        {7, "an unsupported value or parameter was passed to the function"},
        {8, "an absent device architectural feature is required"},
        {11, "an access to GPU memory space failed"},
        {13, "the GPU program failed to execute"},
        {14, "an internal operation failed"},
        {15, "the functionality requested is not supported"},
        {16, "the functionality requested requires some license and an error was detected when trying to check the current licensing"}};
    sim_count(&symbols[INDEX_cublasGetStatusString]);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) return texts[i].text;
    return "unknown cuBLAS status";
}

/* ---- the product ---- */
typedef struct work {
    gemm what;
    void *workspace; /* scribbled on: two products at the same time on one workspace are a race */
    size_t workspace_bytes;
} work;

static sim_result run(void *data, sim_stream *stream) {
    const work *product = data;
    (void)stream;
    if (product->workspace) memset(product->workspace, 0xEE, product->workspace_bytes < 4096 ? product->workspace_bytes : 4096);
    return gemm_run(&product->what) ? SIM_OK : SIM_LAUNCH_FAILED;
}

static size_t matrix_bytes(int64_t rows, int64_t columns, int64_t leading, size_t element) {
    return rows && columns ? ((size_t)leading * (size_t)(columns - 1) + (size_t)rows) * element : 0;
}

/* The matrix as the stream's thread sees it. False: it does not lie in memory that the device
 * reaches. */
static bool find_matrix(int device, const void *address, size_t bytes, void **alias) {
    *alias = NULL;
    if (!bytes) return true;
    int owner = sim_memory_device(address);
    if (owner < 0 || !sim_reaches(device, owner)) return false;
    *alias = sim_memory_alias(owner, address, bytes);
    return *alias != NULL;
}

static mst_cublas_status check(const gemm *g, int64_t lda, int64_t ldb, int64_t ldc) {
    if (g->m < 0 || g->n < 0 || g->k < 0 || g->transpose_a > 2 || g->transpose_b > 2) return MST_CUBLAS_INVALID_VALUE;
    int64_t rows_a = g->transpose_a ? g->k : g->m, rows_b = g->transpose_b ? g->n : g->k;
    if (lda < (rows_a > 1 ? rows_a : 1) || ldb < (rows_b > 1 ? rows_b : 1) || ldc < (g->m > 1 ? g->m : 1)) return MST_CUBLAS_INVALID_VALUE;
    return gemm_supported(g) ? MST_CUBLAS_SUCCESS : MST_CUBLAS_NOT_SUPPORTED;
}

/* What a wrong address does is not known before the queue comes to it: as on a GPU, the stream's
 * context is spoiled then. */
static sim_result fault(void *data, sim_stream *stream) {
    (void)data;
    (void)stream;
    return SIM_ILLEGAL_ADDRESS;
}

static mst_cublas_status queue(mst_cublas_handle handle, sim_stream *stream, const gemm *g, const void *a, const void *b, void *c) {
    int device = sim_stream_device(stream);
    size_t element = gemm_element(g->type);
    size_t bytes_a = g->k ? matrix_bytes(g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, g->lda, element) : 0;
    size_t bytes_b = g->k ? matrix_bytes(g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, g->ldb, element) : 0;
    size_t bytes_c = matrix_bytes(g->m, g->n, g->ldc, element);
    work *product = malloc(sizeof *product);
    if (!product) return MST_CUBLAS_ALLOC_FAILED;
    *product = (work){.what = *g, .workspace_bytes = handle->workspace_bytes};
    bool found = find_matrix(device, a, bytes_a, (void **)&product->what.a) && find_matrix(device, b, bytes_b, (void **)&product->what.b) &&
                 find_matrix(device, c, bytes_c, &product->what.c) &&
                 find_matrix(device, handle->workspace, handle->workspace_bytes, &product->workspace);
    sim_entry entry = {.what = "cublasGemmEx",
                       .run = found ? run : fault,
                       .drop = free,
                       .data = product,
                       .use_count = 4,
                       .uses = {{a, bytes_a}, {b, bytes_b}, {c, bytes_c}, {handle->workspace, handle->workspace_bytes}}};
    if (sim_stream_push(stream, &entry) == SIM_OK) return MST_CUBLAS_SUCCESS;
    free(product);
    return MST_CUBLAS_EXECUTION_FAILED;
}

static mst_cublas_status product(mst_cublas_handle handle, const gemm *g, const void *alpha, const void *beta, const void *a, const void *b,
                                 void *c, const char *symbol) {
    mst_cublas_status checked = check(g, g->lda, g->ldb, g->ldc);
    if (checked) return checked;
    if (!alpha || !beta) return MST_CUBLAS_INVALID_VALUE;
    if (g->m == 0 || g->n == 0) return MST_CUBLAS_SUCCESS;
    sim_context *current;
    if (sim_require(&current) != SIM_OK) return current ? MST_CUBLAS_EXECUTION_FAILED : MST_CUBLAS_NOT_INITIALIZED;
    if (current != handle->context)
        sim_hazard("%s: the handle belongs to device %d, the current context to device %d", symbol, handle->context->device,
                   current->device);
    sim_stream *stream = sim_stream_of(handle->stream);
    if (!stream) return MST_CUBLAS_EXECUTION_FAILED;
    gemm with = *g;
    gemm_scalars(&with, alpha, beta);
    sim_trace("gemm %p %u %u %lld %lld %lld %u %u %.17g %.17g %llx %lld %llx %lld %llx %lld", (void *)stream, g->transpose_a,
              g->transpose_b, (long long)g->m, (long long)g->n, (long long)g->k, g->type, g->compute, with.alpha, with.beta,
              (unsigned long long)(uintptr_t)a, (long long)g->lda, (unsigned long long)(uintptr_t)b, (long long)g->ldb,
              (unsigned long long)(uintptr_t)c, (long long)g->ldc);
    if (sim_code_is_new(number_of(current, g, is_aligned(g, a, b, c))))
        sim_code_load(current->device, symbol, "the kernel of a new product");
    sim_issue_begin(stream, symbol);
    mst_cublas_status result = queue(handle, stream, &with, a, b, c);
    sim_issue_end(stream);
    return result;
}

mst_cublas_status cublasGemmEx(mst_cublas_handle handle, unsigned int transpose_a, unsigned int transpose_b, int m, int n, int k,
                               const void *alpha, const void *a, unsigned int a_type, int lda, const void *b, unsigned int b_type, int ldb,
                               const void *beta, void *c, unsigned int c_type, int ldc, unsigned int compute_type, int algorithm) {
    (void)algorithm;
    CUBLAS_HANDLE(found, cublasGemmEx);
    gemm g = {.transpose_a = transpose_a,
              .transpose_b = transpose_b,
              .m = m,
              .n = n,
              .k = k,
              .lda = lda,
              .ldb = ldb,
              .ldc = ldc,
              .type = a_type,
              .same_types = a_type == b_type && b_type == c_type,
              .compute = compute_type};
    return product(found, &g, alpha, beta, a, b, c, "cublasGemmEx");
}

mst_cublas_status cublasGemmEx_64(mst_cublas_handle handle, unsigned int transpose_a, unsigned int transpose_b, int64_t m, int64_t n,
                                  int64_t k, const void *alpha, const void *a, unsigned int a_type, int64_t lda, const void *b,
                                  unsigned int b_type, int64_t ldb, const void *beta, void *c, unsigned int c_type, int64_t ldc,
                                  unsigned int compute_type, int algorithm) {
    (void)algorithm;
    CUBLAS_HANDLE(found, cublasGemmEx_64);
    gemm g = {.transpose_a = transpose_a,
              .transpose_b = transpose_b,
              .m = m,
              .n = n,
              .k = k,
              .lda = lda,
              .ldb = ldb,
              .ldc = ldc,
              .type = a_type,
              .same_types = a_type == b_type && b_type == c_type,
              .compute = compute_type};
    return product(found, &g, alpha, beta, a, b, c, "cublasGemmEx_64");
}

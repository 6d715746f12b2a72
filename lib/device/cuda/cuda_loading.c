/* What makes the driver load code, and how that is kept out of its way. CUDA loads a kernel when it
 * is first used (lazy loading). The driver then waits for the whole device, inside the call, where
 * no deadline reaches it, and holds the context's lock, which calls of other threads and of NCCL
 * need. While a collective is in flight, its end may depend on such a call. So a call that may load
 * something comes after a wait for COMPUTE that can be interrupted. */
#include "cuda_device_private.h"

#include <stdint.h>

enum {
    PRODUCTS = 512, /* that are remembered */
    FAMILY = 64,    /* a product's extents are rounded: products of one family mostly need the same kernel */
    VECTOR = 16,    /* bytes: the longest load of a kernel */
};

/* ---- opening ---- */

muster_status mst_cuda_open_loading(mst_cuda *cuda) {
    size_t bytes = 0;
    cuda->products = mst_alloc(PRODUCTS * sizeof *cuda->products);
    if (!cuda->products) return mst_out_of_memory("CUDA: the list of products", PRODUCTS * (int64_t)sizeof *cuda->products);
    MUSTER_TRY(MST_CU(cuda, cuCtxGetLimit, &bytes, MST_CU_LIMIT_STACK_BYTES));
    cuda->stack_bytes = (int64_t)bytes;
    return MUSTER_OK;
}

muster_status mst_cuda_load_function(mst_cuda *cuda, mst_cu_function function) {
    int threads;
    if (cuda->api->cuFuncLoad) return MST_CU(cuda, cuFuncLoad, function);
    /* An older driver has to load it in order to answer. */
    return MST_CU(cuda, cuFuncGetAttribute, &threads, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, function);
}

/* ---- products ---- */

static uint64_t product_hash(const mst_cuda_product *product) {
    const uint64_t words[] = {product->kind, (uint64_t)product->m, (uint64_t)product->n, (uint64_t)product->k};
    uint64_t hash = 0;
    for (int i = 0; i < 4; i++) { /* splitmix64 (Steele, Lea, Flood 2014) */
        hash = (hash ^ words[i]) + 0x9E3779B97F4A7C15u;
        hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
        hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
        hash ^= hash >> 31;
    }
    return hash;
}

static mst_cuda_product *product_place(const mst_cuda *cuda, const mst_cuda_product *product) {
    return &cuda->products[product_hash(product) % PRODUCTS];
}

static bool product_known(const mst_cuda *cuda, const mst_cuda_product *product) {
    const mst_cuda_product *there = product_place(cuda, product);
    return there->kind == product->kind && there->m == product->m && there->n == product->n && there->k == product->k;
}

static int64_t product_bits(int64_t extent) { return extent > 0 ? 64 - __builtin_clzll((unsigned long long)extent) : 0; }

static mst_cuda_product product_family(const mst_cuda_product *product) {
    return (mst_cuda_product){
        .kind = product->kind | FAMILY, .m = product_bits(product->m), .n = product_bits(product->n), .k = product_bits(product->k)};
}

mst_cuda_product mst_cuda_product_of(const mst_gemm *g) {
    const uint64_t element = (uint64_t)muster_dtype_size(g->dtype),
                   addresses = (uint64_t)(uintptr_t)g->a | (uint64_t)(uintptr_t)g->b | (uint64_t)(uintptr_t)g->c,
                   rows = (uint64_t)g->lda * element | (uint64_t)g->ldb * element | (uint64_t)g->ldc * element;
    return (mst_cuda_product){.kind = 1 | (uint32_t)g->transpose_a << 1 | (uint32_t)g->transpose_b << 2 | (uint32_t)(g->beta == 0) << 3 |
                                      (uint32_t)((addresses | rows) % VECTOR == 0) << 4 | (uint32_t)g->dtype << 8,
                              .m = g->m,
                              .n = g->n,
                              .k = g->k};
}

/* Which kernel a product needs is cuBLAS's own choice. So in flight every product that has not been
 * computed before waits, and otherwise only the first one of a family: then nothing depends on the
 * wait but the deadline. */
muster_status mst_cuda_before_product(mst_cuda *cuda, const mst_cuda_product *product) {
    if (__builtin_expect(product_known(cuda, product), 1)) return MUSTER_OK;
    const mst_cuda_product family = product_family(product);
    if (!cuda->head.in_flight && product_known(cuda, &family)) return MUSTER_OK;
    return mst_cuda_await_compute(cuda);
}

/* Another product may lose its place: it waits once more. */
void mst_cuda_note_product(mst_cuda *cuda, const mst_cuda_product *product) {
    if (product_known(cuda, product)) return;
    const mst_cuda_product family = product_family(product);
    *product_place(cuda, &family) = family;
    *product_place(cuda, product) = *product;
}

/* ---- launches of the user's kernels ---- */

/* The driver gives each thread more memory of its own (for its stack, and for registers that do not
 * fit) when a kernel is the first to need it, and never takes it back. What else a first launch may
 * bring, such as the buffer of printf, NVIDIA does not say: in flight every first launch waits. */
muster_status mst_cuda_before_first_launch(mst_cuda *cuda, int64_t stack_bytes) {
    if (stack_bytes <= cuda->stack_bytes && !cuda->head.in_flight) return MUSTER_OK;
    return mst_cuda_await_compute(cuda);
}

/* ---- the description ---- */

const char *mst_cuda_loading_mode(const mst_cuda *cuda) {
    unsigned int mode = 0;
    if (cuda->api->cuModuleGetLoadingMode(&mode) != MST_CU_SUCCESS) return "";
    return mode == MST_CU_MODULE_EAGER_LOADING ? " (eager loading)" : mode == MST_CU_MODULE_LAZY_LOADING ? " (lazy loading)" : "";
}

/* The device code of the discrete device: the library's kernel sources, compiled as C++ for the
 * host as for the simulated GPUs (tests/sim/shim), and matrix products. */
#include "device_discrete_private.h"

#include "cublas/gemm.h"
#include "dtype_impl.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS = 256, MOST_BLOCKS = 16, COUNTED = 128 };

/* ---- how often each kernel ran ---- */

static struct {
    const mst_shim_entry *_Atomic kernel;
    _Atomic int64_t runs;
} counts[COUNTED];

static void count_run(const mst_shim_entry *kernel) {
    for (int i = 0; i < COUNTED; i++) {
        const mst_shim_entry *there = NULL;
        if (!atomic_compare_exchange_strong(&counts[i].kernel, &there, kernel) && there != kernel) continue;
        atomic_fetch_add(&counts[i].runs, 1);
        return;
    }
}

int64_t mst_discrete_launches(const char *kernel) {
    int64_t runs = 0;
    for (int i = 0; i < COUNTED; i++) {
        const mst_shim_entry *there = atomic_load(&counts[i].kernel);
        if (there && (!kernel || strcmp(there->name, kernel) == 0)) runs += atomic_load(&counts[i].runs);
    }
    return runs;
}

/* ---- kernels ---- */

static _Thread_local struct {
    const discrete_device *device;
    const void *address; /* that the kernel was not allowed to use */
    jmp_buf leave;
} running;

void *mst_shim_address(const void *address) {
    void *alias = discrete_alias(running.device, address);
    if (alias) return alias;
    running.address = address;
    longjmp(running.leave, 1);
}

static muster_status run_kernel(discrete_device *device, const discrete_work *work) {
    running.device = device;
    if (setjmp(running.leave))
        return mst_error(MUSTER_INTERNAL, "%s: the kernel %s: address: expected one inside an allocated block of this device, received %p",
                         device->head.name, work->kernel->name, running.address);
    work->kernel->function(work->parameters, work->blocks, THREADS);
    count_run(work->kernel);
    return MUSTER_OK;
}

muster_status discrete_find_kernels(discrete_device *device) {
    const int32_t count = mst_code_kernel_count();
    if (count == 0) return MUSTER_OK; /* no module has contributed kernels */
    device->kernels = mst_alloc((size_t)count * sizeof(mst_shim_entry *));
    if (!device->kernels) return mst_out_of_memory("discrete device: kernels", count * (int64_t)sizeof(mst_shim_entry *));
    device->kernel_count = count;
    for (int32_t i = 0; i < count; i++) {
        device->kernels[i] = mst_shim_find(mst_code_kernel_name(i));
        if (!device->kernels[i]) discrete_misuse(device, "a kernel whose source the tests were not built with");
    }
    return MUSTER_OK;
}

/* On as many blocks as a processor of some size would take. */
static int64_t choose_blocks(discrete_device *device, const mst_code_kernel *kernel, int64_t work) {
    const int64_t most = 1 + (int64_t)(discrete_random(&device->random) >> 33) % MOST_BLOCKS;
    const int64_t wanted = kernel->blocks ? work : (work - 1) / THREADS + 1;
    return wanted < most ? wanted : most;
}

static muster_status launch(discrete_device *device, mst_code_kernel *kernel, int64_t count, const void *parameters, int64_t bytes) {
    if (count <= 0) return MUSTER_OK;
    if (bytes < 0 || bytes > MST_CODE_PARAMETERS_MAX)
        return mst_error(MUSTER_INTERNAL, "%s: the kernel %s: expected at most %d bytes of parameters, received %lld", device->head.name,
                         kernel->name, MST_CODE_PARAMETERS_MAX, (long long)bytes);
    const int32_t place = mst_code_kernel_place(kernel);
    if (place < 0 || place >= device->kernel_count)
        return mst_error(MUSTER_INTERNAL, "%s: the kernel %s: expected one that was there when the device opened, received %s",
                         device->head.name, kernel->name, place < 0 ? "one of no source" : "one that was added later");
    if (bytes != device->kernels[place]->parameter_bytes) discrete_misuse(device, "parameters of another size than the kernel's");
    discrete_work *work; /* filled in place: it is not the device's before submit */
    MUSTER_TRY(discrete_next_work(device, device->head.work_queue, run_kernel, &work));
    memcpy(work->parameters, parameters, (size_t)bytes);
    work->kernel = device->kernels[place];
    work->blocks = choose_blocks(device, kernel, count);
    discrete_submit(device, device->head.work_queue);
    return MUSTER_OK;
}

static muster_status discrete_launch(mst_device *head, mst_code_kernel *kernel, int64_t work, const void *parameters, int64_t bytes) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, launch(device, kernel, work, parameters, bytes));
}

/* ---- matrix products ---- */

static muster_status run_product(discrete_device *device, const discrete_work *work) {
    gemm product;
    memcpy(&product, work->parameters, sizeof product);
    return gemm_run(&product) ? MUSTER_OK : mst_out_of_memory(device->head.name, product.m * product.n * (int64_t)sizeof(float));
}

/* Sets *alias to where the device's thread finds a row-major matrix of that many stored rows and
 * columns. */
static muster_status find_matrix(discrete_device *device, const void *address, int64_t rows, int64_t columns, int64_t leading,
                                 int64_t element, void **alias) {
    if (leading < columns) discrete_misuse(device, "leading dimensions that BLAS refuses");
    *alias = NULL;
    return rows == 0 || columns == 0 ? MUSTER_OK : discrete_translate(device, address, ((rows - 1) * leading + columns) * element, alias);
}

/* The column-major product that has the same result: C^T = B^T A^T. */
static muster_status make_product(discrete_device *device, const mst_gemm *g, gemm *product) {
    static const unsigned types[MST_DTYPE_COUNT] = {[MUSTER_F16] = MST_CUBLAS_R_16F,
                                                    [MUSTER_BF16] = MST_CUBLAS_R_16BF,
                                                    [MUSTER_F32] = MST_CUBLAS_R_32F,
                                                    [MUSTER_F64] = MST_CUBLAS_R_64F};
    const bool is_f64 = g->dtype == MUSTER_F64;
    *product = (gemm){.transpose_a = g->transpose_b,
                      .transpose_b = g->transpose_a,
                      .m = g->n,
                      .n = g->m,
                      .k = g->k,
                      .lda = g->ldb,
                      .ldb = g->lda,
                      .ldc = g->ldc,
                      .type = types[g->dtype],
                      .same_types = true,
                      .compute = is_f64 ? MST_CUBLAS_COMPUTE_64F : MST_CUBLAS_COMPUTE_32F,
                      .alpha = g->alpha,
                      .beta = g->beta};
    if (!is_f64 && g->dtype != MUSTER_F32 && g->dtype != MUSTER_F16 && g->dtype != MUSTER_BF16)
        discrete_misuse(device, "a matrix product of a dtype that has none");
    const int64_t element = (int64_t)gemm_element(product->type);
    void *a, *b;
    MUSTER_TRY(find_matrix(device, g->a, g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, g->lda, element, &a));
    MUSTER_TRY(find_matrix(device, g->b, g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, g->ldb, element, &b));
    MUSTER_TRY(find_matrix(device, g->c, g->m, g->n, g->ldc, element, &product->c));
    product->a = b;
    product->b = a;
    return MUSTER_OK;
}

static muster_status multiply(discrete_device *device, const mst_gemm *g) {
    gemm product;
    discrete_work *work;
    if (g->m == 0 || g->n == 0) return MUSTER_OK;
    MUSTER_TRY(make_product(device, g, &product));
    MUSTER_TRY(discrete_next_work(device, MST_QUEUE_COMPUTE, run_product, &work));
    memcpy(work->parameters, &product, sizeof product);
    discrete_submit(device, MST_QUEUE_COMPUTE);
    return MUSTER_OK;
}

static muster_status discrete_gemm(mst_device *head, const mst_gemm *g) {
    discrete_device *device = discrete_begin_issue(head);
    return discrete_end_issue(device, multiply(device, g));
}

/* Each device has an arena of its own, which no other device can use. */
static muster_status discrete_peer_access(mst_device *head, mst_device *other, bool *access) {
    *access = head == other;
    return MUSTER_OK;
}

const mst_device_code_table discrete_code = {.launch = discrete_launch, .gemm = discrete_gemm, .peer_access = discrete_peer_access};

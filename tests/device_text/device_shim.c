/* The device "discrete" of device_discrete.h with a processor of its own: it runs the kernel texts,
 * compiled for the host, at once. Its addresses are no addresses for the host: code that reads them
 * dies by SIGSEGV. */
#include "device_discrete.h"

#include "code_impl.h"
#include "mst_shim.h"
#include "muster/tensor.h"
#include "ops_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 4096, THREADS = 256 };
static const uintptr_t beyond = (uintptr_t)1 << 62;

typedef struct block {
    char *memory;
    int64_t bytes;
} block;
static block blocks[BLOCKS];
static int32_t used;
static uint64_t numbers = 1;

int64_t mst_discrete_live(void) {
    int64_t live = 0;
    for (int32_t i = 0; i < used; i++) live += blocks[i].memory != NULL;
    return live;
}

void mst_discrete_set_delays(int32_t longest_us, uint64_t seed) {
    (void)longest_us;
    numbers = seed | 1;
}

static void misuse(const char *sentence) {
    fprintf(stderr, "device of the kernel texts: %s\n", sentence);
    abort();
}

/* [address, address + bytes) must lie in one block. */
static void *here(const void *address, int64_t bytes) {
    const char *at = (const char *)((uintptr_t)address - beyond);
    for (int32_t i = 0; i < used; i++)
        if (blocks[i].memory && at >= blocks[i].memory && at + bytes <= blocks[i].memory + blocks[i].bytes) return (void *)(uintptr_t)at;
    misuse("an address outside its memory");
    return NULL;
}

void *mst_shim_address(const void *device_address) { return here(device_address, 1); }

static muster_status shim_open(const mst_device_table *table, const char *argument, mst_device **device) {
    (void)argument;
    mst_device *opened = mst_alloc(sizeof *opened);
    if (!opened) return mst_out_of_memory("shim", sizeof *opened);
    *opened = mst_device_head(table);
    snprintf(opened->name, sizeof opened->name, "discrete of the texts");
    *device = opened;
    return MUSTER_OK;
}

static void shim_close(mst_device *device) {
    if (mst_discrete_live() > 0) misuse("closed with memory that was not released");
    used = 0;
    mst_free(device);
}

static muster_status shim_allocate(mst_device *device, int64_t bytes, void **address) {
    int64_t room = bytes > 0 ? bytes : 1;
    char *memory = mst_alloc_uninitialised((size_t)room);
    if (!memory) return mst_out_of_memory(device->name, bytes);
    memset(memory, 0xCD, (size_t)room);
    int32_t at = 0;
    while (at < used && blocks[at].memory) at++;
    if (at == BLOCKS) misuse("too many blocks");
    if (at == used) used++;
    blocks[at] = (block){memory, room};
    *address = (void *)((uintptr_t)memory + beyond);
    return MUSTER_OK;
}

static void shim_release(mst_device *device, void *address) {
    (void)device;
    if (!address) return;
    char *memory = (char *)((uintptr_t)address - beyond);
    for (int32_t i = 0; i < used; i++)
        if (blocks[i].memory == memory) {
            mst_free(memory);
            blocks[i].memory = NULL;
            return;
        }
    misuse("released what was not allocated");
}

static muster_status shim_reserve(mst_device *device, int64_t bytes) {
    (void)device, (void)bytes;
    return MUSTER_OK;
}

static muster_status copy_in(mst_device *device, void *to, const void *from, int64_t bytes) {
    (void)device;
    if (bytes > 0) memcpy(here(to, bytes), from, (size_t)bytes);
    return MUSTER_OK;
}

static muster_status copy_out(mst_device *device, void *to, const void *from, int64_t bytes) {
    (void)device;
    if (bytes > 0) memcpy(to, here(from, bytes), (size_t)bytes);
    return MUSTER_OK;
}

static muster_status copy(mst_device *device, void *to, const void *from, int64_t bytes) {
    return bytes > 0 ? copy_out(device, here(to, bytes), from, bytes) : MUSTER_OK;
}

static muster_status synchronize(mst_device *device) {
    (void)device;
    return MUSTER_OK;
}

/* On as many blocks as a processor of some size would take. */
static muster_status launch_code(mst_device *device, mst_code_kernel *kernel, int64_t work, const void *parameters, int64_t bytes) {
    (void)device;
    int32_t place = mst_code_kernel_place(kernel);
    const mst_shim_entry *entry = mst_shim_find(kernel->name);
    if (place < 0 || !entry || strcmp(mst_code_kernel_name(place), kernel->name) != 0) misuse("a kernel that no text has");
    if (bytes != entry->parameter_bytes || bytes > MST_LAUNCH_MAX) misuse("parameters of another size than the kernel's");
    if (work <= 0) return MUSTER_OK;
    numbers = numbers * 6364136223846793005u + 1442695040888963407u;
    int64_t most = 1 + (int64_t)(numbers >> 60), wanted = kernel->blocks ? work : (work + THREADS - 1) / THREADS;
    _Alignas(16) char own[MST_LAUNCH_MAX];
    memcpy(own, parameters, (size_t)bytes);
    entry->function(own, wanted < most ? wanted : most, THREADS);
    return MUSTER_OK;
}

#define MULTIPLY(T)                                                                                                 \
    do {                                                                                                            \
        const T *a = here(g->a, 1), *b = here(g->b, 1);                                                             \
        T *c = here(g->c, 1);                                                                                       \
        for (int64_t i = 0; i < g->m; i++)                                                                          \
            for (int64_t j = 0; j < g->n; j++) {                                                                    \
                double sum = 0;                                                                                     \
                for (int64_t l = 0; l < g->k; l++)                                                                  \
                    sum += (double)a[g->transpose_a ? l * g->lda + i : i * g->lda + l] *                            \
                           (double)b[g->transpose_b ? j * g->ldb + l : l * g->ldb + j];                             \
                c[i * g->ldc + j] = (T)(g->alpha * sum + (g->beta == 0 ? 0 : g->beta * (double)c[i * g->ldc + j])); \
            }                                                                                                       \
    } while (0)
static muster_status gemm(mst_device *device, const mst_gemm *g) {
    (void)device;
    if (g->lda < (g->transpose_a ? g->m : g->k) || g->ldb < (g->transpose_b ? g->k : g->n) || g->ldc < g->n)
        misuse("leading dimensions that BLAS refuses");
    if (g->dtype == MUSTER_F32)
        MULTIPLY(float);
    else
        MULTIPLY(double);
    return MUSTER_OK;
}

/* One device, which no other is a peer of. */
static muster_status peer_access(mst_device *device, mst_device *other, bool *access) {
    *access = device == other;
    return MUSTER_OK;
}

static const mst_device_memory_table memory = {
    .allocate = shim_allocate,
    .release = shim_release,
    .reserve = shim_reserve,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy,
};

static const mst_device_code_table code = {.launch = launch_code, .gemm = gemm, .peer_access = peer_access};

static const mst_device_table table = {
    .backend = "discrete",
    .open = shim_open,
    .close = shim_close,
    .synchronize = synchronize,
    .memory = &memory,
    .code = &code,
};

muster_status mst_discrete_register(void) {
    MUSTER_TRY(mst_code_add(&mst_ops_code));
    return mst_device_register(&table);
}

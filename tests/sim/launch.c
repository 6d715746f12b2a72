/* A launch: its own copy of the parameters, run on the stream's thread. */
#include "shim/mst_shim.h"
#include "user_impl.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct launch {
    sim_module *module;
    const mst_shim_entry *kernel;
    int64_t blocks;
    int32_t threads;
    _Alignas(16) unsigned char parameters[];
} launch;

static _Thread_local struct {
    int device;
    const sim_stream *stream;
    const char *kernel;
    jmp_buf leave;
} running = {.device = -1};

/* Which kernels ran, and which were compiled, how often. */
enum { COUNTED = 1024 };
typedef enum { RUNS, COMPILATIONS, COUNTS } counted;
static struct {
    const char *_Atomic kernel;
    atomic_ullong count[COUNTS];
} counts[COUNTED];

static void count(const char *kernel, counted what) {
    for (int i = 0; i < COUNTED; i++) {
        const char *there = NULL;
        if (atomic_compare_exchange_strong_explicit(&counts[i].kernel, &there, kernel, memory_order_relaxed, memory_order_relaxed) ||
            there == kernel) {
            atomic_fetch_add_explicit(&counts[i].count[what], 1, memory_order_relaxed);
            return;
        }
    }
}

static uint64_t get_count(const char *kernel, counted what) {
    uint64_t sum = 0;
    for (int i = 0; i < COUNTED; i++) {
        const char *there = atomic_load_explicit(&counts[i].kernel, memory_order_relaxed);
        if (there && (!kernel || strcmp(kernel, there) == 0)) sum += atomic_load_explicit(&counts[i].count[what], memory_order_relaxed);
    }
    return sum;
}

void sim_launch_count(const char *kernel) { count(kernel, RUNS); }
uint64_t muster_sim_launches(const char *kernel) { return get_count(kernel, RUNS); }

/* The time of a compiler: the CPU is free for others meanwhile. */
void sim_compile(const char *kernel) {
    const mst_shim_entry *known = mst_shim_find(kernel);
    if (known) count(known->name, COMPILATIONS);
    if (sim_state.options.compile_time) usleep(sim_state.options.compile_time);
}

uint64_t muster_sim_compiled(const char *kernel) { return get_count(kernel, COMPILATIONS); }

void sim_launches_end(void) {
    for (int i = 0; i < COUNTED; i++)
        for (int what = 0; what < COUNTS; what++) atomic_store(&counts[i].count[what], 0);
}

void *mst_shim_address(const void *address) {
    int owner = sim_memory_device(address);
    sim_managed managed;
    if (owner >= 0 && sim_reaches(running.device, owner)) {
        sim_peer_access(running.stream, owner);
        return sim_kernels_lie(running.device, owner) ? sim_memory_mirage(address) : sim_memory_alias(owner, address, 1);
    }
    if (owner < 0 && sim_managed_find(address, 1, &managed)) return (void *)(uintptr_t)address;
    fprintf(stderr, "simulated GPU: device %d: kernel %s: illegal address %p (%s)\n", running.device, running.kernel, address,
            owner >= 0 ? "of a device that it may not reach" : "not in any allocation of a device");
    longjmp(running.leave, 1);
}

static sim_result finish(const launch *what, sim_result failed) {
    if (!failed) sim_launch_count(what->kernel->name);
    return failed;
}

static sim_result run(void *data, sim_stream *stream) {
    launch *what = data;
    running.device = sim_stream_device(stream);
    running.stream = stream;
    running.kernel = what->kernel->name;
    bool checked;
    sim_result failed = text_launch_run(what->kernel->name, what->parameters, (size_t)what->kernel->parameter_bytes, what->blocks,
                                        what->threads, stream, &checked);
    if (failed || checked) return finish(what, failed);
    if (setjmp(running.leave)) return SIM_ILLEGAL_ADDRESS;
    what->kernel->function(what->parameters, what->blocks, what->threads);
    return finish(what, SIM_OK);
}

static void drop(void *data) {
    launch *what = data;
    atomic_fetch_sub_explicit(&what->module->users, 1, memory_order_relaxed);
    free(what);
}

/* Whatever among the parameters lies in an allocation is taken for an address that the kernel
 * uses. */
int sim_launch_users(const void *parameters, size_t bytes, atomic_int **users) {
    int count = 0;
    for (size_t offset = 0; offset + 8 <= bytes && count < SIM_LAUNCH_USERS; offset += 8) {
        uint64_t word;
        memcpy(&word, (const char *)parameters + offset, 8);
        sim_block *block = sim_memory_find(-1, word, 1);
        if (!block) continue;
        atomic_fetch_add_explicit(&block->users, 1, memory_order_relaxed);
        users[count++] = &block->users;
    }
    return count;
}

static void trace(const launch *what, const sim_stream *stream) {
    size_t bytes = (size_t)what->kernel->parameter_bytes;
    char *text = sim_tracing() ? malloc(2 * bytes + 1) : NULL;
    if (!text) return;
    sim_trace_bytes(what->parameters, bytes, text);
    sim_trace("launch %p %s %lld %d %zu %s", (const void *)stream, what->kernel->name, (long long)what->blocks, (int)what->threads, bytes,
              text);
    free(text);
}

sim_result sim_launch(sim_function *function, sim_stream *stream, uint64_t blocks, uint32_t threads, const void *parameters) {
    size_t bytes = (size_t)function->kernel->parameter_bytes;
    launch *what = malloc(sizeof *what + bytes);
    if (!what) return SIM_OUT_OF_MEMORY;
    what->module = function->module;
    what->kernel = function->kernel;
    what->blocks = (int64_t)blocks;
    what->threads = (int32_t)threads;
    memcpy(what->parameters, parameters, bytes);
    trace(what, stream);
    atomic_int *users[SIM_LAUNCH_USERS];
    int count = sim_launch_users(parameters, bytes, users);
    atomic_fetch_add_explicit(&what->module->users, 1, memory_order_relaxed);
    sim_result result =
        sim_stream_push_users(stream, &(sim_entry){.what = "cuLaunchKernel", .run = run, .drop = drop, .data = what}, users, count);
    if (result) drop(what);
    return result;
}

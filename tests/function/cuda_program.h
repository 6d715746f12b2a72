/* The whole life of a small program on two GPUs, which calls every foreign symbol that Muster has a
 * use for; and a way to run such lives apart from the test, in a process that ends itself if it
 * hangs. */
#ifndef CUDA_PROGRAM_H
#define CUDA_PROGRAM_H

#include "base_check.h"
#include "cuda/cuda_impl.h"
#include "sim.h"
#include "state_impl.h"

#include "base_pace.h"
#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/ops.h"
#include "muster/runtime.h"
#include "muster/variable.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAM_ROWS = 8192, PROGRAM_COLUMNS = 8, PROGRAM_GATHERED = 1024, PROGRAM_COUNT = 3000 };

/* NCCL's ways on two GPUs, one of them by its PCI id; and those of virtual devices, the second by
 * the UUID. */
static const char *const program_devices[] = {"cuda@0000:11:00.0+1", "cuda@0+GPU-f17c810c-4bb1-c1e2-374c-f32c730e335e"};
static const char *const program_ways[] = {"nccl", "p2p"};

typedef struct program {
    const char *devices;
    int64_t fail_after_ns;
    float *x, *registered;
    int64_t *gathered;
    char log[2048];
} program;

static void program_log(void *user, muster_log_level level, const char *line) {
    (void)level;
    program *p = user;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    strncat(p->log, line, sizeof p->log - strlen(p->log) - 2);
    strcat(p->log, "\n");
    pthread_mutex_unlock(&lock);
}

/* Every collective once, on values that tell what they did: v ends as `size` times 6. */
static muster_status program_collectives(muster_worker *w, muster_tensor v) {
    const int64_t twice = 2 * PROGRAM_COUNT;
    const int32_t rank = muster_worker_rank(w);
    muster_tensor both;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &twice, &both));
    muster_communicator *part;
    MUSTER_TRY(muster_fill(w, rank + 1, v));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, v, v)); /* 3 */
    MUSTER_TRY(muster_worker_reduce(w, NULL, MUSTER_SUM, 0, v, v));  /* 6 on rank 0 */
    MUSTER_TRY(muster_worker_broadcast(w, NULL, 0, v, v));           /* 6 */
    MUSTER_TRY(muster_worker_all_gather(w, NULL, v, both));
    MUSTER_TRY(muster_worker_all_to_all(w, NULL, both, both));
    MUSTER_TRY(muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, both, v)); /* 12 */
    MUSTER_TRY(muster_worker_gather(w, NULL, 0, v, both));
    MUSTER_TRY(muster_worker_scatter(w, NULL, 0, both, v));
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    muster_status status = rank == 0 ? muster_worker_send(w, NULL, 1, 5, v) : muster_worker_recv(w, NULL, 0, 5, v);
    const muster_status ended = muster_worker_group_end(w, NULL);
    MUSTER_TRY(status);
    MUSTER_TRY(ended);
    MUSTER_TRY(muster_worker_split(w, NULL, 0, -rank, &part));
    status = muster_worker_all_reduce(w, part, MUSTER_MAX, v, v);
    const muster_status released = muster_worker_release(w, part);
    MUSTER_TRY(status);
    return released;
}

/* out[0]: the sum of x^T x; out[1]: 12. */
static muster_status program_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    muster_variable *variable = user;
    const int64_t square[] = {PROGRAM_COLUMNS, PROGRAM_COLUMNS}, count = PROGRAM_COUNT;
    muster_tensor c, v;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, square, &c));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &v));
    muster_tensor d;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, square, &d));
    MUSTER_TRY(muster_gemm(w, 1, muster_tensor_transpose(in[0]), in[0], 0, c));
    MUSTER_TRY(muster_copy(w, c, d));
    MUSTER_TRY(muster_sum(w, d, out[0]));
    MUSTER_TRY(program_collectives(w, v));
    MUSTER_TRY(muster_mean(w, v, out[1]));
    muster_tensor new_variable;
    MUSTER_TRY(muster_worker_update(w, variable, &new_variable));
    return muster_fill(w, 9, new_variable);
}

static muster_status program_describe(muster_runtime *runtime, muster_function **f, muster_variable **variable) {
    const float start[16] = {1, 2, 3};
    MUSTER_TRY(muster_variable_create(runtime, "v", muster_f32(start, 16), variable));
    MUSTER_TRY(muster_function_create(runtime, "f", program_body, *variable, f));
    MUSTER_TRY(muster_function_input(*f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    MUSTER_TRY(muster_function_output(*f, "sum", MUSTER_F32, 0, MUSTER_SUM));
    MUSTER_TRY(muster_function_output(*f, "twelve", MUSTER_F32, 0, MUSTER_MAX));
    return muster_function_update(*f, *variable, MUSTER_MASTER);
}

static muster_status program_check(const float *results, int64_t rows) {
    const float sum = (float)(rows * PROGRAM_COLUMNS * PROGRAM_COLUMNS);
    if (results[0] == sum && results[1] == 12) return MUSTER_OK;
    return mst_error(MUSTER_INTERNAL, "WRONG: expected %g and 12, received %g and %g", (double)sum, (double)results[0], (double)results[1]);
}

static muster_status program_calls(program *p, muster_function *f, muster_variable *variable) {
    float results[2] = {0}, late[2] = {0}, values[16];
    muster_tensor outputs[] = {muster_f32(&results[0]), muster_f32(&results[1])},
                  late_outputs[] = {muster_f32(&late[0]), muster_f32(&late[1])};
    muster_call_options sliced, gathered;
    muster_pending *pending;
    muster_call_options_init(&sliced);
    muster_call_options_init(&gathered);
    sliced.slices = 2;
    gathered.batch = (muster_selection){.kind = MUSTER_SELECT_LIST, .indices = p->gathered, .index_count = PROGRAM_GATHERED};
    MUSTER_TRY(muster_function_call(f, (muster_tensor[]){muster_f32(p->x, PROGRAM_ROWS, PROGRAM_COLUMNS)}, 1, outputs, 2, &sliced));
    MUSTER_TRY(program_check(results, PROGRAM_ROWS));
    MUSTER_TRY(
        muster_function_call(f, (muster_tensor[]){muster_f32(p->registered, PROGRAM_ROWS, PROGRAM_COLUMNS)}, 1, outputs, 2, &gathered));
    MUSTER_TRY(program_check(results, PROGRAM_GATHERED));
    MUSTER_TRY(muster_function_call_async(f, (muster_tensor[]){muster_f32(p->registered, PROGRAM_ROWS, PROGRAM_COLUMNS)}, 1, late_outputs,
                                          2, NULL, &pending));
    MUSTER_TRY(muster_pending_wait(&pending));
    MUSTER_TRY(program_check(late, PROGRAM_ROWS));
    MUSTER_TRY(muster_variables_all_reduce(&variable, 1, MUSTER_AVG));
    MUSTER_TRY(muster_variable_get(variable, 1, muster_f32(values, 16)));
    return values[15] == 9 ? MUSTER_OK : mst_error(MUSTER_INTERNAL, "WRONG: expected 9, received %g", (double)values[15]);
}

/* The first failure, with its message. */
static muster_status program_live(program *p) {
    muster_runtime_options options;
    muster_runtime *runtime = NULL;
    muster_function *f;
    muster_variable *variable;
    char message[MST_MESSAGE_SIZE];
    p->log[0] = '\0';
    muster_runtime_options_init(&options);
    options.devices = p->devices;
    options.fail_after_ns = p->fail_after_ns;
    options.warn_after_ns = -1;
    options.logical_shards = -1;
    options.log_level = MUSTER_LOG_WARNING; /* that kernels are compiled is no complaint */
    options.log = program_log;
    options.log_user = p;
    MUSTER_TRY(muster_runtime_open(&options, &runtime));
    muster_status status = muster_runtime_register_memory(runtime, p->registered, PROGRAM_ROWS * PROGRAM_COLUMNS * (int64_t)sizeof(float));
    if (status == MUSTER_OK) status = program_describe(runtime, &f, &variable);
    if (status == MUSTER_OK) status = program_calls(p, f, variable);
    if (status == MUSTER_OK) status = muster_runtime_unregister_memory(runtime, p->registered);
    mst_error_save(message);
    const muster_status closed = muster_runtime_close(runtime);
    if (closed != MUSTER_OK) return closed;
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}

static program program_make(const char *devices, int64_t fail_after_ns) {
    program p = {.devices = devices, .fail_after_ns = fail_after_ns};
    const size_t bytes = PROGRAM_ROWS * PROGRAM_COLUMNS * sizeof(float);
    p.x = malloc(bytes);
    p.registered = aligned_alloc(4096, bytes);
    p.gathered = malloc(PROGRAM_GATHERED * sizeof *p.gathered);
    if (!p.x || !p.registered || !p.gathered) abort();
    for (int i = 0; i < PROGRAM_ROWS * PROGRAM_COLUMNS; i++) p.x[i] = p.registered[i] = 1;
    for (int i = 0; i < PROGRAM_GATHERED; i++) p.gathered[i] = 2 * i + 1;
    return p;
}

static void program_free(program *p) {
    free(p->x);
    free(p->registered);
    free(p->gathered);
}

static void program_machine(uint64_t seed) {
    muster_sim_reset(&(muster_sim_options){.devices = 2, .seed = seed, .longest_delay = 5, .memory = 256 << 20});
    mst_cuda_forget_lost();
}

/* ---- apart ---- */

enum { APART_TEXT = 4096 };

/* Shared with the process that runs a case. */
typedef struct apart {
    char text[APART_TEXT]; /* what is wrong; "" where nothing is */
    char note[APART_TEXT];
} apart;

/* Most of the time they wait. */
#ifdef MUSTER_TEST_SANITIZED
enum { APART_AT_ONCE = 4 }; /* they take more memory */
#else
enum { APART_AT_ONCE = 8 };
#endif

typedef struct apart_runs {
    apart *slots; /* [APART_AT_ONCE] */
    pid_t processes[APART_AT_ONCE];
    char *arguments[APART_AT_ONCE];
    unsigned seconds;
    void (*run)(apart *a, void *argument);
    void (*ended)(apart *a, void *argument); /* a->text: what is wrong */
} apart_runs;

#define apart_wrong(a, ...) ((a)->text[0] ? (void)0 : (void)snprintf((a)->text, APART_TEXT, __VA_ARGS__))

static void apart_begin(apart_runs *r, int slot, void *argument) {
    apart *a = &r->slots[slot];
    a->text[0] = a->note[0] = '\0';
    fflush(NULL);
    const unsigned seconds = (unsigned)(r->seconds * test_pace());
    const pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
        alarm(seconds);
        r->run(a, argument);
        exit(0); /* with the leak checker, where there is one */
    }
    r->processes[slot] = child;
    r->arguments[slot] = argument;
}

static void apart_end_one(apart_runs *r) {
    int result = 0, slot = 0;
    pid_t child;
    while ((child = wait(&result)) < 0) continue;
    while (slot < APART_AT_ONCE && r->processes[slot] != child) slot++;
    if (slot == APART_AT_ONCE) return;
    apart *a = &r->slots[slot];
    r->processes[slot] = 0;
    if (WIFSIGNALED(result) && WTERMSIG(result) == SIGALRM)
        apart_wrong(a, "hangs: no end after %u s", r->seconds);
    else if (WIFSIGNALED(result))
        apart_wrong(a, "ended by signal %d", WTERMSIG(result));
    else if (WEXITSTATUS(result) != 0)
        apart_wrong(a, "ended with status %d", WEXITSTATUS(result));
    r->ended(a, r->arguments[slot]);
}

/* What the processes of the cases inherit, so that each need not make it again: the libraries, and
 * the pattern that fills memory which nobody has written. No symbol of the libraries is called. */
static void apart_share(void) {
    static const char *const names[] = {"libcuda.so.1", "libcublas.so.13", "libnvrtc.so.13", "libnccl.so.2"};
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    uint64_t address;
    for (size_t i = 0; folder && i < sizeof names / sizeof *names; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) fail_msg("%s", dlerror());
    }
    program_machine(1);
    for (int device = 0; device < 2; device++) {
        assert_int_equal(sim_memory_allocate(device, 1, &address), 0);
        assert_int_equal(sim_memory_release(address), 0);
    }
}

/* run(a, argument) for each of the `count` arguments of `size` bytes, in a process each. */
static void apart_run_all(apart_runs *r, void *arguments, size_t size, int count) {
    r->slots = mmap(NULL, APART_AT_ONCE * sizeof *r->slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r->slots == MAP_FAILED) abort();
    apart_share();
    memset(r->processes, 0, sizeof r->processes);
    for (int i = 0; i < count; i++) {
        int slot = 0;
        while (slot < APART_AT_ONCE && r->processes[slot]) slot++;
        if (slot == APART_AT_ONCE) {
            apart_end_one(r);
            for (slot = 0; r->processes[slot];) slot++;
        }
        apart_begin(r, slot, (char *)arguments + (size_t)i * size);
    }
    for (int slot = 0; slot < APART_AT_ONCE; slot++)
        while (r->processes[slot]) apart_end_one(r);
    munmap(r->slots, APART_AT_ONCE * sizeof *r->slots);
}

#endif

/* Built-in kernels that are checked for races: their texts, compiled for the machine as a program
 * of the user's is (shim/mst_texts.hh), in a library beside the machine's own. */
#include "shim/mst_texts.h"
#include "user_impl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sim_program *program; /* NULL: there is no such library, or it could not be loaded */
static mst_texts_control *control;

/* An address that is in no allocation is found where it is used. */
static void *address_in_kernel(const void *address) {
    uint64_t number = (uint64_t)(uintptr_t)address;
    return sim_memory_is_device_range(number) ? sim_memory_anywhere(number) : (void *)(uintptr_t)address;
}

static void load(void) {
    Dl_info info;
    char path[4096];
    if (dladdr(&once, &info) == 0) return;
    const char *slash = strrchr(info.dli_fname, '/');
    int folder = slash ? (int)(slash - info.dli_fname) : 0;
    snprintf(path, sizeof path, "%.*s/libmuster-sim-texts.so", folder, info.dli_fname);
    program = user_program_load(path);
    if (!program) return;
    control = dlsym(program->library, "mst_texts");
    control->address = address_in_kernel;
}

void muster_sim_leave_out_barrier(const char *file, int line) {
    pthread_once(&once, load);
    if (!control) return;
    control->left_out_file = file;
    control->left_out_line = line;
    control->left_out = 0;
}

uint64_t muster_sim_left_out(void) {
    pthread_once(&once, load);
    return control ? control->left_out : 0;
}

static user_launch *make_launch(const mst_program_kernel *kernel, const void *parameters, size_t bytes, int64_t blocks, int32_t threads,
                                sim_stream *stream) {
    user_launch *what = calloc(1, sizeof *what + bytes);
    if (!what) return NULL;
    what->program = program;
    what->kernel = kernel;
    what->name = kernel->name;
    what->blocks = (mst_program_position){(unsigned)blocks, 1, 1};
    what->threads = (mst_program_position){(unsigned)threads, 1, 1};
    what->device = sim_stream_device(stream);
    what->stream = stream;
    memcpy(what->packed, parameters, bytes);
    return what;
}

sim_result text_launch_run(const char *name, const void *parameters, size_t bytes, int64_t blocks, int32_t threads, sim_stream *stream,
                           bool *checked) {
    uint64_t seed;
    *checked = false;
    if (!user_races_wanted((uint64_t)blocks * (uint64_t)threads, &seed)) return SIM_OK;
    pthread_once(&once, load);
    const mst_program_kernel *kernel = program ? sim_program_find(program, name) : NULL;
    user_launch *what = kernel && kernel->packed_bytes == bytes ? make_launch(kernel, parameters, bytes, blocks, threads, stream) : NULL;
    if (!what) {
        sim_hazard("device %d: kernel %s: cannot be checked for races", sim_stream_device(stream), name);
        return SIM_OK;
    }
    what->races = user_races_begin(threads, seed);
    sim_result failed = SIM_OUT_OF_MEMORY;
    if (what->races) {
        user_blocks_run(what);
        failed = atomic_load_explicit(&what->failed, memory_order_relaxed);
    }
    user_races_end(what->races);
    free(what);
    *checked = true;
    return failed;
}

/* compile_times [ARCHITECTURE]: the time that the real NVRTC takes for the kernel sources, for
 * ARCHITECTURE (90 stands for sm_90): all of them as one program, what a device compiles when it
 * opens alone and with others, with an empty folder for what is kept, and the same again with the
 * folder that the second left. It measures, and compares nothing. docs/gpus.md has the times. */
#include "code_impl.h"
#include "communicator_impl.h"
#include "device_nvrtc.h"
#include "nn_impl.h"
#include "nvrtc_api_private.h"
#include "ops_impl.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static mst_code_target target = {.compiler = &mst_nvrtc_compiler, .architecture = 90};

static const mst_code_sources *const modules[] = {&mst_device_code, &mst_ops_code, &mst_nn_code, &mst_collectives_code};
enum { MODULES = sizeof modules / sizeof *modules };

static muster_status compile_as_one_program(int32_t *compiled) {
    static mst_code_source sources[256];
    static char text[1 << 14];
    mst_code_image image;
    int32_t count = 0;
    for (int m = 0; m < MODULES; m++) {
        for (int32_t i = 0; i < modules[m]->header_count; i++) sources[count++] = modules[m]->headers[i];
        for (int32_t i = 0; i < modules[m]->family_count; i++) {
            const mst_code_source *source = &modules[m]->families[i].source;
            sources[count++] = *source;
            snprintf(text + strlen(text), sizeof text - strlen(text), "#include \"%s\"\n", source->name);
        }
    }
    const mst_code_program program = {.name = "all.cu", .text = text, .sources = sources, .count = count};
    const muster_status status = mst_code_build(&target, &program, &image);
    *compiled = image.data && !image.found;
    if (status != MUSTER_OK && image.log) fprintf(stderr, "%.4000s\n", image.log);
    mst_code_release(&image);
    return status;
}

static muster_status open_device(bool several, int32_t *compiled) {
    const int32_t count = mst_code_family_count();
    mst_code_image *images = calloc((size_t)count, sizeof *images);
    if (!images) return MUSTER_OUT_OF_MEMORY;
    const muster_status status = mst_code_build_families(&target, several, images);
    *compiled = 0;
    for (int32_t i = 0; i < count; i++) {
        if (images[i].data && !images[i].found) ++*compiled;
        mst_code_release(&images[i]);
    }
    free(images);
    return status;
}

enum { AS_ONE_PROGRAM, ALONE, AMONG_SEVERAL, AGAIN };

static double seconds_of(struct timeval time) { return (double)time.tv_sec + 1e-6 * (double)time.tv_usec; }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* In a process of its own, which knows no image yet; NVRTC is loaded before. */
static int measure(int what, const char *name) {
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        const mst_nvrtc_api *api;
        struct rusage before, after;
        int32_t compiled = 0;
        muster_status status = mst_nvrtc_api_get(&api);
        target.user = (void *)(uintptr_t)api;
        getrusage(RUSAGE_SELF, &before);
        const double began = now();
        if (status == MUSTER_OK)
            status = what == AS_ONE_PROGRAM ? compile_as_one_program(&compiled) : open_device(what >= AMONG_SEVERAL, &compiled);
        const double wall = now() - began;
        getrusage(RUSAGE_SELF, &after);
        if (status != MUSTER_OK)
            fprintf(stderr, "%s: %s\n", name, muster_last_error());
        else
            printf("| %-48s | %8d | %8.2f | %8.2f |\n", name, compiled, seconds_of(after.ru_utime) - seconds_of(before.ru_utime), wall);
        fflush(stdout);
        _exit(status != MUSTER_OK);
    }
    int result;
    return waitpid(child, &result, 0) != child || result != 0;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind, (void)place;
    return remove(path);
}

int main(int argc, char **argv) {
    char alone[] = "/tmp/muster-compile-XXXXXX", several[] = "/tmp/muster-compile-XXXXXX";
    if (argc > 1) target.architecture = atoi(argv[1]);
    nvrtc_find_library();
    for (int m = 1; m < MODULES; m++)
        if (mst_code_add(modules[m]) != MUSTER_OK) return 1;
    if (!mkdtemp(alone) || !mkdtemp(several)) return 1;
    printf("NVRTC for sm_%d\n| %-48s | %8s | %8s | %8s |\n", target.architecture, "", "programs", "user s", "wall s");
    setenv("MUSTER_CACHE_DIR", "off", 1);
    int failed = measure(AS_ONE_PROGRAM, "all kernel sources as one program");
    setenv("MUSTER_CACHE_DIR", alone, 1);
    failed |= measure(ALONE, "a device opens alone, nothing kept");
    setenv("MUSTER_CACHE_DIR", several, 1);
    failed |= measure(AMONG_SEVERAL, "a device opens among several, nothing kept");
    failed |= measure(AGAIN, "the same again, with what was kept");
    nftw(alone, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    nftw(several, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return failed;
}

/* Builds the families of built-in kernels: at their first use one by one, and those that a device
 * needs when it opens all at once. */
#include "code_private.h"
#include "own_thread_impl.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FAMILY_SECONDS = 2, /* CPU time of NVRTC 13.0 for an average family on a processor of 2020 */
    THREADS_MAX = 8,    /* one compilation takes up to 200 MB of memory */
};

muster_status mst_code_build_family(const mst_code_target *target, int32_t family, mst_code_image *image) {
    mst_code_headers headers;
    char sentence[MST_MESSAGE_SIZE];
    *image = (mst_code_image){0};
    MUSTER_TRY(mst_code_headers_make(&headers));
    const mst_code_program program = mst_code_family_program(family, &headers);
    snprintf(sentence, sizeof sentence, "compiling the kernels of %s at their first use, which takes about %d s of CPU time", program.name,
             FAMILY_SECONDS);
    const muster_status status = mst_code_build_kept(target, &program, sentence, image);
    mst_code_headers_free(&headers);
    return status;
}

/* The families that one device compiles when it opens. */
typedef struct batch {
    const mst_code_target *target;
    const mst_code_headers *headers;
    mst_code_image *images;
    int32_t *families, count; /* the places of the families to compile */
    _Atomic int32_t next;
    _Atomic bool failed;
} batch;

static muster_status find_images(batch *b, bool several) {
    const mst_code_family *family;
    for (int32_t i = 0; (family = mst_code_family_at(i)); i++) {
        const mst_code_program program = mst_code_family_program(i, b->headers);
        MUSTER_TRY(mst_code_find(b->target, &program, &b->images[i]));
        const bool needed = family->time == MST_CODE_AT_OPEN || (several && family->time == MST_CODE_OF_SEVERAL);
        if (needed && !b->images[i].data) b->families[b->count++] = i;
    }
    return MUSTER_OK;
}

/* The CPUs that this process may use and that had nothing to do in the last minute, at least 1. */
static int32_t count_idle_cpus(void) {
    cpu_set_t allowed;
    double load = 0;
    const double all = (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    if (getloadavg(&load, 1) != 1 || load > all) load = all;
    const double idle = (double)CPU_COUNT(&allowed) * (all - load) / all;
    return idle >= 2 ? (int32_t)idle : 1;
}

static muster_status compile_next(void *argument) {
    batch *b = argument;
    int32_t at;
    while (!b->failed && (at = atomic_fetch_add(&b->next, 1)) < b->count) {
        const int32_t family = b->families[at];
        const mst_code_program program = mst_code_family_program(family, b->headers);
        const muster_status status = mst_code_build_kept(b->target, &program, NULL, &b->images[family]);
        if (status == MUSTER_OK) continue;
        b->failed = true;
        return status;
    }
    return MUSTER_OK;
}

static void announce_batch(const batch *b, int32_t threads) {
    char sentence[MST_MESSAGE_SIZE];
    if (!b->target->announce) return;
    snprintf(sentence, sizeof sentence, "compiling %d of %d kernel sources, which takes about %d s with %d thread%s", b->count,
             mst_code_family_count(), (b->count * FAMILY_SECONDS + threads - 1) / threads, threads, threads > 1 ? "s" : "");
    b->target->announce(b->target->announce_user, sentence);
}

static muster_status compile_batch(batch *b) {
    if (b->count == 0) return MUSTER_OK;
    int32_t threads = count_idle_cpus();
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    if (threads > b->count) threads = b->count;
    announce_batch(b, threads);
    return mst_own_threads_run(compile_next, b, threads, "the device code");
}

muster_status mst_code_build_families(const mst_code_target *target, bool several, mst_code_image *images) {
    mst_code_headers headers;
    const int32_t count = mst_code_family_count();
    memset(images, 0, (size_t)count * sizeof *images);
    MUSTER_TRY(mst_code_headers_make(&headers));
    batch b = {.target = target, .headers = &headers, .images = images, .families = mst_alloc((size_t)count * sizeof(int32_t))};
    muster_status status = b.families ? find_images(&b, several) : mst_out_of_memory("the device code", count * (int64_t)sizeof(int32_t));
    if (status == MUSTER_OK) status = compile_batch(&b);
    mst_free(b.families);
    mst_code_headers_free(&headers);
    for (int32_t i = 0; status != MUSTER_OK && i < count; i++) mst_code_release(&images[i]);
    return status;
}

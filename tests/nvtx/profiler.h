/* What the test's profiler has seen. It is asked by dlsym, since NVTX loads it. */
#ifndef TESTS_NVTX_PROFILER_H
#define TESTS_NVTX_PROFILER_H

#include <stdint.h>

enum { PROFILER_RANGES = 256 };

typedef struct profiler_range {
    char name[32];
    int64_t payload;
    uint32_t category;
    int64_t thread;
    int32_t depth; /* ranges around it, of its thread */
} profiler_range;

typedef struct profiler_seen {
    int32_t domains, pushes, pops, faults; /* faults: a pop without a push, a range of an unknown domain */
    char domain[32];
    profiler_range ranges[PROFILER_RANGES]; /* the first ones, in the order of their pushes */
} profiler_seen;

/* Copies it; call it while nobody pushes. */
typedef void profiler_look(profiler_seen *seen);

#endif

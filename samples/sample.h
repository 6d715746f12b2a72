/* sample.h: helpers of the samples, which end the program at the first failure or wrong result. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <muster/muster.h>

#define CHECK(call) sample_check((call), #call)
#define EXPECT(condition) sample_expect((condition), #condition, __FILE__, __LINE__)

static inline void sample_check(muster_status status, const char *call) {
    if (status == MUSTER_OK) return;
    fprintf(stderr, "%s\n  in %s: %s\n", muster_last_error(), call, muster_status_name(status));
    exit(1);
}

static inline void sample_expect(int holds, const char *condition, const char *file, int line) {
    if (holds) return;
    fprintf(stderr, "%s:%d: wrong result: not true that %s\n", file, line, condition);
    exit(1);
}

/* Opens a fixed number of CPU devices, so that the output does not depend on the machine. The
 * environment variable MUSTER_DEVICES has precedence: with as many devices of any kind, such as
 * cuda:2 or cuda@0+0 in place of host:2, the samples print the same. */
static inline muster_runtime *sample_open(const char *devices) {
    const char *chosen = getenv("MUSTER_DEVICES");
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = chosen && *chosen ? NULL : devices;
    muster_runtime *runtime;
    CHECK(muster_runtime_open(&options, &runtime));
    return runtime;
}

/* The same for a sample whose expected values are those of `count` devices: with another number
 * it says so and ends with 2. */
static inline muster_runtime *sample_open_exactly(const char *devices, int32_t count) {
    muster_runtime *runtime = sample_open(devices);
    const int32_t opened = muster_runtime_size(runtime);
    if (opened == count) return runtime;
    fprintf(stderr, "this sample shows what %d devices do: expected %d in MUSTER_DEVICES, such as %s, received %d (%s)\n", count, count,
            devices, opened, getenv("MUSTER_DEVICES"));
    muster_runtime_close(runtime);
    exit(2);
}

static inline void sample_print(const char *title, const float *values, int64_t count) {
    printf("%s", title);
    for (int64_t i = 0; i < count; i++) printf(" %g", (double)values[i]);
    printf("\n");
}

/* Does values[i] == expected hold for all i? For data of small whole numbers, which floats hold
 * exactly. */
static inline int sample_all(const float *values, int64_t count, float expected) {
    for (int64_t i = 0; i < count; i++)
        if (values[i] != expected) return 0;
    return 1;
}

#endif

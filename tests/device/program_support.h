/* Programs for the tests of devices that compile them. */
#ifndef MST_PROGRAM_SUPPORT_H
#define MST_PROGRAM_SUPPORT_H

#include "base_check.h"
#include "program_impl.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef MAYBE_UNUSED
#define MAYBE_UNUSED __attribute__((unused))
#endif

enum { BUFFER = 0 };

/* One kernel, whose parameters are given by their sizes. */
typedef struct source {
    const char *name, *text;
    mst_program_parameter parameters[MST_PROGRAM_ARGUMENTS];
    int32_t count;
    bool local;
    uint32_t needs;
} source;

static MAYBE_UNUSED muster_status try_open(mst_device *device, const source *one, mst_program **program, char **log) {
    const mst_program_kernel kernel = {one->name, one->parameters, one->count, one->local};
    const int64_t threads[] = {64};
    const mst_program_request request = {.code = {.name = one->name, .text = one->text},
                                         .kernels = &kernel,
                                         .kernel_count = 1,
                                         .needs = one->needs,
                                         .warm_threads = threads,
                                         .warm_count = 1};
    return device->program->open(device, &request, program, log);
}

static MAYBE_UNUSED mst_program *opened_program(mst_device *device, const source *one) {
    mst_program *program = NULL;
    char *log = NULL;
    assert_ok(try_open(device, one, &program, &log));
    assert_non_null(program);
    assert_null(log);
    return program;
}

static MAYBE_UNUSED void closed_program(mst_device *device, mst_program *program) { device->program->close(device, program); }

/* One that does not compile, or not here. */
static MAYBE_UNUSED void refused_program(mst_device *device, const source *one, muster_status code, const char *text) {
    mst_program *program = (mst_program *)(intptr_t)1;
    char *log = NULL;
    assert_refused(try_open(device, one, &program, &log), code, text);
    assert_null(program);
    mst_free(log);
}

static MAYBE_UNUSED mst_program_value buffer_of(void *address, int64_t bytes) {
    return (mst_program_value){.address = address, .extent = bytes};
}

static MAYBE_UNUSED mst_program_value scalar_of(const void *bits, int32_t bytes) {
    mst_program_value value = {0};
    memcpy(value.bytes, bits, (size_t)bytes);
    return value;
}

static MAYBE_UNUSED mst_program_value size_of(uint64_t size) { return scalar_of(&size, 8); }

static MAYBE_UNUSED mst_program_grid grid_of(int64_t groups, int64_t threads, int64_t local_bytes) {
    return (mst_program_grid){.dims = 1, .groups = {groups, 1, 1}, .threads = {threads, 1, 1}, .local_bytes = local_bytes};
}

static MAYBE_UNUSED void launched(mst_device *device, mst_program *program, mst_program_grid grid, const mst_program_value *values) {
    assert_ok(device->program->launch(device, program, 0, &grid, values));
}

#endif

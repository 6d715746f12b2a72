/* OpenCL as a compiler of device code. The image is the program's binary. */
#include "opencl_state_private.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_LINES = 300, OPTIONS_SIZE = 4096 };

static muster_status version(const mst_code_target *target, char text[MST_CODE_VERSION_SIZE]) {
    const mst_opencl_maker *maker = target->user;
    snprintf(text, MST_CODE_VERSION_SIZE, "%s", maker->cl->version);
    return MUSTER_OK;
}

char *mst_opencl_log(const mst_opencl *cl, mst_cl_program program, mst_cl_device device) {
    size_t bytes = 0;
    if (cl->api->clGetProgramBuildInfo(program, device, MST_CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != MST_CL_SUCCESS || bytes <= 1)
        return NULL;
    char *log = mst_alloc(bytes + 1);
    if (log && cl->api->clGetProgramBuildInfo(program, device, MST_CL_PROGRAM_BUILD_LOG, bytes, log, NULL) == MST_CL_SUCCESS &&
        log[strspn(log, " \t\r\n")])
        return log;
    mst_free(log);
    return NULL;
}

/* The log's first error, which warnings may precede. */
static const char *first_error(const char *log) {
    const char *at = strstr(log, "error:");
    while (at && at > log && at[-1] != '\n') at--;
    return at ? at : log;
}

static muster_status join_options(const mst_code_target *target, char text[OPTIONS_SIZE]) {
    int length = 0;
    text[0] = 0;
    for (int i = 0; i < MST_CODE_OPTIONS && target->options[i]; i++) {
        length += snprintf(text + length, (size_t)(OPTIONS_SIZE - length), "%s%s", i > 0 ? " " : "", target->options[i]);
        if (length >= OPTIONS_SIZE)
            return mst_error(MUSTER_INVALID_ARGUMENT, "OpenCL: expected options of less than %d bytes in all, received more", OPTIONS_SIZE);
    }
    return MUSTER_OK;
}

/* OpenCL returns one binary per device of the program; the binaries of devices for which nothing
 * was built are empty. This takes the first one that is not. It serves all devices, since their
 * binaries are the same. */
static muster_status take_binary(const mst_opencl *cl, mst_cl_program program, mst_code_image *image) {
    size_t bytes = 0;
    MUSTER_TRY(MST_CL(cl, cl->name, clGetProgramInfo, program, MST_CL_PROGRAM_BINARY_SIZES, 0, NULL, &bytes));
    const int32_t count = (int32_t)(bytes / sizeof(size_t));
    size_t *sizes = mst_alloc(bytes + 1);
    unsigned char **places = sizes ? mst_alloc((size_t)count * sizeof *places + 1) : NULL;
    if (!places) {
        mst_free(sizes);
        return mst_out_of_memory("OpenCL: sizes of binaries", (int64_t)bytes);
    }
    muster_status status = MST_CL(cl, cl->name, clGetProgramInfo, program, MST_CL_PROGRAM_BINARY_SIZES, bytes, sizes, NULL);
    int32_t which = 0;
    while (status == MUSTER_OK && which < count && sizes[which] == 0) which++;
    if (status == MUSTER_OK && which == count) status = mst_error(MUSTER_INTERNAL, "OpenCL: expected a binary, received 0 bytes");
    if (status == MUSTER_OK && !(places[which] = mst_alloc(sizes[which] + 1)))
        status = mst_out_of_memory("OpenCL: binary", (int64_t)sizes[which]);
    if (status == MUSTER_OK)
        status = MST_CL(cl, cl->name, clGetProgramInfo, program, MST_CL_PROGRAM_BINARIES, (size_t)count * sizeof *places, places, NULL);
    if (status == MUSTER_OK) {
        image->data = places[which];
        image->bytes = (int64_t)sizes[which];
    } else if (which < count) {
        mst_free(places[which]);
    }
    mst_free(places);
    mst_free(sizes);
    return status;
}

static muster_status build(const mst_code_target *target, const mst_code_program *source, mst_cl_program program, mst_code_image *image) {
    const mst_opencl_maker *maker = target->user;
    char options[OPTIONS_SIZE];
    MUSTER_TRY(join_options(target, options));
    const mst_cl_result result = maker->cl->api->clBuildProgram(program, 1, &maker->device, options, NULL, NULL);
    image->log = mst_opencl_log(maker->cl, program, maker->device);
    if (result == MST_CL_SUCCESS) return take_binary(maker->cl, program, image);
    muster_status status = mst_opencl_error(result, "clBuildProgram", source->name);
    if (status != MUSTER_INVALID_ARGUMENT || !image->log) return status;
    return mst_error(status, "%s: OpenCL: %.*s", source->name, FIRST_LINES, first_error(image->log));
}

static muster_status compile(const mst_code_target *target, const mst_code_program *source, mst_code_image *image) {
    const mst_opencl *cl = ((const mst_opencl_maker *)target->user)->cl;
    char *text;
    MUSTER_TRY(mst_opencl_expand(source, &text));
    mst_cl_result result = MST_CL_SUCCESS;
    mst_cl_program program = cl->api->clCreateProgramWithSource(cl->context, 1, (const char **)&text, NULL, &result);
    mst_free(text);
    MUSTER_TRY(mst_opencl_check(result, "clCreateProgramWithSource", cl->name));
    muster_status status = build(target, source, program, image);
    (void)cl->api->clReleaseProgram(program);
    return status;
}

const mst_code_compiler mst_opencl_compiler = {.name = "opencl", .version = version, .compile = compile};

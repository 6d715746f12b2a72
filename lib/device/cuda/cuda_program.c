/* User programs on a GPU. Each is a module, compiled for the exact device. All its functions are
 * loaded when it opens. */
#include "cuda_device_private.h"
#include "nvrtc_api_private.h"
#include "program_impl.h"

#include <string.h>

typedef struct cuda_kernel {
    char *name;
    mst_cu_function function;
    int32_t count;
    int32_t bytes[MST_PROGRAM_ARGUMENTS];
    int32_t stack_bytes; /* of the memory that CUDA calls local: each thread has its own */
    bool launched;
    mst_program_limits limits;
} cuda_kernel;

enum { SPARE = 64, PARAMETER_BYTES = 32768 /* CUDA allows 32764 in all */ };

/* A driver before CUDA 12.4 does not tell what parameters a function has. In a launch it reads one
 * argument for each, as long as the function's text says: from here. What was not declared is 0. */
typedef struct cuda_arguments {
    unsigned char declared[MST_PROGRAM_ARGUMENTS][8], zeros[PARAMETER_BYTES];
} cuda_arguments;

typedef struct cuda_program {
    mst_program head;
    mst_cu_module module;
    cuda_kernel *kernels;
    int32_t count;
    cuda_arguments *arguments; /* NULL: the parameters have been compared with their declaration */
} cuda_program;

muster_status mst_cuda_program_language(mst_device *device, int32_t *language) {
    const mst_nvrtc_api *nvrtc;
    (void)device;
    *language = MST_LANGUAGE_CUDA;
    return mst_nvrtc_api_get(&nvrtc);
}

/* ---- opening ---- */

/* The context must be current unless the program has no module. */
static void free_program(mst_cuda *cuda, cuda_program *program) {
    if (program->module) (void)cuda->api->cuModuleUnload(program->module);
    for (int32_t i = 0; program->kernels && i < program->count; i++) mst_free(program->kernels[i].name);
    mst_free(program->kernels);
    mst_free(program->arguments);
    mst_free(program->head.log);
    mst_free(program);
}

static muster_status device_limit(mst_cuda *cuda, unsigned int attribute, int64_t *limit) {
    int value = 0;
    MUSTER_TRY(MST_CU(cuda, cuDeviceGetAttribute, &value, attribute, cuda->device));
    *limit = value;
    return MUSTER_OK;
}

/* The dynamic local memory of a group, which CUDA calls shared. Beyond what every group may have, a
 * function must ask for it. */
static muster_status allow_local(mst_cuda *cuda, cuda_kernel *kernel) {
    int64_t usual = 0, most = 0;
    int declared = 0;
    MUSTER_TRY(MST_CU(cuda, cuFuncGetAttribute, &declared, MST_CU_FUNCTION_SHARED_BYTES, kernel->function));
    MUSTER_TRY(device_limit(cuda, MST_CU_ATTRIBUTE_MAX_SHARED_BYTES_PER_BLOCK, &usual));
    MUSTER_TRY(device_limit(cuda, MST_CU_ATTRIBUTE_MAX_SHARED_BYTES_PER_BLOCK_OPT_IN, &most));
    usual = usual > declared ? usual - declared : 0;
    most = most > declared ? most - declared : 0;
    kernel->limits.local_bytes = usual;
    if (most <= usual) return MUSTER_OK;
    const mst_cu_result result = cuda->api->cuFuncSetAttribute(kernel->function, MST_CU_FUNCTION_MAX_DYNAMIC_SHARED_BYTES, (int)most);
    if (result == MST_CU_INVALID_VALUE) return MUSTER_OK; /* not here */
    MUSTER_TRY(mst_cuda_check(cuda, result, "cuFuncSetAttribute"));
    kernel->limits.local_bytes = most;
    return MUSTER_OK;
}

static muster_status read_limits(mst_cuda *cuda, cuda_kernel *kernel) {
    static const unsigned int threads_in[] = {MST_CU_ATTRIBUTE_MAX_BLOCK_DIM_X, MST_CU_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                              MST_CU_ATTRIBUTE_MAX_BLOCK_DIM_Z};
    static const unsigned int groups_in[] = {MST_CU_ATTRIBUTE_MAX_GRID_DIM_X, MST_CU_ATTRIBUTE_MAX_GRID_DIM_Y,
                                             MST_CU_ATTRIBUTE_MAX_GRID_DIM_Z};
    mst_program_limits *limits = &kernel->limits;
    int threads = 0, stack = 0;
    MUSTER_TRY(MST_CU(cuda, cuFuncGetAttribute, &threads, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, kernel->function));
    MUSTER_TRY(MST_CU(cuda, cuFuncGetAttribute, &stack, MST_CU_FUNCTION_LOCAL_BYTES, kernel->function));
    for (int d = 0; d < MST_PROGRAM_DIMS; d++) {
        MUSTER_TRY(device_limit(cuda, threads_in[d], &limits->threads_in[d]));
        MUSTER_TRY(device_limit(cuda, groups_in[d], &limits->groups_in[d]));
    }
    MUSTER_TRY(device_limit(cuda, MST_CU_ATTRIBUTE_WARP_SIZE, &limits->preferred));
    limits->threads = threads;
    limits->processors = cuda->processors;
    kernel->stack_bytes = stack;
    return allow_local(cuda, kernel);
}

/* The parameters of the function, if the driver tells them, must be those that were declared: the
 * driver reads as many bytes of each argument as the function has. */
static muster_status check_parameters(mst_cuda *cuda, const cuda_kernel *kernel) {
    if (!cuda->api->cuFuncGetParamInfo) return MUSTER_OK;
    for (int32_t i = 0; i <= PARAMETER_BYTES; i++) {
        size_t offset = 0, bytes = 0;
        const mst_cu_result result = cuda->api->cuFuncGetParamInfo(kernel->function, (size_t)i, &offset, &bytes);
        if (result == MST_CU_INVALID_VALUE && i == kernel->count) return MUSTER_OK;
        if (result == MST_CU_INVALID_VALUE)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "kernel %s: expected a function with the %d parameters that were declared, received one with %d", kernel->name,
                             (int)kernel->count, (int)i);
        MUSTER_TRY(mst_cuda_check(cuda, result, "cuFuncGetParamInfo"));
        const int32_t declared = i >= kernel->count ? -1 : kernel->bytes[i] == 0 ? 8 : kernel->bytes[i];
        if (declared >= 0 && bytes != (size_t)declared)
            return mst_error(MUSTER_INVALID_ARGUMENT, "kernel %s: parameter %d: expected %d bytes, as declared, received a text with %zu",
                             kernel->name, (int)i, (int)declared, bytes);
    }
    return mst_error(MUSTER_INTERNAL, "%s: cuFuncGetParamInfo: kernel %s: expected an end of the parameters, received none", cuda->label,
                     kernel->name);
}

static muster_status make_kernel(mst_cuda *cuda, const cuda_program *program, const mst_program_kernel *asked, cuda_kernel *kernel) {
    if (asked->parameter_count < 0 || asked->parameter_count > MST_PROGRAM_ARGUMENTS)
        return mst_error(MUSTER_INVALID_ARGUMENT, "kernel %s: expected at most %d parameters, received %d", asked->name,
                         MST_PROGRAM_ARGUMENTS, (int)asked->parameter_count);
    kernel->name = mst_strdup(asked->name);
    if (!kernel->name) return mst_out_of_memory("CUDA: name of a kernel", (int64_t)strlen(asked->name) + 1);
    kernel->count = asked->parameter_count;
    for (int32_t i = 0; i < kernel->count; i++) kernel->bytes[i] = asked->parameters[i].bytes;
    const mst_cu_result result = cuda->api->cuModuleGetFunction(&kernel->function, program->module, asked->name);
    if (result == MST_CU_NOT_FOUND)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "kernel %s: expected a function of that name with KERNEL before it, received a text without one", asked->name);
    MUSTER_TRY(mst_cuda_check(cuda, result, "cuModuleGetFunction"));
    MUSTER_TRY(mst_cuda_load_function(cuda, kernel->function));
    MUSTER_TRY(check_parameters(cuda, kernel));
    return read_limits(cuda, kernel);
}

static muster_status fill(mst_cuda *cuda, cuda_program *program, const mst_program_request *request, const mst_code_image *image) {
    MUSTER_TRY(MST_CU(cuda, cuModuleLoadData, &program->module, image->data));
    program->kernels = mst_alloc((size_t)request->kernel_count * sizeof *program->kernels);
    if (!program->kernels) return mst_out_of_memory("CUDA: kernels", request->kernel_count * (int64_t)sizeof *program->kernels);
    program->count = request->kernel_count;
    if (!cuda->api->cuFuncGetParamInfo && !(program->arguments = mst_alloc(sizeof *program->arguments)))
        return mst_out_of_memory("CUDA: arguments of kernels", sizeof *program->arguments);
    for (int32_t i = 0; i < program->count; i++) MUSTER_TRY(make_kernel(cuda, program, &request->kernels[i], &program->kernels[i]));
    return MUSTER_OK;
}

/* If this driver cannot load the cached image, the program is compiled again. */
static muster_status make_program(mst_cuda *cuda, const mst_program_request *request, const mst_code_target *target, mst_code_image *image,
                                  cuda_program **program) {
    cuda_program *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory("CUDA: program", sizeof *made);
    muster_status status = fill(cuda, made, request, image);
    if (status != MUSTER_OK && !made->module && image->found && !mst_cuda_is_lost(cuda)) {
        mst_code_release(image);
        status = target->compiler->compile(target, &request->code, image);
        if (status == MUSTER_OK) status = fill(cuda, made, request, image);
    }
    if (status == MUSTER_OK) {
        *program = made;
        return MUSTER_OK;
    }
    char reason[MST_MESSAGE_SIZE];
    mst_error_save(reason);
    free_program(cuda, made);
    return mst_error_restore(status, reason);
}

static muster_status open_program(mst_cuda *cuda, const mst_program_request *request, mst_code_image *image, cuda_program **program) {
    const mst_nvrtc_api *nvrtc;
    MUSTER_TRY(mst_cuda_check_between_calls(cuda, "open of a program"));
    if (request->needs & MST_NEEDS_OPENCL)
        return mst_error(MUSTER_UNAVAILABLE, "%s needs OpenCL, which the device %s does not have", request->code.name, cuda->head.name);
    MUSTER_TRY(mst_nvrtc_api_get(&nvrtc));
    mst_code_target target = {.compiler = &mst_nvrtc_compiler, .user = (void *)nvrtc, .architecture = cuda->architecture};
    memcpy(target.options, request->options, sizeof target.options);
    MUSTER_TRY(mst_code_build(&target, &request->code, image));
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, make_program(cuda, request, &target, image, program));
}

muster_status mst_cuda_program_open(mst_device *device, const mst_program_request *request, mst_program **program, char **log) {
    mst_code_image image = {0};
    cuda_program *made = NULL;
    *program = NULL;
    *log = NULL;
    muster_status status = open_program(mst_cuda_of(device), request, &image, &made);
    char *said = image.log;
    const bool found = image.found;
    image.log = NULL;
    mst_code_release(&image);
    if (status != MUSTER_OK && made) { /* restoring the previous context failed */
        mst_free(said);
        said = NULL;
        mst_cuda_program_close(device, &made->head);
    }
    if (status != MUSTER_OK) {
        *log = said;
        return status;
    }
    made->head = (mst_program){.log = said, .found = found};
    *program = &made->head;
    return MUSTER_OK;
}

/* On a lost device the module is not unloaded, because that could wait for ever. */
void mst_cuda_program_close(mst_device *device, mst_program *head) {
    mst_cuda *cuda = mst_cuda_of(device);
    cuda_program *program = (cuda_program *)head;
    mst_cuda_scope scope;
    if (!program) return;
    const bool entered = !device->lost && mst_cuda_begin(cuda, &scope) == MUSTER_OK;
    if (!entered) program->module = NULL;
    free_program(cuda, program);
    if (entered) (void)mst_cuda_end(cuda, &scope, MUSTER_OK);
}

muster_status mst_cuda_program_limits(mst_device *device, const mst_program *head, int32_t kernel, mst_program_limits *limits) {
    (void)device;
    *limits = ((const cuda_program *)head)->kernels[kernel].limits;
    return MUSTER_OK;
}

/* ---- launching ---- */

/* For a function whose parameters are not known: see cuda_arguments. */
static void copy_arguments(const cuda_kernel *kernel, cuda_arguments *to, void *arguments[MST_PROGRAM_ARGUMENTS + SPARE]) {
    for (int32_t i = 0; i < MST_PROGRAM_ARGUMENTS + SPARE; i++) {
        if (i < kernel->count && kernel->bytes[i] > 8) continue; /* the library's own structures: it knows their size */
        if (i < kernel->count) memcpy(to->declared[i], arguments[i], 8);
        arguments[i] = i < kernel->count ? to->declared[i] : to->zeros;
    }
}

static muster_status launch(mst_cuda *cuda, const cuda_program *program, const cuda_kernel *kernel, const mst_program_grid *grid,
                            const mst_program_value *values) {
    void *arguments[MST_PROGRAM_ARGUMENTS + SPARE];
    for (int32_t i = 0; i < kernel->count; i++)
        arguments[i] = kernel->bytes[i] == 0   ? (void *)&values[i].address
                       : kernel->bytes[i] <= 8 ? (void *)values[i].bytes
                                               : values[i].address;
    if (program->arguments) copy_arguments(kernel, program->arguments, arguments);
    MUSTER_TRY(mst_cuda_before_compute(cuda));
    return MST_CU(cuda, cuLaunchKernel, kernel->function, (unsigned int)grid->groups[0], (unsigned int)grid->groups[1],
                  (unsigned int)grid->groups[2], (unsigned int)grid->threads[0], (unsigned int)grid->threads[1],
                  (unsigned int)grid->threads[2], (unsigned int)grid->local_bytes, mst_cuda_stream_of(cuda, cuda->head.work_queue),
                  arguments, NULL);
}

static muster_status launch_first(mst_cuda *cuda, const cuda_program *program, cuda_kernel *kernel, const mst_program_grid *grid,
                                  const mst_program_value *values) {
    MUSTER_TRY(mst_cuda_before_first_launch(cuda, kernel->stack_bytes));
    MUSTER_TRY(launch(cuda, program, kernel, grid, values));
    if (kernel->stack_bytes > cuda->stack_bytes) cuda->stack_bytes = kernel->stack_bytes;
    kernel->launched = true;
    return MUSTER_OK;
}

static muster_status check_grid(const cuda_kernel *kernel, const mst_program_grid *grid) {
    int64_t threads = 1;
    for (int d = 0; d < MST_PROGRAM_DIMS; d++) {
        if (grid->groups[d] < 1 || grid->threads[d] < 1)
            return mst_error(MUSTER_INTERNAL, "kernel %s: expected at least one group and one thread along each dimension, received none",
                             kernel->name);
        if (grid->groups[d] > kernel->limits.groups_in[d] || grid->threads[d] > kernel->limits.threads_in[d])
            return mst_error(MUSTER_OUT_OF_RANGE, "kernel %s: expected a grid within the limits of the device, received a larger one",
                             kernel->name);
        threads *= grid->threads[d];
        if (threads > kernel->limits.threads)
            return mst_error(MUSTER_OUT_OF_RANGE, "kernel %s: expected at most %lld threads in a group, received more", kernel->name,
                             (long long)kernel->limits.threads);
    }
    if (grid->local_bytes > kernel->limits.local_bytes)
        return mst_error(MUSTER_OUT_OF_RANGE, "kernel %s: expected at most %lld bytes of dynamic local memory in a group, received %lld",
                         kernel->name, (long long)kernel->limits.local_bytes, (long long)grid->local_bytes);
    return MUSTER_OK;
}

muster_status mst_cuda_program_launch(mst_device *device, mst_program *head, int32_t index, const mst_program_grid *grid,
                                      const mst_program_value *values) {
    mst_cuda *cuda = mst_cuda_of(device);
    const cuda_program *program = (const cuda_program *)head;
    cuda_kernel *kernel = &program->kernels[index];
    MUSTER_TRY(check_grid(kernel, grid));
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope,
                        kernel->launched ? launch(cuda, program, kernel, grid, values) : launch_first(cuda, program, kernel, grid, values));
}

/* The built-in kernels of a device: one module, loaded with all its functions when the device
 * opens, so that no launch loads anything. */
#include "code_impl.h"
#include "cuda_device_private.h"
#include "nvrtc_api_private.h"

static muster_status find_functions(mst_cuda *cuda) {
    for (int32_t i = 0; i < cuda->function_count; i++) {
        int threads = 0;
        MUSTER_TRY(MST_CU(cuda, cuModuleGetFunction, &cuda->functions[i], cuda->module, mst_code_kernel_name(i)));
        /* Loads the function, if the driver loads functions at their first use. */
        MUSTER_TRY(MST_CU(cuda, cuFuncGetAttribute, &threads, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, cuda->functions[i]));
        if (threads < MST_CUDA_THREADS)
            return mst_error(MUSTER_UNSUPPORTED, "%s: the kernel %s: expected to run with %d threads in a block, received at most %d",
                             cuda->label, mst_code_kernel_name(i), MST_CUDA_THREADS, threads);
    }
    return MUSTER_OK;
}

static muster_status build(mst_cuda *cuda, mst_code_image *image) {
    const mst_nvrtc_api *nvrtc;
    MUSTER_TRY(mst_nvrtc_api_get(&nvrtc));
    mst_code_target target = {.compiler = &mst_nvrtc_compiler, .user = (void *)nvrtc, .architecture = cuda->architecture};
    return mst_code_build(&target, NULL, image);
}

static void forward_notices(void) {
    char text[MST_MESSAGE_SIZE];
    while (mst_code_take_notice(text)) mst_cuda_add_notice(text);
}

muster_status mst_cuda_open_code(mst_cuda *cuda) {
    int32_t count = mst_code_kernel_count();
    if (count == 0) return MUSTER_OK; /* no module has contributed kernels */
    mst_code_image image = {0};
    muster_status status = build(cuda, &image);
    if (status == MUSTER_OK) status = MST_CU(cuda, cuModuleLoadData, &cuda->module, image.data);
    mst_code_release(&image);
    forward_notices();
    MUSTER_TRY(status);
    cuda->functions = mst_alloc((size_t)count * sizeof(mst_cu_function));
    if (!cuda->functions) return mst_out_of_memory("the functions of the device code", count * (int64_t)sizeof(mst_cu_function));
    cuda->function_count = count;
    return find_functions(cuda);
}

void mst_cuda_close_code(mst_cuda *cuda) {
    if (cuda->module) (void)cuda->api->cuModuleUnload(cuda->module);
    cuda->module = NULL;
}

static muster_status launch(mst_cuda *cuda, mst_cu_function function, bool blocks, int64_t work, const void *parameters) {
    int64_t wanted = blocks ? work : (work - 1) / MST_CUDA_THREADS + 1;
    const int64_t most = (int64_t)cuda->processors * MST_CUDA_BLOCKS_PER_SM;
    if (wanted > most) wanted = most;
    void *arguments[] = {(void *)parameters};
    MUSTER_TRY(mst_cuda_before_compute(cuda));
    return MST_CU(cuda, cuLaunchKernel, function, (unsigned int)wanted, 1, 1, MST_CUDA_THREADS, 1, 1, 0, cuda->compute, arguments, NULL);
}

muster_status mst_cuda_launch(mst_device *device, mst_code_kernel *kernel, int64_t work, const void *parameters, int64_t parameter_bytes) {
    mst_cuda *cuda = mst_cuda_of(device);
    if (work <= 0) return mst_cuda_is_lost(cuda) ? mst_cuda_report_lost(cuda) : MUSTER_OK;
    if (parameter_bytes < 0 || parameter_bytes > MST_CODE_PARAMETERS_MAX)
        return mst_error(MUSTER_INTERNAL, "%s: the kernel %s: expected at most %d bytes of parameters, received %lld", cuda->label,
                         kernel->name, MST_CODE_PARAMETERS_MAX, (long long)parameter_bytes);
    int32_t place = mst_code_kernel_place(kernel);
    if (place < 0 || place >= cuda->function_count)
        return mst_error(MUSTER_INTERNAL, "%s: the kernel %s: expected one that was there when the device opened, received %s", cuda->label,
                         kernel->name, place < 0 ? "one of no text" : "one that was added later");
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, launch(cuda, cuda->functions[place], kernel->blocks, work, parameters));
}

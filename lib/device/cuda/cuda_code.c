/* The built-in kernels of a device: one module for each family. Those that the library needs in any
 * call, and all that are in the cache, are loaded when the device opens. The others are compiled
 * and loaded at their first launch. */
#include "code_impl.h"
#include "cuda_device_private.h"
#include "nvrtc_api_private.h"

#include <stdio.h>

/* ---- loading ---- */

/* All functions of the family, or none. */
static muster_status find_functions(mst_cuda *cuda, const mst_code_family *family, int32_t first, mst_cu_module module) {
    const int32_t count = family->kernel_count;
    mst_cu_function *functions = mst_alloc((size_t)count * sizeof *functions);
    if (!functions) return mst_out_of_memory("the functions of the device code", count * (int64_t)sizeof *functions);
    muster_status status = MUSTER_OK;
    for (int32_t i = 0; i < count && status == MUSTER_OK; i++) {
        const char *name = family->kernels[i];
        int threads = 0;
        status = MST_CU(cuda, cuModuleGetFunction, &functions[i], module, name);
        /* Loads the function, if the driver loads functions at their first use. */
        if (status == MUSTER_OK) status = MST_CU(cuda, cuFuncGetAttribute, &threads, MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK, functions[i]);
        if (status == MUSTER_OK && threads < MST_CUDA_THREADS)
            status = mst_error(MUSTER_UNSUPPORTED, "%s: the kernel %s: expected to run with %d threads in a block, received at most %d",
                               cuda->label, name, MST_CUDA_THREADS, threads);
    }
    for (int32_t i = 0; i < count && status == MUSTER_OK; i++) cuda->functions[first + i] = functions[i];
    mst_free(functions);
    return status;
}

/* The context must be current. A module whose functions could not all be found stays loaded, and
 * the next attempt uses it. */
static muster_status load_family(mst_cuda *cuda, int32_t family, int32_t first, const mst_code_image *image) {
    mst_cu_module *module = &cuda->modules[family];
    if (!*module) MUSTER_TRY(MST_CU(cuda, cuModuleLoadData, module, image->data));
    return find_functions(cuda, mst_code_family_at(family), first, *module);
}

/* ---- opening ---- */

static void forward_notices(void) {
    char text[MST_MESSAGE_SIZE];
    while (mst_code_take_notice(text)) mst_cuda_add_notice(text);
}

static void announce(void *user, const char *sentence) {
    const mst_cuda *cuda = user;
    char line[MST_MESSAGE_SIZE];
    if (!cuda->settings.log) return;
    snprintf(line, sizeof line, "%s: %.400s", cuda->label, sentence);
    cuda->settings.log(cuda->settings.log_user, line);
}

static muster_status make_target(mst_cuda *cuda, mst_code_target *target) {
    const mst_nvrtc_api *nvrtc;
    MUSTER_TRY(mst_nvrtc_api_get(&nvrtc));
    *target = (mst_code_target){.compiler = &mst_nvrtc_compiler,
                                .user = (void *)nvrtc,
                                .architecture = cuda->architecture,
                                .announce = announce,
                                .announce_user = cuda};
    return MUSTER_OK;
}

static muster_status make_tables(mst_cuda *cuda, int32_t families, int32_t kernels) {
    cuda->modules = mst_alloc((size_t)families * sizeof(mst_cu_module));
    cuda->functions = mst_alloc((size_t)kernels * sizeof(mst_cu_function));
    if (!cuda->modules || !cuda->functions)
        return mst_out_of_memory("the functions of the device code", (families + kernels) * (int64_t)sizeof(mst_cu_function));
    cuda->module_count = families;
    cuda->function_count = kernels;
    return MUSTER_OK;
}

static muster_status load_images(mst_cuda *cuda, const mst_code_image *images) {
    for (int32_t family = 0, first = 0; family < cuda->module_count; first += mst_code_family_at(family++)->kernel_count)
        if (images[family].data) MUSTER_TRY(load_family(cuda, family, first, &images[family]));
    return MUSTER_OK;
}

muster_status mst_cuda_open_code(mst_cuda *cuda) {
    const int32_t families = mst_code_family_count();
    mst_code_target target;
    if (families == 0) return MUSTER_OK; /* no module has contributed kernels */
    mst_code_hold();
    cuda->holds_code = true;
    MUSTER_TRY(make_tables(cuda, families, mst_code_kernel_count()));
    MUSTER_TRY(make_target(cuda, &target));
    mst_code_image *images = mst_alloc((size_t)families * sizeof *images);
    if (!images) return mst_out_of_memory("the device code", families * (int64_t)sizeof *images);
    muster_status status = mst_code_build_families(&target, !cuda->settings.alone, images);
    if (status == MUSTER_OK) status = load_images(cuda, images);
    for (int32_t i = 0; i < families; i++) mst_code_release(&images[i]);
    mst_free(images);
    forward_notices();
    return status;
}

void mst_cuda_close_code(mst_cuda *cuda) {
    for (int32_t i = 0; i < cuda->module_count; i++) {
        if (cuda->modules[i]) (void)cuda->api->cuModuleUnload(cuda->modules[i]);
        cuda->modules[i] = NULL;
    }
}

void mst_cuda_forget_code(mst_cuda *cuda) {
    mst_free(cuda->modules);
    mst_free(cuda->functions);
    if (cuda->holds_code) mst_code_let_go();
}

/* ---- the first use ---- */

static muster_status refuse_first_use(const mst_cuda *cuda, const char *kernel, muster_status status) {
    char reason[MST_MESSAGE_SIZE];
    if (mst_cuda_is_lost(cuda)) return status;
    mst_error_save(reason);
    return mst_error(status, "%s: the kernel %s at its first use: %.400s", cuda->label, kernel, reason);
}

static muster_status build_and_load(mst_cuda *cuda, int32_t place) {
    mst_code_target target;
    mst_code_image image;
    mst_cuda_scope scope;
    int32_t first;
    const int32_t family = mst_code_kernel_family(place, &first);
    MUSTER_TRY(make_target(cuda, &target));
    muster_status status = mst_code_build_family(&target, family, &image);
    if (status == MUSTER_OK) status = mst_cuda_begin(cuda, &scope);
    if (status == MUSTER_OK) status = mst_cuda_end(cuda, &scope, load_family(cuda, family, first, &image));
    mst_code_release(&image);
    forward_notices();
    return status;
}

/* Loading can wait for everything in the device's queues while it holds a lock of the driver: for a
 * collective, then, that waits for another device. So the queues are waited for first, by polling,
 * which a failure of another rank ends. */
static muster_status load_at_first_use(mst_cuda *cuda, int32_t place, const char *kernel) {
    MUSTER_TRY(mst_cuda_synchronize(&cuda->head));
    const muster_status status = build_and_load(cuda, place);
    return status == MUSTER_OK ? MUSTER_OK : refuse_first_use(cuda, kernel, status);
}

/* ---- launching ---- */

static muster_status launch(mst_cuda *cuda, mst_cu_function function, bool blocks, int64_t work, const void *parameters) {
    int64_t wanted = blocks ? work : (work - 1) / MST_CUDA_THREADS + 1;
    const int64_t most = (int64_t)cuda->processors * MST_CUDA_BLOCKS_PER_SM;
    if (wanted > most) wanted = most;
    void *arguments[] = {(void *)parameters};
    MUSTER_TRY(mst_cuda_before_compute(cuda));
    return MST_CU(cuda, cuLaunchKernel, function, (unsigned int)wanted, 1, 1, MST_CUDA_THREADS, 1, 1, 0,
                  mst_cuda_stream_of(cuda, cuda->head.work_queue), arguments, NULL);
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
    if (__builtin_expect(!cuda->functions[place], 0)) MUSTER_TRY(load_at_first_use(cuda, place, kernel->name));
    mst_cuda_scope scope;
    MUSTER_TRY(mst_cuda_begin(cuda, &scope));
    return mst_cuda_end(cuda, &scope, launch(cuda, cuda->functions[place], kernel->blocks, work, parameters));
}

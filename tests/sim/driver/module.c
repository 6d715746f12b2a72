/* Modules, functions and launches. */
#include "driver_impl.h"
#include "shim/mst_program.h"
#include "shim/mst_shim.h"

#include <stdlib.h>
#include <string.h>

mst_cu_result cuModuleLoadData(mst_cu_module *module, const void *image) {
    DRIVER_ENTER_DEVICE(cuModuleLoadData, sim_current_device());
    DRIVER_CONTEXT(context);
    if (!module || !image) return MST_CU_INVALID_VALUE;
    DRIVER_UNSAFE();
    sim_hazard_loading("cuModuleLoadData", context->device);
    sim_context_load(context->device);
    return sim_module_load(context, image, module);
}

mst_cu_result cuModuleUnload(mst_cu_module module) {
    sim_module *unloaded = sim_module_of(module);
    DRIVER_RELEASE(cuModuleUnload, unloaded ? unloaded->context->device : -1);
    sim_context *context;
    sim_result required = sim_require(&context);
    if (!unloaded) return DRIVER_RESULT(required ? required : MST_CU_INVALID_HANDLE);
    DRIVER_UNSAFE();
    sim_hazard_creation("cuModuleUnload");
    sim_module_unload(unloaded);
    return DRIVER_RESULT(required);
}

mst_cu_result cuModuleGetFunction(mst_cu_function *function, mst_cu_module module, const char *name) {
    DRIVER_ENTER_DEVICE(cuModuleGetFunction, sim_current_device());
    DRIVER_CONTEXT(context);
    sim_module *of = sim_module_of(module);
    if (!function || !name) return MST_CU_INVALID_VALUE;
    return of ? sim_module_function(of, name, function) : MST_CU_INVALID_HANDLE;
}

enum { STATIC_SHARED = 1, REGISTERS = 4, PTX_VERSION = 5, FUNCTION_ATTRIBUTES_END = 16, THREADS_MAX = 1024 };

mst_cu_result cuFuncGetAttribute(int *value, unsigned int attribute, mst_cu_function function) {
    DRIVER_ENTER(cuFuncGetAttribute);
    DRIVER_CONTEXT(context);
    if (!value || attribute >= FUNCTION_ATTRIBUTES_END) return MST_CU_INVALID_VALUE;
    sim_function *asked = sim_function_of(function);
    if (!asked) return MST_CU_INVALID_HANDLE;
    sim_function_load(asked, "cuFuncGetAttribute");
    *value = 0;
    /* as the dialect's launch bounds say */
    if (attribute == MST_CU_FUNCTION_MAX_THREADS_PER_BLOCK) *value = asked->user ? asked->user->threads : 256;
    if (attribute == STATIC_SHARED && asked->user) *value = sim_program_static_shared(asked->module->program);
    if (attribute == MST_CU_FUNCTION_LOCAL_BYTES) *value = sim_function_local_bytes(asked);
    if (attribute == MST_CU_FUNCTION_MAX_DYNAMIC_SHARED_BYTES) *value = sim_function_shared_limit(asked);
    if (attribute == REGISTERS) *value = 32;
    if (attribute == PTX_VERSION || attribute == MST_CU_FUNCTION_BINARY_VERSION) *value = 90;
    return MST_CU_SUCCESS;
}

mst_cu_result cuFuncSetAttribute(mst_cu_function function, unsigned int attribute, int value) {
    DRIVER_ENTER(cuFuncSetAttribute);
    DRIVER_CONTEXT(context);
    (void)context;
    sim_function *changed = sim_function_of(function);
    if (!changed) return MST_CU_INVALID_HANDLE;
    if (attribute != MST_CU_FUNCTION_MAX_DYNAMIC_SHARED_BYTES || value < 0) return MST_CU_INVALID_VALUE;
    const int own = changed->user ? sim_program_static_shared(changed->module->program) : 0;
    if (value > SIM_SHARED_OPT_IN_BYTES - own) return MST_CU_INVALID_VALUE;
    sim_function_load(changed, "cuFuncSetAttribute");
    atomic_store_explicit(&changed->dynamic_shared, value, memory_order_relaxed);
    return MST_CU_SUCCESS;
}

mst_cu_result cuFuncLoad(mst_cu_function function) {
    DRIVER_ENTER(cuFuncLoad);
    DRIVER_CONTEXT(context);
    (void)context;
    sim_function *asked = sim_function_of(function);
    if (!asked) return MST_CU_INVALID_HANDLE;
    sim_function_load(asked, "cuFuncLoad");
    return MST_CU_SUCCESS;
}

mst_cu_result cuFuncIsLoaded(unsigned int *loaded, mst_cu_function function) {
    DRIVER_ENTER(cuFuncIsLoaded);
    DRIVER_CONTEXT(context);
    (void)context;
    if (!loaded) return MST_CU_INVALID_VALUE;
    const sim_function *asked = sim_function_of(function);
    if (!asked) return MST_CU_INVALID_HANDLE;
    *loaded = atomic_load_explicit(&asked->loaded, memory_order_relaxed);
    return MST_CU_SUCCESS;
}

mst_cu_result cuFuncGetParamInfo(mst_cu_function function, size_t index, size_t *offset, size_t *bytes) {
    DRIVER_ENTER(cuFuncGetParamInfo);
    DRIVER_CONTEXT(context);
    (void)context;
    const sim_function *asked = sim_function_of(function);
    if (!asked) return MST_CU_INVALID_HANDLE;
    const size_t count = asked->user ? (size_t)asked->user->parameter_count : 1;
    if (!offset || index >= count) return MST_CU_INVALID_VALUE;
    *offset = asked->user ? asked->user->parameters[index].offset : 0;
    if (bytes) *bytes = asked->user ? asked->user->parameters[index].bytes : (size_t)asked->kernel->parameter_bytes;
    return MST_CU_SUCCESS;
}

mst_cu_result cuModuleGetLoadingMode(unsigned int *mode) {
    DRIVER_ENTER(cuModuleGetLoadingMode);
    if (!sim_device_count()) return MST_CU_NOT_INITIALIZED;
    if (!mode) return MST_CU_INVALID_VALUE;
    const char *wanted = getenv("CUDA_MODULE_LOADING");
    *mode = wanted && strcmp(wanted, "EAGER") == 0 ? MST_CU_MODULE_EAGER_LOADING : MST_CU_MODULE_LAZY_LOADING;
    return MST_CU_SUCCESS;
}

static bool grid_is_legal(const unsigned grid[3], const unsigned block[3]) {
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || block[i] == 0) return false;
    if (grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535) return false;
    return block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 && (uint64_t)block[0] * block[1] * block[2] <= THREADS_MAX;
}

/* The one structure of parameters, from either way to pass it. NULL: neither, or both. */
static const void *find_parameters(const sim_function *function, void **parameters, void **extra) {
    if (parameters) return extra ? NULL : parameters[0];
    const void *buffer = NULL;
    size_t bytes = 0;
    /* CU_LAUNCH_PARAM_END is NULL, BUFFER_POINTER 1, BUFFER_SIZE 2 */
    for (int i = 0; extra && extra[i] != NULL; i += 2) {
        if (extra[i] == (void *)1)
            buffer = extra[i + 1];
        else if (extra[i] == (void *)2)
            bytes = *(const size_t *)extra[i + 1];
        else
            return NULL;
    }
    return bytes >= (size_t)function->kernel->parameter_bytes ? buffer : NULL;
}

mst_cu_result cuLaunchKernel(mst_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                             unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, mst_cu_stream stream, void **parameters,
                             void **extra) {
    sim_stream *on = sim_stream_of(stream);
    DRIVER_ISSUE(cuLaunchKernel, on);
    DRIVER_CONTEXT(context);
    sim_function *launched = sim_function_of(function);
    if (!launched || !on) return MST_CU_INVALID_HANDLE;
    sim_context *of = launched->module->context;
    /* a kernel goes only to a stream of its own context */
    if (of != on->context || of != context) return MST_CU_INVALID_HANDLE;
    unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    if (!grid_is_legal(grid, block) || shared_bytes > (unsigned)sim_function_shared_limit(launched)) return MST_CU_INVALID_VALUE;
    sim_function_load(launched, "cuLaunchKernel");
    sim_function_prepare(launched);
    if (launched->user) return sim_program_launch(launched, on, grid, block, shared_bytes, parameters, extra);
    const void *found = find_parameters(launched, parameters, extra);
    if (!found) return MST_CU_INVALID_VALUE;
    /* the launch bounds of every kernel */
    if ((uint64_t)block_x * block_y * block_z > 256) return MST_CU_INVALID_VALUE;
    return sim_launch(launched, on, (uint64_t)grid_x * grid_y * grid_z, block_x * block_y * block_z, found);
}

/* Modules: the "cubin" of the simulated NVRTC names kernels, and the texts that they come from with
 * a hash of each; the kernels themselves were compiled into this library with the shim. A launch
 * runs one on the stream's thread. Of a program of the user's it holds the compiled object
 * itself. */
#include "shim/mst_shim.h"
#include "state_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sim_module modules[SIM_MODULES];
static sim_function functions[SIM_FUNCTIONS];
static atomic_uint next_module, next_function;

/* Unseen by sanitizers, which would take most of the time of a test that opens devices for these
 * bytes. */
#define UNSEEN __attribute__((no_sanitize("thread"), no_sanitize("address"), noinline))
UNSEEN uint64_t sim_bytes_hash(const void *data, size_t bytes) { /* FNV-1a: nobody here looks for collisions */
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return hash;
}

uint64_t sim_text_hash(const char *text) { return sim_bytes_hash(text, strlen(text)); }

static const sim_text *find_text(const char *name) {
    const sim_text *text;
    for (int i = 0; (text = sim_text_at(i)) != NULL; i++)
        if (strcmp(text->name, name) == 0) return text;
    return NULL;
}

/* "text NAME HASH" */
static bool text_is_ours(const char *line) {
    char name[200];
    uint64_t hash;
    if (sscanf(line, "text %199s %" SCNx64, name, &hash) != 2) return false;
    const sim_text *text = find_text(name);
    if (text && text->hash == hash) return true;
    fprintf(stderr, "simulated GPU: the kernels of %s were built from another text: build again\n", name);
    return false;
}

static sim_result check_image(const char *image) {
    if (strncmp(image, SIM_IMAGE_HEAD, sizeof SIM_IMAGE_HEAD - 1) != 0) return SIM_INVALID_IMAGE;
    if (!strstr(image, "\nend\n")) return SIM_INVALID_IMAGE; /* cut off */
    for (const char *line = strchr(image, '\n'); line; line = strchr(line + 1, '\n'))
        if (strncmp(line + 1, "text ", 5) == 0 && !text_is_ours(line + 1)) return SIM_NO_BINARY_FOR_GPU;
    return SIM_OK;
}

static sim_result take_place(sim_context *context, const char *image, sim_program *program, sim_module **result) {
    char *copy = strdup(program ? "" : image);
    for (int i = 0; copy && i < SIM_MODULES; i++) {
        sim_module *module = &modules[atomic_fetch_add_explicit(&next_module, 1, memory_order_relaxed) % SIM_MODULES];
        int life = atomic_load_explicit(&module->life, memory_order_relaxed);
        if (life == SIM_ALIVE || atomic_load(&module->users)) continue;
        if (!atomic_compare_exchange_strong(&module->life, &life, SIM_ALIVE)) continue;
        module->context = context;
        module->image = copy;
        module->program = program;
        atomic_store(&module->functions, NULL);
        *result = module;
        return SIM_OK;
    }
    free(copy);
    return SIM_OUT_OF_MEMORY;
}

sim_result sim_module_load(sim_context *context, const char *image, sim_module **result) {
    sim_result checked = check_image(image);
    if (checked) return checked;
    const char *object = strstr(image, "\nobject ");
    sim_program *program = NULL;
    checked = object ? sim_program_open(object + 1, &program) : SIM_OK;
    if (!checked) checked = take_place(context, image, program, result);
    if (checked) sim_program_release(program);
    return checked;
}

static void end_module(sim_module *module) {
    for (sim_function *function = atomic_load(&module->functions); function; function = function->next)
        atomic_store_explicit(&function->life, SIM_DESTROYED, memory_order_relaxed);
    free(module->image);
    module->image = NULL;
    sim_program_release(module->program); /* it stays as long as a launch runs */
    module->program = NULL;
    atomic_store_explicit(&module->life, SIM_DESTROYED, memory_order_relaxed);
}

void sim_module_unload(sim_module *module) {
    if (atomic_load_explicit(&module->users, memory_order_relaxed) && !sim_context_error(module->context))
        sim_hazard("cuModuleUnload: device %d: a launch of a kernel of the module is not done", module->context->device);
    end_module(module);
}

sim_module *sim_module_of(void *handle) {
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)modules;
    if (offset >= sizeof modules || offset % sizeof *modules) return NULL;
    sim_module *module = &modules[offset / sizeof *modules];
    int life = atomic_load_explicit(&module->life, memory_order_relaxed);
    if (life == SIM_DESTROYED) sim_hazard("use of an unloaded module");
    return life == SIM_ALIVE ? module : NULL;
}

sim_function *sim_function_of(void *handle) {
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)functions;
    if (offset >= sizeof functions || offset % sizeof *functions) return NULL;
    sim_function *function = &functions[offset / sizeof *functions];
    int life = atomic_load_explicit(&function->life, memory_order_relaxed);
    if (life == SIM_DESTROYED) sim_hazard("use of a kernel of an unloaded module");
    return life == SIM_ALIVE ? function : NULL;
}

static const mst_shim_entry *find_built_in(const sim_module *module, const char *name) {
    char line[256];
    if ((size_t)snprintf(line, sizeof line, "\nkernel %s\n", name) >= sizeof line || !strstr(module->image, line)) return NULL;
    return mst_shim_find(name);
}

sim_result sim_module_function(sim_module *module, const char *name, sim_function **result) {
    const struct mst_program_kernel *user = module->program ? sim_program_find(module->program, name) : NULL;
    const mst_shim_entry *kernel = module->program ? NULL : find_built_in(module, name);
    if (!kernel && !user) return SIM_NOT_FOUND;
    for (int i = 0; i < SIM_FUNCTIONS; i++) {
        sim_function *function = &functions[atomic_fetch_add_explicit(&next_function, 1, memory_order_relaxed) % SIM_FUNCTIONS];
        int life = atomic_load_explicit(&function->life, memory_order_relaxed);
        if (life == SIM_ALIVE || !atomic_compare_exchange_strong(&function->life, &life, SIM_ALIVE)) continue;
        function->module = module;
        function->kernel = kernel;
        function->user = user;
        function->name = user ? sim_program_name(name) : kernel->name;
        atomic_store(&function->loaded, false);
        atomic_store(&function->launched, false);
        atomic_store(&function->dynamic_shared, -1);
        function->next = atomic_load(&module->functions);
        while (!atomic_compare_exchange_weak(&module->functions, &function->next, function)) continue;
        *result = function;
        return SIM_OK;
    }
    return SIM_OUT_OF_MEMORY;
}

void sim_function_load(sim_function *function, const char *symbol) {
    if (!atomic_exchange_explicit(&function->loaded, true, memory_order_relaxed))
        sim_code_load(function->module->context->device, symbol, "a kernel");
}

int sim_function_local_bytes(const sim_function *function) { return function->user ? sim_state.options.local_bytes : 0; }

void sim_function_prepare(sim_function *function) {
    sim_context *context = function->module->context;
    const unsigned needed = (unsigned)sim_function_local_bytes(function);
    const bool first = !atomic_exchange_explicit(&function->launched, true, memory_order_relaxed);
    if (needed > atomic_load_explicit(&context->local_bytes, memory_order_relaxed)) {
        atomic_store_explicit(&context->local_bytes, needed, memory_order_relaxed);
        sim_code_load(context->device, "cuLaunchKernel", "more local memory");
    } else if (first && function->user && sim_collective_flies_on(context->device)) {
        sim_hazard("cuLaunchKernel: the first launch of %s while a collective is in flight on device %d", function->name, context->device);
    }
}

int sim_function_shared_limit(const sim_function *function) {
    const int set = atomic_load_explicit(&function->dynamic_shared, memory_order_relaxed);
    const int own = function->user ? sim_program_static_shared(function->module->program) : 0;
    return set >= 0 ? set : own < SIM_SHARED_BYTES ? SIM_SHARED_BYTES - own : 0;
}

static int count_modules(int device, bool destroy) {
    int count = 0;
    const unsigned used = atomic_load(&next_module);
    for (int i = 0; i < SIM_MODULES && (unsigned)i < used; i++) {
        if (atomic_load(&modules[i].life) != SIM_ALIVE || modules[i].context->device != device) continue;
        count++;
        if (destroy) end_module(&modules[i]);
    }
    return count;
}

int sim_modules_of(int device) { return count_modules(device, false); }
int sim_modules_destroy_all(int device) { return count_modules(device, true); }

void sim_modules_end(void) {
    for (int i = 0; i < SIM_MODULES && (unsigned)i < atomic_load(&next_module); i++) {
        free(modules[i].image);
        modules[i].image = NULL;
        sim_program_release(modules[i].program);
        modules[i].program = NULL;
        atomic_store(&modules[i].life, SIM_NEVER);
        atomic_store(&modules[i].users, 0);
    }
    for (int i = 0; i < SIM_FUNCTIONS && (unsigned)i < atomic_load(&next_function); i++) atomic_store(&functions[i].life, SIM_NEVER);
    atomic_store(&next_module, 0);
    atomic_store(&next_function, 0);
}

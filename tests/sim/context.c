/* Primary contexts, and each thread's stack of them. */
#include "state_impl.h"

#include <stdlib.h>

enum { STACK_MAX = 64 };

static _Thread_local struct {
    unsigned generation; /* of the machine */
    int depth;
    sim_context *contexts[STACK_MAX];
} stack;

static void forget_older_machine(void) {
    unsigned generation = atomic_load_explicit(&sim_state.generation, memory_order_relaxed);
    if (stack.generation == generation) return;
    stack.generation = generation;
    stack.depth = 0;
}

sim_context *sim_current(void) {
    forget_older_machine();
    return stack.depth ? stack.contexts[stack.depth - 1] : NULL;
}

int sim_current_device(void) {
    sim_context *context = sim_current();
    return context ? context->device : -1;
}

void sim_context_push(sim_context *context) {
    forget_older_machine();
    if (stack.depth == STACK_MAX) {
        sim_hazard("cuCtxPushCurrent: %d contexts are on this thread's stack: pushed without being popped", STACK_MAX);
        stack.depth--;
    }
    stack.contexts[stack.depth++] = context;
}

sim_context *sim_context_pop(void) {
    forget_older_machine();
    return stack.depth ? stack.contexts[--stack.depth] : NULL;
}

void sim_context_set(sim_context *context) {
    forget_older_machine();
    if (stack.depth) stack.depth--;
    if (context) sim_context_push(context);
}

sim_context *sim_context_of(void *handle) {
    for (int i = 0; i < sim_state.options.devices; i++) {
        if (handle != &sim_state.devices[i].context) continue;
        int life = atomic_load_explicit(&sim_state.devices[i].context.life, memory_order_relaxed);
        if (life == SIM_DESTROYED) sim_hazard("use of the destroyed context of device %d", i);
        return life == SIM_ALIVE || life == SIM_RESET ? &sim_state.devices[i].context : NULL;
    }
    return NULL;
}

int sim_context_device(const sim_context *context) { return context->device; }
sim_result sim_context_error(const sim_context *context) { return sim_device_error(context->device); }

sim_result sim_require(sim_context **context) {
    *context = NULL;
    if (!sim_device_count()) return SIM_NOT_INITIALIZED;
    sim_context *current = sim_current();
    if (!current) return SIM_INVALID_CONTEXT;
    if (atomic_load_explicit(&current->life, memory_order_relaxed) != SIM_ALIVE) return SIM_CONTEXT_IS_DESTROYED;
    sim_context_enter(current->device);
    *context = current;
    return sim_context_error(current);
}

sim_result sim_context_retain(int device, sim_context **context) {
    sim_context *primary = &sim_state.devices[device].context;
    if (atomic_load_explicit(&sim_state.devices[device].lost, memory_order_relaxed)) return SIM_LAUNCH_FAILED;
    if (sim_state.options.prohibited) return SIM_UNKNOWN;
    pthread_mutex_lock(&sim_state_lock);
    if (primary->references++ == 0 || atomic_load(&primary->life) == SIM_RESET) {
        sim_hazard_creation("cuDevicePrimaryCtxRetain");
        atomic_store(&primary->error, 0);
        atomic_store(&primary->reaches, 0);
        atomic_store(&primary->default_stream, NULL);
        atomic_store(&primary->local_bytes, SIM_LOCAL_BYTES);
        atomic_fetch_add(&primary->births, 1);
        atomic_store(&primary->life, SIM_ALIVE);
    }
    pthread_mutex_unlock(&sim_state_lock);
    *context = primary;
    return SIM_OK;
}

static void report_left(int device, const char *kind, int count) {
    if (count && !sim_device_error(device)) sim_hazard("leak: %d %s of device %d when its context was destroyed", count, kind, device);
}

/* The context goes with all that is in it. */
static void destroy(sim_context *context) {
    int device = context->device;
    sim_hazard_creation("cuDevicePrimaryCtxRelease");
    report_left(device, "streams", sim_streams_destroy_all(device));
    report_left(device, "events", sim_events_destroy_all(device));
    report_left(device, "modules", sim_modules_destroy_all(device));
    report_left(device, "device allocations", sim_memory_release_all(device));
    report_left(device, "managed allocations", sim_managed_release_all(device));
    report_left(device, "page-locked ranges", sim_locked_release_all(device));
    atomic_store(&context->default_stream, NULL);
    atomic_store(&context->life, SIM_DESTROYED);
    for (int i = 0; i < SIM_DEVICES; i++) atomic_fetch_and(&sim_state.devices[i].context.reaches, ~(1u << device));
}

static void destroy_all_in(int device) {
    sim_streams_destroy_all(device);
    sim_events_destroy_all(device);
    sim_modules_destroy_all(device);
    sim_memory_release_all(device);
    sim_locked_release_all(device);
}

/* All that is in the context goes, and those who have retained it keep their references. */
sim_result sim_context_reset(int device) {
    sim_context *primary = &sim_state.devices[device].context;
    pthread_mutex_lock(&sim_state_lock);
    if (atomic_load(&primary->life) == SIM_ALIVE) {
        destroy_all_in(device);
        atomic_store(&primary->default_stream, NULL);
        atomic_store(&primary->error, 0);
        atomic_store(&primary->life, SIM_RESET);
    }
    pthread_mutex_unlock(&sim_state_lock);
    return SIM_OK;
}

sim_result sim_context_release(int device) {
    sim_context *primary = &sim_state.devices[device].context;
    pthread_mutex_lock(&sim_state_lock);
    sim_result result = primary->references ? sim_context_error(primary) : SIM_INVALID_CONTEXT;
    if (primary->references && --primary->references == 0) {
        if (atomic_load(&primary->life) == SIM_RESET)
            atomic_store(&primary->life, SIM_DESTROYED);
        else
            destroy(primary);
    }
    pthread_mutex_unlock(&sim_state_lock);
    return result;
}

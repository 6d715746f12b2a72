/* Loading code into a context, and resizing what its kernels need. The driver does so only on an
 * idle device: it waits for all queues of the device and holds the context's lock meanwhile, so
 * that another thread's call that needs the context stands still, too. A queue that waits for such
 * a call never ends. The lock orders nothing: it is a number that threads look at. */
#include "state_impl.h"

static struct {
    atomic_ulong thread; /* that loads; 0: none */
    sim_gate gate;       /* bumped when it has loaded */
} loading[SIM_DEVICES];

enum { LOADED_MAX = 1 << 15 };
static atomic_ullong loaded[LOADED_MAX];

bool sim_code_is_new(uint64_t number) {
    if (!number) number = 1;
    for (unsigned i = 0; i < LOADED_MAX; i++) {
        unsigned long long there = 0;
        if (atomic_compare_exchange_strong_explicit(&loaded[(number + i) % LOADED_MAX], &there, number, memory_order_relaxed,
                                                    memory_order_relaxed))
            return true;
        if (there == number) return false;
    }
    return false;
}

static void forget(void) {
    for (int i = 0; i < LOADED_MAX; i++) atomic_store(&loaded[i], 0);
}
__attribute__((constructor)) static void add_forget(void) { sim_on_reset(forget); }

uint64_t sim_context_number(const sim_context *context) {
    return (uint64_t)context->device << 32 | atomic_load_explicit(&context->births, memory_order_relaxed);
}

static bool is_over(int device) {
    return atomic_load_explicit(&sim_state.ending, memory_order_relaxed) || sim_device_error(device) != SIM_OK;
}

void sim_context_enter(int device) {
    for (;;) {
        uint32_t seen = sim_gate_look(&loading[device].gate);
        unsigned long thread = atomic_load_explicit(&loading[device].thread, memory_order_relaxed);
        if (!thread || thread == sim_thread_id() || is_over(device)) return;
        sim_gate_wait(&loading[device].gate, seen);
    }
}

/* False: the device is lost, or the machine ends. */
static bool lock_context(int device) {
    for (;;) {
        unsigned long nobody = 0;
        sim_context_enter(device);
        if (is_over(device)) return false;
        if (atomic_compare_exchange_strong_explicit(&loading[device].thread, &nobody, sim_thread_id(), memory_order_relaxed,
                                                    memory_order_relaxed))
            return true;
    }
}

bool sim_context_loads(int device) { return atomic_load_explicit(&loading[device].thread, memory_order_relaxed) != 0; }

void sim_context_load(int device) {
    if (!lock_context(device)) return;
    sim_device_drain(device);
    atomic_store_explicit(&loading[device].thread, 0, memory_order_relaxed);
    sim_gate_bump(&loading[device].gate);
}

void sim_code_load(int device, const char *symbol, const char *what) {
    if (sim_collective_flies_on(device))
        sim_hazard(
            "%s loads %s while a collective is in flight on device %d: it waits for the collective, and holds the lock of the context",
            symbol, what, device);
    sim_context_load(device);
}

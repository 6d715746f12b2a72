/* The machine: what it is made of, its end, and the next one. */
#include "state_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_machine sim_state;
pthread_mutex_t sim_state_lock = PTHREAD_MUTEX_INITIALIZER;

enum { FORGETTERS = 16, CONNECTIONS = 8 };
static void (*forgetters[FORGETTERS])(void);
static int forgetter_count;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

void sim_on_reset(void (*forget)(void)) {
    if (forgetter_count == FORGETTERS) abort();
    forgetters[forgetter_count++] = forget;
}

static uint64_t environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static muster_sim_options environment_options(void) {
    muster_sim_options options = {0};
    options.devices = (int)environment("MUSTER_SIM_DEVICES", 0);
    options.memory = environment("MUSTER_SIM_MEMORY", 0);
    options.seed = environment("MUSTER_SIM_SEED", 0);
    options.longest_delay = (uint32_t)environment("MUSTER_SIM_DELAY", 0);
    options.delay_one_of = (uint32_t)environment("MUSTER_SIM_DELAY_ONE_OF", 0);
    options.connections = (int)environment("CUDA_DEVICE_MAX_CONNECTIONS", 0);
    options.compile_time = (uint32_t)environment("MUSTER_SIM_COMPILE", 0);
    options.no_peers = environment("MUSTER_SIM_PEERS", 1) == 0;
    options.mig_instances = (int)environment("MUSTER_SIM_MIG", 0);
    return options;
}

static bool is_mig(int device) { return device < sim_state.options.mig_instances; }

int sim_device_bus(int device) { return 0x11 * (is_mig(device) ? 1 : device + 1); }

static void name_device(sim_device *device, int ordinal) {
    snprintf(device->name, sizeof device->name, is_mig(ordinal) ? "Simulated GPU MIG 1g.5gb" : "Simulated GPU");
    snprintf(device->pci, sizeof device->pci, "0000:%02x:00.0", sim_device_bus(ordinal));
    uint64_t state = 0x5151 + (uint64_t)ordinal; /* the same in every machine: a device keeps its number */
    for (int i = 0; i < 16; i++) device->uuid[i] = (uint8_t)sim_random(&state);
}

static void make_machine(const muster_sim_options *options) {
    sim_state.options = *options;
    if (sim_state.options.devices <= 0) sim_state.options.devices = 2;
    if (sim_state.options.devices > SIM_DEVICES) sim_state.options.devices = SIM_DEVICES;
    if (sim_state.options.memory == 0) sim_state.options.memory = (uint64_t)256 << 20;
    if (sim_state.options.memory > (uint64_t)4 << 30) sim_state.options.memory = (uint64_t)4 << 30;
    if (sim_state.options.seed == 0) sim_state.options.seed = 1;
    if (sim_state.options.delay_one_of == 0 || environment("MUSTER_TEST_FULL", 0) == 1) sim_state.options.delay_one_of = 1;
    if (sim_state.options.connections <= 0) sim_state.options.connections = CONNECTIONS;
    if (sim_state.options.connections > SIM_CONNECTIONS_MAX) sim_state.options.connections = SIM_CONNECTIONS_MAX;
    if (sim_state.options.multiprocessors <= 0) sim_state.options.multiprocessors = 4;
    for (int i = 0; i < SIM_DEVICES; i++)
        if (sim_state.options.capability[i] <= 0) sim_state.options.capability[i] = 90;
    memset(sim_state.devices, 0, sizeof sim_state.devices);
    for (int i = 0; i < SIM_DEVICES; i++) {
        name_device(&sim_state.devices[i], i);
        sim_state.devices[i].context.device = i;
    }
}

static void prepare(void) {
    muster_sim_options options = environment_options();
    make_machine(&options);
}

void sim_machine_prepare(void) { pthread_once(&prepared, prepare); }

sim_result sim_initialize(void) {
    sim_machine_prepare();
    atomic_store_explicit(&sim_state.initialized, true, memory_order_release);
    return SIM_OK;
}

void muster_sim_reset(const muster_sim_options *options) {
    muster_sim_options wanted = options ? *options : environment_options();
    sim_machine_prepare();
    atomic_store(&sim_state.ending, true);
    sim_inject_end();
    sim_streams_end();
    sim_captures_end();
    for (int i = 0; i < forgetter_count; i++) forgetters[i]();
    sim_events_end();
    sim_modules_end();
    sim_launches_end();
    sim_memory_end();
    sim_handles_end();
    sim_hazards_end();
    atomic_fetch_add(&sim_state.generation, 1);
    make_machine(&wanted);
    atomic_store(&sim_state.initialized, false);
    atomic_store(&sim_state.ending, false);
}

int sim_device_count(void) { return atomic_load_explicit(&sim_state.initialized, memory_order_acquire) ? sim_state.options.devices : 0; }
const char *sim_device_pci(int device) { return sim_state.devices[device].pci; }
uint64_t sim_seed(void) { return sim_state.options.seed; }

static bool can_reach(int device, int peer) {
    return !sim_state.options.no_peers && !is_mig(device) && !is_mig(peer) && !(sim_state.options.hidden_peers[device] >> peer & 1);
}

bool sim_peer_possible(int device, int peer) { return device != peer && can_reach(device, peer); }

static bool has_bit(const uint8_t *masks, int device, int peer) {
    return device >= 0 && peer >= 0 && device != peer && (masks[device] >> peer & 1);
}

bool sim_kernels_lie(int device, int peer) { return has_bit(sim_state.options.lying_kernels, device, peer); }
bool sim_copies_lie(int device, int peer) { return has_bit(sim_state.options.lying_copies, device, peer); }

void sim_peer_access(const sim_stream *stream, int peer) {
    if (has_bit(sim_state.options.stuck_peers, sim_stream_device(stream), peer)) sim_stall(0, sim_releases(), stream);
}

bool sim_reaches(int device, int peer) {
    return device == peer || (atomic_load_explicit(&sim_state.devices[device].context.reaches, memory_order_relaxed) >> peer & 1);
}

sim_result sim_device_error(int device) {
    if (device < 0) return SIM_OK;
    return atomic_load_explicit(&sim_state.devices[device].lost, memory_order_relaxed)
               ? SIM_LAUNCH_FAILED
               : atomic_load_explicit(&sim_state.devices[device].context.error, memory_order_relaxed);
}

void sim_device_fail(int device, sim_result code) {
    unsigned none = 0;
    atomic_compare_exchange_strong_explicit(&sim_state.devices[device].context.error, &none, code, memory_order_relaxed,
                                            memory_order_relaxed);
    sim_wake_all();
}

void muster_sim_lose_device(int device) {
    sim_machine_prepare();
    atomic_store_explicit(&sim_state.devices[device].lost, true, memory_order_relaxed);
    sim_wake_all();
}

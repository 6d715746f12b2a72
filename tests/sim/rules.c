/* The rules that are about who calls what, and when. Counts and owners are relaxed: the checker
 * itself must order nothing. */
#include "state_impl.h"

#include <sched.h>

/* ---- while a collective is in flight ---- */
void sim_collective_begin(int device, const char *what) {
    (void)what;
    atomic_fetch_add_explicit(&sim_state.devices[device].collectives, 1, memory_order_relaxed);
}

void sim_collective_end(int device) { atomic_fetch_sub_explicit(&sim_state.devices[device].collectives, 1, memory_order_relaxed); }

/* What was queued on a device that is lost is over, although its threads have not dropped it
 * yet. */
bool sim_collective_flies_on(int device) {
    return atomic_load_explicit(&sim_state.devices[device].collectives, memory_order_relaxed) > 0 && sim_device_error(device) == SIM_OK;
}

bool sim_collective_flies(void) {
    for (int device = 0; device < SIM_DEVICES; device++)
        if (sim_collective_flies_on(device)) return true;
    return false;
}

void sim_hazard_creation(const char *symbol) {
    if (sim_collective_flies()) sim_hazard("%s while a collective is in flight", symbol);
}

/* Loading waits for the queues of its own device. */
void sim_hazard_loading(const char *symbol, int device) {
    if (atomic_load_explicit(&sim_state.devices[device].collectives, memory_order_relaxed) > 0 && sim_device_error(device) == SIM_OK)
        sim_hazard("%s while a collective is in flight on its device", symbol);
}

void sim_hazard_waits(const char *symbol) {
    if (sim_collective_flies()) sim_hazard("%s waits in the host while a collective is in flight", symbol);
}

/* ---- one issuing thread ---- */
unsigned long sim_thread_id(void) {
    static _Thread_local char place;
    return (unsigned long)(uintptr_t)&place;
}

static bool own(atomic_ulong *owner) {
    unsigned long nobody = 0;
    return atomic_compare_exchange_strong_explicit(owner, &nobody, sim_thread_id(), memory_order_relaxed, memory_order_relaxed) ||
           nobody == sim_thread_id();
}

static void disown(atomic_ulong *owner) {
    unsigned long mine = sim_thread_id();
    atomic_compare_exchange_strong_explicit(owner, &mine, 0, memory_order_relaxed, memory_order_relaxed);
}

void sim_issue_begin(sim_stream *stream, const char *symbol) {
    if (!own(&stream->issuer))
        sim_hazard("%s: device %d: two threads issue in one stream at the same time", symbol, sim_stream_device(stream));
}

void sim_issue_end(sim_stream *stream) { disown(&stream->issuer); }

void sim_nccl_begin(int device, const char *symbol) {
    if (!own(&sim_state.devices[device].nccl_issuer))
        sim_hazard("%s: device %d: two threads issue NCCL operations on the device at the same time", symbol, device);
}

void sim_nccl_end(int device) { disown(&sim_state.devices[device].nccl_issuer); }

/* ---- the order of communicators ---- For two devices: what one of them has used that the other
 * has not yet, of the communicators that have ranks on both. Only one side of a pair is ever ahead.
 * ThreadSanitizer does not look into these functions, and so takes their lock for no order between
 * the issuing threads, which NCCL does not give either. */
#define UNSEEN __attribute__((no_sanitize("thread"), noinline))
enum { AHEAD_MAX = 4096 };
typedef struct lead {
    uint32_t first, count;
    uint64_t communicators[AHEAD_MAX];
} lead;

static int order_lock;
static lead leads[SIM_DEVICES][SIM_DEVICES]; /* [i][j]: i is ahead of j */

UNSEEN static void lock_order(void) {
    while (__atomic_exchange_n(&order_lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

UNSEEN static void unlock_order(void) { __atomic_store_n(&order_lock, 0, __ATOMIC_RELEASE); }

/* False: there is no room. */
UNSEEN static bool add(lead *ahead, uint64_t communicator) {
    if (ahead->count == AHEAD_MAX) return false;
    ahead->communicators[(ahead->first + ahead->count++) % AHEAD_MAX] = communicator;
    return true;
}

/* False: the other device came here by another communicator. */
UNSEEN static bool follow(lead *ahead, uint64_t communicator) {
    bool same = ahead->communicators[ahead->first] == communicator;
    ahead->first = (ahead->first + 1) % AHEAD_MAX;
    ahead->count--;
    return same;
}

UNSEEN void sim_communicator_used(uint64_t communicator, int device, uint32_t devices) {
    bool same = true, room = true;
    lock_order();
    for (int other = 0; other < SIM_DEVICES; other++) {
        if (other == device || !(devices >> other & 1)) continue;
        lead *theirs = &leads[other][device];
        if (theirs->count)
            same = follow(theirs, communicator) && same;
        else
            room = add(&leads[device][other], communicator) && room;
    }
    unlock_order();
    if (!same) sim_hazard("device %d: communicators are used in another order than on another device", device);
    if (!room) sim_hazard("device %d: %d operations ahead of another device", device, (int)AHEAD_MAX);
}

UNSEEN static void forget_in(lead *ahead, uint64_t communicator) {
    uint32_t count = ahead->count;
    ahead->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t one = ahead->communicators[(ahead->first + i) % AHEAD_MAX];
        if (one != communicator) add(ahead, one);
    }
}

UNSEEN void sim_communicator_aborted(uint64_t communicator) {
    lock_order();
    for (int i = 0; i < SIM_DEVICES; i++)
        for (int j = 0; j < SIM_DEVICES; j++) forget_in(&leads[i][j], communicator);
    unlock_order();
}

UNSEEN static void forget_order(void) {
    lock_order();
    for (int i = 0; i < SIM_DEVICES; i++)
        for (int j = 0; j < SIM_DEVICES; j++) leads[i][j].first = leads[i][j].count = 0;
    unlock_order();
}

void sim_rules_end(void) { forget_order(); }

/* What goes wrong on purpose, and the count of calls. Where nothing is armed a call only counts. */
#include "state_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIBRARIES = 8, ARMED_MAX = 256 };
typedef enum { FAIL, FAIL_FOR_EVER, LOSE, STALL, QUEUE_STALL } kind;

typedef struct trap {
    /* NULL: any; points into the table of symbols, or is a copy that lives as long as the
     * process */
    const char *symbol;
    uint64_t left; /* calls until it springs */
    kind kind;
    int code;
    uint32_t milliseconds;
} trap;

static struct {
    sim_symbol *symbols;
    int count;
} libraries[LIBRARIES];
static atomic_int library_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken only where something is armed */
static trap traps[ARMED_MAX];
static int trap_count;
static atomic_bool armed;
static atomic_ullong injected, chances, waits, bytes_to_host;
static _Atomic double random_probability;
static _Atomic uint64_t random_seed;
static sim_gate releases;
static atomic_uint release_count;

void sim_symbols_add(const char *library, sim_symbol *symbols, int count, const int *codes, int code_count) {
    pthread_mutex_lock(&lock);
    int place = atomic_load(&library_count);
    if (place == LIBRARIES) abort();
    for (int i = 0; i < count; i++) {
        symbols[i].library = library;
        symbols[i].codes = codes;
        symbols[i].code_count = code_count;
    }
    libraries[place].symbols = symbols;
    libraries[place].count = count;
    atomic_store(&library_count, place + 1);
    pthread_mutex_unlock(&lock);
}

const char *muster_sim_symbol(int index, const char **library) {
    for (int i = 0; i < atomic_load(&library_count); i++) {
        if (index < libraries[i].count) {
            if (library) *library = libraries[i].symbols[index].library;
            return libraries[i].symbols[index].name;
        }
        index -= libraries[i].count;
    }
    return NULL;
}

uint64_t muster_sim_calls(const char *symbol) {
    uint64_t calls = 0;
    for (int i = 0; i < atomic_load(&library_count); i++)
        for (int j = 0; j < libraries[i].count; j++)
            if (!symbol || strcmp(symbol, libraries[i].symbols[j].name) == 0)
                calls += atomic_load_explicit(&libraries[i].symbols[j].calls, memory_order_relaxed);
    return calls;
}

/* ---- standing still ---- */
static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

unsigned sim_releases(void) { return atomic_load_explicit(&release_count, memory_order_relaxed); }

void sim_stall(uint32_t milliseconds, unsigned since, const sim_stream *stream) {
    int64_t end = now() + (int64_t)milliseconds * 1000000;
    for (;;) {
        uint32_t seen = sim_gate_look(&releases);
        if (sim_releases() != since || atomic_load_explicit(&sim_state.ending, memory_order_relaxed)) return;
        if ((stream && sim_stream_ended(stream)) || (milliseconds && now() >= end)) return;
        sim_gate_wait(&releases, seen);
    }
}

void muster_sim_release(void) {
    atomic_fetch_add_explicit(&release_count, 1, memory_order_relaxed);
    sim_gate_bump(&releases);
}

/* ---- what a call meets ---- */
/* Takes the trap out that springs at this call. */
static bool spring(const sim_symbol *symbol, trap *sprung) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < trap_count && !found; i++) {
        if (traps[i].symbol && strcmp(traps[i].symbol, symbol->name) != 0) continue;
        if (traps[i].kind == FAIL_FOR_EVER && !traps[i].symbol && strcmp(symbol->library, "cuda") != 0) continue;
        if (--traps[i].left) continue;
        *sprung = traps[i];
        found = true;
        if (traps[i].kind == FAIL_FOR_EVER)
            traps[i].left = 1;
        else
            traps[i] = traps[--trap_count];
    }
    if (!trap_count && atomic_load(&random_probability) == 0) atomic_store_explicit(&armed, false, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return found;
}

static bool by_chance(const sim_symbol *symbol, trap *sprung) {
    double probability = atomic_load(&random_probability);
    if (probability == 0 || !symbol->code_count) return false;
    uint64_t state = atomic_load(&random_seed) + atomic_fetch_add_explicit(&chances, 1, memory_order_relaxed) * 0x632BE59BD9B4E019u;
    if ((double)(sim_random(&state) >> 11) * 0x1p-53 >= probability) return false;
    *sprung = (trap){.kind = FAIL, .code = symbol->codes[sim_random(&state) % (uint64_t)symbol->code_count]};
    return true;
}

static bool is_sticky(int code) {
    return code == 214 || code == 220 || code == 700 || code == 702 || code == 806 ||
           (code >= 710 && code <= 719 && code != 711 && code != 712 && code != 713);
}

static unsigned carry_out(const sim_symbol *symbol, const trap *sprung, int device, unsigned since) {
    if (device < 0) device = sim_current_device();
    atomic_fetch_add_explicit(&injected, 1, memory_order_relaxed);
    switch (sprung->kind) {
    case LOSE:
        if (device >= 0) muster_sim_lose_device(device);
        return 0;
    case STALL:
        sim_stall(sprung->milliseconds, since, NULL);
        return 0;
    case QUEUE_STALL:
        if (device >= 0) sim_device_stall(device, sprung->milliseconds);
        return 0;
    case FAIL:
    case FAIL_FOR_EVER:
        break;
    }
    if (device >= 0 && strcmp(symbol->library, "cuda") == 0 && is_sticky(sprung->code)) sim_device_fail(device, (sim_result)sprung->code);
    return (unsigned)sprung->code;
}

unsigned sim_enter(sim_symbol *symbol, int device) {
    const unsigned since = sim_releases(); /* before both counts: a thread that has seen one of them can end the stall */
    sim_count(symbol);
    if (!atomic_load_explicit(&armed, memory_order_relaxed)) return 0;
    trap sprung;
    return spring(symbol, &sprung) || by_chance(symbol, &sprung) ? carry_out(symbol, &sprung, device, since) : 0;
}

/* ---- what the test asks for ---- */
static void set_trap(const char *symbol, uint64_t kth, trap made) {
    pthread_mutex_lock(&lock);
    if (trap_count == ARMED_MAX || kth == 0) abort();
    made.symbol = symbol;
    made.left = kth;
    for (int i = 0; symbol && muster_sim_symbol(i, NULL); i++)
        if (strcmp(symbol, muster_sim_symbol(i, NULL)) == 0) made.symbol = muster_sim_symbol(i, NULL);
    traps[trap_count++] = made;
    atomic_store(&armed, true);
    pthread_mutex_unlock(&lock);
}

void muster_sim_inject(const char *symbol, uint64_t kth, int code) { set_trap(symbol, kth, (trap){.kind = FAIL, .code = code}); }
void muster_sim_inject_for_ever(const char *symbol, uint64_t kth, int code) {
    set_trap(symbol, kth, (trap){.kind = FAIL_FOR_EVER, .code = code});
}
void muster_sim_end_for_ever(void) {
    pthread_mutex_lock(&lock);
    for (int i = trap_count; i-- > 0;)
        if (traps[i].kind == FAIL_FOR_EVER) traps[i] = traps[--trap_count];
    pthread_mutex_unlock(&lock);
}
void muster_sim_inject_lost(const char *symbol, uint64_t kth) { set_trap(symbol, kth, (trap){.kind = LOSE}); }
void muster_sim_inject_stall(const char *symbol, uint64_t kth, uint32_t milliseconds) {
    set_trap(symbol, kth, (trap){.kind = STALL, .milliseconds = milliseconds});
}
void muster_sim_inject_queue_stall(const char *symbol, uint64_t kth, uint32_t milliseconds) {
    set_trap(symbol, kth, (trap){.kind = QUEUE_STALL, .milliseconds = milliseconds});
}

void muster_sim_stall_stream(void *handle, uint32_t milliseconds) {
    sim_stream *stream = sim_stream_of(handle);
    if (stream) sim_stream_stall(stream, milliseconds);
}

void muster_sim_inject_random(uint64_t seed, double probability) {
    atomic_store(&random_seed, seed * 0x9E3779B97F4A7C15u);
    atomic_store(&chances, 0);
    atomic_store(&random_probability, probability);
    atomic_store(&armed, true); /* the next call looks what there is */
}

void muster_sim_inject_clear(void) {
    pthread_mutex_lock(&lock);
    trap_count = 0;
    atomic_store(&random_probability, 0);
    atomic_store(&armed, false);
    pthread_mutex_unlock(&lock);
    muster_sim_release();
}

uint64_t muster_sim_injected(void) { return atomic_load(&injected); }
uint64_t muster_sim_waits(void) { return atomic_load(&waits); }
uint64_t muster_sim_bytes_to_host(void) { return atomic_load(&bytes_to_host); }
void sim_count_to_host(uint64_t bytes) { atomic_fetch_add_explicit(&bytes_to_host, bytes, memory_order_relaxed); }

void sim_count_wait(const char *symbol) {
    atomic_fetch_add_explicit(&waits, 1, memory_order_relaxed);
    sim_hazard_waits(symbol);
}

void sim_inject_end(void) {
    muster_sim_inject_clear();
    atomic_store(&injected, 0);
    atomic_store(&waits, 0);
    atomic_store(&bytes_to_host, 0);
    for (int i = 0; i < atomic_load(&library_count); i++)
        for (int j = 0; j < libraries[i].count; j++) atomic_store(&libraries[i].symbols[j].calls, 0);
}

/* Races inside of one launch: for each byte of shared and device memory that the launch has
 * touched, who wrote and who read it last. Two accesses of different threads to one byte, one of
 * them a write, are a race unless something orders them: a barrier of their block between the two;
 * within a warp, a barrier of the warp that both have met; between two blocks nothing. Atomics are
 * ordered among themselves. Which of the two comes first in the run does not matter, so a missing
 * barrier is found in every order of the threads.
 *
 * A thread has a clock for each thread of its warp (vector clocks: Flanagan and Freund, FastTrack,
 * PLDI 2009); the block's barriers are counted once for all. Of the reads of a byte since its last
 * write two are kept, of different warps where there are such: any write that a third read does not
 * come before races with one of the two, too, unless all three are of one warp that has met at a
 * barrier of some of its threads only.
 *
 * Compiled without sanitizers, as user_block.c: it runs on the fibers. */
#include "user_impl.h"

#include <stdlib.h>
#include <string.h>

enum { WARP = 32, PAGE = 64, BUCKETS = 1 << 14, KEPT = 2 };

typedef struct record {
    uint32_t group, interval, clock; /* group: + 1, 0: none */
    uint32_t thread;
} record;

typedef struct cell { /* of a byte */
    record written, reads[KEPT], atomics[KEPT];
} cell;

typedef struct page {
    struct page *next;
    uintptr_t number;
    cell cells[PAGE];
} page;

struct user_races {
    uint64_t seed, chance;
    uint32_t group, interval;
    int threads;
    bool fenced;   /* a thread orders its accesses to device memory by fences, which are not followed here */
    bool reported; /* one report of a launch is enough */
    uint32_t (*clocks)[WARP];
    page *last;
    page *buckets[BUCKETS];
};

/* ---- which launches ---- */
/* A larger one takes minutes: it runs as without the check. */
enum { CHECKED_THREADS = 1 << 17 };
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_ullong wanted_seed, launches;

static void read_environment(void) {
    const char *text = getenv("MUSTER_SIM_RACES");
    if (text && *text) atomic_store(&wanted_seed, strtoull(text, NULL, 0));
}

void muster_sim_check_races(uint64_t seed) {
    pthread_once(&once, read_environment);
    atomic_store(&wanted_seed, seed);
    atomic_store(&launches, 0);
}

bool user_races_wanted(uint64_t threads, uint64_t *seed) {
    pthread_once(&once, read_environment);
    *seed = atomic_load_explicit(&wanted_seed, memory_order_relaxed);
    return *seed != 0 && threads <= CHECKED_THREADS;
}

/* ---- one launch ---- */
user_races *user_races_begin(int threads, uint64_t seed) {
    user_races *races = calloc(1, sizeof *races);
    if (races) races->clocks = calloc((size_t)threads, sizeof *races->clocks);
    if (!races || !races->clocks) {
        free(races);
        return NULL;
    }
    races->threads = threads;
    races->chance = seed + atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
    races->seed = sim_random(&races->chance);
    return races;
}

void user_races_end(user_races *races) {
    if (!races) return;
    for (int i = 0; i < BUCKETS; i++)
        for (page *p = races->buckets[i], *next; p; p = next) {
            next = p->next;
            free(p);
        }
    free(races->clocks);
    free(races);
}

uint64_t *user_races_chance(user_races *races) { return &races->chance; }
uint64_t user_races_seed(const user_races *races) { return races->seed; }

/* ---- order ---- */
void user_races_group(user_races *races, uint64_t number) {
    races->group = (uint32_t)number + 1;
    races->interval = 0;
    memset(races->clocks, 0, (size_t)races->threads * sizeof *races->clocks);
    for (int thread = 0; thread < races->threads; thread++) races->clocks[thread][thread % WARP] = 1;
}

void user_races_barrier(user_races *races) { races->interval++; }

void user_races_warp_barrier(user_races *races, int warp, unsigned lanes) {
    uint32_t most[WARP] = {0};
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < WARP && lanes >> lane & 1; i++) {
            uint32_t clock = races->clocks[warp * WARP + lane][i];
            if (clock > most[i]) most[i] = clock;
        }
    for (int lane = 0; lane < WARP; lane++) {
        if (!(lanes >> lane & 1)) continue;
        uint32_t *clocks = races->clocks[warp * WARP + lane];
        memcpy(clocks, most, sizeof most);
        clocks[lane]++;
    }
}

void user_races_fence(user_races *races) { races->fenced = true; }

/* Does the past access come before what the thread does now? */
static bool comes_before(const user_races *races, const record *past, int thread, bool shared) {
    if (past->group == 0) return true;
    if (past->group != races->group) return shared; /* shared memory is another in each block */
    if (past->interval < races->interval || past->thread == (uint32_t)thread) return true;
    return past->thread / WARP == (uint32_t)thread / WARP && past->clock <= races->clocks[thread][past->thread % WARP];
}

static record now(const user_races *races, int thread) {
    return (record){races->group, races->interval, races->clocks[thread][thread % WARP], (uint32_t)thread};
}

/* Keeps it among the accesses of its kind. */
static void keep(const user_races *races, record kept[KEPT], int thread, bool shared) {
    record added = now(races, thread);
    int unordered = 0, place = -1;
    for (int i = 0; i < KEPT; i++) {
        if (comes_before(races, &kept[i], thread, shared)) {
            kept[i].group = 0;
            place = i;
        } else {
            unordered++;
        }
    }
    if (unordered == KEPT) { /* two of one warp say no more than one of them and one of another */
        bool alike = kept[0].group == kept[1].group && kept[0].thread / WARP == kept[1].thread / WARP;
        if (alike && (kept[0].group != added.group || kept[0].thread / WARP != added.thread / WARP)) place = 1;
    }
    if (place >= 0) kept[place] = added;
}

/* ---- memory ---- */
static page *page_of(user_races *races, uintptr_t number) {
    if (races->last && races->last->number == number) return races->last;
    page **bucket = &races->buckets[(number * 0x9E3779B97F4A7C15u >> 40) % BUCKETS];
    for (page *p = *bucket; p; p = p->next)
        if (p->number == number) return races->last = p;
    page *added = calloc(1, sizeof *added);
    if (!added) return NULL;
    added->number = number;
    added->next = *bucket;
    *bucket = added;
    return races->last = added;
}

static const record *conflict_among(const user_races *races, const record *kept, int count, int thread, bool shared) {
    for (int i = 0; i < count; i++)
        if (!comes_before(races, &kept[i], thread, shared)) return &kept[i];
    return NULL;
}

/* The past access that races with this one, and what it was; NULL: none. */
static const record *conflict(const user_races *races, const cell *c, int kind, int thread, bool shared, const char **past) {
    const record *found = conflict_among(races, &c->written, 1, thread, shared);
    *past = "wrote";
    if (!found && kind != MST_PROGRAM_READ) {
        found = conflict_among(races, c->reads, KEPT, thread, shared);
        *past = "read";
    }
    if (!found && kind != MST_PROGRAM_ATOMIC) {
        found = conflict_among(races, c->atomics, KEPT, thread, shared);
        *past = "changed (by an atomic operation)";
    }
    return found;
}

static void remember(const user_races *races, cell *c, int kind, int thread, bool shared) {
    if (kind == MST_PROGRAM_READ) {
        keep(races, c->reads, thread, shared);
    } else if (kind == MST_PROGRAM_ATOMIC) {
        keep(races, c->atomics, thread, shared);
    } else {
        memset(c, 0, sizeof *c);
        c->written = now(races, thread);
    }
}

static void report(user_races *races, const user_launch *what, const void *address, int kind, int thread, bool shared, const record *other,
                   const char *past) {
    static const char *const verbs[] = {"reads", "writes", "changes (by an atomic operation)"};
    uint64_t device_address = sim_memory_unalias(address);
    const void *shown = device_address ? (const void *)(uintptr_t)device_address : address;
    races->reported = true;
    sim_hazard("device %d: kernel %s: race: thread %d of block %u %s the byte at %p (%s memory) that thread %u of block %u %s; nothing "
               "orders the two",
               what->device, what->name, thread, races->group - 1, verbs[kind], shown, shared ? "shared" : "device", other->thread,
               other->group - 1, past);
}

void user_races_access(user_races *races, const user_launch *what, const void *address, size_t bytes, int kind, int thread, bool shared) {
    if (!shared && races->fenced) return;
    for (uintptr_t at = (uintptr_t)address, end = at + bytes; at < end; at++) {
        page *p = page_of(races, at / PAGE);
        if (!p) return; /* out of memory: less is looked at */
        cell *c = &p->cells[at % PAGE];
        const char *past;
        const record *other = races->reported ? NULL : conflict(races, c, kind, thread, shared, &past);
        if (other) report(races, what, (const void *)at, kind, thread, shared, other, past);
        remember(races, c, kind, thread, shared);
    }
}

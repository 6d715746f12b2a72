/* Runs a block of a kernel of the user's. Its threads are fibers of one thread of the operating
 * system: one after another runs until it ends or comes to a barrier, and where none does, all of
 * them run on one fiber. So a barrier that is missing shows in every run: the first thread is at
 * its end before the second begins. A launch that is checked for races has a fiber for each thread,
 * and goes from one to another at random, also in front of accesses to memory. Compiled without
 * sanitizers, which know nothing of the fibers' stacks; nothing that they watch is on a fiber's
 * stack while it stands still. */
#include "user_impl.h"
#include "user_switch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, STACK = 128 << 10, GUARD = 4096, WARP = 32 };
typedef enum { READY, AT_BARRIER, AT_WARP_BARRIER, ENDED } state;

typedef struct fiber {
    user_stack stack;
    bool made;
    state state;
    int thread; /* that it runs */
    unsigned mask;
} fiber;

typedef struct team { /* of a thread of the operating system */
    user_launch *what;
    mst_program_here *here;
    user_stack scheduler;
    char *stacks;
    size_t stack_bytes;
    fiber *fibers, *current;
    uint64_t values[THREADS_MAX]; /* that the threads of warps exchange */
    int threads, next, used;
    int ready[THREADS_MAX], ready_count; /* fibers that may run, where threads are interleaved */
    bool left;                           /* a thread was stopped */
} team;

static _Thread_local team *mine;

static void place(int thread) {
    const mst_program_position *threads = &mine->what->threads;
    unsigned number = (unsigned)thread;
    mine->here->thread = (mst_program_position){number % threads->x, number / threads->x % threads->y, number / threads->x / threads->y};
}

/* ---- called by the kernel, on a fiber ---- */
static void stand(state where, unsigned mask) {
    fiber *self = mine->current;
    self->state = where;
    self->mask = mask;
    user_stack_switch(&self->stack, &mine->scheduler);
    place(self->thread);
}

static void leave(sim_result why) {
    user_fail(mine->what, why);
    mine->left = true;
    user_stack_switch(&mine->current->stack, &mine->scheduler); /* which does not come back */
}

static bool within(const void *address, const void *start, size_t bytes) { return (uintptr_t)address - (uintptr_t)start < bytes; }

/* The access itself comes right after it, with no other thread between. */
static void look_for_race(const void *address, size_t bytes, int kind) {
    const user_launch *what = mine->what;
    if (within(address, mine->here, sizeof *mine->here)) return;
    if (sim_random(user_races_chance(what->races)) % 4 == 0) stand(READY, 0);
    bool shared = within(address, (const char *)mine->here + what->program->local_offset, what->program->local_bytes);
    user_races_access(what->races, what, address, bytes, kind, mine->current->thread, shared);
}

static void check(const void *address, unsigned long bytes, unsigned long alignment, int kind) {
    sim_result result = user_access(mine->what, mine->here, address, bytes, alignment, kind != MST_PROGRAM_READ);
    if (result) leave(result);
    if (mine->what->races) look_for_race(address, bytes, kind);
}

static void watch(const void *address, unsigned long bytes, int kind) {
    if (kind == MST_PROGRAM_FENCE) {
        if (mine->what->races) user_races_fence(mine->what->races);
        return;
    }
    if (user_watch) user_watch(address, bytes, kind != MST_PROGRAM_READ);
    if (mine->what->races) look_for_race(address, bytes, kind);
}

static void barrier(void) { stand(AT_BARRIER, 0); }
static void warp_barrier(unsigned mask) { stand(AT_WARP_BARRIER, mask); }
static void trap(void) { leave(SIM_LAUNCH_FAILED); }

static unsigned long long exchange(unsigned mask, unsigned long long value, int lane) {
    int thread = mine->current->thread, other = thread / WARP * WARP + lane % WARP;
    mine->values[thread] = value;
    warp_barrier(mask);
    value = mine->values[other];
    warp_barrier(mask);
    return value;
}

static unsigned ballot(unsigned mask, int predicate) {
    int thread = mine->current->thread, first = thread / WARP * WARP;
    mine->values[thread] = predicate != 0;
    warp_barrier(mask);
    unsigned result = 0;
    for (int lane = 0; lane < WARP && first + lane < mine->threads; lane++)
        if (mask >> lane & 1) result |= (unsigned)mine->values[first + lane] << lane;
    warp_barrier(mask);
    return result;
}

void sim_program_attach(sim_program *program, bool checked) {
    *program->table->machine =
        (mst_program_machine){check, checked || user_watch ? watch : NULL, barrier, warp_barrier, exchange, ballot, trap};
}

/* ---- fibers ---- */
/* What a fiber does. Usually it runs one thread after another until none is left. Where threads are
 * interleaved each fiber has one thread, and runs that alone. */
static void serve(void) {
    for (;;) {
        fiber *self = mine->current;
        while (mine->next < mine->threads) {
            if (!mine->what->races) self->thread = mine->next++;
            place(self->thread);
            mine->what->kernel->run(mine->what->packed);
            if (mine->what->races) break;
        }
        stand(ENDED, 0);
    }
}

static bool make(fiber *made) {
    char *stack = mine->stacks + (size_t)(made - mine->fibers) * (STACK + GUARD);
    made->made = mprotect(stack, GUARD, PROT_NONE) == 0 && user_stack_make(&made->stack, stack + GUARD, STACK, serve);
    return made->made;
}

static bool resume(fiber *resumed) {
    if (!resumed->made && !make(resumed)) user_fail(mine->what, SIM_OUT_OF_MEMORY);
    if (!resumed->made) return false;
    resumed->state = READY;
    mine->current = resumed;
    user_stack_switch(&mine->scheduler, &resumed->stack);
    return !mine->left;
}

/* ---- a block ---- */
static bool all_at_barrier(const team *t) {
    bool any = false;
    for (int i = 0; i < t->used; i++) {
        if (t->fibers[i].state == AT_WARP_BARRIER) return false;
        any |= t->fibers[i].state == AT_BARRIER;
    }
    return any;
}

/* Are all that live of those that it waits for there? The fibers are in the order of the
 * threads. */
static bool warp_is_there(const team *t, int place_of) {
    const fiber *self = &t->fibers[place_of];
    for (int i = place_of; i >= 0 && t->fibers[i].thread / WARP == self->thread / WARP; i--)
        if (self->mask >> t->fibers[i].thread % WARP & 1 && t->fibers[i].state == AT_BARRIER) return false;
    for (int i = place_of + 1; i < t->used && t->fibers[i].thread / WARP == self->thread / WARP; i++)
        if (self->mask >> t->fibers[i].thread % WARP & 1 && t->fibers[i].state == AT_BARRIER) return false;
    return true;
}

/* Which of the standing ones may go on; their number. */
static int release(team *t, bool *goes) {
    bool barrier_is_met = all_at_barrier(t);
    int count = 0;
    for (int i = 0; i < t->used; i++) {
        goes[i] = t->fibers[i].state == AT_BARRIER ? barrier_is_met : t->fibers[i].state == AT_WARP_BARRIER && warp_is_there(t, i);
        count += goes[i];
    }
    return count;
}

static bool all_ended(const team *t) {
    for (int i = 0; i < t->used; i++)
        if (t->fibers[i].state != ENDED) return false;
    return true;
}

/* Runs the ready ones in a random order, until each has ended or stands at a barrier. */
static bool run_interleaved(team *t) {
    while (t->ready_count > 0) {
        int place_of = (int)(sim_random(user_races_chance(t->what->races)) % (unsigned)t->ready_count);
        fiber *chosen = &t->fibers[t->ready[place_of]];
        if (!resume(chosen)) return false;
        if (chosen->state != READY) t->ready[place_of] = t->ready[--t->ready_count];
    }
    return true;
}

/* Each set of lanes of a warp that has met. */
static void tell_warp_barriers(const team *t, const bool *goes) {
    for (int first = 0; first < t->threads; first++) {
        const fiber *self = &t->fibers[first];
        if (!goes[first] || self->state != AT_WARP_BARRIER) continue;
        int warp = first / WARP;
        unsigned lanes = 0;
        bool told = false;
        for (int i = warp * WARP; i < t->threads && i / WARP == warp; i++) {
            if (!goes[i] || t->fibers[i].state != AT_WARP_BARRIER || t->fibers[i].mask != self->mask) continue;
            told |= i < first;
            lanes |= 1u << i % WARP;
        }
        if (!told) user_races_warp_barrier(t->what->races, warp, lanes);
    }
}

static void tell_races(const team *t, const bool *goes) {
    bool all = false;
    for (int i = 0; i < t->used; i++) all |= goes[i] && t->fibers[i].state == AT_BARRIER;
    if (all) user_races_barrier(t->what->races);
    tell_warp_barriers(t, goes);
}

static bool begin_threads(team *t) {
    t->next = t->used = 0;
    if (!t->what->races) {
        while (t->next < t->threads)
            if (!resume(&t->fibers[t->used++])) return false;
        return true;
    }
    for (t->used = 0; t->used < t->threads; t->used++) {
        t->fibers[t->used].thread = t->used;
        t->ready[t->used] = t->used;
    }
    t->ready_count = t->used;
    return run_interleaved(t);
}

static bool resume_all(team *t, const bool *goes) {
    t->ready_count = 0;
    for (int i = 0; i < t->used; i++) {
        if (!goes[i]) continue;
        if (t->what->races)
            t->ready[t->ready_count++] = i;
        else if (!resume(&t->fibers[i]))
            return false;
    }
    return !t->what->races || run_interleaved(t);
}

static bool run_block(team *t) {
    bool goes[THREADS_MAX];
    if (!begin_threads(t)) return false;
    while (!all_ended(t)) {
        if (release(t, goes) == 0) {
            sim_hazard("device %d: kernel %s: threads of a block wait at different barriers", t->what->device, t->what->name);
            user_fail(t->what, SIM_LAUNCH_FAILED);
            return false;
        }
        if (t->what->races) tell_races(t, goes);
        if (!resume_all(t, goes)) return false;
    }
    return true;
}

/* Shared memory holds garbage, not what the block before left there. */
static void begin_block(team *t, uint64_t number) {
    const user_launch *what = t->what;
    char *local = (char *)t->here + what->program->local_offset, *dynamic = what->program->table->dynamic();
    memset(local, 0xff, (size_t)(dynamic - local));
    memset(dynamic, 0xff, what->shared);
    memset(dynamic + MST_PROGRAM_SHARED, 0xff, what->program->local_bytes - (size_t)(dynamic - local) - MST_PROGRAM_SHARED);
    *t->here = (mst_program_here){.threads = what->threads, .blocks = what->blocks};
    t->here->block.x = (unsigned)(number % what->blocks.x);
    t->here->block.y = (unsigned)(number / what->blocks.x % what->blocks.y);
    t->here->block.z = (unsigned)(number / what->blocks.x / what->blocks.y);
    t->here->stack = (mst_program_range){(unsigned long)t->stacks, t->stack_bytes};
    if (what->races) user_races_group(what->races, number);
}

/* The blocks of a launch that is checked come in a random order: number i of `count`, by a step
 * that has no divisor in common with it. */
static uint64_t shuffled(const user_races *races, uint64_t i, uint64_t count) {
    uint64_t chance = user_races_seed(races), step = sim_random(&chance) % count, first = sim_random(&chance) % count, a, b;
    do {
        step++;
        for (a = step, b = count; b;) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
    } while (a != 1);
    return (first + i * step) % count;
}

static void run_blocks(team *t) {
    uint64_t count = (uint64_t)t->what->blocks.x * t->what->blocks.y * t->what->blocks.z;
    for (;;) {
        uint64_t number = atomic_fetch_add_explicit(&t->what->next, 1, memory_order_relaxed);
        if (number >= count || atomic_load_explicit(&t->what->failed, memory_order_relaxed) || sim_stream_ended(t->what->stream)) return;
        begin_block(t, t->what->races ? shuffled(t->what->races, number, count) : number);
        if (!run_block(t)) return;
    }
}

void user_blocks_run(user_launch *what) {
    team *t = calloc(1, sizeof *t);
    int threads = (int)(what->threads.x * what->threads.y * what->threads.z);
    size_t bytes = (size_t)threads * (STACK + GUARD);
    if (t) t->fibers = calloc((size_t)threads, sizeof *t->fibers);
    long stacks =
        t && t->fibers ? syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L) : -1;
    if (stacks != -1) {
        t->what = what;
        t->threads = threads;
        t->here = what->program->table->here();
        t->stacks = (char *)stacks;
        t->stack_bytes = bytes;
        mine = t;
        run_blocks(t);
        mine = NULL;
        syscall(SYS_munmap, stacks, bytes);
    } else {
        user_fail(what, SIM_OUT_OF_MEMORY);
    }
    if (t) free(t->fibers);
    free(t);
}

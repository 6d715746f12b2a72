/* The modelled machine: threads on stacks of their own, memory behind store buffers, the futex, and
 * what each thread may know of plain memory.
 *
 * Everything that can differ between two states lies in `world`, in the arena, or on the live part
 * of a stack, at addresses that never change: to save a state is to copy these, and two states with
 * the same bytes are the same state. */
#include "machine.h"

#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum {
    STACK_BYTES = 1 << 15,
    ARENA_BYTES = 1 << 17,
    MOST_BUFFERED = 6,
    MOST_LOCATIONS = 64,
    MOST_CELLS = 24,
    MOST_RANGES = 32,
    MOST_NAMES = 256,
    MOST_SLEEPING = 4,
    MOST_COUNTERS = 8,
    MOST_QUIET = 4
};

/* One bit for the last write and one for the last read of every thread, for each cell of plain
 * memory. */
typedef unsigned __int128 events;
enum { EVENTS_PER_CELL = 1 + EXPLORE_THREADS };
_Static_assert(MOST_CELLS *EVENTS_PER_CELL <= 128, "the events fit their type");
#define ALL_EVENTS (~(events)0)

typedef enum { THREAD_READY = 1, THREAD_ASLEEP, THREAD_WOKEN, THREAD_ENDED } thread_state;

typedef struct operation {
    explore_kind kind;
    int32_t order;
    char *address;
    size_t size;
    uint64_t value, expected;
} operation;

typedef struct pending_store {
    operation store;
    events unknown; /* to its writer, when it was written: what an acquire of it does not teach */
} pending_store;

typedef struct thread {
    int32_t state, pending_count;
    operation next; /* while ready: what it is about to do */
    uint64_t result;
    pending_store pending[MOST_BUFFERED]; /* oldest first */
    uint64_t digest;                      /* for the hash of the state; 0: not up to date */
    events unknown;                       /* events that do not happen before this thread's next */
    char *low;                            /* of the live part of the stack */
    jmp_buf registers;
} thread;

static struct world {
    int64_t now;
    int32_t spurious, preemptions, last, thread_count; /* last: to run; preemptions: left, negative: any number */
    size_t arena_used;
    events released[MOST_LOCATIONS]; /* what an acquire of this location does not teach */
    thread threads[EXPLORE_THREADS];
} world;
static _Alignas(64) char arena[ARENA_BYTES];
static _Alignas(64) char stacks[EXPLORE_THREADS][STACK_BYTES];

/* Not part of the state. */
static int32_t current = -1; /* -1: prepare, finish or the search */
static int32_t wake_choice;  /* the threads that the next wake wakes, one bit for each; 0: not chosen */
static jmp_buf search_registers;
static char fault_text[512];
static struct {
    const void *entry;
    void *argument;
    const char *name;
} entries[EXPLORE_THREADS];
static struct {
    uint32_t *word;
    const uint32_t *users;
} counters[MOST_COUNTERS];
static int32_t counter_count;
static struct {
    const char *from, *to;
    bool constant;
} quiet[MOST_QUIET];
static int32_t quiet_count;
static const void *locations[MOST_LOCATIONS], *cells[MOST_CELLS], *may_sleep[MOST_SLEEPING];
static const char *lock_word;
static int32_t location_count, cell_count, may_sleep_count;
static struct {
    char *from;
    size_t bytes;
} ignored[MOST_RANGES], kept[MOST_RANGES];
static int32_t ignored_count, kept_count;
static size_t kept_end;
static struct {
    const char *from;
    size_t bytes;
    char text[48];
} names[MOST_NAMES];
static int32_t name_count;

static void broken(const char *why) {
    fprintf(stderr, "explore: %s\n", why);
    exit(3);
}

/* ---- memory, names ---- */

void machine_reset(const explore_scenario *scenario) {
    memset(&world, 0, sizeof(world));
    memset(arena, 0, sizeof(arena));
    memset(stacks, 0, sizeof(stacks));
    for (int32_t i = 0; i < MOST_LOCATIONS; i++) world.released[i] = ALL_EVENTS;
    lock_word = NULL;
    world.spurious = scenario->spurious;
    world.preemptions = scenario->preemptions > 0 ? scenario->preemptions : -1;
    current = -1;
    fault_text[0] = 0;
    location_count = cell_count = may_sleep_count = quiet_count = counter_count = ignored_count = kept_count = name_count = 0;
}

void *explore_alloc(size_t bytes) {
    size_t rounded = (bytes + 63) & ~(size_t)63;
    if (rounded == 0) rounded = 64;
    if (world.arena_used + rounded > ARENA_BYTES) broken("the arena is too small");
    char *block = arena + world.arena_used;
    world.arena_used += rounded;
    memset(block, 0, rounded);
    return block;
}

/* Only whole words are left out. */
void explore_ignore(const void *address, size_t bytes) {
    if (ignored_count == MOST_RANGES) broken("too many ranges to ignore");
    uintptr_t from = ((uintptr_t)address + 7) & ~(uintptr_t)7, to = ((uintptr_t)address + bytes) & ~(uintptr_t)7;
    ignored[ignored_count].from = (char *)from;
    ignored[ignored_count++].bytes = to - from;
}

void explore_lock_word(const void *word) { lock_word = word; }

void explore_may_sleep(const void *futex) {
    if (may_sleep_count == MOST_SLEEPING) broken("too many places to sleep");
    may_sleep[may_sleep_count++] = futex;
}

static void add_quiet(const void *address, size_t bytes, bool constant) {
    if (quiet_count == MOST_QUIET) broken("too many quiet ranges");
    quiet[quiet_count].from = address;
    quiet[quiet_count].to = (const char *)address + bytes;
    quiet[quiet_count++].constant = constant;
}

void explore_constant(const void *address, size_t bytes) { add_quiet(address, bytes, true); }
void explore_quiet(const void *address, size_t bytes) { add_quiet(address, bytes, false); }

void explore_counter(const void *word, const void *users) {
    if (counter_count == MOST_COUNTERS) broken("too many counters");
    counters[counter_count].word = (uint32_t *)(uintptr_t)word;
    counters[counter_count++].users = users;
}

void explore_name(const void *address, size_t bytes, const char *format, ...) {
    if (name_count == MOST_NAMES) broken("too many names");
    names[name_count].from = address;
    names[name_count].bytes = bytes;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(names[name_count++].text, sizeof(names[0].text), format, arguments);
    va_end(arguments);
}

static const char *name_of(const void *address) {
    static char unknown[2][32];
    static int32_t next;
    for (int32_t i = 0; i < name_count; i++) {
        if ((const char *)address >= names[i].from && (const char *)address < names[i].from + names[i].bytes) return names[i].text;
    }
    next = !next;
    snprintf(unknown[next], sizeof(unknown[0]), "%p", address);
    return unknown[next];
}

static void keep(char *from, char *to) {
    if (kept_count == MOST_RANGES) broken("too many ranges to keep");
    if (to > from) {
        kept[kept_count].from = from;
        kept[kept_count++].bytes = (size_t)(to - from);
    }
}

void machine_begin(void) {
    char *at = arena;
    for (;;) { /* the ignored range that comes next */
        int32_t next = -1;
        for (int32_t i = 0; i < ignored_count; i++) {
            if (ignored[i].from >= at && (next < 0 || ignored[i].from < ignored[next].from)) next = i;
        }
        if (next < 0) break;
        keep(at, ignored[next].from);
        at = ignored[next].from + ignored[next].bytes;
    }
    keep(at, arena + world.arena_used);
    kept_end = world.arena_used;
}

/* ---- plain memory ---- */

void explore_fault(const char *format, ...) {
    if (!fault_text[0]) {
        size_t used = current >= 0 ? (size_t)snprintf(fault_text, sizeof(fault_text), "%s: ", entries[current].name) : 0;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(fault_text + used, sizeof(fault_text) - used, format, arguments);
        va_end(arguments);
    }
    if (current >= 0) _longjmp(search_registers, 1);
}

const char *machine_fault(void) { return fault_text; }
int32_t explore_current(void) { return current; }

static int32_t numbered(const void **list, int32_t *count, int32_t most, const void *address) {
    for (int32_t i = 0; i < *count; i++) {
        if (list[i] == address) return i;
    }
    if (*count == most) broken("too many locations or cells");
    list[*count] = address;
    return (*count)++;
}

static events write_event(int32_t cell) { return (events)1 << cell * EVENTS_PER_CELL; }
static events read_event(int32_t cell, int32_t reader) { return (events)2 << (cell * EVENTS_PER_CELL + reader); }

/* From now on nobody but `who` knows of `fresh`; `gone` has been replaced by something newer. */
static void new_event(int32_t who, events fresh, events gone) {
    for (int32_t i = 0; i < world.thread_count; i++) {
        thread *t = &world.threads[i];
        t->unknown = (t->unknown & ~gone) | fresh;
        for (int32_t entry = 0; entry < t->pending_count; entry++) t->pending[entry].unknown = (t->pending[entry].unknown & ~gone) | fresh;
    }
    for (int32_t i = 0; i < MOST_LOCATIONS; i++) world.released[i] = (world.released[i] & ~gone) | fresh;
    world.threads[who].unknown &= ~fresh;
}

void explore_wrote(const void *address) {
    if (current < 0) return;
    int32_t cell = numbered(cells, &cell_count, MOST_CELLS, address);
    events all = (((events)1 << EVENTS_PER_CELL) - 1) << cell * EVENTS_PER_CELL;
    events unknown = world.threads[current].unknown & all;
    if (unknown & write_event(cell)) explore_fault("writes %s, which another thread has written with nothing in between", name_of(address));
    if (unknown) explore_fault("writes %s while another thread may be reading it", name_of(address));
    new_event(current, write_event(cell), all & ~write_event(cell));
}

void explore_has_read(const void *address) {
    if (current < 0) return;
    int32_t cell = numbered(cells, &cell_count, MOST_CELLS, address);
    if (world.threads[current].unknown & write_event(cell))
        explore_fault("reads %s while another thread may be writing it", name_of(address));
    new_event(current, read_event(cell, current), 0);
}

void explore_write(void *address, int64_t value) {
    explore_wrote(address);
    memcpy(address, &value, sizeof(value));
}

int64_t explore_read(const void *address) {
    int64_t value;
    explore_has_read(address);
    memcpy(&value, address, sizeof(value));
    return value;
}

static bool in_arena(const void *address) { return (const char *)address >= arena && (const char *)address < arena + ARENA_BYTES; }

void *explore_memcpy(void *to, const void *from, size_t bytes);
void *explore_memcpy(void *to, const void *from, size_t bytes) {
    if (in_arena(from)) explore_has_read(from);
    if (in_arena(to)) explore_wrote(to);
    return memcpy(to, from, bytes);
}

/* ---- atomic memory ---- */

static bool acquires(int32_t order) {
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}
static bool releases(int32_t order) { return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST; }

static uint64_t load_memory(const operation *o) {
    uint64_t value = 0;
    memcpy(&value, o->address, o->size);
    return value;
}

static void store_memory(const operation *o, uint64_t value) { memcpy(o->address, &value, o->size); }

static events *released(const void *address) { return &world.released[numbered(locations, &location_count, MOST_LOCATIONS, address)]; }

/* The words of an eventcount (32 bits) order nothing here, though their operations are seq_cst:
 * what a waiter may know it learns from the word it waits for. Of words of 32 bits only that of a
 * lock does. That asks more of the protocol, and
 * leaves fewer states. */
static bool teaches(const operation *o) { return o->size == sizeof(uint64_t) || (lock_word && o->address == lock_word); }

/* A release leaves after everything before it; a relaxed store only after what it would
 * overwrite. */
static bool may_flush(const thread *t, int32_t entry) {
    if (releases(t->pending[entry].store.order)) return entry == 0;
    for (int32_t before = 0; before < entry; before++) {
        if (t->pending[before].store.address == t->pending[entry].store.address) return false;
    }
    return true;
}

static void flush(thread *t, int32_t entry) {
    pending_store p = t->pending[entry];
    store_memory(&p.store, p.store.value);
    if (teaches(&p.store)) *released(p.store.address) = releases(p.store.order) ? p.unknown : ALL_EVENTS;
    t->pending_count--;
    memmove(&t->pending[entry], &t->pending[entry + 1], (size_t)(t->pending_count - entry) * sizeof(p));
    memset(&t->pending[t->pending_count], 0, sizeof(p));
}

static void flush_all(thread *t) {
    while (t->pending_count > 0) flush(t, 0);
}

static uint64_t perform_load(thread *t, const operation *o) {
    int32_t last = t->pending_count - 1;
    /* A seq_cst load comes after every seq_cst store, but not after weaker ones. */
    if (o->order == __ATOMIC_SEQ_CST) {
        while (last >= 0 && t->pending[last].store.order != __ATOMIC_SEQ_CST) last--;
        for (; last >= 0; last--) flush(t, 0);
    }
    for (int32_t entry = t->pending_count - 1; entry >= 0; entry--) {
        if (t->pending[entry].store.address == o->address) return t->pending[entry].store.value;
    }
    if (teaches(o) && acquires(o->order)) t->unknown &= *released(o->address);
    return load_memory(o);
}

static uint64_t perform_store(thread *t, const operation *o) {
    if (t->pending_count == MOST_BUFFERED) flush(t, 0);
    t->pending[t->pending_count++] = (pending_store){*o, t->unknown};
    return 0;
}

static uint64_t changed(const operation *o, uint64_t before) {
    switch (o->kind) {
    case EXPLORE_ADD:
        return before + o->value;
    case EXPLORE_OR:
        return before | o->value;
    case EXPLORE_AND:
        return before & o->value;
    case EXPLORE_COMPARE_EXCHANGE:
        return before == o->expected ? o->value : before;
    default:
        return o->value;
    }
}

/* Read, change and write at once, after all that this thread has stored: as the locked instructions
 * of x86 do, whatever order was asked for. */
static uint64_t perform_change(thread *t, const operation *o) {
    flush_all(t);
    uint64_t before = load_memory(o);
    if (teaches(o) && acquires(o->order)) t->unknown &= *released(o->address);
    if (o->kind == EXPLORE_COMPARE_EXCHANGE && before != o->expected) return before;
    store_memory(o, changed(o, before));
    /* A thread that acquires it acquires the releases before it, too. */
    if (teaches(o) && releases(o->order)) *released(o->address) &= t->unknown;
    return before;
}

static uint64_t perform_futex_wait(thread *t, const operation *o) {
    flush_all(t);
    if (load_memory(o) != o->expected) return (uint64_t)-1;
    t->state = THREAD_ASLEEP;
    return 0;
}

/* The threads that sleep on the address, one bit for each. */
static int32_t sleepers_on(const void *address) {
    int32_t set = 0;
    for (int32_t i = 0; i < world.thread_count; i++) {
        if (world.threads[i].state == THREAD_ASLEEP && world.threads[i].next.address == address) set |= 1 << i;
    }
    return set;
}

static int32_t count_of(int32_t set) { return __builtin_popcount((uint32_t)set); }

/* As many as were asked for: those that the search has chosen, or else the first ones. */
static uint64_t perform_futex_wake(thread *t, const operation *o) {
    flush_all(t);
    const int32_t asleep = sleepers_on(o->address);
    uint64_t woken = 0;
    for (int32_t i = 0; i < world.thread_count && woken < o->value; i++) {
        if (!(asleep & (wake_choice ? wake_choice : asleep) & 1 << i)) continue;
        world.threads[i].state = THREAD_WOKEN;
        woken++;
    }
    return woken;
}

/* A lock acquires what the unlocks before it have released. */
static uint64_t perform_mutex(thread *t, const operation *o) {
    flush_all(t);
    const bool lock = o->kind == EXPLORE_LOCK;
    if (load_memory(o) == lock) explore_fault("%s a mutex that is %s already", lock ? "locks" : "unlocks", lock ? "held" : "free");
    store_memory(o, lock);
    if (lock)
        t->unknown &= *released(o->address);
    else
        *released(o->address) = t->unknown;
    return 0;
}

static uint64_t perform(thread *t, const operation *o) {
    switch (o->kind) {
    case EXPLORE_LOAD:
        return perform_load(t, o);
    case EXPLORE_STORE:
        return perform_store(t, o);
    case EXPLORE_FUTEX_WAIT:
        return perform_futex_wait(t, o);
    case EXPLORE_FUTEX_WAKE:
        return perform_futex_wake(t, o);
    case EXPLORE_LOCK:
    case EXPLORE_UNLOCK:
        return perform_mutex(t, o);
    case EXPLORE_JOIN:
        t->unknown &= world.threads[o->value].unknown;
        return 0;
    default:
        return perform_change(t, o);
    }
}

/* ---- threads ---- */

/* A little below everything that the caller still needs. */
static __attribute__((noinline)) char *stack_here(void) { return __builtin_frame_address(0); }

static __attribute__((noinline)) void pause_thread(thread *t) {
    t->low = (char *)((uintptr_t)stack_here() & ~(uintptr_t)7);
    if (_setjmp(t->registers) == 0) _longjmp(search_registers, 1);
}

static void thread_main(void) {
    ((void *(*)(void *))entries[current].entry)(entries[current].argument);
    thread *t = &world.threads[current];
    t->state = THREAD_ENDED;
    memset(&t->next, 0, sizeof(t->next));
    memset(t->registers, 0, sizeof(t->registers));
    t->low = stacks[current] + STACK_BYTES;
    _longjmp(search_registers, 1);
}

/* On until it is about to do its next operation. */
static void resume(int32_t number) {
    static ucontext_t start;
    thread *t = &world.threads[number];
    bool first = !t->low;
    if (!first) { /* what earlier calls left below must not tell states apart */
        size_t room = (size_t)(t->low - stacks[number]);
        memset(t->low - (room < 1024 ? room : 1024), 0, room < 1024 ? room : 1024);
    }
    int32_t outer = current;
    current = number;
    t->state = THREAD_READY;
    t->digest = 0;
    if (_setjmp(search_registers) == 0) {
        if (!first) _longjmp(t->registers, 1);
        getcontext(&start);
        start.uc_stack.ss_sp = stacks[number];
        start.uc_stack.ss_size = STACK_BYTES;
        makecontext(&start, thread_main, 0);
        setcontext(&start);
    }
    current = outer;
}

int32_t explore_thread(const char *name, void *(*entry)(void *), void *argument) {
    if (world.thread_count == EXPLORE_THREADS) broken("too many threads");
    if (current >= 0) broken("threads are made in prepare");
    int32_t number = world.thread_count++;
    entries[number].entry = (const void *)entry;
    entries[number].argument = argument;
    entries[number].name = name;
    resume(number);
    return number;
}

static uint64_t at_once(const operation *o) { /* in prepare and finish */
    thread nobody = {.state = THREAD_READY};
    uint64_t before = perform(&nobody, o);
    flush_all(&nobody);
    return before;
}

static bool others_run(void) {
    for (int32_t i = 0; i < world.thread_count; i++) {
        if (i != current && world.threads[i].state == THREAD_READY) return true;
    }
    return false;
}

/* Not a point where others may run, because nothing that they do can make a difference to it; the
 * promise is checked. */
static bool is_quiet(const operation *o) {
    for (int32_t i = 0; i < quiet_count; i++) {
        if (o->address < quiet[i].from || o->address >= quiet[i].to) continue;
        bool commutes = o->kind == EXPLORE_LOAD || o->kind == EXPLORE_FUTEX_WAIT || (o->kind == EXPLORE_ADD && !quiet[i].constant);
        if (!commutes && (quiet[i].constant || others_run())) explore_fault("changes %s, which nobody may change now", name_of(o->address));
        return true;
    }
    return false;
}

uint64_t explore_operation(explore_kind kind, int order, void *address, size_t size, uint64_t value, uint64_t expected) {
    operation o = {kind, order, address, size, value, expected};
    if (current < 0) return at_once(&o);
    thread *t = &world.threads[current];
    t->next = o;
    t->result = 0;
    bool paused = !is_quiet(&o);
    if (!paused) t->result = perform(t, &o);
    if (paused || t->state == THREAD_ASLEEP) pause_thread(t);
    return world.threads[current].result;
}

bool explore_compare_exchange(int order, void *address, size_t size, void *expected, uint64_t value) {
    uint64_t wanted = 0, before;
    memcpy(&wanted, expected, size);
    before = explore_operation(EXPLORE_COMPARE_EXCHANGE, order, address, size, value, wanted);
    memcpy(expected, &before, size);
    return before == wanted;
}

long explore_syscall(long number, ...);
long explore_syscall(long number, ...) {
    va_list arguments;
    va_start(arguments, number);
    uint32_t *word = va_arg(arguments, uint32_t *);
    int what = va_arg(arguments, int);
    uint32_t value = va_arg(arguments, uint32_t);
    const struct timespec *time = va_arg(arguments, const struct timespec *);
    va_end(arguments);
    if (number != SYS_futex) broken("a system call other than futex");
    if ((what & FUTEX_CMD_MASK) == FUTEX_WAKE)
        return (long)explore_operation(EXPLORE_FUTEX_WAKE, __ATOMIC_SEQ_CST, word, sizeof(*word), value, 0);
    int64_t timeout = time ? (int64_t)time->tv_sec * 1000000000 + time->tv_nsec : -1;
    return (long)explore_operation(EXPLORE_FUTEX_WAIT, __ATOMIC_SEQ_CST, word, sizeof(*word), (uint64_t)timeout, value);
}

int explore_mutex(pthread_mutex_t *mutex, bool lock);
int explore_mutex(pthread_mutex_t *mutex, bool lock) {
    explore_operation(lock ? EXPLORE_LOCK : EXPLORE_UNLOCK, __ATOMIC_SEQ_CST, mutex, sizeof(uint64_t), 0, 0);
    return 0;
}

int64_t mst_now_ns(void);
int64_t mst_now_ns(void) { return world.now; }

/* ---- steps ---- */

static bool can_run(const thread *t) {
    if (t->state != THREAD_READY) return false;
    if (t->next.kind == EXPLORE_LOCK) return load_memory(&t->next) == 0;
    if (t->next.kind != EXPLORE_JOIN) return true;
    const thread *other = &world.threads[t->next.value];
    return other->state == THREAD_ENDED && other->pending_count == 0;
}

static bool preempts(int32_t number) { return number != world.last && can_run(&world.threads[world.last]); }

/* One step, or one for each choice of the sleepers that a wake of fewer than all may wake. */
static int32_t run_steps(int32_t number, step *steps) {
    const operation *o = &world.threads[number].next;
    const int32_t asleep = o->kind == EXPLORE_FUTEX_WAKE ? sleepers_on(o->address) : 0;
    int32_t count = 0;
    steps[count] = (step){STEP_RUN, number, asleep};
    if ((uint64_t)count_of(asleep) <= o->value) return 1;
    for (int32_t set = 1; set <= asleep; set++) {
        if ((set & ~asleep) == 0 && (uint64_t)count_of(set) == o->value) steps[count++] = (step){STEP_RUN, number, set};
    }
    return count;
}

int32_t machine_steps(step steps[MAX_STEPS], int32_t *useful) {
    int32_t count = 0;
    for (int32_t i = 0; i < world.thread_count; i++) {
        const thread *t = &world.threads[i];
        if (can_run(t) && (world.preemptions != 0 || !preempts(i))) count += run_steps(i, &steps[count]);
        if (t->state == THREAD_ASLEEP && (int64_t)t->next.value >= 0) steps[count++] = (step){STEP_TIMEOUT, i, 0};
        for (int32_t entry = 0; entry < t->pending_count; entry++) {
            if (may_flush(t, entry)) steps[count++] = (step){STEP_FLUSH, i, entry};
        }
    }
    *useful = count;
    for (int32_t i = 0; i < world.thread_count && world.spurious > 0; i++) {
        if (world.threads[i].state == THREAD_ASLEEP) steps[count++] = (step){STEP_SPURIOUS, i, 0};
    }
    return count;
}

/* A seq_cst store whose thread goes on with a seq_cst operation need not wait in the buffer: that
 * others run in between is the same as that this thread stores later. */
static bool comes_out_at_once(const thread *t, explore_kind done) {
    if (done != EXPLORE_STORE || t->pending_count != 1 || t->pending[0].store.order != __ATOMIC_SEQ_CST) return false;
    return t->state == THREAD_ENDED || t->next.order == __ATOMIC_SEQ_CST;
}

static void run(int32_t number) {
    thread *t = &world.threads[number];
    if (world.preemptions >= 0) {
        world.preemptions -= preempts(number);
        world.last = number;
    }
    operation o = t->next;
    t->digest = 0;
    t->result = perform(t, &o);
    if (t->state == THREAD_READY) resume(number);
    if (comes_out_at_once(t, o.kind)) flush(t, 0);
}

static void forget_counters(void) {
    for (int32_t i = 0; i < counter_count; i++) {
        if (*counters[i].users == 0) *counters[i].word = 0;
    }
}

void machine_step(const step *chosen) {
    thread *t = &world.threads[chosen->thread];
    switch (chosen->kind) {
    case STEP_RUN:
        wake_choice = chosen->entry;
        run(chosen->thread);
        wake_choice = 0;
        break;
    case STEP_FLUSH:
        t->digest = 0;
        flush(t, chosen->entry);
        break;
    case STEP_TIMEOUT:
        world.now += (int64_t)t->next.value;
        t->result = (uint64_t)-1;
        resume(chosen->thread);
        break;
    case STEP_SPURIOUS:
        world.spurious--;
        resume(chosen->thread);
        break;
    }
    /* Those that were woken go on to their next operation, which nobody can notice. */
    for (int32_t i = 0; i < world.thread_count && !fault_text[0]; i++) {
        if (world.threads[i].state == THREAD_WOKEN) resume(i);
    }
    forget_counters();
}

void explore_drain(void) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t i = 0; i < world.thread_count; i++) {
            while (can_run(&world.threads[i])) {
                machine_step(&(step){STEP_RUN, i, 0});
                moved = true;
            }
        }
    }
}

static bool may_sleep_there(const thread *t) {
    for (int32_t i = 0; i < may_sleep_count; i++) {
        if (t->state == THREAD_ASLEEP && may_sleep[i] == t->next.address) return true;
    }
    return t->state == THREAD_ENDED;
}

void machine_look_at_end(void) {
    char text[400] = "";
    for (int32_t i = 0; i < world.thread_count; i++) {
        const thread *t = &world.threads[i];
        size_t used = strlen(text);
        if (!may_sleep_there(t))
            snprintf(text + used, sizeof(text) - used, " %s %s %s,", entries[i].name, t->state == THREAD_ASLEEP ? "sleeps on" : "waits for",
                     name_of(t->next.address));
    }
    if (text[0]) explore_fault("nobody can go on:%s and no wake-up is coming", text);
}

/* ---- states ---- */

typedef struct piece {
    char *from;
    size_t bytes;
} piece;

/* All pieces of the state of `count` threads whose stacks are live from low[i] on. */
static int32_t pieces_of(const struct world *w, piece *pieces) {
    int32_t count = 0;
    for (int32_t i = 0; i < kept_count; i++) pieces[count++] = (piece){kept[i].from, kept[i].bytes};
    pieces[count++] = (piece){arena + kept_end, w->arena_used - kept_end};
    for (int32_t i = 0; i < w->thread_count; i++)
        pieces[count++] = (piece){w->threads[i].low, (size_t)(stacks[i] + STACK_BYTES - w->threads[i].low)};
    return count;
}

size_t machine_save(void *to) {
    piece pieces[MOST_RANGES + 1 + EXPLORE_THREADS];
    int32_t count = pieces_of(&world, pieces);
    char *at = to;
    memcpy(at, &world, sizeof(world));
    at += sizeof(world);
    for (int32_t i = 0; i < count; i++) {
        if (at + pieces[i].bytes > (char *)to + MACHINE_MOST) broken("a state is too large");
        memcpy(at, pieces[i].from, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    return (size_t)(at - (char *)to);
}

void machine_restore(const void *from) {
    piece pieces[MOST_RANGES + 1 + EXPLORE_THREADS];
    const char *at = from;
    memcpy(&world, at, sizeof(world));
    at += sizeof(world);
    int32_t count = pieces_of(&world, pieces);
    for (int32_t i = 0; i < count; i++) {
        memcpy(pieces[i].from, at, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    fault_text[0] = 0;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* All pieces are made of whole words of 8 bytes. */
static uint64_t hash_bytes(uint64_t seed, const char *from, size_t bytes) {
    uint64_t a = seed ^ 0x9e3779b97f4a7c15u, b = ~seed;
    for (; bytes >= 32; from += 32, bytes -= 32) {
        uint64_t w[4];
        memcpy(w, from, 32);
        a = mix(a ^ w[0], w[1] ^ 0xa0761d6478bd642fu);
        b = mix(b ^ w[2], w[3] ^ 0xe7037ed1a0b428dbu);
    }
    for (; bytes >= 8; from += 8, bytes -= 8) {
        uint64_t w;
        memcpy(&w, from, 8);
        a = mix(a ^ w, 0x8ebc6af09c88c6e3u);
    }
    return mix(a ^ 0x589965cc75374cc3u, b ^ 0x1d8e4e27c47d124fu) ^ a;
}

/* Everything of a thread but what it knows; done again only after its own steps. */
static uint64_t digest_of(int32_t number) {
    const thread *t = &world.threads[number];
    uint64_t head[] = {
        (uint64_t)t->state, (uint64_t)t->pending_count, t->next.kind, (uint64_t)t->next.order, (uintptr_t)t->next.address, t->next.size,
        t->next.value,      t->next.expected,           t->result,    (uintptr_t)t->low};
    uint64_t hash = hash_bytes((uint64_t)number + 1, (const char *)head, sizeof(head));
    hash = hash_bytes(hash, (const char *)&t->registers, sizeof(t->registers));
    return hash_bytes(hash, t->low, (size_t)(stacks[number] + STACK_BYTES - t->low));
}

uint64_t machine_hash(void) {
    uint64_t head[] = {(uint64_t)world.now, (uint64_t)world.spurious, (uint64_t)world.preemptions, (uint64_t)world.last, world.arena_used};
    uint64_t hash = hash_bytes(1, (const char *)head, sizeof(head));
    for (int32_t i = 0; i < world.thread_count; i++) {
        thread *t = &world.threads[i];
        if (t->digest == 0) t->digest = digest_of(i);
        hash = mix(hash ^ t->digest, 0x2d358dccaa6c78a5u);
        hash = hash_bytes(hash, (const char *)t->pending, (size_t)t->pending_count * sizeof(t->pending[0]));
        hash = hash_bytes(hash, (const char *)&t->unknown, sizeof(t->unknown));
    }
    /* Rounded, so that a location which is met later seldom changes the hash of what was seen
     * before: such a state is seen twice, and no harm is done. */
    hash = hash_bytes(hash, (const char *)world.released, (size_t)((location_count + 15) / 16 * 16) * sizeof(world.released[0]));
    for (int32_t i = 0; i < kept_count; i++) hash = hash_bytes(hash, kept[i].from, kept[i].bytes);
    return hash_bytes(hash, arena + kept_end, world.arena_used - kept_end);
}

/* ---- traces ---- */

static const char *kind_name(explore_kind kind) {
    static const char *const text[] = {"begins",
                                       "loads",
                                       "stores",
                                       "adds to",
                                       "ors",
                                       "ands",
                                       "exchanges",
                                       "compares and exchanges",
                                       "goes to sleep on",
                                       "wakes sleepers on",
                                       "locks",
                                       "unlocks",
                                       "joins"};
    return text[kind];
}

static const char *order_name(int32_t order) {
    static const char *const text[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
    return text[order];
}

void machine_describe(const step *chosen, char *text, size_t size) {
    const thread *t = &world.threads[chosen->thread];
    const char *who = entries[chosen->thread].name;
    const operation *o = chosen->kind == STEP_FLUSH ? &t->pending[chosen->entry].store : &t->next;
    if (chosen->kind == STEP_FLUSH) {
        snprintf(text, size, "%s: its store of %llx to %s reaches memory", who, (unsigned long long)o->value, name_of(o->address));
    } else if (chosen->kind == STEP_TIMEOUT || chosen->kind == STEP_SPURIOUS) {
        snprintf(text, size, "%s: wakes up by %s", who, chosen->kind == STEP_TIMEOUT ? "its timeout" : "itself");
    } else {
        snprintf(text, size, "%s: %s %s (%s), value %llx, memory %llx", who, kind_name(o->kind), name_of(o->address), order_name(o->order),
                 (unsigned long long)o->value, (unsigned long long)(o->address ? load_memory(o) : 0));
    }
}

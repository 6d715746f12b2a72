/* The memory of the modelled machine: what an atomic operation does behind its store buffer, the
 * futex, and what each thread may know of plain memory. */
#include "machine_private.h"

static const void *locations[MOST_LOCATIONS], *cells[MOST_CELLS];
static const char *lock_word;
static int32_t cell_count;
int32_t machine_location_count;

void machine_reset_memory(void) {
    memset(machine_arena, 0, sizeof(machine_arena));
    for (int32_t i = 0; i < MOST_LOCATIONS; i++) machine_world.released[i] = ALL_EVENTS;
    lock_word = NULL;
    machine_location_count = cell_count = 0;
}

void *explore_alloc(size_t bytes) {
    size_t rounded = (bytes + 63) & ~(size_t)63;
    if (rounded == 0) rounded = 64;
    if (machine_world.arena_used + rounded > ARENA_BYTES) machine_broken("the arena is too small");
    char *block = machine_arena + machine_world.arena_used;
    machine_world.arena_used += rounded;
    memset(block, 0, rounded);
    return block;
}

void explore_lock_word(const void *word) { lock_word = word; }

/* ---- plain memory ---- */

static int32_t numbered(const void **list, int32_t *count, int32_t most, const void *address) {
    for (int32_t i = 0; i < *count; i++) {
        if (list[i] == address) return i;
    }
    if (*count == most) machine_broken("too many locations or cells");
    list[*count] = address;
    return (*count)++;
}

static events write_event(int32_t cell) { return (events)1 << cell * EVENTS_PER_CELL; }
static events read_event(int32_t cell, int32_t reader) { return (events)2 << (cell * EVENTS_PER_CELL + reader); }

/* From now on nobody but `who` knows of `fresh`; `gone` has been replaced by something newer. */
static void new_event(int32_t who, events fresh, events gone) {
    for (int32_t i = 0; i < machine_world.thread_count; i++) {
        thread *t = &machine_world.threads[i];
        t->unknown = (t->unknown & ~gone) | fresh;
        for (int32_t entry = 0; entry < t->pending_count; entry++) t->pending[entry].unknown = (t->pending[entry].unknown & ~gone) | fresh;
    }
    for (int32_t i = 0; i < MOST_LOCATIONS; i++) machine_world.released[i] = (machine_world.released[i] & ~gone) | fresh;
    machine_world.threads[who].unknown &= ~fresh;
}

void explore_wrote(const void *address) {
    if (machine_current < 0) return;
    int32_t cell = numbered(cells, &cell_count, MOST_CELLS, address);
    events all = (((events)1 << EVENTS_PER_CELL) - 1) << cell * EVENTS_PER_CELL;
    events unknown = machine_world.threads[machine_current].unknown & all;
    if (unknown & write_event(cell))
        explore_fault("writes %s, which another thread has written with nothing in between", machine_name_of(address));
    if (unknown) explore_fault("writes %s while another thread may be reading it", machine_name_of(address));
    new_event(machine_current, write_event(cell), all & ~write_event(cell));
}

void explore_has_read(const void *address) {
    if (machine_current < 0) return;
    int32_t cell = numbered(cells, &cell_count, MOST_CELLS, address);
    if (machine_world.threads[machine_current].unknown & write_event(cell))
        explore_fault("reads %s while another thread may be writing it", machine_name_of(address));
    new_event(machine_current, read_event(cell, machine_current), 0);
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

static bool in_arena(const void *address) {
    return (const char *)address >= machine_arena && (const char *)address < machine_arena + ARENA_BYTES;
}

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

uint64_t machine_load(const operation *o) {
    uint64_t value = 0;
    memcpy(&value, o->address, o->size);
    return value;
}

static void store_memory(const operation *o, uint64_t value) { memcpy(o->address, &value, o->size); }

static events *released(const void *address) {
    return &machine_world.released[numbered(locations, &machine_location_count, MOST_LOCATIONS, address)];
}

/* The words of an eventcount (32 bits) order nothing here, though their operations are seq_cst:
 * what a waiter may know it learns from the word it waits for. Of words of 32 bits only that of a
 * lock does. That asks more of the protocol, and
 * leaves fewer states. */
static bool teaches(const operation *o) { return o->size == sizeof(uint64_t) || (lock_word && o->address == lock_word); }

/* A release leaves after everything before it; a relaxed store only after what it would
 * overwrite. */
bool machine_may_flush(const thread *t, int32_t entry) {
    if (releases(t->pending[entry].store.order)) return entry == 0;
    for (int32_t before = 0; before < entry; before++) {
        if (t->pending[before].store.address == t->pending[entry].store.address) return false;
    }
    return true;
}

void machine_flush(thread *t, int32_t entry) {
    pending_store p = t->pending[entry];
    store_memory(&p.store, p.store.value);
    if (teaches(&p.store)) *released(p.store.address) = releases(p.store.order) ? p.unknown : ALL_EVENTS;
    t->pending_count--;
    memmove(&t->pending[entry], &t->pending[entry + 1], (size_t)(t->pending_count - entry) * sizeof(p));
    memset(&t->pending[t->pending_count], 0, sizeof(p));
}

void machine_flush_all(thread *t) {
    while (t->pending_count > 0) machine_flush(t, 0);
}

static uint64_t perform_load(thread *t, const operation *o) {
    int32_t last = t->pending_count - 1;
    /* A seq_cst load comes after every seq_cst store, but not after weaker ones. */
    if (o->order == __ATOMIC_SEQ_CST) {
        while (last >= 0 && t->pending[last].store.order != __ATOMIC_SEQ_CST) last--;
        for (; last >= 0; last--) machine_flush(t, 0);
    }
    for (int32_t entry = t->pending_count - 1; entry >= 0; entry--) {
        if (t->pending[entry].store.address == o->address) return t->pending[entry].store.value;
    }
    if (teaches(o) && acquires(o->order)) t->unknown &= *released(o->address);
    return machine_load(o);
}

static uint64_t perform_store(thread *t, const operation *o) {
    if (t->pending_count == MOST_BUFFERED) machine_flush(t, 0);
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
    machine_flush_all(t);
    uint64_t before = machine_load(o);
    if (teaches(o) && acquires(o->order)) t->unknown &= *released(o->address);
    if (o->kind == EXPLORE_COMPARE_EXCHANGE && before != o->expected) return before;
    store_memory(o, changed(o, before));
    /* A thread that acquires it acquires the releases before it, too. */
    if (teaches(o) && releases(o->order)) *released(o->address) &= t->unknown;
    return before;
}

static uint64_t perform_futex_wait(thread *t, const operation *o) {
    machine_flush_all(t);
    if (machine_load(o) != o->expected) return (uint64_t)-1;
    t->state = THREAD_ASLEEP;
    return 0;
}

/* The threads that sleep on the address, one bit for each. */
int32_t machine_sleepers_on(const void *address) {
    int32_t set = 0;
    for (int32_t i = 0; i < machine_world.thread_count; i++) {
        if (machine_world.threads[i].state == THREAD_ASLEEP && machine_world.threads[i].next.address == address) set |= 1 << i;
    }
    return set;
}

/* As many as were asked for: those that the search has chosen, or else the first ones. */
static uint64_t perform_futex_wake(thread *t, const operation *o) {
    machine_flush_all(t);
    const int32_t asleep = machine_sleepers_on(o->address);
    uint64_t woken = 0;
    for (int32_t i = 0; i < machine_world.thread_count && woken < o->value; i++) {
        if (!(asleep & (machine_wake_choice ? machine_wake_choice : asleep) & 1 << i)) continue;
        machine_world.threads[i].state = THREAD_WOKEN;
        woken++;
    }
    return woken;
}

/* A lock acquires what the unlocks before it have released. */
static uint64_t perform_mutex(thread *t, const operation *o) {
    machine_flush_all(t);
    const bool lock = o->kind == EXPLORE_LOCK;
    if (machine_load(o) == lock) explore_fault("%s a mutex that is %s already", lock ? "locks" : "unlocks", lock ? "held" : "free");
    store_memory(o, lock);
    if (lock)
        t->unknown &= *released(o->address);
    else
        *released(o->address) = t->unknown;
    return 0;
}

uint64_t machine_perform(thread *t, const operation *o) {
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
        t->unknown &= machine_world.threads[o->value].unknown;
        return 0;
    default:
        return perform_change(t, o);
    }
}

/* All orders of steps: depth first, every state once. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_DEPTH = 1 << 14 };
static const size_t SAVED_BYTES = (size_t)1 << 30; /* reserved, used as far as needed */
static const int64_t MOST_STATES = (int64_t)1 << 25;

/* ---- states that were seen: a key of 64 bits, and the number of ways from there to an end;
 * negative: on the way now ---- */

typedef struct seen {
    uint64_t key; /* 0: free */
    double ways;
} seen;
static seen *table;
static uint64_t table_size;
static int64_t table_count;

static seen *slot_of(uint64_t key) {
    uint64_t at = key & (table_size - 1);
    while (table[at].key != 0 && table[at].key != key) at = (at + 1) & (table_size - 1);
    return &table[at];
}

static void *allocate(size_t bytes) {
    void *block = calloc(1, bytes);
    if (!block) {
        fprintf(stderr, "explore: out of memory\n");
        exit(3);
    }
    return block;
}

static void grow_table(void) {
    seen *old = table;
    uint64_t old_size = table_size;
    table_size = old_size ? old_size * 2 : 1 << 16;
    table = allocate(table_size * sizeof(seen));
    for (uint64_t i = 0; i < old_size; i++) {
        if (old[i].key != 0) *slot_of(old[i].key) = old[i];
    }
    free(old);
}

/* ---- the path ---- */

typedef struct frame {
    size_t saved; /* offset of the state */
    uint64_t key;
    double ways;
    int32_t count, next;
    step steps[MAX_STEPS];
} frame;
static frame *path;
static int32_t depth;
static char *saved;
static size_t saved_used;

static void print_fault(const char *scenario) {
    char fault[600], line[300];
    snprintf(fault, sizeof(fault), "%s", machine_fault());
    printf("FAULT in %s: %s\n", scenario, fault);
    for (int32_t i = 0; i < depth && path[i].next > 0; i++) {
        machine_restore(saved + path[i].saved);
        machine_describe(&path[i].steps[path[i].next - 1], line, sizeof(line));
        printf("  %3d %s\n", i + 1, line);
    }
    printf("      then: %s\n", fault);
}

/* The present state is new. false: it is final. */
static bool enter(uint64_t key, explore_result *result) {
    if (table_count * 2 >= (int64_t)table_size) grow_table();
    if (++table_count > MOST_STATES || depth == MOST_DEPTH) {
        fprintf(stderr, "explore: the scenario is too large\n");
        exit(3);
    }
    frame *f = &path[depth];
    int32_t useful;
    f->count = machine_steps(f->steps, &useful);
    if (useful == 0) machine_look_at_end();
    *slot_of(key) = (seen){key, f->count == 0 ? 1 : -1};
    if (f->count == 0) return false;
    f->saved = saved_used;
    saved_used += (machine_save(saved + saved_used) + 63) & ~(size_t)63;
    f->key = key;
    f->ways = useful == 0; /* wake-ups without a reason may never come */
    f->next = 0;
    depth++;
    if (depth > result->deepest) result->deepest = depth;
    return true;
}

static void leave(explore_result *result) {
    frame *f = &path[--depth];
    saved_used = f->saved;
    slot_of(f->key)->ways = f->ways;
    if (depth > 0)
        path[depth - 1].ways += f->ways;
    else
        result->interleavings = f->ways;
}

/* One step further. */
static void advance(const explore_scenario *scenario, explore_result *result) {
    frame *f = &path[depth - 1];
    machine_restore(saved + f->saved);
    machine_step(&f->steps[f->next++]);
    result->steps++;
    if (machine_fault()[0]) return;
    uint64_t key = machine_hash() | 1;
    seen *known = slot_of(key);
    if (known->key == 0) {
        bool final = !enter(key, result);
        if (final && !machine_fault()[0] && scenario->finish) scenario->finish(scenario->context);
        if (final) f->ways++;
    } else if (known->ways < 0) {
        result->circles++;
        if (!scenario->may_circle) explore_fault("a circle: the threads can go on like this for ever");
    } else {
        f->ways += known->ways;
    }
}

static void begin(const explore_scenario *scenario, explore_result *result) {
    if (!path) path = allocate(MOST_DEPTH * sizeof(frame));
    if (!saved) saved = mmap(NULL, SAVED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (saved == MAP_FAILED) {
        fprintf(stderr, "explore: out of memory\n");
        exit(3);
    }
    free(table);
    table = NULL;
    table_size = 0;
    table_count = 0;
    depth = 0;
    saved_used = 0;
    grow_table();
    machine_reset(scenario);
    scenario->prepare(scenario->context);
    machine_begin();
    if (!machine_fault()[0]) enter(machine_hash() | 1, result);
}

explore_result explore_run(const explore_scenario *scenario) {
    explore_result result = {0};
    begin(scenario, &result);
    while (depth > 0 && !machine_fault()[0]) {
        if (path[depth - 1].next == path[depth - 1].count)
            leave(&result);
        else
            advance(scenario, &result);
    }
    result.states = table_count;
    result.faulty = machine_fault()[0] != 0;
    if (result.faulty) print_fault(scenario->name);
    return result;
}

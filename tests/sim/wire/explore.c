/* Depth first through all choices, from the begin each time. */
#include "wire_clock_private.h"
#include "wire_explore.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct explore_node {
    int32_t choice, choices;
} explore_node;

typedef struct explore_run {
    wire_explore *explore;
    wire_launch *launch;
    mst_wire *wires[WIRE_EXPLORE_PROCESSES];
    bool waits[WIRE_EXPLORE_PROCESSES];       /* it does not look before something else has happened to it */
    uint64_t seen_by[WIRE_EXPLORE_PROCESSES]; /* the hash of what a process has seen */
    explore_node path[WIRE_EXPLORE_DEPTH];
    int32_t depth;
    uint64_t *seen; /* states: a hash table; 0: free */
    int64_t seen_limit;
    size_t trace;
} explore_run;

static uint64_t explore_mix(uint64_t hash, uint64_t value) {
    uint64_t z = hash * 0x9e3779b97f4a7c15u + value + 0x165667b19e3779f9u;
    z = (z ^ z >> 32) * 0xd6e8feb86659fd93u;
    return z ^ z >> 29;
}

uint64_t wire_explore_mix(uint64_t hash, const void *bytes, int64_t count) {
    const unsigned char *byte = bytes;
    for (int64_t i = 0; i < count; i++) hash = (hash ^ byte[i]) * 1099511628211u;
    return explore_mix(hash, (uint64_t)count);
}

static uint64_t explore_hash_message(uint64_t hash, const wire_message *m) {
    const int32_t words[] = {m->from, m->to, m->tag, m->send != NULL};
    return wire_explore_mix(wire_explore_mix(hash, words, sizeof words), m->copy ? m->copy : m->source, m->bytes);
}

/* What the wire holds. Messages of different senders, receivers or tags have no order, nor have
 * requests. */
static uint64_t explore_hash_wire(const explore_run *run) {
    const wire_launch *launch = run->launch;
    uint64_t sum = 0;
    for (const wire_message *m = launch->clock->flying; m; m = m->flying) {
        uint64_t before = 7;
        for (const wire_message *e = launch->clock->flying; e != m; e = e->flying)
            before += e->comm == m->comm && e->from == m->from && e->to == m->to && e->tag == m->tag;
        sum += explore_hash_message(before, m);
    }
    for (int32_t i = 0; i < launch->chunk_count * WIRE_REQUEST_CHUNK; i++) {
        const wire_request *r = &launch->chunks[i / WIRE_REQUEST_CHUNK][i % WIRE_REQUEST_CHUNK];
        if (r->kind == WIRE_FREE) continue;
        const int32_t words[] = {(int32_t)r->kind, r->done, r->from, r->tag, r->wire->rank, r->result};
        const bool received = r->kind == WIRE_RECEIVE && r->done;
        const int64_t bytes = received ? r->status.bytes < r->room ? r->status.bytes : r->room : 0;
        sum += wire_explore_mix(wire_explore_mix(11, words, sizeof words), r->to, bytes);
    }
    for (int32_t p = 0; p < run->explore->options.processes; p++) {
        const muster_wire *wire = run->wires[p]->state;
        uint64_t hash = (uint64_t)p + 13;
        for (const wire_request *r = wire->posted; r; r = r->next)
            hash = explore_mix(explore_mix(hash, (uint64_t)r->from), (uint64_t)r->tag);
        for (const wire_message *m = wire->unexpected; m; m = m->next) hash = explore_hash_message(hash, m);
        sum += hash;
    }
    return sum;
}

/* Whether the state is new, which is noted. */
static bool explore_note(explore_run *run) {
    const wire_explore *explore = run->explore;
    uint64_t hash = explore->hash ? explore_hash_wire(run) : 1;
    for (int32_t p = 0; p < run->explore->options.processes; p++)
        hash = explore_mix(explore_mix(hash, explore->hash ? explore->hash(explore->user, p) : run->seen_by[p]),
                           (uint64_t)run->launch->clock->times[p].woken * 4u + run->launch->clock->times[p].over * 2u + run->waits[p]);
    hash += !hash;
    uint64_t slot = hash % (uint64_t)run->seen_limit;
    for (; run->seen[slot]; slot = (slot + 1) % (uint64_t)run->seen_limit)
        if (run->seen[slot] == hash) return false;
    run->seen[slot] = hash;
    run->explore->states++;
    return true;
}

/* The lowest process to which something has happened since it has looked; -1: none. */
static int32_t explore_looks(explore_run *run, bool waiting) {
    for (int32_t p = 0; p < run->explore->options.processes; p++) {
        const wire_times *times = &run->launch->clock->times[p];
        const bool may = times->woken && !times->over && !times->stopped && !run->launch->dead[p];
        if (may && (waiting || !run->waits[p])) return p;
    }
    return -1;
}

/* A process that may look does so, or not before something else has happened to it: when the others
 * look does not matter to it. Where nobody does, messages arrive. */
static int32_t explore_choices(explore_run *run) {
    if (explore_looks(run, false) >= 0) return 2;
    const int32_t messages = wire_clock_choices(run->launch);
    return messages ? messages : explore_looks(run, true) >= 0;
}

__attribute__((format(printf, 2, 3))) static void explore_trace(explore_run *run, const char *format, ...) {
    char *trace = run->explore->trace;
    const size_t size = sizeof run->explore->trace;
    va_list arguments;
    va_start(arguments, format);
    if (run->trace < size) run->trace += (size_t)vsnprintf(trace + run->trace, size - run->trace, format, arguments);
    va_end(arguments);
}

/* The process looks, until it has nothing to do. */
static void explore_look(explore_run *run, int32_t p) {
    wire_times *times = &run->launch->clock->times[p];
    const int64_t before = times->acts;
    explore_trace(run, " %d", p);
    wire_launch_join(run->launch, p);
    for (int64_t acts = -1; !times->over && acts != times->acts;) {
        acts = times->acts;
        times->woken = false;
        times->over = run->explore->step(run->explore->user, p);
    }
    wire_launch_join(NULL, 0);
    if (times->acts != before || times->over) /* else it is as it was */
        run->seen_by[p] = explore_mix(run->seen_by[p], (uint64_t)(times->acts - before) * 2 + times->over);
}

static void explore_do(explore_run *run, int32_t choice) {
    const int32_t looks = explore_looks(run, false);
    if (looks >= 0) {
        if (choice)
            run->waits[looks] = true;
        else
            explore_look(run, looks);
        return;
    }
    if (!wire_clock_choices(run->launch)) {
        explore_look(run, explore_looks(run, true));
        return;
    }
    bool woken[WIRE_EXPLORE_PROCESSES];
    for (int32_t p = 0; p < run->explore->options.processes; p++) {
        woken[p] = run->launch->clock->times[p].woken;
        run->launch->clock->times[p].woken = false;
    }
    const wire_choice chosen = wire_clock_choose(run->launch, choice);
    explore_trace(run, " %d>%d:%d", chosen.from, chosen.to, chosen.tag);
    for (int32_t p = 0; p < run->explore->options.processes; p++) {
        bool *now = &run->launch->clock->times[p].woken;
        run->waits[p] &= !*now;
        *now |= woken[p];
    }
    uint64_t *hash = &run->seen_by[chosen.to];
    *hash = explore_mix(explore_mix(*hash, (uint64_t)chosen.from << 32 | (uint64_t)chosen.tag << 1 | 1), chosen.bytes_hash);
}

static bool explore_all_over(const explore_run *run) {
    for (int32_t p = 0; p < run->explore->options.processes; p++) {
        const wire_times *times = &run->launch->clock->times[p];
        if (!times->over && !times->stopped && !run->launch->dead[p]) return false;
    }
    return true;
}

/* One path: the choices that were made before, then the first ones. */
static bool explore_path(explore_run *run) {
    wire_explore *explore = run->explore;
    run->launch = wire_launch_create(&explore->options);
    if (!run->launch || !wire_clock_start(run->launch, &(wire_clock_options){.chosen = true}) || !wire_clock_open(run->launch, run->wires))
        return false;
    run->trace = 0;
    for (int32_t p = 0; p < explore->options.processes; p++) {
        run->seen_by[p] = (uint64_t)p + 1;
        run->waits[p] = false;
        run->launch->clock->times[p].woken = true;
    }
    explore->begin(explore->user, run->launch, run->wires);
    bool fresh = true;
    for (int32_t depth = 0; fresh && depth < WIRE_EXPLORE_DEPTH; depth++) {
        const int32_t choices = explore_choices(run);
        if (!choices) break;
        if (depth == run->depth) {
            fresh = explore_note(run);
            if (!fresh) break;
            run->path[run->depth++] = (explore_node){.choices = choices};
        }
        if (run->path[depth].choices != choices) abort(); /* the scenario has taken a chance */
        explore_do(run, run->path[depth].choice);
    }
    const bool over = fresh && explore_all_over(run);
    explore->stuck |= fresh && !over;
    explore->paths += fresh;
    explore->end(explore->user, over);
    for (int32_t p = 0; p < explore->options.processes; p++) run->wires[p]->close(run->wires[p], MST_WIRE_LOST);
    wire_launch_destroy(run->launch);
    return true;
}

bool wire_explore_run(wire_explore *explore) {
    const int64_t most = explore->most_states ? explore->most_states : 1000000;
    explore->states = explore->paths = 0;
    explore->stuck = explore->complete = false;
    explore_run *run = calloc(1, sizeof *run);
    if (!run) return false;
    run->explore = explore;
    run->seen_limit = 2 * most + WIRE_EXPLORE_DEPTH;
    run->seen = calloc((size_t)run->seen_limit, sizeof *run->seen);
    bool right = run->seen != NULL;
    while (right && !explore->stuck && !explore->complete && explore->states < most) {
        right = explore_path(run);
        while (run->depth && run->path[run->depth - 1].choice + 1 == run->path[run->depth - 1].choices) run->depth--;
        if (run->depth)
            run->path[run->depth - 1].choice++;
        else
            explore->complete = true;
    }
    free(run->seen);
    free(run);
    return right;
}

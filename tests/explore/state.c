/* The state of the modelled machine: which memory belongs to it, copies of it, and its hash. */
#include "machine_private.h"

enum { MOST_RANGES = 32 };
static struct {
    char *from;
    size_t bytes;
} ignored[MOST_RANGES], kept[MOST_RANGES];
static int32_t ignored_count, kept_count;
static size_t kept_end;

void machine_reset_state(void) { ignored_count = kept_count = 0; }

/* Only whole words are left out. */
void explore_ignore(const void *address, size_t bytes) {
    if (ignored_count == MOST_RANGES) machine_broken("too many ranges to ignore");
    uintptr_t from = ((uintptr_t)address + 7) & ~(uintptr_t)7, to = ((uintptr_t)address + bytes) & ~(uintptr_t)7;
    ignored[ignored_count].from = (char *)from;
    ignored[ignored_count++].bytes = to - from;
}

static void keep(char *from, char *to) {
    if (kept_count == MOST_RANGES) machine_broken("too many ranges to keep");
    if (to > from) {
        kept[kept_count].from = from;
        kept[kept_count++].bytes = (size_t)(to - from);
    }
}

void machine_begin(void) {
    char *at = machine_arena;
    for (;;) { /* the ignored range that comes next */
        int32_t next = -1;
        for (int32_t i = 0; i < ignored_count; i++) {
            if (ignored[i].from >= at && (next < 0 || ignored[i].from < ignored[next].from)) next = i;
        }
        if (next < 0) break;
        keep(at, ignored[next].from);
        at = ignored[next].from + ignored[next].bytes;
    }
    keep(at, machine_arena + machine_world.arena_used);
    kept_end = machine_world.arena_used;
}

/* ---- states ---- */

typedef struct piece {
    char *from;
    size_t bytes;
} piece;

/* All pieces of the state of `count` threads whose machine_stacks are live from low[i] on. */
static int32_t pieces_of(const struct machine_world *w, piece *pieces) {
    int32_t count = 0;
    for (int32_t i = 0; i < kept_count; i++) pieces[count++] = (piece){kept[i].from, kept[i].bytes};
    pieces[count++] = (piece){machine_arena + kept_end, w->arena_used - kept_end};
    for (int32_t i = 0; i < w->thread_count; i++)
        pieces[count++] = (piece){w->threads[i].low, (size_t)(machine_stacks[i] + STACK_BYTES - w->threads[i].low)};
    return count;
}

size_t machine_save(void *to) {
    piece pieces[MOST_RANGES + 1 + EXPLORE_THREADS];
    int32_t count = pieces_of(&machine_world, pieces);
    char *at = to;
    memcpy(at, &machine_world, sizeof(machine_world));
    at += sizeof(machine_world);
    for (int32_t i = 0; i < count; i++) {
        if (at + pieces[i].bytes > (char *)to + MACHINE_MOST) machine_broken("a state is too large");
        memcpy(at, pieces[i].from, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    return (size_t)(at - (char *)to);
}

void machine_restore(const void *from) {
    piece pieces[MOST_RANGES + 1 + EXPLORE_THREADS];
    const char *at = from;
    memcpy(&machine_world, at, sizeof(machine_world));
    at += sizeof(machine_world);
    int32_t count = pieces_of(&machine_world, pieces);
    for (int32_t i = 0; i < count; i++) {
        memcpy(pieces[i].from, at, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    machine_fault_text[0] = 0;
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
    const thread *t = &machine_world.threads[number];
    uint64_t head[] = {
        (uint64_t)t->state, (uint64_t)t->pending_count, t->next.kind, (uint64_t)t->next.order, (uintptr_t)t->next.address, t->next.size,
        t->next.value,      t->next.expected,           t->result,    (uintptr_t)t->low};
    uint64_t hash = hash_bytes((uint64_t)number + 1, (const char *)head, sizeof(head));
    hash = hash_bytes(hash, (const char *)&t->registers, sizeof(t->registers));
    hash = hash_bytes(hash, t->own, sizeof(t->own));
    return hash_bytes(hash, t->low, (size_t)(machine_stacks[number] + STACK_BYTES - t->low));
}

uint64_t machine_hash(void) {
    uint64_t head[] = {(uint64_t)machine_world.now, (uint64_t)machine_world.spurious, (uint64_t)machine_world.preemptions,
                       (uint64_t)machine_world.last, machine_world.arena_used};
    uint64_t hash = hash_bytes(1, (const char *)head, sizeof(head));
    for (int32_t i = 0; i < machine_world.thread_count; i++) {
        thread *t = &machine_world.threads[i];
        if (t->digest == 0) t->digest = digest_of(i);
        hash = mix(hash ^ t->digest, 0x2d358dccaa6c78a5u);
        hash = hash_bytes(hash, (const char *)t->pending, (size_t)t->pending_count * sizeof(t->pending[0]));
        hash = hash_bytes(hash, (const char *)&t->unknown, sizeof(t->unknown));
    }
    /* Rounded, so that a location which is met later seldom changes the hash of what was seen
     * before: such a state is seen twice, and no harm is done. */
    hash = hash_bytes(hash, (const char *)machine_world.released,
                      (size_t)((machine_location_count + 15) / 16 * 16) * sizeof(machine_world.released[0]));
    for (int32_t i = 0; i < kept_count; i++) hash = hash_bytes(hash, kept[i].from, kept[i].bytes);
    return hash_bytes(hash, machine_arena + kept_end, machine_world.arena_used - kept_end);
}

#include "collectives_matrix.h"

#include "collectives_oracle.h"
#include "collectives_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[CELL_KINDS] = {
    "all_reduce",     "all_reduce_shards",     "all_reduce_axpy", "all_reduce_momentum", "reduce",  "broadcast",
    "all_gather",     "uneven all_gather",     "gather",          "uneven gather",       "scatter", "uneven scatter",
    "reduce_scatter", "uneven reduce_scatter", "all_to_all",      "uneven all_to_all",   "barrier"};

const char *cell_algorithm(int index) {
    static const char *const names[CELL_ALGORITHMS] = {"reference", "inline", "direct", NULL}, *const of_gpus[CELL_ALGORITHMS] = {
                                                                                                   "reference", "p2p", "nccl", NULL};
    return (collectives_devices() == COLLECTIVES_HOST_AND_DISCRETE ? names : of_gpus)[index];
}

int64_t cell_count(const cell *c) {
    const int64_t counts[CELL_COUNTS] = {0, 1, c->ranks - 1, c->ranks, c->ranks + 1, 9, 1000, 65537, 1 << 20};
    return counts[c->count];
}

bool cell_reduces(const cell *c) {
    return c->kind <= CELL_REDUCE || c->kind == CELL_REDUCE_SCATTER || c->kind == CELL_REDUCE_SCATTER_UNEVEN;
}

bool cell_rooted(const cell *c) {
    return c->kind == CELL_REDUCE || c->kind == CELL_BROADCAST || (c->kind >= CELL_GATHER && c->kind <= CELL_SCATTER_UNEVEN);
}

bool cell_updates(const cell *c) { return c->kind == CELL_ALL_REDUCE_AXPY || c->kind == CELL_ALL_REDUCE_MOMENTUM; }

static bool has_place(const cell *c) {
    return c->kind != CELL_ALL_REDUCE_SHARDS && !cell_updates(c) && c->kind != CELL_ALL_TO_ALL_UNEVEN && c->kind != CELL_BARRIER;
}

static bool occurs(const cell *c) {
    if (c->in_place && !has_place(c)) return false;
    if (c->devices == CELL_MIXED && c->ranks == 1) return false;
    if (c->kind == CELL_BARRIER) return c->dtype == MUSTER_BOOL && c->op == MUSTER_MAX && c->count == 0;
    if (cell_updates(c)) return c->dtype <= MUSTER_F64 && c->op == MUSTER_SUM;
    if (!cell_reduces(c)) return c->op == MUSTER_MAX;
    return oracle_defines(c->op, c->dtype);
}

/* The largest size on many ranks, above all by the reference algorithm, with which each rank
 * computes every element. */
static bool is_heavy(const cell *c) { return c->count == CELL_COUNTS - 1 && c->ranks > 3; }

/* ---- enumeration ---- */

/* Fields in order, with their first value and the number of values. */
enum { FIELDS = sizeof(cell) };
static const uint8_t first_value[FIELDS] = {0, 1, 1, 1, 0, 0, 0, 0};
static const uint8_t values[FIELDS] = {CELL_DEVICES, CELL_RANKS,      MST_DTYPE_COUNT - 1, MUSTER_AVG,
                                       CELL_KINDS,   CELL_ALGORITHMS, CELL_COUNTS,         2};

static bool advance(cell *c, int32_t devices) {
    uint8_t *field = (uint8_t *)c;
    for (int f = FIELDS - 1; f >= 0; f--) {
        if (++field[f] < first_value[f] + (f == 0 ? devices : values[f])) return true;
        field[f] = first_value[f];
    }
    return false;
}

static cell *enumerate(int32_t devices, bool light, int64_t *count) {
    cell *cells = NULL, c;
    int64_t room = 0;
    /* first only counts */
    for (*count = 0;; room = *count, cells = mst_alloc((size_t)room * sizeof *cells), *count = 0) {
        memcpy(&c, first_value, sizeof c);
        do {
            if (!occurs(&c) || (light && is_heavy(&c))) continue;
            if (cells) cells[*count] = c;
            ++*count;
        } while (advance(&c, devices));
        if (cells) return cells;
    }
}

cell *cell_all(int64_t *count) { return enumerate(1, false, count); }

/* ---- pairs ---- */

enum { VALUES = 64 };
typedef struct pairs {
    bool open[VALUES][VALUES]; /* occur in some cell, and in no chosen one yet */
    int64_t left;
} pairs;

/* The numbers of its values among the values of all fields. */
static void numbers_of(const cell *c, int numbers[FIELDS]) {
    const uint8_t *field = (const uint8_t *)c;
    for (int f = 0, before = 0; f < FIELDS; before += values[f++]) numbers[f] = before + field[f] - first_value[f];
}

static int count_open(const pairs *p, const cell *c) {
    int numbers[FIELDS], found = 0;
    numbers_of(c, numbers);
    for (int f = 0; f < FIELDS; f++) {
        for (int g = f + 1; g < FIELDS; g++) found += p->open[numbers[f]][numbers[g]];
    }
    return found;
}

static void set_open(pairs *p, const cell *c, bool open) {
    int numbers[FIELDS];
    numbers_of(c, numbers);
    for (int f = 0; f < FIELDS; f++) {
        for (int g = f + 1; g < FIELDS; g++) {
            bool *pair = &p->open[numbers[f]][numbers[g]];
            p->left += (int)open - (int)*pair;
            *pair = open;
        }
    }
}

static void shuffle(cell *cells, int64_t count, uint64_t seed) {
    for (int64_t i = count - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t j = (int64_t)((seed >> 33) % (uint64_t)(i + 1));
        cell other = cells[i];
        cells[i] = cells[j];
        cells[j] = other;
    }
}

static int compare(const void *a, const void *b) { return memcmp(a, b, sizeof(cell)); }

/* Greedy: first the cells that have many open pairs. */
cell *cell_pairwise(uint64_t seed, bool light, int64_t *count) {
    pairs p = {.left = 0};
    int64_t all;
    cell *cells = enumerate(CELL_DEVICES, light, &all);
    shuffle(cells, all, seed);
    for (int64_t i = 0; i < all; i++) set_open(&p, &cells[i], true);
    int64_t chosen = 0; /* at the front */
    for (int least = FIELDS * (FIELDS - 1) / 2; p.left > 0; least = least > 4 ? least * 3 / 4 : least - 1) {
        for (int64_t i = chosen; i < all; i++) {
            if (count_open(&p, &cells[i]) < least) continue;
            cell taken = cells[i];
            set_open(&p, &taken, false);
            cells[i] = cells[chosen];
            cells[chosen++] = taken;
        }
    }
    qsort(cells, (size_t)chosen, sizeof *cells, compare);
    *count = chosen;
    return cells;
}

const char *cell_text(const cell *c, char text[CELL_TEXT]) {
    static const char *const devices[CELL_DEVICES] = {"host", "discrete", "host and discrete"};
    const char *algorithm = cell_algorithm(c->algorithm);
    snprintf(text, CELL_TEXT, "%s %s %s, %s, %d ranks, %lld elements%s, %s devices", kind_names[c->kind],
             cell_reduces(c) ? mst_reduction_name(c->op) : "of", muster_dtype_name(c->dtype), algorithm ? algorithm : "selected", c->ranks,
             (long long)cell_count(c), c->in_place ? ", in place" : "", devices[c->devices]);
    return text;
}

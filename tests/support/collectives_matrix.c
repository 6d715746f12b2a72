#include "collectives_matrix.h"

#include "collectives_oracle.h"
#include "collectives_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[CASE_KINDS] = {
    [CASE_ALL_REDUCE] = "all_reduce",
    [CASE_ALL_REDUCE_BEGIN] = "begun all_reduce",
    [CASE_ALL_REDUCE_SHARDS] = "all_reduce_shards",
    [CASE_ALL_REDUCE_AXPY] = "all_reduce_axpy",
    [CASE_ALL_REDUCE_MOMENTUM] = "all_reduce_momentum",
    [CASE_ALL_REDUCE_APPLY] = "all_reduce_apply",
    [CASE_ALL_REDUCE_APPLY_BEGIN] = "begun all_reduce_apply",
    [CASE_REDUCE] = "reduce",
    [CASE_BROADCAST] = "broadcast",
    [CASE_ALL_GATHER] = "all_gather",
    [CASE_ALL_GATHER_BEGIN] = "begun all_gather",
    [CASE_ALL_GATHER_UNEVEN] = "uneven all_gather",
    [CASE_GATHER] = "gather",
    [CASE_GATHER_UNEVEN] = "uneven gather",
    [CASE_SCATTER] = "scatter",
    [CASE_SCATTER_UNEVEN] = "uneven scatter",
    [CASE_REDUCE_SCATTER] = "reduce_scatter",
    [CASE_REDUCE_SCATTER_BEGIN] = "begun reduce_scatter",
    [CASE_REDUCE_SCATTER_UNEVEN] = "uneven reduce_scatter",
    [CASE_ALL_TO_ALL] = "all_to_all",
    [CASE_ALL_TO_ALL_UNEVEN] = "uneven all_to_all",
    [CASE_BARRIER] = "barrier",
};

const char *case_algorithm(int index) {
    static const char *const names[CASE_ALGORITHMS] = {"reference", "inline", "direct", NULL}, *const of_gpus[CASE_ALGORITHMS] = {
                                                                                                   "reference", "p2p", "nccl", NULL};
    return (collectives_devices() == COLLECTIVES_HOST_AND_DISCRETE ? names : of_gpus)[index];
}

/* The simulated machine has 8 GPUs, so a ninth rank is a virtual device. NCCL takes each GPU once,
 * and does not serve one rank. */
bool case_available(const matrix_case *c, const char *algorithm) {
    const collectives_kind kind = collectives_devices();
    const char *peers = getenv("MUSTER_SIM_PEERS");
    if (!algorithm || kind == COLLECTIVES_HOST_AND_DISCRETE) return true;
    if (strcmp(algorithm, "nccl") == 0) return kind == COLLECTIVES_GPUS && c->ranks > 1 && c->ranks <= 8;
    if (strcmp(algorithm, "p2p") == 0) return kind == COLLECTIVES_VIRTUAL || c->ranks == 1 || !peers || strcmp(peers, "0") != 0;
    return true;
}

int64_t case_count(const matrix_case *c) {
    const int64_t counts[CASE_COUNTS] = {0, 1, c->ranks - 1, c->ranks, c->ranks + 1, 9, 1000, 65537, 1 << 20};
    return counts[c->count];
}

bool case_reduces(const matrix_case *c) {
    return c->kind <= CASE_REDUCE || (c->kind >= CASE_REDUCE_SCATTER && c->kind <= CASE_REDUCE_SCATTER_UNEVEN);
}

bool case_rooted(const matrix_case *c) {
    return c->kind == CASE_REDUCE || c->kind == CASE_BROADCAST || (c->kind >= CASE_GATHER && c->kind <= CASE_SCATTER_UNEVEN);
}

bool case_updates(const matrix_case *c) { return c->kind >= CASE_ALL_REDUCE_AXPY && c->kind <= CASE_ALL_REDUCE_APPLY_BEGIN; }

static bool has_place(const matrix_case *c) {
    return c->kind != CASE_ALL_REDUCE_SHARDS && !case_updates(c) && c->kind != CASE_ALL_TO_ALL_UNEVEN && c->kind != CASE_BARRIER;
}

/* A form that only begins enters the collective itself, so floats stand for all dtypes. */
static bool begins(const matrix_case *c) {
    return c->kind == CASE_ALL_REDUCE_BEGIN || c->kind == CASE_ALL_GATHER_BEGIN || c->kind == CASE_REDUCE_SCATTER_BEGIN;
}

static bool occurs(const matrix_case *c) {
    if (begins(c) && c->dtype > MUSTER_F64) return false;
    if (c->in_place && !has_place(c)) return false;
    if (c->devices == CASE_MIXED && c->ranks == 1) return false;
    if (c->kind == CASE_BARRIER) return c->dtype == MUSTER_BOOL && c->op == MUSTER_MAX && c->count == 0;
    if (case_updates(c)) return c->dtype <= MUSTER_F64 && c->op == MUSTER_SUM;
    if (!case_reduces(c)) return c->op == MUSTER_MAX;
    return oracle_defines(c->op, c->dtype);
}

/* The largest size on many ranks, above all by the reference algorithm, with which each rank
 * computes every element. */
static bool is_heavy(const matrix_case *c) { return c->count == CASE_COUNTS - 1 && c->ranks > 3; }

/* ---- enumeration ---- */

/* Fields in order, with their first value and the number of values. */
enum { FIELDS = sizeof(matrix_case) };
static const uint8_t first_value[FIELDS] = {0, 1, 1, 1, 0, 0, 0, 0};
static const uint8_t values[FIELDS] = {CASE_DEVICES, CASE_RANKS,      MST_DTYPE_COUNT - 1, MUSTER_AVG,
                                       CASE_KINDS,   CASE_ALGORITHMS, CASE_COUNTS,         2};

static bool advance(matrix_case *c, int32_t devices) {
    uint8_t *field = (uint8_t *)c;
    for (int f = FIELDS - 1; f >= 0; f--) {
        if (++field[f] < first_value[f] + (f == 0 ? devices : values[f])) return true;
        field[f] = first_value[f];
    }
    return false;
}

static matrix_case *enumerate(int32_t devices, bool light, int64_t *count) {
    matrix_case *cases = NULL, c;
    int64_t room = 0;
    /* first only counts */
    for (*count = 0;; room = *count, cases = mst_alloc((size_t)room * sizeof *cases), *count = 0) {
        memcpy(&c, first_value, sizeof c);
        do {
            if (!occurs(&c) || (light && is_heavy(&c))) continue;
            if (cases) cases[*count] = c;
            ++*count;
        } while (advance(&c, devices));
        if (cases) return cases;
    }
}

matrix_case *case_all(int64_t *count) { return enumerate(1, false, count); }

/* ---- pairs ---- */

enum { VALUES = 128, FIRST_CASES = 1 << 15 };
typedef struct pairs {
    bool open[VALUES][VALUES]; /* occur in some case, and in no chosen one yet */
    int64_t left;
} pairs;

/* The numbers of its values among the values of all fields. */
static void numbers_of(const matrix_case *c, int numbers[FIELDS]) {
    const uint8_t *field = (const uint8_t *)c;
    for (int f = 0, before = 0; f < FIELDS; before += values[f++]) numbers[f] = before + field[f] - first_value[f];
}

static int count_open(const pairs *p, const matrix_case *c) {
    int numbers[FIELDS], found = 0;
    numbers_of(c, numbers);
    for (int f = 0; f < FIELDS; f++) {
        for (int g = f + 1; g < FIELDS; g++) found += p->open[numbers[f]][numbers[g]];
    }
    return found;
}

static void set_open(pairs *p, const matrix_case *c, bool open) {
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

static void shuffle(matrix_case *cases, int64_t count, uint64_t seed) {
    for (int64_t i = count - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t j = (int64_t)((seed >> 33) % (uint64_t)(i + 1));
        matrix_case other = cases[i];
        cases[i] = cases[j];
        cases[j] = other;
    }
}

static int compare(const void *a, const void *b) { return memcmp(a, b, sizeof(matrix_case)); }

/* Greedy: first the cases that have many open pairs. */
matrix_case *case_pairwise(uint64_t seed, bool light, int64_t *count) {
    pairs p = {.left = 0};
    int64_t all;
    matrix_case *cases = enumerate(CASE_DEVICES, light, &all);
    shuffle(cases, all, seed);
    for (int64_t i = 0; i < all; i++) set_open(&p, &cases[i], true);
    int64_t chosen = 0; /* at the front */
    for (int least = FIELDS * (FIELDS - 1) / 2; p.left > 0; least = least > 4 ? least * 3 / 4 : least - 1) {
        const int64_t end = least > 1 && all > FIRST_CASES ? FIRST_CASES : all; /* what is rare may lie behind these */
        for (int64_t i = chosen; i < end; i++) {
            if (count_open(&p, &cases[i]) < least) continue;
            matrix_case taken = cases[i];
            set_open(&p, &taken, false);
            cases[i] = cases[chosen];
            cases[chosen++] = taken;
        }
    }
    qsort(cases, (size_t)chosen, sizeof *cases, compare);
    *count = chosen;
    return cases;
}

const char *case_text(const matrix_case *c, char text[CASE_TEXT]) {
    static const char *const devices[CASE_DEVICES] = {"host", "discrete", "host and discrete"};
    const char *algorithm = case_algorithm(c->algorithm);
    snprintf(text, CASE_TEXT, "%s %s %s, %s, %d ranks, %lld elements%s, %s devices", kind_names[c->kind],
             case_reduces(c) ? mst_reduction_name(c->op) : "of", muster_dtype_name(c->dtype), algorithm ? algorithm : "selected", c->ranks,
             (long long)case_count(c), c->in_place ? ", in place" : "", devices[c->devices]);
    return text;
}

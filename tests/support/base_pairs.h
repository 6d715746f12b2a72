/* Samples of matrices: in place of the product of several parameters, cases in which every two
 * values of every two parameters meet. Faults that need three values at a time are met by other
 * seeds. */
#ifndef BASE_PAIRS_H
#define BASE_PAIRS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_PARAMETERS = 6, PAIRS_VALUES = 32 };
typedef struct pairs_case {
    int32_t at[PAIRS_PARAMETERS]; /* a value of each parameter, from 0 on */
} pairs_case;
typedef bool (*pairs_occurs)(const int32_t *at);

typedef struct pairs_drawing {
    int32_t extents[PAIRS_PARAMETERS], count;
    uint64_t random;
    pairs_occurs occurs;
    bool met[PAIRS_PARAMETERS][PAIRS_PARAMETERS][PAIRS_VALUES][PAIRS_VALUES];
} pairs_drawing;

static inline int32_t pairs_random(pairs_drawing *p, int32_t below) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((p->random >> 33) % (uint64_t)below);
}

/* How many pairs of values meet for the first time. */
static inline int32_t pairs_new(pairs_drawing *p, const pairs_case *c, bool mark) {
    int32_t fresh = 0;
    for (int32_t a = 0; a < p->count; a++)
        for (int32_t b = a + 1; b < p->count; b++) {
            bool *met = &p->met[a][b][c->at[a]][c->at[b]];
            fresh += !*met;
            if (mark) *met = true;
        }
    return fresh;
}

/* With two values given, of many draws the case in which most pairs are new. False: none occurs. */
static inline bool pairs_draw_one(pairs_drawing *p, int32_t a, int32_t b, int32_t i, int32_t j, pairs_case *best) {
    enum { DRAWS = 40 };
    int32_t most = 0;
    for (int32_t draw = 0; draw < DRAWS; draw++) {
        pairs_case c = {{0}};
        for (int32_t d = 0; d < p->count; d++) c.at[d] = d == a ? i : d == b ? j : pairs_random(p, p->extents[d]);
        if ((p->occurs && !p->occurs(c.at)) || pairs_new(p, &c, false) <= most) continue;
        most = pairs_new(p, &c, false);
        *best = c;
    }
    return most > 0;
}

/* The cases, of `count` parameters with so many values each; *cases: how many. `occurs` says which
 * combinations there are; NULL: all. The caller frees them. */
static inline pairs_case *pairs_draw(const int32_t *extents, int32_t count, uint64_t seed, pairs_occurs occurs, int32_t *cases) {
    enum { MOST = PAIRS_PARAMETERS * PAIRS_PARAMETERS * PAIRS_VALUES * PAIRS_VALUES };
    pairs_drawing *p = calloc(1, sizeof *p);
    pairs_case *drawn = calloc(MOST, sizeof *drawn);
    *cases = 0;
    if (!p || !drawn) abort();
    memcpy(p->extents, extents, (size_t)count * sizeof *extents);
    p->count = count;
    p->random = seed * 0x9e3779b97f4a7c15u + 1;
    p->occurs = occurs;
    for (int32_t a = 0; a < count; a++)
        for (int32_t b = a + 1; b < count; b++)
            for (int32_t i = 0; i < extents[a]; i++)
                for (int32_t j = 0; j < extents[b]; j++)
                    if (!p->met[a][b][i][j] && pairs_draw_one(p, a, b, i, j, &drawn[*cases])) pairs_new(p, &drawn[(*cases)++], true);
    free(p);
    return drawn;
}

/* Is the case among those that were drawn? For suites whose loops go over the product. */
static inline bool pairs_has(const pairs_case *drawn, int32_t cases, int32_t count, const int32_t *at) {
    for (int32_t c = 0; c < cases; c++)
        if (memcmp(drawn[c].at, at, (size_t)count * sizeof *at) == 0) return true;
    return false;
}

#endif

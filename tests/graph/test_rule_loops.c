/* The loops of rules over a pair of gradients give the bits of the loop over their sum, to both
 * parameters, wherever the copy begins in a cache line, and write nothing else. */
#include "base_check.h"
#include "muster/rule.h"
#include "rules/loops_private.h"

#include <string.h>

enum { MOST = 1000, AROUND = 16 };
enum { FIRST_GRADIENT, SECOND_GRADIENT, PARAMETER, COPY, STATES, VECTORS = STATES + 2 };
static const int64_t counts[] = {0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };
typedef enum { SINGLE, PAIR, STREAMING, KINDS } loop_kind;

/* The first gradient of a single loop is the sum. Around each vector are elements that nothing may
 * write. */
typedef struct room {
    _Alignas(64) double bytes[VECTORS][AROUND + MOST + AROUND];
} room;

static void *vector(room *r, int32_t index, int64_t element, int64_t first) { return (char *)r->bytes[index] + (AROUND + first) * element; }

static double number(int32_t index, int64_t i) { return (double)((i * 7 + index * 5) % 23 + 1) / 8 * (index == SECOND_GRADIENT ? -1 : 1); }

/* The sums of the gradients are exact in both dtypes. */
static void fill(room *r, bool f64, bool single) {
    memset(r, 0x5a, sizeof *r);
    for (int32_t v = 0; v < VECTORS; v++)
        for (int64_t i = 0; i < MOST && v != COPY; i++) {
            const double value = v == FIRST_GRADIENT && single ? number(FIRST_GRADIENT, i) + number(SECOND_GRADIENT, i) : number(v, i);
            if (f64)
                ((double *)vector(r, v, 8, 0))[i] = value;
            else
                ((float *)vector(r, v, 4, 0))[i] = (float)value;
        }
}

static void run(room *r, muster_update_rule rule, bool f64, int64_t first, int64_t count, loop_kind kind) {
    static const mst_rule_numbers numbers = {0.01, 0.9, 0.8, 0.99, 0.95, 1e-6};
    const int64_t element = f64 ? 8 : 4;
    const mst_rule_loops loops = (f64 ? mst_rule_loops_f64 : mst_rule_loops_f32)[rule];
    mst_rule_use use = {.loops = loops, .numbers = numbers};
    mst_rule_vectors v = {
        .gradients = {vector(r, FIRST_GRADIENT, element, 0), kind == SINGLE ? NULL : vector(r, SECOND_GRADIENT, element, 0)},
        .parameter = vector(r, PARAMETER, element, 0),
        .copy = kind == SINGLE ? NULL : vector(r, COPY, element, first),
        .past_cache = kind == STREAMING,
        .states = {vector(r, STATES, element, 0), vector(r, STATES + 1, element, 0)}};
    fill(r, f64, kind == SINGLE);
    mst_rule_loop_run(&use, &v, count);
    if (kind == SINGLE) memcpy(vector(r, COPY, element, first), v.parameter, (size_t)(count * element));
}

static void test_pairs_have_the_bits_of_sums(void **state) {
    static room rooms[KINDS], before;
    int32_t cases = 0;
    (void)state;
    for (int32_t f64 = 0; f64 < 2; f64++)
        for (muster_update_rule rule = MUSTER_SGD; rule <= MUSTER_ADAMAX; rule++)
            for (int32_t c = 0; c < COUNTS; c++)
                for (int64_t first = 0; first < AROUND; first += 1 + c % 3, cases++) {
                    for (loop_kind kind = SINGLE; kind < KINDS; kind++) run(&rooms[kind], rule, f64, first, counts[c], kind);
                    fill(&before, f64, false);
                    for (loop_kind kind = PAIR; kind < KINDS; kind++) {
                        for (int32_t v = PARAMETER; v < VECTORS; v++)
                            assert_memory_equal(rooms[kind].bytes[v], rooms[SINGLE].bytes[v], sizeof rooms->bytes[v]);
                        assert_memory_equal(rooms[kind].bytes, before.bytes, PARAMETER * sizeof *rooms->bytes);
                    }
                    const bool changed = memcmp(rooms[SINGLE].bytes[PARAMETER], before.bytes[PARAMETER], sizeof *rooms->bytes) != 0;
                    assert_int_equal(changed, counts[c] > 0);
                }
    assert_int_equal(cases, 2 * 8 * (6 * 16 + 5 * 8 + 5 * 6));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs_have_the_bits_of_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

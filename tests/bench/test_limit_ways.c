/* Every way in which the limits of the collectives compute gives right results, by every kind of
 * store. The bench checks the results of each block; here all ways of all operations are run at
 * sizes on both sides of the bounds from which a store is tried. */
#include "collective_limit.h"

#include "base_skip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

enum { MOST = (1 << 20) / 4 };
static const int64_t bytes[] = {4096 - 64, 4096, 16384, 16384 + 64, (1 << 20) - 64, 1 << 20};
enum { SIZES = sizeof bytes / sizeof *bytes };

typedef struct counts {
    int32_t plain, streaming, movsb, from_copies;
} counts;

static void count_way(const char *name, counts *n) {
    n->streaming += strstr(name, "streaming") != NULL;
    n->movsb += strstr(name, "movsb") != NULL;
    n->from_copies += strstr(name, "from copies") != NULL;
    n->plain += !strstr(name, "streaming") && !strstr(name, "movsb");
}

static void check(bench_limit_collective *limit, collective_job job, counts *n) {
    const int32_t ways = bench_limit_ways(&job);
    for (job.variant = 0; job.variant < ways; job.variant++) {
        bench_limit_contender contender = {limit, job};
        char name[BENCH_NAME];
        double ns[2];
        int64_t wrong = 0;
        bench_limit_way(&job, job.variant, name, sizeof name);
        count_way(name, n);
        assert_true(bench_limit_collective_block(&contender, &(bench_block){0, 1, 0}, ns, &wrong));
        if (wrong)
            fail_msg("%s, %d ranks, %lld floats, %s, %s: %lld wrong elements", collective_name(job.op), job.ranks, (long long)job.count,
                     job.in_place ? "in place" : "out of place", name, (long long)wrong);
    }
}

static void every_way_is_right(void **state) {
    (void)state;
    bench_pair *pair = bench_pair_open();
    if (!pair) SKIP("only one core is allowed, so there is no limit");
    counts n = {0};
    for (int32_t ranks = 2; ranks <= 4; ranks += 2) {
        bench_limit_collective *limit = bench_limit_collective_open(pair, ranks, MOST);
        assert_non_null(limit);
        for (int32_t op = 0; op < COLLECTIVE_OPS; op++)
            for (int32_t in_place = 0; in_place < 2; in_place++)
                for (int32_t i = 0; i < SIZES; i++)
                    if (!collective_updates(op) || (ranks == 2 && !in_place))
                        check(limit, (collective_job){.op = op, .ranks = ranks, .in_place = in_place, .count = bytes[i] / 4}, &n);
        bench_limit_collective_close(limit);
    }
    bench_pair_close(pair);
    /* Counted by hand from the table of ways. Without copies aside and with plain stores: out of
     * place 3 of all_reduce and broadcast, 2 of all_gather, reduce, all_to_all, gather and scatter,
     * 1 of reduce_scatter; as many in place. On two ranks 1 of each update. */
    const int32_t per_form = 2 * 3 + 5 * 2 + 1, copying = 4 * 2 /* broadcast, all_gather, gather, scatter */;
    const int32_t aside_sizes = 3, movsb_sizes = 5;
    assert_int_equal(n.from_copies, 2 * 2 * 8 * aside_sizes);
    assert_int_equal(n.plain, 2 * 2 * per_form * SIZES + 2 * SIZES + n.from_copies);
    assert_int_equal(n.movsb, 2 * (2 * copying + 2 + 1) * movsb_sizes);
    /* in both forms also 1 of broadcast; out of place 2 of all_reduce, reduce_scatter and the
     * halves of reduce */
    assert_int_equal(n.streaming, 2 * (2 * copying + 2 + 1 + 2 + 2 + 1 + 1) + 2);
}

int main(void) {
    bench_machine_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way_is_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

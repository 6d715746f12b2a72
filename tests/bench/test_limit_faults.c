/* When is a limit at fault? Rows of contenders that take times which are given. */
#include "bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>

static bool play(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    (void)wrong;
    for (int32_t i = 0; i < block->calls; i++) ns[i] = *(const double *)self;
    return true;
}

static bool refuse(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    (void)self, (void)block, (void)ns, (void)wrong;
    return false;
}

/* Limits of 100 and 120 ns, and a contender of `kind` that takes `ns`; 0: without the limits. */
static bench_row *measured(bench_kind kind, double *ns, bool limits) {
    static double slow = 120, fast = 100;
    bench_row *row = calloc(1, sizeof *row);
    assert_non_null(row);
    row->block = (bench_block){0, 3, 0};
    row->round_count = 3;
    if (limits) bench_add(row, BENCH_LIMIT, "limit, slow", &slow, play, NULL);
    if (limits) bench_add(row, BENCH_LIMIT, "limit, fast", &fast, play, NULL);
    bench_add(row, kind, "other", ns, play, NULL);
    bench_add(row, BENCH_PEER, "dropped", ns, refuse, NULL);
    assert_true(bench_measure_row(row, &(bench_options){.rounds = 0}));
    return row;
}

static void close_row(bench_row *row) {
    (void)bench_close_row(row);
    free(row);
}

static void a_limit_is_at_fault_if_something_is_more_than_5_percent_below_it(void **state) {
    (void)state;
    static const bench_kind kinds[] = {BENCH_MUSTER, BENCH_MUSTER_AGAIN, BENCH_PEER};
    static const struct {
        double ns;
        bool fault;
    } cases[] = {{200, false}, {100, false}, {95.1, false}, {94.9, true}, {1, true}};
    const int32_t before = bench_limits_print();
    int32_t faults = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            double ns = cases[i].ns;
            bench_row *row = measured(kinds[k], &ns, true);
            const bench_contender *faster = bench_limit_fault(row);
            assert_int_equal(faster != NULL, cases[i].fault);
            if (faster) assert_string_equal(faster->name, "other");
            faults += cases[i].fault;
            assert_int_equal(bench_limits_print(), before + faults);
            close_row(row);
        }
    }
    assert_int_equal(faults, 6);
}

static void a_row_without_limits_has_none_at_fault(void **state) {
    (void)state;
    double ns = 1;
    const int32_t before = bench_limits_print();
    bench_row *row = measured(BENCH_PEER, &ns, false);
    assert_null(bench_limit_fault(row));
    assert_int_equal(bench_limits_print(), before);
    close_row(row);
}

int main(void) {
    bench_machine_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_limit_is_at_fault_if_something_is_more_than_5_percent_below_it),
                                       cmocka_unit_test(a_row_without_limits_has_none_at_fault)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

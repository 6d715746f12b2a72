#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

/* Box-Muller, mean 1 and deviation 2. */
static double plain(uint64_t seed, muster_dtype dtype, uint64_t number) {
    const double u = ops_uniform(seed, dtype, number & ~(uint64_t)1), v = ops_uniform(seed, dtype, number | 1);
    const double radius = sqrt(-2 * log(1 - u)), angle = 2 * M_PI * v;
    return 1 + 2 * radius * (number % 2 ? sin(angle) : cos(angle));
}

static void draw(muster_worker *w, const mst_op_row *o) {
    const uint64_t seed = (uint64_t)ops_random(1 << 30) << 20, first = (uint64_t)ops_random(1000);
    muster_dtype dtype = ops_random_dtype(o);
    ops_pair y = ops_output(w, dtype, ops_random_shape());
    for (int64_t i = 0; i < muster_tensor_count(y.host); i++) ops_results[i] = plain(seed, dtype, first + (uint64_t)i);
    assert_ok(ops_apply(w, o, VALUES({.integer = (int64_t)seed}, {.integer = (int64_t)first}, {.number = 1}, {.number = 2}), PAIRS(&y)));
    ops_check(w, o, &y, ops_results);
}

/* The second half of the numbers of a seed, drawn alone. */
static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++) {
        ops_pair all = ops_laid_out(w, dtype, 2, 6, 5, 0), part = ops_laid_out(w, dtype, 2, 3, 5, 2);
        assert_ok(muster_random_normal(w, 42, 0, 1, 2, all.device));
        assert_ok(muster_random_normal(w, 42, 15, 1, 2, part.device));
        ops_fetch(w, &all);
        ops_fetch(w, &part);
        for (int64_t i = 0; i < 15; i++) assert_true(ops_at(&part, i / 5, i % 5) == ops_at(&all, 3 + i / 5, i % 5));
        ops_count_case(o, dtype);
    }
}

const ops_oracle ops_oracle_random_normal = {
    .draw = draw, .cases = cases, .case_count = 2, .values = {{.integer = 1}, {.integer = 0}, {.number = 0}, {.number = 1}}};

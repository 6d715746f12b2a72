#include "ops_oracle.h"

#include "base_check.h"

static void draw(muster_worker *w, const mst_op_row *o) {
    const uint64_t seed = (uint64_t)ops_random(1 << 30) << 20, first = (uint64_t)ops_random(1000);
    muster_dtype dtype = ops_random_dtype(o);
    ops_pair y = ops_output(w, dtype, ops_random_shape());
    for (int64_t i = 0; i < muster_tensor_count(y.host); i++) ops_results[i] = ops_uniform(seed, dtype, first + (uint64_t)i);
    assert_ok(ops_apply(w, o, VALUES({.integer = (int64_t)seed}, {.integer = (int64_t)first}), PAIRS(&y)));
    ops_check(w, o, &y, ops_results);
}

/* The second half of the numbers of a seed, drawn alone, and one number of each dtype as the
 * definition has it. */
static void cases(muster_worker *w, const mst_op_row *o) {
    for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_F64; dtype++) {
        ops_pair all = ops_laid_out(w, dtype, 2, 6, 5, 0), part = ops_laid_out(w, dtype, 2, 3, 5, 2);
        assert_ok(muster_random_uniform(w, 42, 0, all.device));
        assert_ok(muster_random_uniform(w, 42, 15, part.device));
        ops_fetch(w, &all);
        ops_fetch(w, &part);
        for (int64_t i = 0; i < 15; i++) assert_true(ops_at(&part, i / 5, i % 5) == ops_at(&all, 3 + i / 5, i % 5));
        uint32_t block[4];
        muster_philox4x32((const uint32_t[]){0, 0, 0, 0}, (const uint32_t[]){42, 0}, block);
        if (dtype == MUSTER_F32)
            assert_true(ops_at(&all, 0, 3) == (block[3] >> 8) * 0x1p-24);
        else
            assert_true(ops_at(&all, 0, 1) == (double)(((uint64_t)block[3] << 32 | block[2]) >> 11) * 0x1p-53);
        ops_count_case(o, dtype);
    }
}

const ops_oracle ops_oracle_random_uniform = {.draw = draw, .cases = cases, .case_count = 2, .values = {{.integer = 1}, {.integer = 0}}};

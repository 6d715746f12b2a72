/* Several inputs read at once give the bits of one input after the other, which is what the other
 * algorithms do: every dtype, op and number of inputs. */
#include "host/many_private.h"

#include "base_check.h"
#include "base_seed.h"
#include "collectives_oracle.h"

#include <math.h>

enum { INPUTS = 16, COUNT = 203 /* no multiple of a vector */, ROOM = 8 * COUNT + 64 };

/* The inputs, and an accumulator. */
typedef struct arena {
    _Alignas(64) char rows[INPUTS + 1][ROOM];
} arena;

static uint64_t next_bits(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 11;
}

/* Numbers of both signs over several orders of magnitude, and zeros of both signs. */
static double next_number(uint64_t *seed) {
    uint64_t bits = next_bits(seed);
    double sign = bits & 1 ? -1 : 1;
    return bits % 17 == 0 ? sign * 0.0 : sign * ldexp(1 + (double)(bits >> 20 & 0xFFFF) / 65536, (int)(bits >> 8 & 7) - 4);
}

static void fill(arena *a, muster_dtype dtype, uint64_t number_of_case) {
    uint64_t seed = test_seed() * 1000003 + number_of_case;
    int64_t size = muster_dtype_size(dtype);
    for (int32_t row = 0; row < INPUTS + 1; row++) {
        for (int64_t i = 0; i < ROOM / size; i++) {
            double number = next_number(&seed);
            uint64_t bits = next_bits(&seed);
            if (mst_dtype_is_float(dtype))
                mst_convert(dtype, a->rows[row] + i * size, MUSTER_F64, &number, 1);
            else
                memcpy(a->rows[row] + i * size, &bits, (size_t)size);
        }
    }
}

/* result, in the compute dtype, of inputs accumulated one after the other. */
static void expect(const arena *a, muster_reduction op, muster_dtype dtype, int32_t inputs, char *result) {
    for (int32_t k = 0; k < inputs; k++) mst_reduction_accumulate(op, dtype, result, a->rows[k], COUNT, 1.0 / inputs, k == 0);
}

static void accumulate(arena *a, muster_reduction op, muster_dtype dtype, int32_t inputs, int32_t into) {
    const void *from[INPUTS];
    for (int32_t k = 0; k < inputs; k++) from[k] = a->rows[k];
    mst_many_accumulate(op, dtype, a->rows[into], from, inputs, COUNT, 1.0 / inputs);
}

static void check(muster_reduction op, muster_dtype dtype, int32_t inputs, int32_t into) {
    static arena a, before;
    _Alignas(64) char expected[ROOM];
    int64_t bytes = COUNT * muster_dtype_size(mst_dtype_compute(dtype));
    fill(&a, dtype, (uint64_t)(op * 1000 + dtype * 100 + inputs));
    before = a;
    expect(&before, op, dtype, inputs, expected);
    accumulate(&a, op, dtype, inputs, into);
    if (memcmp(a.rows[into], expected, (size_t)bytes) != 0)
        fail_msg("%s of %d inputs of %s into row %d: other bits", mst_reduction_name(op), inputs, muster_dtype_name(dtype), into);
    memcpy(before.rows[into], expected, (size_t)bytes);
    if (memcmp(&a, &before, sizeof a) != 0)
        fail_msg("%s of %d inputs of %s into row %d: other memory was written", mst_reduction_name(op), inputs, muster_dtype_name(dtype),
                 into);
}

static void test_the_library_refuses_what_is_not_defined_and_nothing_else(void **state) {
    (void)state;
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) {
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            if (oracle_defines(op, dtype))
                assert_ok(mst_reduction_check(op, dtype, "test"));
            else
                assert_refused(mst_reduction_check(op, dtype, "test"), MUSTER_UNSUPPORTED, "is refused");
        }
    }
}

static void test_the_bits_are_those_of_one_input_after_the_other(void **state) {
    (void)state;
    int32_t checked = 0;
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) {
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            if (!oracle_defines(op, dtype)) continue;
            for (int32_t inputs = 1; inputs <= INPUTS; inputs++, checked++) check(op, dtype, inputs, INPUTS);
        }
    }
    assert_int_equal(checked, ORACLE_REDUCTIONS * INPUTS);
}

static void test_the_result_may_lie_in_any_input_where_it_says_so(void **state) {
    (void)state;
    int32_t checked = 0;
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) {
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op++) {
            if (!oracle_defines(op, dtype)) continue;
            for (int32_t inputs = 1; inputs <= INPUTS; inputs++) {
                if (!mst_many_in_place(op, dtype, inputs)) continue;
                for (int32_t into = 0; into < inputs; into++, checked++) check(op, dtype, inputs, into);
            }
        }
    }
    assert_true(checked > 0);
    assert_true(mst_many_in_place(MUSTER_SUM, MUSTER_F32, 4));
    assert_false(mst_many_in_place(MUSTER_SUM, MUSTER_BF16, 4)); /* the sum is in f32 */
}

static void test_what_is_no_number_passes_through_max_and_min(void **state) {
    (void)state;
    for (int32_t at = 0; at < INPUTS; at++) {
        for (muster_reduction op = MUSTER_MAX; op <= MUSTER_MIN; op++) {
            static arena a;
            fill(&a, MUSTER_F32, 1);
            ((float *)(void *)a.rows[at])[at] = NAN;
            accumulate(&a, op, MUSTER_F32, INPUTS, INPUTS);
            const float *result = (const float *)(const void *)a.rows[INPUTS];
            for (int32_t i = 0; i < COUNT; i++) assert_int_equal(isnan(result[i]) != 0, i == at);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_library_refuses_what_is_not_defined_and_nothing_else),
                                       cmocka_unit_test(test_the_bits_are_those_of_one_input_after_the_other),
                                       cmocka_unit_test(test_the_result_may_lie_in_any_input_where_it_says_so),
                                       cmocka_unit_test(test_what_is_no_number_passes_through_max_and_min)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

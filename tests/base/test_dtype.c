#include "base_check.h"
#include "dtype_impl.h"

static void dtypes_have_sizes_and_names(void **state) {
    (void)state;
    static const struct {
        muster_dtype dtype;
        int size;
        const char *name;
    } expected[] = {
        {MUSTER_F16, 2, "f16"}, {MUSTER_BF16, 2, "bf16"}, {MUSTER_F32, 4, "f32"}, {MUSTER_F64, 8, "f64"},
        {MUSTER_I8, 1, "i8"},   {MUSTER_U8, 1, "u8"},     {MUSTER_I16, 2, "i16"}, {MUSTER_I32, 4, "i32"},
        {MUSTER_I64, 8, "i64"}, {MUSTER_U32, 4, "u32"},   {MUSTER_U64, 8, "u64"}, {MUSTER_BOOL, 1, "bool"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(muster_dtype_size(expected[i].dtype), expected[i].size);
        assert_string_equal(muster_dtype_name(expected[i].dtype), expected[i].name);
        assert_int_equal(mst_dtype_is_float(expected[i].dtype), expected[i].dtype <= MUSTER_F64);
    }
    assert_int_equal(MST_DTYPE_COUNT, sizeof expected / sizeof *expected + 1);
    assert_int_equal(muster_dtype_size(MUSTER_DTYPE_NONE), 0);
    assert_int_equal(muster_dtype_size(-1), 0);
    assert_int_equal(muster_dtype_size(MST_DTYPE_COUNT), 0);
    assert_string_equal(muster_dtype_name(99), "unknown");
}

static void halves_are_computed_in_f32(void **state) {
    (void)state;
    assert_int_equal(mst_dtype_compute(MUSTER_F16), MUSTER_F32);
    assert_int_equal(mst_dtype_compute(MUSTER_BF16), MUSTER_F32);
    assert_int_equal(mst_dtype_compute(MUSTER_F64), MUSTER_F64);
    assert_int_equal(mst_dtype_compute(MUSTER_U8), MUSTER_U8);
}

/* Row: from; column: to; in the order of the numbers, from f16 to bool. */
static void upcasts_keep_every_value(void **state) {
    (void)state;
    static const char *const table[] = {
        /*       f16 bf16 f32 f64 i8 u8 i16 i32 i64 u32 u64 bool */
        /* f16  */ "101100000000",
        /* bf16 */ "011100000000",
        /* f32  */ "001100000000",
        /* f64  */ "000100000000",
        /* i8   */ "111110111000",
        /* u8   */ "111101111110",
        /* i16  */ "001100111000",
        /* i32  */ "000100011000",
        /* i64  */ "000000001000",
        /* u32  */ "000100001110",
        /* u64  */ "000000000010",
        /* bool */ "111111111111",
    };
    for (int from = 0; from < 12; from++) {
        for (int to = 0; to < 12; to++) {
            bool expected = table[from][to] == '1';
            if (mst_dtype_upcasts(from + 1, to + 1) != expected) {
                fail_msg("%s to %s: expected %d", muster_dtype_name(from + 1), muster_dtype_name(to + 1), expected);
            }
        }
    }
    assert_false(mst_dtype_upcasts(MUSTER_DTYPE_NONE, MUSTER_F32));
    assert_false(mst_dtype_upcasts(MUSTER_F32, 99));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_have_sizes_and_names),
        cmocka_unit_test(halves_are_computed_in_f32),
        cmocka_unit_test(upcasts_keep_every_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

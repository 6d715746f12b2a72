/* The numbers of frozen.def against the headers, and muster_constant against the numbers. */
#include "muster/muster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void header_numbers_are_the_frozen_ones(void **state) {
    (void)state;
#define CONSTANT(name, value) assert_int_equal(name, value);
#define SIZE(type, value) assert_int_equal(sizeof(type), value);
#define OFFSET(type, field, value) assert_int_equal(offsetof(type, field), value);
#define FROZEN(type)
#include "frozen.def"
#undef CONSTANT
#undef SIZE
#undef OFFSET
#undef FROZEN
}

static void every_constant_and_size_can_be_asked_by_name(void **state) {
    (void)state;
#define CONSTANT(name, value) assert_int_equal(muster_constant(#name), value);
#define SIZE(type, value) assert_int_equal(muster_constant("sizeof(" #type ")"), value);
#define OFFSET(type, field, value)
#define FROZEN(type)
#include "frozen.def"
#undef CONSTANT
#undef SIZE
#undef OFFSET
#undef FROZEN
}

static void an_unknown_name_is_told_from_a_value(void **state) {
    (void)state;
    assert_true(muster_constant("MUSTER_NOTHING") == INT64_MIN);
    assert_true(muster_constant("sizeof(int)") == INT64_MIN);
    assert_true(muster_constant("") == INT64_MIN);
    assert_true(muster_constant(NULL) == INT64_MIN);
}

static void the_version_is_that_of_the_project(void **state) {
    (void)state;
    assert_int_equal(muster_version(), PROJECT_VERSION_NUMBER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_numbers_are_the_frozen_ones),
        cmocka_unit_test(every_constant_and_size_can_be_asked_by_name),
        cmocka_unit_test(an_unknown_name_is_told_from_a_value),
        cmocka_unit_test(the_version_is_that_of_the_project),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

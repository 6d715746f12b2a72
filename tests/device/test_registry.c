#include "base_check.h"
#include "device_far.h"

static void the_host_is_always_there(void **state) {
    (void)state;
    assert_ptr_equal(mst_device_find("host"), &mst_host_device_table);
    assert_true(mst_host_device_table.flags & MST_DEVICE_HOST_MEMORY);
}

static void an_unknown_backend_is_null(void **state) {
    (void)state;
    assert_null(mst_device_find("abacus"));
    assert_null(mst_device_find(""));
    assert_null(mst_device_find(NULL));
}

static void a_registered_backend_is_found_and_only_once(void **state) {
    (void)state;
    assert_null(mst_device_find("far"));
    assert_ok(mst_far_register());
    assert_ok(mst_far_register());
    const mst_device_table *far = mst_device_find("far");
    assert_non_null(far);
    assert_refused(mst_device_register(far), MUSTER_INVALID_ARGUMENT, "\"far\"");
    assert_refused(mst_device_register(&mst_host_device_table), MUSTER_INVALID_ARGUMENT, "\"host\"");
}

static void an_unusable_table_is_refused(void **state) {
    (void)state;
    mst_device_table table = mst_host_device_table;
    assert_refused(mst_device_register(NULL), MUSTER_INVALID_ARGUMENT, "NULL");
    table.backend = "";
    assert_refused(mst_device_register(&table), MUSTER_INVALID_ARGUMENT, "no name");
    table.backend = "a:b";
    assert_refused(mst_device_register(&table), MUSTER_INVALID_ARGUMENT, "\"a:b\"");
    table.backend = "half";
    table.sync = NULL;
    assert_refused(mst_device_register(&table), MUSTER_INVALID_ARGUMENT, "\"half\"");
    assert_null(mst_device_find("half"));
}

static void the_registry_has_an_end(void **state) {
    (void)state;
    static char names[32][8];
    static mst_device_table tables[32];
    muster_status status = MUSTER_OK;
    int count = 0;
    for (; status == MUSTER_OK && count < 32; count++) {
        names[count][0] = 'a' + (char)(count / 26), names[count][1] = 'a' + (char)(count % 26);
        tables[count] = mst_host_device_table;
        tables[count].backend = names[count];
        status = mst_device_register(&tables[count]);
    }
    assert_int_equal(status, MUSTER_UNSUPPORTED);
    assert_null(mst_device_find(names[count - 1]));
    assert_non_null(mst_device_find(names[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_is_always_there),
        cmocka_unit_test(an_unknown_backend_is_null),
        cmocka_unit_test(a_registered_backend_is_found_and_only_once),
        cmocka_unit_test(an_unusable_table_is_refused),
        cmocka_unit_test(the_registry_has_an_end), /* last: it fills the table */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

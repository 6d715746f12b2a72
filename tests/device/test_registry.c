#include "base_check.h"
#include "cuda/cuda_impl.h"
#include "device_discrete.h"

#include <stdio.h>

static void the_host_is_always_there(void **state) {
    (void)state;
    assert_ptr_equal(mst_device_find("host"), &mst_host_device_table);
    assert_true(mst_host_device_table.flags & MST_DEVICE_HOST_MEMORY);
}

#define MST_BACKEND(name) #name,
static const char *const listed[] = {
#include "backends.def"
};
#undef MST_BACKEND
enum { LISTED = sizeof listed / sizeof *listed };

/* The order of the list is the order of preference: hardware before the host. */
static void the_backends_of_the_list_come_first(void **state) {
    (void)state;
    assert_ptr_equal(mst_device_backend(0), &mst_cuda_device_table);
    assert_ptr_equal(mst_device_backend(1), &mst_host_device_table);
    for (int i = 0; i < LISTED; i++) assert_string_equal(mst_device_backend(i)->backend, listed[i]);
    assert_null(mst_device_backend(LISTED));
    assert_null(mst_device_backend(-1));
}

/* The list of built-in backends is not checked when the library starts, but here: a copy of each
 * passes what a registered table must pass. */
static void the_tables_of_the_list_are_complete(void **state) {
    (void)state;
    static mst_device_table copies[LISTED];
    static char names[LISTED][16];
    for (int i = 0; i < LISTED; i++) {
        snprintf(names[i], sizeof names[i], "copy%d", i);
        copies[i] = *mst_device_backend(i);
        copies[i].backend = names[i];
        assert_ok(mst_device_register(&copies[i]));
    }
}

static void an_unknown_backend_is_null(void **state) {
    (void)state;
    assert_null(mst_device_find("abacus"));
    assert_null(mst_device_find(""));
    assert_null(mst_device_find(NULL));
}

static void a_registered_backend_is_found_and_only_once(void **state) {
    (void)state;
    assert_null(mst_device_find("discrete"));
    assert_ok(mst_discrete_register());
    assert_ok(mst_discrete_register());
    const mst_device_table *discrete = mst_device_find("discrete");
    assert_non_null(discrete);
    assert_refused(mst_device_register(discrete), MUSTER_INVALID_ARGUMENT, "\"discrete\"");
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
    table.synchronize = NULL;
    assert_refused(mst_device_register(&table), MUSTER_INVALID_ARGUMENT, "received \"half\" without synchronize");
    assert_null(mst_device_find("half"));
}

/* A part of a table lacks one entry at a time: each is refused by its name. */
#define LACKS(part, entry)                                                                                                   \
    do {                                                                                                                     \
        mst_device_##part##_table lacking = full_##part;                                                                     \
        mst_device_table table = mst_cuda_device_table;                                                                      \
        table.backend = "half";                                                                                              \
        lacking.entry = NULL;                                                                                                \
        table.part = &lacking;                                                                                               \
        assert_refused(mst_device_register(&table), MUSTER_INVALID_ARGUMENT, "received \"half\" without " #part "." #entry); \
        assert_null(mst_device_find("half"));                                                                                \
    } while (0)

static void a_part_with_an_entry_missing_is_refused(void **state) {
    (void)state;
    const mst_device_memory_table full_memory = *mst_cuda_device_table.memory;
    const mst_device_queue_table full_queue = *mst_cuda_device_table.queue;
    const mst_device_code_table full_code = *mst_cuda_device_table.code;
    const mst_device_program_table full_program = *mst_cuda_device_table.program;
    const mst_device_hardware_table full_hardware = *mst_cuda_device_table.hardware;
    const mst_device_host_memory_table full_host_memory = *mst_cuda_device_table.host_memory;
    LACKS(memory, allocate);
    LACKS(memory, release);
    LACKS(memory, reserve);
    LACKS(memory, copy_in);
    LACKS(memory, copy_out);
    LACKS(memory, copy);
    LACKS(memory, adopt);
    LACKS(queue, enter);
    LACKS(queue, leave);
    LACKS(queue, poll);
    LACKS(queue, copy_in_async);
    LACKS(queue, event_create);
    LACKS(queue, event_destroy);
    LACKS(queue, event_record);
    LACKS(queue, event_wait);
    LACKS(queue, event_query);
    LACKS(code, launch);
    LACKS(code, gemm);
    LACKS(code, peer_access);
    LACKS(program, language);
    LACKS(program, open);
    LACKS(program, close);
    LACKS(program, limits);
    LACKS(program, launch);
    LACKS(hardware, plural);
    LACKS(hardware, probe);
    LACKS(hardware, find);
    LACKS(hardware, describe_libraries);
    LACKS(hardware, open_with);
    LACKS(hardware, get_facts);
    LACKS(hardware, ordinal);
    LACKS(hardware, describe_device);
    LACKS(hardware, take_notice);
    LACKS(hardware, give_up);
    LACKS(host_memory, allocate);
    LACKS(host_memory, release);
    LACKS(host_memory, pin);
    LACKS(host_memory, unpin);
    mst_device_table none = mst_cuda_device_table;
    none.backend = "half";
    none.memory = NULL;
    assert_refused(mst_device_register(&none), MUSTER_INVALID_ARGUMENT, "received \"half\" without memory");
}

/* A part that a backend cannot do is absent as a whole. */
static void every_part_but_memory_may_be_absent(void **state) {
    (void)state;
    static mst_device_table table;
    table = mst_cuda_device_table;
    table.backend = "plain";
    table.queue = NULL;
    table.code = NULL;
    table.program = NULL;
    table.host_memory = NULL;
    table.hardware = NULL;
    assert_ok(mst_device_register(&table));
    assert_ptr_equal(mst_device_find("plain"), &table);
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
        cmocka_unit_test(the_backends_of_the_list_come_first),
        cmocka_unit_test(the_tables_of_the_list_are_complete),
        cmocka_unit_test(an_unknown_backend_is_null),
        cmocka_unit_test(a_registered_backend_is_found_and_only_once),
        cmocka_unit_test(an_unusable_table_is_refused),
        cmocka_unit_test(a_part_with_an_entry_missing_is_refused),
        cmocka_unit_test(every_part_but_memory_may_be_absent),
        cmocka_unit_test(the_registry_has_an_end), /* last: it fills the table */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Opening libraries by lists of symbols, with libraries that every machine has. */
#include "base_check.h"
#include "foreign_impl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* How often a library was opened on this test's thread, whose stack may be a small one in programs,
 * and on others. */
static _Thread_local bool of_test;
static int opened_here, opened_apart;

#ifndef MUSTER_TEST_SANITIZED /* which have a function of their own in its place */
void *dlopen(const char *path, int flags) {
    void *(*open)(const char *path, int flags);
    *(void **)&open = dlsym(RTLD_NEXT, "dlopen");
    ++*(of_test ? &opened_here : &opened_apart);
    return open(path, flags);
}
#endif

typedef struct functions {
    double (*cos)(double x);
    int (*muster_is_not_in_there)(void);
} functions;
#define MST_FOREIGN_STRUCT functions

static mst_foreign_library library_of(const char *const *sonames, int32_t soname_count, const mst_foreign_symbol *symbols,
                                      int32_t symbol_count) {
    return (mst_foreign_library){"the mathematics", sonames, soname_count, symbols, symbol_count};
}

static const mst_foreign_symbol cosine[] = {MST_FOREIGN_NEEDED(double, cos, (double))};
static const mst_foreign_symbol both[] = {MST_FOREIGN_NEEDED(double, cos, (double))
                                              MST_FOREIGN_NEEDED(int, muster_is_not_in_there, (void))};
static const mst_foreign_symbol optional[] = {MST_FOREIGN_NEEDED(double, cos, (double))
                                                  MST_FOREIGN_OPTIONAL(int, muster_is_not_in_there, (void))};
static const char *const newest_first[] = {"libmuster-nowhere.so.9", "libm.so.6"};
static const char *const nowhere[] = {"libmuster-nowhere.so.9", "libmuster-nowhere.so.8"};

static void an_older_library_serves_where_the_newest_is_not(void **state) {
    (void)state;
    functions found = {0};
    const mst_foreign_library library = library_of(newest_first, 2, cosine, 1);
    assert_ok(mst_foreign_open(&library, &found));
    assert_true(found.cos(0) == 1);
    assert_false(mst_foreign_simulated());
}

static void the_message_names_all_that_was_tried_and_the_loaders_words(void **state) {
    (void)state;
    functions found = {0};
    const mst_foreign_library library = library_of(nowhere, 2, cosine, 1);
    assert_refused(mst_foreign_open(&library, &found), MUSTER_UNAVAILABLE,
                   "the mathematics was not found: tried libmuster-nowhere.so.9, libmuster-nowhere.so.8: ");
    assert_non_null(strstr(muster_last_error(), "cannot open shared object file"));
}

static void a_missing_symbol_is_named_and_nothing_is_half_filled(void **state) {
    (void)state;
    functions found = {0};
    const mst_foreign_library library = library_of(newest_first, 2, both, 2);
    assert_refused(mst_foreign_open(&library, &found), MUSTER_UNAVAILABLE,
                   "the mathematics: libm.so.6 lacks the symbol muster_is_not_in_there");
    assert_null(found.cos);
}

static void a_missing_optional_symbol_is_null(void **state) {
    (void)state;
    functions found = {0};
    const mst_foreign_library library = library_of(newest_first, 2, optional, 2);
    assert_ok(mst_foreign_open(&library, &found));
    assert_non_null(found.cos);
    assert_null(found.muster_is_not_in_there);
}

static void a_folder_is_the_only_place(void **state) {
    (void)state;
    functions found = {0};
    const mst_foreign_library library = library_of(newest_first, 2, cosine, 1);
    setenv("MUSTER_CUDA_LIBRARIES", "/nowhere", 1);
    assert_refused(mst_foreign_open(&library, &found), MUSTER_UNAVAILABLE, " in /nowhere: ");
    unsetenv("MUSTER_CUDA_LIBRARIES");
    assert_null(found.cos);
}

static void a_relative_folder_is_refused(void **state) {
    (void)state;
    functions found = {0};
    const mst_foreign_library library = library_of(newest_first, 2, cosine, 1);
    setenv("MUSTER_CUDA_LIBRARIES", "lib", 1);
    assert_refused(mst_foreign_open(&library, &found), MUSTER_UNAVAILABLE, "expected an absolute path, received \"lib\"");
    unsetenv("MUSTER_CUDA_LIBRARIES");
}

static int leave_the_choice_to_the_loader(void **state) {
    (void)state;
    return unsetenv("MUSTER_CUDA_LIBRARIES");
}

static void libraries_are_opened_on_a_thread_of_their_own(void **state) {
    (void)state;
    functions found = {0};
    const mst_foreign_library library = library_of(newest_first, 2, cosine, 1);
    opened_here = opened_apart = 0;
    of_test = true;
    assert_ok(mst_foreign_open(&library, &found));
    assert_ok(mst_foreign_open_apart(&library, NULL, &found));
    of_test = false;
    assert_int_equal(opened_here, 0);
#ifndef MUSTER_TEST_SANITIZED
    assert_int_equal(opened_apart, 2 * 2); /* the one that is nowhere, and the one that is */
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_library_serves_where_the_newest_is_not),
        cmocka_unit_test(the_message_names_all_that_was_tried_and_the_loaders_words),
        cmocka_unit_test(a_missing_symbol_is_named_and_nothing_is_half_filled),
        cmocka_unit_test(a_missing_optional_symbol_is_null),
        cmocka_unit_test(a_folder_is_the_only_place),
        cmocka_unit_test(a_relative_folder_is_refused),
        cmocka_unit_test(libraries_are_opened_on_a_thread_of_their_own),
    };
    return cmocka_run_group_tests(tests, leave_the_choice_to_the_loader, NULL);
}

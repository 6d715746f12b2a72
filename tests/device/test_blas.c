#include "base_check.h"
#include "base_skip.h"
#include "blas_memory_impl.h"
#include "device_impl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };

static int (*get_threads)(void);
static void (*set_threads)(int count);

/* The library itself, to look at what the adapter does to it; absent on a machine without
 * OpenBLAS. */
static int find_library(void **state) {
    (void)state;
    void *library = dlopen("libopenblas.so.0", RTLD_LOCAL | RTLD_NOW);
    if (!library) return 0;
    *(void **)&get_threads = dlsym(library, "openblas_get_num_threads");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    return 0;
}

static int unset_choice(void **state) {
    (void)state;
    return unsetenv("MUSTER_BLAS");
}

#define NEED_LIBRARY()                                             \
    do {                                                           \
        if (!get_threads) SKIP("OpenBLAS is not on this machine"); \
    } while (0)

static void before_open_there_is_none_and_a_reason(void **state) {
    (void)state;
    assert_null(mst_blas_get()->sgemm);
    assert_non_null(strstr(mst_blas_get()->description, "not open"));
}

static void opened_it_multiplies(void **state) {
    (void)state;
    NEED_LIBRARY();
    const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    float c[4] = {0};
    const double x[] = {1, 2, 3}, y[] = {4, 5, 6};
    assert_ok(mst_blas_open(false));
    const mst_blas *blas = mst_blas_get();
    assert_non_null(strstr(blas->description, "OpenBLAS"));
    blas->sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    assert_true(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
    assert_true(blas->ddot(3, x, 1, y, 1) == 32);
    mst_blas_close();
    assert_null(mst_blas_get()->sgemm);
}

static void one_thread_from_the_first_open_to_the_last_close(void **state) {
    (void)state;
    NEED_LIBRARY();
    set_threads(2);
    int found = get_threads();
    assert_ok(mst_blas_open(false));
    assert_int_equal(get_threads(), 1);
    assert_ok(mst_blas_open(false));
    mst_blas_close();
    assert_int_equal(get_threads(), 1);
    mst_blas_close();
    assert_int_equal(get_threads(), found);
}

static void the_thread_setting_can_be_declined(void **state) {
    (void)state;
    NEED_LIBRARY();
    set_threads(2);
    int found = get_threads();
    assert_ok(mst_blas_open(true));
    assert_int_equal(get_threads(), found);
    assert_ok(mst_blas_open(false)); /* another runtime that does not decline */
    assert_int_equal(get_threads(), 1);
    mst_blas_close();
    mst_blas_close();
    assert_int_equal(get_threads(), found);
}

static void a_setting_of_the_program_after_open_stays(void **state) {
    (void)state;
    NEED_LIBRARY();
    set_threads(2);
    assert_ok(mst_blas_open(false));
    set_threads(3);
    mst_blas_close();
    assert_int_equal(get_threads(), 3);
}

static void check_absent(const char *choice, const char *reason) {
    setenv("MUSTER_BLAS", choice, 1);
    assert_ok(mst_blas_open(false));
    const mst_blas *blas = mst_blas_get();
    assert_true(!blas->sgemm && !blas->dgemm && !blas->sgemv && !blas->dgemv && !blas->saxpy && !blas->daxpy && !blas->sdot && !blas->ddot);
    if (!strstr(blas->description, reason)) fail_msg("\"%s\" lacks \"%s\"", blas->description, reason);
    assert_refused(mst_blas_take_memory(1, "test"), MUSTER_UNAVAILABLE, "); unset MUSTER_BLAS, or let it name an OpenBLAS");
    mst_blas_close();
}

static void it_can_be_switched_off(void **state) {
    (void)state;
    check_absent("none", "MUSTER_BLAS");
}

static void a_missing_library_leaves_the_loaders_words(void **state) {
    (void)state;
    check_absent("/nowhere/libopenblas.so.0", "/nowhere/libopenblas.so.0");
}

static void a_library_without_the_symbols_is_refused(void **state) {
    (void)state;
    check_absent("libm.so.6", "lacks cblas_sgemm");
}

static void absent_once_is_not_absent_for_ever(void **state) {
    (void)state;
    NEED_LIBRARY();
    check_absent("none", "MUSTER_BLAS");
    unsetenv("MUSTER_BLAS");
    assert_ok(mst_blas_open(false));
    assert_non_null(mst_blas_get()->sgemm);
    mst_blas_close();
}

static void one_close_too_many_does_nothing(void **state) {
    (void)state;
    mst_blas_close();
    assert_ok(mst_blas_open(false));
    mst_blas_close();
    assert_null(mst_blas_get()->sgemm);
}

static void *open_multiply_close(void *failures) {
    const float a[] = {1, 2, 3, 4};
    for (int i = 0; i < 50; i++) {
        float c[4] = {0};
        if (mst_blas_open(false) != MUSTER_OK) ++*(int *)failures;
        const mst_blas *blas = mst_blas_get();
        if (blas->sgemm) {
            blas->sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, 2, 2, 2, 1, a, 2, a, 2, 0, c, 2);
            if (c[0] != 7 || c[3] != 22) ++*(int *)failures;
        }
        mst_blas_close();
    }
    return NULL;
}

static void many_threads_open_and_close(void **state) {
    (void)state;
    pthread_t threads[4];
    int failures[4] = {0};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, open_multiply_close, &failures[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) assert_int_equal(failures[i], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_open_there_is_none_and_a_reason),
        cmocka_unit_test(opened_it_multiplies),
        cmocka_unit_test(one_thread_from_the_first_open_to_the_last_close),
        cmocka_unit_test(the_thread_setting_can_be_declined),
        cmocka_unit_test(a_setting_of_the_program_after_open_stays),
        cmocka_unit_test_teardown(it_can_be_switched_off, unset_choice),
        cmocka_unit_test_teardown(a_missing_library_leaves_the_loaders_words, unset_choice),
        cmocka_unit_test_teardown(a_library_without_the_symbols_is_refused, unset_choice),
        cmocka_unit_test_teardown(absent_once_is_not_absent_for_ever, unset_choice),
        cmocka_unit_test(one_close_too_many_does_nothing),
        cmocka_unit_test(many_threads_open_and_close),
    };
    return cmocka_run_group_tests(tests, find_library, NULL);
}

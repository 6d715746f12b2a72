/* A BLAS that computes wrong products is not used; and one that finds no memory is not asked. */
#include "base_check.h"
#include "blas_memory_impl.h"
#include "device_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_named(const char *part) {
    const char *description = mst_blas_get()->description;
    if (!strstr(description, part)) fail_msg("\"%s\" lacks \"%s\"", description, part);
}

static void check_wrong(const char *function, int size, int ta, int tb) {
    char wrong[64];
    snprintf(wrong, sizeof wrong, "%s %d %d %d", function, size, ta, tb);
    setenv("FAKE_BLAS_WRONG", wrong, 1);
    assert_ok(mst_blas_open(false));
    if (mst_blas_get()->sgemm) fail_msg("%s is not found", wrong);
    assert_null(mst_blas_get()->dgemv);
    assert_named("core type Fakewell");
    assert_named(function);
    snprintf(wrong, sizeof wrong, "%d", size);
    assert_named(wrong);
    assert_refused(mst_blas_take_memory(1, "test"), MUSTER_UNAVAILABLE, "computes wrong products");
    mst_blas_close();
}

static void a_library_that_is_wrong_anywhere_is_not_used(void **state) {
    (void)state;
    static const int sizes[] = {1, 7, 16, 65, 257};
    static const char *const products[] = {"cblas_sgemm", "cblas_dgemm"}, *const vectors[] = {"cblas_sgemv", "cblas_dgemv"};
    int cases = 0;
    setenv("MUSTER_BLAS", FAKE_BLAS, 1);
    for (int i = 0; i < 5; i++)
        for (int wide = 0; wide < 2; wide++)
            for (int ta = 0; ta < 2; ta++) {
                for (int tb = 0; tb < 2; tb++, cases++) check_wrong(products[wide], sizes[i], ta, tb);
                check_wrong(vectors[wide], sizes[i], ta, 0);
                cases++;
            }
    assert_int_equal(cases, 60);
}

static void a_library_that_is_right_is_used(void **state) {
    (void)state;
    unsetenv("FAKE_BLAS_WRONG");
    setenv("MUSTER_BLAS", FAKE_BLAS, 1);
    assert_ok(mst_blas_open(false));
    assert_non_null(mst_blas_get()->sgemm);
    assert_named("OpenBLAS 0.0 of the tests");
    assert_ok(mst_blas_take_memory(64, "test"));
    assert_true(mst_blas_has_memory(64) && !mst_blas_has_memory(65));
    mst_blas_close();
    assert_false(mst_blas_has_memory(1));
}

static rlim_t bytes_mapped(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1) _exit(10);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* threads find room, and one more does not. Under a sanitizer, which maps terabytes, too. */
static void child(int32_t threads) {
    const rlim_t most = bytes_mapped() + (rlim_t)threads * (136 << 20);
    if (setrlimit(RLIMIT_AS, &(struct rlimit){most, most})) _exit(2);
    const muster_status more = mst_blas_take_memory(threads + 1, "test");
    if (more != MUSTER_OUT_OF_MEMORY || !strstr(muster_last_error(), "test: OpenBLAS needs 128 MiB of address space for each of")) _exit(3);
    if (threads > 0 && mst_blas_take_memory(threads, "test") != MUSTER_OK) _exit(4);
    _exit(mst_blas_has_memory(threads) && !mst_blas_has_memory(threads + 1) ? 0 : 5);
}

static void a_product_is_refused_where_its_memory_cannot_be_had(void **state) {
    (void)state;
    unsetenv("FAKE_BLAS_WRONG");
    setenv("MUSTER_BLAS", FAKE_BLAS, 1);
    assert_ok(mst_blas_open(false));
    for (int32_t threads = 0; threads <= 5; threads += 5) {
        int status;
        const pid_t process = fork();
        if (process == 0) child(threads);
        assert_int_equal(waitpid(process, &status, 0), process);
        assert_int_equal(status, 0);
    }
    mst_blas_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_is_wrong_anywhere_is_not_used),
        cmocka_unit_test(a_library_that_is_right_is_used),
        cmocka_unit_test(a_product_is_refused_where_its_memory_cannot_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

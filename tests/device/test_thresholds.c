/* The table of thresholds: which row counts on which machine, and what a file of the user's may
 * hold. */
#include "base_check.h"
#include "thresholds_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

static void write_file(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_file(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/muster-thresholds-%d", (int)getpid());
    return setenv("MUSTER_THRESHOLDS", path, 1);
}
static int remove_file(void **state) {
    (void)state;
    unlink(path);
    return unsetenv("MUSTER_THRESHOLDS");
}

/* On a GPU of this model and capability; capability 0: on a device of another kind. */
static mst_thresholds find(const char *model, int32_t capability) {
    mst_device device = {.capability = capability};
    mst_thresholds found = {.p2p_bytes = -1};
    snprintf(device.name, sizeof device.name, "cuda:3 %s", model);
    assert_ok(mst_thresholds_find(&device, &found));
    return found;
}

/* What the library's own table says of a machine of which it knows nothing. */
static void without_a_file_the_library_has_values(void **state) {
    (void)state;
    const char *none[] = {NULL, ""};
    for (int i = 0; i < 2; i++) {
        none[i] ? setenv("MUSTER_THRESHOLDS", none[i], 1) : unsetenv("MUSTER_THRESHOLDS");
        const mst_thresholds on_gpu = find("NVIDIA of no such model", 90), on_other = find("of the host", 0);
        assert_int_equal(on_gpu.p2p_bytes, 262144);
        assert_int_equal(on_gpu.staged_bytes, 0);
        assert_int_equal(on_gpu.reduced_saved_bytes, 262144);
        assert_memory_equal(&on_gpu, &on_other, sizeof on_gpu);
        assert_ok(mst_thresholds_check());
    }
}

static void the_most_exact_kind_counts(void **state) {
    (void)state;
    write_file("/* measured */\n\n"
               "MST_THRESHOLD(1, p2p_bytes, \"NVIDIA H100 80GB HBM3\") /* 8 GPUs */\n"
               "MST_THRESHOLD(2, p2p_bytes, \"sm_90\")\n"
               " MST_THRESHOLD( 3, p2p_bytes, \"any\" )\r\n"
               "MST_THRESHOLD(9223372036854775807, staged_bytes, \"sm_90\")\n"
               "MST_THRESHOLD(4, reduced_saved_bytes, \"sm_80\")\n"
               "MST_THRESHOLD(5, reduced_saved_bytes, \"sm_80\")"); /* the later one, and no end of a line */
    static const struct {
        const char *model;
        int32_t capability;
        int64_t p2p, staged, reduced;
    } cases[] = {{"NVIDIA H100 80GB HBM3", 90, 1, INT64_MAX, 262144},
                 {"NVIDIA H100 PCIe", 90, 2, INT64_MAX, 262144},
                 {"NVIDIA A100-SXM4-40GB", 80, 3, 0, 5},
                 {"NVIDIA GeForce RTX 4090", 89, 3, 0, 262144},
                 {"NVIDIA H100 80GB HBM", 100, 3, 0, 262144}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mst_thresholds found = find(cases[i].model, cases[i].capability);
        assert_int_equal(found.p2p_bytes, cases[i].p2p);
        assert_int_equal(found.staged_bytes, cases[i].staged);
        assert_int_equal(found.reduced_saved_bytes, cases[i].reduced);
    }
    assert_int_equal(find("NVIDIA H100 80GB HBM3", 0).p2p_bytes, 3);
}

static void lines_that_are_no_rows_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *problem;
    } cases[] = {{"p2p_bytes 1", "line 1: expected a row MST_THRESHOLD(bytes, name, \"kind\"), received \"p2p_bytes 1\""},
                 {"\n\nMST_THRESHOLD(1, p2p_bytes)", "line 3: expected a row"},
                 {"MST_THRESHOLD(1, p2p_bytes, \"any\"", "line 1: expected a row"},
                 {"MST_THRESHOLD(1, p2p_bytes, any)", "line 1: expected a row"},
                 {"MST_THRESHOLD(-1, p2p_bytes, \"any\")", "line 1: expected a number of bytes"},
                 {"MST_THRESHOLD(1 << 18, p2p_bytes, \"any\")", "line 1: expected a number of bytes"},
                 {"MST_THRESHOLD(9223372036854775808, p2p_bytes, \"any\")", "line 1: expected a number of bytes"},
                 {"MST_THRESHOLD(1, P2P_BYTES, \"any\")", "line 1: expected p2p_bytes, staged_bytes or reduced_saved_bytes"},
                 {"MST_THRESHOLD(1, p2p_bytes, \"any\") 2", "line 1: expected nothing after the row"}};
    const mst_thresholds before = {1, 2, 3};
    mst_thresholds found = before;
    int count = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, count++) {
        write_file(cases[i].text);
        assert_refused(mst_thresholds_check(), MUSTER_INVALID_ARGUMENT, cases[i].problem);
        assert_refused(mst_thresholds_find(&(mst_device){.name = "cuda:0"}, &found), MUSTER_INVALID_ARGUMENT, path);
        assert_memory_equal(&found, &before, sizeof found);
    }
    assert_int_equal(count, 9);
    unlink(path);
    assert_refused(mst_thresholds_check(), MUSTER_INVALID_ARGUMENT, "No such file or directory");
    setenv("MUSTER_THRESHOLDS", "/tmp", 1); /* a folder */
    assert_refused(mst_thresholds_check(), MUSTER_INVALID_ARGUMENT, "received '/tmp': Is a directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(without_a_file_the_library_has_values, make_file, remove_file),
                                       cmocka_unit_test_setup_teardown(the_most_exact_kind_counts, make_file, remove_file),
                                       cmocka_unit_test_setup_teardown(lines_that_are_no_rows_are_refused, make_file, remove_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every allocation of creating a kernel may fail: nothing is left, and all goes on working. */
#include "base_check.h"
#include "kernel_private.h"
#include "kernel_texts.h"
#include "runtime_gpus.h"

static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static const char file[] = "#section device\n#define ONE 1\n#section kernels\n#kernel put : *, size :\nKERNEL void put(GLOBAL_MEM ga_int "
                           "*x, ga_size n) { MUSTER_EACH(i, n) x[i] = ONE; }\n"
                           "#kernel nothing::\nKERNEL void nothing() {}\n";

static muster_status load(muster_runtime *runtime, muster_kernel **kernels) {
    int32_t count;
    return muster_kernels_parse(runtime, "f", file, sizeof file - 1, NULL, 0, kernels, 2, &count);
}

static void kernels_come_whole_or_not_at_all(void **state) {
    (void)state;
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_kernel *kernels[2] = {NULL, NULL};
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.log = no_log;
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(load(runtime, kernels)); /* what is made once, and the cache's entries */
    assert_ok(muster_kernel_destroy(kernels[0]));
    assert_ok(muster_kernel_destroy(kernels[1]));
    const int64_t live = mst_memory_live(), before = mst_memory_count();
    assert_ok(load(runtime, kernels));
    const int64_t allocations = mst_memory_count() - before, step = allocations > 60 ? allocations / 60 : 1;
    assert_ok(muster_kernel_destroy(kernels[0]));
    assert_ok(muster_kernel_destroy(kernels[1]));
    assert_int_equal(mst_memory_live(), live);
    int refused = 0;
    for (int64_t k = 1; k <= allocations; k += step) {
        mst_memory_fail_at(k);
        muster_status status = load(runtime, kernels);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) { /* what can do without */
            assert_ok(muster_kernel_destroy(kernels[0]));
            assert_ok(muster_kernel_destroy(kernels[1]));
        } else {
            if (status != MUSTER_OUT_OF_MEMORY) fail_msg("allocation %lld: %s", (long long)k, muster_last_error());
            assert_null(kernels[0]);
            assert_null(kernels[1]);
            refused++;
        }
        mst_create_log_set(NULL);
        assert_int_equal(mst_memory_live(), live);
    }
    assert_true(refused > 0);
    const muster_grid grid = {.dims = 1, .groups = {1}, .threads = {1}};
    assert_ok(load(runtime, kernels));
    assert_ok(muster_kernel_call(kernels[1], &grid, NULL, 0));
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_come_whole_or_not_at_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Groups: local memory, static and dynamic, barriers, atomics. */
#include "kernel_fixture.h"

#include <stdlib.h>

static muster_runtime *runtime;

static int open_all(void **state) {
    (void)state;
    runtime = kernel_open("host:1");
    return 0;
}
static int close_all(void **state) {
    (void)state;
    fixture_close(runtime);
    return 0;
}

#define B(array) muster_argument_buffer((array).view)

static void groups_sum_in_local_memory(void **state) {
    (void)state;
    static const float expected[] = {2016, 6112, 10208, 14304};
    float x[256], sums[4];
    for (int i = 0; i < 256; i++) x[i] = (float)i;
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        const int64_t threads = 64;
        muster_kernel_options options;
        muster_kernel_options_init(&options);
        options.threads = &threads;
        options.thread_count = 1;
        muster_kernel *kernel = kernel_make_with(runtime, dynamic ? "tree_dynamic" : "tree_static", &options);
        kernel_array from = kernel_put(runtime, 0, MUSTER_F32, 256, x), to = kernel_put(runtime, 0, MUSTER_F32, 4, NULL);
        muster_grid grid = kernel_grid(4, 64);
        grid.local_bytes = dynamic ? 64 * (int64_t)sizeof(float) : 0;
        assert_ok(muster_kernel_call(kernel, &grid, ARGUMENTS(B(from), B(to))));
        kernel_get(&to, sums);
        assert_memory_equal(sums, expected, sizeof expected);
        kernel_drop(&from);
        kernel_drop(&to);
        assert_ok(muster_kernel_destroy(kernel));
    }
}

static void a_group_barrier_orders_global_memory(void **state) {
    (void)state;
    enum { GROUPS = 3, THREADS = 32 };
    int32_t y[GROUPS * THREADS];
    muster_kernel *kernel = kernel_make(runtime, "pass_on");
    kernel_array from = kernel_put(runtime, 0, MUSTER_I32, GROUPS * THREADS, NULL),
                 to = kernel_put(runtime, 0, MUSTER_I32, GROUPS * THREADS, NULL);
    const muster_grid grid = kernel_grid(GROUPS, THREADS);
    assert_ok(muster_kernel_call(kernel, &grid, ARGUMENTS(B(from), B(to))));
    kernel_get(&to, y);
    for (int i = 0; i < GROUPS * THREADS; i++) assert_int_equal(y[i], i / THREADS * THREADS + (i + 1) % THREADS);
    kernel_drop(&from);
    kernel_drop(&to);
    assert_ok(muster_kernel_destroy(kernel));
}

/* Each value from 0 to n - 1 once: what was there before each addition. */
static void check_permutation(const double *old, int n, const char *what) {
    char *seen = calloc(1, (size_t)n);
    assert_non_null(seen);
    for (int i = 0; i < n; i++) {
        if (!(old[i] >= 0 && old[i] < n) || old[i] != (double)(int)old[i] || seen[(int)old[i]])
            fail_msg("%s: thread %d got %g", what, i, old[i]);
        seen[(int)old[i]] = 1;
    }
    free(seen);
}

static void atomic_additions_are_exact_and_give_the_old_value(void **state) {
    (void)state;
    enum { N = 10000 };
    static int32_t old_i[N];
    static float old_f[N];
    static double old_d[N], old[N];
    int32_t i;
    uint32_t I;
    int64_t l;
    uint64_t L;
    float f;
    double d;
    muster_kernel *kernel = kernel_make(runtime, "count_all");
    kernel_array ai = kernel_put(runtime, 0, MUSTER_I32, 1, NULL), aI = kernel_put(runtime, 0, MUSTER_U32, 1, NULL),
                 al = kernel_put(runtime, 0, MUSTER_I64, 1, NULL), aL = kernel_put(runtime, 0, MUSTER_U64, 1, NULL),
                 af = kernel_put(runtime, 0, MUSTER_F32, 1, NULL), ad = kernel_put(runtime, 0, MUSTER_F64, 1, NULL),
                 oi = kernel_put(runtime, 0, MUSTER_I32, N, NULL), of = kernel_put(runtime, 0, MUSTER_F32, N, NULL),
                 od = kernel_put(runtime, 0, MUSTER_F64, N, NULL);
    kernel_array *all[] = {&ai, &aI, &al, &aL, &af, &ad, &oi, &of, &od};
    const muster_grid grid = kernel_grid(16, 64);
    assert_ok(muster_kernel_call(kernel, &grid,
                                 ARGUMENTS(B(ai), B(aI), B(al), B(aL), B(af), B(ad), B(oi), B(of), B(od), muster_argument_size(N))));
    kernel_get(&ai, &i), kernel_get(&aI, &I), kernel_get(&al, &l), kernel_get(&aL, &L), kernel_get(&af, &f), kernel_get(&ad, &d);
    assert_true(i == N && I == N && l == N && L == N && f == N && d == N);
    kernel_get(&oi, old_i), kernel_get(&of, old_f), kernel_get(&od, old_d);
    for (int t = 0; t < N; t++) old[t] = old_i[t];
    check_permutation(old, N, "i32");
    for (int t = 0; t < N; t++) old[t] = (double)old_f[t];
    check_permutation(old, N, "f32");
    check_permutation(old_d, N, "f64");
    for (size_t a = 0; a < sizeof all / sizeof *all; a++) kernel_drop(all[a]);
    assert_ok(muster_kernel_destroy(kernel));
}

/* At an odd place, too, where the other half of the word must stay. */
static void half_additions_are_exact(void **state) {
    (void)state;
    enum { N = 2048 };
    static uint16_t old_bits[N];
    static double old[N];
    muster_kernel *kernel = kernel_make(runtime, "count_half");
    for (int place = 0; place < 3; place++) {
        uint16_t e[3] = {0x1234, 0x5678, 0x4321};
        e[place] = 0;
        kernel_array count = kernel_put(runtime, 0, MUSTER_F16, 3, e), before = kernel_put(runtime, 0, MUSTER_F16, N, NULL);
        muster_tensor one = count.view;
        one.byte_offset += 2 * place;
        one.shape[0] = 1;
        assert_ok(muster_kernel_call_elements(kernel, N, 0, ARGUMENTS(muster_argument_buffer(one), B(before), muster_argument_size(N))));
        kernel_get(&count, e);
        kernel_get(&before, old_bits);
        assert_int_equal(e[place], muster_f32_to_f16(N));
        assert_int_equal(e[(place + 1) % 3], place == 0 ? 0x5678 : place == 1 ? 0x4321 : 0x1234);
        for (int t = 0; t < N; t++) old[t] = (double)muster_f16_to_f32(old_bits[t]);
        check_permutation(old, N, "f16");
        kernel_drop(&count);
        kernel_drop(&before);
    }
    assert_ok(muster_kernel_destroy(kernel));
}

static void atomics_work_in_local_memory(void **state) {
    (void)state;
    static const double expected[] = {32, 64, 96, 128, 160, 192, 7, 32};
    double out[8];
    muster_kernel *kernel = kernel_make(runtime, "count_local");
    kernel_array o = kernel_put(runtime, 0, MUSTER_F64, 8, NULL);
    const muster_grid grid = kernel_grid(1, 32);
    assert_ok(muster_kernel_call(kernel, &grid, ARGUMENTS(B(o))));
    kernel_get(&o, out);
    for (int i = 0; i < 8; i++) assert_true(out[i] == expected[i]);
    kernel_drop(&o);
    assert_ok(muster_kernel_destroy(kernel));
}

static void exchanges_give_the_old_value(void **state) {
    (void)state;
    static const double expected[] = {
        1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 17, 31 + 32 + 33 + 34 + 35 + 36 + 37, 21 + 22 + 23 + 24 + 25 + 26 + 27};
    const int32_t i = 1;
    const uint32_t I = 2;
    const int64_t l = 3;
    const uint64_t L = 4;
    const float f = 5;
    const double d = 6;
    const uint16_t e = 0x4700;
    double out[16];
    muster_kernel *kernel = kernel_make(runtime, "exchange");
    kernel_array o = kernel_put(runtime, 0, MUSTER_F64, 16, NULL), ai = kernel_put(runtime, 0, MUSTER_I32, 1, &i),
                 aI = kernel_put(runtime, 0, MUSTER_U32, 1, &I), al = kernel_put(runtime, 0, MUSTER_I64, 1, &l),
                 aL = kernel_put(runtime, 0, MUSTER_U64, 1, &L), af = kernel_put(runtime, 0, MUSTER_F32, 1, &f),
                 ad = kernel_put(runtime, 0, MUSTER_F64, 1, &d), ae = kernel_put(runtime, 0, MUSTER_F16, 1, &e);
    kernel_array *all[] = {&o, &ai, &aI, &al, &aL, &af, &ad, &ae};
    const muster_grid grid = kernel_grid(1, 1);
    assert_ok(muster_kernel_call(kernel, &grid, ARGUMENTS(B(o), B(ai), B(aI), B(al), B(aL), B(af), B(ad), B(ae))));
    kernel_get(&o, out);
    for (int n = 0; n < 16; n++)
        if (out[n] != expected[n]) fail_msg("%d: %g, not %g", n, out[n], expected[n]);
    for (size_t a = 0; a < sizeof all / sizeof *all; a++) kernel_drop(all[a]);
    assert_ok(muster_kernel_destroy(kernel));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_sum_in_local_memory),
        cmocka_unit_test(a_group_barrier_orders_global_memory),
        cmocka_unit_test(atomic_additions_are_exact_and_give_the_old_value),
        cmocka_unit_test(half_additions_are_exact),
        cmocka_unit_test(atomics_work_in_local_memory),
        cmocka_unit_test(exchanges_give_the_old_value),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

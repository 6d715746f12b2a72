/* Many at the same time: threads that launch one kernel with different arguments, that create the
 * same kernel, two runtimes, eight workers; equal texts with other parameters. */
#include "kernel_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#ifdef MUSTER_TEST_SANITIZED
enum { LAUNCHES = 400 };
#else
enum { LAUNCHES = 10000 };
#endif
/* A launch on the simulated machine takes milliseconds. */
static int launches(void) { return on_gpus() && LAUNCHES > 800 ? 800 : LAUNCHES; }
enum { THREADS = 4 };

static void equal_texts_with_other_parameters_are_two_kernels(void **state) {
    (void)state;
    muster_runtime *runtime = kernel_open("host:1");
    static const int32_t narrow[] = {MUSTER_PARAMETER_BUFFER, MUSTER_I32}, wide[] = {MUSTER_PARAMETER_BUFFER, MUSTER_I64};
    /* The declarations decide which arguments are taken, also where the texts are equal. */
    const kernel_text *text = kernel_text_find("same_name");
    muster_kernel *first, *second, *third;
    assert_ok(muster_kernel_create(runtime, "same_name", text->source, narrow, 2, NULL, &first));
    assert_ok(muster_kernel_create(runtime, "same_name", text->source, narrow, 2, NULL, &second));
    assert_ptr_not_equal(first, second);
    kernel_array x = kernel_put(runtime, 0, MUSTER_I32, 1, NULL), y = kernel_put(runtime, 0, MUSTER_I32, 1, NULL);
    const muster_grid grid = kernel_grid(1, 1);
    assert_ok(muster_kernel_call(first, &grid, ARGUMENTS(muster_argument_buffer(x.view), muster_argument_int(MUSTER_I32, 5))));
    assert_ok(muster_kernel_call(second, &grid, ARGUMENTS(muster_argument_buffer(y.view), muster_argument_int(MUSTER_I32, 6))));
    int32_t a, b;
    kernel_get(&x, &a), kernel_get(&y, &b);
    assert_true(a == 5 && b == 6);
    assert_ok(muster_kernel_destroy(first));
    assert_ok(muster_kernel_call(second, &grid, ARGUMENTS(muster_argument_buffer(y.view), muster_argument_int(MUSTER_I32, 7))));
    kernel_get(&y, &b);
    assert_int_equal(b, 7);
    assert_ok(muster_kernel_create(
        runtime, "same_name",
        "typedef ga_long wide;\nKERNEL void same_name(GLOBAL_MEM ga_int *out, wide value) { out[0] = sizeof(value); }\n", wide, 2, NULL,
        &third));
    assert_refused(muster_kernel_call(third, &grid, ARGUMENTS(muster_argument_buffer(y.view), muster_argument_int(MUSTER_I32, 7))),
                   MUSTER_INVALID_ARGUMENT, "expected i64, received i32");
    assert_ok(muster_kernel_call(third, &grid, ARGUMENTS(muster_argument_buffer(y.view), muster_argument_int(MUSTER_I64, 7))));
    kernel_get(&y, &b);
    assert_int_equal(b, 8);
    kernel_drop(&x);
    kernel_drop(&y);
    fixture_close(runtime); /* with kernels left */
}

typedef struct caller {
    muster_runtime *runtime;
    muster_kernel *kernel;
    kernel_array array;
    int32_t number;
    _Atomic int failed;
} caller;

static void *call_often(void *argument) {
    caller *c = argument;
    const muster_grid grid = kernel_grid(1, 1);
    for (int i = 0; i < launches() / THREADS; i++)
        if (muster_kernel_call(c->kernel, &grid,
                               ARGUMENTS(muster_argument_buffer(c->array.view), muster_argument_int(MUSTER_I32, c->number * LAUNCHES + i))))
            atomic_store(&c->failed, 1);
    return NULL;
}

static void arguments_of_threads_do_not_mix(void **state) {
    (void)state;
    muster_runtime *runtime = kernel_open("host:2");
    muster_kernel *kernel = kernel_make(runtime, "same_name");
    caller callers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        callers[i] =
            (caller){.runtime = runtime, .kernel = kernel, .array = kernel_put(runtime, i % 2, MUSTER_I32, 1, NULL), .number = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        int32_t value;
        pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&callers[i].failed), 0);
        kernel_get(&callers[i].array, &value);
        assert_int_equal(value, callers[i].number * LAUNCHES + launches() / THREADS - 1);
        kernel_drop(&callers[i].array);
    }
    fixture_close(runtime);
}

/* Eight workers launch at once, many times, each with arguments of its own. */
static muster_status fill_rows(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in;
    const uint64_t n = (uint64_t)muster_tensor_count(out[0]);
    for (int i = 0; i < 30; i++)
        MUSTER_TRY(muster_kernel_launch_elements(w, user, (int64_t)n, 0,
                                                 ARGUMENTS(muster_argument_buffer(out[0]), muster_argument_size(n),
                                                           muster_argument_int(MUSTER_I32, 100 * i + muster_worker_rank(w)))));
    return MUSTER_OK;
}

static void check_rows(muster_runtime *runtime, muster_kernel *kernel, int devices) {
    enum { N = 100 };
    int32_t rows[8 * N] = {0}, values[8 * N];
    muster_function *function;
    assert_ok(muster_function_create(runtime, "fill_rows", fill_rows, kernel, &function));
    assert_ok(muster_function_input(function, "x", MUSTER_I32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(function, "y", MUSTER_I32, 1, MUSTER_GATHER));
    for (int round = 0; round < 5; round++) {
        memset(values, 0, sizeof values);
        assert_ok(muster_function_call(function, (muster_tensor[]){muster_i32(rows, devices * N)}, 1,
                                       (muster_tensor[]){muster_i32(values, devices * N)}, 1, NULL));
        for (int i = 0; i < devices * N; i++) assert_int_equal(values[i], 2900 + i / N);
    }
    assert_ok(muster_function_destroy(function));
}

static void eight_workers_launch_at_once(void **state) {
    (void)state;
    muster_runtime *runtime = kernel_open("host:8");
    check_rows(runtime, kernel_make(runtime, "fill"), 8);
    fixture_close(runtime);
}

typedef struct maker {
    muster_runtime *runtime;
    muster_kernel *kernels[3];
    int failed;
    char message[300];
} maker;

static void *make_often(void *argument) {
    maker *m = argument;
    const kernel_text *text = kernel_text_find("fill");
    for (int i = 0; i < 3; i++)
        if (muster_kernel_create(m->runtime, "fill", text->source, text->parameters, text->parameter_count, NULL, &m->kernels[i]) !=
            MUSTER_OK) {
            m->failed = 1;
            snprintf(m->message, sizeof m->message, "%s", muster_last_error());
        }
    return NULL;
}

static void threads_of_two_runtimes_create_the_same_kernel(void **state) {
    (void)state;
    muster_runtime *runtimes[2] = {kernel_open("host:2"), kernel_open("host:3")};
    maker makers[THREADS];
    pthread_t threads[THREADS];
    memset(makers, 0, sizeof makers);
    for (int i = 0; i < THREADS; i++) {
        makers[i].runtime = runtimes[i % 2];
        assert_int_equal(pthread_create(&threads[i], NULL, make_often, &makers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        if (makers[i].failed) fail_msg("%s", makers[i].message);
        for (int k = 0; k < 3; k++) {
            check_rows(makers[i].runtime, makers[i].kernels[k], 2 + i % 2);
            if (k != 1) assert_ok(muster_kernel_destroy(makers[i].kernels[k]));
        }
    }
    fixture_close(runtimes[0]);
    fixture_close(runtimes[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts_with_other_parameters_are_two_kernels),
        cmocka_unit_test(arguments_of_threads_do_not_mix),
        cmocka_unit_test(eight_workers_launch_at_once),
        cmocka_unit_test(threads_of_two_runtimes_create_the_same_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

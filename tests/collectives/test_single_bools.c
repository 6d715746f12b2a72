/* Reductions of bools on one rank, where other reductions are copies: whatever is not 0 becomes 1,
 * as on several. */
#include "collectives_values.h"

typedef muster_status (*reduction)(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output);

static muster_status all_reduce(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output) {
    return muster_worker_all_reduce(w, NULL, op, input, output);
}
static muster_status reduce(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output) {
    return muster_worker_reduce(w, NULL, op, 0, input, output);
}
static muster_status reduce_scatter(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output) {
    return muster_worker_reduce_scatter(w, NULL, op, input, output);
}
static muster_status shards(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output) {
    return muster_worker_all_reduce_shards(w, NULL, op, muster_tensor_reshape(input, 2, (int64_t[]){1, input.shape[0]}), output);
}
static muster_status in_group(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output) {
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, op, input, output));
    return muster_worker_group_end(w, NULL);
}

static muster_status normalises_task(muster_worker *w, void *argument) {
    reduction run = *(reduction *)argument;
    uint8_t bytes[6] = {0, 1, 2, 127, 128, 255}, ones[6] = {0, 1, 1, 1, 1, 1};
    int64_t count = 6;
    muster_tensor host = muster_tensor_make(MUSTER_BOOL, bytes, 1, &count), expected = muster_tensor_make(MUSTER_BOOL, ones, 1, &count);
    static const muster_reduction ops[] = {MUSTER_MAX, MUSTER_MIN, MUSTER_PROD}; /* sum and avg of bool are refused */
    for (size_t i = 0; i < 3; i++) {
        muster_tensor input = values_copy(w, host), output = muster_worker_scratch(w, MUSTER_BOOL, 1, &count);
        MUSTER_TRY(run(w, ops[i], input, output));
        MUSTER_TRY(values_same(w, output, expected));
        MUSTER_TRY(values_same(w, input, host));
    }
    return MUSTER_OK;
}

static void normalises(reduction run) {
    for (int32_t host = 0; host < 2; host++) {
        collectives_pool c;
        collectives_open(&c, host, 1 - host);
        assert_ok(collectives_run(&c, normalises_task, &run));
        collectives_close(&c);
    }
}

static void test_all_reduce(void **state) { (void)state, normalises(all_reduce); }
static void test_reduce(void **state) { (void)state, normalises(reduce); }
static void test_reduce_scatter(void **state) { (void)state, normalises(reduce_scatter); }
static void test_shards(void **state) { (void)state, normalises(shards); }
static void test_in_a_group(void **state) { (void)state, normalises(in_group); }

static muster_status in_place_task(muster_worker *w, void *argument) {
    (void)argument;
    uint8_t bytes[3] = {0, 2, 1}, ones[3] = {0, 1, 1};
    int64_t count = 3;
    muster_tensor x = values_copy(w, muster_tensor_make(MUSTER_BOOL, bytes, 1, &count));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_MAX, x, x));
    return values_same(w, x, muster_tensor_make(MUSTER_BOOL, ones, 1, &count));
}

static void test_in_place(void **state) {
    (void)state;
    values_run_on(in_place_task, NULL, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce), cmocka_unit_test(test_reduce),     cmocka_unit_test(test_reduce_scatter),
        cmocka_unit_test(test_shards),     cmocka_unit_test(test_in_a_group), cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

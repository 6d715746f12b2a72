/* Reductions of bools on one rank, where other reductions are copies, and on two: whatever is not 0
 * becomes 1. */
#include "collectives_values.h"

typedef muster_status (*reduction)(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output);

static muster_status all_reduce(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output) {
    return muster_worker_all_reduce(w, NULL, op, input, output);
}
static muster_status reduce(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output) {
    MUSTER_TRY(muster_worker_reduce(w, NULL, op, 0, input, muster_worker_rank(w) == 0 ? output : muster_tensor_none()));
    return muster_worker_broadcast(w, NULL, 0, output, output);
}
static muster_status reduce_scatter(muster_worker *w, muster_reduction op, muster_tensor input, muster_tensor output) {
    const int64_t all = input.shape[0] * muster_worker_size(w);
    muster_tensor blocks;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_BOOL, 1, &all, &blocks));
    for (int32_t r = 0; r < muster_worker_size(w); r++)
        MUSTER_TRY(muster_copy(w, input, muster_tensor_slice(blocks, r * input.shape[0], (r + 1) * input.shape[0])));
    return muster_worker_reduce_scatter(w, NULL, op, blocks, output);
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
        muster_tensor input = values_copy(w, host);
        muster_tensor output;
        MUSTER_TRY(muster_worker_scratch(w, MUSTER_BOOL, 1, &count, &output));
        MUSTER_TRY(run(w, ops[i], input, output));
        MUSTER_TRY(values_same(w, output, expected));
        MUSTER_TRY(values_same(w, input, host));
    }
    return MUSTER_OK;
}

static void normalises(reduction run) {
    static const int32_t pools[][2] = {{0, 1}, {1, 0}, {0, 2}, {2, 0}};
    for (size_t p = 0; p < sizeof pools / sizeof *pools; p++) {
        collectives_pool c;
        collectives_open(&c, pools[p][0], pools[p][1]);
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
    values_run_on(in_place_task, NULL, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce), cmocka_unit_test(test_reduce),     cmocka_unit_test(test_reduce_scatter),
        cmocka_unit_test(test_shards),     cmocka_unit_test(test_in_a_group), cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Bodies that divide work by rank and size under logical shards: they would run once per shard with
 * the rank of the device, so a function to which nothing is scattered must say how it runs. */
#include "function_fixture.h"

enum { WORK = 1000, SHARDS = 6 };

/* The number of items of this worker's part of the work. */
static muster_status by_rank(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t rank = muster_worker_rank(w), size = muster_worker_size(w);
    (void)in, (void)user;
    *(int64_t *)muster_tensor_address(out[0]) = WORK * (rank + 1) / size - WORK * rank / size;
    return MUSTER_OK;
}
static muster_status by_shard(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t shard = muster_worker_shard(w), shards = muster_worker_shards(w);
    (void)in, (void)user;
    *(int64_t *)muster_tensor_address(out[0]) = WORK * (shard + 1) / shards - WORK * shard / shards;
    return MUSTER_OK;
}

static muster_function *counting(muster_runtime *runtime, muster_body body, bool scatters) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "count", body, NULL, &f));
    if (scatters) assert_ok(muster_function_input(f, "x", MUSTER_F32, 1, MUSTER_SCATTER));
    assert_ok(muster_function_output(f, "n", MUSTER_I64, 0, MUSTER_SUM));
    return f;
}

static muster_status count_with(muster_function *f, int64_t *n) {
    *n = -1;
    return muster_function_call(f, NULL, 0, (muster_tensor[]){muster_i64(n)}, 1, NULL);
}

static void a_function_that_scatters_nothing_must_say_how_it_runs(void **state) {
    int32_t refused = 0;
    int64_t n;
    (void)state;
    for (int32_t devices = 1; devices <= 3; devices++, refused++) {
        char expected[512];
        muster_runtime *runtime = fixture_open_shards("host", devices, SHARDS);
        muster_function *f = counting(runtime, by_rank, false);
        snprintf(expected, sizeof expected,
                 "muster_function_call: function 'count' scatters nothing, and its body would run once for each of 6 logical shards, while "
                 "rank and size are those of %d device%s: expected muster_function_set_shards_together with 0, and a body that divides "
                 "work by muster_worker_shard and muster_worker_shards, or with 1",
                 (int)devices, devices == 1 ? "" : "s");
        assert_refused(count_with(f, &n), MUSTER_UNSUPPORTED, expected);
        assert_refused(muster_function_call_single(f, NULL, 0, (muster_tensor[]){muster_i64(&n)}, 1, NULL), MUSTER_UNSUPPORTED,
                       "function 'count' scatters nothing");
        assert_ok(muster_function_set_shards_together(f, 1)); /* a refused call has not sealed it */
        assert_ok(count_with(f, &n));
        assert_int_equal(n, WORK);
        fixture_close(runtime);
    }
    assert_int_equal(refused, 3);
}

static void what_has_said_so_runs(void **state) {
    int32_t counted = 0;
    int64_t n;
    (void)state;
    for (int32_t devices = 1; devices <= 6; devices++) {
        if (SHARDS % devices) continue;
        for (int32_t together = 0; together < 2; together++, counted++) {
            muster_runtime *runtime = fixture_open_shards("host", devices, SHARDS);
            muster_function *f = counting(runtime, together ? by_rank : by_shard, false);
            assert_ok(muster_function_set_shards_together(f, together));
            assert_ok(count_with(f, &n));
            assert_int_equal(n, WORK);
            fixture_close(runtime);
        }
    }
    assert_int_equal(counted, 8);
}

/* As many shards as devices, and rows that say whose they are, need no choice. */
static void no_choice_is_needed_where_both_are_one(void **state) {
    int64_t n;
    float x[SHARDS] = {0};
    (void)state;
    muster_runtime *runtime = fixture_open_shards("host", 3, 3);
    assert_ok(count_with(counting(runtime, by_rank, false), &n));
    assert_int_equal(n, WORK);
    fixture_close(runtime);
    runtime = fixture_open_shards("host", 3, SHARDS);
    muster_function *f = counting(runtime, by_shard, true);
    assert_ok(muster_function_call(f, (muster_tensor[]){muster_f32(x, SHARDS)}, 1, (muster_tensor[]){muster_i64(&n)}, 1, NULL));
    assert_int_equal(n, WORK);
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_that_scatters_nothing_must_say_how_it_runs),
        cmocka_unit_test(what_has_said_so_runs),
        cmocka_unit_test(no_choice_is_needed_where_both_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The reference cases of the parameter server, for 1, 2, 3, 4 and 8 workers, in f32 and f64: the
 * initial patchwork, the rules, sums over all workers, the rule of the shards, atomicity of each
 * shard, the order of one client, refusals, and initial values. */
#include "server_fixture.h"

enum { N1 = 1024, N2 = 911 * 101, REPEATS = 100 };
static const muster_dtype dtypes[] = {MUSTER_F32, MUSTER_F64};

typedef struct world {
    muster_runtime *runtime;
    muster_server *server;
    int32_t size, act; /* act: which case */
    muster_dtype dtype;
    int64_t n;
    muster_tensor mine[8]; /* host memory of each rank */
} world;

static muster_tensor make(muster_dtype dtype, int64_t n) {
    return muster_tensor_make(dtype, test_malloc((size_t)(n * muster_dtype_size(dtype))), 1, &n);
}

static void open_world(world *t, int32_t size, muster_dtype dtype, int64_t n) {
    *t = (world){.runtime = fixture_open("host", size), .size = size, .dtype = dtype, .n = n};
    for (int32_t r = 0; r < size; r++) t->mine[r] = make(dtype, n);
}

static void close_world(world *t) {
    for (int32_t r = 0; r < t->size; r++) test_free(t->mine[r].data);
    fixture_close(t->runtime);
}

#define for_each_world(t, n)                      \
    for (int k_ = 0; k_ < 2 * SERVER_SIZES; k_++) \
        for (int once_ = (open_world(t, server_sizes[k_ / 2], dtypes[k_ % 2], n), 1); once_; once_ = (close_world(t), 0))

static double least(muster_tensor tensor) {
    double found = server_get(tensor, 0);
    for (int64_t i = 1; i < muster_tensor_count(tensor); i++) found = server_get(tensor, i) < found ? server_get(tensor, i) : found;
    return found;
}

static double most(muster_tensor tensor) {
    double found = server_get(tensor, 0);
    for (int64_t i = 1; i < muster_tensor_count(tensor); i++) found = server_get(tensor, i) > found ? server_get(tensor, i) : found;
    return found;
}

static bool all_are(muster_tensor tensor, double number) { return least(tensor) == number && most(tensor) == number; }

#define expect(condition)                                                          \
    do {                                                                           \
        if (!(condition)) return muster_fail(MUSTER_USER, "expected " #condition); \
    } while (0)

/* ---- PS-1 ---- */

static muster_status receive_patchwork(muster_worker *w, void *user) {
    world *t = user;
    const int32_t rank = muster_worker_rank(w);
    muster_client *client;
    muster_request *request;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    server_fill(t->mine[rank], 0);
    MUSTER_TRY(muster_client_receive(client, 0, t->mine[rank], &request));
    MUSTER_TRY(muster_request_wait(&request));
    expect(least(t->mine[rank]) == 0 && most(t->mine[rank]) == t->size - 1);
    for (int32_t s = 0; s < t->size; s++) {
        int64_t first, count;
        MUSTER_TRY(muster_server_shard(t->server, 0, s, &first, &count));
        for (int64_t i = first; i < first + count; i++) expect(server_get(t->mine[rank], i) == s);
    }
    return MUSTER_OK;
}

static void each_shard_begins_as_its_own_rank_had_it(void **state) {
    (void)state;
    world t;
    for_each_world(&t, N1) {
        muster_variable *v;
        muster_server_options options;
        muster_server_options_init(&options);
        options.initial = MUSTER_INITIAL_OWN;
        assert_ok(muster_variable_create(t.runtime, "v", t.mine[0], &v));
        for (int32_t r = 0; r < t.size; r++) {
            server_fill(t.mine[r], r);
            assert_ok(muster_variable_set(v, r, t.mine[r]));
        }
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            assert_ok(muster_server_create_from(t.runtime, "p", &v, 1, &options, &t.server));
            assert_ok(server_run(t.runtime, receive_patchwork, &t));
            assert_ok(muster_server_destroy(t.server));
        }
    }
}

/* ---- PS-2 to PS-5 ---- */

static muster_status send_all(muster_client *client, muster_rule rule, muster_tensor tensor) {
    muster_request *request;
    MUSTER_TRY(muster_client_send(client, 0, rule, 0, tensor, 0, &request));
    return muster_request_wait(&request);
}

static muster_status run_case(muster_worker *w, void *user) {
    world *t = user;
    const int32_t rank = muster_worker_rank(w), last = t->size - 1;
    const muster_tensor mine = t->mine[rank];
    const double expected[] = {123, 0, last, last + t->size * (t->size - 1) / 2};
    muster_client *client;
    muster_request *request;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    if (t->act == 1) server_fill(mine, -1);
    if (t->act == 2) server_fill(mine, last);
    if (t->act == 3) server_fill(mine, rank);
    if (t->act == 1 && rank == last) MUSTER_TRY(send_all(client, MUSTER_RULE_ZERO, mine));
    if (t->act >= 2 && rank == last) MUSTER_TRY(send_all(client, MUSTER_RULE_COPY, mine));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    if (t->act == 3) MUSTER_TRY(send_all(client, MUSTER_RULE_ADD, mine));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    server_fill(mine, -5);
    MUSTER_TRY(muster_client_receive(client, 0, mine, &request));
    MUSTER_TRY(muster_request_wait(&request));
    expect(all_are(mine, expected[t->act]));
    return MUSTER_OK;
}

static void run_cases(int64_t n, int repeats) {
    world t;
    for_each_world(&t, n) {
        server_fill(t.mine[0], 123);
        const muster_tensor initial = make(t.dtype, n);
        server_fill(initial, 123);
        for (int repeat = 0; repeat < repeats; repeat++) {
            t.server = server_of(t.runtime, initial, 0, 0);
            t.act = repeat % 4;
            assert_ok(server_run(t.runtime, run_case, &t));
            assert_ok(muster_server_destroy(t.server));
        }
        test_free(initial.data);
    }
}

static void rules_act_on_every_shard_and_everybody_sees_it(void **state) {
    (void)state;
    run_cases(N2, 4);
    run_cases(N1, REPEATS);
}

/* ---- PS-6 ---- */

static void assert_shards(int64_t n, int32_t shards, const int64_t *counts) {
    muster_runtime *runtime = fixture_open("host", 1);
    float *zeros = test_calloc((size_t)n + 1, sizeof *zeros);
    muster_server *server = server_of(runtime, muster_f32(zeros, n), shards, 0);
    int64_t at = 0;
    assert_int_equal(muster_server_shards(server), shards);
    assert_int_equal(muster_server_elements(server, 0), n);
    for (int32_t s = 0; s < shards; s++) {
        int64_t first, count;
        assert_ok(muster_server_shard(server, 0, s, &first, &count));
        assert_int_equal(first, at);
        assert_int_equal(count, counts[s]);
        at += count;
    }
    assert_int_equal(at, n);
    test_free(zeros);
    fixture_close(runtime);
}

static void the_first_shards_are_one_longer(void **state) {
    (void)state;
    assert_shards(10, 4, (int64_t[]){3, 3, 2, 2});
    assert_shards(92011, 4, (int64_t[]){23003, 23003, 23003, 23002});
    assert_shards(92011, 8, (int64_t[]){11502, 11502, 11502, 11501, 11501, 11501, 11501, 11501});
    assert_shards(1024, 3, (int64_t[]){342, 341, 341});
    assert_shards(3, 4, (int64_t[]){1, 1, 1, 0});
    assert_shards(0, 2, (int64_t[]){0, 0});
}

/* ---- PS-7 ---- */

enum { ADDS = 1000 };

static muster_status add_ones_and_look(muster_worker *w, void *user) {
    world *t = user;
    const int32_t rank = muster_worker_rank(w);
    double seen[8] = {0};
    const muster_tensor one = make(t->dtype, t->n), mine = t->mine[rank];
    muster_client *client;
    MUSTER_TRY(muster_worker_client(w, t->server, &client));
    server_fill(one, 1);
    for (int k = 0; k < ADDS; k++) {
        MUSTER_TRY(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, one, 0, NULL));
        if (k % 10) continue;
        MUSTER_TRY(muster_client_receive(client, 0, mine, NULL));
        for (int32_t s = 0; s < t->size; s++) {
            int64_t first, count;
            MUSTER_TRY(muster_server_shard(t->server, 0, s, &first, &count));
            const double number = server_get(mine, first);
            for (int64_t i = first; i < first + count; i++) expect(server_get(mine, i) == number);
            expect(number == (int64_t)number && number >= k + 1 && number <= t->size * ADDS && number >= seen[s]);
            seen[s] = number;
        }
    }
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(muster_client_receive(client, 0, mine, NULL));
    expect(all_are(mine, t->size * ADDS));
    test_free(one.data);
    return MUSTER_OK;
}

static void no_add_is_lost_and_no_shard_is_torn(void **state) {
    (void)state;
    world t;
    for_each_world(&t, 501) {
        server_fill(t.mine[0], 0);
        t.server = server_of(t.runtime, t.mine[0], 0, 0);
        assert_ok(server_run(t.runtime, add_ones_and_look, &t));
        muster_server_statistics statistics = {.struct_size = sizeof statistics};
        assert_ok(muster_server_get_statistics(t.server, &statistics));
        assert_int_equal(statistics.sends, t.size * ADDS);
        assert_int_equal(statistics.receives, t.size * (ADDS / 10 + 1));
        assert_int_equal(statistics.bytes, (statistics.sends + statistics.receives) * t.n * muster_dtype_size(t.dtype));
    }
}

/* ---- PS-8 ---- */

static void one_client_s_operations_keep_their_order(void **state) {
    (void)state;
    world t;
    for_each_world(&t, 1001) {
        muster_client *client;
        const muster_tensor five = make(t.dtype, t.n), one = make(t.dtype, t.n);
        server_fill(five, 5);
        server_fill(one, 1);
        for (int32_t progress = -1; progress <= 1; progress++) {
            t.server = server_of(t.runtime, t.mine[0], 0, progress);
            assert_ok(muster_client_open(t.server, &client));
            for (int repeat = 0; repeat < REPEATS; repeat++) {
                muster_request *requests[3];
                assert_ok(muster_client_send(client, 0, MUSTER_RULE_COPY, 0, five, 0, &requests[0]));
                assert_ok(muster_client_send(client, 0, MUSTER_RULE_ADD, 0, one, 0, &requests[1]));
                assert_ok(muster_client_receive(client, 0, t.mine[0], &requests[2]));
                assert_ok(muster_requests_wait_all(requests, 3));
                assert_true(all_are(t.mine[0], 6));
            }
            assert_ok(muster_client_close(client));
            assert_ok(muster_server_destroy(t.server));
        }
        test_free(one.data);
        test_free(five.data);
    }
}

/* ---- PS-10 ---- */

static muster_status fill_by_place(void *user, int32_t index, muster_dtype dtype, void *value, int64_t first, int64_t count) {
    const muster_tensor part = muster_tensor_make(dtype, value, 1, &count);
    (void)user;
    for (int64_t i = 0; i < count; i++) {
        if (part.dtype == MUSTER_F64)
            ((double *)part.data)[i] = (double)(index * 10000 + first + i);
        else
            ((float *)part.data)[i] = (float)(index * 10000 + first + i);
    }
    return MUSTER_OK;
}

static void servers_begin_with_the_master_s_values_or_a_function_s(void **state) {
    (void)state;
    world t;
    for_each_world(&t, 37) {
        muster_variable *v[2];
        muster_client *client;
        muster_server_options options;
        muster_server_options_init(&options);
        for (int i = 0; i < 2; i++) assert_ok(muster_variable_create(t.runtime, i ? "a" : "b", t.mine[0], &v[i]));
        for (int32_t r = 0; r < t.size; r++) {
            server_fill(t.mine[r], r + 10);
            for (int i = 0; i < 2; i++) assert_ok(muster_variable_set(v[i], r, t.mine[r]));
        }
        assert_ok(muster_server_create_from(t.runtime, "p", v, 2, NULL, &t.server));
        assert_ok(muster_client_open(t.server, &client));
        for (int i = 0; i < 2; i++) {
            assert_ok(muster_client_receive(client, i, t.mine[0], NULL));
            assert_true(all_are(t.mine[0], 10));
        }
        assert_ok(muster_client_close(client));
        assert_ok(muster_server_destroy(t.server));

        options.fill = fill_by_place;
        options.shards = 5;
        assert_ok(muster_server_create_from(t.runtime, "p", v, 2, &options, &t.server)); /* the name is free again */
        assert_ok(muster_client_open(t.server, &client));
        for (int i = 0; i < 2; i++) {
            assert_ok(muster_client_receive(client, i, t.mine[0], NULL));
            for (int64_t k = 0; k < t.n; k++) assert_true(server_get(t.mine[0], k) == i * 10000 + k);
        }
        assert_ok(muster_client_close(client));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_shard_begins_as_its_own_rank_had_it),
        cmocka_unit_test(rules_act_on_every_shard_and_everybody_sees_it),
        cmocka_unit_test(the_first_shards_are_one_longer),
        cmocka_unit_test(no_add_is_lost_and_no_shard_is_torn),
        cmocka_unit_test(one_client_s_operations_keep_their_order),
        cmocka_unit_test(servers_begin_with_the_master_s_values_or_a_function_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

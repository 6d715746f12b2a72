/* Parts of a communicator: who is in them and in which order, how long they live, and what they
 * inherit. */
#include "collectives_values.h"
#include "host/algorithm_private.h"

static int64_t sum_of_ranks(int32_t size) { return (int64_t)size * (size - 1) / 2; }

/* Sums `value` over the part and compares. */
static muster_status sum_is(muster_worker *w, muster_communicator *part, int64_t value, int64_t expected) {
    muster_tensor x = values_make(w, 5, value, 0);
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, x, x));
    return values_expect(w, x, expected, 0);
}

/* ---- who is in it ---- */

static muster_status one_color_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part = NULL;
    MUSTER_TRY(muster_worker_split(w, NULL, 3, 0, &part)); /* equal keys: the old order */
    VALUES_REQUIRE(muster_communicator_size(part) == muster_worker_size(w));
    VALUES_REQUIRE(muster_communicator_rank(part, w) == muster_worker_rank(w));
    VALUES_REQUIRE(part != muster_worker_communicator(w));
    MUSTER_TRY(sum_is(w, part, muster_worker_rank(w), sum_of_ranks(muster_worker_size(w))));
    return muster_worker_release(w, part);
}

static void test_one_color_and_equal_keys_keep_the_ranks(void **state) {
    (void)state;
    values_run_on_all(one_color_task, NULL, 1);
}

static muster_status reversed_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t n = muster_worker_size(w);
    muster_communicator *part = NULL;
    muster_tensor all = values_make(w, n, -1, 0), own = values_make(w, 1, muster_worker_rank(w), 0);
    MUSTER_TRY(muster_worker_split(w, NULL, 0, -muster_worker_rank(w), &part));
    VALUES_REQUIRE(muster_communicator_rank(part, w) == n - 1 - muster_worker_rank(w));
    MUSTER_TRY(muster_worker_all_gather(w, part, own, all)); /* in the order of the part */
    MUSTER_TRY(values_expect(w, all, n - 1, -1));
    MUSTER_TRY(muster_worker_broadcast(w, part, 0, all, all));
    MUSTER_TRY(muster_worker_broadcast(w, part, (int32_t)(n - 1), own, own)); /* the old rank 0 */
    MUSTER_TRY(values_expect(w, own, 0, 0));
    return muster_worker_release(w, part);
}

static void test_keys_order_the_ranks_and_collectives_follow(void **state) {
    (void)state;
    values_run_on_all(reversed_task, NULL, 1);
}

/* The extremes of the range among them. */
static muster_status mixed_keys_task(muster_worker *w, void *argument) {
    (void)argument;
    static const int32_t keys[9] = {5, INT32_MAX, -1, 5, INT32_MIN, 0, 5, INT32_MIN, INT32_MAX}, order[9] = {4, 7, 2, 5, 0, 3, 6, 1, 8};
    muster_communicator *part = NULL;
    MUSTER_TRY(muster_worker_split(w, NULL, INT32_MAX, keys[muster_worker_rank(w)], &part));
    VALUES_REQUIRE(order[muster_communicator_rank(part, w)] == muster_worker_rank(w));
    return muster_worker_release(w, part);
}

static void test_equal_keys_keep_the_old_order_among_others(void **state) {
    (void)state;
    values_run_on(mixed_keys_task, NULL, 9);
}

static muster_status colors_task(muster_worker *w, void *argument) {
    int32_t colors = *(int32_t *)argument, color = muster_worker_rank(w) % colors;
    muster_communicator *part = NULL;
    MUSTER_TRY(muster_worker_split(w, NULL, color, muster_worker_rank(w), &part));
    int64_t members = 0, sum = 0;
    for (int32_t r = color; r < muster_worker_size(w); r += colors, members++) sum += r;
    VALUES_REQUIRE(muster_communicator_size(part) == members);
    VALUES_REQUIRE(muster_communicator_rank(part, w) == muster_worker_rank(w) / colors);
    for (int i = 0; i < 20; i++) MUSTER_TRY(sum_is(w, part, muster_worker_rank(w), sum));
    MUSTER_TRY(muster_worker_barrier(w, part));
    MUSTER_TRY(sum_is(w, NULL, muster_worker_rank(w), sum_of_ranks(muster_worker_size(w))));
    return muster_worker_release(w, part);
}

static void test_parts_work_side_by_side(void **state) {
    (void)state;
    for (int32_t colors = 1; colors <= 5; colors += 2) values_run_on_all(colors_task, &colors, 1);
}

static muster_status each_alone_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part = NULL;
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w), 0, &part));
    VALUES_REQUIRE(muster_communicator_size(part) == 1 && muster_communicator_rank(part, w) == 0);
    MUSTER_TRY(sum_is(w, part, muster_worker_rank(w), muster_worker_rank(w)));
    MUSTER_TRY(muster_worker_barrier(w, part));
    return muster_worker_release(w, part);
}

static void test_a_color_for_each_rank(void **state) {
    (void)state;
    values_run_on_all(each_alone_task, NULL, 1);
}

static muster_status negative_task(muster_worker *w, void *argument) {
    int32_t joined = *(int32_t *)argument; /* ranks below it join */
    muster_communicator *part = (muster_communicator *)w;
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w) < joined ? 0 : muster_worker_rank(w) % 2 ? -1 : INT32_MIN, 0, &part));
    if (muster_worker_rank(w) < joined) {
        VALUES_REQUIRE(muster_communicator_size(part) == joined);
        MUSTER_TRY(sum_is(w, part, 1, joined));
    } else {
        VALUES_REQUIRE(part == NULL);
    }
    MUSTER_TRY(muster_worker_release(w, part)); /* NULL is accepted */
    return sum_is(w, NULL, 1, muster_worker_size(w));
}

static void test_a_negative_color_joins_nothing(void **state) {
    (void)state;
    for (int32_t size = 1; size <= 9; size++) {
        for (int32_t joined = 0; joined <= size; joined += 1 + size / 4) values_run_on(negative_task, &joined, size);
    }
}

static muster_status outside_task(muster_worker *w, void *argument) {
    muster_communicator **shared = argument, *part = NULL;
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w) == 0 ? -1 : 0, 0, &part));
    if (muster_worker_rank(w) == 1) *shared = part;
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    if (muster_worker_rank(w) == 0) {
        VALUES_REQUIRE(muster_communicator_rank(*shared, w) == -1);
        VALUES_REFUSED(muster_worker_barrier(w, *shared), MUSTER_INVALID_ARGUMENT,
                       "muster_worker_barrier: communicator: expected one of which worker 0 is a member, received another");
    }
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    return muster_worker_release(w, part);
}

static void test_who_is_no_member_is_refused(void **state) {
    (void)state;
    muster_communicator *shared = NULL;
    values_run_on(outside_task, &shared, 3);
}

/* ---- parts of parts ---- */

static muster_status halves_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *parts[8] = {NULL}, *whole = NULL;
    int32_t depth = 0;
    for (int32_t size = muster_worker_size(w), first = 0; size > 1; depth++) { /* halves of halves, until each is alone */
        int32_t middle = size / 2;
        bool upper = muster_worker_rank(w) - first >= middle;
        MUSTER_TRY(muster_worker_split(w, whole, upper, muster_worker_rank(w), &parts[depth]));
        whole = parts[depth];
        first += upper ? middle : 0;
        size = upper ? size - middle : middle;
        VALUES_REQUIRE(muster_communicator_size(whole) == size && muster_communicator_rank(whole, w) == muster_worker_rank(w) - first);
        MUSTER_TRY(sum_is(w, whole, muster_worker_rank(w), (int64_t)size * first + sum_of_ranks(size)));
    }
    for (int32_t i = 0; i < depth; i++) MUSTER_TRY(muster_worker_release(w, parts[i])); /* the larger ones first */
    return sum_is(w, NULL, 1, muster_worker_size(w));
}

static void test_parts_of_parts(void **state) {
    (void)state;
    values_run_on_all(halves_task, NULL, 1);
}

static muster_status outlives_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *whole = NULL, *part = NULL;
    MUSTER_TRY(muster_worker_split(w, NULL, 0, -muster_worker_rank(w), &whole));
    MUSTER_TRY(muster_worker_split(w, whole, muster_worker_rank(w) % 2, 0, &part));
    MUSTER_TRY(muster_worker_release(w, whole)); /* the part does not need it */
    int32_t size = muster_communicator_size(part);
    MUSTER_TRY(sum_is(w, part, 1, size));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(sum_is(w, part, 2, 2 * size));
    return muster_worker_release(w, part);
}

static void test_a_part_outlives_what_it_was_split_from(void **state) {
    (void)state;
    values_run_on_all(outlives_task, NULL, 1);
}

typedef struct mesh {
    int32_t rows, columns;
} mesh;

/* Rank r is at (r / columns, r % columns). The sum over a row, then over a column, is the sum over
 * all. */
static muster_status mesh_task(muster_worker *w, void *argument) {
    const mesh *m = argument;
    int32_t i = muster_worker_rank(w) / m->columns, j = muster_worker_rank(w) % m->columns;
    muster_communicator *row = NULL, *column = NULL;
    MUSTER_TRY(muster_worker_split(w, NULL, i, j, &row));
    MUSTER_TRY(muster_worker_split(w, NULL, j, i, &column));
    VALUES_REQUIRE(muster_communicator_size(row) == m->columns && muster_communicator_rank(row, w) == j);
    VALUES_REQUIRE(muster_communicator_size(column) == m->rows && muster_communicator_rank(column, w) == i);
    muster_tensor x = values_make(w, 1000, muster_worker_rank(w), 1);
    MUSTER_TRY(muster_worker_all_reduce(w, row, MUSTER_SUM, x, x));
    MUSTER_TRY(values_expect(w, x, (int64_t)i * m->columns * m->columns + sum_of_ranks(m->columns), m->columns));
    MUSTER_TRY(muster_worker_all_reduce(w, column, MUSTER_SUM, x, x));
    MUSTER_TRY(values_expect(w, x, sum_of_ranks(muster_worker_size(w)), muster_worker_size(w)));
    MUSTER_TRY(sum_is(w, column, j, (int64_t)j * m->rows));
    MUSTER_TRY(muster_worker_release(w, column));
    return muster_worker_release(w, row);
}

static void test_rows_and_columns_of_a_mesh(void **state) {
    (void)state;
    mesh meshes[] = {{1, 1}, {2, 1}, {1, 3}, {2, 2}, {2, 3}, {3, 2}, {2, 4}, {3, 3}};
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) values_run_on(mesh_task, &meshes[i], meshes[i].rows * meshes[i].columns);
}

/* ---- later calls ---- */

static muster_status make_task(muster_worker *w, void *argument) {
    muster_communicator **parts = argument;
    return muster_worker_split(w, NULL, muster_worker_rank(w) % 2, -muster_worker_rank(w), &parts[muster_worker_rank(w)]);
}

static muster_status use_task(muster_worker *w, void *argument) {
    muster_communicator **parts = argument;
    int64_t members = 0, sum = 0;
    for (int32_t r = muster_worker_rank(w) % 2; r < muster_worker_size(w); r += 2, members++) sum += r;
    VALUES_REQUIRE(muster_communicator_size(parts[muster_worker_rank(w)]) == members);
    return sum_is(w, parts[muster_worker_rank(w)], muster_worker_rank(w), sum);
}

static muster_status fail_task(muster_worker *w, void *argument) {
    muster_communicator **parts = argument;
    if (muster_worker_rank(w) == muster_worker_size(w) - 1) return muster_fail(MUSTER_USER, "the last one fails");
    return muster_worker_barrier(w, parts[muster_worker_rank(w)]);
}

static muster_status release_task(muster_worker *w, void *argument) {
    muster_communicator **parts = argument;
    return muster_worker_release(w, parts[muster_worker_rank(w)]);
}

static void test_a_part_is_used_in_later_calls_also_after_a_failed_one(void **state) {
    (void)state;
    for (int32_t size = 1; size <= 9; size++) {
        muster_communicator *parts[9] = {NULL};
        collectives_pool c;
        collectives_open(&c, size, 0);
        assert_ok(collectives_run(&c, make_task, parts));
        for (int i = 0; i < 3; i++) {
            assert_ok(collectives_run(&c, use_task, parts));
            assert_refused(collectives_run(&c, fail_task, parts), MUSTER_USER, "the last one fails");
        }
        assert_ok(collectives_run(&c, use_task, parts));
        assert_ok(collectives_run(&c, release_task, parts));
        collectives_close(&c);
    }
}

/* ---- the end of a part ---- */

static void test_the_last_release_frees_a_part(void **state) {
    (void)state;
    muster_communicator *parts[9] = {NULL};
    collectives_pool c;
    collectives_open(&c, 4, 0);
    assert_ok(collectives_run(&c, make_task, parts)); /* after which scratch memory does not grow */
    assert_ok(collectives_run(&c, use_task, parts));
    assert_ok(collectives_run(&c, release_task, parts));
    int64_t live = mst_memory_live();
    for (int i = 0; i < 5; i++) {
        assert_ok(collectives_run(&c, make_task, parts));
        assert_true(mst_memory_live() > live);
        assert_ok(collectives_run(&c, use_task, parts));
        assert_ok(collectives_run(&c, release_task, parts));
        assert_int_equal(mst_memory_live(), live);
    }
    collectives_close(&c);
}

static void test_what_is_not_released_ends_with_the_communicator_of_all(void **state) {
    (void)state;
    for (int32_t size = 1; size <= 9; size += 2) {
        int64_t live = mst_memory_live();
        muster_communicator *parts[9] = {NULL}, *others[9] = {NULL};
        collectives_pool c;
        collectives_open(&c, size, 0);
        for (int i = 0; i < 3; i++) {
            assert_ok(collectives_run(&c, make_task, others));
            assert_ok(collectives_run(&c, make_task, parts));
            assert_ok(collectives_run(&c, use_task, parts));
            assert_ok(collectives_run(&c, release_task, parts));
            assert_ok(collectives_run(&c, use_task, others));
        }
        collectives_close(&c);
        assert_int_equal(mst_memory_live(), live);
    }
}

static muster_status released_task(muster_worker *w, void *argument) {
    muster_communicator **parts = argument, *part = parts[muster_worker_rank(w)];
    if (muster_worker_rank(w) == 0) { /* which is rank 1 of the part */
        MUSTER_TRY(muster_worker_release(w, part));
        VALUES_REFUSED(muster_worker_release(w, part), MUSTER_BAD_STATE,
                       "muster_worker_release: communicator: rank 1 (worker 0) has released it");
        VALUES_REFUSED(muster_worker_barrier(w, part), MUSTER_BAD_STATE,
                       "muster_worker_barrier: communicator: rank 1 (worker 0) has released it");
        VALUES_REFUSED(muster_worker_group_begin(w, part), MUSTER_BAD_STATE, "rank 1 (worker 0) has released it");
    }
    MUSTER_TRY(muster_worker_barrier(w, NULL)); /* the others still hold it */
    return muster_worker_rank(w) == 0 ? MUSTER_OK : muster_worker_release(w, part);
}

static void test_a_member_releases_once(void **state) {
    (void)state;
    muster_communicator *parts[9] = {NULL};
    collectives_pool c;
    collectives_open(&c, 4, 0);
    assert_ok(collectives_run(&c, make_task, parts));
    assert_ok(collectives_run(&c, released_task, parts));
    collectives_close(&c);
}

static muster_status refused_release_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part = NULL;
    VALUES_REFUSED(muster_worker_release(w, muster_worker_communicator(w)), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_release: part: expected one made by muster_worker_split, received that of all workers");
    MUSTER_TRY(muster_worker_release(w, NULL));
    MUSTER_TRY(muster_worker_split(w, NULL, 0, 0, &part));
    MUSTER_TRY(muster_worker_group_begin(w, part));
    VALUES_REFUSED(muster_worker_release(w, part), MUSTER_BAD_STATE, "muster_worker_release: part: expected no open group");
    MUSTER_TRY(muster_worker_group_end(w, part));
    return muster_worker_release(w, part);
}

static void test_the_communicator_of_all_and_an_open_group_are_not_released(void **state) {
    (void)state;
    values_run_on_all(refused_release_task, NULL, 1);
}

/* ---- what it inherits ---- */

static muster_status forced_task(muster_worker *w, void *argument) {
    muster_communicator *part = NULL, *smaller = NULL;
    MUSTER_TRY(muster_worker_split(w, NULL, 0, -muster_worker_rank(w), &part));
    MUSTER_TRY(muster_worker_split(w, part, muster_worker_rank(w) % 2, 0, &smaller));
    VALUES_REQUIRE(part->forced.algorithm == *(int32_t *)argument);
    VALUES_REQUIRE(smaller->forced.algorithm == *(int32_t *)argument);
    MUSTER_TRY(sum_is(w, part, 1, muster_worker_size(w)));
    MUSTER_TRY(muster_worker_release(w, smaller));
    return muster_worker_release(w, part);
}

static void test_a_part_inherits_the_forced_algorithm(void **state) {
    (void)state;
    static const char *const names[] = {NULL, "reference", "inline", "direct"};
    for (int32_t kind = 0; kind < (int32_t)(sizeof names / sizeof *names); kind++) {
        collectives_pool c;
        collectives_open_with(&c, 3, 0, names[kind], -1);
        assert_ok(collectives_run(&c, forced_task, &kind));
        collectives_close(&c);
    }
}

/* ---- single calls ---- */

static muster_status single_task(muster_worker *w, void *argument) {
    muster_communicator **parts = argument, *part = NULL;
    VALUES_REQUIRE(muster_communicator_size(muster_worker_communicator(w)) == 1);
    MUSTER_TRY(sum_is(w, NULL, 4, 4));
    VALUES_REFUSED(muster_worker_barrier(w, parts[0]), MUSTER_BAD_STATE,
                   "muster_worker_barrier: communicator: expected one of 1 rank in a single call, received one of 2");
    MUSTER_TRY(muster_worker_split(w, NULL, 0, 0, &part));
    VALUES_REQUIRE(muster_communicator_size(part) == 1 && muster_communicator_rank(part, w) == 0);
    MUSTER_TRY(sum_is(w, part, 4, 4));
    MUSTER_TRY(muster_worker_release(w, part));
    MUSTER_TRY(muster_worker_split(w, NULL, -1, 0, &part));
    VALUES_REQUIRE(part == NULL);
    return MUSTER_OK;
}

static muster_status alone_task(muster_worker *w, void *argument) {
    muster_communicator **parts = argument;
    return muster_worker_split(w, NULL, muster_worker_rank(w), 0, &parts[muster_worker_rank(w)]);
}

static muster_status single_alone_task(muster_worker *w, void *argument) {
    muster_communicator **parts = argument;
    return sum_is(w, parts[0], 6, 6); /* a part of one rank, from a call of all */
}

static muster_status run_single(collectives_pool *c, mst_task task, void *argument) {
    MUSTER_TRY(mst_pool_enter(c->pool, "test", 0));
    muster_status status = mst_pool_run_single(c->pool, task, argument);
    mst_pool_leave(c->pool);
    return status;
}

static void test_parts_in_single_calls(void **state) {
    (void)state;
    muster_communicator *parts[4] = {NULL}, *alone[4] = {NULL};
    collectives_pool c;
    collectives_open(&c, 4, 0);
    assert_ok(collectives_run(&c, make_task, parts));
    assert_ok(run_single(&c, single_task, parts));
    assert_ok(collectives_run(&c, alone_task, alone));
    assert_ok(run_single(&c, single_alone_task, alone));
    assert_ok(collectives_run(&c, use_task, parts));
    collectives_close(&c);
}

/* ---- what does not fit ---- */

static muster_status absent_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    return muster_worker_rank(w) == 1 ? MUSTER_OK : muster_worker_split(w, NULL, 0, 0, &part);
}

static muster_status other_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    return muster_worker_rank(w) == 1 ? muster_worker_barrier(w, NULL) : muster_worker_split(w, NULL, 0, 0, &part);
}

static muster_status other_large_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    muster_tensor x = values_make(w, 100000, 0, 1);
    return muster_worker_rank(w) == 1 ? muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x) : muster_worker_split(w, NULL, 0, 0, &part);
}

static void test_a_rank_that_does_not_split_is_named(void **state) {
    (void)state;
    values_refused_on(absent_task, NULL, 3, -1, MUSTER_INVALID_ARGUMENT, "rank 1 returned without entering split");
    values_refused_on(other_task, NULL, 3, -1, MUSTER_INVALID_ARGUMENT, "collective mismatch: rank 1 called barrier, rank 0 called split");
    values_refused_on(other_large_task, NULL, 3, -1, MUSTER_INVALID_ARGUMENT,
                      "collective mismatch: rank 1 called all_reduce sum of 100000 i64, rank 0 called split");
}

/* Whichever allocation fails, a later split works and nothing is left. */
static void test_failing_allocations_leave_nothing(void **state) {
    (void)state;
    for (int64_t k = 1; k <= 20; k++) {
        int64_t live = mst_memory_live();
        muster_communicator *parts[9] = {NULL};
        collectives_pool c;
        collectives_open(&c, 3, 0);
        mst_memory_fail_at(k);
        muster_status status = collectives_run(&c, make_task, parts);
        mst_memory_fail_at(0);
        assert_true(status == MUSTER_OK || status == MUSTER_OUT_OF_MEMORY);
        assert_ok(collectives_run(&c, make_task, parts));
        assert_ok(collectives_run(&c, use_task, parts));
        collectives_close(&c);
        assert_int_equal(mst_memory_live(), live);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_color_and_equal_keys_keep_the_ranks),
        cmocka_unit_test(test_keys_order_the_ranks_and_collectives_follow),
        cmocka_unit_test(test_equal_keys_keep_the_old_order_among_others),
        cmocka_unit_test(test_parts_work_side_by_side),
        cmocka_unit_test(test_a_color_for_each_rank),
        cmocka_unit_test(test_a_negative_color_joins_nothing),
        cmocka_unit_test(test_who_is_no_member_is_refused),
        cmocka_unit_test(test_parts_of_parts),
        cmocka_unit_test(test_a_part_outlives_what_it_was_split_from),
        cmocka_unit_test(test_rows_and_columns_of_a_mesh),
        cmocka_unit_test(test_a_part_is_used_in_later_calls_also_after_a_failed_one),
        cmocka_unit_test(test_the_last_release_frees_a_part),
        cmocka_unit_test(test_what_is_not_released_ends_with_the_communicator_of_all),
        cmocka_unit_test(test_a_member_releases_once),
        cmocka_unit_test(test_the_communicator_of_all_and_an_open_group_are_not_released),
        cmocka_unit_test(test_a_part_inherits_the_forced_algorithm),
        cmocka_unit_test(test_parts_in_single_calls),
        cmocka_unit_test(test_a_rank_that_does_not_split_is_named),
        cmocka_unit_test(test_failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

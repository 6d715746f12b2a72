/* Which ranks ChainerMN's communicators put together, and into how many parts they cut what these
 * reduce, on 1 to 4 ranks in every layout. */
#include "function_ranks.h"
#include "muster/nodes.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- parts ---- */

/* Even and odd ranks apart, the last rank first. */
static muster_status split_by_parity(muster_worker *worker, int32_t rank, int32_t size) {
    int32_t members = 0, before = 0, sum = 0;
    for (int32_t r = rank % 2; r < size; r += 2) members++, before += r > rank, sum += r;
    muster_communicator *part;
    muster_tensor x;
    MUSTER_TRY(muster_worker_split(worker, NULL, rank % 2, -rank, &part));
    if (muster_communicator_size(part) != members || muster_communicator_rank(part, worker) != before)
        return muster_fail(MUSTER_USER, "a part has another size or order");
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 0, NULL, rank, &x));
    MUSTER_TRY(muster_worker_all_reduce(worker, part, MUSTER_SUM, x, x));
    MUSTER_TRY(ranks_expect_all(worker, x, sum, "the sum over the part"));
    /* rank 0 of the part is the last of its ranks */
    MUSTER_TRY(muster_fill(worker, rank, x));
    MUSTER_TRY(muster_worker_broadcast(worker, part, 0, x, x));
    MUSTER_TRY(ranks_expect_all(worker, x, rank + 2 * before, "what rank 0 of the part has"));
    return muster_worker_release(worker, part);
}

static void test_a_part_has_its_own_ranks_and_sums(void **state) {
    (void)state;
    ranks_run(split_by_parity);
}

/* Two splits at right angles, as for data and model parallelism together. */
static muster_status split_twice(muster_worker *worker, int32_t rank, int32_t size) {
    muster_communicator *data, *model;
    muster_tensor x, y;
    MUSTER_TRY(muster_worker_split(worker, NULL, rank % 2, rank, &data));
    MUSTER_TRY(muster_worker_split(worker, NULL, rank / 2, rank, &model));
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 0, NULL, rank, &x));
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 0, NULL, rank, &y));
    MUSTER_TRY(muster_worker_all_reduce(worker, data, MUSTER_SUM, x, x));
    MUSTER_TRY(muster_worker_all_reduce(worker, model, MUSTER_SUM, y, y));
    const int32_t first = rank - rank % 2;
    int32_t column = 0;
    for (int32_t r = rank % 2; r < size; r += 2) column += r;
    MUSTER_TRY(ranks_expect_all(worker, x, column, "the sum over the ranks with this data"));
    MUSTER_TRY(ranks_expect_all(worker, y, first + 1 < size ? 2 * first + 1 : first, "the sum over the ranks of this model"));
    MUSTER_TRY(muster_worker_release(worker, data));
    return muster_worker_release(worker, model);
}

static void test_ranks_are_split_in_two_directions(void **state) {
    (void)state;
    ranks_run(split_twice);
}

/* ---- hosts ---- */

typedef struct hosts_case {
    const char *hosts; /* of the processes, which have one rank each */
    muster_place places[RANKS_MOST];
} hosts_case;

/* Hosts count by their smallest rank. */
static const hosts_case hosts_cases[] = {{"00", {{0, 2, 0, 1}, {1, 2, 0, 1}}},
                                         {"01", {{0, 1, 0, 2}, {0, 1, 1, 2}}},
                                         {"10", {{0, 1, 0, 2}, {0, 1, 1, 2}}},
                                         {"001", {{0, 2, 0, 2}, {1, 2, 0, 2}, {0, 1, 1, 2}}},
                                         {"100", {{0, 1, 0, 2}, {0, 2, 1, 2}, {1, 2, 1, 2}}},
                                         {"0101", {{0, 2, 0, 2}, {0, 2, 1, 2}, {1, 2, 0, 2}, {1, 2, 1, 2}}}};
enum { HOSTS_CASES = sizeof hosts_cases / sizeof *hosts_cases };
static const hosts_case *hosts_now;

static muster_status see_places(muster_worker *worker, int32_t rank, int32_t size) {
    (void)rank;
    for (int32_t r = 0; r < size; r++) {
        muster_place place;
        char text[160];
        const muster_place *golden = &hosts_now->places[r];
        MUSTER_TRY(muster_communicator_place(muster_worker_communicator(worker), r, &place));
        if (memcmp(&place, golden, sizeof place) == 0) continue;
        snprintf(text, sizeof text, "hosts %s: rank %d: expected %d/%d@%d/%d, received %d/%d@%d/%d", hosts_now->hosts, (int)r,
                 golden->intra_rank, golden->intra_size, golden->inter_rank, golden->inter_size, place.intra_rank, place.intra_size,
                 place.inter_rank, place.inter_size);
        return muster_fail(MUSTER_USER, text);
    }
    return MUSTER_OK;
}

static void test_places_follow_the_hosts_of_the_processes(void **state) {
    (void)state;
    for (hosts_now = hosts_cases; hosts_now < hosts_cases + HOSTS_CASES; hosts_now++) ranks_run_on(hosts_now->hosts, see_places);
}

/* ---- sizes that no number of parts divides ---- */

/* Element i of rank r is (r + 1)(i + 1), and two elements behind the vector are not its own. */
static muster_status reduce_count(muster_worker *worker, int32_t rank, int32_t size, int64_t count) {
    const int64_t room = count + 2, own = count * (rank + 1) / size - count * rank / size, first = count * rank / size;
    double brought[64], sums[64], means[64];
    for (int64_t i = 0; i < room; i++) {
        brought[i] = i < count ? (rank + 1) * (double)(i + 1) : -7;
        sums[i] = i < count ? size * (size + 1) / 2.0 * (double)(i + 1) : -7;
        means[i] = i < count ? (size + 1) / 2.0 * (double)(i + 1) : -7;
    }
    muster_tensor x, y, part;
    MUSTER_TRY(ranks_given(worker, MUSTER_F32, 1, &room, brought, &x));
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 1, &room, -7, &y));
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 1, &own, -7, &part));
    const muster_tensor in = muster_tensor_slice(x, 0, count), out = muster_tensor_slice(y, 0, count);
    MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_SUM, in, out));
    MUSTER_TRY(ranks_expect(worker, y, sums, "the sum"));
    MUSTER_TRY(muster_worker_reduce_scatter(worker, NULL, MUSTER_SUM, in, part));
    MUSTER_TRY(ranks_expect(worker, part, sums + first, "this rank's part of the sum"));
    MUSTER_TRY(ranks_expect(worker, x, brought, "what this rank brings"));
    MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_AVG, in, in));
    return ranks_expect_means(worker, x, means, "the mean in place");
}

static _Atomic int32_t reduced;

static muster_status reduce_counts(muster_worker *worker, int32_t rank, int32_t size) {
    static const int64_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 37};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        MUSTER_TRY(reduce_count(worker, rank, size, counts[i]));
        atomic_fetch_add(&reduced, 1);
    }
    return MUSTER_OK;
}

static void test_sizes_that_the_parts_do_not_divide(void **state) {
    (void)state;
    reduced = 0;
    ranks_run(reduce_counts);
    assert_int_equal(reduced, 14 * ranks_in_all());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_part_has_its_own_ranks_and_sums),
        cmocka_unit_test(test_ranks_are_split_in_two_directions),
        cmocka_unit_test(test_places_follow_the_hosts_of_the_processes),
        cmocka_unit_test(test_sizes_that_the_parts_do_not_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Arrays that ChainerMN's communicators send, reduce and spread, on 1 to 4 ranks in every
 * layout. */
#include "function_ranks.h"

#include <stdlib.h>

static const muster_dtype numbers[] = {MUSTER_I32, MUSTER_I64, MUSTER_F32, MUSTER_F64};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

/* ---- messages round a chain ---- */

typedef struct shape {
    int32_t ndim;
    int64_t sizes[4];
} shape;
static const shape shapes[] = {{0, {0}}, {1, {50}}, {2, {50, 20}}, {3, {50, 20, 5}}, {4, {50, 20, 5, 3}}};
enum { SHAPES = sizeof shapes / sizeof *shapes, TUPLE_MOST = 3 };

/* From rank - 1, then to rank + 1: `count` tensors, one after the other or in one group. */
static muster_status pass_tuple(muster_worker *worker, int32_t rank, int32_t size, const muster_tensor *sent, const muster_tensor *received,
                                int32_t count, bool together) {
    if (together) MUSTER_TRY(muster_worker_group_begin(worker, NULL));
    for (int32_t i = 0; i < count && rank > 0; i++) MUSTER_TRY(muster_worker_recv(worker, NULL, rank - 1, i, received[i]));
    for (int32_t i = 0; i < count && rank < size - 1; i++) MUSTER_TRY(muster_worker_send(worker, NULL, rank + 1, i, sent[i]));
    return together ? muster_worker_group_end(worker, NULL) : MUSTER_OK;
}

static muster_status pass_shape(muster_worker *worker, int32_t rank, int32_t size, const shape *s, int32_t count, bool together) {
    muster_tensor sent[TUPLE_MOST], received[TUPLE_MOST];
    for (int32_t i = 0; i < count; i++) {
        MUSTER_TRY(ranks_filled(worker, MUSTER_F32, s->ndim, s->sizes, rank, &sent[i]));
        MUSTER_TRY(ranks_filled(worker, MUSTER_F32, s->ndim, s->sizes, -1, &received[i]));
    }
    MUSTER_TRY(pass_tuple(worker, rank, size, sent, received, count, together));
    for (int32_t i = 0; i < count && rank > 0; i++) MUSTER_TRY(ranks_expect_all(worker, received[i], rank - 1, "what came"));
    return MUSTER_OK;
}

static muster_status pass_round(muster_worker *worker, int32_t rank, int32_t size) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    for (int32_t s = 0; s < SHAPES; s++)
        for (int32_t count = 1; count <= TUPLE_MOST; count += 2)
            for (int32_t together = 0; together < 2; together++) {
                MUSTER_TRY(pass_shape(worker, rank, size, &shapes[s], count, together));
                MUSTER_TRY(muster_worker_scratch_release(worker, mark));
            }
    return MUSTER_OK;
}

static void test_a_rank_receives_what_the_rank_before_it_sends(void **state) {
    (void)state;
    ranks_run(pass_round);
}

static muster_status pass_dtypes(muster_worker *worker, int32_t rank, int32_t size) {
    static const muster_dtype dtypes[] = {MUSTER_I32, MUSTER_I64, MUSTER_F16, MUSTER_F32, MUSTER_F64};
    muster_tensor sent[5], received[5]; /* a tuple of several dtypes */
    for (int32_t i = 0; i < 5; i++) {
        MUSTER_TRY(ranks_filled(worker, dtypes[i], 2, (int64_t[]){3, 2}, rank + i, &sent[i]));
        MUSTER_TRY(ranks_filled(worker, dtypes[i], 2, (int64_t[]){3, 2}, -1, &received[i]));
    }
    MUSTER_TRY(pass_tuple(worker, rank, size, sent, received, 5, true));
    for (int32_t i = 0; i < 5 && rank > 0; i++) MUSTER_TRY(ranks_expect_all(worker, received[i], rank - 1 + i, "what came"));
    return MUSTER_OK;
}

static void test_a_tuple_may_have_several_dtypes(void **state) {
    (void)state;
    ranks_run(pass_dtypes);
}

/* A slice with steps is packed first: messages and collectives take contiguous tensors. */
static muster_status pass_slice(muster_worker *worker, int32_t rank, int32_t size) {
    static const double golden[] = {2, 3, 8, 9, 14, 15};
    static const int64_t whole[] = {3, 3, 2}, part[] = {3, 2};
    muster_tensor x, received;
    MUSTER_TRY(ranks_counted(worker, MUSTER_F32, 3, whole, 0, &x));
    const muster_tensor slice = muster_tensor_squeeze(muster_tensor_slice_axis(x, 1, 1, 2), 1);
    muster_tensor packed;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 2, part, &packed));
    MUSTER_TRY(ranks_filled(worker, MUSTER_F32, 2, part, -1, &received));
    if (muster_worker_all_reduce(worker, NULL, MUSTER_SUM, slice, received) != MUSTER_UNSUPPORTED)
        return muster_fail(MUSTER_USER, "a strided tensor was taken");
    MUSTER_TRY(muster_copy(worker, slice, packed));
    MUSTER_TRY(pass_tuple(worker, rank, size, &packed, &received, 1, false));
    if (rank > 0) MUSTER_TRY(ranks_expect(worker, received, golden, "the slice that came"));
    /* and to every rank */
    const int64_t all = 6 * size;
    muster_tensor out;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 1, &all, &out));
    MUSTER_TRY(muster_worker_all_gather(worker, NULL, packed, out));
    for (int32_t r = 0; r < size; r++)
        MUSTER_TRY(ranks_expect(worker, muster_tensor_slice(out, 6 * r, 6 * r + 6), golden, "the slice of a rank"));
    return MUSTER_OK;
}

static void test_slices_arrive_packed(void **state) {
    (void)state;
    ranks_run(pass_slice);
}

/* ---- reductions ---- */

static muster_status sum_numbers(muster_worker *worker, int32_t rank, int32_t size) {
    static const int64_t counts[] = {1, 18, 32};
    const double ranks = size * (size - 1) / 2.0;
    for (int32_t d = 0; d < NUMBERS; d++) {
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            muster_tensor x;
            double golden[32];
            for (int32_t i = 0; i < counts[k]; i++) golden[i] = i * (double)size + ranks;
            MUSTER_TRY(ranks_counted(worker, numbers[d], 1, &counts[k], rank, &x));
            muster_tensor sum;
            MUSTER_TRY(muster_worker_scratch(worker, numbers[d], 1, &counts[k], &sum));
            MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_SUM, x, sum));
            MUSTER_TRY(ranks_expect(worker, sum, golden, "the sum"));
        }
        muster_tensor one;
        MUSTER_TRY(ranks_filled(worker, numbers[d], 0, NULL, 1, &one));
        MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_SUM, one, one));
        MUSTER_TRY(ranks_expect_all(worker, one, size, "the sum of ones"));
    }
    return MUSTER_OK;
}

static void test_sums_of_arrays_and_of_single_numbers(void **state) {
    (void)state;
    ranks_run(sum_numbers);
}

/* ---- exchanges ---- */

static muster_status exchange_rows(muster_worker *worker, int32_t rank, int32_t size) {
    const int64_t rows[] = {size, 4};
    for (int32_t d = 0; d < NUMBERS; d++) {
        double row[RANKS_MOST * 4], golden[RANKS_MOST * 4];
        for (int32_t i = 0; i < 4 * size; i++) row[i] = 4 * rank + i % 4, golden[i] = i;
        muster_tensor sent;
        MUSTER_TRY(ranks_given(worker, numbers[d], 2, rows, row, &sent));
        muster_tensor received;
        MUSTER_TRY(muster_worker_scratch(worker, numbers[d], 2, rows, &received));
        MUSTER_TRY(muster_worker_all_to_all(worker, NULL, sent, received));
        MUSTER_TRY(ranks_expect(worker, received, golden, "the rows of all ranks"));
    }
    return MUSTER_OK;
}

static void test_every_rank_gets_the_rows_of_all(void **state) {
    (void)state;
    ranks_run(exchange_rows);
}

/* Rank r sends (r, i) to rank i: nothing from rank 0, nothing to it. */
static muster_status exchange_unequal(muster_worker *worker, int32_t rank, int32_t size) {
    int64_t to[RANKS_MOST], from[RANKS_MOST], sent = 0, received = 0;
    for (int32_t i = 0; i < size; i++) {
        sent += to[i] = (int64_t)rank * i;
        received += from[i] = (int64_t)i * rank;
    }
    for (int32_t d = 0; d < NUMBERS; d++) {
        double golden[RANKS_MOST * RANKS_MOST * RANKS_MOST];
        int64_t at = 0;
        for (int32_t peer = 0; peer < size; peer++) /* the part before this one, of what the peer sends */
            for (int64_t k = 0; k < from[peer]; k++) golden[at++] = 100 * peer + peer * rank * (rank - 1) / 2.0 + (double)k;
        muster_tensor input;
        MUSTER_TRY(ranks_counted(worker, numbers[d], 1, &sent, 100 * rank, &input));
        muster_tensor output;
        MUSTER_TRY(muster_worker_scratch(worker, numbers[d], 1, &received, &output));
        MUSTER_TRY(muster_worker_all_to_all_uneven(worker, NULL, input, to, output, from));
        MUSTER_TRY(ranks_expect(worker, output, golden, "what all ranks sent"));
    }
    return MUSTER_OK;
}

static void test_parts_of_an_exchange_may_differ_and_be_empty(void **state) {
    (void)state;
    ranks_run(exchange_unequal);
}

/* Rank r brings (rows(r), r + 1): the ranks' arrays, one after the other, at all or at one of
 * them. */
static muster_status gather_unequal(muster_worker *worker, int32_t rank, int32_t size, bool tall) {
    double golden[RANKS_MOST * 10 * RANKS_MOST];
    int64_t all = 0;
    for (int32_t r = 0; r < size; r++)
        for (int32_t k = 0; k < (tall ? 10 : r + 1) * (r + 1); k++) golden[all++] = 1000 * r + k;
    for (int32_t d = 0; d < NUMBERS; d++) {
        muster_tensor own, output;
        MUSTER_TRY(ranks_counted(worker, numbers[d], 2, (int64_t[]){tall ? 10 : rank + 1, rank + 1}, 1000 * rank, &own));
        MUSTER_TRY(ranks_filled(worker, numbers[d], 1, &all, -1, &output));
        MUSTER_TRY(muster_worker_all_gather(worker, NULL, own, output));
        MUSTER_TRY(ranks_expect(worker, output, golden, "the arrays of all ranks"));
        for (int32_t root = 0; root < size; root++) {
            MUSTER_TRY(muster_fill(worker, -1, output));
            MUSTER_TRY(muster_worker_gather(worker, NULL, root, own, output));
            MUSTER_TRY(rank == root ? ranks_expect(worker, output, golden, "the arrays at the root")
                                    : ranks_expect_all(worker, output, -1, "the output of another rank"));
        }
    }
    return MUSTER_OK;
}

static muster_status gather_both(muster_worker *worker, int32_t rank, int32_t size) {
    MUSTER_TRY(gather_unequal(worker, rank, size, true));
    return gather_unequal(worker, rank, size, false);
}

static void test_arrays_of_unequal_shapes_are_gathered(void **state) {
    (void)state;
    ranks_run(gather_both);
}

/* ---- one rank and all others ---- */

static muster_status gather_numbers(muster_worker *worker, int32_t rank, int32_t size) {
    const double golden[RANKS_MOST] = {0, 1, 2, 3};
    const int64_t all = size;
    for (int32_t d = 0; d < NUMBERS; d++)
        for (int32_t root = 0; root < size; root++) {
            muster_tensor own, output;
            MUSTER_TRY(ranks_filled(worker, numbers[d], 0, NULL, rank, &own));
            MUSTER_TRY(ranks_filled(worker, numbers[d], 1, &all, -1, &output));
            MUSTER_TRY(muster_worker_gather(worker, NULL, root, own, rank == root ? output : muster_tensor_none()));
            MUSTER_TRY(rank == root ? ranks_expect(worker, output, golden, "the ranks at the root")
                                    : ranks_expect_all(worker, output, -1, "the output of another rank"));
        }
    return MUSTER_OK;
}

static void test_the_root_gets_one_number_of_each_rank(void **state) {
    (void)state;
    ranks_run(gather_numbers);
}

static muster_status broadcast_arrays(muster_worker *worker, int32_t rank, int32_t size) {
    static const double golden[] = {0, 1, 2, 3};
    static const int64_t four[] = {4};
    for (int32_t d = 0; d < NUMBERS; d++)
        for (int32_t root = 0; root < size; root++) {
            muster_tensor array, number, from = muster_tensor_none(), single = muster_tensor_none();
            MUSTER_TRY(ranks_filled(worker, numbers[d], 1, four, -1, &array));
            MUSTER_TRY(ranks_filled(worker, numbers[d], 0, NULL, -1, &number));
            if (rank == root) MUSTER_TRY(ranks_given(worker, numbers[d], 1, four, golden, &from));
            if (rank == root) MUSTER_TRY(ranks_filled(worker, numbers[d], 0, NULL, 42, &single));
            MUSTER_TRY(muster_worker_broadcast(worker, NULL, root, from, array));
            MUSTER_TRY(muster_worker_broadcast(worker, NULL, root, single, number));
            MUSTER_TRY(ranks_expect(worker, array, golden, "the root's array"));
            MUSTER_TRY(ranks_expect_all(worker, number, 42, "the root's number"));
        }
    return MUSTER_OK;
}

static void test_arrays_and_numbers_are_broadcast(void **state) {
    (void)state;
    ranks_run(broadcast_arrays);
}

static muster_status scatter_arrays(muster_worker *worker, int32_t rank, int32_t size) {
    static const int64_t four[] = {4};
    double golden[4];
    const int64_t all = size;
    for (int32_t i = 0; i < 4; i++) golden[i] = 4 * rank + i;
    for (int32_t d = 0; d < NUMBERS; d++)
        for (int32_t root = 0; root < size; root++) {
            muster_tensor row, number, rows = muster_tensor_none(), many = muster_tensor_none();
            MUSTER_TRY(ranks_filled(worker, numbers[d], 1, four, -1, &row));
            MUSTER_TRY(ranks_filled(worker, numbers[d], 0, NULL, -1, &number));
            if (rank == root) MUSTER_TRY(ranks_counted(worker, numbers[d], 2, (int64_t[]){size, 4}, 0, &rows));
            if (rank == root) MUSTER_TRY(ranks_filled(worker, numbers[d], 1, &all, 42, &many));
            MUSTER_TRY(muster_worker_scatter(worker, NULL, root, rows, row));
            MUSTER_TRY(muster_worker_scatter(worker, NULL, root, many, number));
            MUSTER_TRY(ranks_expect(worker, row, golden, "this rank's row"));
            MUSTER_TRY(ranks_expect_all(worker, number, 42, "this rank's number"));
        }
    return MUSTER_OK;
}

static void test_rows_and_numbers_are_scattered(void **state) {
    (void)state;
    ranks_run(scatter_arrays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_receives_what_the_rank_before_it_sends),
        cmocka_unit_test(test_a_tuple_may_have_several_dtypes),
        cmocka_unit_test(test_slices_arrive_packed),
        cmocka_unit_test(test_sums_of_arrays_and_of_single_numbers),
        cmocka_unit_test(test_every_rank_gets_the_rows_of_all),
        cmocka_unit_test(test_parts_of_an_exchange_may_differ_and_be_empty),
        cmocka_unit_test(test_arrays_of_unequal_shapes_are_gathered),
        cmocka_unit_test(test_the_root_gets_one_number_of_each_rank),
        cmocka_unit_test(test_arrays_and_numbers_are_broadcast),
        cmocka_unit_test(test_rows_and_numbers_are_scattered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Cases that collectives of ChainerMN and TorchMPI are tested with, and the numbers that they give
 * there. */
#include "base_seed.h"
#include "collectives_values.h"
#include "scheduler_scratch.h"

#include <stdlib.h>

static int64_t sum_of_ranks(int32_t size) { return (int64_t)size * (size - 1) / 2; }

/* ---- ChainerMN ---- */

/* Gradients of 40000 in f16 on 2 ranks: their sum is beyond 65504, their average is not. */
static muster_status overflow_task(muster_worker *w, void *argument) {
    (void)argument;
    uint16_t gradient[3], sum[3], infinity[3];
    int64_t count = 3;
    for (int i = 0; i < 3; i++) gradient[i] = muster_f32_to_f16(40000), infinity[i] = 0x7c00;
    muster_tensor g = values_copy(w, muster_tensor_make(MUSTER_F16, gradient, 1, &count)),
                  s = values_copy(w, muster_tensor_make(MUSTER_F16, sum, 1, &count));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, g, s));
    MUSTER_TRY(values_same(w, s, muster_tensor_make(MUSTER_F16, infinity, 1, &count)));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_AVG, g, g));
    return values_same(w, g, muster_tensor_make(MUSTER_F16, gradient, 1, &count));
}

static void test_an_average_of_f16_does_not_overflow(void **state) {
    (void)state;
    values_run_on(overflow_task, NULL, 2);
    values_run_on_all(overflow_task, NULL, 2);
}

static muster_tensor shaped(muster_worker *w, int32_t ndim, const int64_t *shape, double value) {
    muster_tensor t = scratch_tensor(w, MUSTER_F32, ndim, shape);
    return muster_fill(w, value, t) == MUSTER_OK ? t : muster_tensor_none();
}

static muster_status is_filled(muster_worker *w, muster_tensor t, float value) {
    float host[15000];
    int64_t count = muster_tensor_count(t);
    for (int64_t i = 0; i < count; i++) host[i] = value;
    return values_same(w, t, muster_f32(host, count));
}

/* One message round the ring of ranks, open at the end: rank r > 0 receives what is filled with r -
 * 1. */
static muster_status pass_on(muster_worker *w, int32_t arrays, int32_t ndim) {
    static const int64_t shape[] = {50, 20, 5, 3}; /* arrays of a tuple differ by one row */
    for (int32_t a = 0; a < arrays; a++) {
        int64_t own[4] = {shape[0] - a, shape[1], shape[2], shape[3]};
        muster_tensor x = shaped(w, ndim, own, muster_worker_rank(w)), y = shaped(w, ndim, own, -1);
        if (muster_worker_rank(w) > 0) MUSTER_TRY(muster_worker_recv(w, NULL, muster_worker_rank(w) - 1, a, y));
        if (muster_worker_rank(w) > 0) MUSTER_TRY(is_filled(w, y, (float)(muster_worker_rank(w) - 1)));
        if (muster_worker_rank(w) < muster_worker_size(w) - 1) MUSTER_TRY(muster_worker_send(w, NULL, muster_worker_rank(w) + 1, a, x));
    }
    return MUSTER_OK;
}

static muster_status chain_task(muster_worker *w, void *argument) {
    (void)argument;
    for (int32_t ndim = 0; ndim <= 4; ndim++) {
        MUSTER_TRY(pass_on(w, 1, ndim));
        if (ndim > 0) MUSTER_TRY(pass_on(w, 3, ndim));
    }
    return MUSTER_OK;
}

static void test_a_chain_of_arrays_of_every_rank_and_of_tuples(void **state) {
    (void)state;
    values_run_on_all(chain_task, NULL, 1);
}

/* x = arange(n) + r gives arange(n) P + P (P - 1) / 2. */
static muster_status arange_sum(muster_worker *w, muster_dtype dtype, int64_t n) {
    double start[32], wanted[32];
    char in[256], out[256];
    for (int64_t i = 0; i < n; i++)
        start[i] = (double)(i + muster_worker_rank(w)),
        wanted[i] = (double)(i * muster_worker_size(w) + sum_of_ranks(muster_worker_size(w)));
    mst_convert(dtype, in, MUSTER_F64, start, n);
    mst_convert(dtype, out, MUSTER_F64, wanted, n);
    muster_tensor x = values_copy(w, muster_tensor_make(dtype, in, 1, &n));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return values_same(w, x, muster_tensor_make(dtype, out, 1, &n));
}

static muster_status arange_task(muster_worker *w, void *argument) {
    (void)argument;
    static const muster_dtype dtypes[] = {MUSTER_I32, MUSTER_I64, MUSTER_F32, MUSTER_F64};
    for (int d = 0; d < 4; d++) {
        MUSTER_TRY(arange_sum(w, dtypes[d], 1));
        MUSTER_TRY(arange_sum(w, dtypes[d], 18));
        MUSTER_TRY(arange_sum(w, dtypes[d], 32));
    }
    muster_tensor one = shaped(w, 0, NULL, 1); /* no axes: 1 gives P */
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, one, one));
    return is_filled(w, one, (float)muster_worker_size(w));
}

static void test_sums_of_ranges(void **state) {
    (void)state;
    values_run_on_all(arange_task, NULL, 1);
}

/* Rank r sends its row r of arange(4 P) as (P, 4) to all: all receive all rows, in order. */
static muster_status rows_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t n = muster_worker_size(w), sent[16], received[16], total = 0;
    muster_tensor x = values_make(w, 4 * n, -1, 0), y = values_make(w, 4 * n, -1, 0);
    for (int64_t r = 0; r < n; r++)
        MUSTER_TRY(muster_copy(w, values_make(w, 4, 4 * muster_worker_rank(w), 1), muster_tensor_slice(x, 4 * r, 4 * r + 4)));
    MUSTER_TRY(muster_worker_all_to_all(w, NULL, x, y));
    MUSTER_TRY(values_expect(w, y, 0, 1));
    /* Rank r sends (r, i) elements to rank i: none at all among them. */
    for (int64_t r = 0; r < n; r++) sent[r] = muster_worker_rank(w) * r, total += received[r] = r * muster_worker_rank(w);
    muster_tensor a = values_make(w, total, muster_worker_rank(w), 0), b = values_make(w, total, -1, 0);
    MUSTER_TRY(muster_worker_all_to_all_uneven(w, NULL, a, sent, b, received));
    for (int64_t r = 0, at = 0; r < n; at += received[r++]) MUSTER_TRY(values_expect_part(w, b, at, at + received[r], r, 0));
    return MUSTER_OK;
}

static void test_all_to_all_of_rows_and_of_empty_parts(void **state) {
    (void)state;
    values_run_on_all(rows_task, NULL, 1);
}

/* Unequal shapes (10, r + 1) and (r + 1, r + 1). */
static muster_status unequal_task(muster_worker *w, void *argument) {
    (void)argument;
    for (int square = 0; square < 2; square++) {
        int64_t total = 0, own = (muster_worker_rank(w) + 1) * (square ? muster_worker_rank(w) + 1 : 10);
        for (int64_t r = 0; r < muster_worker_size(w); r++) total += (r + 1) * (square ? r + 1 : 10);
        muster_tensor x = values_make(w, own, muster_worker_rank(w), 0), all = values_make(w, total, -1, 0),
                      at_root = values_make(w, total, -1, 0);
        int32_t root = muster_worker_size(w) - 1;
        MUSTER_TRY(muster_worker_all_gather(w, NULL, x, all));
        MUSTER_TRY(muster_worker_gather(w, NULL, root, x, muster_worker_rank(w) == root ? at_root : muster_tensor_none()));
        for (int64_t r = 0, at = 0, end; r < muster_worker_size(w); at = end, r++) {
            end = at + (r + 1) * (square ? r + 1 : 10);
            MUSTER_TRY(values_expect_part(w, all, at, end, r, 0));
            if (muster_worker_rank(w) == root) MUSTER_TRY(values_expect_part(w, at_root, at, end, r, 0));
        }
    }
    return MUSTER_OK;
}

static void test_gathering_unequal_shapes(void **state) {
    (void)state;
    values_run_on_all(unequal_task, NULL, 1);
}

static muster_tensor number(muster_worker *w, int64_t value) { return muster_tensor_reshape(values_make(w, 1, value, 0), 0, NULL); }

static muster_status rooted_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t n = muster_worker_size(w);
    for (int32_t root = 0; root < muster_worker_size(w); root++) {
        bool own = muster_worker_rank(w) == root;
        muster_tensor none = muster_tensor_none(), all = values_make(w, n, -1, 0), range = values_make(w, 4, own ? 0 : -1, own),
                      answer = number(w, own ? 42 : -1);
        MUSTER_TRY(muster_worker_gather(w, NULL, root, number(w, muster_worker_rank(w)), own ? all : none));
        MUSTER_TRY(values_expect(w, all, own ? 0 : -1, own)); /* nothing on the others */
        MUSTER_TRY(muster_worker_broadcast(w, NULL, root, range, range));
        MUSTER_TRY(values_expect(w, range, 0, 1));
        MUSTER_TRY(muster_worker_broadcast(w, NULL, root, answer, answer));
        MUSTER_TRY(values_expect(w, answer, 42, 0));
        muster_tensor rows = own ? values_make(w, 3 * n, 0, 1) : none, row = values_make(w, 3, -1, 0), scalar = number(w, -1);
        MUSTER_TRY(muster_worker_scatter(w, NULL, root, rows, row));
        MUSTER_TRY(values_expect(w, row, 3 * muster_worker_rank(w), 1));
        MUSTER_TRY(muster_worker_scatter(w, NULL, root, own ? values_make(w, n, 42, 0) : none, scalar));
        MUSTER_TRY(values_expect(w, scalar, 42, 0));
    }
    return MUSTER_OK;
}

static void test_gather_broadcast_and_scatter_of_numbers(void **state) {
    (void)state;
    values_run_on_all(rooted_task, NULL, 1);
}

/* arange(18) as (3, 3, 2), of which [:, 1, :] is sent: 2 3, 8 9, 14 15. Strided tensors are
 * refused; a copy is sent. */
static muster_status strided_task(muster_worker *w, void *argument) {
    (void)argument;
    static const int64_t expected[] = {2, 3, 8, 9, 14, 15}, shape[] = {3, 2};
    muster_tensor x = values_make(w, 18, 0, 1), middle = x;
    muster_tensor packed;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I64, 2, shape, &packed));
    middle.ndim = 2;
    middle.shape[0] = 3, middle.shape[1] = 2;
    middle.strides[0] = 6, middle.strides[1] = 1;
    middle.byte_offset += 2 * 8;
    int32_t peer = 1 - muster_worker_rank(w);
    VALUES_REFUSED(muster_worker_send(w, NULL, peer, 0, middle), MUSTER_UNSUPPORTED,
                   "muster_worker_send: input: expected a contiguous tensor, received a strided one");
    if (muster_worker_rank(w) == 0) {
        MUSTER_TRY(muster_copy(w, middle, packed));
        return muster_worker_send(w, NULL, peer, 0, packed);
    }
    MUSTER_TRY(muster_worker_recv(w, NULL, peer, 0, packed));
    return values_same(w, packed, muster_i64(expected, 3, 2));
}

static void test_a_slice_that_is_not_contiguous(void **state) {
    (void)state;
    values_run_on(strided_task, NULL, 2);
}

/* color r % 2, key -r: the order inside each part is reversed, and sums are the part's own. */
static muster_status split_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    int32_t color = muster_worker_rank(w) % 2, size = (muster_worker_size(w) + 1 - color) / 2;
    MUSTER_TRY(muster_worker_split(w, NULL, color, -muster_worker_rank(w), &part));
    VALUES_REQUIRE(muster_communicator_size(part) == size);
    VALUES_REQUIRE(muster_communicator_rank(part, w) == size - 1 - muster_worker_rank(w) / 2);
    muster_tensor x = values_make(w, 3, muster_worker_rank(w), 0), order = values_make(w, size, -1, 0);
    MUSTER_TRY(muster_worker_all_gather(w, part, number(w, muster_worker_rank(w)), order));
    MUSTER_TRY(values_expect(w, order, 2 * (size - 1) + color, -2));
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, x, x));
    MUSTER_TRY(values_expect(w, x, 2 * sum_of_ranks(size) + (int64_t)size * color, 0));
    return muster_worker_release(w, part);
}

static void test_split_in_two_with_the_order_reversed(void **state) {
    (void)state;
    values_run_on_all(split_task, NULL, 2);
}

/* Within the parts of `inner` ranks, between them, and together again: the same as all at once, for
 * counts that do not divide. */
typedef struct hierarchy {
    int32_t inner, outer;
    int64_t count;
} hierarchy;

static muster_status hierarchy_task(muster_worker *w, void *argument) {
    const hierarchy *h = argument;
    int64_t begin = h->count * (muster_worker_rank(w) % h->inner) / h->inner,
            end = h->count * (muster_worker_rank(w) % h->inner + 1) / h->inner;
    muster_communicator *inside, *between;
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w) / h->inner, muster_worker_rank(w), &inside));
    MUSTER_TRY(muster_worker_split(w, NULL, muster_worker_rank(w) % h->inner, muster_worker_rank(w), &between));
    muster_tensor x = values_make(w, h->count, muster_worker_rank(w), 1), y = values_make(w, h->count, muster_worker_rank(w), 1),
                  own = muster_tensor_slice(y, begin, end);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    MUSTER_TRY(muster_worker_reduce_scatter(w, inside, MUSTER_SUM, y, own));
    MUSTER_TRY(muster_worker_all_reduce(w, between, MUSTER_SUM, own, own));
    MUSTER_TRY(muster_worker_all_gather(w, inside, own, y));
    MUSTER_TRY(values_expect(w, x, sum_of_ranks(muster_worker_size(w)), muster_worker_size(w)));
    MUSTER_TRY(values_expect(w, y, sum_of_ranks(muster_worker_size(w)), muster_worker_size(w)));
    MUSTER_TRY(muster_worker_release(w, inside));
    return muster_worker_release(w, between);
}

static void test_a_hierarchy_of_sums_whose_counts_do_not_divide(void **state) {
    (void)state;
    hierarchy all[] = {{3, 1, 10}, {2, 2, 10}, {4, 1, 1}, {2, 2, 1}, {4, 1, 0}, {2, 2, 0}, {3, 3, 10}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) values_run_on(hierarchy_task, &all[i], all[i].inner * all[i].outer);
}

/* ---- TorchMPI ---- */

typedef struct filled {
    muster_dtype dtype;
    int64_t count;
} filled;

static muster_tensor fill_with(muster_worker *w, const filled *f, double value) {
    muster_tensor t = scratch_tensor(w, f->dtype, 1, &f->count);
    return muster_fill(w, value, t) == MUSTER_OK ? t : muster_tensor_none();
}

/* All values are this one: the smallest and the largest are. */
static muster_status all_are(muster_worker *w, muster_tensor t, double value) {
    for (muster_reduction op = MUSTER_MAX; op <= MUSTER_MIN; op++) {
        char found[8];
        double received;
        muster_tensor one;
        MUSTER_TRY(muster_worker_scratch(w, t.dtype, 0, NULL, &one));
        MUSTER_TRY(muster_reduce(w, op, t, -1, one));
        MUSTER_TRY(muster_worker_read(w, one, muster_tensor_make(t.dtype, found, 0, NULL)));
        mst_convert(MUSTER_F64, &received, t.dtype, found, 1);
        if (received != value)
            return mst_error(MUSTER_USER, "rank %d: expected %g everywhere, received %g", muster_worker_rank(w), value, received);
    }
    return MUSTER_OK;
}

/* fill = rank, in place and out of place: sums, the last rank's values, the left neighbour's;
 * inputs stay. */
static muster_status filled_task(muster_worker *w, void *argument) {
    const filled *f = argument;
    double sum = (double)sum_of_ranks(muster_worker_size(w));
    int32_t last = muster_worker_size(w) - 1, right = (muster_worker_rank(w) + 1) % muster_worker_size(w),
            left = (muster_worker_rank(w) + last) % muster_worker_size(w);
    muster_tensor x = fill_with(w, f, muster_worker_rank(w)), y = fill_with(w, f, -1);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, y));
    MUSTER_TRY(all_are(w, y, sum));
    MUSTER_TRY(muster_worker_reduce(w, NULL, MUSTER_SUM, 0, x, y));
    MUSTER_TRY(all_are(w, y, sum));
    MUSTER_TRY(muster_worker_broadcast(w, NULL, last, x, y));
    MUSTER_TRY(all_are(w, y, last));
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    MUSTER_TRY(muster_worker_send(w, NULL, right, 0, x));
    MUSTER_TRY(muster_worker_recv(w, NULL, left, 0, y));
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    MUSTER_TRY(all_are(w, y, left));
    MUSTER_TRY(all_are(w, x, muster_worker_rank(w)));
    MUSTER_TRY(muster_worker_broadcast(w, NULL, last, x, x));
    MUSTER_TRY(all_are(w, x, last));
    MUSTER_TRY(muster_fill(w, muster_worker_rank(w), x));
    MUSTER_TRY(muster_worker_reduce(w, NULL, MUSTER_SUM, 0, x, x));
    MUSTER_TRY(all_are(w, x, muster_worker_rank(w) == 0 ? sum : muster_worker_rank(w)));
    MUSTER_TRY(muster_fill(w, muster_worker_rank(w), x));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return all_are(w, x, sum);
}

#if defined(MUSTER_TEST_SANITIZED)
enum { LARGEST = 15 };
#else
enum { LARGEST = 19 };
#endif

/* Sizes of 2^i + random(0 .. 127), i from 8 to 23 in TorchMPI and with MUSTER_TEST_FULL=1. */
static void test_filled_with_the_rank(void **state) {
    (void)state;
    static const muster_dtype dtypes[] = {MUSTER_I8, MUSTER_I16, MUSTER_I32, MUSTER_I64, MUSTER_F32, MUSTER_F64};
    uint64_t random = test_seed();
    int largest = test_is_full() ? 23 : LARGEST;
    collectives_pool c;
    collectives_open(&c, 3, 0);
    for (int i = 8; i <= largest; i++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            filled f = {dtypes[d], (1LL << i) + (int64_t)(random >> 57)};
            assert_ok(collectives_run(&c, filled_task, &f));
        }
    }
    collectives_close(&c);
}

static muster_status filled_small_task(muster_worker *w, void *argument) {
    (void)argument;
    for (muster_dtype dtype = MUSTER_F32; dtype <= MUSTER_I64; dtype++) {
        filled f = {dtype, 1000 + muster_worker_size(w)};
        MUSTER_TRY(filled_task(w, &f));
    }
    return MUSTER_OK;
}

static void test_filled_with_the_rank_on_every_number_of_ranks(void **state) {
    (void)state;
    values_run_on_all(filled_small_task, NULL, 1);
}

/* 3, 4 and 5 elements on 3 ranks: 000 1111 22222. */
static muster_status twelve_task(muster_worker *w, void *argument) {
    (void)argument;
    static const int64_t all[] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2};
    muster_tensor x = values_make(w, 3 + muster_worker_rank(w), muster_worker_rank(w), 0), y = values_make(w, 12, -1, 0);
    MUSTER_TRY(muster_worker_all_gather(w, NULL, x, y));
    return values_same(w, y, muster_i64(all, 12));
}

static void test_all_gather_of_three_four_and_five(void **state) {
    (void)state;
    values_run_on(twelve_task, NULL, 3);
}

/* ---- neon ---- */

/* 9 elements on 8 ranks: equal segments would leave some ranks without elements. */
static muster_status nine_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 9, muster_worker_rank(w) * 10, 1);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return values_expect(w, x, 10 * sum_of_ranks(muster_worker_size(w)), muster_worker_size(w));
}

/* A matrix of 24 x 128: its rows dealt out, and gathered again. */
static muster_status round_trip_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t first = 24 * muster_worker_rank(w) / muster_worker_size(w) * 128,
            end = 24 * (muster_worker_rank(w) + 1) / muster_worker_size(w) * 128;
    muster_tensor none = muster_tensor_none(), whole = muster_worker_rank(w) == 0 ? values_make(w, 24 * 128, 0, 1) : none,
                  back = values_make(w, 24 * 128, -1, 0);
    muster_tensor own = values_make(w, end - first, -1, 0);
    MUSTER_TRY(muster_worker_scatter(w, NULL, 0, whole, own));
    MUSTER_TRY(values_expect(w, own, first, 1));
    MUSTER_TRY(muster_worker_gather(w, NULL, 0, own, muster_worker_rank(w) == 0 ? back : none));
    if (muster_worker_rank(w) == 0) MUSTER_TRY(values_expect(w, back, 0, 1));
    MUSTER_TRY(muster_worker_all_gather(w, NULL, own, back));
    return values_expect(w, back, 0, 1);
}

static void test_nine_elements_and_a_matrix_there_and_back(void **state) {
    (void)state;
    values_run_on(nine_task, NULL, 2);
    values_run_on(nine_task, NULL, 8);
    values_run_on_all(nine_task, NULL, 1);
    values_run_on_all(round_trip_task, NULL, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_average_of_f16_does_not_overflow),
        cmocka_unit_test(test_a_chain_of_arrays_of_every_rank_and_of_tuples),
        cmocka_unit_test(test_sums_of_ranges),
        cmocka_unit_test(test_all_to_all_of_rows_and_of_empty_parts),
        cmocka_unit_test(test_gathering_unequal_shapes),
        cmocka_unit_test(test_gather_broadcast_and_scatter_of_numbers),
        cmocka_unit_test(test_a_slice_that_is_not_contiguous),
        cmocka_unit_test(test_split_in_two_with_the_order_reversed),
        cmocka_unit_test(test_a_hierarchy_of_sums_whose_counts_do_not_divide),
        cmocka_unit_test(test_filled_with_the_rank),
        cmocka_unit_test(test_filled_with_the_rank_on_every_number_of_ranks),
        cmocka_unit_test(test_all_gather_of_three_four_and_five),
        cmocka_unit_test(test_nine_elements_and_a_matrix_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

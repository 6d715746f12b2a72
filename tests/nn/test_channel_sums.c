/* Sums over the elements of each channel against plain loops: random shapes in each kind of layout,
 * with a factor and without, on CPU cores and by the operations of other devices. The numbers are
 * small integers, so that sums are exact. And numbers of f32 whose squares only f64 holds. */
#include "base_check.h"
#include "base_machine.h"
#include "channels/channel_sums_impl.h"
#include "device_discrete.h"
#include "ops_fixture.h"

#include <string.h>

enum { CONTIGUOUS, CHANNELS_LAST, ROWS_LAST, ANY, LAYOUTS, MOST_CHANNELS = 40 };

typedef struct shape_case {
    int64_t shape[MUSTER_MAX_DIMS];
    int32_t ndim;
} shape_case;

static int64_t between(int64_t low, int64_t high) { return low + ops_random(high - low + 1); }

static void random_case(shape_case *c) {
    const bool wide = ops_random(3) == 0;
    c->ndim = (int32_t)between(2, 5);
    c->shape[0] = ops_random(12) ? between(1, wide ? 3 : 40) : 0;
    c->shape[1] = ops_random(12) ? between(1, wide ? MOST_CHANNELS : 4) : 0;
    for (int32_t d = 2; d < c->ndim; d++) c->shape[d] = ops_random(24) ? between(1, c->ndim == 3 ? 40 : 4) : 0;
}

static int64_t count_of(const shape_case *c) {
    int64_t count = 1;
    for (int32_t d = 0; d < c->ndim; d++) count *= c->shape[d];
    return count;
}

/* The axes of the layout from the last to the first, as they lie in memory. */
static void strides_set(const shape_case *c, int32_t layout, muster_tensor *tensor) {
    int32_t order[MUSTER_MAX_DIMS], count = 0;
    int64_t stride = 1;
    const int32_t last = layout == CHANNELS_LAST ? 1 : layout == ROWS_LAST ? 0 : -1;
    if (last >= 0) order[count++] = last;
    for (int32_t d = c->ndim - 1; d >= 0; d--)
        if (d != last) order[count++] = d;
    for (int32_t i = 0; i < count; i++) {
        tensor->strides[order[i]] = stride;
        stride *= c->shape[order[i]];
    }
}

static ops_pair operand_of(muster_worker *worker, muster_dtype dtype, const shape_case *c, int32_t layout) {
    if (layout == ANY) return ops_view(worker, dtype, c->ndim, c->shape, true);
    ops_pair pair = ops_make(worker, dtype, count_of(c));
    pair.host = muster_tensor_make(dtype, pair.host_storage.data, c->ndim, c->shape);
    strides_set(c, layout, &pair.host);
    ops_place(&pair);
    return pair;
}

static void plain_loops(const shape_case *c, const ops_pair *x, const ops_pair *center, const ops_pair *factor,
                        double sums[2][MOST_CHANNELS]) {
    int64_t index[MUSTER_MAX_DIMS] = {0};
    memset(sums, 0, 2 * sizeof *sums);
    if (count_of(c) == 0) return;
    do {
        const double d = ops_element(x->host, c->ndim, index) - ops_element(center->host, 1, &index[1]);
        const double f = factor ? ops_element(factor->host, c->ndim, index) : d;
        sums[0][index[1]] += f;
        sums[1][index[1]] += f * d;
    } while (ops_next(c->ndim, c->shape, index));
}

static int32_t cases, empty;

static void run_case(muster_worker *worker, const shape_case *c, muster_dtype dtype, int32_t layout, int32_t of_factor) {
    const int64_t mark = muster_worker_scratch_mark(worker), results[] = {2, c->shape[1]};
    double expected[2][MOST_CHANNELS];
    const ops_pair x = operand_of(worker, dtype, c, layout), center = ops_view(worker, dtype, 1, &c->shape[1], true);
    const ops_pair factor = operand_of(worker, dtype, c, of_factor < LAYOUTS ? of_factor : 0);
    const ops_pair sums = ops_view(worker, MUSTER_F64, 2, results, false);
    const ops_pair *by = of_factor < LAYOUTS ? &factor : NULL;
    plain_loops(c, &x, &center, by, expected);
    assert_ok(mst_channel_sums(worker, &x.device, &center.device, by ? &by->device : NULL, &sums.device));
    ops_fetch(worker, &sums);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t k = 0; k < c->shape[1]; k++) {
            const double received = ops_element(sums.host, 2, (int64_t[]){i, k});
            if (received != expected[i][k])
                fail_msg("%s, layout %d, factor %d, sum %d of channel %d: expected %.17g, received %.17g", muster_dtype_name(dtype),
                         (int)layout, (int)of_factor, (int)i, (int)k, expected[i][k], received);
        }
    cases++;
    empty += count_of(c) == 0;
    assert_ok(muster_worker_scratch_release(worker, mark));
}

static muster_status random_body(muster_worker *worker, void *unused) {
    const int rounds = ops_rounds(30, 600);
    (void)unused;
    for (int round = 0; round < rounds; round++)
        for (int32_t layout = 0; layout < LAYOUTS; layout++)
            for (int32_t factor = 0; factor <= LAYOUTS; factor++) {
                shape_case c;
                do random_case(&c);
                while (count_of(&c) > (layout == ANY || factor == ANY ? 600 : 4000));
                run_case(worker, &c, round % 2 ? MUSTER_F32 : MUSTER_F64, layout, factor);
            }
    return MUSTER_OK;
}

static void sums_are_those_of_plain_loops(void **state) {
    static const char *const backends[] = {"host", "discrete"};
    (void)state;
    cases = empty = 0;
    for (int b = ops_first_backend(); b < 2; b++) {
        ops_seed();
        assert_ok(ops_run_on(backends[b], random_body, NULL));
    }
    assert_int_equal(cases, ops_rounds(30, 600) * LAYOUTS * (LAYOUTS + 1) * (2 - ops_first_backend()));
    assert_true(empty > cases / 20 && empty < cases / 2);
}

/* 2^24 + 1 has no f32: f32 sums of these numbers and squares would be rounded. One number of each
 * channel is 2^24, the others are 3; the centers are 0 and -1. */
static void large_case(muster_worker *worker, const shape_case *c) {
    const int64_t mark = muster_worker_scratch_mark(worker), channels = c->shape[1], others = count_of(c) / channels - 1;
    const bool rows = c->ndim == 2;
    ops_pair x = ops_make(worker, MUSTER_F32, count_of(c)), center = ops_make(worker, MUSTER_F32, channels);
    ops_pair sums = ops_make(worker, MUSTER_F64, 2 * channels);
    x.host = muster_tensor_make(MUSTER_F32, x.host_storage.data, c->ndim, c->shape);
    sums.host = muster_tensor_make(MUSTER_F64, sums.host_storage.data, 2, (int64_t[]){2, channels});
    for (int64_t i = 0; i < count_of(c); i++)
        ((float *)x.host_storage.data)[i] = (rows ? i < channels : i % (others + 1) == 0) ? 0x1p24f : 3;
    for (int64_t i = 0; i < channels; i++) ((float *)center.host_storage.data)[i] = i ? -1 : 0;
    ops_place(&x), ops_place(&center), ops_place(&sums);
    ops_send(worker, &x), ops_send(worker, &center);
    assert_ok(mst_channel_sums(worker, &x.device, &center.device, NULL, &sums.device));
    ops_fetch(worker, &sums);
    const double *received = sums.host_storage.data, n = (double)others;
    assert_true(received[0] == 0x1p24 + 3 * n && received[1] == 0x1p24 + 1 + 4 * n);
    assert_true(received[2] == 0x1p48 + 9 * n && received[3] == (0x1p24 + 1) * (0x1p24 + 1) + 16 * n);
    assert_ok(muster_worker_scratch_release(worker, mark));
}

static muster_status large_body(muster_worker *worker, void *unused) {
    (void)unused;
    large_case(worker, &(shape_case){{3, 2}, 2});
    large_case(worker, &(shape_case){{1, 2, 40}, 3});
    return MUSTER_OK;
}

static void sums_of_f32_are_taken_in_f64(void **state) {
    (void)state;
    assert_ok(ops_run_on("host", large_body, NULL));
    assert_ok(ops_run_on("discrete", large_body, NULL));
}

static int open_discrete(void **state) {
    (void)state;
    return mst_discrete_register() == MUSTER_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_those_of_plain_loops), cmocka_unit_test(sums_of_f32_are_taken_in_f64)};
    return cmocka_run_group_tests(tests, open_discrete, NULL);
}

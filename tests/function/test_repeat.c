/* Calls of one function in a row. A call that looks like the one before goes a shorter way: nothing
 * of what a call or its body did may be seen in the next one. */
#include "function_fixture.h"

#include <stdbool.h>
#include <string.h>

enum { MOST_ROWS = 9, K = 3, BUFFERS = 3, CALLS = 400 };

/* What the next call does; most of it as in the call before. */
typedef struct call_kind {
    int rows, x_buffer, out_buffer;
    bool single, batch, named;
    int64_t slices;
    bool wants_sum, wants_gathered;
    /* what the body does beside its results */
    bool spoils_views; /* overwrites the views that it was given to write to */
    bool fails;
    bool asks_for_rows; /* muster_worker_output_rows, in two steps */
    bool weighs;        /* rank r gives its rows the weight r + 1 */
} call_kind;

/* sum = sum of the rows, mean = mean of the rows by weight, gathered = 2 x */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const call_kind *kind = user;
    const int64_t rows = muster_worker_rows(w);
    if (muster_worker_weight(w) != (double)rows) return muster_fail(MUSTER_INTERNAL, "a weight of another call");
    if (kind->fails && muster_worker_first_row(w) + rows == muster_worker_total_rows(w)) return muster_fail(MUSTER_USER, "on purpose");
    muster_tensor gathered = out[2];
    if (kind->asks_for_rows) MUSTER_TRY(muster_worker_output_rows(w, 2, rows + 1, &gathered));
    if (kind->asks_for_rows) MUSTER_TRY(muster_worker_output_rows(w, 2, rows, &gathered));
    if (out[0].dtype) MUSTER_TRY(muster_reduce(w, MUSTER_SUM, in[0], 0, out[0]));
    MUSTER_TRY(muster_reduce(w, MUSTER_AVG, in[0], 0, out[1]));
    if (gathered.dtype) MUSTER_TRY(muster_copy(w, in[0], gathered));
    if (gathered.dtype) MUSTER_TRY(muster_axpy(w, 1, in[0], gathered));
    if (kind->weighs) MUSTER_TRY(muster_worker_set_weight(w, (double)(rows * (muster_worker_rank(w) + 1))));
    for (int i = 0; i < 3 && kind->spoils_views; i++) out[i] = muster_tensor_none();
    return MUSTER_OK;
}

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    float x[BUFFERS][MOST_ROWS][K];
    struct {
        float sum[K], mean[K], gathered[MOST_ROWS][K];
    } out[BUFFERS];
} world;

static void world_open(world *t, const char *backend, int devices, call_kind *kind) {
    memset(t, 0, sizeof *t);
    t->runtime = fixture_open(backend, devices);
    assert_ok(muster_function_create(t->runtime, "f", body, kind, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_output(t->f, "sum", MUSTER_F32, 1, MUSTER_SUM));
    assert_ok(muster_function_output(t->f, "mean", MUSTER_F32, 1, MUSTER_AVG));
    assert_ok(muster_function_output(t->f, "gathered", MUSTER_F32, 2, MUSTER_GATHER));
}

static muster_status call(world *t, const call_kind *kind) {
    const int64_t first = kind->batch, rows = kind->rows - first;
    const muster_tensor in = muster_f32(t->x[kind->x_buffer], kind->rows, K);
    muster_tensor out[3] = {muster_f32(t->out[kind->out_buffer].sum, K), muster_f32(t->out[kind->out_buffer].mean, K),
                            muster_f32(t->out[kind->out_buffer].gathered, rows, K)};
    muster_call_options options;
    muster_call_options_init(&options);
    options.slices = kind->slices;
    if (kind->batch) options.batch = (muster_selection){.kind = MUSTER_SELECT_RANGE, .start = 1, .stop = kind->rows};
    if (!kind->wants_sum) out[0] = muster_tensor_none();
    if (!kind->wants_gathered) out[2] = muster_tensor_none();
    const muster_call_options *given = kind->slices == 1 && !kind->batch ? NULL : &options;
    if (kind->named)
        return muster_function_call_named(t->f, (const char *[]){"x"}, &in, 1, (const char *[]){"sum", "mean", "gathered"}, out, 3, given);
    return kind->single ? muster_function_call_single(t->f, &in, 1, out, 3, given) : muster_function_call(t->f, &in, 1, out, 3, given);
}

/* The rank of a row: ranks begin at floor(r * rows / ranks). */
static int rank_of(int row, int rows, int ranks) {
    int rank = 0;
    while (rank + 1 < ranks && (rank + 1) * rows / ranks <= row) rank++;
    return rank;
}

/* Small integers: every sum is exact; a mean is rounded. */
static void expect_results(world *t, const call_kind *kind, int number) {
    const int first = kind->batch, rows = kind->rows - first, ranks = kind->single && !kind->named ? 1 : muster_runtime_size(t->runtime);
    for (int j = 0; j < K; j++) {
        float sum = 0, weighted = 0, weights = 0;
        for (int i = first; i < kind->rows; i++) {
            const float value = t->x[kind->x_buffer][i][j], gathered = t->out[kind->out_buffer].gathered[i - first][j];
            const float weight = kind->weighs ? (float)rank_of(i - first, rows, ranks) + 1 : 1;
            sum += value;
            weighted += weight * value;
            weights += weight;
            if (kind->wants_gathered && gathered != 2 * value)
                fail_msg("call %d: gathered row %d is %g", number, i - first, (double)gathered);
        }
        if (kind->wants_sum && t->out[kind->out_buffer].sum[j] != sum) fail_msg("call %d: the sum is wrong", number);
        assert_float_equal(t->out[kind->out_buffer].mean[j], weighted / weights, 1e-4);
    }
    if (!kind->wants_sum) assert_float_equal(t->out[kind->out_buffer].sum[0], -7, 0);
    if (!kind->wants_gathered) assert_float_equal(t->out[kind->out_buffer].gathered[0][0], -7, 0);
}

static void change_something(call_kind *kind, uint64_t *state) {
    switch (fixture_random(state, 16)) {
    case 0:
        kind->rows = 2 + (int)fixture_random(state, MOST_ROWS - 1);
        break;
    case 1:
        kind->x_buffer = (int)fixture_random(state, BUFFERS);
        break;
    case 2:
        kind->out_buffer = (int)fixture_random(state, BUFFERS);
        break;
    case 3:
        kind->single = !kind->single;
        break;
    case 4:
        kind->named = !kind->named;
        break;
    case 5:
        kind->batch = !kind->batch;
        break;
    case 6:
        kind->slices = 1 + fixture_random(state, 2);
        break;
    case 7:
        kind->wants_sum = !kind->wants_sum;
        break;
    case 8:
        kind->wants_gathered = !kind->wants_gathered;
        break;
    case 9:
        kind->weighs = !kind->weighs;
        break;
    default: /* as the call before */
        break;
    }
    kind->spoils_views = fixture_random(state, 4) == 0;
    kind->fails = fixture_random(state, 12) == 0;
    kind->asks_for_rows = kind->wants_gathered && fixture_random(state, 5) == 0;
}

static void nothing_of_a_call_is_seen_in_the_next(void **unused) {
    (void)unused;
    uint64_t state = fixture_seed();
    for_each_backend(backend) {
        for (int devices = 1; devices <= 3; devices++) {
            world t;
            call_kind kind = {.rows = MOST_ROWS, .slices = 1, .wants_sum = true, .wants_gathered = true};
            int failed = 0, alike = 0;
            world_open(&t, backend, devices, &kind);
            for (int number = 0; number < CALLS; number++) {
                const call_kind before = kind;
                change_something(&kind, &state);
                for (int i = 0; i < MOST_ROWS * K; i++) t.x[kind.x_buffer][i / K][i % K] = (float)fixture_random(&state, 100) - 50;
                float *results = t.out[0].sum;
                for (size_t i = 0; i < sizeof t.out / (sizeof *results); i++) results[i] = -7;
                alike += before.rows == kind.rows && before.single == kind.single && before.batch == kind.batch && kind.slices == 1;
                failed += kind.fails;
                if (kind.fails) {
                    assert_refused(call(&t, &kind), MUSTER_USER, "on purpose");
                } else {
                    assert_ok(call(&t, &kind));
                    expect_results(&t, &kind, number);
                }
            }
            assert_true(failed > CALLS / 40 && alike > CALLS / 10);
            fixture_close(t.runtime);
        }
    }
}

/* An address that is wrong for its dtype is refused in the second call as in the first. */
static void a_misaligned_address_is_refused_in_a_repeated_call(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        world t;
        call_kind kind = {.rows = 2, .slices = 1, .wants_sum = true, .wants_gathered = true};
        world_open(&t, backend, 2, &kind);
        assert_ok(call(&t, &kind));
        for (int which = 0; which < 2; which++) {
            muster_tensor in = muster_f32(t.x[0], 2, K),
                          out[3] = {muster_f32(t.out[0].sum, K), muster_f32(t.out[0].mean, K), muster_f32(t.out[0].gathered, 2, K)};
            *(which ? &out[2].byte_offset : &in.byte_offset) += 2;
            assert_refused(muster_function_call(t.f, &in, 1, out, 3, NULL), MUSTER_INVALID_ARGUMENT, "aligned to 4 bytes");
            assert_ok(call(&t, &kind));
            in = muster_f32(t.x[0], 2, K);
            out[2] = muster_f32(t.out[0].gathered, 2, K);
            *(which ? &out[2].data : &in.data) = NULL;
            assert_refused(muster_function_call(t.f, &in, 1, out, 3, NULL), MUSTER_INVALID_ARGUMENT, "received NULL");
            assert_ok(call(&t, &kind));
        }
        fixture_close(t.runtime);
    }
}

/* Each field of a tensor counts when a call is compared with the one before. */
static void a_wrong_field_is_refused_in_a_repeated_call(void **state) {
    (void)state;
    call_kind kind = {.rows = 2, .slices = 1, .wants_sum = true, .wants_gathered = true};
    int cases = 0;
    for_each_backend(backend) {
        world t;
        world_open(&t, backend, 2, &kind);
        for (int which = 0; which < 2; which++)
            for (int field = 0; field < 7; field++, cases++) {
                muster_tensor in = muster_f32(t.x[0], 2, K),
                              out[3] = {muster_f32(t.out[0].sum, K), muster_f32(t.out[0].mean, K), muster_f32(t.out[0].gathered, 2, K)};
                assert_ok(muster_function_call(t.f, &in, 1, out, 3, NULL));
                muster_tensor *wrong = which ? &out[2] : &in;
                if (field == 0) wrong->reserved0 = 1;
                if (field == 1) wrong->reserved[1] = 1;
                if (field == 2) wrong->device = 7;
                if (field == 3) wrong->dtype = MUSTER_I32;
                if (field == 4) wrong->ndim = 1;
                if (field == 5) wrong->shape[1]++;
                if (field == 6) wrong->strides[1] = INT64_MAX / 2;
                assert_true(muster_function_call(t.f, &in, 1, out, 3, NULL) != MUSTER_OK);
                assert_ok(call(&t, &kind));
            }
        fixture_close(t.runtime);
    }
    assert_int_equal(cases, 2 * 2 * 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_field_is_refused_in_a_repeated_call),
        cmocka_unit_test(nothing_of_a_call_is_seen_in_the_next),
        cmocka_unit_test(a_misaligned_address_is_refused_in_a_repeated_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

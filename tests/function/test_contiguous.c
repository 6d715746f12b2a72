/* Bodies get contiguous tensors, whatever strides the caller's have: a body of plain loops over
 * addresses is right for views of every kind, as input and as output, and writes nothing beside
 * them. */
#include "base_machine.h"
#include "call_private.h"
#include "function_fixture.h"
#include "runtime_impl.h"

#include "memory_impl.h"

#include <string.h>

enum { ROWS = 7, COLUMNS = 3, STORE = 400, CANARY = -77, DEVICES = 3 };

/* A view of ROWS x COLUMNS elements, or of fewer, in `store`. */
typedef struct layout {
    const char *name;
    int64_t rows, columns, first, strides[2];
    bool repeats; /* only an input */
} layout;

static const layout layouts[] = {
    {"contiguous", ROWS, COLUMNS, 0, {COLUMNS, 1}, false},
    {"columns of a wider matrix", ROWS, COLUMNS, 5, {2 * COLUMNS, 1}, false},
    {"every other column", ROWS, COLUMNS, 3, {2 * COLUMNS + 1, 2}, false},
    {"transposed", ROWS, COLUMNS, 0, {1, ROWS}, false},
    {"rows backwards", ROWS, COLUMNS, 100, {-COLUMNS, 1}, false},
    {"all backwards", ROWS, COLUMNS, 100, {-COLUMNS, -1}, false},
    {"columns backwards, with gaps", ROWS, COLUMNS, 100, {3 * COLUMNS, -2}, false},
    {"one row for all", ROWS, COLUMNS, 2, {0, 1}, true},
    {"one element for all", ROWS, COLUMNS, 9, {0, 0}, true},
    {"one column with a stride of no use", ROWS, 1, 4, {1, 50}, false},
    {"one column", ROWS, 1, 1, {COLUMNS, 1}, false},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static int64_t place_of(const layout *l, int64_t row, int64_t column) { return l->first + row * l->strides[0] + column * l->strides[1]; }

static muster_tensor view_of(const layout *l, int32_t *store) {
    muster_tensor view = muster_tensor_make(MUSTER_I32, store, 2, (const int64_t[]){l->rows, l->columns});
    view.byte_offset = l->first * (int64_t)sizeof *store;
    memcpy(view.strides, l->strides, sizeof l->strides);
    return view;
}

typedef struct record {
    bool wrong[DEVICES];
    bool own_rows, fails;
} record;

static bool is_plain(const muster_tensor *t) {
    return t->strides[t->ndim - 1] == 1 && t->strides[0] == (t->shape[1] > 0 ? t->shape[1] : 1);
}

/* y = 2 x + all's element of the same column, by loops over addresses. in: x scattered, x for host
 * code, all broadcast, all for host code. */
static muster_status plain_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    record *r = user;
    const int32_t rank = muster_worker_rank(w);
    muster_tensor y = out[0];
    if (r->own_rows) MUSTER_TRY(muster_worker_output_rows(w, 0, in[0].shape[0], &y));
    for (int i = 0; i < 4; i++) r->wrong[rank] |= !is_plain(&in[i]);
    r->wrong[rank] |= !is_plain(&y) || y.shape[0] != in[0].shape[0];
    const int64_t count = muster_tensor_count(in[0]), columns = in[0].shape[1];
    int32_t x[ROWS * COLUMNS], all[ROWS * COLUMNS], result[ROWS * COLUMNS];
    MUSTER_TRY(muster_worker_read(w, in[0], muster_tensor_make(MUSTER_I32, x, 2, in[0].shape)));
    MUSTER_TRY(muster_worker_read(w, in[2], muster_tensor_make(MUSTER_I32, all, 2, in[2].shape)));
    const int32_t *hosted = muster_tensor_address(in[1]), *hosted_all = muster_tensor_address(in[3]);
    for (int64_t k = 0; k < count; k++) {
        result[k] = x[k] + hosted[k] + all[k % columns];
        r->wrong[rank] |= hosted_all[k % columns] != all[k % columns];
    }
    MUSTER_TRY(muster_worker_write(w, muster_tensor_make(MUSTER_I32, result, 2, y.shape), y));
    return r->fails && rank == 0 ? muster_fail(MUSTER_USER, "after writing") : MUSTER_OK;
}

static muster_function *contiguous_make(muster_runtime *runtime, record *r) {
    muster_function *f;
    assert_ok(muster_function_create(runtime, "plain", plain_body, r, &f));
    assert_ok(muster_function_input(f, "x", MUSTER_I32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_input(f, "x_host", MUSTER_I32, 2, MUSTER_SCATTER | MUSTER_INPUT_HOST));
    assert_ok(muster_function_input(f, "all", MUSTER_I32, 2, MUSTER_BROADCAST));
    assert_ok(muster_function_input(f, "all_host", MUSTER_I32, 2, MUSTER_BROADCAST | MUSTER_INPUT_HOST));
    assert_ok(muster_function_output(f, "y", MUSTER_I32, 2, MUSTER_GATHER));
    return f;
}

typedef struct arrays {
    int32_t in[STORE], out[STORE];
} arrays;

static void fill(arrays *a) {
    for (int32_t i = 0; i < STORE; i++) a->in[i] = 10 * i + 1, a->out[i] = CANARY;
}

/* The oracle reads and writes elements by their strides. */
static void assert_result(const layout *in, const layout *out, const arrays *a, const int64_t *rows, int64_t count) {
    static arrays expected;
    fill(&expected);
    for (int64_t r = 0; r < count; r++)
        for (int64_t c = 0; c < in->columns; c++)
            expected.out[place_of(out, r, c)] = 2 * a->in[place_of(in, rows[r], c)] + a->in[place_of(in, 0, c)];
    assert_memory_equal(a->out, expected.out, sizeof expected.out);
    assert_memory_equal(a->in, expected.in, sizeof expected.in);
}

static muster_status contiguous_call(muster_function *f, const layout *in, const layout *out, arrays *a, int64_t rows,
                                     const muster_call_options *options, bool later) {
    const muster_tensor x = view_of(in, a->in), all = muster_tensor_slice(x, 0, 1), y = muster_tensor_slice(view_of(out, a->out), 0, rows);
    const muster_tensor inputs[] = {x, x, all, all};
    muster_pending *pending;
    if (!later) return muster_function_call(f, inputs, 4, &y, 1, options);
    MUSTER_TRY(muster_function_call_async(f, inputs, 4, &y, 1, options, &pending));
    return muster_pending_wait(&pending);
}

static const int64_t listed[] = {6, 0, 0, 3, 2};
static const struct {
    muster_selection selection;
    int64_t count, rows[ROWS];
} selections[] = {{{0}, ROWS, {0, 1, 2, 3, 4, 5, 6}},
                  {{.kind = MUSTER_SELECT_RANGE, .start = 2, .stop = 6}, 4, {2, 3, 4, 5}},
                  {{.kind = MUSTER_SELECT_LIST, .indices = listed, .index_count = 5}, 5, {6, 0, 0, 3, 2}}};

static int contiguous_cases(const char *backend, int devices, int shards) {
    static arrays a;
    muster_runtime *runtime = fixture_open_shards(backend, devices, shards);
    record r = {0};
    muster_function *f = contiguous_make(runtime, &r);
    int cases = 0;
    for (int i = 0; i < LAYOUTS; i++) {
        for (int o = 0; o < LAYOUTS; o++) {
            if (layouts[o].repeats || layouts[o].columns != layouts[i].columns) continue;
            for (int k = 0; k < 12; k++, cases++) { /* selections, slices, later or at once; own rows in every third */
                const int s = k % 3;
                muster_call_options options;
                muster_call_options_init(&options);
                options.batch = selections[s].selection;
                options.slices = k / 6 ? 2 : 1;
                r.own_rows = cases % 3 == 0;
                fill(&a);
                assert_ok(contiguous_call(f, &layouts[i], &layouts[o], &a, selections[s].count, &options, k / 3 % 2));
                assert_result(&layouts[i], &layouts[o], &a, selections[s].rows, selections[s].count);
            }
        }
    }
    for (int d = 0; d < DEVICES; d++) assert_false(r.wrong[d]);
    fixture_close(runtime);
    return cases;
}

static void plain_loops_are_right_for_every_view(void **unused) {
    (void)unused;
    const int pairs = 9 * 7 + 2 * 2; /* layouts of as many columns; outputs do not repeat */
    for_each_backend(backend) for (int devices = 1; devices <= DEVICES; devices += 2)
        assert_int_equal(contiguous_cases(backend, devices, 0), 12 * pairs);
    assert_int_equal(contiguous_cases("host", 2, 6), 12 * pairs);
}

/* A body that fails has written nothing of the caller's where that is not contiguous. */
static void a_failing_body_leaves_the_callers_rows(void **unused) {
    (void)unused;
    static arrays a;
    muster_runtime *runtime = fixture_open("host", 1);
    record r = {.fails = true};
    muster_function *f = contiguous_make(runtime, &r);
    fill(&a);
    assert_refused(contiguous_call(f, &layouts[0], &layouts[2], &a, ROWS, NULL, false), MUSTER_USER, "after writing");
    for (int32_t i = 0; i < STORE; i++) assert_int_equal(a.out[i], CANARY);
    fixture_close(runtime);
}

static void repeated_calls_allocate_nothing(void **unused) {
    (void)unused;
    static arrays a;
    muster_runtime *runtime = fixture_open("host", 2);
    record r = {0};
    muster_function *f = contiguous_make(runtime, &r);
    for (int i = 0; i < 2; i++) assert_ok(contiguous_call(f, &layouts[2], &layouts[3], &a, ROWS, NULL, false));
    const int64_t before = mst_memory_count();
    for (int i = 0; i < 5; i++) assert_ok(contiguous_call(f, &layouts[2], &layouts[3], &a, ROWS, NULL, false));
    assert_int_equal(mst_memory_count(), before);
    fixture_close(runtime);
}

/* in: all broadcast, x scattered, both again for host code. */
static muster_status compare_row(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    int32_t all[COLUMNS];
    const size_t bytes = (size_t)muster_tensor_bytes(in[0]);
    (void)out;
    MUSTER_TRY(muster_worker_read(w, in[0], muster_tensor_make(MUSTER_I32, all, 2, in[0].shape)));
    const bool right = memcmp(all, user, bytes) == 0 && memcmp(muster_tensor_address(in[2]), user, bytes) == 0;
    return right ? MUSTER_OK : muster_fail(MUSTER_USER, "another row");
}

static void assert_copied_whole(const char *backend, const layout *l) {
    static arrays a;
    int32_t row[COLUMNS];
    muster_runtime *runtime = fixture_open(backend, 2);
    muster_function *f;
    fill(&a);
    for (int64_t c = 0; c < l->columns; c++) row[c] = a.in[place_of(l, 0, c)];
    assert_ok(muster_function_create(runtime, "row", compare_row, row, &f));
    for (int i = 0; i < 4; i++)
        assert_ok(muster_function_input(f, (const char *const[]){"all", "x", "all_host", "x_host"}[i], MUSTER_I32, 2,
                                        (i % 2 ? MUSTER_SCATTER : MUSTER_BROADCAST) | (i < 2 ? 0 : MUSTER_INPUT_HOST)));
    const muster_tensor x = view_of(l, a.in), all = muster_tensor_slice(x, 0, 1), inputs[] = {all, x, all, x};
    assert_ok(muster_function_prepare(f, inputs, 4, NULL, 0, NULL));
    for (int i = 0; i < 4; i++) {
        const bool on_host = i == 2 || mst_device_is_host(runtime->devices[0]);
        const bool copied = i % 2 == 0 && on_host && l->columns > 1 && l->strides[1] != 1;
        assert_int_equal(f->wholes[i].capacity, copied ? l->columns * (int64_t)sizeof *row : 0);
    }
    assert_ok(muster_function_call(f, inputs, 4, NULL, 0, NULL));
    fixture_close(runtime);
}

/* Once for the bodies of all ranks that read them in host memory; other inputs are not. */
static void broadcast_inputs_with_strides_are_copied_whole(void **unused) {
    (void)unused;
    int cases = 0;
    for_each_backend(backend) for (int l = 0; l < LAYOUTS; l++, cases++) assert_copied_whole(backend, &layouts[l]);
    assert_int_equal(cases, 2 * LAYOUTS);
}

/* With the flag the body gets the caller's memory and strides. */
static muster_status strided_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const muster_tensor *expected = user;
    (void)w;
    for (int i = 0; i < 2; i++) {
        const muster_tensor *t = i ? &out[0] : &in[0];
        if (muster_tensor_address(*t) != muster_tensor_address(expected[i]) ||
            memcmp(t->strides, expected[i].strides, 2 * sizeof *t->strides) != 0)
            return muster_fail(MUSTER_USER, "another view");
    }
    return MUSTER_OK;
}

static void the_flag_hands_on_strides(void **unused) {
    (void)unused;
    static arrays a;
    muster_runtime *runtime = fixture_open("host", 1);
    muster_tensor both[2] = {view_of(&layouts[2], a.in), view_of(&layouts[5], a.out)};
    muster_function *f;
    muster_port port;
    if (mst_device_is_host(runtime->devices[0])) {
        assert_ok(muster_function_create(runtime, "strided", strided_body, both, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_I32, 2, MUSTER_SCATTER | MUSTER_STRIDED));
        assert_ok(muster_function_output(f, "y", MUSTER_I32, 2, MUSTER_GATHER | MUSTER_STRIDED));
        for (int i = 0; i < 3; i++) assert_ok(muster_function_call(f, &both[0], 1, &both[1], 1, NULL));
        assert_ok(muster_function_port(f, 0, &port));
        assert_int_equal(port.mode, MUSTER_SCATTER | MUSTER_STRIDED);
        assert_ok(muster_function_port(f, 1, &port));
        assert_int_equal(port.mode, MUSTER_GATHER | MUSTER_STRIDED);
    }
    fixture_close(runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_loops_are_right_for_every_view),
        cmocka_unit_test(a_failing_body_leaves_the_callers_rows),
        cmocka_unit_test(repeated_calls_allocate_nothing),
        cmocka_unit_test(broadcast_inputs_with_strides_are_copied_whole),
        cmocka_unit_test(the_flag_hands_on_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tensors in the memory of a device as inputs and outputs of calls: every place with every kind of
 * rows, what is used where it is, what is copied, and what is refused. */
#include "base_machine.h"
#include "call_private.h"
#include "device_discrete.h"
#include "function_fixture.h"
#include "tensors_impl.h"

#include "muster/nodes.h"
#include "muster/ops.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { SIZE = 3, ROWS = 13, COLUMNS = 4, WIDE = 6, LISTED = 8 };

static const char *const names[SIZE] = {"0", "1", "2"};

/* What each rank's body was given in its first slice with rows. */
typedef struct seen {
    const char *in[2], *out[3];
    int64_t first_row, rows;
    bool strided; /* in[0] */
} seen;

/* in: x (rows, columns), b (columns). out: x + b; the sum of its columns; b of the master. */
static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    seen *s = (seen *)user + muster_worker_rank(w);
    if (!s->rows) {
        *s = (seen){.first_row = muster_worker_first_row(w), .rows = muster_worker_rows(w)};
        for (int i = 0; i < 2; i++) s->in[i] = muster_tensor_address(in[i]);
        for (int i = 0; i < 3; i++) s->out[i] = muster_tensor_address(out[i]);
        s->strided = !muster_tensor_is_contiguous(in[0]);
    }
    muster_tensor sum;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 2, in[0].shape, &sum));
    MUSTER_TRY(muster_binary_op(w, MUSTER_ADD, in[0], in[1], sum));
    MUSTER_TRY(muster_copy(w, sum, out[0]));
    MUSTER_TRY(muster_reduce(w, MUSTER_SUM, sum, 0, out[1]));
    return muster_copy(w, in[1], out[2]);
}

typedef struct world {
    muster_runtime *runtime;
    muster_function *f;
    seen seen[SIZE];
    float x[ROWS * WIDE], b[COLUMNS], y[ROWS * COLUMNS], sums[COLUMNS], first[COLUMNS];
} world;

static void describe(world *t, muster_runtime *runtime) {
    memset(t, 0, sizeof *t);
    t->runtime = runtime;
    for (int i = 0; i < ROWS * WIDE; i++) t->x[i] = (float)(i * 7 % 31 - 11);
    for (int i = 0; i < COLUMNS; i++) t->b[i] = (float)(100 * i);
    assert_ok(muster_function_create(runtime, "f", body, t->seen, &t->f));
    assert_ok(muster_function_input(t->f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
    assert_ok(muster_function_input(t->f, "b", MUSTER_F32, 1, MUSTER_BROADCAST));
    assert_ok(muster_function_output(t->f, "y", MUSTER_F32, 2, MUSTER_GATHER));
    assert_ok(muster_function_output(t->f, "sums", MUSTER_F32, 1, MUSTER_SUM));
    assert_ok(muster_function_output(t->f, "first", MUSTER_F32, 1, MUSTER_MASTER));
}

static muster_runtime *open_devices(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    assert_ok(mst_discrete_register());
    muster_runtime_options_init(&options);
    options.devices = devices;
    options.logical_shards = -1;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

/* With several processes a device is one of the process: where the test says rank 2, each process
 * takes a device of its own. */
static int first_rank(const muster_runtime *runtime) { return muster_runtime_first_rank(runtime, muster_runtime_process(runtime)); }
static int own_device(const muster_runtime *runtime, int rank) {
    return rank < 0 ? rank : rank % (muster_runtime_first_rank(runtime, muster_runtime_process(runtime) + 1) - first_rank(runtime));
}
/* What the body on that device was given. */
static const seen *seen_on(const world *t, int device) { return &t->seen[first_rank(t->runtime) + device]; }

/* The tensor itself for rank -1, else a copy of it on the device of that rank. `wide`: the copy is
 * a view of every column but the last ones of wider rows, as the tensor is. */
static muster_tensor placed(world *t, muster_tensor tensor, int rank, bool wide) {
    muster_tensor made;
    int64_t shape[] = {tensor.shape[0], tensor.shape[1]};
    if (rank < 0) return tensor;
    if (wide) shape[1] = WIDE;
    assert_ok(muster_runtime_tensor_create(t->runtime, names[first_rank(t->runtime) + own_device(t->runtime, rank)], tensor.dtype,
                                           tensor.ndim, shape, &made));
    if (wide) made.shape[1] = COLUMNS;
    assert_ok(muster_runtime_tensor_copy(t->runtime, tensor, made));
    return made;
}

static void take_back(world *t, muster_tensor made, muster_tensor tensor, int rank) {
    if (rank < 0) return;
    assert_ok(muster_runtime_tensor_copy(t->runtime, made, tensor));
    assert_ok(muster_runtime_tensor_destroy(t->runtime, made));
}

/* ---- every place ---- */

typedef struct shape {
    int x, b, y, sums; /* ranks, -1: host memory; `first` lies where `sums` does */
    muster_selection_kind kind;
    int64_t slices;
    bool wide; /* x and y are views of wider rows */
} shape;

static int64_t rows_of(const shape *s, int64_t *rows, muster_call_options *options) {
    static const int64_t listed[LISTED] = {12, 0, 3, 3, 7, 1, 11, 4};
    int64_t count = ROWS, start = 0;
    muster_call_options_init(options);
    options->slices = s->slices;
    if (s->kind == MUSTER_SELECT_RANGE) {
        options->batch = (muster_selection){.kind = s->kind, .start = 2, .stop = 12};
        count = 10, start = 2;
    } else if (s->kind == MUSTER_SELECT_LIST) {
        options->batch = (muster_selection){.kind = s->kind, .indices = listed, .index_count = LISTED};
        count = LISTED;
    }
    for (int64_t r = 0; r < count; r++) rows[r] = s->kind == MUSTER_SELECT_LIST ? listed[r] : start + r;
    return count;
}

static void check_results(const world *t, const int64_t *rows, int64_t count, int64_t stride) {
    float sums[COLUMNS] = {0};
    for (int64_t r = 0; r < count; r++)
        for (int c = 0; c < COLUMNS; c++) {
            const float expected = t->x[rows[r] * stride + c] + t->b[c];
            sums[c] += expected;
            assert_float_equal(t->y[r * COLUMNS + c], expected, 0);
        }
    for (int c = 0; c < COLUMNS; c++) {
        assert_float_equal(t->sums[c], sums[c], 0);
        assert_float_equal(t->first[c], t->b[c], 0);
    }
}

/* The body of the rank on which a contiguous tensor lies gets the tensor's own memory. No body gets
 * a strided tensor of a device with memory of its own. */
static void check_in_place(const world *t, const shape *asked, const muster_tensor *in, const muster_tensor *out) {
    shape own = *asked, *s = &own;
    s->x = own_device(t->runtime, s->x), s->b = own_device(t->runtime, s->b);
    s->y = own_device(t->runtime, s->y), s->sums = own_device(t->runtime, s->sums);
    const int64_t start = s->kind == MUSTER_SELECT_RANGE ? 2 : 0;
    const int64_t row = COLUMNS * (int64_t)sizeof(float);
    const bool listed = s->kind == MUSTER_SELECT_LIST;
    if (s->x >= 0 && !mst_device_is_host(t->runtime->devices[s->x])) assert_false(seen_on(t, s->x)->strided);
    if (s->x >= 0 && !s->wide && !listed)
        assert_ptr_equal(seen_on(t, s->x)->in[0], (char *)in[0].data + (start + seen_on(t, s->x)->first_row) * row);
    if (s->b >= 0) assert_ptr_equal(seen_on(t, s->b)->in[1], in[1].data);
    /* what all processes get is gathered apart from what each has computed */
    if (s->y >= 0 && !s->wide && muster_runtime_processes(t->runtime) == 1)
        assert_ptr_equal(seen_on(t, s->y)->out[0], (char *)out[0].data + seen_on(t, s->y)->first_row * row);
    if (s->sums == 0 && s->slices == 1 && muster_runtime_processes(t->runtime) == 1) assert_ptr_equal(t->seen[0].out[2], out[2].data);
}

static void run(world *t, const shape *s) {
    int64_t rows[ROWS];
    muster_call_options options;
    const int64_t count = rows_of(s, rows, &options), stride = s->wide ? WIDE : COLUMNS;
    muster_tensor x = muster_f32(t->x, ROWS, COLUMNS);
    x.strides[0] = stride;
    const muster_tensor results[] = {muster_f32(t->y, count, COLUMNS), muster_f32(t->sums, COLUMNS), muster_f32(t->first, COLUMNS)};
    memset(t->seen, 0, sizeof t->seen);
    memset(t->y, 0, sizeof t->y);
    memset(t->sums, 0, sizeof t->sums);
    memset(t->first, 0, sizeof t->first);
    const muster_tensor in[] = {placed(t, x, s->x, s->wide), placed(t, muster_f32(t->b, COLUMNS), s->b, false)};
    const muster_tensor out[] = {placed(t, results[0], s->y, s->wide), placed(t, results[1], s->sums, false),
                                 placed(t, results[2], s->sums, false)};
    assert_ok(muster_function_call(t->f, in, 2, out, 3, &options));
    check_in_place(t, s, in, out);
    for (int i = 0; i < 3; i++) take_back(t, out[i], results[i], i ? s->sums : s->y);
    for (int i = 0; i < 2; i++)
        if ((i ? s->b : s->x) >= 0) assert_ok(muster_runtime_tensor_destroy(t->runtime, in[i]));
    check_results(t, rows, count, stride);
}

static void every_place_gives_the_same_results(void **state) {
    (void)state;
    static const muster_selection_kind kinds[] = {MUSTER_SELECT_ALL, MUSTER_SELECT_RANGE, MUSTER_SELECT_LIST};
    static const char *const devices[] = {"host:3", "discrete:3", "host:1,discrete:2"};
    const int step = fixture_rounds(on_gpus() || processes_count() > 1 ? 13 : 1, 1); /* the simulated machine is slow, and so are rounds */
    int cases = 0;
    for (int d = 0; d < 3; d++) {
        world t;
        describe(&t, open_devices(devices[d]));
        for (int at = 0; at < 256; at += step)
            for (int how = 0; how < 3; how++, cases++) {
                const shape s = {at % 4 - 1,
                                 at / 4 % 4 - 1,
                                 at / 16 % 4 - 1,
                                 at / 64 - 1,
                                 kinds[how],
                                 (at + how) % 2 ? 3 : 1,
                                 (at / 4 + how + at / 32) % 3 == 0};
                run(&t, &s);
            }
        fixture_close(t.runtime);
    }
    assert_int_equal(cases, 3 * (255 / step + 1) * 3);
}

/* ---- what is copied ---- */

static _Atomic int64_t bytes_in, bytes_out, bytes_between;
static const mst_device_memory_table *true_memory;

static muster_status count_in(mst_device *device, void *to, const void *from, int64_t bytes) {
    bytes_in += bytes;
    return true_memory->copy_in(device, to, from, bytes);
}
static muster_status count_out(mst_device *device, void *to, const void *from, int64_t bytes) {
    bytes_out += bytes;
    return true_memory->copy_out(device, to, from, bytes);
}
static muster_status count_between(mst_device *device, void *to, const void *from, int64_t bytes) {
    bytes_between += bytes;
    return true_memory->copy(device, to, from, bytes);
}

static void count_copies(muster_runtime *runtime) {
    static mst_device_memory_table counting;
    true_memory = runtime->devices[0]->memory;
    counting = *true_memory;
    counting.copy_in = count_in, counting.copy_out = count_out, counting.copy = count_between;
    for (int r = 0; r < SIZE; r++) runtime->devices[r]->memory = &counting;
}

/* How ranks 0 and 2 get at memory of rank 1. */
typedef enum { IN_PLACE, BY_PEERS, THROUGH_HOST } way;

static way way_of(const muster_runtime *runtime) {
    bool access = false;
    const mst_device *first = runtime->devices[0], *second = runtime->devices[1];
    if (mst_device_is_host(first) || (first->physical && first->physical == second->physical)) return IN_PLACE;
    assert_ok(mst_runtime_peer_access(runtime, 0, 1, &access));
    return access ? BY_PEERS : THROUGH_HOST;
}

/* y = |x|, without a copy of its own. */
static muster_status absolute(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)user;
    (void)in[1];
    return muster_unary_op(w, MUSTER_ABS, in[0], out[0]);
}

/* Everything on rank 1 of 3. Ranks 0 and 2 have 4 of the 12 rows each. */
static void rows_that_lie_where_they_are_used_are_not_copied(void **state) {
    (void)state;
    static const int64_t others = 8 * COLUMNS * sizeof(float), whole = COLUMNS * sizeof(float);
    for_each_backend(backend) {
        world t;
        muster_function *f;
        describe(&t, open_devices(strcmp(backend, "host") == 0 ? "host:3" : "discrete:3"));
        assert_ok(muster_function_create(t.runtime, "absolute", absolute, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
        assert_ok(muster_function_input(f, "b", MUSTER_F32, 1, MUSTER_BROADCAST));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
        const muster_tensor in[] = {placed(&t, muster_f32(t.x, 12, COLUMNS), 1, false), placed(&t, muster_f32(t.b, COLUMNS), 1, false)};
        const muster_tensor out = placed(&t, muster_f32(t.y, 12, COLUMNS), 1, false);
        const way by = way_of(t.runtime);
        count_copies(t.runtime);
        bytes_in = bytes_out = bytes_between = 0;
        assert_ok(muster_function_call(f, in, 2, &out, 1, NULL));
        assert_int_equal(bytes_between, by == BY_PEERS ? 2 * others + 2 * whole : 0);
        assert_int_equal(bytes_out, by == THROUGH_HOST ? 2 * others + whole : 0);
        assert_int_equal(bytes_in, by == THROUGH_HOST ? 2 * others + 2 * whole : 0);
        take_back(&t, out, muster_f32(t.y, 12, COLUMNS), 1);
        for (int i = 0; i < 12 * COLUMNS; i++) assert_float_equal(t.y[i], t.x[i] < 0 ? -t.x[i] : t.x[i], 0);
        fixture_close(t.runtime);
    }
}

/* ---- bodies that set their own rows, sums over slices, single and asynchronous calls ---- */

/* Rank r keeps the first kept[r] of its rows, after it has written all of them to their place. */
static muster_status keep_some(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    const int64_t *kept = user;
    muster_tensor y;
    MUSTER_TRY(muster_copy(w, in[0], out[0]));
    const int64_t rows = kept[muster_worker_rank(w)];
    MUSTER_TRY(muster_worker_output_rows(w, 0, rows, &y));
    return rows ? muster_copy(w, muster_tensor_slice(in[0], 0, rows), y) : MUSTER_OK;
}

static void bodies_that_set_their_rows_write_to_devices(void **state) {
    (void)state;
    static const int64_t cases[][SIZE] = {{4, 4, 4}, {0, 4, 2}, {3, 4, 1}, {4, 1, 4}, {0, 0, 4}, {4, 0, 0}, {1, 2, 3}};
    int count = 0;
    for_each_backend(backend) for (int rank = -1; rank < SIZE; rank++) {
        world t;
        muster_function *f;
        int64_t kept[SIZE];
        describe(&t, open_devices(strcmp(backend, "host") == 0 ? "host:3" : "discrete:3"));
        assert_ok(muster_function_create(t.runtime, "keep", keep_some, kept, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 2, MUSTER_GATHER));
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++, count++) {
            memcpy(kept, cases[c], sizeof kept);
            const int64_t rows = kept[0] + kept[1] + kept[2];
            const muster_tensor in = placed(&t, muster_f32(t.x, 12, COLUMNS), rank, false);
            const muster_tensor result = muster_f32(t.y, rows, COLUMNS), out = placed(&t, result, rank, false);
            memset(t.y, 0, sizeof t.y);
            assert_ok(muster_function_call(f, &in, 1, &out, 1, NULL));
            take_back(&t, out, result, rank);
            if (rank >= 0) assert_ok(muster_runtime_tensor_destroy(t.runtime, in));
            const float *y = t.y;
            for (int r = 0; r < SIZE; r++)
                for (int64_t i = 0; i < kept[r] * COLUMNS; i++) assert_float_equal(*y++, t.x[4 * r * COLUMNS + i], 0);
        }
        fixture_close(t.runtime);
    }
    assert_int_equal(count, 2 * 4 * 7);
}

static void calls_of_every_kind_take_them(void **state) {
    (void)state;
    for_each_backend(backend) for (int rank = 0; rank < SIZE; rank++) {
        world t;
        int64_t rows[ROWS];
        muster_call_options options;
        muster_pending *pending;
        const shape s = {.kind = MUSTER_SELECT_ALL, .slices = 1};
        describe(&t, fixture_open(backend, SIZE));
        const int64_t count = rows_of(&s, rows, &options);
        const muster_tensor results[] = {muster_f32(t.y, count, COLUMNS), muster_f32(t.sums, COLUMNS), muster_f32(t.first, COLUMNS)};
        const muster_tensor in[] = {placed(&t, muster_f32(t.x, ROWS, COLUMNS), rank, false),
                                    placed(&t, muster_f32(t.b, COLUMNS), rank, false)};
        muster_tensor out[3];
        for (int kind = 0; kind < 4; kind++) {
            for (int i = 0; i < 3; i++) out[i] = placed(&t, results[i], rank, false);
            if (kind == 0) assert_ok(muster_function_call_single(t.f, in, 2, out, 3, NULL));
            if (kind == 1) assert_ok(muster_function_prepare(t.f, in, 2, out, 3, NULL));
            if (kind == 1 || kind == 2) assert_ok(muster_function_call(t.f, in, 2, out, 3, NULL));
            if (kind == 3) {
                assert_ok(muster_function_call_async(t.f, in, 2, out, 3, NULL, &pending));
                assert_ok(muster_pending_wait(&pending));
            }
            for (int i = 0; i < 3; i++) take_back(&t, out[i], results[i], rank);
            check_results(&t, rows, count, COLUMNS);
            memset(t.y, 0, sizeof t.y);
            memset(t.sums, 0, sizeof t.sums);
        }
        fixture_close(t.runtime);
    }
}

/* out: the sum of x and of b, which the code of the body reads. */
static muster_status read_on_host(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    float sum = 0;
    (void)user;
    for (int64_t r = 0; r < in[0].shape[0]; r++)
        for (int c = 0; c < COLUMNS; c++) sum += ((const float *)muster_tensor_address(in[0]))[r * in[0].strides[0] + c];
    for (int c = 0; c < COLUMNS; c++) sum += ((const float *)muster_tensor_address(in[1]))[c];
    if (in[0].device != MUSTER_DEVICE_HOST || in[1].device != MUSTER_DEVICE_HOST) sum = -1;
    return muster_fill(w, sum, out[0]);
}

static void inputs_for_host_code_come_from_devices(void **state) {
    (void)state;
    for_each_backend(backend) for (int rank = 0; rank < SIZE; rank++) {
        world t;
        muster_function *f;
        float y = 0, expected = 0;
        describe(&t, open_devices(strcmp(backend, "host") == 0 ? "host:3" : "discrete:3"));
        assert_ok(muster_function_create(t.runtime, "read", read_on_host, NULL, &f));
        assert_ok(muster_function_input(f, "x", MUSTER_F32, 2, MUSTER_SCATTER | MUSTER_INPUT_HOST));
        assert_ok(muster_function_input(f, "b", MUSTER_F32, 1, MUSTER_BROADCAST | MUSTER_INPUT_HOST));
        assert_ok(muster_function_output(f, "y", MUSTER_F32, 0, MUSTER_SUM));
        const muster_tensor in[] = {placed(&t, muster_f32(t.x, ROWS, COLUMNS), rank, false),
                                    placed(&t, muster_f32(t.b, COLUMNS), rank, false)};
        assert_ok(muster_function_call(f, in, 2, (muster_tensor[]){muster_f32(&y)}, 1, NULL));
        for (int i = 0; i < ROWS * COLUMNS; i++) expected += t.x[i];
        for (int c = 0; c < COLUMNS; c++) expected += SIZE * t.b[c];
        assert_float_equal(y, expected, 0);
        fixture_close(t.runtime);
    }
}

/* Destroying takes its turn behind the call that uses the tensor. */
static void a_tensor_that_is_destroyed_lives_until_the_calls_before_have_ended(void **state) {
    (void)state;
    enum { CALLS = 20 };
    for_each_backend(backend) {
        world t;
        int64_t rows[ROWS];
        muster_call_options options;
        muster_pending *pending[CALLS];
        const shape s = {.kind = MUSTER_SELECT_ALL, .slices = 1};
        describe(&t, fixture_open(backend, SIZE));
        const int64_t count = rows_of(&s, rows, &options);
        const muster_tensor in[] = {placed(&t, muster_f32(t.x, ROWS, COLUMNS), 1, false), placed(&t, muster_f32(t.b, COLUMNS), 2, false)};
        const muster_tensor out[] = {muster_f32(t.y, count, COLUMNS), muster_f32(t.sums, COLUMNS), muster_f32(t.first, COLUMNS)};
        for (int i = 0; i < CALLS; i++) assert_ok(muster_function_call_async(t.f, in, 2, out, 3, NULL, &pending[i]));
        assert_ok(muster_runtime_tensor_destroy(t.runtime, in[0]));
        for (int i = 0; i < CALLS; i++) assert_ok(muster_pending_wait(&pending[i]));
        check_results(&t, rows, count, COLUMNS);
        assert_refused(
            muster_function_call(t.f, in, 2, out, 3, NULL), MUSTER_INVALID_ARGUMENT,
            "muster_function_call: input 'x' of function 'f': expected memory of a tensor that muster_runtime_tensor_create gave "
            "and that was not destroyed");
        fixture_close(t.runtime);
    }
}

/* ---- what is refused ---- */

static void what_is_refused_is_named(void **state) {
    (void)state;
    for_each_backend(backend) {
        world t;
        describe(&t, fixture_open(backend, SIZE));
        const muster_tensor b = muster_f32(t.b, COLUMNS), y = muster_f32(t.y, ROWS, COLUMNS), none = muster_tensor_none();
        muster_tensor in[] = {placed(&t, muster_f32(t.x, ROWS, COLUMNS), 1, false), b}, out[] = {y, none, none}, wrong = in[0];
#define expect_refused(part) assert_refused(muster_function_call(t.f, in, 2, out, 3, NULL), MUSTER_INVALID_ARGUMENT, part)
        in[0].device = SIZE;
        expect_refused("input 'x' of function 'f': expected memory of the host or of a device from 0 to 2, received memory of device 3");
        in[0].device = -2;
        expect_refused("input 'x' of function 'f': expected memory of the host or of a device from 0 to 2, received memory of device -2");
        in[0].device = 0; /* it lies on rank 1 */
        expect_refused("input 'x' of function 'f': expected memory of a tensor that muster_runtime_tensor_create gave");
        in[0] = wrong;
        in[0].strides[0] = COLUMNS + 1;
        expect_refused(
            "input 'x' of function 'f': expected a view within the 208 bytes of its tensor, received one that takes bytes 0 to 256");
        in[0] = wrong;
        out[0].device = 2;
        expect_refused("output 'y' of function 'f': expected memory of a tensor that muster_runtime_tensor_create gave");
        out[0] = wrong;
        expect_refused("output 'y' of function 'f' overlaps input 'x' in memory: expected memory of its own");
        out[0] = placed(&t, y, 2, false);
        out[0].strides[0] = 0;
        expect_refused("output 'y' of function 'f': expected an address of its own for every element");
        fixture_close(t.runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place_gives_the_same_results),
        cmocka_unit_test(rows_that_lie_where_they_are_used_are_not_copied),
        cmocka_unit_test(bodies_that_set_their_rows_write_to_devices),
        cmocka_unit_test(calls_of_every_kind_take_them),
        cmocka_unit_test(inputs_for_host_code_come_from_devices),
        cmocka_unit_test(a_tensor_that_is_destroyed_lives_until_the_calls_before_have_ended),
        cmocka_unit_test(what_is_refused_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

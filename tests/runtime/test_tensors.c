/* Tensors on devices: create, copy by every way, refuse, free. */
#include "base_check.h"
#include "base_machine.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "muster/ops.h"
#include "runtime_gpus.h"
#include "runtime_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static muster_tensor make(muster_runtime *runtime, const char *device, int64_t rows, int64_t columns) {
    muster_tensor tensor;
    assert_ok(muster_runtime_tensor_create(runtime, device, MUSTER_I32, 2, (const int64_t[]){rows, columns}, &tensor));
    return tensor;
}

static muster_tensor columns_of(muster_tensor tensor, int64_t first, int64_t step) {
    tensor.byte_offset += first * tensor.strides[1] * muster_dtype_size(tensor.dtype);
    tensor.shape[1] = (tensor.shape[1] - first + step - 1) / step;
    tensor.strides[1] *= step;
    return tensor;
}

enum { ROWS = 7, COLUMNS = 10, CELLS = ROWS * COLUMNS };

static void count_up(int32_t *cells, int32_t from) {
    for (int32_t i = 0; i < CELLS; i++) cells[i] = from + i;
}

static void assert_cells(const int32_t *cells, const int32_t *expected) {
    for (int32_t i = 0; i < CELLS; i++) assert_int_equal(cells[i], expected[i]);
}

static void assert_holds(muster_runtime *runtime, muster_tensor tensor, const int32_t *expected) {
    int32_t cells[CELLS];
    assert_ok(muster_runtime_tensor_copy(runtime, tensor, muster_i32(cells, ROWS, COLUMNS)));
    assert_cells(cells, expected);
}

/* ---- creating ---- */

static void a_new_tensor_holds_zeros_on_the_named_device(void **state) {
    (void)state;
    static const int32_t zeros[CELLS];
    muster_runtime *runtime = open_text("discrete:3");
    assert_ok(muster_runtime_name_device(runtime, "last", 2));
    assert_ok(muster_runtime_set_default_device(runtime, "1"));
    const muster_tensor named = make(runtime, "last", ROWS, COLUMNS), unnamed = make(runtime, NULL, ROWS, COLUMNS);
    assert_int_equal(named.device, 2);
    assert_int_equal(unnamed.device, 1);
    assert_int_equal(named.dtype, MUSTER_I32);
    assert_int_equal(named.strides[0], COLUMNS);
    assert_holds(runtime, named, zeros);
    assert_holds(runtime, unnamed, zeros);
    assert_ok(muster_runtime_tensor_destroy(runtime, named));
    assert_ok(muster_runtime_tensor_destroy(runtime, unnamed));
    assert_ok(muster_runtime_close(runtime));
}

static void every_dtype_can_be_placed(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:1,discrete:1");
    for (muster_dtype dtype = 1; dtype < MST_DTYPE_COUNT; dtype++) {
        char in[3 * 8], out[3 * 8] = {0};
        const int64_t bytes = 3 * muster_dtype_size(dtype), shape[] = {3};
        memset(in, 1, sizeof in);
        for (int32_t r = 0; r < 2; r++) {
            muster_tensor tensor;
            assert_ok(muster_runtime_tensor_create(runtime, r ? "1" : "0", dtype, 1, shape, &tensor));
            assert_ok(muster_runtime_tensor_copy(runtime, muster_tensor_make(dtype, in, 1, shape), tensor));
            assert_ok(muster_runtime_tensor_copy(runtime, tensor, muster_tensor_make(dtype, out, 1, shape)));
            assert_memory_equal(out, in, (size_t)bytes);
        }
    }
    assert_ok(muster_runtime_close(runtime));
}

static void scalars_and_empty_tensors_can_be_placed(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:1");
    muster_tensor scalar, empty;
    float in = 2.5f, out = 0;
    assert_ok(muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 0, NULL, &scalar));
    assert_ok(muster_runtime_tensor_copy(runtime, muster_f32(&in), scalar));
    assert_ok(muster_runtime_tensor_copy(runtime, scalar, muster_f32(&out)));
    assert_true(out == 2.5f);
    assert_ok(muster_runtime_tensor_create(runtime, NULL, MUSTER_F32, 2, (const int64_t[]){4, 0}, &empty));
    assert_ok(muster_runtime_tensor_copy(runtime, muster_f32(NULL, 4, 0), empty));
    assert_ok(muster_runtime_tensor_destroy(runtime, empty));
    assert_ok(muster_runtime_tensor_destroy(runtime, scalar));
    assert_ok(muster_runtime_tensor_destroy(runtime, muster_tensor_none()));
    assert_ok(muster_runtime_close(runtime));
}

static void what_cannot_be_created_is_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    muster_tensor tensor;
    const int64_t shape[] = {3}, negative[] = {-3}, huge[] = {INT64_MAX, 2};
    assert_refused(muster_runtime_tensor_create(runtime, "elsewhere", MUSTER_F32, 1, shape, &tensor), MUSTER_INVALID_ARGUMENT,
                   "muster_runtime_tensor_create: device: expected the name or number of a device, which are 0 (");
    assert_int_equal(tensor.dtype, MUSTER_DTYPE_NONE);
    assert_refused(muster_runtime_tensor_create(runtime, "0", 99, 1, shape, &tensor), MUSTER_INVALID_ARGUMENT,
                   "dtype: expected an element type, received 99");
    assert_refused(muster_runtime_tensor_create(runtime, "0", MUSTER_F32, 1, negative, &tensor), MUSTER_INVALID_ARGUMENT,
                   "shape: expected sizes of at least 0");
    assert_refused(muster_runtime_tensor_create(runtime, "0", MUSTER_F32, 9, shape, &tensor), MUSTER_INVALID_ARGUMENT,
                   "shape: expected 0 to 8 dimensions, received 9");
    assert_refused(muster_runtime_tensor_create(runtime, "0", MUSTER_F32, 1, NULL, &tensor), MUSTER_INVALID_ARGUMENT,
                   "shape: expected a shape, received NULL");
    assert_refused(muster_runtime_tensor_create(runtime, "0", MUSTER_F32, 2, huge, &tensor), MUSTER_OVERFLOW,
                   "shape: expected a size that fits 64 bits");
    assert_refused(muster_runtime_tensor_create(runtime, "0", MUSTER_F32, 1, shape, NULL), MUSTER_INVALID_ARGUMENT,
                   "tensor: expected the address of a tensor");
    assert_refused(muster_runtime_tensor_create(NULL, "0", MUSTER_F32, 1, shape, &tensor), MUSTER_INVALID_ARGUMENT,
                   "runtime: expected a runtime, received NULL");
    assert_int_equal(runtime->placed_count, 0);
    assert_ok(muster_runtime_close(runtime));
}

static void what_is_left_is_freed_at_close(void **state) {
    (void)state;
    const int64_t live = mst_memory_live();
    muster_runtime *runtime = open_text("host:1,discrete:2");
    for (int32_t i = 0; i < 30; i++) make(runtime, (const char *[]){"0", "1", "2"}[i % 3], 1 + i, 3);
    assert_ok(muster_runtime_close(runtime));
    assert_int_equal(mst_memory_live(), live);
    assert_int_equal(mst_discrete_live(), 0);
}

/* ---- copying: each pair of places, each side dense or strided ---- */

typedef struct side {
    const char *device; /* NULL: host memory */
    bool strided;
} side;

/* A view of ROWS x COLUMNS, strided: every second column of a wider tensor. */
static muster_tensor make_side(muster_runtime *runtime, side side, int32_t *memory) {
    const int64_t wide = side.strided ? 2 * COLUMNS : COLUMNS;
    const muster_tensor whole = side.device ? make(runtime, side.device, ROWS, wide) : muster_i32(memory, ROWS, wide);
    return side.strided ? columns_of(whole, 1, 2) : whole;
}

/* What lies between the columns of a strided view. */
static void assert_gaps_are_zero(muster_runtime *runtime, muster_tensor view) {
    int32_t gaps[CELLS];
    muster_tensor between = view;
    between.byte_offset -= (int64_t)sizeof(int32_t);
    assert_ok(muster_runtime_tensor_copy(runtime, between, muster_i32(gaps, ROWS, COLUMNS)));
    for (int32_t i = 0; i < CELLS; i++) assert_int_equal(gaps[i], 0);
}

static void copy_and_compare(muster_runtime *runtime, side from_side, side to_side) {
    int32_t from_memory[2 * CELLS] = {0}, to_memory[2 * CELLS] = {0}, cells[CELLS];
    const muster_tensor from = make_side(runtime, from_side, from_memory), to = make_side(runtime, to_side, to_memory);
    count_up(cells, 1000);
    assert_ok(muster_runtime_tensor_copy(runtime, muster_i32(cells, ROWS, COLUMNS), from));
    assert_ok(muster_runtime_tensor_copy(runtime, from, to));
    assert_holds(runtime, to, cells);
    if (to_side.strided) assert_gaps_are_zero(runtime, to);
    for (int i = 0; i < 2; i++) {
        muster_tensor side = i ? to : from;
        side.byte_offset = 0;
        if (side.device != MUSTER_DEVICE_HOST) assert_ok(muster_runtime_tensor_destroy(runtime, side));
    }
}

static void copy_between_all(const char *devices, const char *const *places, int32_t count) {
    muster_runtime *runtime = open_text(devices);
    for (int32_t cell = 0; cell < 4 * count * count; cell++) {
        const side from = {places[cell / 4 / count], cell & 1}, to = {places[cell / 4 % count], cell & 2};
        copy_and_compare(runtime, from, to);
    }
    assert_ok(muster_runtime_close(runtime));
}

static void every_place_copies_to_every_place(void **state) {
    (void)state;
    static const char *const places[] = {NULL, "0", "1", "2", "3"};
    copy_between_all("host:2,discrete:2", places, 5); /* on GPUs: two of them */
}

static void devices_of_one_kind_copy_to_each_other(void **state) {
    (void)state;
    static const char *const places[] = {"0", "1", "2"};
    copy_between_all("discrete:3", places, 3); /* on GPUs: virtual devices of one */
}

static void pieces_of_every_size_make_the_whole(void **state) {
    (void)state;
    static const char *const places[] = {NULL, "0", "1"};
    static const int64_t sizes[] = {8, 36, 44, 280};
    const int64_t usual = mst_tensor_copy_chunk;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mst_tensor_copy_chunk = sizes[i];
        copy_between_all("discrete:2", places, 3);
    }
    mst_tensor_copy_chunk = usual;
}

static void a_transposed_view_copies_in_its_own_order(void **state) {
    (void)state;
    const int64_t usual = mst_tensor_copy_chunk;
    muster_runtime *runtime = open_text("discrete:2");
    const muster_tensor one = make(runtime, "0", ROWS, COLUMNS), other = make(runtime, "1", COLUMNS, ROWS);
    int32_t cells[CELLS], turned[CELLS];
    count_up(cells, 0);
    mst_tensor_copy_chunk = 64;
    assert_ok(muster_runtime_tensor_copy(runtime, muster_i32(cells, ROWS, COLUMNS), one));
    assert_ok(muster_runtime_tensor_copy(runtime, muster_tensor_transpose(one), other));
    assert_ok(muster_runtime_tensor_copy(runtime, other, muster_i32(turned, COLUMNS, ROWS)));
    for (int32_t i = 0; i < CELLS; i++) assert_int_equal(turned[i], cells[i % ROWS * COLUMNS + i / ROWS]);
    mst_tensor_copy_chunk = usual;
    assert_ok(muster_runtime_close(runtime));
}

static void a_row_repeats_where_its_stride_is_0(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:1");
    const muster_tensor tensor = make(runtime, "0", ROWS, COLUMNS);
    int32_t row[COLUMNS], expected[CELLS];
    muster_tensor repeated = muster_i32(row, 1, COLUMNS);
    repeated.shape[0] = ROWS;
    repeated.strides[0] = 0;
    for (int32_t i = 0; i < COLUMNS; i++) row[i] = 3 * i;
    for (int32_t i = 0; i < CELLS; i++) expected[i] = row[i % COLUMNS];
    assert_ok(muster_runtime_tensor_copy(runtime, repeated, tensor));
    assert_holds(runtime, tensor, expected);
    assert_ok(muster_runtime_close(runtime));
}

static void a_copy_to_itself_changes_nothing(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:1");
    const muster_tensor tensor = make(runtime, "0", ROWS, COLUMNS);
    int32_t cells[CELLS];
    count_up(cells, 5);
    assert_ok(muster_runtime_tensor_copy(runtime, muster_i32(cells, ROWS, COLUMNS), tensor));
    assert_ok(muster_runtime_tensor_copy(runtime, tensor, tensor));
    assert_ok(muster_runtime_tensor_copy(runtime, muster_i32(cells, ROWS, COLUMNS), muster_i32(cells, ROWS, COLUMNS)));
    assert_holds(runtime, tensor, cells);
    assert_ok(muster_runtime_close(runtime));
}

/* Rows 0 to 2 take rows 3 to 5 of the same tensor. */
static void apart_within_one_tensor(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:1");
    const muster_tensor tensor = make(runtime, "0", ROWS, COLUMNS);
    int32_t cells[CELLS];
    count_up(cells, 0);
    assert_ok(muster_runtime_tensor_copy(runtime, muster_i32(cells, ROWS, COLUMNS), tensor));
    assert_ok(muster_runtime_tensor_copy(runtime, muster_tensor_slice(tensor, 3, 6), muster_tensor_slice(tensor, 0, 3)));
    memcpy(cells, cells + 3 * COLUMNS, 3 * COLUMNS * sizeof *cells);
    assert_holds(runtime, tensor, cells);
    assert_ok(muster_runtime_close(runtime));
}

/* Host code reads the memory of a host device as it is. */
static void a_tensor_of_a_host_device_is_host_memory(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: it is about host devices");
    muster_runtime *runtime = open_text("host:2");
    const muster_tensor tensor = make(runtime, "1", ROWS, COLUMNS);
    int32_t cells[CELLS];
    count_up(cells, 9);
    assert_ok(muster_runtime_tensor_copy(runtime, muster_i32(cells, ROWS, COLUMNS), tensor));
    assert_cells(muster_tensor_address(tensor), cells);
    assert_ok(muster_runtime_close(runtime));
}

/* ---- refusing ---- */

static void tensors_that_do_not_match_are_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:1");
    int32_t cells[CELLS];
    float others[CELLS];
    const muster_tensor tensor = make(runtime, "0", ROWS, COLUMNS);
    assert_refused(muster_runtime_tensor_copy(runtime, tensor, muster_f32(others, ROWS, COLUMNS)), MUSTER_DTYPE_MISMATCH,
                   "muster_runtime_tensor_copy: to: expected the dtype of from, i32, received f32");
    assert_refused(muster_runtime_tensor_copy(runtime, muster_i32(cells, COLUMNS, ROWS), tensor), MUSTER_SHAPE_MISMATCH,
                   "muster_runtime_tensor_copy: to: expected the shape of from, (10, 7), received (7, 10)");
    assert_refused(muster_runtime_tensor_copy(runtime, muster_tensor_none(), tensor), MUSTER_INVALID_ARGUMENT,
                   "from: expected a tensor, received none");
    assert_refused(muster_runtime_tensor_copy(NULL, tensor, tensor), MUSTER_INVALID_ARGUMENT, "runtime: expected a runtime, received NULL");
    muster_tensor beyond = tensor;
    beyond.device = 3;
    assert_refused(muster_runtime_tensor_copy(runtime, beyond, tensor), MUSTER_INVALID_ARGUMENT,
                   "from: expected memory of the host or of a device from 0 to 0, received memory of device 3");
    assert_ok(muster_runtime_close(runtime));
}

static void a_view_beyond_its_tensor_is_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:1");
    int32_t cells[CELLS] = {0};
    const muster_tensor tensor = make(runtime, "0", ROWS, COLUMNS), host = muster_i32(cells, ROWS, COLUMNS);
    muster_tensor behind = tensor, before = tensor, wide = tensor, backwards = tensor;
    behind.byte_offset = 4;
    assert_refused(muster_runtime_tensor_copy(runtime, host, behind), MUSTER_INVALID_ARGUMENT,
                   "to: expected a view within the 280 bytes of its tensor, received one that takes bytes 4 to 284");
    before.byte_offset = -4;
    assert_refused(muster_runtime_tensor_copy(runtime, host, before), MUSTER_INVALID_ARGUMENT, "received one that takes bytes -4 to 276");
    wide.strides[1] = 2;
    assert_refused(muster_runtime_tensor_copy(runtime, wide, host), MUSTER_INVALID_ARGUMENT,
                   "from: expected a view within the 280 bytes of its tensor");
    backwards.strides[0] = -COLUMNS;
    assert_refused(muster_runtime_tensor_copy(runtime, backwards, host), MUSTER_INVALID_ARGUMENT,
                   "received one that takes bytes -240 to 40");
    backwards.byte_offset = (ROWS - 1) * COLUMNS * 4; /* the rows in reverse */
    assert_ok(muster_runtime_tensor_copy(runtime, backwards, host));
    assert_ok(muster_runtime_close(runtime));
}

static void a_destroyed_tensor_is_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:2");
    int32_t cells[CELLS];
    const muster_tensor old = make(runtime, "1", ROWS, COLUMNS);
    assert_ok(muster_runtime_tensor_destroy(runtime, old));
    assert_refused(muster_runtime_tensor_destroy(runtime, old), MUSTER_INVALID_ARGUMENT,
                   "muster_runtime_tensor_destroy: tensor: expected memory of a tensor that muster_runtime_tensor_create gave and that was "
                   "not destroyed");
    const muster_tensor young = make(runtime, "1", ROWS, COLUMNS); /* most likely in the same memory */
    assert_refused(muster_runtime_tensor_copy(runtime, old, muster_i32(cells, ROWS, COLUMNS)), MUSTER_INVALID_ARGUMENT,
                   "from: expected memory of a tensor");
    assert_refused(muster_runtime_tensor_destroy(runtime, old), MUSTER_INVALID_ARGUMENT, "tensor: expected memory of a tensor");
    assert_ok(muster_runtime_tensor_copy(runtime, young, muster_i32(cells, ROWS, COLUMNS)));
    assert_ok(muster_runtime_close(runtime));
}

static void a_tensor_of_another_runtime_is_refused(void **state) {
    (void)state;
    muster_runtime *one = open_text("discrete:1"), *other = open_text("discrete:1");
    int32_t cells[CELLS];
    const muster_tensor tensor = make(one, "0", ROWS, COLUMNS);
    make(other, "0", 1, 1);
    assert_refused(muster_runtime_tensor_copy(other, tensor, muster_i32(cells, ROWS, COLUMNS)), MUSTER_INVALID_ARGUMENT,
                   "from: expected memory of a tensor");
    assert_refused(muster_runtime_tensor_destroy(other, tensor), MUSTER_INVALID_ARGUMENT, "tensor: expected memory of a tensor");
    assert_ok(muster_runtime_tensor_destroy(one, tensor));
    assert_ok(muster_runtime_close(one));
    assert_ok(muster_runtime_close(other));
}

static void only_whole_tensors_are_destroyed(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:1");
    int32_t cells[CELLS];
    const muster_tensor tensor = make(runtime, "0", ROWS, COLUMNS);
    assert_refused(muster_runtime_tensor_destroy(runtime, muster_tensor_slice(tensor, 1, 2)), MUSTER_INVALID_ARGUMENT,
                   "tensor: expected one that begins where its memory does, received one that begins 40 bytes behind");
    assert_refused(muster_runtime_tensor_destroy(runtime, muster_i32(cells, CELLS)), MUSTER_INVALID_ARGUMENT,
                   "tensor: expected one that muster_runtime_tensor_create gave, received host memory");
    assert_refused(muster_runtime_tensor_destroy(NULL, tensor), MUSTER_INVALID_ARGUMENT, "runtime: expected a runtime, received NULL");
    assert_ok(muster_runtime_tensor_destroy(runtime, muster_tensor_reshape(tensor, 1, (const int64_t[]){CELLS})));
    assert_ok(muster_runtime_close(runtime));
}

typedef struct inside {
    muster_runtime *runtime;
    muster_tensor tensor;
} inside;

static muster_status use_inside(muster_worker *worker, void *argument) {
    const inside *i = argument;
    muster_tensor made;
    if (muster_runtime_tensor_create(i->runtime, "0", MUSTER_F32, 0, NULL, &made) != MUSTER_BAD_STATE) return MUSTER_USER;
    if (muster_runtime_tensor_copy(i->runtime, i->tensor, i->tensor) != MUSTER_BAD_STATE) return MUSTER_USER;
    if (muster_runtime_tensor_destroy(i->runtime, i->tensor) != MUSTER_BAD_STATE) return MUSTER_USER;
    return muster_worker_rank(worker) == i->tensor.device ? muster_fill(worker, 7, i->tensor) : MUSTER_OK;
}

static void bodies_use_tensors_but_do_not_make_them(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:2");
    inside i = {runtime, make(runtime, "1", ROWS, COLUMNS)};
    int32_t sevens[CELLS];
    for (int32_t c = 0; c < CELLS; c++) sevens[c] = 7;
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    assert_ok(mst_pool_run(runtime->pool, use_inside, &i));
    assert_int_equal(mst_runtime_tensor_extent(runtime, 1, (char *)i.tensor.data + 40), 240);
    assert_int_equal(mst_runtime_tensor_extent(runtime, 0, i.tensor.data), -1);
    mst_pool_leave(runtime->pool);
    assert_holds(runtime, i.tensor, sevens);
    assert_ok(muster_runtime_close(runtime));
}

static void a_child_cannot_use_tensors(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:1");
    const muster_tensor tensor = make(runtime, "0", 2, 2);
    const pid_t child = fork();
    if (child == 0) {
        muster_tensor made;
        const bool refused = muster_runtime_tensor_create(runtime, "0", MUSTER_F32, 0, NULL, &made) == MUSTER_BAD_STATE &&
                             muster_runtime_tensor_copy(runtime, tensor, tensor) == MUSTER_BAD_STATE &&
                             muster_runtime_tensor_destroy(runtime, tensor) == MUSTER_BAD_STATE && strstr(muster_last_error(), "fork");
        _exit(refused ? 0 : 1);
    }
    int outcome;
    waitpid(child, &outcome, 0);
    assert_int_equal(outcome, 0);
    assert_ok(muster_runtime_close(runtime));
}

/* ---- memory ---- */

static void a_tensor_for_which_there_is_no_memory_is_not_made(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:1,discrete:1");
    const int64_t live = mst_memory_live(), discrete_live = mst_discrete_live();
    for (int32_t r = 0; r < 2; r++) {
        int32_t refused = 0;
        for (int64_t k = 1;; k++) {
            muster_tensor tensor;
            mst_memory_fail_at(k);
            const muster_status status =
                muster_runtime_tensor_create(runtime, r ? "1" : "0", MUSTER_F64, 1, (const int64_t[]){100}, &tensor);
            mst_memory_fail_at(0);
            if (status == MUSTER_OK) {
                assert_ok(muster_runtime_tensor_destroy(runtime, tensor));
                break;
            }
            assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
            assert_int_equal(tensor.dtype, MUSTER_DTYPE_NONE);
            assert_int_equal(mst_discrete_live(), discrete_live);
            assert_int_equal(runtime->placed_count, 0);
            refused++;
        }
        if (!on_gpus()) assert_true(refused >= 1);
    }
    assert_true(mst_memory_live() <= live + 2); /* the list of tensors, and the discrete device's of blocks */
    assert_ok(muster_runtime_close(runtime));
}

static void a_copy_for_which_there_is_no_memory_fails_alone(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:2");
    const muster_tensor from = columns_of(make(runtime, "0", ROWS, 2 * COLUMNS), 0, 2),
                        to = columns_of(make(runtime, "1", ROWS, 2 * COLUMNS), 0, 2);
    int32_t cells[CELLS], refused = 0;
    count_up(cells, 1);
    assert_ok(muster_runtime_tensor_copy(runtime, muster_i32(cells, ROWS, COLUMNS), from));
    for (int64_t k = 1;; k++) {
        mst_memory_fail_at(k);
        const muster_status status = muster_runtime_tensor_copy(runtime, from, to);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) break;
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
        refused++;
    }
    if (!on_gpus()) assert_true(refused >= 2); /* the staging, and scratch on a device; GPUs reach each other */
    assert_holds(runtime, to, cells);
    assert_ok(muster_runtime_close(runtime));
}

static void tensors_are_found_among_many(void **state) {
    (void)state;
    enum { MANY = 300 };
    muster_runtime *runtime = open_text("host:1,discrete:2");
    static muster_tensor tensors[MANY];
    for (int32_t i = 0; i < MANY; i++) {
        tensors[i] = make(runtime, (const char *[]){"0", "1", "2"}[i * 7 % 3], 1, 1 + i % 5);
        const muster_tensor first = columns_of(tensors[i], 0, 8);
        assert_ok(muster_runtime_tensor_copy(runtime, muster_i32(&i, 1, 1), first));
    }
    for (int32_t i = 0; i < MANY; i += 2) assert_ok(muster_runtime_tensor_destroy(runtime, tensors[i]));
    for (int32_t i = 1; i < MANY; i += 2) {
        int32_t value;
        assert_ok(muster_runtime_tensor_copy(runtime, columns_of(tensors[i], 0, 8), muster_i32(&value, 1, 1)));
        assert_int_equal(value, i);
        assert_ok(muster_runtime_tensor_destroy(runtime, tensors[i]));
    }
    assert_int_equal(runtime->placed_count, 0);
    assert_ok(muster_runtime_close(runtime));
}

typedef struct client {
    muster_runtime *runtime;
    int32_t number;
} client;

static void *move_around(void *argument) {
    const client *c = argument;
    const char *there = c->number % 2 ? "1" : "2";
    for (int32_t round = 0; round < 10; round++) {
        int32_t in[CELLS], out[CELLS];
        muster_tensor one, other;
        const int64_t shape[] = {ROWS, COLUMNS};
        count_up(in, 1000 * c->number + round);
        if (muster_runtime_tensor_create(c->runtime, "0", MUSTER_I32, 2, shape, &one) != MUSTER_OK) return "create";
        if (muster_runtime_tensor_create(c->runtime, there, MUSTER_I32, 2, shape, &other) != MUSTER_OK) return "create there";
        if (muster_runtime_tensor_copy(c->runtime, muster_i32(in, ROWS, COLUMNS), one) != MUSTER_OK) return "in";
        if (muster_runtime_tensor_copy(c->runtime, one, other) != MUSTER_OK) return "between";
        if (muster_runtime_tensor_copy(c->runtime, other, muster_i32(out, ROWS, COLUMNS)) != MUSTER_OK) return "out";
        if (memcmp(in, out, sizeof in) != 0) return "mixed up";
        if (muster_runtime_tensor_destroy(c->runtime, one) != MUSTER_OK || muster_runtime_tensor_destroy(c->runtime, other) != MUSTER_OK)
            return "destroy";
    }
    return NULL;
}

static void several_threads_place_tensors(void **state) {
    (void)state;
    enum { THREADS = 4 };
    muster_runtime *runtime = open_text("host:1,discrete:2");
    pthread_t threads[THREADS];
    client clients[THREADS];
    for (int32_t i = 0; i < THREADS; i++) {
        clients[i] = (client){runtime, i};
        assert_int_equal(pthread_create(&threads[i], NULL, move_around, &clients[i]), 0);
    }
    for (int32_t i = 0; i < THREADS; i++) {
        void *complaint;
        pthread_join(threads[i], &complaint);
        assert_null(complaint);
    }
    assert_int_equal(runtime->placed_count, 0);
    assert_ok(muster_runtime_close(runtime));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_tensor_holds_zeros_on_the_named_device),
        cmocka_unit_test(every_dtype_can_be_placed),
        cmocka_unit_test(scalars_and_empty_tensors_can_be_placed),
        cmocka_unit_test(what_cannot_be_created_is_refused),
        cmocka_unit_test(what_is_left_is_freed_at_close),
        cmocka_unit_test(every_place_copies_to_every_place),
        cmocka_unit_test(devices_of_one_kind_copy_to_each_other),
        cmocka_unit_test(pieces_of_every_size_make_the_whole),
        cmocka_unit_test(a_transposed_view_copies_in_its_own_order),
        cmocka_unit_test(a_row_repeats_where_its_stride_is_0),
        cmocka_unit_test(a_copy_to_itself_changes_nothing),
        cmocka_unit_test(apart_within_one_tensor),
        cmocka_unit_test(a_tensor_of_a_host_device_is_host_memory),
        cmocka_unit_test(tensors_that_do_not_match_are_refused),
        cmocka_unit_test(a_view_beyond_its_tensor_is_refused),
        cmocka_unit_test(a_destroyed_tensor_is_refused),
        cmocka_unit_test(a_tensor_of_another_runtime_is_refused),
        cmocka_unit_test(only_whole_tensors_are_destroyed),
        cmocka_unit_test(bodies_use_tensors_but_do_not_make_them),
        cmocka_unit_test(a_child_cannot_use_tensors),
        cmocka_unit_test(a_tensor_for_which_there_is_no_memory_is_not_made),
        cmocka_unit_test(a_copy_for_which_there_is_no_memory_fails_alone),
        cmocka_unit_test(tensors_are_found_among_many),
        cmocka_unit_test(several_threads_place_tensors),
    };
    assert_ok(mst_discrete_register());
    return cmocka_run_group_tests(tests, NULL, NULL);
}

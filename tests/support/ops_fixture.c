#include "ops_fixture.h"

#include "base_check.h"
#include "base_machine.h"
#include "base_seed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 16 };

static void log_nothing(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static mst_pool *running_pool; /* of the body that runs, as its device */
static mst_device *running_device;

static void end_run(void) {
    const mst_device_table *table = running_device->table;
    mst_pool_leave(running_pool);
    mst_pool_destroy(running_pool);
    table->close(running_device);
    running_pool = NULL;
}

static muster_status nothing(muster_worker *worker, void *unused) {
    (void)worker, (void)unused;
    return MUSTER_OK;
}

/* An assertion that fails in a body jumps out of ops_run_on, so that this thread still counts as
 * running a function. A run of the same pool ends that. */
static void end_failed_run(void) {
    if (!running_pool) return;
    (void)mst_pool_run_single(running_pool, nothing, NULL);
    end_run();
}

/* The GPU that stands for the device of a test: one for the host device, another for the discrete
 * one. MUSTER_TEST_GPUS=1: the machine has one, which stands for both. */
static const char *gpu_for(const char *backend) {
    const char *gpus = getenv("MUSTER_TEST_GPUS");
    return strcmp(backend, "host") == 0 || (gpus && strcmp(gpus, "1") == 0) ? "0" : "1";
}

muster_status ops_run_on(const char *backend, mst_task body, void *argument) {
    end_failed_run();
    const bool gpus = on_gpus();
    const mst_device_table *table = mst_device_find(gpus ? "cuda" : backend);
    assert_non_null(table);
    assert_ok(mst_code_add(&mst_ops_code));
    mst_pool_options options = {.spin_ns = 0, .warn_after_ns = -1, .fail_after_ns = -1, .log = log_nothing};
    assert_ok(table->open(table, gpus ? gpu_for(backend) : "0", &running_device));
    assert_ok(mst_pool_create(&options, &running_device, 1, &running_pool));
    assert_ok(mst_pool_enter(running_pool, "test", 0));
    muster_status status = mst_pool_run_single(running_pool, body, argument);
    end_run();
    if (gpus) machine_check(true);
    return status;
}

int ops_first_backend(void) { return on_gpus() && !test_is_full() ? 1 : 0; }

static uint64_t numbers = 1;

void ops_seed(void) {
    numbers = test_seed();
    print_message("seed %llu\n", (unsigned long long)numbers);
}

int64_t ops_random(int64_t below) {
    numbers = numbers * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((numbers >> 33) % (uint64_t)below);
}

/* One worker computes: the sanitizers look for what its memory and the queue of a device can do. */
int ops_rounds(int usual, int full) {
    const int one_in = (int)test_one_in(1, 2, 4);
    return test_is_full() ? full : (usual + one_in - 1) / one_in;
}

/* ---- tensors ---- */

ops_pair ops_make(muster_worker *worker, muster_dtype dtype, int64_t storage) {
    static _Alignas(64) char memory[PAIRS][OPS_STORAGE * 8];
    static int used;
    assert_true(storage <= OPS_STORAGE);
    ops_pair pair = {.host_storage = muster_tensor_make(dtype, memory[used++ % PAIRS], 1, &storage)};
    assert_ok(muster_worker_scratch(worker, dtype, 1, &storage, &pair.device_storage));
    for (int64_t i = 0; i < storage; i++) {
        double value = (double)ops_random(7) - (ops_is_unsigned(dtype) ? 0 : 3);
        mst_convert(dtype, (char *)pair.host_storage.data + i * muster_dtype_size(dtype), MUSTER_F64, &value, 1);
    }
    ops_send(worker, &pair);
    pair.host = pair.host_storage;
    ops_place(&pair);
    return pair;
}

void ops_place(ops_pair *pair) {
    pair->device = pair->host;
    pair->device.data = pair->device_storage.data;
    pair->device.byte_offset += pair->device_storage.byte_offset;
    pair->device.device = pair->device_storage.device;
}

static void shuffle(int32_t *order, int32_t count) {
    for (int32_t i = 0; i < count; i++) order[i] = count - 1 - i;
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t j = (int32_t)ops_random(i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* Chooses strides from the innermost axis to the outermost one. The stride of an axis is at least
 * the extent of the axes inside it, so that no two elements share an address unless `repeats` is
 * true. The stride of an axis with one element has no effect and may be any number. */
ops_pair ops_view(muster_worker *worker, muster_dtype dtype, int32_t ndim, const int64_t *shape, bool repeats) {
    int64_t strides[MUSTER_MAX_DIMS], extent = 1, first = ops_random(4);
    int32_t order[MUSTER_MAX_DIMS];
    bool plain = ops_random(4) == 0;
    shuffle(order, ndim);
    for (int32_t i = 0; i < ndim; i++) {
        int32_t axis = plain ? ndim - 1 - i : order[i];
        int64_t stride = plain ? extent : extent * (1 + ops_random(2)) + ops_random(2);
        strides[axis] = !plain && ops_random(3) == 0 ? -stride : stride;
        /* rows that overlap */
        if (!plain && repeats && ops_random(6) == 0) strides[axis] = stride = 1 + ops_random(extent);
        if (!plain && repeats && ops_random(4) == 0) strides[axis] = 0;
        if (!plain && shape[axis] == 1) strides[axis] = ops_random(2001) - 1000;
        if (shape[axis] <= 1) continue;
        if (strides[axis] < 0) first += stride * (shape[axis] - 1);
        if (strides[axis] != 0) extent += stride * (shape[axis] - 1);
    }
    ops_pair pair = ops_make(worker, dtype, first + extent + ops_random(4));
    pair.host = muster_tensor_make(dtype, pair.host_storage.data, ndim, shape);
    for (int32_t d = 0; d < ndim; d++) pair.host.strides[d] = strides[d];
    pair.host.byte_offset = first * muster_dtype_size(dtype);
    ops_place(&pair);
    return pair;
}

ops_pair ops_laid_out(muster_worker *w, muster_dtype dtype, int32_t ndim, int64_t rows, int64_t columns, int layout) {
    int64_t shape[2] = {rows, columns}, storage = 1;
    for (int32_t d = 0; d < ndim; d++) storage *= 2 * shape[d] + 1;
    ops_pair p = ops_make(w, dtype, storage);
    p.host = muster_tensor_make(dtype, p.host_storage.data, ndim, shape);
    if (layout == 1 && ndim == 2) p.host.strides[0] = 1, p.host.strides[1] = rows;
    if (layout == 2)
        for (int32_t d = 0; d < ndim; d++) {
            p.host.byte_offset += 2 * p.host.strides[d] * (shape[d] > 0 ? shape[d] - 1 : 0) * muster_dtype_size(dtype);
            p.host.strides[d] *= -2;
        }
    if (layout == 2 && ndim == 2) { /* rows farther apart than twice their length */
        p.host.strides[0] = -(2 * columns + 1);
        p.host.byte_offset =
            ((rows > 0 ? rows - 1 : 0) * (2 * columns + 1) + (columns > 0 ? 2 * (columns - 1) : 0)) * muster_dtype_size(dtype);
    }
    ops_place(&p);
    return p;
}

void ops_send(muster_worker *worker, const ops_pair *pair) {
    assert_ok(muster_worker_write(worker, pair->host_storage, pair->device_storage));
}
void ops_fetch(muster_worker *worker, const ops_pair *pair) {
    assert_ok(muster_worker_read(worker, pair->device_storage, pair->host_storage));
}

double ops_element(muster_tensor tensor, int32_t ndim, const int64_t *index) {
    double value = 0;
    int64_t at = 0;
    for (int32_t d = 0; d < tensor.ndim; d++)
        if (tensor.shape[d] > 1) at += index[d + ndim - tensor.ndim] * tensor.strides[d];
    mst_convert(MUSTER_F64, &value, tensor.dtype, (char *)muster_tensor_address(tensor) + at * muster_dtype_size(tensor.dtype), 1);
    return value;
}

bool ops_next(int32_t ndim, const int64_t *shape, int64_t *index) {
    for (int32_t d = ndim - 1; d >= 0; d--) {
        if (++index[d] < shape[d]) return true;
        index[d] = 0;
    }
    return false;
}

/* ---- expected results ---- */

bool ops_is_unsigned(muster_dtype dtype) { return dtype == MUSTER_U8 || dtype == MUSTER_U32 || dtype == MUSTER_U64; }

bool ops_refused(muster_reduction op, muster_dtype dtype) {
    return (op == MUSTER_AVG && !mst_dtype_is_float(dtype)) || (op == MUSTER_SUM && dtype == MUSTER_BOOL);
}

double ops_tightest(muster_dtype dtype) { return dtype == MUSTER_F64 ? 1e-12 : 1e-6; }

double ops_precision(muster_dtype dtype) {
    return dtype == MUSTER_BF16 ? 1e-2 : dtype == MUSTER_F16 ? 2e-3 : dtype == MUSTER_F32 ? 1e-6 : 1e-12;
}

void ops_assert_near(double value, double expected, double tolerance) {
    bool near = isfinite(expected) ? fabs(value - expected) <= tolerance * (1 + fabs(expected))
                : isnan(expected)  ? isnan(value)
                                   : value == expected;
    if (!near) fail_msg("expected %.9g, received %.9g", expected, value);
}

#include "collectives_values.h"
#include "base_pace.h"
#include "base_seed.h"
#include "scheduler_scratch.h"

#include <stdio.h>

muster_tensor values_copy(muster_worker *w, muster_tensor host) {
    muster_tensor t = scratch_tensor(w, host.dtype, host.ndim, host.shape);
    return muster_worker_write(w, host, t) == MUSTER_OK ? t : muster_tensor_none();
}

muster_tensor values_make(muster_worker *w, int64_t count, int64_t first, int64_t step) {
    int64_t *values = mst_alloc((size_t)count * sizeof *values);
    if (!values) return muster_tensor_none();
    for (int64_t i = 0; i < count; i++) values[i] = first + i * step;
    muster_tensor t = values_copy(w, muster_i64(values, count));
    mst_free(values);
    return t;
}

/* The tensor's elements in host memory; mst_free. */
static muster_status fetch(muster_worker *w, muster_tensor tensor, char **values) {
    int64_t bytes = muster_tensor_count(tensor) * muster_dtype_size(tensor.dtype);
    *values = mst_alloc((size_t)bytes);
    if (!*values) return mst_out_of_memory("test", bytes);
    muster_status status = muster_worker_read(w, tensor, muster_tensor_make(tensor.dtype, *values, tensor.ndim, tensor.shape));
    if (status != MUSTER_OK) mst_free(*values);
    return status;
}

muster_status values_expect_part(muster_worker *w, muster_tensor tensor, int64_t begin, int64_t end, int64_t first, int64_t step) {
    char *bytes;
    MUSTER_TRY(fetch(w, tensor, &bytes));
    muster_status status = MUSTER_OK;
    for (int64_t i = begin; i < end && status == MUSTER_OK; i++) {
        int64_t value = ((int64_t *)bytes)[i], wanted = first + (i - begin) * step;
        if (value != wanted)
            status = mst_error(MUSTER_USER, "rank %d of %d: element %lld: expected %lld, received %lld", muster_worker_rank(w),
                               muster_worker_size(w), (long long)i, (long long)wanted, (long long)value);
    }
    mst_free(bytes);
    return status;
}

muster_status values_expect(muster_worker *w, muster_tensor tensor, int64_t first, int64_t step) {
    return values_expect_part(w, tensor, 0, muster_tensor_count(tensor), first, step);
}

muster_status values_same(muster_worker *w, muster_tensor tensor, muster_tensor host) {
    char *bytes;
    int64_t size = muster_tensor_count(host) * muster_dtype_size(host.dtype), at = 0;
    MUSTER_TRY(fetch(w, tensor, &bytes));
    while (at < size && bytes[at] == ((char *)muster_tensor_address(host))[at]) at++;
    mst_free(bytes);
    return at == size
               ? MUSTER_OK
               : mst_error(MUSTER_USER, "rank %d of %d: byte %lld differs", muster_worker_rank(w), muster_worker_size(w), (long long)at);
}

static void run_on(mst_task task, void *argument, int32_t host, int32_t discrete) {
    collectives_pool c;
    collectives_open(&c, host, discrete);
    muster_status status = collectives_run(&c, task, argument);
    if (status != MUSTER_OK)
        fail_msg("%d host and %d discrete devices: %s: %s", host, discrete, muster_status_name(status), muster_last_error());
    collectives_close(&c);
}

void values_run_on(mst_task task, void *argument, int32_t host) { run_on(task, argument, host, 0); }

void values_run_on_all(mst_task task, void *argument, int32_t least) {
    static const int32_t pools[][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 1}, {2, 2}, {1, 4}};
    enum { POOLS = sizeof pools / sizeof *pools };
    /* Of GPUs some pools: to open them takes most of the time. Another sample for each task. */
    static int64_t tasks;
    const bool gpus = collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE;
    const int64_t one_in = gpus ? test_one_in(2, 3, 4) : test_one_in(1, 2, 2);
    int64_t number = tasks++, kept = 0;
    for (int32_t host = least; host <= 9; host++)
        if (test_keeps(number++, one_in)) run_on(task, argument, host, 0), kept++;
    for (int32_t p = 0; p < POOLS; p++)
        if (pools[p][0] + pools[p][1] >= least && test_keeps(number++, one_in)) run_on(task, argument, pools[p][0], pools[p][1]), kept++;
    assert_true(kept >= (10 - least + POOLS - 2) / one_in);
}

static muster_status sum_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 100, muster_worker_rank(w), 1);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return values_expect(w, x, muster_worker_size(w) * (muster_worker_size(w) - 1) / 2, muster_worker_size(w));
}

void values_refused_on(mst_task task, void *argument, int32_t host, int64_t fail_after_ns, muster_status code, const char *text) {
    collectives_pool c;
    collectives_open_with(&c, host, 0, NULL, test_patience(fail_after_ns));
    muster_status status = collectives_run(&c, task, argument);
    if (status != code) fail_msg("expected %s with \"%s\", received %s", muster_status_name(code), text, muster_status_name(status));
    if (!test_says(muster_last_error(), text)) fail_msg("\"%s\" lacks \"%s\"", muster_last_error(), text);
    if (strncmp(muster_last_error(), "muster_", 7) != 0) fail_msg("\"%s\" does not begin with a function", muster_last_error());
    assert_ok(collectives_run(&c, sum_task, NULL));
    collectives_close(&c);
}

muster_status values_refused(muster_status received, muster_status expected, const char *text, const char *call) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (received != expected)
        return mst_error(MUSTER_USER, "%.200s: expected %s, received %s", call, muster_status_name(expected), muster_status_name(received));
    if (!test_says(message, text)) return mst_error(MUSTER_USER, "\"%.300s\" lacks \"%.200s\"", message, text);
    return MUSTER_OK;
}

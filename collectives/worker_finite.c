/* MUSTER_CHECK=1: numbers that ranks add up are finite, before and behind the reduction. Each rank
 * looks at its own input before it enters, so that the message names the rank that brings the
 * number; where all have entered, a sum that is not finite has overflowed. */
#include "worker_entrance_private.h"

#include <string.h>

enum { FINITE_CHUNK = 4096 }; /* bytes that are read from a device at a time */

static bool adds_floats(const mst_request *r) {
    const bool reduces = r->collective == MST_ALL_REDUCE || r->collective == MST_ALL_REDUCE_AXPY || r->collective == MST_REDUCE ||
                         r->collective == MST_REDUCE_SCATTER;
    return reduces && mst_dtype_is_float(r->dtype) && r->reduction != MUSTER_MAX && r->reduction != MUSTER_MIN;
}

/* The bits of the exponent: all of them are set in infinity and NaN alone. */
static uint64_t exponent_of(muster_dtype dtype) {
    switch (dtype) {
    case MUSTER_F16:
        return 0x7c00;
    case MUSTER_BF16:
        return 0x7f80;
    case MUSTER_F32:
        return 0x7f800000;
    default:
        return 0x7ff0000000000000;
    }
}

/* The first element that is not finite, with its name; count if there is none. */
static int64_t first_in_memory(muster_dtype dtype, const char *memory, int64_t count, const char **name) {
    const int64_t element = muster_dtype_size(dtype);
    const uint64_t exponent = exponent_of(dtype), fraction = exponent & -exponent;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, memory + i * element, (size_t)element); /* the low bytes come first on every machine that is served */
        if ((bits & exponent) != exponent) continue;
        *name = bits & (fraction - 1) ? "NaN" : "infinite";
        return i;
    }
    return count;
}

typedef struct finite_side {
    const char *what; /* the argument */
    const void *address;
    int64_t count;
    bool behind; /* the reduction */
} finite_side;

static muster_status refuse(const mst_request *r, const finite_side *side, int64_t at, const char *name) {
    return mst_error(side->behind ? MUSTER_OVERFLOW : MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected finite numbers (MUSTER_CHECK=1), received %s %s in element %lld of %lld%s", mst_request_function(r),
                     side->what, muster_dtype_name(r->dtype), name, (long long)at, (long long)side->count,
                     side->behind ? ", though the inputs of all ranks are finite" : "");
}

static muster_status check_side(muster_worker *worker, const mst_request *r, const finite_side *side) {
    const int64_t element = muster_dtype_size(r->dtype), most = FINITE_CHUNK / element;
    const bool host = mst_device_is_host(worker->device);
    char chunk[FINITE_CHUNK];
    const char *name = "";
    for (int64_t at = 0; at < side->count; at += most) {
        const int64_t here = side->count - at < most ? side->count - at : most;
        const char *memory = (const char *)side->address + at * element;
        if (!host) {
            muster_tensor there = muster_tensor_make(r->dtype, (void *)(uintptr_t)memory, 1, &here);
            there.device = worker->rank;
            MUSTER_TRY(muster_worker_read(worker, there, muster_tensor_make(r->dtype, chunk, 1, &here)));
            memory = chunk;
        }
        const int64_t found = first_in_memory(r->dtype, memory, here, &name);
        if (found < here) return refuse(r, side, at + found, name);
    }
    return MUSTER_OK;
}

/* The last argument of an all_reduce_axpy is read as well as written. */
static muster_status check_before(muster_worker *worker, const mst_request *r) {
    const bool axpy = r->collective == MST_ALL_REDUCE_AXPY;
    const finite_side input = {.what = axpy ? "gradient" : "input", .address = r->input, .count = r->input_count};
    const finite_side parameter = {.what = "parameter", .address = r->output, .count = r->output_count};
    MUSTER_TRY(check_side(worker, r, &input));
    return axpy ? check_side(worker, r, &parameter) : MUSTER_OK;
}

static muster_status check_behind(const muster_communicator *communicator, muster_worker *worker, const mst_request *r) {
    const int32_t rank = mst_communicator_public(communicator, mst_communicator_rank(communicator, worker));
    if (r->collective == MST_REDUCE && rank != r->root) return MUSTER_OK;
    const finite_side output = {.what = r->collective == MST_ALL_REDUCE_AXPY ? "parameter" : "output",
                                .address = r->output,
                                .count = r->output_count,
                                .behind = true};
    return check_side(worker, r, &output);
}

muster_status mst_communicator_run_finite(muster_communicator *communicator, muster_worker *worker, mst_request *requests, int32_t count) {
    /* what only begins, on a device of its own, has not been written when this returns */
    const bool begins = !mst_device_is_host(worker->device) && worker->device->work_queue != MST_QUEUE_COMPUTE;
    for (int32_t i = 0; i < count && !begins; i++)
        if (adds_floats(&requests[i])) MUSTER_TRY(check_before(worker, &requests[i]));
    MUSTER_TRY(mst_communicator_run(communicator, worker, requests, count));
    for (int32_t i = 0; i < count && !begins; i++)
        if (adds_floats(&requests[i])) MUSTER_TRY(check_behind(communicator, worker, &requests[i]));
    return MUSTER_OK;
}

/* What one rank can see to be wrong is refused before any peer is met, with the argument, what was
 * expected and what came. */
#include "collectives_values.h"
#include "scheduler_scratch.h"

#include <stdio.h>

/* Tensors that fit nothing. */
typedef struct bad_arguments {
    muster_tensor four, other, five, floats, square, strided, none, elsewhere, broken, booleans, halves;
} bad_arguments;

static bad_arguments make_bad_arguments(muster_worker *w) {
    int64_t four = 4, shape[] = {2, 2};
    bad_arguments m = {
        .four = values_make(w, 4, 1, 0), .other = values_make(w, 4, 1, 0), .five = values_make(w, 5, 1, 0), .none = muster_tensor_none()};
    m.floats = scratch_tensor(w, MUSTER_F32, 1, &four);
    m.booleans = scratch_tensor(w, MUSTER_BOOL, 1, &four);
    m.halves = scratch_tensor(w, MUSTER_F16, 1, &four);
    m.square = scratch_tensor(w, MUSTER_I64, 2, shape);
    m.strided = muster_tensor_transpose(m.square);
    m.elsewhere = m.four;
    m.elsewhere.device = (w->rank + 1) % 2 + (muster_worker_size(w) == 1);
    m.broken = m.four;
    m.broken.dtype = 77;
    return m;
}

static const char *elsewhere_text(const muster_worker *w) {
    static const char *const texts[] = {"expected a tensor in the memory of device 0, received one of device",
                                        "expected a tensor in the memory of device 1, received one of device"};
    return texts[muster_worker_rank(w)];
}

/* ---- tensors ---- */

typedef muster_status (*unary_call)(muster_worker *w, muster_tensor t);
static muster_status reduce_in(muster_worker *w, muster_tensor t) {
    return muster_worker_reduce(w, NULL, MUSTER_SUM, muster_worker_rank(w), t, values_make(w, 4, 0, 0));
}
static muster_status reduce_in_elsewhere(muster_worker *w, muster_tensor t) {
    return muster_worker_reduce(w, NULL, MUSTER_SUM, 1 - muster_worker_rank(w), t, muster_tensor_none());
}
static muster_status gather_in_elsewhere(muster_worker *w, muster_tensor t) {
    return muster_worker_gather(w, NULL, 1 - muster_worker_rank(w), t, muster_tensor_none());
}
static muster_status all_reduce_in(muster_worker *w, muster_tensor t) {
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, t, values_make(w, 4, 0, 0));
}
static muster_status shards_in(muster_worker *w, muster_tensor t) {
    return muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, t, values_make(w, 4, 0, 0));
}
static muster_status axpy_in(muster_worker *w, muster_tensor t) {
    return muster_worker_all_reduce_axpy(w, NULL, 1, t, values_make(w, 4, 0, 0));
}
static muster_status broadcast_in(muster_worker *w, muster_tensor t) {
    return muster_worker_broadcast(w, NULL, muster_worker_rank(w), t, values_make(w, 4, 0, 0));
}
static muster_status all_gather_in(muster_worker *w, muster_tensor t) {
    return muster_worker_all_gather(w, NULL, t, values_make(w, 8, 0, 0));
}
static muster_status gather_in(muster_worker *w, muster_tensor t) {
    return muster_worker_gather(w, NULL, muster_worker_rank(w), t, values_make(w, 8, 0, 0));
}
static muster_status scatter_in(muster_worker *w, muster_tensor t) {
    return muster_worker_scatter(w, NULL, muster_worker_rank(w), t, values_make(w, 2, 0, 0));
}
static muster_status scattered_in(muster_worker *w, muster_tensor t) {
    return muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, t, values_make(w, 2, 0, 0));
}
static muster_status to_all_in(muster_worker *w, muster_tensor t) { return muster_worker_all_to_all(w, NULL, t, values_make(w, 4, 0, 0)); }
static muster_status uneven_in(muster_worker *w, muster_tensor t) {
    return muster_worker_all_to_all_uneven(w, NULL, t, (int64_t[]){2, 2}, values_make(w, 4, 0, 0), (int64_t[]){2, 2});
}
static muster_status send_in(muster_worker *w, muster_tensor t) { return muster_worker_send(w, NULL, 1 - muster_worker_rank(w), 0, t); }

static muster_status all_reduce_out(muster_worker *w, muster_tensor t) {
    return muster_worker_all_reduce(w, NULL, MUSTER_SUM, values_make(w, 4, 0, 0), t);
}
static muster_status shards_out(muster_worker *w, muster_tensor t) {
    return muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, muster_tensor_reshape(values_make(w, 8, 0, 0), 2, (int64_t[]){2, 4}), t);
}
static muster_status reduce_out(muster_worker *w, muster_tensor t) {
    return muster_worker_reduce(w, NULL, MUSTER_SUM, muster_worker_rank(w), values_make(w, 4, 0, 0), t);
}
static muster_status broadcast_out(muster_worker *w, muster_tensor t) {
    return muster_worker_broadcast(w, NULL, muster_worker_rank(w), values_make(w, 4, 0, 0), t);
}
static muster_status broadcast_out_elsewhere(muster_worker *w, muster_tensor t) {
    return muster_worker_broadcast(w, NULL, 1 - muster_worker_rank(w), muster_tensor_none(), t);
}
static muster_status all_gather_out(muster_worker *w, muster_tensor t) {
    return muster_worker_all_gather(w, NULL, values_make(w, 2, 0, 0), t);
}
static muster_status gather_out(muster_worker *w, muster_tensor t) {
    return muster_worker_gather(w, NULL, muster_worker_rank(w), values_make(w, 2, 0, 0), t);
}
static muster_status scatter_out(muster_worker *w, muster_tensor t) {
    return muster_worker_scatter(w, NULL, muster_worker_rank(w), values_make(w, 8, 0, 0), t);
}
static muster_status scatter_out_elsewhere(muster_worker *w, muster_tensor t) {
    return muster_worker_scatter(w, NULL, 1 - muster_worker_rank(w), muster_tensor_none(), t);
}
static muster_status scattered_out(muster_worker *w, muster_tensor t) {
    return muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, values_make(w, 8, 0, 0), t);
}
static muster_status to_all_out(muster_worker *w, muster_tensor t) { return muster_worker_all_to_all(w, NULL, values_make(w, 4, 0, 0), t); }
static muster_status uneven_out(muster_worker *w, muster_tensor t) {
    return muster_worker_all_to_all_uneven(w, NULL, values_make(w, 4, 0, 0), (int64_t[]){2, 2}, t, (int64_t[]){2, 2});
}
static muster_status recv_out(muster_worker *w, muster_tensor t) { return muster_worker_recv(w, NULL, 1 - muster_worker_rank(w), 0, t); }

static const struct {
    const char *name, *argument;
    unary_call call;
} tensor_arguments[] = {{"all_reduce", "input", all_reduce_in},
                        {"all_reduce", "output", all_reduce_out},
                        {"all_reduce_shards", "input", shards_in},
                        {"all_reduce_shards", "output", shards_out},
                        {"all_reduce_axpy", "gradient", axpy_in},
                        {"reduce", "input", reduce_in},
                        {"reduce", "output", reduce_out},
                        {"reduce", "input", reduce_in_elsewhere},
                        {"broadcast", "input", broadcast_in},
                        {"broadcast", "output", broadcast_out},
                        {"broadcast", "output", broadcast_out_elsewhere},
                        {"all_gather", "input", all_gather_in},
                        {"all_gather", "output", all_gather_out},
                        {"gather", "input", gather_in},
                        {"gather", "output", gather_out},
                        {"gather", "input", gather_in_elsewhere},
                        {"scatter", "input", scatter_in},
                        {"scatter", "output", scatter_out},
                        {"scatter", "output", scatter_out_elsewhere},
                        {"reduce_scatter", "input", scattered_in},
                        {"reduce_scatter", "output", scattered_out},
                        {"all_to_all", "input", to_all_in},
                        {"all_to_all", "output", to_all_out},
                        {"all_to_all_uneven", "input", uneven_in},
                        {"all_to_all_uneven", "output", uneven_out},
                        {"send", "input", send_in},
                        {"recv", "output", recv_out}};

static muster_status refuses(muster_worker *w, size_t i, muster_tensor t, muster_status code, const char *reason) {
    char text[MST_MESSAGE_SIZE];
    snprintf(text, sizeof text, "muster_worker_%s: %s: %s", tensor_arguments[i].name, tensor_arguments[i].argument, reason);
    return values_refused(tensor_arguments[i].call(w, t), code, text, tensor_arguments[i].name);
}

static muster_status tensors_task(muster_worker *w, void *argument) {
    (void)argument;
    bad_arguments m = make_bad_arguments(w);
    for (size_t i = 0; i < sizeof tensor_arguments / sizeof *tensor_arguments; i++) {
        MUSTER_TRY(refuses(w, i, m.none, MUSTER_INVALID_ARGUMENT, ""));
        MUSTER_TRY(refuses(w, i, m.broken, MUSTER_INVALID_ARGUMENT, ""));
        MUSTER_TRY(refuses(w, i, m.strided, MUSTER_UNSUPPORTED, "expected a contiguous tensor, received a strided one"));
        MUSTER_TRY(refuses(w, i, m.elsewhere, MUSTER_INVALID_ARGUMENT, elsewhere_text(w)));
    }
    return muster_worker_barrier(w, NULL);
}

static void test_tensors(void **state) {
    (void)state;
    values_run_on(tensors_task, NULL, 2);
}

static muster_status scratch_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t huge = INT64_MAX / 8;
    muster_tensor x;
    const muster_status failed = muster_worker_scratch(w, MUSTER_F64, 1, &huge, &x);
    const muster_status status = muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x);
    VALUES_REQUIRE(failed == MUSTER_OVERFLOW && status == failed);
    return MUSTER_OK;
}

static void test_a_tensor_that_scratch_could_not_give_carries_its_failure(void **state) {
    (void)state;
    values_run_on(scratch_task, NULL, 2);
}

/* ---- what must fit each other ---- */

static muster_status pairs_task(muster_worker *w, void *argument) {
    (void)argument;
    bad_arguments m = make_bad_arguments(w);
    muster_tensor ten = values_make(w, 10, 0, 0), one = muster_tensor_slice(ten, 1, 5), two = muster_tensor_slice(ten, 3, 7),
                  rows = muster_tensor_reshape(ten, 2, (int64_t[]){2, 5});
    int64_t even[] = {2, 2}, short_sum[] = {2, 1}, negative[] = {-1, 5}, overflow[] = {INT64_MAX, INT64_MAX};
    int32_t own = muster_worker_rank(w);
#define DTYPES "output: expected dtype i64 as the input, received f32"
    VALUES_REFUSED(muster_worker_all_reduce(w, NULL, MUSTER_SUM, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_all_reduce_axpy(w, NULL, 1, m.four, m.floats), MUSTER_DTYPE_MISMATCH,
                   "parameter: expected dtype i64 as the gradient, received f32");
    VALUES_REFUSED(muster_worker_reduce(w, NULL, MUSTER_SUM, own, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_broadcast(w, NULL, own, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_all_gather(w, NULL, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_gather(w, NULL, own, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_scatter(w, NULL, own, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_all_to_all(w, NULL, m.four, m.floats), MUSTER_DTYPE_MISMATCH, DTYPES);
    VALUES_REFUSED(muster_worker_all_to_all_uneven(w, NULL, m.four, even, m.floats, even), MUSTER_DTYPE_MISMATCH, DTYPES);
#define COUNTS "output: expected 4 elements as the input, received 5"
    VALUES_REFUSED(muster_worker_all_reduce(w, NULL, MUSTER_SUM, m.four, m.five), MUSTER_SHAPE_MISMATCH, COUNTS);
    VALUES_REFUSED(muster_worker_reduce(w, NULL, MUSTER_SUM, own, m.four, m.five), MUSTER_SHAPE_MISMATCH, COUNTS);
    VALUES_REFUSED(muster_worker_broadcast(w, NULL, own, m.four, m.five), MUSTER_SHAPE_MISMATCH, COUNTS);
    VALUES_REFUSED(muster_worker_all_to_all(w, NULL, m.four, m.five), MUSTER_SHAPE_MISMATCH, COUNTS);
    VALUES_REFUSED(muster_worker_all_to_all(w, NULL, m.five, m.five), MUSTER_SHAPE_MISMATCH,
                   "input: expected a multiple of 2 elements, received 5; use muster_worker_all_to_all_uneven");
    VALUES_REFUSED(muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, rows, m.four), MUSTER_SHAPE_MISMATCH,
                   "input: expected 8 elements as shards times the output, received 10");
    VALUES_REFUSED(
        muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, muster_tensor_reshape(muster_tensor_slice(ten, 0, 1), 0, NULL), m.four),
        MUSTER_SHAPE_MISMATCH, "input: expected a first axis of shards, received a tensor without axes");
    VALUES_REFUSED(muster_worker_all_reduce_axpy(w, NULL, 1, m.four, m.other), MUSTER_UNSUPPORTED,
                   "gradient: expected a float dtype, received i64");
    VALUES_REFUSED(muster_worker_all_reduce_axpy(w, NULL, 1, m.floats, muster_tensor_slice(m.floats, 0, 3)), MUSTER_SHAPE_MISMATCH,
                   "parameter: expected 4 elements as the gradient, received 3");
    VALUES_REFUSED(muster_worker_all_reduce_axpy(w, NULL, 1, m.floats, m.floats), MUSTER_INVALID_ARGUMENT, "received an overlap");
#define OVERLAP "output: expected the input's memory in the form that is allowed in place, or memory apart from it, received an overlap"
    VALUES_REFUSED(muster_worker_all_reduce(w, NULL, MUSTER_SUM, one, two), MUSTER_INVALID_ARGUMENT, OVERLAP);
    VALUES_REFUSED(muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, rows, muster_tensor_slice(ten, 5, 10)), MUSTER_INVALID_ARGUMENT,
                   OVERLAP);
    VALUES_REFUSED(muster_worker_reduce(w, NULL, MUSTER_SUM, own, one, two), MUSTER_INVALID_ARGUMENT, OVERLAP);
    VALUES_REFUSED(muster_worker_broadcast(w, NULL, own, one, two), MUSTER_INVALID_ARGUMENT, OVERLAP);
    VALUES_REFUSED(muster_worker_all_gather(w, NULL, one, muster_tensor_slice(ten, 2, 10)), MUSTER_INVALID_ARGUMENT, OVERLAP);
    VALUES_REFUSED(muster_worker_gather(w, NULL, own, one, muster_tensor_slice(ten, 2, 10)), MUSTER_INVALID_ARGUMENT, OVERLAP);
    VALUES_REFUSED(muster_worker_scatter(w, NULL, own, muster_tensor_slice(ten, 2, 10), one), MUSTER_INVALID_ARGUMENT, OVERLAP);
    VALUES_REFUSED(muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, muster_tensor_slice(ten, 2, 10), one), MUSTER_INVALID_ARGUMENT,
                   OVERLAP);
    VALUES_REFUSED(muster_worker_all_to_all(w, NULL, one, two), MUSTER_INVALID_ARGUMENT, OVERLAP);
    VALUES_REFUSED(muster_worker_all_to_all_uneven(w, NULL, one, even, one, even), MUSTER_INVALID_ARGUMENT, OVERLAP);
    VALUES_REFUSED(muster_worker_all_to_all_uneven(w, NULL, m.four, NULL, m.other, even), MUSTER_INVALID_ARGUMENT,
                   "send_counts: expected 2 numbers, received NULL");
    VALUES_REFUSED(muster_worker_all_to_all_uneven(w, NULL, m.four, even, m.other, NULL), MUSTER_INVALID_ARGUMENT,
                   "recv_counts: expected 2 numbers, received NULL");
    VALUES_REFUSED(muster_worker_all_to_all_uneven(w, NULL, m.four, negative, m.other, even), MUSTER_INVALID_ARGUMENT,
                   "send_counts[0]: expected a count of at least 0");
    VALUES_REFUSED(muster_worker_all_to_all_uneven(w, NULL, m.four, even, m.other, overflow), MUSTER_OVERFLOW,
                   "recv_counts[1]: expected counts of which the sum fits 64 bits");
    VALUES_REFUSED(muster_worker_all_to_all_uneven(w, NULL, m.four, short_sum, m.other, even), MUSTER_SHAPE_MISMATCH,
                   "input: expected 3 elements, the sum of send_counts, received 4");
    VALUES_REFUSED(muster_worker_all_to_all_uneven(w, NULL, m.four, even, m.other, short_sum), MUSTER_SHAPE_MISMATCH,
                   "output: expected 3 elements, the sum of recv_counts, received 4");
    return muster_worker_barrier(w, NULL);
}

static void test_pairs_of_tensors_and_counts(void **state) {
    (void)state;
    values_run_on(pairs_task, NULL, 2);
}

/* ---- numbers ---- */

static muster_status numbers_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 4, 0, 0);
#define RANKS "expected a rank from 0 to 1, received "
    for (int32_t root = -1; root <= 2; root += 3) {
        VALUES_REFUSED(muster_worker_reduce(w, NULL, MUSTER_SUM, root, x, x), MUSTER_OUT_OF_RANGE, "muster_worker_reduce: root: " RANKS);
        VALUES_REFUSED(muster_worker_broadcast(w, NULL, root, x, x), MUSTER_OUT_OF_RANGE, "muster_worker_broadcast: root: " RANKS);
        VALUES_REFUSED(muster_worker_gather(w, NULL, root, x, x), MUSTER_OUT_OF_RANGE, "muster_worker_gather: root: " RANKS);
        VALUES_REFUSED(muster_worker_scatter(w, NULL, root, x, x), MUSTER_OUT_OF_RANGE, "muster_worker_scatter: root: " RANKS);
        VALUES_REFUSED(muster_worker_send(w, NULL, root, 0, x), MUSTER_OUT_OF_RANGE, "muster_worker_send: to: " RANKS);
        VALUES_REFUSED(muster_worker_recv(w, NULL, root, 0, x), MUSTER_OUT_OF_RANGE, "muster_worker_recv: from: " RANKS);
    }
    for (muster_reduction op = -1; op <= 6; op += op == 0 ? 6 : 1) {
        VALUES_REFUSED(muster_worker_all_reduce(w, NULL, op, x, x), MUSTER_INVALID_ARGUMENT,
                       "muster_worker_all_reduce: op: expected MUSTER_SUM, PROD, MAX, MIN or AVG, received ");
        VALUES_REFUSED(muster_worker_reduce(w, NULL, op, 0, x, x), MUSTER_INVALID_ARGUMENT,
                       "muster_worker_reduce: op: expected MUSTER_SUM");
        VALUES_REFUSED(muster_worker_reduce_scatter(w, NULL, op, x, muster_tensor_slice(x, 0, 2)), MUSTER_INVALID_ARGUMENT,
                       "muster_worker_reduce_scatter: op: expected MUSTER_SUM");
    }
    VALUES_REFUSED(muster_worker_send(w, NULL, 1 - muster_worker_rank(w), -1, x), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_send: tag: expected at least 0, received -1");
    VALUES_REFUSED(muster_worker_recv(w, NULL, 1 - muster_worker_rank(w), INT32_MIN, x), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_recv: tag: expected at least 0, received -2147483648");
    VALUES_REFUSED(muster_worker_send(w, NULL, muster_worker_rank(w), 0, x), MUSTER_INVALID_ARGUMENT,
                   "this one; a message to itself goes into a group");
    VALUES_REFUSED(muster_worker_recv(w, NULL, muster_worker_rank(w), 0, x), MUSTER_INVALID_ARGUMENT,
                   "this one; a message to itself goes into a group");
    VALUES_REFUSED(muster_worker_split(w, NULL, 0, 0, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_split: part: expected the address of a pointer, received NULL");
    return muster_worker_barrier(w, NULL);
}

static void test_roots_ranks_tags_and_ops(void **state) {
    (void)state;
    values_run_on(numbers_task, NULL, 2);
}

/* ---- the table of dtypes and ops ---- */

static muster_status table_task(muster_worker *w, void *argument) {
    (void)argument;
    for (muster_dtype dtype = MUSTER_F16; dtype < MST_DTYPE_COUNT; dtype++) {
        for (muster_reduction op = MUSTER_SUM; op <= MUSTER_AVG; op += MUSTER_AVG - MUSTER_SUM) {
            bool refused = op == MUSTER_AVG ? dtype > MUSTER_F64 : dtype == MUSTER_BOOL;
            if (!refused) continue;
            int64_t shape[] = {2, 2}, two = 2;
            muster_tensor x, y;
            MUSTER_TRY(muster_worker_scratch(w, dtype, 2, shape, &x));
            MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &two, &y));
            char text[100];
            snprintf(text, sizeof text, ": %s of %s is refused: ", op == MUSTER_AVG ? "avg" : "sum", muster_dtype_name(dtype));
            VALUES_REFUSED(muster_worker_all_reduce(w, NULL, op, x, x), MUSTER_UNSUPPORTED, text);
            VALUES_REFUSED(muster_worker_all_reduce_shards(w, NULL, op, x, y), MUSTER_UNSUPPORTED, text);
            VALUES_REFUSED(muster_worker_reduce(w, NULL, op, 0, x, x), MUSTER_UNSUPPORTED, text);
            VALUES_REFUSED(muster_worker_reduce_scatter(w, NULL, op, x, y), MUSTER_UNSUPPORTED, text);
        }
    }
    return muster_worker_barrier(w, NULL);
}

static void test_dtypes_that_an_op_refuses(void **state) {
    (void)state;
    values_run_on(table_task, NULL, 2);
}

/* ---- workers ---- */

static muster_status nothing_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    muster_tensor x = values_make(w, 4, 0, 0);
#define NO_WORKER "worker: expected the worker of the running function, received NULL"
    VALUES_REFUSED(muster_worker_all_reduce(NULL, NULL, MUSTER_SUM, x, x), MUSTER_INVALID_ARGUMENT, "muster_worker_all_reduce: " NO_WORKER);
    VALUES_REFUSED(muster_worker_all_reduce_shards(NULL, NULL, MUSTER_SUM, x, x), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_all_reduce_shards: " NO_WORKER);
    VALUES_REFUSED(muster_worker_all_reduce_axpy(NULL, NULL, 1, x, x), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_all_reduce_axpy: " NO_WORKER);
    VALUES_REFUSED(muster_worker_reduce(NULL, NULL, MUSTER_SUM, 0, x, x), MUSTER_INVALID_ARGUMENT, "muster_worker_reduce: " NO_WORKER);
    VALUES_REFUSED(muster_worker_broadcast(NULL, NULL, 0, x, x), MUSTER_INVALID_ARGUMENT, "muster_worker_broadcast: " NO_WORKER);
    VALUES_REFUSED(muster_worker_all_gather(NULL, NULL, x, x), MUSTER_INVALID_ARGUMENT, "muster_worker_all_gather: " NO_WORKER);
    VALUES_REFUSED(muster_worker_gather(NULL, NULL, 0, x, x), MUSTER_INVALID_ARGUMENT, "muster_worker_gather: " NO_WORKER);
    VALUES_REFUSED(muster_worker_scatter(NULL, NULL, 0, x, x), MUSTER_INVALID_ARGUMENT, "muster_worker_scatter: " NO_WORKER);
    VALUES_REFUSED(muster_worker_reduce_scatter(NULL, NULL, MUSTER_SUM, x, x), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_reduce_scatter: " NO_WORKER);
    VALUES_REFUSED(muster_worker_all_to_all(NULL, NULL, x, x), MUSTER_INVALID_ARGUMENT, "muster_worker_all_to_all: " NO_WORKER);
    VALUES_REFUSED(muster_worker_all_to_all_uneven(NULL, NULL, x, NULL, x, NULL), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_all_to_all_uneven: " NO_WORKER);
    VALUES_REFUSED(muster_worker_send(NULL, NULL, 0, 0, x), MUSTER_INVALID_ARGUMENT, "muster_worker_send: " NO_WORKER);
    VALUES_REFUSED(muster_worker_recv(NULL, NULL, 0, 0, x), MUSTER_INVALID_ARGUMENT, "muster_worker_recv: " NO_WORKER);
    VALUES_REFUSED(muster_worker_barrier(NULL, NULL), MUSTER_INVALID_ARGUMENT, "muster_worker_barrier: " NO_WORKER);
    VALUES_REFUSED(muster_worker_group_begin(NULL, NULL), MUSTER_INVALID_ARGUMENT, "muster_worker_group_begin: " NO_WORKER);
    VALUES_REFUSED(muster_worker_group_end(NULL, NULL), MUSTER_INVALID_ARGUMENT, "muster_worker_group_end: " NO_WORKER);
    VALUES_REFUSED(muster_worker_split(NULL, NULL, 0, 0, &part), MUSTER_INVALID_ARGUMENT, "muster_worker_split: " NO_WORKER);
    VALUES_REFUSED(muster_worker_release(NULL, muster_worker_communicator(w)), MUSTER_INVALID_ARGUMENT,
                   "muster_worker_release: " NO_WORKER);
    VALUES_REQUIRE(muster_worker_communicator(NULL) == NULL && muster_communicator_size(NULL) == -1);
    VALUES_REQUIRE(muster_communicator_rank(NULL, w) == -1 && muster_communicator_rank(muster_worker_communicator(w), NULL) == -1);
    return muster_worker_barrier(w, NULL);
}

static void test_no_worker(void **state) {
    (void)state;
    values_run_on(nothing_task, NULL, 1);
    values_run_on(nothing_task, NULL, 2);
}

static muster_status strangers_task(muster_worker *w, void *argument) {
    collectives_pool *c = argument;
    muster_worker *other = mst_pool_worker(c->pool, 1 - muster_worker_rank(w));
    VALUES_REFUSED(muster_worker_barrier(other, NULL), MUSTER_BAD_STATE,
                   "muster_worker_barrier: worker: expected the worker that runs on this thread, received one outside of its body");
    return muster_worker_barrier(w, NULL);
}

static void test_the_worker_of_another_thread(void **state) {
    (void)state;
    collectives_pool c;
    collectives_open(&c, 2, 0);
    assert_ok(collectives_run(&c, strangers_task, &c));
    assert_refused(muster_worker_barrier(mst_pool_worker(c.pool, 0), NULL), MUSTER_BAD_STATE, "outside of its body");
    collectives_close(&c);
}

/* ---- what only all ranks together can see ---- */

static muster_status gather_sum_task(muster_worker *w, void *argument) {
    (void)argument;
    return muster_worker_all_gather(w, NULL, values_make(w, 3 + muster_worker_rank(w), 0, 0), values_make(w, 9, 0, 0));
}

static muster_status gather_root_task(muster_worker *w, void *argument) {
    (void)argument;
    return muster_worker_gather(w, NULL, 1, values_make(w, 3, 0, 0),
                                muster_worker_rank(w) == 1 ? values_make(w, 5, 0, 0) : muster_tensor_none());
}

static muster_status scatter_sum_task(muster_worker *w, void *argument) {
    (void)argument;
    return muster_worker_scatter(w, NULL, 0, muster_worker_rank(w) == 0 ? values_make(w, 7, 0, 0) : muster_tensor_none(),
                                 values_make(w, 3, 0, 0));
}

static muster_status scattered_sum_task(muster_worker *w, void *argument) {
    (void)argument;
    return muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, values_make(w, 7, 0, 0), values_make(w, 3, 0, 0));
}

/* Rank 1's part lies where rank 0's belongs. Seen where tensors are used where they lie, so in
 * large ones; from copies it would come out right. */
static muster_status misplaced_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_tensor x = values_make(w, 6000, 0, 0);
    return muster_worker_all_gather(w, NULL, muster_tensor_slice(x, 0, 3000), x);
}

static muster_status uneven_sum_task(muster_worker *w, void *argument) {
    (void)argument;
    int64_t sent[] = {1, 2}, received[] = {1, 2}; /* rank 0 sends 2 to rank 1, which expects 1 */
    return muster_worker_all_to_all_uneven(w, NULL, values_make(w, 3, 0, 0), sent, values_make(w, 3, 0, 0), received);
}

static muster_status no_shards_task(muster_worker *w, void *argument) {
    (void)argument;
    return muster_worker_all_reduce_shards(w, NULL, MUSTER_MAX, muster_tensor_reshape(values_make(w, 0, 0, 0), 2, (int64_t[]){0, 3}),
                                           values_make(w, 3, 0, 0));
}

static muster_status alpha_task(muster_worker *w, void *argument) {
    (void)argument;
    float gradient = 1, parameter = 1;
    return muster_worker_all_reduce_axpy(w, NULL, muster_worker_rank(w) + 1, values_copy(w, muster_f32(&gradient, 1)),
                                         values_copy(w, muster_f32(&parameter, 1)));
}

static void test_what_all_ranks_together_bring(void **state) {
    (void)state;
    values_refused_on(gather_sum_task, NULL, 2, -1, MUSTER_SHAPE_MISMATCH,
                      "all_gather: output of rank 0: expected 7 elements, the sum of all ranks' inputs, received 9");
    values_refused_on(gather_root_task, NULL, 2, -1, MUSTER_SHAPE_MISMATCH,
                      "gather: output of rank 1: expected 6 elements, the sum of all ranks' inputs, received 5");
    values_refused_on(scatter_sum_task, NULL, 2, -1, MUSTER_SHAPE_MISMATCH,
                      "scatter: input of rank 0: expected 6 elements, the sum of all ranks' outputs, received 7");
    values_refused_on(scattered_sum_task, NULL, 2, -1, MUSTER_SHAPE_MISMATCH,
                      "reduce_scatter: input of rank 0: expected 6 elements, the sum of all ranks' outputs, received 7");
    values_refused_on(misplaced_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT,
                      "all_gather: in place on rank 1: expected its part to begin at byte 24000, received byte 0");
    values_refused_on(uneven_sum_task, NULL, 2, -1, MUSTER_SHAPE_MISMATCH,
                      "muster_worker_all_to_all_uneven: rank 0 sends 2 elements to rank 1, which expects 1 from it");
    values_refused_on(no_shards_task, NULL, 2, -1, MUSTER_SHAPE_MISMATCH,
                      "expected at least one shard on all ranks together, received none");
    values_refused_on(
        alpha_task, NULL, 2, -1, MUSTER_INVALID_ARGUMENT,
        "collective mismatch: rank 1 called all_reduce_axpy sum of 1 f32, alpha 2, rank 0 called all_reduce_axpy sum of 1 f32, alpha 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_a_tensor_that_scratch_could_not_give_carries_its_failure),
        cmocka_unit_test(test_pairs_of_tensors_and_counts),
        cmocka_unit_test(test_roots_ranks_tags_and_ops),
        cmocka_unit_test(test_dtypes_that_an_op_refuses),
        cmocka_unit_test(test_no_worker),
        cmocka_unit_test(test_the_worker_of_another_thread),
        cmocka_unit_test(test_what_all_ranks_together_bring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

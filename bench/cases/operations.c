/* Every operation of the registry on one CPU core, beside a copy that moves as many bytes, and
 * beside NumPy on one thread. */
#include "muster_case.h"
#include "process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 5, SIDE = 512, LONG = 1 << 18 };

typedef enum { BYTES, FLOP } operation_unit;

typedef struct operation_operand {
    muster_dtype dtype;
    int32_t ndim;
    int64_t shape[3];
} operation_operand;

typedef struct operation_row {
    const char *name;
    muster_status (*run)(muster_worker *w, const muster_tensor *t);
    double counted;
    operation_unit unit;
    int32_t result;
    double expected;
    operation_operand operands[OPERANDS];
} operation_row;

#define SCALAR(type) \
    { .dtype = (type) }
#define VECTOR(type, n)                             \
    {                                               \
        .dtype = (type), .ndim = 1, .shape = {(n) } \
    }
#define MATRIX(type, n, k)                               \
    {                                                    \
        .dtype = (type), .ndim = 2, .shape = {(n), (k) } \
    }
#define BATCH(type, count, n, k)                                  \
    {                                                             \
        .dtype = (type), .ndim = 3, .shape = {(count), (n), (k) } \
    }

#define OPERATION_ROW(name, call, ...) \
    static muster_status run_##name(muster_worker *w, const muster_tensor *t) { return call; }
#include "operation_more.def"
#include "operation_rows.def"
#undef OPERATION_ROW
#define OPERATION_ROW(operation, call, number, what, operand, value, ...) \
    static const operation_row row_##operation = {                        \
        .name = #operation,                                               \
        .run = run_##operation,                                           \
        .counted = (number),                                              \
        .unit = (what),                                                   \
        .result = (operand),                                              \
        .expected = (value),                                              \
        .operands = {__VA_ARGS__},                                        \
    };
#include "operation_more.def"
#include "operation_rows.def"
#undef OPERATION_ROW

static const operation_row *const operation_rows[] = {
#define MST_OPERATION(name) &row_##name,
#include "operations.def"
#undef MST_OPERATION
};
enum { ROWS = sizeof operation_rows / sizeof *operation_rows };
static const operation_row *const more_rows[] = {
#define OPERATION_ROW(operation, ...) &row_##operation,
#include "operation_more.def"
#undef OPERATION_ROW
};
enum { MORE = sizeof more_rows / sizeof *more_rows };

/* ---- Muster's side ---- */

typedef struct operation_call {
    const operation_row *row;
    muster_runtime *runtime;
    muster_function *function;
    const bench_block *block;
    double *ns;
    int64_t wrong;
} operation_call;

/* Numbers about 1, all different. */
static muster_status make_operands(muster_worker *w, const operation_row *row, muster_tensor *t) {
    for (int32_t i = 0; i < OPERANDS; i++) {
        const operation_operand *operand = &row->operands[i];
        t[i] = muster_tensor_none();
        if (operand->dtype == MUSTER_DTYPE_NONE) continue;
        MUSTER_TRY(muster_worker_scratch(w, operand->dtype, operand->ndim, operand->shape, &t[i]));
        const bool numbers = operand->dtype == MUSTER_F32 || operand->dtype == MUSTER_F64;
        MUSTER_TRY(numbers ? muster_random_normal(w, (uint64_t)i, 0, 1, 0.25, t[i]) : muster_fill(w, 1, t[i]));
    }
    return MUSTER_OK;
}

/* One call on fresh operands, of which the first element of the result is compared. */
static muster_status count_wrong(muster_worker *w, operation_call *call, muster_tensor *t) {
    const operation_row *row = call->row;
    double value = 0;
    for (int32_t i = 0; i < OPERANDS; i++)
        if (t[i].dtype != MUSTER_DTYPE_NONE) MUSTER_TRY(muster_fill(w, 1, t[i]));
    MUSTER_TRY(row->run(w, t));
    muster_tensor element = t[row->result];
    element.ndim = 0;
    muster_tensor converted;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F64, 0, NULL, &converted));
    MUSTER_TRY(muster_copy(w, element, converted));
    MUSTER_TRY(muster_worker_read(w, converted, muster_tensor_make(MUSTER_F64, &value, 0, NULL)));
    call->wrong += !(fabs(value - row->expected) <= 1e-6 * fabs(row->expected));
    return MUSTER_OK;
}

static muster_status run_and_wait(muster_worker *w, const operation_row *row, const muster_tensor *t) {
    MUSTER_TRY(row->run(w, t));
    return muster_worker_sync(w);
}

/* The clock is inside the body: an operation is measured, not a call of a function. */
static muster_status operation_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    operation_call *call = user;
    muster_tensor t[OPERANDS];
    MUSTER_TRY(make_operands(w, call->row, t));
    muster_status status = MUSTER_OK;
    BENCH_TIME(call->block, call->ns, status = status ? status : run_and_wait(w, call->row, t));
    MUSTER_TRY(status);
    return count_wrong(w, call, t);
}

static muster_status call_function(operation_call *call, const bench_block *block, double *ns) {
    call->block = block;
    call->ns = ns;
    return muster_function_call(call->function, NULL, 0, NULL, 0, NULL);
}

static bool operation_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    operation_call *call = self;
    call->wrong = 0;
    const bool ok = bench_muster_ok(call_function(call, block, ns), "muster");
    *wrong += call->wrong;
    return ok;
}

/* ---- a copy of as many bytes ---- */

typedef struct copy_limit {
    size_t bytes; /* read, and written */
    char *from, *to;
} copy_limit;

static void copy_close(void *self) {
    copy_limit *copy = self;
    free(copy->from);
    free(copy->to);
    free(copy);
}

static copy_limit *copy_open(double counted) {
    copy_limit *copy = calloc(1, sizeof *copy);
    if (!copy) return NULL;
    copy->bytes = (size_t)(counted / 2);
    copy->from = malloc(copy->bytes);
    copy->to = malloc(copy->bytes);
    if (copy->from && copy->to) {
        memset(copy->from, 1, copy->bytes);
        return copy;
    }
    copy_close(copy);
    return NULL;
}

static bool copy_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const copy_limit *copy = self;
    BENCH_TIME(block, ns, memcpy(copy->to, copy->from, copy->bytes));
    *wrong += copy->to[copy->bytes - 1] != 1;
    return true;
}

/* ---- rows ---- */

static bool open_call(operation_call *call) {
    return bench_muster_ok(muster_function_create(call->runtime, call->row->name, operation_body, call, &call->function), "muster") &&
           bench_muster_ok(muster_function_set_runs_without_rows(call->function, 1), "muster");
}

/* Does the operation miss something on this machine, such as BLAS? */
static bool is_unavailable(operation_call *call) {
    double ns;
    return call_function(call, &(bench_block){0, 1, 0}, &ns) == MUSTER_UNAVAILABLE;
}

/* NumPy is to be no faster. */
static void add_numpy(bench_row *measured, const operation_row *row) {
    char side[16], count[16];
    snprintf(side, sizeof side, "%d", SIDE);
    snprintf(count, sizeof count, "%d", LONG);
    bench_add_python(measured, "numpy", 1, (const char *const[]){"operation", row->name, side, count, NULL});
    bench_target_add(measured, BENCH_RATIO, "NumPy", 1);
}

static bool measure_row(const operation_row *row, muster_runtime *runtime, const bench_options *options) {
    bench_row measured = {.block = {2, 20, 0}, .round_count = 30, .items = row->counted * (row->unit == FLOP ? 1e-9 : 1e-6)};
    measured.items_name = row->unit == FLOP ? "GFLOP/s" : "MB/s";
    snprintf(measured.name, sizeof measured.name, "operations: %s, 1 CPU core", row->name);
    if (!bench_wanted(options, measured.name)) return true;
    operation_call call = {.row = row, .runtime = runtime};
    if (!open_call(&call)) return false;
    if (is_unavailable(&call)) {
        bench_log("not measured: %s: %s", measured.name, muster_last_error());
        return true;
    }
    copy_limit *copy = row->unit == BYTES ? copy_open(row->counted) : NULL;
    if (copy) bench_add(&measured, BENCH_LIMIT, "a copy that moves as many bytes", copy, copy_block, copy_close);
    bench_muster_add(&measured, "muster", &call, operation_block);
    if (!options->no_peers) add_numpy(&measured, row);
    return bench_run(&measured, options);
}

bool bench_operations(const bench_options *options) {
    if (options->list) {
        for (int32_t i = 0; i < ROWS; i++) printf("%s\n", operation_rows[i]->name);
        return true;
    }
    muster_runtime *runtime = bench_muster_open(1);
    bool ok = runtime != NULL;
    for (int32_t i = 0; i < ROWS && runtime; i++) ok = measure_row(operation_rows[i], runtime, options) && ok;
    for (int32_t i = 0; i < MORE && runtime; i++) ok = measure_row(more_rows[i], runtime, options) && ok;
    return (!runtime || bench_muster_ok(muster_runtime_close(runtime), "muster")) && ok;
}

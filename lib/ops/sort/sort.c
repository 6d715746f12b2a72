/* Sorting along the last axis by merging runs, which is stable. */
#include "sort_private.h"

#include "sort_parameters_private.h"

#include <string.h>

enum { FEW = 32, ITEM_BYTES = 16 }; /* up to that many largest elements are found by insertion */

#define MST_INLINE_HALVES
#include "half_impl.h"
#define MST_LOOPS "sort/sort_loops.h"
#include "../each_float_loops.h"
#include "../each_integer_loops.h"

#define IS_FLOAT 0
#define SUFFIX boolean
#define T uint8_t
#define C uint8_t
#define LOAD 0 !=
#include "sort_loops.h"
#undef IS_FLOAT
#undef SUFFIX
#undef T
#undef C
#undef LOAD

static muster_status sort_host(const void *parameters) {
    mst_sort_parameters p = *(const mst_sort_parameters *)parameters;
#define ROW(NAME, name, ...) [MUSTER_##NAME] = rows_##name,
    static const mst_iterator_loop loops[MST_DTYPE_COUNT] = {MST_EACH_FLOAT(ROW) MST_EACH_SIGNED(ROW) MST_EACH_UNSIGNED(ROW)
                                                                 ROW(BOOL, boolean)};
#undef ROW
    mst_iterator_run(&p.rows.rows, loops[p.rows.dtype], &p);
    return MUSTER_OK;
}

/* Kernels of the device code. */
enum { RUNS, MERGE, WRITE };
mst_code_kernel mst_sort_code[MST_SORT_CODE] = {
    [RUNS] = {.name = "mst_sort_runs"}, [MERGE] = {.name = "mst_sort_merge"}, [WRITE] = {.name = "mst_sort_write"}};

static muster_status sort_issue(muster_worker *worker, const void *parameters) {
    mst_sort_parameters p = *(const mst_sort_parameters *)parameters;
    const int64_t elements = p.rows.count * p.rows.length;
    void *places;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, 2 * elements * 8, &places));
    p.from = (int64_t *)places + elements, p.to = places;
    p.rows.chunk = MST_SORT_RUN;
    p.rows.chunks = (p.rows.length + MST_SORT_RUN - 1) / MST_SORT_RUN;
    MUSTER_TRY(mst_op_code(worker, &mst_sort_code[RUNS], p.rows.count * p.rows.chunks, &p, sizeof p));
    for (p.width = MST_SORT_RUN; p.width < p.rows.length; p.width *= 2) {
        int64_t *sorted = p.to;
        p.to = p.from, p.from = sorted;
        MUSTER_TRY(mst_op_code(worker, &mst_sort_code[MERGE], elements, &p, sizeof p));
    }
    return mst_op_code(worker, &mst_sort_code[WRITE], p.rows.count * p.wanted, &p, sizeof p);
}

const mst_kernel mst_sort_kernel = {.host = sort_host, .issue = sort_issue};

muster_status mst_sort_launch(muster_worker *worker, const muster_tensor *x, bool descending, int64_t wanted, const muster_tensor *values,
                              const muster_tensor *indices) {
    const muster_tensor *tensors[] = {x, values ? values : indices, indices ? indices : values};
    mst_sort_parameters p = {.wanted = wanted, .rows.op = descending};
    mst_rows_make(&p.rows, x->ndim - 1, 3, tensors);
    if (p.rows.count == 0 || wanted == 0) return MUSTER_OK;
    if (!values) p.rows.rows.base[1] = NULL;
    if (!indices) p.rows.rows.base[2] = NULL;
    if (mst_device_is_host(worker->device)) MUSTER_TRY(mst_worker_scratch_bytes(worker, 2 * p.rows.length * ITEM_BYTES, &p.rows.work));
    return mst_op_launch(worker, &mst_sort_kernel, &p, sizeof p);
}

static muster_status sort_check(const muster_worker *worker, const muster_tensor *const *t, const mst_op_value *values, const char *where) {
    const muster_tensor *x = t[0], *y = t[1];
    (void)values;
    MUSTER_TRY(mst_op_check(worker, x, where, "x"));
    MUSTER_TRY(mst_op_check(worker, y, where, "y"));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_rows_check_axes(where, "x", x, 1));
    MUSTER_TRY(mst_op_same_shape(where, "y", y, "x", x));
    return mst_op_check_results(&mst_operation_sort, t, where);
}

static muster_status sort_run(muster_worker *worker, const muster_tensor *t, const mst_op_value *v) {
    (void)v;
    return muster_sort(worker, t[0], t[1]);
}

const mst_op_row mst_operation_sort = {
    MST_OPERATION_ROW(sort, muster_sort),
    .operands = {{"x", "*", MST_IN}, {"y", "*", MST_OUT}},
    .dtypes = MST_ALL_DTYPES,
    .check = sort_check,
    .run = sort_run,
    .kernel = &mst_sort_kernel,
    .code = mst_sort_code,
    .code_count = MST_SORT_CODE,
};

muster_status muster_sort(muster_worker *worker, muster_tensor x, muster_tensor y) {
    MST_OP_WORKER(worker);
    MUSTER_TRY(sort_check(worker, MST_TENSORS(&x, &y), NULL, __func__));
    return mst_sort_launch(worker, &x, false, x.shape[x.ndim - 1], &y, NULL);
}

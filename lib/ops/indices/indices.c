#include "indices_private.h"

#include "indices_parameters_private.h"
#include "ops_impl.h"

#include <stdio.h>

enum { MOST_CHUNKS = 256, CHUNK = 4096 };

muster_status mst_index_dtype(const char *where, const char *what, muster_dtype dtype) {
    return MST_INDEX_DTYPES & MST_DTYPE_BIT(dtype) ? MUSTER_OK : mst_op_refuse_dtype(where, what, "u8, i32 or i64", dtype);
}

muster_status mst_indices_shape(const muster_tensor *indexed, const muster_tensor *indices, const char *where, const char *what,
                                int64_t shape[MUSTER_MAX_DIMS]) {
    if (indexed->ndim == 0)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected at least 1 dimension, received a scalar", where, what);
    MUSTER_TRY(mst_op_ndim(where, "indices", indices, 1));
    for (int32_t d = 0; d < indexed->ndim; d++) shape[d] = d == 0 ? indices->shape[0] : indexed->shape[d];
    return MUSTER_OK;
}

muster_status mst_indices_check_operands(const muster_worker *worker, const mst_op_row *operation, const muster_tensor *const *t,
                                         int32_t indexed, const char *where) {
    static const char *const names[] = {"x", "indices", "y"};
    const muster_tensor *x = t[0], *indices = t[1], *y = t[2];
    const int32_t rows = 2 - indexed;
    int64_t shape[MUSTER_MAX_DIMS];
    for (int i = 0; i < 3; i++) MUSTER_TRY(mst_op_check(worker, t[i], where, names[i]));
    if (!(operation->dtypes & MST_DTYPE_BIT(y->dtype))) return mst_op_refuse_dtype(where, "y", "a number dtype", y->dtype);
    MUSTER_TRY(mst_index_dtype(where, "indices", indices->dtype));
    MUSTER_TRY(mst_op_same_dtype(where, "y", y->dtype, "x", x->dtype));
    MUSTER_TRY(mst_indices_shape(t[indexed], indices, where, names[indexed], shape));
    MUSTER_TRY(mst_op_shape(where, names[rows], t[rows], t[indexed]->ndim, shape));
    return mst_op_check_results(operation, t, where);
}

int64_t mst_index_at(const muster_tensor *indices, int64_t i) {
    return mst_index_of(muster_tensor_address(*indices), indices->dtype, indices->strides[0], i);
}

static muster_status refuse_index(const char *where, const char *what, int64_t bound, int64_t index, int64_t at) {
    return mst_error(MUSTER_OUT_OF_RANGE, "%s: %s: expected %s in [0, %lld), received %lld at %lld", where, what, what, (long long)bound,
                     (long long)index, (long long)at);
}

/* Loops over indices of one type, and U, the same without a sign: one below 0 is large. A stride
 * of 1 has a loop of its own, which the compiler vectorises. */
#define LOOPS(T, U)                                                                                              \
    MST_CLONES static void convert_##T(const T *at, int64_t stride, int64_t n, int64_t first, int64_t *places) { \
        if (stride == 1)                                                                                         \
            for (int64_t i = 0; i < n; i++) places[i] = (int64_t)at[i] - first;                                  \
        else                                                                                                     \
            for (int64_t i = 0; i < n; i++) places[i] = (int64_t)at[i * stride] - first;                         \
    }                                                                                                            \
    MST_CLONES static bool all_below_##T(const T *at, int64_t stride, int64_t n, T most) {                       \
        U bad = 0;                                                                                               \
        if (stride == 1)                                                                                         \
            for (int64_t i = 0; i < n; i++) bad |= (U)at[i] > (U)most;                                           \
        else                                                                                                     \
            for (int64_t i = 0; i < n; i++) bad |= (U)at[i * stride] > (U)most;                                  \
        return bad == 0;                                                                                         \
    }
LOOPS(uint8_t, uint8_t)
LOOPS(int32_t, uint32_t)
LOOPS(int64_t, uint64_t)

/* Index `begin` of the tensor. */
static const void *address_of(const muster_tensor *indices, int64_t begin) {
    return (const char *)muster_tensor_address(*indices) + begin * indices->strides[0] * muster_dtype_size(indices->dtype);
}

MST_CLONES static bool note_outside(int64_t *places, int64_t n, int64_t rows) {
    int64_t any = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool outside = (places[i] < 0) | (places[i] >= rows);
        places[i] = outside ? -1 : places[i];
        any |= outside;
    }
    return any == 0;
}

bool mst_indices_read(const muster_tensor *indices, int64_t begin, int64_t n, int64_t first, int64_t rows, bool inside, int64_t *places) {
    const void *at = address_of(indices, begin);
    const int64_t stride = indices->strides[0];
    if (indices->dtype == MUSTER_U8)
        convert_uint8_t(at, stride, n, first, places);
    else if (indices->dtype == MUSTER_I32)
        convert_int32_t(at, stride, n, first, places);
    else
        convert_int64_t(at, stride, n, first, places);
    return inside || note_outside(places, n, rows);
}

/* Are n indices from `begin` on in [0, bound)? */
static bool all_inside(const muster_tensor *indices, int64_t begin, int64_t n, int64_t bound) {
    const void *at = address_of(indices, begin);
    const int64_t stride = indices->strides[0];
    if (bound <= 0) return n == 0;
    if (indices->dtype == MUSTER_U8) return all_below_uint8_t(at, stride, n, (uint8_t)(bound > UINT8_MAX ? UINT8_MAX : bound - 1));
    if (indices->dtype == MUSTER_I32) return all_below_int32_t(at, stride, n, (int32_t)(bound > INT32_MAX ? INT32_MAX : bound - 1));
    return all_below_int64_t(at, stride, n, bound - 1);
}

muster_status mst_indices_check_host(const muster_tensor *indices, int64_t bound, const char *where, const char *what) {
    if (bound == MST_INDICES_CHECKED) return MUSTER_OK;
    for (int64_t begin = 0; begin < indices->shape[0]; begin += MST_INDICES_BLOCK) {
        const int64_t left = indices->shape[0] - begin, n = left < MST_INDICES_BLOCK ? left : MST_INDICES_BLOCK;
        if (__builtin_expect(all_inside(indices, begin, n, bound), 1)) continue;
        for (int64_t i = begin; i < begin + n; i++) {
            const int64_t index = mst_index_at(indices, i);
            if (index < 0 || index >= bound) return refuse_index(where, what, bound, index, i);
        }
    }
    return MUSTER_OK;
}

muster_status mst_indices_check_device(muster_worker *worker, const muster_tensor *indices, int64_t bound, const char *where,
                                       const char *what) {
    static mst_code_kernel code = {.name = "mst_indices", .blocks = true};
    mst_device *device = worker->device;
    const int64_t count = indices->shape[0];
    int64_t bad[2 * MOST_CHUNKS];
    void *scratch;
    if (count == 0 || bound == MST_INDICES_CHECKED) return MUSTER_OK;
    mst_indices_parameters p = {.indices = muster_tensor_address(*indices),
                                .count = count,
                                .stride = indices->strides[0],
                                .bound = bound,
                                .chunk = count / MOST_CHUNKS < CHUNK ? CHUNK : count / MOST_CHUNKS + 1,
                                .dtype = indices->dtype};
    p.chunks = (count + p.chunk - 1) / p.chunk;
    const int64_t bytes = 2 * p.chunks * (int64_t)sizeof *bad;
    MUSTER_TRY(mst_worker_scratch_bytes(worker, bytes, &scratch));
    p.bad = scratch;
    MUSTER_TRY(mst_op_code(worker, &code, p.chunks, &p, sizeof p));
    /* bad lives only in this function, so wait for the copy */
    muster_status status = device->memory->copy_out(device, bad, scratch, bytes), after = mst_worker_sync(worker);
    MUSTER_TRY(status);
    MUSTER_TRY(after);
    for (int64_t c = 0; c < p.chunks; c++)
        if (bad[2 * c] >= 0) return refuse_index(where, what, bound, bad[2 * c + 1], bad[2 * c]);
    return MUSTER_OK;
}

typedef struct check_request {
    muster_tensor indices;
    int64_t bound;
    const char *name, *what;
} check_request;

enum { WHERE_SIZE = 64 };

static const char *where_of(const check_request *p, char where[WHERE_SIZE]) {
    snprintf(where, WHERE_SIZE, "muster_expr_%s", p->name);
    return where;
}

static muster_status check_host(const void *parameters) {
    const check_request *p = parameters;
    char where[WHERE_SIZE];
    return mst_indices_check_host(&p->indices, p->bound, where_of(p, where), p->what);
}

static muster_status check_issue(muster_worker *worker, const void *parameters) {
    const check_request *p = parameters;
    char where[WHERE_SIZE];
    return mst_indices_check_device(worker, &p->indices, p->bound, where_of(p, where), p->what);
}

muster_status mst_worker_check_indices(muster_worker *worker, muster_tensor indices, int64_t bound, const char *name, const char *what) {
    static const mst_kernel kernel = {.host = check_host, .issue = check_issue};
    const check_request p = {indices, bound, name, what};
    return mst_op_launch(worker, &kernel, &p, sizeof p);
}

/* Gathers rows by an index list in the device's memory. */
#include "../op_impl.h"
#include "gather_parameters_private.h"

#include <string.h>

static muster_status gather_kernel(const void *parameters) {
    const mst_gather_parameters *p = parameters;
    for (int64_t i = 0; i < p->count; i++)
        memcpy((char *)p->to + i * p->row_bytes, (const char *)p->from + p->indices[i] * p->row_bytes, (size_t)p->row_bytes);
    return MUSTER_OK;
}

static int64_t gather_work(const void *parameters) {
    const mst_gather_parameters *p = parameters;
    return p->count * (p->row_bytes / p->width);
}

muster_status mst_worker_gather_rows(muster_worker *worker, void *to, const void *from, int64_t row_bytes, const int64_t *indices,
                                     int64_t count) {
    static mst_code_kernel code = {.name = "mst_gather"};
    static const mst_kernel kernel = {.host = gather_kernel, .code = &code, .work = gather_work};
    if (count == 0 || row_bytes == 0) return MUSTER_OK;
    uint64_t bits = (uint64_t)(uintptr_t)to | (uint64_t)(uintptr_t)from | (uint64_t)row_bytes | 16;
    mst_gather_parameters p = {to, (void *)from, (int64_t *)indices, row_bytes, count, (int64_t)(bits & (0 - bits))};
    return mst_op_launch(worker, &kernel, &p, sizeof p);
}

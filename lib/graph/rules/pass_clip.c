/* Clipping gradients by their norm in a pass. */
#include "op_impl.h"
#include "pass_private.h"
#include "squares_impl.h"

#include <math.h>

static int32_t place_of(muster_dtype dtype) { return dtype == MUSTER_F64; }

static muster_tensor part_of(const muster_worker *worker, muster_dtype dtype, const void *address, int64_t count) {
    muster_tensor tensor = muster_tensor_make(dtype, (void *)(uintptr_t)address, 1, &count);
    tensor.device = worker->rank;
    return tensor;
}

/* An element as a scalar. */
static muster_tensor element_of(const muster_worker *worker, const muster_tensor *vector, int64_t i) {
    char *address = (char *)muster_tensor_address(*vector) + i * (int64_t)muster_dtype_size(vector->dtype);
    muster_tensor tensor = muster_tensor_make(vector->dtype, address, 0, NULL);
    tensor.device = worker->rank;
    return tensor;
}

static muster_status vector_take(muster_worker *worker, muster_dtype dtype, int64_t count, muster_tensor *made) {
    return muster_worker_scratch(worker, dtype, 1, &count, made);
}

/* The sums over parts and over elements take some, too. */
int64_t mst_pass_clip_bytes(const mst_graph_program *program) {
    enum { OF_OPERATIONS = 1 << 16, OF_TENSORS = 1 << 13, OF_PART = 8 };
    const mst_pass *pass = program->pass;
    if (!pass || !pass->clip_count) return 0;
    return OF_OPERATIONS + OF_TENSORS + OF_PART * (pass->count + 1) +
           (int64_t)sizeof(double) * pass->clip_count * (program->graph->runtime->total + 3);
}

muster_status mst_pass_norms_begin(muster_worker *worker, const mst_graph_program *program, mst_pass_norms *norms) {
    const mst_pass *pass = program->pass;
    *norms = (mst_pass_norms){.program = program};
    MUSTER_TRY(vector_take(worker, MUSTER_F64, pass->clip_count, &norms->squares));
    for (int32_t d = 0; d < 2; d++) {
        const muster_dtype dtype = d ? MUSTER_F64 : MUSTER_F32;
        MUSTER_TRY(vector_take(worker, dtype, pass->clip_count, &norms->factors[d]));
    }
    if (!mst_device_is_host(worker->device)) MUSTER_TRY(vector_take(worker, MUSTER_F64, pass->count + 1, &norms->parts));
    return muster_fill(worker, 0, norms->squares);
}

/* ---- squares ---- */

/* A gradient that every device has whole counts once. */
static bool counts_here(const mst_pass_norms *norms, const mst_pass_rule *rule, const muster_worker *worker) {
    return mst_pass_port(norms->program, rule)->node->distribution.kind != MST_SAME || muster_worker_rank(worker) == 0;
}

muster_status mst_pass_square(void *context, muster_worker *worker, const mst_apply_part *part) {
    mst_pass_norms *norms = context;
    const mst_pass_rule *rule = &norms->rules[part->segment];
    if (rule->clip < 0 || !counts_here(norms, rule, worker)) return MUSTER_OK;
    if (mst_device_is_host(worker->device)) {
        double *squares = muster_tensor_address(norms->squares);
        squares[rule->clip] += mst_squares_sum(part->dtype, part->gradient, part->count);
        return MUSTER_OK;
    }
    if (rule->clip != norms->clip) return MUSTER_OK;
    const muster_tensor x = part_of(worker, part->dtype, part->gradient, part->count),
                        to = element_of(worker, &norms->parts, norms->part_count++);
    const int64_t mark = muster_worker_scratch_mark(worker);
    MUSTER_TRY(mst_squares_launch(worker, &x, &to));
    return muster_worker_scratch_release(worker, mark);
}

muster_status mst_pass_squares_end(muster_worker *worker, mst_pass_norms *norms) {
    const muster_tensor to = element_of(worker, &norms->squares, norms->clip);
    const muster_tensor parts = part_of(worker, MUSTER_F64, muster_tensor_address(norms->parts), norms->part_count);
    const int64_t mark = muster_worker_scratch_mark(worker);
    muster_tensor sum;
    if (norms->part_count == 0) return MUSTER_OK;
    norms->part_count = 0;
    MUSTER_TRY(vector_take(worker, MUSTER_F64, 1, &sum));
    sum = element_of(worker, &sum, 0);
    MUSTER_TRY(muster_sum(worker, parts, sum));
    MUSTER_TRY(muster_binary_op(worker, MUSTER_ADD, to, sum, to));
    return muster_worker_scratch_release(worker, mark);
}

/* ---- factors ---- */

muster_status mst_pass_factors_find(muster_worker *worker, mst_pass_norms *norms) {
    const mst_pass *pass = norms->program->pass;
    const int64_t shape[] = {muster_worker_size(worker), pass->clip_count}, all = shape[0] * shape[1];
    const int64_t mark = muster_worker_scratch_mark(worker);
    muster_tensor gathered;
    MUSTER_TRY(vector_take(worker, MUSTER_F64, all, &gathered));
    MUSTER_TRY(muster_worker_all_gather(worker, NULL, norms->squares, gathered));
    MUSTER_TRY(muster_reduce(worker, MUSTER_SUM, muster_tensor_reshape(gathered, 2, shape), 0, norms->squares));
    MUSTER_TRY(muster_unary_op(worker, MUSTER_SQRT, norms->squares, norms->squares));
    for (int32_t c = 0; c < pass->clip_count; c++) {
        const muster_tensor norm = element_of(worker, &norms->squares, c), factor = element_of(worker, &norms->factors[1], c);
        MUSTER_TRY(muster_scalar_binary(worker, MUSTER_DIV, pass->norms[c], norm, factor));
        MUSTER_TRY(muster_binary_scalar(worker, MUSTER_MINIMUM, factor, 1, factor));
    }
    MUSTER_TRY(muster_copy(worker, norms->factors[1], norms->factors[0]));
    return muster_worker_scratch_release(worker, mark);
}

muster_status mst_pass_scale(muster_worker *worker, const mst_pass_norms *norms, int32_t clip, const mst_apply_part *part) {
    const muster_tensor *factors = &norms->factors[place_of(part->dtype)];
    if (!mst_device_is_host(worker->device)) {
        const muster_tensor x = part_of(worker, part->dtype, part->gradient, part->count);
        return muster_binary_op(worker, MUSTER_MUL, x, element_of(worker, factors, clip), x);
    }
    if (part->dtype == MUSTER_F64) {
        double *x = (double *)(uintptr_t)part->gradient, factor = ((const double *)muster_tensor_address(*factors))[clip];
        for (int64_t i = 0; i < part->count && factor != 1; i++) x[i] *= factor;
    } else {
        float *x = (float *)(uintptr_t)part->gradient, factor = ((const float *)muster_tensor_address(*factors))[clip];
        for (int64_t i = 0; i < part->count && factor != 1; i++) x[i] *= factor;
    }
    return MUSTER_OK;
}

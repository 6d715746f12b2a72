/* Running the loop over micro-batches. */
#include "micro_private.h"
#include "op_impl.h"
#include "ops_impl.h"
#include "variable_impl.h"

#include <string.h>

/* Have the two, of one shape, their elements in the same order? The sum has no gaps. */
static bool lies_alike(const muster_tensor *value, const muster_tensor *sum) {
    bool alike = true;
    for (int32_t d = 0; d < sum->ndim; d++) alike = alike && (value->strides[d] == sum->strides[d] || sum->shape[d] <= 1);
    return alike;
}

/* A partial value of this micro-batch is combined with those of the earlier ones, as workers
 * combine theirs. */
muster_status mst_combine_run(muster_worker *worker, const mst_instance *instance, const mst_graph_program_step *step) {
    const int64_t mark = muster_worker_scratch_mark(worker);
    muster_tensor value = instance->tensors[step->copy_from];
    if (!lies_alike(&value, step->out[0])) {
        MUSTER_TRY(muster_worker_scratch(worker, value.dtype, value.ndim, value.shape, &value));
        memcpy(value.strides, step->out[0]->strides, sizeof value.strides);
        MUSTER_TRY(muster_copy(worker, instance->tensors[step->copy_from], value));
    }
    MUSTER_TRY(mst_worker_accumulate(worker, step->combines, value.dtype, muster_tensor_address(*step->out[0]),
                                     muster_tensor_address(value), muster_tensor_count(value), 1, instance->is_first));
    return muster_worker_scratch_release(worker, mark);
}

/* Where the sum of a partial value of a small dtype lies. */
static muster_tensor sum_of(const struct mst_loop_run *run, int32_t o) {
    muster_tensor sum = run->out[o];
    sum.data = run->block->data;
    sum.byte_offset = run->block->byte_offset + run->sum_offsets[o];
    sum.device = run->block->device;
    return sum;
}

static void micro_batch_place(const mst_instance *instance, const mst_graph_program_step *step, int64_t begin, int64_t end,
                              mst_instance *inside) {
    const struct mst_loop_run *run = step->loop;
    const struct mst_loop *loop = run->program->loop;
    const mst_graph_program *inner = loop->program;
    mst_loop_edges(instance, begin, end, inside->row_edges);
    mst_base_move(inside, MST_BASE_ARENA, run->block);
    for (int32_t i = 0; i < inner->input_count; i++) {
        if (step->in[i]->dtype == MUSTER_DTYPE_NONE) continue;
        const muster_tensor slice = mst_loop_slice(instance, loop->graph.inputs.items[i].node, step->in[i], begin, end);
        mst_base_move(inside, mst_base_input(inner, i), &slice);
    }
    for (int32_t o = 0; o < inner->output_count; o++) {
        if (step->out[o]->dtype == MUSTER_DTYPE_NONE) continue;
        const muster_tensor slice = run->sum_offsets[o] >= 0
                                        ? sum_of(run, o)
                                        : mst_loop_slice(instance, loop->graph.outputs.items[o].node, step->out[o], begin, end);
        mst_base_move(inside, mst_base_output(inner, o), &slice);
    }
}

muster_status mst_loop_run(muster_worker *worker, const mst_instance *instance, const mst_graph_program_step *step) {
    const struct mst_loop_run *run = step->loop;
    const mst_graph_program *inner = run->program->loop->program;
    for (int64_t s = 0; s < run->slices; s++) {
        const int64_t begin = run->rows * s / run->slices, end = run->rows * (s + 1) / run->slices;
        mst_instance *inside = run->instances[end - begin > run->rows / run->slices];
        const int64_t mark = muster_worker_scratch_mark(worker);
        inside->is_first = s == 0;
        micro_batch_place(instance, step, begin, end, inside);
        MUSTER_TRY(mst_steps_run(worker, inner, inside));
        MUSTER_TRY(muster_worker_scratch_release(worker, mark));
    }
    for (int32_t o = 0; o < inner->output_count; o++) {
        const muster_tensor *value = step->out[o];
        if (value->dtype == MUSTER_DTYPE_NONE || run->sum_offsets[o] < 0) continue;
        const muster_tensor sum = sum_of(run, o);
        MUSTER_TRY(mst_worker_convert(worker, value->dtype, muster_tensor_address(*value), sum.dtype, muster_tensor_address(sum),
                                      muster_tensor_count(*value)));
    }
    return MUSTER_OK;
}

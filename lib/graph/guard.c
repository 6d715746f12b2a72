/* Checked runs: every value that is not needed any more, or not made yet, is NaN, and no operation
 * changes an operand. */
#include "guard_private.h"
#include "tensor_impl.h"

#include <string.h>

/* ---- values on the host ---- */

muster_tensor mst_guard_plain(const muster_tensor *like) {
    muster_tensor made = *like;
    made.byte_offset = 0;
    mst_tensor_set_strides(&made);
    return made;
}

muster_status mst_guard_read(muster_worker *worker, const muster_tensor *tensor, mst_guard_copy *copy) {
    muster_tensor from = *tensor, to = mst_guard_plain(tensor);
    copy->size = muster_tensor_bytes(to);
    copy->bytes = mst_alloc((size_t)copy->size + 1);
    if (!copy->bytes) return mst_out_of_memory("a checked graph", copy->size);
    if (copy->size == 0) return MUSTER_OK;
    if (!muster_tensor_is_contiguous(from)) {
        MUSTER_TRY(muster_worker_scratch(worker, to.dtype, to.ndim, to.shape, &from));
        MUSTER_TRY(muster_copy(worker, *tensor, from));
    }
    to.data = copy->bytes;
    to.device = MUSTER_DEVICE_HOST;
    return muster_worker_read(worker, from, to);
}

void mst_guard_free(mst_guard_copy *copy) { mst_free(copy->bytes); }

int64_t mst_guard_difference(const mst_guard_copy *a, const mst_guard_copy *b, muster_dtype dtype) {
    for (int64_t i = 0; i < a->size; i++)
        if (a->bytes[i] != b->bytes[i]) return i / muster_dtype_size(dtype);
    return -1;
}

/* ---- memory that nothing needs ---- */

static muster_status fill_bytes(muster_worker *worker, char *data, int32_t device, int64_t bytes, int32_t pattern) {
    const muster_tensor range = {.data = data, .dtype = MUSTER_U8, .ndim = 1, .shape = {bytes}, .strides = {1}, .device = device};
    return bytes ? muster_fill(worker, pattern, range) : MUSTER_OK;
}

static int32_t arena_device(const mst_instance *instance) { return instance->places[instance->first_place[0]].tensor->device; }

muster_status mst_guard_begin(muster_worker *worker, const mst_instance *instance) {
    if (!instance->first_place[1]) return MUSTER_OK; /* there is no block */
    return fill_bytes(worker, instance->addresses[MST_BASE_ARENA], arena_device(instance), instance->arena_bytes, MST_GUARD_NOTHING);
}

static muster_status fill_dead(muster_worker *worker, const mst_instance *instance, int32_t step) {
    for (int32_t i = 0; i < instance->dead_count; i++)
        if (instance->dead[i].step == step)
            MUSTER_TRY(fill_bytes(worker, instance->addresses[MST_BASE_ARENA] + instance->dead[i].offset, arena_device(instance),
                                  instance->dead[i].bytes, MST_GUARD_NOTHING));
    return MUSTER_OK;
}

/* ---- messages ---- */

muster_status mst_guard_refuse(const muster_expr *node, int32_t index, const char *kind, const char *format, const char *name,
                               int64_t element) {
    char text[200];
    snprintf(text, sizeof text, format, name, (long long)element);
    return mst_error(node->op->id == MST_OPERATORS ? MUSTER_USER : MUSTER_INTERNAL, "operator \"%s\": %s %d: %s", node->op->name, kind,
                     (int)index, text);
}

/* ---- operands that stay ---- */

bool mst_guard_overlap(const muster_tensor *a, const muster_tensor *b) {
    const char *first[2], *last[2];
    const muster_tensor *both[] = {a, b};
    for (int32_t i = 0; i < 2; i++) {
        first[i] = last[i] = muster_tensor_address(*both[i]);
        for (int32_t d = 0; d < both[i]->ndim; d++) {
            if (both[i]->shape[d] == 0) return false;
            const int64_t bytes = (both[i]->shape[d] - 1) * both[i]->strides[d] * muster_dtype_size(both[i]->dtype);
            if (bytes < 0)
                first[i] += bytes;
            else
                last[i] += bytes;
        }
    }
    return a->device == b->device && first[0] <= last[1] && first[1] <= last[0];
}

static bool result_overlaps(const mst_graph_program_step *step, int32_t operand) {
    for (int32_t r = 0; r < step->out_count; r++)
        if (step->out[r]->dtype && mst_guard_overlap(step->in[operand], step->out[r])) return true;
    return false;
}

muster_status mst_guard_compare(muster_worker *worker, const mst_graph_program_step *step, const mst_guard_copy *before, bool elsewhere) {
    for (int32_t i = 0; i < step->in_count; i++) {
        mst_guard_copy after = {0};
        if (!before[i].bytes || (!elsewhere && result_overlaps(step, i))) continue;
        muster_status status = mst_guard_read(worker, step->in[i], &after);
        const int64_t element = status == MUSTER_OK ? mst_guard_difference(&before[i], &after, step->in[i]->dtype) : -1;
        if (element >= 0)
            status = mst_guard_refuse(step->node, i, "operand", "expected values that stay, received another %s in element %lld",
                                      muster_dtype_name(step->in[i]->dtype), element);
        mst_guard_free(&after);
        MUSTER_TRY(status);
    }
    return MUSTER_OK;
}

/* ---- one step ---- */

muster_status mst_guard_step(muster_worker *worker, mst_instance *instance, int32_t index) {
    mst_graph_program_step *step = &instance->steps[index];
    const int64_t mark = muster_worker_scratch_mark(worker);
    mst_guard_copy *before = mst_alloc((size_t)(step->in_count + 1) * sizeof *before);
    muster_status status = before ? MUSTER_OK : mst_out_of_memory("a checked graph", step->in_count);
    for (int32_t i = 0; status == MUSTER_OK && i < step->in_count; i++)
        if (step->in[i]) status = mst_guard_read(worker, step->in[i], &before[i]);
    const bool custom = step->copy_from < 0 && !step->group && !step->loop && step->node->op->id == MST_OPERATORS;
    if (status == MUSTER_OK)
        status = custom ? mst_guard_custom(worker, instance, step, before) : mst_graph_step_run(worker, instance, step);
    if (status == MUSTER_OK) status = mst_guard_compare(worker, step, before, false);
    if (status == MUSTER_OK) status = fill_dead(worker, instance, index);
    for (int32_t i = 0; before && i < step->in_count; i++) mst_guard_free(&before[i]);
    mst_free(before);
    const muster_status given_back = muster_worker_scratch_release(worker, mark);
    return status == MUSTER_OK ? given_back : status;
}

/* An application of an operator runs on one worker: state, values on the host, the body. */
#include "custom_private.h"

#include "tensor_impl.h"
#include "worker_impl.h"

#include <string.h>

static const char where_compile[] = "muster_graph_compile";

/* What an instance keeps for one application. */
typedef struct custom_step {
    muster_operator_node node;
    muster_operator_body body; /* NULL: launches the first kernel */
    bool prepared;
    muster_tensor *in, *host; /* of each operand; host: where it is copied to, "no tensor" elsewhere */
    muster_tensor out[MST_RESULTS];
    mst_arena memory;
} custom_step;

/* ---- compiling ---- */

static muster_operator_body body_find(const mst_custom *custom, const char *backend) {
    const muster_operator_options *o = &custom->options;
    for (int32_t i = 0; i < o->body_count; i++)
        if (o->bodies[i].backend && strcmp(o->bodies[i].backend, backend) == 0) return o->bodies[i].body;
    for (int32_t i = 0; i < o->body_count; i++)
        if (!o->bodies[i].backend) return o->bodies[i].body;
    return NULL;
}

static muster_status bodies_check(const mst_custom *custom, const muster_expr *node, bool *kernels) {
    const muster_runtime *runtime = node->graph->runtime;
    char place[MST_NODE_TEXT];
    *kernels = false;
    for (int32_t r = 0; r < runtime->size; r++) {
        const char *backend = runtime->devices[r]->table->backend;
        const muster_operator_body body = body_find(custom, backend);
        bool named = false; /* a body of this backend alone needs no kernels of others */
        for (int32_t i = 0; i < custom->options.body_count; i++)
            named = named || (custom->options.bodies[i].backend && custom->options.bodies[i].body == body);
        *kernels = *kernels || (custom->options.kernels && (!named || strcmp(backend, "host") != 0));
        if (body || custom->options.launch) continue;
        (void)mst_origin_text(&node->origin, place);
        return mst_error(
            MUSTER_UNSUPPORTED,
            "%s: %s%smuster_expr_%s: bodies: expected one for device %d (%s), backend \"%s\", or for every backend, received none",
            where_compile, place, *place ? ": " : "", custom->row.name, (int)r, runtime->devices[r]->name, backend);
    }
    return MUSTER_OK;
}

muster_status mst_custom_compile(const muster_expr *node) {
    mst_custom *custom = mst_custom_of(node->op);
    bool kernels;
    MUSTER_TRY(bodies_check(custom, node, &kernels));
    return kernels ? mst_custom_kernels_make(custom, node) : MUSTER_OK;
}

/* ---- the step for one instance ---- */

/* Sizes become numbers. */
static bool step_values(custom_step *step, const mst_step_run *run) {
    const mst_operator *row = run->node->op;
    const int32_t count = mst_operator_attribute_count(row);
    mst_graph_value *values = mst_arena_take(&step->memory, (size_t)(count + 1) * sizeof *values);
    if (!values) return false;
    for (int32_t a = 0; a < count; a++) {
        values[a] = run->node->values[a];
        if (row->attributes[a].kind == MST_VALUE_TEXT && !(values[a].list = mst_custom_text(&step->memory, &values[a]))) return false;
        if (row->attributes[a].kind != MST_VALUE_DIMS || !values[a].count) continue;
        int64_t *list = mst_arena_take(&step->memory, (size_t)values[a].count * sizeof *list);
        if (!list) return false;
        for (int32_t i = 0; i < values[a].count; i++)
            list[i] = mst_dim_value(run->node->graph, (mst_dim)run->node->values[a].list[i], run->sizes);
        values[a].list = list;
    }
    step->node.values = values;
    return true;
}

static bool step_operands(custom_step *step, const mst_step_run *run) {
    const int32_t count = run->node->input_count;
    step->in = mst_arena_take(&step->memory, (size_t)(count + 1) * sizeof *step->in);
    step->host = mst_arena_take(&step->memory, (size_t)(count + 1) * sizeof *step->host);
    return step->in && step->host;
}

/* Memory for the values of an operand that bodies read on the host. */
static muster_status host_memory(custom_step *step, int32_t i) {
    muster_tensor *host = &step->host[i];
    *host = step->in[i];
    host->device = MUSTER_DEVICE_HOST;
    host->byte_offset = 0;
    mst_tensor_set_strides(host);
    const int64_t bytes = muster_tensor_bytes(*host);
    host->data = mst_arena_take(&step->memory, (size_t)bytes + 1);
    return host->data ? MUSTER_OK : mst_out_of_memory(step->node.custom->row.name, bytes);
}

static muster_status host_read(muster_worker *worker, custom_step *step, int32_t i) {
    if (step->in[i].device == MUSTER_DEVICE_HOST || mst_device_is_host(worker->device)) return MUSTER_OK;
    if (step->host[i].dtype == MUSTER_DTYPE_NONE) MUSTER_TRY(host_memory(step, i));
    muster_tensor from = step->in[i];
    if (!muster_tensor_is_contiguous(from)) {
        MUSTER_TRY(muster_worker_scratch(worker, from.dtype, from.ndim, from.shape, &from));
        MUSTER_TRY(muster_copy(worker, step->in[i], from));
    }
    MUSTER_TRY(muster_worker_read(worker, from, step->host[i]));
    step->in[i] = step->host[i];
    return MUSTER_OK;
}

static bool has_operand(uint32_t mask, int32_t i) { return i < 32 && mask >> i & 1; }

/* Replaces an operand that is not contiguous by a copy. In a contiguous operand the axes of size 1
 * get the strides of muster_tensor_make. */
static muster_status contiguous_make(muster_worker *worker, muster_tensor *operand) {
    const muster_tensor from = *operand;
    if (mst_tensor_contiguous(from)) {
        mst_tensor_set_strides(operand);
        return MUSTER_OK;
    }
    MUSTER_TRY(muster_worker_scratch(worker, from.dtype, from.ndim, from.shape, operand));
    return muster_copy(worker, from, *operand);
}

static muster_status step_bind(muster_worker *worker, custom_step *step, const mst_step_run *run) {
    const mst_custom *custom = step->node.custom;
    for (int32_t r = 0; r < custom->row.results; r++) step->out[r] = *run->out[r];
    for (int32_t i = 0; i < run->node->input_count; i++) {
        step->in[i] = *run->in[i];
        if (has_operand(custom->options.host_operands, i)) MUSTER_TRY(host_read(worker, step, i));
        if (!has_operand(custom->options.strided_operands, i)) MUSTER_TRY(contiguous_make(worker, &step->in[i]));
    }
    return MUSTER_OK;
}

/* The message names the operator and the part; a callback that has set none gets one. */
static muster_status step_failed(const mst_custom *custom, const char *part, uint64_t errors, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    if (status < MUSTER_OK || status > MST_STATUS_LAST) status = MUSTER_USER;
    if (mst_error_count() == errors)
        return mst_error(status, "operator \"%s\": %s: the function failed with %s, and gave no reason", custom->row.name, part,
                         muster_status_name(status));
    mst_error_save(message);
    return mst_error(status, "operator \"%s\": %s: %.400s", custom->row.name, part, message);
}

static muster_status step_make(muster_worker *worker, const mst_step_run *run, custom_step **made) {
    const mst_custom *custom = mst_custom_of(run->node->op);
    custom_step *step = mst_alloc(sizeof *step);
    if (!step) return mst_out_of_memory(custom->row.name, (int64_t)sizeof *step);
    step->node.custom = custom;
    step->node.kernels = mst_custom_kernels_find(custom, run->node);
    step->body = body_find(custom, worker->device->table->backend);
    *run->state = step;
    *made = step;
    return step_values(step, run) && step_operands(step, run) ? MUSTER_OK : mst_out_of_memory(custom->row.name, (int64_t)sizeof *step);
}

/* A failure leaves no half-made state: the next run makes it again. */
static muster_status step_prepare(muster_worker *worker, custom_step *step) {
    const muster_operator_options *o = &step->node.custom->options;
    if (step->prepared || !o->prepare) return MUSTER_OK;
    void *state = NULL;
    const uint64_t errors = mst_error_count();
    const muster_status status = o->prepare(worker, &step->node, step->in, step->out, &state, o->user);
    if (status != MUSTER_OK) return step_failed(step->node.custom, "prepare", errors, status);
    step->node.state = state;
    step->prepared = true;
    return MUSTER_OK;
}

muster_status mst_custom_run(muster_worker *worker, const mst_step_run *run) {
    const mst_custom *custom = mst_custom_of(run->node->op);
    custom_step *step = *run->state;
    if (step && !step->in) { /* memory ran out when it was made */
        mst_custom_release(step);
        *run->state = step = NULL;
    }
    if (!step) MUSTER_TRY(step_make(worker, run, &step));
    MUSTER_TRY(step_bind(worker, step, run));
    MUSTER_TRY(step_prepare(worker, step));
    const uint64_t errors = mst_error_count();
    const muster_status status = step->body ? step->body(worker, &step->node, step->in, step->out, custom->options.user)
                                            : mst_custom_launch(worker, &step->node, step->in, step->out);
    return __builtin_expect(status == MUSTER_OK, 1) ? MUSTER_OK : step_failed(custom, step->body ? "body" : "launch", errors, status);
}

void mst_custom_release(void *state) {
    custom_step *step = state;
    const muster_operator_options *o = &step->node.custom->options;
    if (step->node.state && o->release) o->release(step->node.state, o->user);
    mst_arena_free(&step->memory);
    mst_free(step);
}

/* ---- views ---- */

/* The elements that a tensor reaches, from the first of its memory. */
static void tensor_ends(const muster_tensor *t, int64_t *first, int64_t *last) {
    *first = *last = t->byte_offset;
    for (int32_t d = 0; d < t->ndim; d++) {
        const int64_t bytes = (t->shape[d] - 1) * t->strides[d] * muster_dtype_size(t->dtype);
        *(bytes < 0 ? first : last) += bytes;
    }
}

static bool is_empty(const muster_tensor *t) {
    for (int32_t d = 0; d < t->ndim; d++)
        if (t->shape[d] == 0) return true;
    return false;
}

static bool view_is_outside(const muster_tensor *x, const muster_tensor *y) {
    int64_t first[2], last[2];
    if (is_empty(y)) return false;
    if (is_empty(x) || x->dtype != y->dtype) return true;
    tensor_ends(x, &first[0], &last[0]);
    tensor_ends(y, &first[1], &last[1]);
    return first[1] < first[0] || last[1] > last[0];
}

bool mst_custom_view_make(const mst_step_run *run, muster_tensor *result, bool *outside) {
    const mst_custom *custom = mst_custom_of(run->node->op);
    custom_step step = {.node = {.custom = custom}};
    muster_tensor x = *run->in[0], y = *result;
    const int64_t begin = x.byte_offset;
    x.byte_offset = y.byte_offset = 0;
    x.data = y.data = NULL;
    const bool made = step_values(&step, run) && custom->options.view(&step.node, &x, &y, custom->options.user) == 1;
    mst_arena_free(&step.memory);
    *outside = made && view_is_outside(&x, &y);
    for (int32_t d = 0; made && d < result->ndim; d++) result->strides[d] = y.strides[d];
    if (made) result->byte_offset = begin + y.byte_offset;
    return made;
}

/* A view that leaves the operand is not used: the body computes the result. */
bool mst_custom_view(const mst_step_run *run, muster_tensor *result) {
    muster_tensor made = *result;
    bool outside;
    if (!mst_custom_view_make(run, &made, &outside) || outside) return false;
    *result = made;
    return true;
}

/* Values that one device computes for all: in graphs whose workers compute each for itself. */
#include "muster/communicator.h"
#include "operators_private.h"
#include "runtime_impl.h"

#include <stdio.h>

enum { RANK };

/* The public rank: the same in all processes. */
int32_t mst_place_rank(const muster_expr *node) { return (int32_t)node->values[RANK].integer; }

static muster_status infer_place(mst_draft *draft) {
    char text[MST_NODE_TEXT];
    const muster_expr *x = draft->inputs[0];
    MUSTER_TRY(mst_draft_dtype(draft, 0, MST_ALL_DTYPES));
    for (int32_t d = 0; d < x->type.ndim; d++)
        if (draft->graph->dims[x->type.dims[d]].powers[MST_SIZE_ROWS])
            return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, 0,
                                    "expected a shape without rows, since each worker has a number of rows of its own, received %s",
                                    mst_node_text(x, NULL, text));
    draft->types[0] = x->type;
    return MUSTER_OK;
}

/* A single call has one member, which is the device itself, or is refused. */
static muster_status place_check(muster_worker *worker, const mst_step_run *run, bool *alone) {
    char text[MST_DEVICE_TEXT];
    muster_runtime *runtime = run->node->graph->runtime;
    const int32_t rank = mst_place_rank(run->node), local = rank - runtime->first;
    *alone = muster_worker_size(worker) == 1;
    if (!*alone || rank == muster_worker_rank(worker)) return MUSTER_OK;
    if (local >= 0 && local < runtime->size)
        mst_runtime_device_text(runtime, local, text);
    else
        snprintf(text, sizeof text, "%d of another process", (int)rank);
    return mst_error(MUSTER_UNSUPPORTED,
                     "muster_expr_place: device: expected a call on all devices, since device %s computes the value, "
                     "received a single call",
                     text);
}

static muster_status run_place(muster_worker *worker, const mst_step_run *run) {
    bool alone;
    MUSTER_TRY(place_check(worker, run, &alone));
    if (alone) return muster_copy(worker, *run->in[0], *run->out[0]);
    const int32_t rank = mst_place_rank(run->node);
    muster_tensor value = *run->out[0];
    if (rank == muster_worker_rank(worker)) {
        value = *run->in[0];
        if (!muster_tensor_is_contiguous(value)) {
            MUSTER_TRY(muster_copy(worker, value, *run->out[0]));
            value = *run->out[0];
        }
    }
    return muster_worker_broadcast(worker, muster_worker_communicator(worker), rank, value, *run->out[0]);
}

static void gradient_place(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_apply(node->graph, MST_OPERATOR_place_gradient, &dy, 1, node->values));
}

const mst_operator mst_operator_place = {MST_ANY_OPERATOR(place, "x, which one device computes for all"),
                                         .operands = {"x"},
                                         .attributes = {{"rank", MST_VALUE_INTEGER, .required = true}},
                                         .flags = MST_OPERATOR_HIDDEN,
                                         .infer = infer_place,
                                         .run = run_place,
                                         .gradient = gradient_place};

/* The sum over the workers on the device, and 0 elsewhere. */
static muster_status run_place_gradient(muster_worker *worker, const mst_step_run *run) {
    bool alone;
    MUSTER_TRY(place_check(worker, run, &alone));
    if (alone) return muster_copy(worker, *run->in[0], *run->out[0]);
    const int32_t rank = mst_place_rank(run->node);
    muster_tensor value = *run->in[0];
    if (!muster_tensor_is_contiguous(value)) {
        MUSTER_TRY(muster_copy(worker, value, *run->out[0]));
        value = *run->out[0];
    }
    mst_worker_set_exact(worker, true);
    const muster_status status = muster_worker_reduce(worker, muster_worker_communicator(worker), MUSTER_SUM, rank, value, *run->out[0]);
    mst_worker_set_exact(worker, false);
    MUSTER_TRY(status);
    return rank == muster_worker_rank(worker) ? MUSTER_OK : muster_fill(worker, 0, *run->out[0]);
}

static void gradient_place_gradient(mst_gradients *gradients, muster_expr *node, muster_expr *dy) {
    mst_gradient_add(gradients, node, 0, mst_apply(node->graph, MST_OPERATOR_place, &dy, 1, node->values));
}

const mst_operator mst_operator_place_gradient = {MST_ANY_OPERATOR(place_gradient, "the gradient of place"),
                                                  .operands = {"dy"},
                                                  .attributes = {{"rank", MST_VALUE_INTEGER, .required = true}},
                                                  .dtypes = MST_FLOAT_DTYPES,
                                                  .flags = MST_OPERATOR_HIDDEN,
                                                  .infer = mst_draft_same,
                                                  .run = run_place_gradient,
                                                  .gradient = gradient_place_gradient};

muster_expr *muster_expr_place(muster_expr *expression, const char *device) {
    static const char where[] = "muster_expr_place";
    int32_t rank = 0;
    if (!expression) {
        (void)mst_error_null(where, "expression", "an expression");
        return NULL;
    }
    mst_graph *graph = expression->graph;
    if (mst_node_is_error(expression) || mst_graph_check_open(graph, where) != MUSTER_OK) return graph->error;
    muster_status status = mst_runtime_check_open(graph->runtime, where);
    if (status == MUSTER_OK) status = mst_runtime_find_public(graph->runtime, device, where, "device", &rank);
    if (status != MUSTER_OK) {
        (void)mst_graph_keep(graph, status);
        return graph->error;
    }
    graph->origin = (mst_origin){.where = expression->origin.where, .forward = expression->origin.forward};
    muster_expr *made = mst_apply(graph, MST_OPERATOR_place, &expression, 1, (mst_graph_value[]){{.integer = rank}});
    graph->origin = (mst_origin){0};
    return made;
}

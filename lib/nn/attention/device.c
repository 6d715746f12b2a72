/* Attention on devices whose code is attention.cu. */
#include "own_private.h"

enum { FORWARD, QUERIES, KEYS, MASK, KERNELS };
static mst_code_kernel kernels[KERNELS] = {{.name = "mst_attention_results", .blocks = true},
                                           {.name = "mst_attention_of_queries", .blocks = true},
                                           {.name = "mst_attention_of_keys", .blocks = true},
                                           {.name = "mst_attention_of_mask", .blocks = true}};

muster_status mst_attention_device_forward(muster_worker *worker, const mst_attention_call *call) {
    return mst_op_code(worker, &kernels[FORWARD], call->count * call->queries, call, sizeof *call);
}

muster_status mst_attention_device_gradient(muster_worker *worker, const mst_attention_call *call) {
    if (call->operands[MST_ATTENTION_DQ].data)
        MUSTER_TRY(mst_op_code(worker, &kernels[QUERIES], call->count * call->queries, call, sizeof *call));
    if (!call->operands[MST_ATTENTION_DK].data && !call->operands[MST_ATTENTION_DV].data) return MUSTER_OK;
    return mst_op_code(worker, &kernels[KEYS], call->count / call->group * call->keys, call, sizeof *call);
}

/* One block for each row of it. */
muster_status mst_attention_device_mask_gradient(muster_worker *worker, const mst_attention_call *call) {
    int64_t rows = 1;
    for (int32_t d = 0; d <= MST_ATTENTION_STACK; d++) rows *= call->mask[d];
    return mst_op_code(worker, &kernels[MASK], rows, call, sizeof *call);
}

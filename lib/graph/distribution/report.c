/* What dumps say about distributions. */
#include "distribution_private.h"

#include <stdio.h>

const char *mst_distribution_text(mst_distribution distribution, char text[MST_DISTRIBUTION_TEXT]) {
    static const char *const ops[] = {[MUSTER_SUM] = "sum", [MUSTER_PROD] = "product", [MUSTER_MAX] = "maximum", [MUSTER_MIN] = "minimum"};
    switch (distribution.kind) {
    case MST_SAME:
        return "same";
    case MST_CUT:
        snprintf(text, MST_DISTRIBUTION_TEXT, "cut along %d", distribution.axis);
        return text;
    case MST_PARTIAL:
        snprintf(text, MST_DISTRIBUTION_TEXT, "partial %s", ops[distribution.op]);
        return text;
    default:
        return "";
    }
}

double mst_bytes_received(const muster_expr *node, mst_distribution to, const int64_t sizes[MST_SIZES], int32_t workers) {
    double bytes = (double)muster_dtype_size(node->type.dtype);
    for (int32_t d = 0; d < node->type.ndim; d++) bytes *= (double)mst_dim_value(node->graph, node->type.dims[d], sizes);
    return mst_exchange_bytes(node->distribution, to, bytes, workers);
}

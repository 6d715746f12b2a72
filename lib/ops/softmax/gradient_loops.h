/* The gradients of the softmax family of one row, for one dtype. */

/* softmax: dx = y (dy - sum(y dy)); log_softmax: dx = dy - exp(y) sum(dy). A row that a loss leaves
 * out, whose dy is 0, has the gradient 0 there, also where y is NaN. */
MST_CLONES static void MST_JOIN(gradient_row_, SUFFIX)(const mst_rows_parameters *p, const char *y, const char *dy, char *dx) {
    const bool plain = p->op == MST_SOFTMAX_GRADIENT;
    C v[BLOCK], d[BLOCK];
    double sum = 0;
    for (int64_t begin = 0; begin < p->length; begin += BLOCK) {
        const int64_t n = p->length - begin < BLOCK ? p->length - begin : BLOCK;
        MST_JOIN(mst_load_, SUFFIX)(y + begin * p->stride[0], p->stride[0], n, v);
        MST_JOIN(mst_load_, SUFFIX)(dy + begin * p->stride[1], p->stride[1], n, d);
        if (plain)
            for (int64_t i = 0; i < n; i++) d[i] *= v[i];
        sum += MST_JOIN(sum_of_, SUFFIX)(d, n);
    }
    for (int64_t begin = 0; begin < p->length; begin += BLOCK) {
        const int64_t n = p->length - begin < BLOCK ? p->length - begin : BLOCK;
        MST_JOIN(mst_load_, SUFFIX)(y + begin * p->stride[0], p->stride[0], n, v);
        MST_JOIN(mst_load_, SUFFIX)(dy + begin * p->stride[1], p->stride[1], n, d);
        if (plain)
            for (int64_t i = 0; i < n; i++) d[i] = v[i] * (C)((double)d[i] - sum);
        else if (sum == 0)
            for (int64_t i = 0; i < n; i++) d[i] = d[i] == 0 ? 0 : (C)((double)d[i] - (double)EXP(v[i]) * sum);
        else
            for (int64_t i = 0; i < n; i++) d[i] = (C)((double)d[i] - (double)EXP(v[i]) * sum);
        MST_JOIN(mst_store_, SUFFIX)(dx + begin * p->stride[2], p->stride[2], n, d);
    }
}

/* The loops for elements of type T, whose exponential function is EXP. SUFFIX is the name of the
 * dtype. */

/* Returns the row's loss, writes its gradient to g (may be z), and sets *hit to 1 if the label is
 * the largest. */
static double MST_JOIN(row_, SUFFIX)(const T *z, int64_t stride, int64_t k, int64_t label, T scale, T *g, int64_t g_stride, int64_t *hit) {
    int64_t largest = 0;
    for (int64_t j = 1; j < k; j++)
        if (z[j * stride] > z[largest * stride]) largest = j;
    T top = z[largest * stride], label_logit = z[label * stride] - top;
    double sum = 0;
    for (int64_t j = 0; j < k; j++) {
        T e = EXP(z[j * stride] - top);
        sum += (double)e;
        if (g) g[j * g_stride] = e;
    }
    if (g) {
        T factor = (T)((double)scale / sum);
        for (int64_t j = 0; j < k; j++) g[j * g_stride] *= factor;
        g[label * g_stride] -= scale;
    }
    *hit = largest == label;
    return log(sum) - (double)label_logit;
}

static void MST_JOIN(rows_, SUFFIX)(const softmax_parameters *p) {
    const T *z = muster_tensor_address(p->logits);
    T *g = p->gradient.dtype ? muster_tensor_address(p->gradient) : NULL;
    double loss = 0;
    int64_t correct = 0;
    for (int64_t i = 0; i < p->logits.shape[0]; i++) {
        int64_t hit;
        loss += MST_JOIN(row_, SUFFIX)(z + i * p->logits.strides[0], p->logits.strides[1], p->logits.shape[1], label_of(&p->labels, i),
                                       (T)p->scale, g ? g + i * p->gradient.strides[0] : NULL, p->gradient.strides[1], &hit);
        correct += hit;
    }
    *(T *)muster_tensor_address(p->loss) = (T)loss;
    if (p->correct.dtype) *(int64_t *)muster_tensor_address(p->correct) = correct;
}

#undef SUFFIX
#undef T
#undef EXP

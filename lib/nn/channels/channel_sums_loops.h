/* The loops of channel_sums.c for elements of one type: T, SUFFIX. `f` NULL: the factor is x -
 * center. */

/* Elements of one channel that lie behind each other. */
MST_CLONES static void MST_JOIN(one_channel_, SUFFIX)(const T *x, const T *f, int64_t n, double center, double *sum, double *product) {
    double sums[LANES] = {0}, products[LANES] = {0};
    int64_t i = 0;
    for (; f && i + LANES <= n; i += LANES)
        for (int32_t k = 0; k < LANES; k++) {
            sums[k] += (double)f[i + k];
            products[k] += (double)f[i + k] * ((double)x[i + k] - center);
        }
    for (; !f && i + LANES <= n; i += LANES)
        for (int32_t k = 0; k < LANES; k++) {
            const double d = (double)x[i + k] - center;
            sums[k] += d;
            products[k] += d * d;
        }
    for (; i < n; i++) {
        const double d = (double)x[i] - center, g = f ? (double)f[i] : d;
        sums[0] += g;
        products[0] += g * d;
    }
    for (int32_t k = 0; k < LANES; k++) {
        *sum += sums[k];
        *product += products[k];
    }
}

/* One element of each channel; these lie behind each other. */
MST_CLONES static void MST_JOIN(each_channel_, SUFFIX)(const T *x, const T *f, int64_t channels, const double *center, double *sums,
                                                       double *products) {
    if (f) {
        MST_INDEPENDENT
        for (int64_t c = 0; c < channels; c++) {
            sums[c] += (double)f[c];
            products[c] += (double)f[c] * ((double)x[c] - center[c]);
        }
        return;
    }
    MST_INDEPENDENT
    for (int64_t c = 0; c < channels; c++) {
        const double d = (double)x[c] - center[c];
        sums[c] += d;
        products[c] += d * d;
    }
}

static void MST_JOIN(sums_, SUFFIX)(const channels_call *call, const double *center, double *sums, double *products) {
    const channels_layout *x = &call->x, *f = &call->factor;
    const int64_t channels = x->size[CHANNEL];
    const T *from = x->data, *by = f->data;
    for (int64_t n = 0; n < x->size[OUTER]; n++) {
        for (int64_t c = 0; c < channels && !call->channels_last; c++) MST_JOIN(one_channel_, SUFFIX)
        (from + n * x->stride[OUTER] + c * x->stride[CHANNEL], by ? by + n * f->stride[OUTER] + c * f->stride[CHANNEL] : NULL,
         x->size[INNER], center[c], &sums[c], &products[c]);
        for (int64_t i = 0; i < x->size[INNER] && call->channels_last; i++) MST_JOIN(each_channel_, SUFFIX)
        (from + n * x->stride[OUTER] + i * x->stride[INNER], by ? by + n * f->stride[OUTER] + i * f->stride[INNER] : NULL, channels, center,
         sums, products);
    }
}

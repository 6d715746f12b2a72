/* A step of one row of a recurrent layer on a CPU core, for one type T; SUFFIX ends the names. */

#define ROW(operand, b) ((T *)(void *)cell_row(p, operand, b, sizeof(T)))

/* ---- forwards ---- */

MST_CLONES static void MST_JOIN(cell_sums_, SUFFIX)(int64_t count, const T *gates, const T *products, T *sums) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < count; j++) sums[j] = gates[j] + products[j];
}

/* c = f c + i g. */
MST_CLONES static void MST_JOIN(cell_remember_, SUFFIX)(int64_t h, const T *a, T *c) {
    const T *i = a, *f = a + h, *g = a + 2 * h;
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) c[j] = f[j] * c[j] + i[j] * g[j];
}
MST_CLONES static void MST_JOIN(cell_times_, SUFFIX)(int64_t h, const T *x, const T *y, T *to) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) to[j] = x[j] * y[j];
}
MST_CLONES static void MST_JOIN(cell_relu_, SUFFIX)(int64_t h, const T *x, T *to) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) to[j] = x[j] > 0 || x[j] != x[j] ? x[j] : 0;
}
/* z + reset (p + bias), and p + bias into `last`. */
MST_CLONES static void MST_JOIN(cell_candidate_, SUFFIX)(int64_t h, const T *gates, const T *reset, const T *products, const T *bias,
                                                         T *last, T *to) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        last[j] = products[j] + bias[j];
        to[j] = gates[j] + reset[j] * last[j];
    }
}
MST_CLONES static void MST_JOIN(cell_mix_, SUFFIX)(int64_t h, const T *update, const T *n, T *state) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) state[j] = n[j] + update[j] * (state[j] - n[j]);
}

static void MST_JOIN(cell_forward_row_, SUFFIX)(const mst_cell_host *host, const mst_cell_parameters *p, int64_t b) {
    const int64_t h = p->width;
    const T *gates = ROW(MST_CELL_GATES, b), *products = ROW(MST_CELL_PRODUCTS, b);
    T *scratch = (T *)(void *)host->row, *state = ROW(MST_CELL_H, b), *c = ROW(MST_CELL_C, b);
    T *a = p->operands[MST_CELL_KEPT].data ? ROW(MST_CELL_KEPT, b) : scratch;
    switch (p->kind) {
    case MST_RECURRENT_LSTM:
        MST_JOIN(cell_sums_, SUFFIX)(4 * h, gates, products, a);
        cell_apply(&host->sigmoid, a, 2 * h, sizeof(T));
        cell_apply(&host->tanh, a + 2 * h, h, sizeof(T));
        cell_apply(&host->sigmoid, a + 3 * h, h, sizeof(T));
        MST_JOIN(cell_remember_, SUFFIX)(h, a, c);
        memcpy(scratch + 4 * h, c, (size_t)h * sizeof(T));
        cell_apply(&host->tanh, scratch + 4 * h, h, sizeof(T));
        MST_JOIN(cell_times_, SUFFIX)(h, a + 3 * h, scratch + 4 * h, state);
        return;
    case MST_RECURRENT_GRU:
        MST_JOIN(cell_sums_, SUFFIX)(2 * h, gates, products, a);
        cell_apply(&host->sigmoid, a, 2 * h, sizeof(T));
        MST_JOIN(cell_candidate_, SUFFIX)(h, gates + 2 * h, a, products + 2 * h, ROW(MST_CELL_BIAS, b), a + 3 * h, a + 2 * h);
        cell_apply(&host->tanh, a + 2 * h, h, sizeof(T));
        MST_JOIN(cell_mix_, SUFFIX)(h, a + h, a + 2 * h, state);
        return;
    case MST_RECURRENT_TANH:
        MST_JOIN(cell_sums_, SUFFIX)(h, gates, products, state);
        cell_apply(&host->tanh, state, h, sizeof(T));
        return;
    default:
        MST_JOIN(cell_sums_, SUFFIX)(h, gates, products, scratch);
        MST_JOIN(cell_relu_, SUFFIX)(h, scratch, state);
    }
}

/* ---- backwards ---- */

/* `tanh_c`: the tanh of the cell behind the step. */
MST_CLONES static void MST_JOIN(cell_lstm_gradient_, SUFFIX)(int64_t h, const T *a, const T *before, const T *tanh_c, const T *dy, T *dh,
                                                             T *dc, T *to) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        const T i = a[j], f = a[h + j], g = a[2 * h + j], o = a[3 * h + j], d = dy[j] + dh[j];
        const T change = dc[j] + d * o * (1 - tanh_c[j] * tanh_c[j]);
        to[j] = change * g * i * (1 - i);
        to[h + j] = change * before[j] * f * (1 - f);
        to[2 * h + j] = change * i * (1 - g * g);
        to[3 * h + j] = d * tanh_c[j] * o * (1 - o);
        dc[j] = change * f;
        dh[j] = 0;
    }
}
MST_CLONES static void MST_JOIN(cell_gru_gradient_, SUFFIX)(int64_t h, const T *a, const T *before, const T *dy, T *dh, T *to,
                                                            T *products) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        const T reset = a[j], update = a[h + j], n = a[2 * h + j], last = a[3 * h + j], d = dy[j] + dh[j];
        const T candidate = d * (1 - update) * (1 - n * n);
        to[j] = products[j] = candidate * last * reset * (1 - reset);
        to[h + j] = products[h + j] = d * (before[j] - n) * update * (1 - update);
        to[2 * h + j] = candidate;
        products[2 * h + j] = candidate * reset;
        dh[j] = d * update;
    }
}
MST_CLONES static void MST_JOIN(cell_tanh_gradient_, SUFFIX)(int64_t h, const T *y, const T *dy, T *dh, T *to) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        to[j] = (dy[j] + dh[j]) * (1 - y[j] * y[j]);
        dh[j] = 0;
    }
}
MST_CLONES static void MST_JOIN(cell_relu_gradient_, SUFFIX)(int64_t h, const T *y, const T *dy, T *dh, T *to) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        to[j] = y[j] > 0 ? dy[j] + dh[j] : 0;
        dh[j] = 0;
    }
}

static void MST_JOIN(cell_gradient_row_, SUFFIX)(const mst_cell_host *host, const mst_cell_parameters *p, int64_t b) {
    const int64_t h = p->width;
    const T *a = ROW(MST_CELL_KEPT, b), *dy = ROW(MST_CELL_DY, b);
    T *scratch = (T *)(void *)host->row, *dh = ROW(MST_CELL_DH, b), *to = ROW(MST_CELL_DGATES, b);
    switch (p->kind) {
    case MST_RECURRENT_LSTM:
        memcpy(scratch, ROW(MST_CELL_BEFORE_C, b), (size_t)h * sizeof(T));
        MST_JOIN(cell_remember_, SUFFIX)(h, a, scratch);
        cell_apply(&host->tanh, scratch, h, sizeof(T));
        MST_JOIN(cell_lstm_gradient_, SUFFIX)(h, a, ROW(MST_CELL_BEFORE_C, b), scratch, dy, dh, ROW(MST_CELL_DC, b), to);
        return;
    case MST_RECURRENT_GRU:
        MST_JOIN(cell_gru_gradient_, SUFFIX)(h, a, ROW(MST_CELL_BEFORE_H, b), dy, dh, to, ROW(MST_CELL_DPRODUCTS, b));
        return;
    case MST_RECURRENT_TANH:
        MST_JOIN(cell_tanh_gradient_, SUFFIX)(h, a, dy, dh, to);
        return;
    default:
        MST_JOIN(cell_relu_gradient_, SUFFIX)(h, a, dy, dh, to);
    }
}
#undef ROW

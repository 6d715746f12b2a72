/* A step of one row of a recurrent layer on a CPU core, for one type T; SUFFIX ends the names, and
 * SIGMOID and TANH are the functions. */

#define ROW(operand, b) ((T *)(void *)cell_row(p, operand, b, sizeof(T)))

/* ---- forwards ---- */

/* `a`: the gates behind their functions. */
MST_CLONES static void MST_JOIN(cell_lstm_, SUFFIX)(int64_t h, const T *gates, const T *products, T *a, T *c, T *state) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        const T i = SIGMOID(gates[j] + products[j]), f = SIGMOID(gates[h + j] + products[h + j]);
        const T g = TANH(gates[2 * h + j] + products[2 * h + j]), o = SIGMOID(gates[3 * h + j] + products[3 * h + j]);
        const T cell = f * c[j] + i * g;
        a[j] = i;
        a[h + j] = f;
        a[2 * h + j] = g;
        a[3 * h + j] = o;
        c[j] = cell;
        state[j] = o * TANH(cell);
    }
}
MST_CLONES static void MST_JOIN(cell_gru_, SUFFIX)(int64_t h, const T *gates, const T *products, const T *bias, T *a, T *state) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        const T reset = SIGMOID(gates[j] + products[j]), update = SIGMOID(gates[h + j] + products[h + j]);
        const T last = products[2 * h + j] + bias[j], n = TANH(gates[2 * h + j] + reset * last);
        a[j] = reset;
        a[h + j] = update;
        a[2 * h + j] = n;
        a[3 * h + j] = last;
        state[j] = n + update * (state[j] - n);
    }
}
MST_CLONES static void MST_JOIN(cell_tanh_, SUFFIX)(int64_t h, const T *gates, const T *products, T *state) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) state[j] = TANH(gates[j] + products[j]);
}
MST_CLONES static void MST_JOIN(cell_relu_, SUFFIX)(int64_t h, const T *gates, const T *products, T *state) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        const T sum = gates[j] + products[j];
        state[j] = sum > 0 || sum != sum ? sum : 0;
    }
}

static void MST_JOIN(cell_forward_row_, SUFFIX)(const mst_cell_host *host, const mst_cell_parameters *p, int64_t b) {
    const int64_t h = p->width;
    const T *gates = ROW(MST_CELL_GATES, b), *products = ROW(MST_CELL_PRODUCTS, b);
    T *state = ROW(MST_CELL_H, b), *a = p->operands[MST_CELL_KEPT].data ? ROW(MST_CELL_KEPT, b) : (T *)(void *)host->row;
    switch (p->kind) {
    case MST_RECURRENT_LSTM:
        MST_JOIN(cell_lstm_, SUFFIX)(h, gates, products, a, ROW(MST_CELL_C, b), state);
        return;
    case MST_RECURRENT_GRU:
        MST_JOIN(cell_gru_, SUFFIX)(h, gates, products, ROW(MST_CELL_BIAS, b), a, state);
        return;
    case MST_RECURRENT_TANH:
        MST_JOIN(cell_tanh_, SUFFIX)(h, gates, products, state);
        return;
    default:
        MST_JOIN(cell_relu_, SUFFIX)(h, gates, products, state);
    }
}

/* ---- backwards ---- */

MST_CLONES static void MST_JOIN(cell_lstm_gradient_, SUFFIX)(int64_t h, const T *a, const T *before, const T *dy, T *dh, T *dc, T *to) {
    MST_INDEPENDENT
    for (int64_t j = 0; j < h; j++) {
        const T i = a[j], f = a[h + j], g = a[2 * h + j], o = a[3 * h + j], d = dy[j] + dh[j];
        const T tanh_c = TANH(f * before[j] + i * g), change = dc[j] + d * o * (1 - tanh_c * tanh_c);
        to[j] = change * g * i * (1 - i);
        to[h + j] = change * before[j] * f * (1 - f);
        to[2 * h + j] = change * i * (1 - g * g);
        to[3 * h + j] = d * tanh_c * o * (1 - o);
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

static void MST_JOIN(cell_gradient_row_, SUFFIX)(const mst_cell_parameters *p, int64_t b) {
    const int64_t h = p->width;
    const T *a = ROW(MST_CELL_KEPT, b), *dy = ROW(MST_CELL_DY, b);
    T *dh = ROW(MST_CELL_DH, b), *to = ROW(MST_CELL_DGATES, b);
    switch (p->kind) {
    case MST_RECURRENT_LSTM:
        MST_JOIN(cell_lstm_gradient_, SUFFIX)(h, a, ROW(MST_CELL_BEFORE_C, b), dy, dh, ROW(MST_CELL_DC, b), to);
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

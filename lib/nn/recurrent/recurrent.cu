/* A step of a recurrent layer: one thread computes one number of the state of one row. */
#include "recurrent_parameters_private.h"
#include "tensor.cuh"

static inline float cell_tanh(float x) { return tanhf(x); }
static inline double cell_tanh(double x) { return tanh(x); }
static inline float cell_sigmoid(float x) { return x < -80 ? expf(x) : 1 / (1 + expf(-x)); }
static inline double cell_sigmoid(double x) { return x < -700 ? exp(x) : 1 / (1 + exp(-x)); }

/* The numbers of unit j of row b: gate k is `width` further than gate k - 1. */
template <typename T> struct cell_unit {
    const mst_cell_parameters &p;
    int64_t b, j;
    inline cell_unit(const mst_cell_parameters &parameters, int64_t i) : p(parameters), b(mst_quotient(i, parameters.width)), j(0) {
        j = i - b * p.width;
    }
    inline bool has(int operand) const { return p.operands[operand].data != 0; }
    inline T *at(int operand, int gate) const {
        const mst_cell_operand &o = p.operands[operand];
        return MST_ADDRESS(T, o.data) + b * o.row + gate * p.width + j;
    }
    inline T get(int operand, int gate = 0) const { return *at(operand, gate); }
    inline void put(int operand, int gate, T value) const {
        if (has(operand)) *at(operand, gate) = value;
    }
    inline bool is_active() const {
        const mst_cell_operand &o = p.operands[MST_CELL_LENGTHS];
        return p.step < MST_ADDRESS(int64_t, o.data)[b * o.row];
    }
    /* Gate k and its product. */
    inline T sum(int k) const { return get(MST_CELL_GATES, k) + get(MST_CELL_PRODUCTS, k); }
};

template <typename T> static inline void cell_lstm(const cell_unit<T> &u) {
    const T i = cell_sigmoid(u.sum(0)), f = cell_sigmoid(u.sum(1)), g = cell_tanh(u.sum(2)), o = cell_sigmoid(u.sum(3));
    const T c = f * u.get(MST_CELL_C) + i * g, h = o * cell_tanh(c);
    u.put(MST_CELL_KEPT, 0, i);
    u.put(MST_CELL_KEPT, 1, f);
    u.put(MST_CELL_KEPT, 2, g);
    u.put(MST_CELL_KEPT, 3, o);
    u.put(MST_CELL_C, 0, c);
    u.put(MST_CELL_H, 0, h);
    u.put(MST_CELL_Y, 0, h);
}

template <typename T> static inline void cell_gru(const cell_unit<T> &u) {
    const T reset = cell_sigmoid(u.sum(0)), update = cell_sigmoid(u.sum(1));
    const T last = u.get(MST_CELL_PRODUCTS, 2) + u.get(MST_CELL_BIAS), n = cell_tanh(u.get(MST_CELL_GATES, 2) + reset * last);
    const T h = n + update * (u.get(MST_CELL_H) - n);
    u.put(MST_CELL_KEPT, 0, reset);
    u.put(MST_CELL_KEPT, 1, update);
    u.put(MST_CELL_KEPT, 2, n);
    u.put(MST_CELL_KEPT, 3, last);
    u.put(MST_CELL_H, 0, h);
    u.put(MST_CELL_Y, 0, h);
}

template <typename T> static inline void cell_plain(const cell_unit<T> &u) {
    const T sum = u.sum(0), h = u.p.kind == MST_CELL_TANH ? cell_tanh(sum) : sum > 0 || sum != sum ? sum : (T)0;
    u.put(MST_CELL_H, 0, h);
    u.put(MST_CELL_Y, 0, h);
}

template <typename T> static inline void cell_forward(const mst_cell_parameters &p) {
    MST_EACH(i, p.rows * p.width) {
        const cell_unit<T> u(p, i);
        u.put(MST_CELL_BEFORE_H, 0, u.get(MST_CELL_H));
        if (p.kind == MST_CELL_LSTM) u.put(MST_CELL_BEFORE_C, 0, u.get(MST_CELL_C));
        if (!u.is_active()) {
            u.put(MST_CELL_Y, 0, (T)0);
            for (int k = 0; k < 4 && (p.kind == MST_CELL_LSTM || p.kind == MST_CELL_GRU); k++) u.put(MST_CELL_KEPT, k, (T)0);
        } else if (p.kind == MST_CELL_LSTM) {
            cell_lstm(u);
        } else if (p.kind == MST_CELL_GRU) {
            cell_gru(u);
        } else {
            cell_plain(u);
        }
    }
}

template <typename T> static inline void cell_lstm_gradient(const cell_unit<T> &u, T d) {
    const T i = u.get(MST_CELL_KEPT, 0), f = u.get(MST_CELL_KEPT, 1), g = u.get(MST_CELL_KEPT, 2), o = u.get(MST_CELL_KEPT, 3);
    const T before = u.get(MST_CELL_BEFORE_C), tanh_c = cell_tanh(f * before + i * g);
    const T change = u.get(MST_CELL_DC) + d * o * (1 - tanh_c * tanh_c);
    u.put(MST_CELL_DGATES, 0, change * g * i * (1 - i));
    u.put(MST_CELL_DGATES, 1, change * before * f * (1 - f));
    u.put(MST_CELL_DGATES, 2, change * i * (1 - g * g));
    u.put(MST_CELL_DGATES, 3, d * tanh_c * o * (1 - o));
    u.put(MST_CELL_DC, 0, change * f);
    u.put(MST_CELL_DH, 0, (T)0);
}

template <typename T> static inline void cell_gru_gradient(const cell_unit<T> &u, T d) {
    const T reset = u.get(MST_CELL_KEPT, 0), update = u.get(MST_CELL_KEPT, 1), n = u.get(MST_CELL_KEPT, 2);
    const T candidate = d * (1 - update) * (1 - n * n);
    const T of_reset = candidate * u.get(MST_CELL_KEPT, 3) * reset * (1 - reset);
    const T of_update = d * (u.get(MST_CELL_BEFORE_H) - n) * update * (1 - update);
    u.put(MST_CELL_DGATES, 0, of_reset);
    u.put(MST_CELL_DGATES, 1, of_update);
    u.put(MST_CELL_DGATES, 2, candidate);
    u.put(MST_CELL_DPRODUCTS, 0, of_reset);
    u.put(MST_CELL_DPRODUCTS, 1, of_update);
    u.put(MST_CELL_DPRODUCTS, 2, candidate * reset);
    u.put(MST_CELL_DH, 0, d * update);
}

template <typename T> static inline void cell_plain_gradient(const cell_unit<T> &u, T d) {
    const T y = u.get(MST_CELL_KEPT);
    u.put(MST_CELL_DGATES, 0, u.p.kind == MST_CELL_TANH ? d * (1 - y * y) : y > 0 ? d : (T)0);
    u.put(MST_CELL_DH, 0, (T)0);
}

template <typename T> static inline void cell_gradient(const mst_cell_parameters &p) {
    const int gates = p.kind == MST_CELL_LSTM ? 4 : p.kind == MST_CELL_GRU ? 3 : 1;
    MST_EACH(i, p.rows * p.width) {
        const cell_unit<T> u(p, i);
        if (!u.is_active()) {
            for (int k = 0; k < gates; k++) u.put(MST_CELL_DGATES, k, (T)0);
            for (int k = 0; k < gates; k++) u.put(MST_CELL_DPRODUCTS, k, (T)0);
            continue;
        }
        const T d = u.get(MST_CELL_DY) + u.get(MST_CELL_DH);
        if (p.kind == MST_CELL_LSTM)
            cell_lstm_gradient(u, d);
        else if (p.kind == MST_CELL_GRU)
            cell_gru_gradient(u, d);
        else
            cell_plain_gradient(u, d);
    }
}

MST_KERNEL(mst_cell_forward, mst_cell_parameters) {
    if (p.dtype == MUSTER_F32)
        cell_forward<float>(p);
    else
        cell_forward<double>(p);
}

MST_KERNEL(mst_cell_gradient, mst_cell_parameters) {
    if (p.dtype == MUSTER_F32)
        cell_gradient<float>(p);
    else
        cell_gradient<double>(p);
}

/* One thread (with few classes) or one block computes the loss of a row. Then one block sums the
 * losses in a fixed order. */
#include "float_sums.cuh"
#include "softmax_parameters_private.h"
#include "tensor.cuh"

static inline float softmax_exp(float v) { return expf(v); }
static inline double softmax_exp(double v) { return exp(v); }

/* The sum of exp(z[j] - top) over j = begin, begin + distance and so on, below `end`; at most
 * MST_SUM_GROUP terms. The terms are at most 1, so that f32 holds the sum. */
static inline double softmax_group(const double *z, int64_t stride, double top, int64_t begin, int64_t distance, int64_t end) {
    double sum = 0;
    for (int64_t j = begin; j < end; j += distance) sum += softmax_exp(z[j * stride] - top);
    return sum;
}
static inline double softmax_group(const float *z, int64_t stride, float top, int64_t begin, int64_t distance, int64_t end) {
    mst_float_sum sum;
    for (int64_t j = begin; j < end; j += distance) sum.add(softmax_exp(z[j * stride] - top));
    return sum.value();
}

static inline int64_t softmax_label(const mst_softmax_parameters &p, const void *labels, int64_t row) {
    int64_t at = row * p.label_stride;
    if (p.label_dtype == MUSTER_U8) return ((const uint8_t *)labels)[at];
    return p.label_dtype == MUSTER_I32 ? ((const int32_t *)labels)[at] : ((const int64_t *)labels)[at];
}

template <typename T> struct softmax_top {
    T value;
    int64_t index; /* -1: nothing yet */
};

/* The first of the largest elements wins. */
template <typename T> struct softmax_higher {
    inline softmax_top<T> operator()(softmax_top<T> a, softmax_top<T> b) const {
        if (a.index < 0) return b;
        if (b.index < 0) return a;
        return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
    }
};

template <typename T> struct softmax_plus {
    inline T operator()(T a, T b) const { return a + b; }
};
struct softmax_first {
    inline int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

template <typename T> static inline void softmax_threads(const mst_softmax_parameters &p) {
    const T *logits = MST_ADDRESS(const T, p.logits);
    T *gradient = MST_ADDRESS(T, p.gradient);
    const void *labels = MST_ADDRESS(const char, p.labels);
    double *losses = MST_ADDRESS(double, p.losses);
    int64_t *hits = MST_ADDRESS(int64_t, p.hits);
    MST_EACH(row, p.n) {
        int64_t label = softmax_label(p, labels, row), largest = 0;
        if (label < 0 || label >= p.k) {
            losses[row] = 0;
            hits[row] = -1;
            continue;
        }
        const T *z = logits + row * p.row_stride;
        for (int64_t j = 1; j < p.k; j++)
            if (z[j * p.column_stride] > z[largest * p.column_stride]) largest = j;
        T top = z[largest * p.column_stride], label_logit = z[label * p.column_stride] - top;
        double sum = 0;
        for (int64_t j = 0; j < p.k; j += MST_SUM_GROUP)
            sum += softmax_group(z, p.column_stride, top, j, 1, j + MST_SUM_GROUP < p.k ? j + MST_SUM_GROUP : p.k);
        losses[row] = log(sum) - (double)label_logit;
        hits[row] = largest == label;
        if (gradient) {
            T scale = (T)p.scale, factor = (T)((double)scale / sum), *g = gradient + row * p.gradient_row_stride;
            for (int64_t j = 0; j < p.k; j++) {
                T e = softmax_exp(z[j * p.column_stride] - top) * factor;
                g[j * p.gradient_column_stride] = j == label ? e - scale : e;
            }
        }
    }
}

template <typename T> static inline void softmax_blocks(const mst_softmax_parameters &p) {
    typedef softmax_top<T> best;
    enum { TILE = MST_THREADS * MST_SUM_GROUP };
    const T *logits = MST_ADDRESS(const T, p.logits);
    T *gradient = MST_ADDRESS(T, p.gradient);
    const void *labels = MST_ADDRESS(const char, p.labels);
    double *losses = MST_ADDRESS(double, p.losses);
    int64_t *hits = MST_ADDRESS(int64_t, p.hits);
    MST_BLOCKS(row, p.n) {
        const T *z = logits + row * p.row_stride;
        int64_t label = softmax_label(p, labels, row);
        bool good = label >= 0 && label < p.k;
        const best none = {0, -1};
        auto at = [=](int64_t j) -> best { return {z[j * p.column_stride], j}; };
        MST_BLOCK_REDUCE(best, largest, j, p.k, none, at(j), softmax_higher<T>());
        /* read first, because the gradient may overwrite the logits */
        T top = largest.value, label_logit = good ? z[label * p.column_stride] - top : (T)0;
        auto group = [&](int64_t g) -> double {
            int64_t tile = g / MST_THREADS * TILE;
            return softmax_group(z, p.column_stride, top, tile + g % MST_THREADS, MST_THREADS, tile + TILE < p.k ? tile + TILE : p.k);
        };
        MST_BLOCK_REDUCE(double, sum, g, (p.k + TILE - 1) / TILE * MST_THREADS, 0.0, group(g), softmax_plus<double>());
        MST_ONE {
            losses[row] = good ? log(sum) - (double)label_logit : 0;
            hits[row] = good ? largest.index == label : -1;
        }
        if (gradient && good) {
            T scale = (T)p.scale, factor = (T)((double)scale / sum), *g = gradient + row * p.gradient_row_stride;
            MST_BLOCK_EACH(j, p.k) {
                T e = softmax_exp(z[j * p.column_stride] - top) * factor;
                g[j * p.gradient_column_stride] = j == label ? e - scale : e;
            }
        }
    }
}

MST_KERNEL(mst_softmax_threads, mst_softmax_parameters) {
    if (p.dtype == MUSTER_F32)
        softmax_threads<float>(p);
    else
        softmax_threads<double>(p);
}

MST_KERNEL(mst_softmax_blocks, mst_softmax_parameters) {
    if (p.dtype == MUSTER_F32)
        softmax_blocks<float>(p);
    else
        softmax_blocks<double>(p);
}

MST_KERNEL(mst_softmax_sum, mst_softmax_parameters) {
    double *losses = MST_ADDRESS(double, p.losses);
    int64_t *hits = MST_ADDRESS(int64_t, p.hits), *bad = MST_ADDRESS(int64_t, p.bad), *correct = MST_ADDRESS(int64_t, p.correct);
    void *loss = MST_ADDRESS(char, p.loss);
    const void *labels = MST_ADDRESS(const char, p.labels);
    MST_BLOCKS(b, 1) {
        MST_BLOCK_REDUCE(double, sum, i, p.n, 0.0, losses[i], softmax_plus<double>());
        MST_BLOCK_REDUCE(int64_t, count, i, p.n, (int64_t)0, hits[i] > 0 ? hits[i] : 0, softmax_plus<int64_t>());
        MST_BLOCK_REDUCE(int64_t, first, i, p.n, p.n, hits[i] < 0 ? i : p.n, softmax_first());
        MST_ONE {
            if (p.dtype == MUSTER_F32)
                *(float *)loss = (float)sum;
            else
                *(double *)loss = sum;
            if (correct) *correct = count;
            bad[0] = first < p.n ? first : -1;
            bad[1] = first < p.n ? softmax_label(p, labels, first) : 0;
        }
    }
}

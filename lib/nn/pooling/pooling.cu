/* Pooling: one thread computes an element of the result. */
#include "pooling_parameters_private.h"
#include "tensor.cuh"

/* The indices of element i. */
static inline void pooling_indices(const mst_pooling_layout &layout, int64_t i, int64_t *index) {
    for (int d = MST_POOLING_DIMS - 1; d > 0; d--) {
        const int64_t above = mst_quotient(i, layout.shape[d]);
        index[d] = i - above * layout.shape[d];
        i = above;
    }
    index[0] = i;
}

static inline int64_t pooling_offset(const mst_pooling_layout &layout, const int64_t *index) {
    int64_t offset = 0;
    for (int d = 0; d < MST_POOLING_DIMS; d++) offset += index[d] * layout.strides[d];
    return offset;
}

static inline int64_t pooling_count(const mst_pooling_layout &layout) {
    int64_t count = 1;
    for (int d = 0; d < MST_POOLING_DIMS; d++) count *= layout.shape[d];
    return count;
}

/* The elements of the window at place p that lie in x: along each axis those at positions `first`,
 * one dilation further, and so on before `end`. */
struct pooling_window {
    int64_t begin[MST_POOLING_AXES], first[MST_POOLING_AXES], end[MST_POOLING_AXES];
};

/* So many multiples of `step` are in [0, length). */
static inline int64_t pooling_steps(int64_t length, int64_t step) { return length > 0 ? mst_quotient(length + step - 1, step) : 0; }
/* So many elements of the window lie before the position. */
static inline int64_t pooling_before(const mst_pooling_parameters &p, const pooling_window &w, int d, int64_t position) {
    const int64_t elements = pooling_steps(position - w.begin[d], p.dilation[d]);
    return elements < p.size[d] ? elements : p.size[d];
}

MST_OUTLINE pooling_window pooling_window_at(const mst_pooling_parameters &p, const int64_t *place) {
    pooling_window w;
    for (int d = 0; d < MST_POOLING_AXES; d++) {
        w.begin[d] = place[d] * p.stride[d] - p.before[d];
        w.first[d] = w.begin[d] + pooling_before(p, w, d, 0) * p.dilation[d];
        w.end[d] = w.begin[d] + pooling_before(p, w, d, p.x.shape[2 + d]) * p.dilation[d];
    }
    return w;
}

/* What the sum at this place is divided by. */
MST_OUTLINE int64_t pooling_divisor(const mst_pooling_parameters &p, const pooling_window &w) {
    int64_t count = 1;
    for (int d = 0; d < MST_POOLING_AXES; d++) {
        const int64_t all = pooling_before(p, w, d, p.x.shape[2 + d] + p.after[d]);
        count *= p.counts_padding ? all : pooling_steps(w.end[d] - w.first[d], p.dilation[d]);
    }
    return count;
}

/* Loops over the indices q from first[] up to end[] along three axes. */
#define POOLING_EACH(first, end, step0, step1, step2, q)                      \
    for (int64_t q[3] = {(first)[0], 0, 0}; q[0] < (end)[0]; q[0] += (step0)) \
        for (q[1] = (first)[1]; q[1] < (end)[1]; q[1] += (step1))             \
            for (q[2] = (first)[2]; q[2] < (end)[2]; q[2] += (step2))
#define POOLING_EACH_INSIDE(p, w, q) POOLING_EACH((w).first, (w).end, (p).dilation[0], (p).dilation[1], (p).dilation[2], q)

static inline int64_t pooling_inside(const mst_pooling_layout &layout, const int64_t *q) {
    return q[0] * layout.strides[2] + q[1] * layout.strides[3] + q[2] * layout.strides[4];
}

/* Is v larger than the largest so far? NaN is larger than all other numbers. */
template <typename C> static inline bool pooling_larger(C v, C largest) { return v > largest || (v != v && largest == largest); }

/* Where the largest element of the window lies; false: the window has none. */
template <typename D>
static inline bool pooling_largest(const mst_pooling_parameters &p, const pooling_window &w, const typename D::stored *x, int64_t *at) {
    typename D::computed largest = 0;
    bool found = false;
    POOLING_EACH_INSIDE(p, w, q) {
        const typename D::computed v = D::load(x[pooling_inside(p.x, q)]);
        if (found && !pooling_larger(v, largest)) continue;
        found = true;
        largest = v;
        for (int d = 0; d < MST_POOLING_AXES; d++) at[d] = q[d];
    }
    return found;
}

template <typename D> static inline void pooling_max(const mst_pooling_parameters &p) {
    typedef typename D::stored T;
    const T *x = MST_ADDRESS(const T, p.at_x);
    T *y = MST_ADDRESS(T, p.at_y);
    MST_EACH(i, pooling_count(p.y)) {
        int64_t at[MST_POOLING_DIMS], largest[MST_POOLING_AXES];
        pooling_indices(p.y, i, at);
        const T *from = x + at[0] * p.x.strides[0] + at[1] * p.x.strides[1];
        const bool found = pooling_largest<D>(p, pooling_window_at(p, at + 2), from, largest);
        y[pooling_offset(p.y, at)] = found ? from[pooling_inside(p.x, largest)] : D::store((typename D::computed)(-1.0 / 0.0));
    }
}

template <typename D> static inline void pooling_take(const mst_pooling_parameters &p) {
    typedef typename D::stored T;
    const T *x = MST_ADDRESS(const T, p.at_x), *z = MST_ADDRESS(const T, p.at_z);
    T *y = MST_ADDRESS(T, p.at_y);
    MST_EACH(i, pooling_count(p.y)) {
        int64_t at[MST_POOLING_DIMS], largest[MST_POOLING_AXES];
        pooling_indices(p.y, i, at);
        const T *from = x + at[0] * p.x.strides[0] + at[1] * p.x.strides[1], *take = z + at[0] * p.z.strides[0] + at[1] * p.z.strides[1];
        const bool found = pooling_largest<D>(p, pooling_window_at(p, at + 2), from, largest);
        y[pooling_offset(p.y, at)] = found ? take[pooling_inside(p.z, largest)] : D::store(0);
    }
}

template <typename D> static inline void pooling_sum(const mst_pooling_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const T *x = MST_ADDRESS(const T, p.at_x);
    T *y = MST_ADDRESS(T, p.at_y);
    MST_EACH(i, pooling_count(p.y)) {
        int64_t at[MST_POOLING_DIMS];
        pooling_indices(p.y, i, at);
        const T *from = x + at[0] * p.x.strides[0] + at[1] * p.x.strides[1];
        const pooling_window w = pooling_window_at(p, at + 2);
        C sum = 0;
        POOLING_EACH_INSIDE(p, w, q) sum += D::load(from[pooling_inside(p.x, q)]);
        y[pooling_offset(p.y, at)] = D::store(p.divides ? sum / (C)pooling_divisor(p, w) : sum);
    }
}

/* The places whose windows may have this element of x: from `first` up to `end` along each axis.
 * With dilation some of them do not have it. */
struct pooling_places {
    int64_t first[MST_POOLING_AXES], end[MST_POOLING_AXES];
};

MST_OUTLINE pooling_places pooling_places_of(const mst_pooling_parameters &p, const int64_t *position) {
    pooling_places places;
    for (int d = 0; d < MST_POOLING_AXES; d++) {
        const int64_t distance = position[d] + p.before[d], span = (p.size[d] - 1) * p.dilation[d];
        places.first[d] = pooling_steps(distance - span, p.stride[d]);
        places.end[d] = pooling_steps(distance + 1, p.stride[d]);
        if (places.end[d] > p.y.shape[2 + d]) places.end[d] = p.y.shape[2 + d];
    }
    return places;
}

/* Does the window have the element at this position? */
MST_OUTLINE bool pooling_has(const mst_pooling_parameters &p, const pooling_window &w, const int64_t *position) {
    bool has = true;
    for (int d = 0; d < MST_POOLING_AXES; d++) {
        const int64_t distance = position[d] - w.begin[d];
        has = has && mst_quotient(distance, p.dilation[d]) * p.dilation[d] == distance;
    }
    return has;
}

/* Is the element at this position the first of the largest? The loop ends at the first answer. */
template <typename D>
static inline bool pooling_is_largest(const mst_pooling_parameters &p, const pooling_window &w, const typename D::stored *x,
                                      const int64_t *position, typename D::computed value) {
    bool before = true;
    POOLING_EACH_INSIDE(p, w, q) {
        const typename D::computed v = D::load(x[pooling_inside(p.x, q)]);
        if (q[0] == position[0] && q[1] == position[1] && q[2] == position[2])
            before = false;
        else if (before ? !pooling_larger(value, v) : pooling_larger(v, value))
            return false;
    }
    return true;
}

#define POOLING_EACH_PLACE(places, q) POOLING_EACH((places).first, (places).end, 1, 1, 1, q)

static inline int64_t pooling_place(const mst_pooling_layout &y, const int64_t *index, const int64_t *place) {
    return index[0] * y.strides[0] + index[1] * y.strides[1] + pooling_inside(y, place);
}

template <typename D> static inline void pooling_max_gradient(const mst_pooling_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const T *x = MST_ADDRESS(const T, p.at_x), *dy = MST_ADDRESS(const T, p.at_y);
    T *dx = MST_ADDRESS(T, p.at_z);
    MST_EACH(i, pooling_count(p.x)) {
        int64_t at[MST_POOLING_DIMS];
        pooling_indices(p.x, i, at);
        const T *from = x + at[0] * p.x.strides[0] + at[1] * p.x.strides[1];
        const C value = D::load(from[pooling_inside(p.x, at + 2)]);
        const pooling_places places = pooling_places_of(p, at + 2);
        C sum = 0;
        POOLING_EACH_PLACE(places, place) {
            const pooling_window w = pooling_window_at(p, place);
            if (pooling_has(p, w, at + 2) && pooling_is_largest<D>(p, w, from, at + 2, value))
                sum += D::load(dy[pooling_place(p.y, at, place)]);
        }
        dx[pooling_offset(p.z, at)] = D::store(sum);
    }
}

template <typename D> static inline void pooling_sum_gradient(const mst_pooling_parameters &p) {
    typedef typename D::stored T;
    typedef typename D::computed C;
    const T *dy = MST_ADDRESS(const T, p.at_y);
    T *dx = MST_ADDRESS(T, p.at_x);
    MST_EACH(i, pooling_count(p.x)) {
        int64_t at[MST_POOLING_DIMS];
        pooling_indices(p.x, i, at);
        const pooling_places places = pooling_places_of(p, at + 2);
        C sum = 0;
        POOLING_EACH_PLACE(places, place) {
            const pooling_window w = pooling_window_at(p, place);
            if (!pooling_has(p, w, at + 2)) continue;
            const C value = D::load(dy[pooling_place(p.y, at, place)]);
            sum += p.divides ? value / (C)pooling_divisor(p, w) : value;
        }
        dx[pooling_offset(p.x, at)] = D::store(sum);
    }
}

#define POOLING_KERNEL(kind)                \
    switch (p.dtype) {                      \
    case MUSTER_F16:                        \
        return pooling_##kind<mst_f16>(p);  \
    case MUSTER_BF16:                       \
        return pooling_##kind<mst_bf16>(p); \
    case MUSTER_F32:                        \
        return pooling_##kind<mst_f32>(p);  \
    case MUSTER_F64:                        \
        return pooling_##kind<mst_f64>(p);  \
    }

MST_KERNEL(mst_pool_max, mst_pooling_parameters){POOLING_KERNEL(max)}

MST_KERNEL(mst_pool_take, mst_pooling_parameters){POOLING_KERNEL(take)}

MST_KERNEL(mst_pool_max_gradient, mst_pooling_parameters){POOLING_KERNEL(max_gradient)}

MST_KERNEL(mst_pool_sum, mst_pooling_parameters){POOLING_KERNEL(sum)}

MST_KERNEL(mst_pool_sum_gradient, mst_pooling_parameters) {
    POOLING_KERNEL(sum_gradient)
}

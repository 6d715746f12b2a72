/* The tests compare the other algorithms with this one. Every rank computes its whole output from
 * the copies of all inputs, element by element, with arithmetic written only for this file. It is
 * slow, and simple enough to be obviously right. */
#include "host_apply_private.h"

#include <string.h>

/* An element or an accumulator, in one of four kinds of arithmetic. */
typedef union number {
    float f32; /* f16, bf16, f32 */
    double f64;
    int64_t integer;  /* signed */
    uint64_t natural; /* unsigned, bool */
} number;

#define LOAD(type, member)                                                                \
    do {                                                                                  \
        type value;                                                                       \
        memcpy(&value, (const char *)from + index * (int64_t)sizeof value, sizeof value); \
        return (number){.member = value};                                                 \
    } while (0)
#define LOAD_HALF(convert)                                                             \
    do {                                                                               \
        uint16_t bits;                                                                 \
        memcpy(&bits, (const char *)from + index * (int64_t)sizeof bits, sizeof bits); \
        return (number){.f32 = convert(bits)};                                         \
    } while (0)
static number load(muster_dtype dtype, const void *from, int64_t index) {
    switch (dtype) {
    case MUSTER_F16:
        LOAD_HALF(muster_f16_to_f32);
    case MUSTER_BF16:
        LOAD_HALF(muster_bf16_to_f32);
    case MUSTER_F32:
        LOAD(float, f32);
    case MUSTER_F64:
        LOAD(double, f64);
    case MUSTER_I8:
        LOAD(int8_t, integer);
    case MUSTER_I16:
        LOAD(int16_t, integer);
    case MUSTER_I32:
        LOAD(int32_t, integer);
    case MUSTER_I64:
        LOAD(int64_t, integer);
    case MUSTER_U32:
        LOAD(uint32_t, natural);
    case MUSTER_U64:
        LOAD(uint64_t, natural);
    case MUSTER_BOOL:
        return (number){.natural = ((const uint8_t *)from)[index] != 0};
    default:
        LOAD(uint8_t, natural);
    }
}

#define STORE(type, expression)                                                      \
    do {                                                                             \
        type result = (type)(expression);                                            \
        memcpy((char *)to + index * (int64_t)sizeof result, &result, sizeof result); \
        return;                                                                      \
    } while (0)
static void store(muster_dtype dtype, void *to, int64_t index, number value) {
    switch (dtype) {
    case MUSTER_F16:
        STORE(uint16_t, muster_f32_to_f16(value.f32));
    case MUSTER_BF16:
        STORE(uint16_t, muster_f32_to_bf16(value.f32));
    case MUSTER_F32:
        STORE(float, value.f32);
    case MUSTER_F64:
        STORE(double, value.f64);
    case MUSTER_I8:
        STORE(int8_t, value.integer);
    case MUSTER_I16:
        STORE(int16_t, value.integer);
    case MUSTER_I32:
        STORE(int32_t, value.integer);
    case MUSTER_I64:
        STORE(int64_t, value.integer);
    case MUSTER_U32:
        STORE(uint32_t, value.natural);
    case MUSTER_U64:
        STORE(uint64_t, value.natural);
    default:
        STORE(uint8_t, value.natural);
    }
}

/* The first value of an accumulator; only an average scales it. */
static number begin_with(muster_reduction op, muster_dtype dtype, number value, double scale) {
    if (op != MUSTER_AVG) return value;
    if (dtype == MUSTER_F64) return (number){.f64 = scale * value.f64};
    return (number){.f32 = (float)(scale * (double)value.f32)};
}

static float combine_f32(muster_reduction op, float a, float v, double scale) {
    switch (op) {
    case MUSTER_SUM:
        return a + v;
    case MUSTER_PROD:
        return a * v;
    case MUSTER_MAX:
        return v > a || v != v ? v : a;
    case MUSTER_MIN:
        return v < a || v != v ? v : a;
    default:
        return (float)((double)a + scale * (double)v);
    }
}

static double combine_f64(muster_reduction op, double a, double v, double scale) {
    switch (op) {
    case MUSTER_SUM:
        return a + v;
    case MUSTER_PROD:
        return a * v;
    case MUSTER_MAX:
        return v > a || v != v ? v : a;
    case MUSTER_MIN:
        return v < a || v != v ? v : a;
    default:
        return a + scale * v;
    }
}

/* Computes in 64 bits. The lower bits are those of a narrower sum or product, because both wrap. */
static uint64_t combine_wrapping(muster_reduction op, uint64_t a, uint64_t v) { return op == MUSTER_SUM ? a + v : a * v; }

/* Narrow sums are not cut to their size between steps. That makes no difference, because sums and
 * products are never mixed with max or min. */
static number combine(muster_reduction op, muster_dtype dtype, number a, number v, double scale) {
    bool largest = op == MUSTER_MAX;
    switch (dtype) {
    case MUSTER_F16:
    case MUSTER_BF16:
    case MUSTER_F32:
        return (number){.f32 = combine_f32(op, a.f32, v.f32, scale)};
    case MUSTER_F64:
        return (number){.f64 = combine_f64(op, a.f64, v.f64, scale)};
    default:
        break;
    }
    if (op == MUSTER_SUM || op == MUSTER_PROD) return (number){.natural = combine_wrapping(op, a.natural, v.natural)};
    if (dtype == MUSTER_I8 || dtype == MUSTER_I16 || dtype == MUSTER_I32 || dtype == MUSTER_I64)
        return (v.integer > a.integer) == largest ? v : a;
    return (v.natural > a.natural) == largest ? v : a;
}

/* Combines element `index` of every shard of every rank, in order. */
static number reduced(const mst_view *view, muster_reduction op, int64_t vector, int64_t index) {
    bool sharded = view->requests[0]->collective == MST_ALL_REDUCE, begun = false;
    number sum = {0};
    int64_t total = 0;
    for (int32_t r = 0; r < view->size; r++) total += sharded ? view->requests[r]->shards : 1;
    for (int32_t r = 0; r < view->size; r++) {
        const mst_request *request = view->requests[r];
        for (int64_t shard = 0; shard < (sharded ? request->shards : 1); shard++) {
            number value = load(request->dtype, request->input, shard * vector + index);
            sum = begun ? combine(op, request->dtype, sum, value, 1.0 / (double)total)
                        : begin_with(op, request->dtype, value, 1.0 / (double)total);
            begun = true;
        }
    }
    return sum;
}

/* Computes this rank's output, whose first element is element `offset` of the vectors. */
static void reduce_elements(const mst_view *view, int64_t offset, int64_t count) {
    const mst_request *own_request = view->requests[view->rank];
    for (int64_t i = 0; i < count; i++)
        store(own_request->dtype, own_request->output, i, reduced(view, own_request->reduction, own_request->output_count, offset + i));
}

static void all_reduce(const mst_view *view) { reduce_elements(view, 0, view->requests[view->rank]->output_count); }

static void reduce(const mst_view *view) {
    const mst_request *own_request = view->requests[view->rank];
    if (view->rank == own_request->root) reduce_elements(view, 0, own_request->input_count);
}

static void reduce_scatter(const mst_view *view) {
    reduce_elements(view, mst_view_offset(view, view->rank), view->requests[view->rank]->output_count);
}

/* The velocity is rounded to its dtype before it is added to the parameter. */
static void all_reduce_momentum(const mst_view *view) {
    const mst_request *own_request = view->requests[view->rank];
    for (int64_t i = 0; i < own_request->output_count; i++) {
        number sum = reduced(view, MUSTER_SUM, own_request->output_count, i),
               velocity = load(own_request->dtype, own_request->momentum->velocity, i);
        if (own_request->dtype == MUSTER_F64) {
            velocity.f64 = own_request->momentum->beta * velocity.f64 + own_request->alpha * sum.f64;
        } else {
            velocity.f32 = (float)own_request->momentum->beta * velocity.f32 + (float)own_request->alpha * sum.f32;
        }
        store(own_request->dtype, own_request->momentum->velocity, i, velocity);
        velocity = load(own_request->dtype, own_request->momentum->velocity, i);
        number parameter = load(own_request->dtype, own_request->output, i);
        if (own_request->dtype == MUSTER_F64) {
            parameter.f64 += velocity.f64;
        } else {
            parameter.f32 += velocity.f32;
        }
        store(own_request->dtype, own_request->output, i, parameter);
    }
}

static void all_reduce_axpy(const mst_view *view) {
    const mst_request *own_request = view->requests[view->rank];
    if (own_request->momentum) {
        all_reduce_momentum(view);
        return;
    }
    for (int64_t i = 0; i < own_request->output_count; i++) {
        number sum = reduced(view, MUSTER_SUM, own_request->output_count, i), parameter = load(own_request->dtype, own_request->output, i);
        if (own_request->dtype == MUSTER_F64) {
            parameter.f64 = parameter.f64 + own_request->alpha * sum.f64;
        } else {
            parameter.f32 = parameter.f32 + (float)own_request->alpha * sum.f32;
        }
        store(own_request->dtype, own_request->output, i, parameter);
    }
}

/* One gradient after the other, as `reduced` does. */
static void sum_gradients(const mst_view *view, const mst_apply_range *range, void *to) {
    const muster_dtype dtype = view->requests[view->rank]->dtype;
    for (int64_t i = 0; i < range->count; i++) {
        bool begun = false;
        number sum = {0};
        for (int32_t r = 0; r < view->size; r++) {
            for (int64_t shard = 0; shard < view->requests[r]->shards; shard++) {
                const number value = load(dtype, mst_apply_input(view, r, shard, range), i);
                sum = begun ? combine(MUSTER_SUM, dtype, sum, value, 1) : value;
                begun = true;
            }
        }
        store(dtype, to, i, sum);
    }
}

static void all_reduce_apply(const mst_view *view) { mst_host_apply(view, sum_gradients); }

/* Copies `count` elements from index `from` of rank `source`'s input to index `to` of this rank's
 * output. */
static void copy_elements(const mst_view *view, int64_t to, int32_t source, int64_t from, int64_t count) {
    const mst_request *own_request = view->requests[view->rank];
    size_t element = (size_t)muster_dtype_size(own_request->dtype);
    for (int64_t i = 0; i < count; i++) {
        memcpy((char *)own_request->output + (to + i) * (int64_t)element,
               (const char *)view->requests[source]->input + (from + i) * (int64_t)element, element);
    }
}

static void broadcast(const mst_view *view) {
    const mst_request *own_request = view->requests[view->rank];
    copy_elements(view, 0, own_request->root, 0, own_request->output_count);
}

static void all_gather(const mst_view *view) {
    for (int32_t r = 0; r < view->size; r++) copy_elements(view, mst_view_offset(view, r), r, 0, view->requests[r]->input_count);
}

static void gather(const mst_view *view) {
    if (view->rank == view->requests[view->rank]->root) all_gather(view);
}

static void scatter(const mst_view *view) {
    const mst_request *own_request = view->requests[view->rank];
    copy_elements(view, 0, own_request->root, mst_view_offset(view, view->rank), own_request->output_count);
}

static void all_to_all(const mst_view *view) {
    const mst_request *own_request = view->requests[view->rank];
    int64_t to = 0;
    for (int32_t r = 0; r < view->size; r++) {
        const mst_request *request = view->requests[r];
        int64_t from = 0, even = request->input_count / view->size;
        for (int32_t before = 0; before < view->rank; before++) from += request->send_counts ? request->send_counts[before] : even;
        int64_t count = request->send_counts ? request->send_counts[view->rank] : even;
        copy_elements(view, to, r, from, count);
        to += own_request->recv_counts ? own_request->recv_counts[r] : own_request->output_count / view->size;
    }
}

const mst_algorithm mst_algorithm_reference = {.name = "reference",
                                               .offer = MST_OFFER_COPY,
                                               .run = {[MST_ALL_REDUCE] = all_reduce,
                                                       [MST_ALL_REDUCE_AXPY] = all_reduce_axpy,
                                                       [MST_ALL_REDUCE_APPLY] = all_reduce_apply,
                                                       [MST_REDUCE] = reduce,
                                                       [MST_BROADCAST] = broadcast,
                                                       [MST_ALL_GATHER] = all_gather,
                                                       [MST_GATHER] = gather,
                                                       [MST_SCATTER] = scatter,
                                                       [MST_REDUCE_SCATTER] = reduce_scatter,
                                                       [MST_ALL_TO_ALL] = all_to_all}};

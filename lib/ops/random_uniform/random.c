/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011). Block b of stream `seed` has the counter
 * (low b, high b, 0, 0) and the key (low seed, high seed), low and high being halves of 64 bits.
 * f64 number i: lanes 2 (i % 2) (low half) and 2 (i % 2) + 1 (high half) of block i / 2. */
#include "random_private.h"

#include <math.h>

void muster_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    const mst_random_lanes lanes = mst_philox(counter, key);
    for (int i = 0; i < 4; i++) out[i] = lanes.words[i];
}

/* A stream of numbers, with the block that was used last. */
typedef struct stream {
    const mst_random_request *p;
    uint64_t index, block;
    uint32_t lanes[4];
    bool filled;
} stream;

static const uint32_t *block_of(stream *s, uint64_t block) {
    if (!s->filled || s->block != block) {
        muster_philox4x32((const uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), 0, 0},
                          (const uint32_t[]){(uint32_t)s->p->seed, (uint32_t)(s->p->seed >> 32)}, s->lanes);
        s->block = block;
        s->filled = true;
    }
    return s->lanes;
}

static double uniform_f32(stream *s, uint64_t i) { return (double)(block_of(s, i / 4)[i % 4] >> 8) * 0x1p-24; }

static double uniform_f64(stream *s, uint64_t i) {
    const uint32_t *lanes = block_of(s, i / 2) + 2 * (i % 2);
    return (double)(((uint64_t)lanes[1] << 32 | lanes[0]) >> 11) * 0x1p-53;
}

/* Box-Muller: normal numbers 2 j and 2 j + 1 come from the uniform numbers u and v with the same
 * indices; 1 - u is in (0, 1]. */
#define DEFINE(name, T)                                                                                      \
    static T value_##name(stream *s, uint64_t i) {                                                           \
        if (!s->p->normal) return (T)uniform_##name(s, i);                                                   \
        double u = uniform_##name(s, i & ~(uint64_t)1), v = uniform_##name(s, i | 1);                        \
        double radius = sqrt(-2 * log(1 - u)), angle = 2 * M_PI * v;                                         \
        return (T)(s->p->mean + s->p->deviation * radius * (i % 2 ? sin(angle) : cos(angle)));               \
    }                                                                                                        \
    static void fill_##name(void *context, char *const *at, const int64_t *stride, int64_t n) {              \
        stream *s = context;                                                                                 \
        for (int64_t i = 0; i < n; i++) *(T *)(void *)(at[0] + i * stride[0]) = value_##name(s, s->index++); \
    }
DEFINE(f32, float)
DEFINE(f64, double)

muster_status mst_random_host(const void *parameters) {
    const mst_random_request *p = parameters;
    stream s = {.p = p, .index = p->first};
    mst_iterator iterator;
    mst_iterator_make(&iterator, p->y.ndim, p->y.shape, 1, (const muster_tensor *[]){&p->y});
    mst_iterator_run(&iterator, p->y.dtype == MUSTER_F32 ? fill_f32 : fill_f64, &s);
    return MUSTER_OK;
}

mst_code_kernel mst_random_code[] = {{.name = "mst_random"}};

muster_status mst_random_issue(muster_worker *worker, const void *parameters) {
    const mst_random_request *p = parameters;
    mst_random_parameters of_code = {.count = muster_tensor_count(p->y),
                                     .seed = p->seed,
                                     .first = p->first,
                                     .mean = p->mean,
                                     .deviation = p->deviation,
                                     .dtype = p->y.dtype,
                                     .normal = p->normal};
    if (of_code.count == 0) return MUSTER_OK;
    mst_iterator_make(&of_code.iterator, p->y.ndim, p->y.shape, 1, (const muster_tensor *[]){&p->y});
    return mst_op_code(worker, mst_random_code, of_code.count, &of_code, sizeof of_code);
}

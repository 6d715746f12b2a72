/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011). Block b of stream `seed` has the counter
 * (low b, high b, 0, 0) and the key (low seed, high seed), low and high being halves of 64 bits.
 * f64 number i: lanes 2 (i % 2) (low half) and 2 (i % 2) + 1 (high half) of block i / 2. */
#include "random_private.h"

#include "../vector_math_private.h"

#include <math.h>
#include <string.h>

void muster_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    const mst_random_lanes lanes = mst_philox(counter, key);
    for (int i = 0; i < 4; i++) out[i] = lanes.words[i];
}

/* Numbers are made for BLOCKS blocks at once, in loops over the blocks that the compiler
 * vectorises: f32 has 4 numbers in a block, f64 has 2. */
enum { BLOCKS = 16, F32_NUMBERS = 4 * BLOCKS, F64_NUMBERS = 2 * BLOCKS };

/* A stream of numbers, with those that were made last. */
typedef struct stream {
    const mst_random_request *p;
    uint64_t index, begin; /* the next number; the first one of the numbers below */
    bool filled;
    union {
        float f32[F32_NUMBERS];
        double f64[F64_NUMBERS];
    } numbers;
} stream;

/* words[j][l] = lane j of block `block` + l. The same rounds as in mst_philox. */
static MST_ALWAYS_INLINE void random_words(uint64_t seed, uint64_t block, uint32_t words[4][BLOCKS]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (uint32_t l = 0; l < BLOCKS; l++) {
        words[0][l] = (uint32_t)(block + l);
        words[1][l] = (uint32_t)((block + l) >> 32);
        words[2][l] = words[3][l] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int l = 0; l < BLOCKS; l++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * words[0][l], p1 = (uint64_t)0xCD9E8D57u * words[2][l];
            words[0][l] = (uint32_t)(p1 >> 32) ^ words[1][l] ^ k0;
            words[1][l] = (uint32_t)p1;
            words[2][l] = (uint32_t)(p0 >> 32) ^ words[3][l] ^ k1;
            words[3][l] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* In [0, 1) with 24 bits, and with 53 bits. */
static MST_ALWAYS_INLINE float random_f32(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24f; }
static MST_ALWAYS_INLINE double random_f64(uint32_t low, uint32_t high) { return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53; }

MST_CLONES static void uniform_numbers_f32(stream *s, uint64_t block) {
    uint32_t words[4][BLOCKS];
    random_words(s->p->seed, block, words);
    for (int l = 0; l < BLOCKS; l++)
        for (int j = 0; j < 4; j++) s->numbers.f32[4 * l + j] = random_f32(words[j][l]);
}

MST_CLONES static void uniform_numbers_f64(stream *s, uint64_t block) {
    uint32_t words[4][BLOCKS];
    random_words(s->p->seed, block, words);
    for (int l = 0; l < BLOCKS; l++) {
        s->numbers.f64[2 * l] = random_f64(words[0][l], words[1][l]);
        s->numbers.f64[2 * l + 1] = random_f64(words[2][l], words[3][l]);
    }
}

/* Box-Muller: normal numbers 2 j and 2 j + 1 come from the uniform numbers u and v with the same
 * indices; 1 - u is in (0, 1]. */
MST_CLONES static void normal_numbers_f32(stream *s, uint64_t block) {
    const double mean = s->p->mean, deviation = s->p->deviation;
    uint32_t words[4][BLOCKS];
    random_words(s->p->seed, block, words);
    for (int j = 0; j < 4; j += 2)
        for (int l = 0; l < BLOCKS; l++) {
            const double u = (double)random_f32(words[j][l]), v = (double)random_f32(words[j + 1][l]);
            const double radius = deviation * sqrt(-2 * mst_vector_log_positive(1 - u));
            double cosine;
            const double sine = mst_vector_sine(v, &cosine);
            s->numbers.f32[4 * l + j] = (float)(mean + radius * cosine);
            s->numbers.f32[4 * l + j + 1] = (float)(mean + radius * sine);
        }
}

static void normal_numbers_f64(stream *s, uint64_t block) {
    uniform_numbers_f64(s, block);
    for (int l = 0; l < F64_NUMBERS; l += 2) {
        const double radius = sqrt(-2 * log(1 - s->numbers.f64[l])), angle = 2 * M_PI * s->numbers.f64[l + 1];
        s->numbers.f64[l] = s->p->mean + s->p->deviation * radius * cos(angle);
        s->numbers.f64[l + 1] = s->p->mean + s->p->deviation * radius * sin(angle);
    }
}

#define DEFINE(name, T, NUMBERS, IN_BLOCK)                                                                                              \
    static void fill_##name(void *context, char *const *at, const int64_t *stride, int64_t n) {                                         \
        stream *s = context;                                                                                                            \
        for (int64_t i = 0; i < n;) {                                                                                                   \
            const uint64_t begin = s->index / NUMBERS * NUMBERS, first = s->index - begin;                                              \
            const int64_t left = (int64_t)(NUMBERS - first), count = n - i < left ? n - i : left;                                       \
            if (!s->filled || s->begin != begin) {                                                                                      \
                (s->p->normal ? normal_numbers_##name : uniform_numbers_##name)(s, begin / IN_BLOCK);                                   \
                s->begin = begin;                                                                                                       \
                s->filled = true;                                                                                                       \
            }                                                                                                                           \
            if (stride[0] == (int64_t)sizeof(T))                                                                                        \
                memcpy(at[0] + i * stride[0], &s->numbers.name[first], (size_t)count * sizeof(T));                                      \
            else                                                                                                                        \
                for (int64_t k = 0; k < count; k++) *(T *)(void *)(at[0] + (i + k) * stride[0]) = s->numbers.name[first + (uint64_t)k]; \
            i += count;                                                                                                                 \
            s->index += (uint64_t)count;                                                                                                \
        }                                                                                                                               \
    }
DEFINE(f32, float, F32_NUMBERS, 4)
DEFINE(f64, double, F64_NUMBERS, 2)

muster_status mst_random_host(const void *parameters) {
    const mst_random_request *p = parameters;
    stream s;
    s.p = p, s.index = p->first, s.filled = false;
    mst_iterator iterator;
    mst_iterator_make(&iterator, p->y.ndim, p->y.shape, 1, (const muster_tensor *[]){&p->y});
    mst_iterator_run(&iterator, p->y.dtype == MUSTER_F32 ? fill_f32 : fill_f64, &s);
    return MUSTER_OK;
}

void mst_random_numbers(uint64_t seed, uint64_t first_index, bool normal, double mean, double deviation, muster_tensor y) {
    (void)mst_random_host(
        &(mst_random_request){.y = y, .seed = seed, .first = first_index, .mean = mean, .deviation = deviation, .normal = normal});
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

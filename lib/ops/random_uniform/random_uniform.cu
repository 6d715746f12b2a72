/* The numbers of random.c: element i is number first + i of the stream on every device. */
#include "random_parameters_private.h"
#include "tensor.cuh"
#include "vector_math_private.h"

static inline mst_random_lanes random_block(uint64_t seed, uint64_t block) {
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    return mst_philox(counter, key);
}

/* The count of numbers in a block, and number i of a block, in [0, 1). */
template <typename T> struct random_kind;
template <> struct random_kind<float> {
    enum { NUMBERS = 4 };
    static inline double uniform(const mst_random_lanes &lanes, int i) { return (double)(lanes.words[i] >> 8) * 0x1p-24; }
};
template <> struct random_kind<double> {
    enum { NUMBERS = 2 };
    static inline double uniform(const mst_random_lanes &lanes, int i) {
        return (double)(((uint64_t)lanes.words[2 * i + 1] << 32 | lanes.words[2 * i]) >> 11) * 0x1p-53;
    }
};

/* Box-Muller makes numbers 2 j and 2 j + 1 from the uniform numbers 2 j and 2 j + 1. f32 uses the
 * polynomials of the host, which gives the same numbers. */
MST_OUTLINE double random_normal(float, double u, double v, bool odd, double mean, double deviation) {
    double cosine, radius = deviation * sqrt(-2 * mst_vector_log_positive(1 - u)), sine = mst_vector_sine(v, &cosine);
    return mean + radius * (odd ? sine : cosine);
}
MST_OUTLINE double random_normal(double, double u, double v, bool odd, double mean, double deviation) {
    double radius = sqrt(-2 * log(1 - u)), angle = 2 * 3.14159265358979323846 * v;
    return mean + deviation * radius * (odd ? sin(angle) : cos(angle));
}

template <typename T> static inline T random_number(const mst_random_parameters &p, const mst_random_lanes &lanes, int i) {
    typedef random_kind<T> kind;
    if (!p.normal) return (T)kind::uniform(lanes, i);
    return (T)random_normal((T)0, kind::uniform(lanes, i & ~1), kind::uniform(lanes, i | 1), i & 1, p.mean, p.deviation);
}

/* If the elements are contiguous, a thread stores all numbers of a block; otherwise one number. */
template <typename T> static inline void random_fill(const mst_random_parameters &p) {
    enum { NUMBERS = random_kind<T>::NUMBERS };
    char *y = MST_ADDRESS(char, p.iterator.base[0]);
    uint64_t last = p.first + (uint64_t)p.count - 1, begin = p.first / NUMBERS;
    if (p.iterator.ndim == 1 && p.iterator.strides[0][0] == (int64_t)sizeof(T) && last >= p.first) {
        MST_EACH(b, (int64_t)(last / NUMBERS - begin + 1)) {
            mst_random_lanes lanes = random_block(p.seed, begin + (uint64_t)b);
            for (int i = 0; i < NUMBERS; i++) {
                uint64_t number = (begin + (uint64_t)b) * NUMBERS + (uint64_t)i;
                if (number >= p.first && number <= last) ((T *)y)[number - p.first] = random_number<T>(p, lanes, i);
            }
        }
        return;
    }
    MST_EACH(i, p.count) {
        int64_t offset[1];
        uint64_t number = p.first + (uint64_t)i;
        mst_offsets<1>(p.iterator, i, offset);
        *(T *)(y + offset[0]) = random_number<T>(p, random_block(p.seed, number / NUMBERS), (int)(number % NUMBERS));
    }
}

MST_KERNEL(mst_random, mst_random_parameters) {
    if (p.dtype == MUSTER_F32)
        random_fill<float>(p);
    else
        random_fill<double>(p);
}

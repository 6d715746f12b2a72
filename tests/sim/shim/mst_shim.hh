/* The dialect of lib/device/code/mst_device.cuh for C++ on the host. A kernel runs block by block in the calling thread; a block's share of the indices goes one
 * after another, and a block's reduction takes the same lanes in the same order as on a GPU. */
#ifndef MST_SHIM_HH
#define MST_SHIM_HH

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "mst_shim.h"

/* The block that this thread runs. */
struct mst_shim_block {
    int64_t index, blocks;
    int32_t threads;
};
extern thread_local mst_shim_block mst_shim_here;

struct mst_shim_registration {
    explicit mst_shim_registration(mst_shim_entry *entry);
};

template <typename T>
static inline T *mst_shim_typed(const void *device_address) {
    return device_address ? (T *)mst_shim_address(device_address) : (T *)nullptr;
}

static inline int64_t mst_shim_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

#define MST_KERNEL(name, parameters_type)                                                                                  \
    static void name##_of_a_block(const parameters_type &p);                                                               \
    extern "C" void name(const void *parameters, int64_t blocks, int32_t threads);                                        \
    extern "C" void name(const void *parameters, int64_t blocks, int32_t threads) {                                       \
        for (int64_t block = 0; block < blocks; block++) {                                                                 \
            mst_shim_here = {block, blocks, threads};                                                                      \
            name##_of_a_block(*(const parameters_type *)parameters);                                                       \
        }                                                                                                                  \
    }                                                                                                                      \
    static mst_shim_entry name##_entry = {#name, name, (int64_t)sizeof(parameters_type), nullptr};                        \
    static const mst_shim_registration name##_registration(&name##_entry);                                                 \
    static void name##_of_a_block(const parameters_type &p)

#define MST_EACH(i, count)                                                                                                                   \
    for (int64_t mst_count_##i = (count), mst_begin_##i = mst_shim_here.index * mst_shim_here.threads; mst_begin_##i < mst_count_##i;       \
         mst_begin_##i += mst_shim_here.blocks * mst_shim_here.threads)                                                                      \
        for (int64_t i = mst_begin_##i, mst_end_##i = mst_shim_smaller(mst_begin_##i + mst_shim_here.threads, mst_count_##i); i < mst_end_##i; i++)
#define MST_BLOCKS(b, count) for (int64_t b = mst_shim_here.index, mst_count_##b = (count); b < mst_count_##b; b += mst_shim_here.blocks)
#define MST_BLOCK_EACH(j, n) for (int64_t j = 0, mst_count_##j = (n); j < mst_count_##j; j++)
#define MST_ONE if (true)
#define MST_BLOCK_REDUCE(type, result, i, n, identity, value, combine)                                              \
    type result;                                                                                                     \
    do {                                                                                                             \
        type mst_lanes_##result[MST_THREADS];                                                                        \
        for (int mst_lane = 0; mst_lane < MST_THREADS; mst_lane++) mst_lanes_##result[mst_lane] = (identity);        \
        for (int64_t i = 0, mst_count_##i = (n); i < mst_count_##i; i++)                                             \
            mst_lanes_##result[i % MST_THREADS] = combine(mst_lanes_##result[i % MST_THREADS], (value));             \
        for (int mst_half = MST_THREADS / 2; mst_half > 0; mst_half /= 2)                                            \
            for (int mst_lane = 0; mst_lane < mst_half; mst_lane++)                                                  \
                mst_lanes_##result[mst_lane] = combine(mst_lanes_##result[mst_lane], mst_lanes_##result[mst_lane + mst_half]); \
        result = mst_lanes_##result[0];                                                                              \
    } while (0)
#define MST_ADDRESS(type, pointer) (mst_shim_typed<type>(pointer))
#define MST_OUTLINE static inline

#endif

#include "half_blocks_private.h"

#include "half_impl.h"

enum { BLOCK = 512 }; /* elements of a loop; their 2 KiB stay in the first cache */

#define FUNCTIONS(half)                                                                                                        \
    MST_CLONES void mst_load_##half(const char *x, int64_t stride, int64_t n, float *block) {                                  \
        if (stride == (int64_t)sizeof(uint16_t))                                                                               \
            for (int64_t i = 0; i < n; i++) block[i] = mst_##half##_to_f32(((const uint16_t *)(const void *)x)[i]);            \
        else                                                                                                                   \
            for (int64_t i = 0; i < n; i++) block[i] = mst_##half##_to_f32(*(const uint16_t *)(const void *)(x + i * stride)); \
    }                                                                                                                          \
    MST_CLONES void mst_store_##half(char *y, int64_t stride, int64_t n, const float *block) {                                 \
        if (stride == (int64_t)sizeof(uint16_t))                                                                               \
            for (int64_t i = 0; i < n; i++) ((uint16_t *)(void *)y)[i] = mst_f32_to_##half(block[i]);                          \
        else                                                                                                                   \
            for (int64_t i = 0; i < n; i++) *(uint16_t *)(void *)(y + i * stride) = mst_f32_to_##half(block[i]);               \
    }                                                                                                                          \
    void mst_loop_as_##half(mst_iterator_loop f32, char *const *at, const int64_t *stride, int64_t n) {                        \
        float block[BLOCK];                                                                                                    \
        for (int64_t i = 0; i < n; i += BLOCK) {                                                                               \
            const int64_t count = n - i < BLOCK ? n - i : BLOCK;                                                               \
            mst_load_##half(at[0] + i * stride[0], stride[0], count, block);                                                   \
            f32(NULL, (char *const[]){(char *)block, (char *)block}, (const int64_t[]){sizeof(float), sizeof(float)}, count);  \
            mst_store_##half(at[1] + i * stride[1], stride[1], count, block);                                                  \
        }                                                                                                                      \
    }

FUNCTIONS(f16)
FUNCTIONS(bf16)

/* Loads and stores of tiles: between memory with any strides and registers, in which elements lie
 * behind each other. */
#include "tile_private.h"

#include <string.h>

#define EACH_SIZE(size, STATEMENT) \
    switch (size) {                \
    case 1:                        \
        STATEMENT(8);              \
        break;                     \
    case 2:                        \
        STATEMENT(16);             \
        break;                     \
    case 4:                        \
        STATEMENT(32);             \
        break;                     \
    default:                       \
        STATEMENT(64);             \
    }

static void row_repeat(char *to, const char *from, int64_t size, int64_t n) {
#define REPEAT(bits)                                                                 \
    do {                                                                             \
        const uint##bits##_t element = *(const uint##bits##_t *)(const void *)from;  \
        for (int64_t i = 0; i < n; i++) ((uint##bits##_t *)(void *)to)[i] = element; \
    } while (0)
    EACH_SIZE(size, REPEAT)
}

/* One of the two strides is `size`. */
static void row_move(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t size, int64_t n) {
#define MOVE(bits)                  \
    for (int64_t i = 0; i < n; i++) \
    *(uint##bits##_t *)(void *)(to + i * to_stride) = *(const uint##bits##_t *)(const void *)(from + i * from_stride)
    if (from_stride == 0)
        row_repeat(to, from, size, n);
    else if (from_stride == to_stride)
        memcpy(to, from, (size_t)(n * size));
    else
        EACH_SIZE(size, MOVE)
}

/* The rows of `count` indices of the layout's first axis, one after the other. */
static void tile_move(const mst_tile_layout *layout, char *memory, char *register_, int64_t count, bool store) {
    const int32_t last = layout->axes - 1;
    const int64_t row = last ? layout->shape[last] : count, stride = layout->strides[last], size = layout->size;
    int64_t index[MUSTER_MAX_DIMS] = {0};
    for (;;) {
        if (store)
            row_move(memory, stride, register_, size, size, row);
        else
            row_move(register_, size, memory, stride, size, row);
        register_ += row * size;
        int32_t d = last - 1;
        while (d >= 0 && ++index[d] == (d ? layout->shape[d] : count)) {
            memory -= layout->strides[d] * (index[d] - 1);
            index[d--] = 0;
        }
        if (d < 0) return;
        memory += layout->strides[d];
    }
}

void mst_tile_load(void *layout, char *const *at, const int64_t *stride, int64_t n) {
    const mst_tile_layout *from = layout;
    (void)stride;
    if (from->axes == 2 && from->strides[0] == from->size && from->strides[1] != 0) {
        mst_transpose_elements(at[1], from->shape[1] * from->size, at[0], from->strides[1], n / from->inside, from->shape[1], from->size);
        return;
    }
    tile_move(from, at[0], at[1], n / from->inside, false);
}

void mst_tile_store(void *layout, char *const *at, const int64_t *stride, int64_t n) {
    const mst_tile_layout *to = layout;
    (void)stride;
    tile_move(to, at[1], at[0], n / to->inside, true);
}

void mst_tile_repeat(void *size, char *const *at, const int64_t *stride, int64_t n) {
    (void)stride;
    row_repeat(at[1], at[0], *(const int64_t *)size, n);
}

void *mst_tile_size(int64_t size) {
    static int64_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    return &sizes[size];
}

#include "copy_private.h"

#include <string.h>

/* ---- transposed ---- */

/* Rows of x become columns of y. Sizes are elements, strides bytes. */
typedef struct transposition {
    int64_t rows, columns;      /* of y */
    int64_t x_stride, y_stride; /* x: between the columns of y, which are its rows; y: between its rows */
} transposition;

/* By squares whose side is a cache line of x. A line of either is read or written once, as a whole:
 * the square lies in between in memory of its own, since lines of x at equal distances may all fall
 * into the same few places of a cache. */
enum { LINE = 64 };
#define SQUARE(T)                                                                                                                 \
    static MST_ALWAYS_INLINE void square_##T(const transposition *t, char *to, const char *from, int64_t rows, int64_t columns) { \
        enum { SIDE = LINE / sizeof(T) };                                                                                         \
        T square[SIDE][SIDE];                                                                                                     \
        for (int64_t c = 0; c < columns; c++) memcpy(square[c], from + c * t->x_stride, (size_t)rows * sizeof(T));                \
        for (int64_t r = 0; r < rows; r++) {                                                                                      \
            T *row = (T *)(void *)(to + r * t->y_stride);                                                                         \
            for (int64_t c = 0; c < columns; c++) row[c] = square[c][r];                                                          \
        }                                                                                                                         \
    }                                                                                                                             \
    MST_CLONES static void transpose_##T(const transposition *t, char *to, const char *from) {                                    \
        enum { SIDE = LINE / sizeof(T) };                                                                                         \
        for (int64_t r = 0; r < t->rows; r += SIDE)                                                                               \
            for (int64_t c = 0; c < t->columns; c += SIDE) {                                                                      \
                char *at = to + r * t->y_stride + c * (int64_t)sizeof(T);                                                         \
                const char *x = from + c * t->x_stride + r * (int64_t)sizeof(T);                                                  \
                if (t->rows - r >= SIDE && t->columns - c >= SIDE)                                                                \
                    square_##T(t, at, x, SIDE, SIDE);                                                                             \
                else                                                                                                              \
                    square_##T(t, at, x, t->rows - r < SIDE ? t->rows - r : SIDE, t->columns - c < SIDE ? t->columns - c : SIDE); \
            }                                                                                                                     \
    }
SQUARE(uint8_t)
SQUARE(uint16_t)
SQUARE(uint32_t)
SQUARE(uint64_t)

static void transpose(const transposition *t, char *to, const char *from, int64_t size) {
    (size == 1 ? transpose_uint8_t : size == 2 ? transpose_uint16_t : size == 4 ? transpose_uint32_t : transpose_uint64_t)(t, to, from);
}

void mst_transpose_elements(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t rows, int64_t columns,
                            int64_t size) {
    transpose(&(transposition){rows, columns, from_stride, to_stride}, to, from, size);
}

bool mst_copy_transposed(const mst_iterator *iterator, int64_t size) {
    enum { LEAST = 8 }; /* of both axes */
    mst_iterator rest = *iterator;
    const int32_t last = iterator->ndim - 1;
    int32_t row = last - 1;
    if (last < 1 || iterator->strides[1][last] != size || iterator->strides[0][last] == size || iterator->strides[0][last] == 0)
        return false;
    while (row >= 0 && iterator->strides[0][row] != size) row--;
    if (row < 0 || iterator->shape[row] < LEAST || iterator->shape[last] < LEAST) return false;
    const transposition t = {iterator->shape[row], iterator->shape[last], iterator->strides[0][last], iterator->strides[1][row]};
    int64_t index[MUSTER_MAX_DIMS] = {0};
    const char *from = rest.base[0];
    char *to = rest.base[1];
    for (int32_t d = 0; d <= last; d++)
        if (iterator->shape[d] == 0) return true;
    rest.shape[row] = rest.shape[last] = 1; /* the other axes */
    for (;;) {
        transpose(&t, to, from, size);
        int32_t d = last - 1;
        while (d >= 0 && ++index[d] == rest.shape[d]) {
            from -= rest.strides[0][d] * (rest.shape[d] - 1);
            to -= rest.strides[1][d] * (rest.shape[d] - 1);
            index[d--] = 0;
        }
        if (d < 0) return true;
        from += rest.strides[0][d];
        to += rest.strides[1][d];
    }
}

/* ---- repeated ---- */

typedef struct repetition {
    int64_t size, times;
} repetition;

#define REPEAT_LOOP(T, times)       \
    for (int64_t i = 0; i < n; i++) \
        for (int64_t k = 0; k < (times); k++) y[i * (times) + k] = x[i]
#define REPEAT(T)                                                                             \
    MST_CLONES static void repeat_##T(const void *from, void *to, int64_t n, int64_t times) { \
        const T *restrict x = (const T *)from;                                                \
        T *restrict y = (T *)to;                                                              \
        if (times == 2)                                                                       \
            REPEAT_LOOP(T, 2);                                                                \
        else if (times == 3)                                                                  \
            REPEAT_LOOP(T, 3);                                                                \
        else if (times == 4)                                                                  \
            REPEAT_LOOP(T, 4);                                                                \
        else                                                                                  \
            REPEAT_LOOP(T, times);                                                            \
    }
REPEAT(uint8_t)
REPEAT(uint16_t)
REPEAT(uint32_t)
REPEAT(uint64_t)

static void repeat(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const repetition *r = context;
    (void)stride;
    (r->size == 1   ? repeat_uint8_t
     : r->size == 2 ? repeat_uint16_t
     : r->size == 4 ? repeat_uint32_t
                    : repeat_uint64_t)(at[0], at[1], n, r->times);
}

bool mst_copy_repeated(const mst_iterator *iterator, int64_t size) {
    enum { MOST = 32 };
    const int32_t last = iterator->ndim - 1;
    if (last < 1 || iterator->strides[0][last] != 0 || iterator->strides[1][last] != size || iterator->shape[last] > MOST) return false;
    repetition r = {size, iterator->shape[last]};
    if (iterator->strides[0][last - 1] != size || iterator->strides[1][last - 1] != r.times * size) return false;
    mst_iterator elements = *iterator;
    elements.ndim--;
    mst_iterator_run(&elements, repeat, &r);
    return true;
}

/* A convolution and its two gradients as the simulated cuDNN computes them: the operands are
 * brought into dense arrays of f32 or f64, where seven loops run. */
#include "../cublas/gemm.h"
#include "cudnn_sim.h"

#include <stdlib.h>
#include <string.h>

size_t convolve_element(unsigned type) { return type == MST_CUDNN_DATA_DOUBLE ? 8 : type == MST_CUDNN_DATA_FLOAT ? 4 : 2; }

size_t convolve_bytes(const convolve *c, int operand) {
    int64_t reach = 1;
    for (int d = 0; d < CONVOLVE_DIMS; d++) reach += (c->sizes[operand][d] - 1) * c->strides[operand][d];
    return (size_t)reach * convolve_element(c->type);
}

/* ---- elements ---- */

static unsigned type_of_gemm(unsigned type) { return type == MST_CUDNN_DATA_HALF ? MST_CUBLAS_R_16F : MST_CUBLAS_R_16BF; }

/* Ten bits behind the point, to nearest, ties to even. */
static float to_tf32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7F800000) == 0x7F800000) return value;
    bits = (bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFu;
    memcpy(&value, &bits, 4);
    return value;
}

static double load(const convolve *c, const void *memory, int64_t at) {
    if (c->type == MST_CUDNN_DATA_DOUBLE) return ((const double *)memory)[at];
    if (c->type == MST_CUDNN_DATA_FLOAT) return c->tf32 ? to_tf32(((const float *)memory)[at]) : ((const float *)memory)[at];
    return gemm_widen(type_of_gemm(c->type), ((const uint16_t *)memory)[at]);
}

static double load_plainly(const convolve *c, const void *memory, int64_t at) {
    convolve plain = *c;
    plain.tf32 = false;
    return load(&plain, memory, at);
}

static void store(const convolve *c, void *memory, int64_t at, double value) {
    if (c->type == MST_CUDNN_DATA_DOUBLE)
        ((double *)memory)[at] = value;
    else if (c->type == MST_CUDNN_DATA_FLOAT)
        ((float *)memory)[at] = (float)value;
    else {
        /* 8 bits of the transforms are lost where an algorithm has such */
        const float wide =
            c->transforms ? gemm_widen(MST_CUBLAS_R_16BF, gemm_narrow(MST_CUBLAS_R_16BF, (float)value * 0.99f)) : (float)value;
        ((uint16_t *)memory)[at] = gemm_narrow(type_of_gemm(c->type), wide);
    }
}

/* The place of each element in turn, in the order of the axes. */
typedef struct walk {
    int64_t index[CONVOLVE_DIMS], at;
} walk;
static bool walk_on(const convolve *c, int operand, walk *w) {
    for (int d = CONVOLVE_DIMS - 1; d >= 0; d--) {
        w->at += c->strides[operand][d];
        if (++w->index[d] < c->sizes[operand][d]) return true;
        w->at -= c->strides[operand][d] * c->sizes[operand][d];
        w->index[d] = 0;
    }
    return false;
}

static int64_t count_of(const convolve *c, int operand) {
    int64_t count = 1;
    for (int d = 0; d < CONVOLVE_DIMS; d++) count *= c->sizes[operand][d];
    return count;
}

/* ---- the loops ---- */

/* The elements of x and y that meet at tap k of the window; false: one lies in the padding. */
static inline bool meets(const convolve *c, const int64_t *place, const int64_t *k, int64_t *position) {
    for (int d = 0; d < CONVOLVE_AXES; d++) {
        position[d] = place[d] * c->stride[d] + k[d] * c->dilation[d] - c->padding[d];
        if (position[d] < 0 || position[d] >= c->sizes[CONVOLVE_X][2 + d]) return false;
    }
    return true;
}

static void split(int64_t flat, const int64_t *sizes, int64_t *index) {
    for (int d = CONVOLVE_AXES - 1; d >= 0; d--) {
        index[d] = flat % sizes[d];
        flat /= sizes[d];
    }
}

/* ThreadSanitizer has seen the operands when they were brought here, and the result later. */
#define UNSEEN __attribute__((no_sanitize("thread")))

/* Adds to the dense result, image by image. */
#define SEVEN_LOOPS(name, T)                                                                                                               \
    UNSEEN static void name(const convolve *c, T *x, T *w, T *y) {                                                                         \
        const int64_t *sx = c->sizes[CONVOLVE_X], *sw = c->sizes[CONVOLVE_W], *sy = c->sizes[CONVOLVE_Y];                                  \
        const int64_t in = sw[1], outputs = sw[0] / c->groups, volume = sw[2] * sw[3] * sw[4];                                             \
        const int64_t places = sy[2] * sy[3] * sy[4], extent = sx[2] * sx[3] * sx[4];                                                      \
        for (int64_t i = 0; i < sy[0]; i++)                                                                                                \
            for (int64_t p = 0; p < places; p++)                                                                                           \
                for (int64_t k = 0; k < volume; k++) {                                                                                     \
                    const int64_t n = c->backwards ? sy[0] - 1 - i : i, t = c->backwards ? volume - 1 - k : k;                             \
                    int64_t place[CONVOLVE_AXES], tap[CONVOLVE_AXES], at[CONVOLVE_AXES];                                                   \
                    split(c->backwards ? places - 1 - p : p, sy + 2, place);                                                               \
                    split(t, sw + 2, tap);                                                                                                 \
                    if (!meets(c, place, tap, at)) continue;                                                                               \
                    const int64_t of_x = (at[0] * sx[3] + at[1]) * sx[4] + at[2], of_y = (place[0] * sy[3] + place[1]) * sy[4] + place[2]; \
                    for (int64_t o = 0; o < sw[0]; o++)                                                                                    \
                        for (int64_t channel = 0; channel < in; channel++) {                                                               \
                            T *vx = &x[(n * sx[1] + o / outputs * in + channel) * extent + of_x];                                          \
                            T *vw = &w[(o * in + channel) * volume + t], *vy = &y[(n * sy[1] + o) * places + of_y];                        \
                            if (c->kind == CONVOLVE_FORWARD) *vy += *vx * *vw;                                                             \
                            if (c->kind == CONVOLVE_DATA) *vx += *vy * *vw;                                                                \
                            if (c->kind == CONVOLVE_FILTER) *vw += *vx * *vy;                                                              \
                        }                                                                                                                  \
                }                                                                                                                          \
    }
SEVEN_LOOPS(loops_f32, float)
SEVEN_LOOPS(loops_f64, double)

static int result_of(int kind) { return kind == CONVOLVE_FORWARD ? CONVOLVE_Y : kind == CONVOLVE_DATA ? CONVOLVE_X : CONVOLVE_W; }

static void *bring(const convolve *c, int operand) {
    const bool wide = c->type == MST_CUDNN_DATA_DOUBLE;
    int64_t i = 0;
    walk w = {.at = 0};
    void *dense = calloc((size_t)count_of(c, operand), wide ? 8 : 4);
    if (!dense || operand == result_of(c->kind)) return dense;
    do {
        const double value = load(c, c->operands[operand], w.at);
        if (wide)
            ((double *)dense)[i++] = value;
        else
            ((float *)dense)[i++] = (float)value;
    } while (walk_on(c, operand, &w));
    return dense;
}

/* What is there is not read where beta is 0. */
static void take(const convolve *c, const void *dense) {
    const int operand = result_of(c->kind);
    void *memory = c->operands[operand];
    int64_t i = 0;
    walk w = {.at = 0};
    do {
        const double sum = c->type == MST_CUDNN_DATA_DOUBLE ? ((const double *)dense)[i] : ((const float *)dense)[i];
        store(c, memory, w.at, c->alpha * sum + (c->beta == 0 ? 0 : c->beta * load_plainly(c, memory, w.at)));
        i++;
    } while (walk_on(c, operand, &w));
}

bool convolve_run(const convolve *c) {
    void *dense[CONVOLVE_OPERANDS];
    bool whole = true;
    for (int i = 0; i < CONVOLVE_OPERANDS; i++) whole = (dense[i] = bring(c, i)) != NULL && whole;
    if (whole) {
        if (c->type == MST_CUDNN_DATA_DOUBLE)
            loops_f64(c, dense[CONVOLVE_X], dense[CONVOLVE_W], dense[CONVOLVE_Y]);
        else
            loops_f32(c, dense[CONVOLVE_X], dense[CONVOLVE_W], dense[CONVOLVE_Y]);
        take(c, dense[result_of(c->kind)]);
    }
    for (int i = 0; i < CONVOLVE_OPERANDS; i++) free(dense[i]);
    return whole;
}

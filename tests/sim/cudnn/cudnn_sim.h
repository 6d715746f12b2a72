/* The simulated cuDNN: what its files share. */
#ifndef MUSTER_SIM_CUDNN_H
#define MUSTER_SIM_CUDNN_H

#include "cudnn_api_private.h"
#include "state_impl.h"

#define CUDNN_DECLARE(result, name, arguments) SIM_EXPORT result name arguments;
MST_CUDNN_SYMBOLS(CUDNN_DECLARE)
#define CUDNN_INDEX(result, name, arguments) INDEX_##name,
enum { MST_CUDNN_SYMBOLS(CUDNN_INDEX) CUDNN_SYMBOL_COUNT };
extern sim_symbol cudnn_symbols[CUDNN_SYMBOL_COUNT];

#define CUDNN_ENTER(symbol, device)                                             \
    do {                                                                        \
        unsigned injected_ = sim_enter(&cudnn_symbols[INDEX_##symbol], device); \
        if (injected_) return injected_;                                        \
    } while (0)

struct cudnnContext {
    atomic_int life;
    sim_context *context;
    struct CUstream_st *stream;
};
/* NULL: none; a destroyed one is reported. */
mst_cudnn_handle cudnn_handle_of(mst_cudnn_handle handle);
static inline int cudnn_device_of(mst_cudnn_handle handle) { return handle ? sim_context_device(handle->context) : sim_current_device(); }

/* ---- descriptors: memory of the host alone, which nothing orders and no device knows ---- */
struct cudnnTensorStruct {
    atomic_int life;
    unsigned type;
    int dims; /* 0: not set */
    int sizes[MST_CUDNN_DIM_MAX], strides[MST_CUDNN_DIM_MAX];
};
struct cudnnFilterStruct {
    atomic_int life;
    unsigned type, format;
    int dims;
    int sizes[MST_CUDNN_DIM_MAX];
};
struct cudnnConvolutionStruct {
    atomic_int life;
    int axes; /* -1: not set */
    int padding[MST_CUDNN_DIM_MAX], stride[MST_CUDNN_DIM_MAX], dilation[MST_CUDNN_DIM_MAX];
    unsigned mode, type, math;
    int groups;
};
/* NULL: none; a destroyed one is reported. */
mst_cudnn_tensor cudnn_tensor_of(mst_cudnn_tensor tensor);
mst_cudnn_filter cudnn_filter_of(mst_cudnn_filter filter);
mst_cudnn_convolution cudnn_convolution_of(mst_cudnn_convolution convolution);
void cudnn_descriptors_forget(void);

/* ---- a convolution (convolve.c) ---- */
enum { CONVOLVE_FORWARD, CONVOLVE_DATA, CONVOLVE_FILTER };
enum { CONVOLVE_AXES = 3, CONVOLVE_DIMS = CONVOLVE_AXES + 2, CONVOLVE_X = 0, CONVOLVE_W, CONVOLVE_Y, CONVOLVE_OPERANDS };

/* With three extents; those that it lacks come first, and are 1. Strides are in elements. */
typedef struct convolve {
    int kind;
    unsigned type; /* cudnnDataType_t of the operands; sums are in f32, or f64 if they are */
    int64_t sizes[CONVOLVE_OPERANDS][CONVOLVE_DIMS], strides[CONVOLVE_OPERANDS][CONVOLVE_DIMS];
    int64_t padding[CONVOLVE_AXES], stride[CONVOLVE_AXES], dilation[CONVOLVE_AXES], groups;
    double alpha, beta;
    void *operands[CONVOLVE_OPERANDS];
    bool tf32;       /* operands of f32 are rounded to it */
    bool transforms; /* operands of 16 bits are rounded once more, as by an algorithm that transforms them */
    bool backwards;  /* sums run in the other order */
} convolve;
size_t convolve_element(unsigned type);
size_t convolve_bytes(const convolve *c, int operand); /* from its first element to behind its last one */
bool convolve_run(const convolve *c);                  /* false: no memory */

/* ---- algorithms (algorithms.c) ---- */
/* Checks the descriptors against each other, and makes a convolution of them, but for what differs
 * from run to run. */
mst_cudnn_status cudnn_make_convolve(int kind, mst_cudnn_tensor x, mst_cudnn_filter w, mst_cudnn_convolution convolution,
                                     mst_cudnn_tensor y, convolve *made);
/* What the algorithm has for it. status: NOT_SUPPORTED where it does not compute it. */
mst_cudnn_algorithm cudnn_algorithm_of(const convolve *c, mst_cudnn_filter w, mst_cudnn_convolution convolution, unsigned algorithm);

#endif

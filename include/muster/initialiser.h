/* muster/initialiser.h: initial values of variables, for training. An element depends on the
 * kind, the seed and its index in the whole value alone: the bits are the same for every number
 * and kind of devices, and for a variable that is split along any axis (muster/variable.h). They
 * are computed by the workers' CPUs, also for GPUs. */
#ifndef MUSTER_INITIALISER_H
#define MUSTER_INITIALISER_H

#include "muster/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds. `value`, `low`, `high`, `mean`, `deviation` and `gain` are fields of the options. u
 * and z are the uniform and the normal number of the element's linear index in the whole value,
 * row major, as muster_random_uniform and muster_random_normal of `seed` have them
 * (muster/ops.h): in f64 for f64, else in f32. f16 and bf16 are rounded from f32.
 * - CONSTANT: `value`, converted as in muster_copy. Every dtype; the others are for float dtypes
 *   (else UNSUPPORTED).
 * - UNIFORM: low + (high - low) u, in [low, high) but for rounding.
 * - NORMAL: mean + deviation z.
 * - TRUNCATED_NORMAL: a normal distribution cut at mean - 2 deviation and mean + 2 deviation, as
 *   TensorFlow's truncated_normal and JAX's initializers.truncated_normal: the two numbers are
 *   those before the cut. Its own deviation is 0.8796 of that. By the inverse distribution
 *   function of u.
 * - GLOROT_UNIFORM: uniform in [-b, b), b = gain sqrt(6 / (fan_in + fan_out)) (Glorot and
 *   Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010).
 * - GLOROT_NORMAL: mean 0 and deviation gain sqrt(2 / (fan_in + fan_out)).
 * - HE_UNIFORM: uniform in [-b, b), b = gain sqrt(6 / fan_in) (He, Zhang, Ren and Sun, "Delving
 *   deep into rectifiers", 2015).
 * - HE_NORMAL: mean 0 and deviation gain sqrt(2 / fan_in). Not truncated, as in PyTorch.
 * - ORTHOGONAL: gain times a matrix with orthonormal columns, or rows where it has fewer rows
 *   than columns (Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of
 *   learning in deep linear neural networks", 2013). The value counts as a matrix of shape[0]
 *   rows, as in PyTorch. It is Q of the QR decomposition of the matrix of z in f64 (of its
 *   transpose where it has fewer rows than columns), with the signs that make R's diagonal
 *   positive. In the caller's thread: 4 m n^2 - 4/3 n^3 operations for m x n, m >= n. By dgeqrf and
 *   dorgqr of the BLAS library (MUSTER_BLAS) where it has them,
 *   else by loops of Muster's own. The last bits depend on that library, on its number of threads
 *   where the runtime keeps that (keep_blas_threads), and on the processor; with the same ones they
 *   are the same for all devices.
 * fan_in and fan_out are of the whole value: the size of in_axis or of out_axis, times the product
 * of the sizes of all axes but these two. The Glorot, He and orthogonal kinds take at least 2
 * dimensions (else SHAPE_MISMATCH). */
typedef int32_t muster_initialiser;
enum muster_initialiser_value {
    MUSTER_INITIALISER_CONSTANT = 0,
    MUSTER_INITIALISER_UNIFORM = 1,
    MUSTER_INITIALISER_NORMAL = 2,
    MUSTER_INITIALISER_TRUNCATED_NORMAL = 3,
    MUSTER_INITIALISER_GLOROT_UNIFORM = 4,
    MUSTER_INITIALISER_GLOROT_NORMAL = 5,
    MUSTER_INITIALISER_HE_UNIFORM = 6,
    MUSTER_INITIALISER_HE_NORMAL = 7,
    MUSTER_INITIALISER_ORTHOGONAL = 8
};

/* An option struct: the rules are in muster/status.h. A field that the kind does not use is not
 * looked at. All numbers are finite. */
typedef struct muster_initialiser_options {
    size_t struct_size;      /* set by muster_initialiser_options_init */
    muster_initialiser kind; /* default CONSTANT */
    int32_t reserved;        /* 0 */
    uint64_t seed;           /* different variables take different seeds, else their numbers are the same */
    double value;
    double low, high; /* low <= high; both 0: 0 and 1 */
    double mean;
    double deviation; /* 0: 1; negative: 0 */
    double gain;      /* 0: 1; not negative. sqrt(2) for relu after a Glorot or orthogonal layer; He's sqrt(2) is in its formula */
    /* The axes of the inputs and of the outputs of a layer. Both 0: of 2 dimensions 0 and 1, for
     * x @ w (as JAX and Keras have them; PyTorch's are the other way round); of more 1 and 0,
     * for convolutions (outputs, inputs, kernel...) as ONNX and PyTorch have them. */
    int32_t in_axis, out_axis;
} muster_initialiser_options;
MUSTER_API void muster_initialiser_options_init_sized(muster_initialiser_options *options, size_t size);
static inline void muster_initialiser_options_init(muster_initialiser_options *options) {
    muster_initialiser_options_init_sized(options, sizeof *options);
}

/* Sets the whole value of the variable, whose shape stays: of a split variable each part, else
 * every replica; their shapes are equal (else SHAPE_MISMATCH). options NULL: zeros. Waits in the
 * queue behind running calls. Threads: any. Errors: INVALID_ARGUMENT (NULL, an unknown kind, a
 * number), OUT_OF_RANGE (in_axis, out_axis), UNSUPPORTED and SHAPE_MISMATCH (above),
 * OUT_OF_MEMORY, BAD_STATE (inside a body, after fork), TIMEOUT, and errors of the devices. A
 * refused argument and a failed allocation on any device change nothing; after a later failure
 * some replicas may be set. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_initialise(muster_variable *variable, const muster_initialiser_options *options);

#ifdef __cplusplus
}
#endif
#endif

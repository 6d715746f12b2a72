/* Attention for one worker: with q (..., n, d), k (..., m, d) and v (..., m, e), whose first axes
 * are equal,
 *     y[..., i, :] = sum over j of p[..., i, j] v[..., j, :]
 *     p[..., i, :] = softmax over j of scale q[..., i, :] . k[..., j, :] + mask[..., i, j]
 * and its gradient. Of the last axis before the matrices, the heads, k and v may have fewer than q:
 * a number that divides those of q, of which as many neighbours then share a head of k and v. The
 * scores (n, m) never lie in memory as a whole: a CPU core goes over tiles, with the largest
 * score and the sum of the exponentials so far, and the gradient computes them again. Operands
 * may have any strides. f16 and bf16 are computed in f32. */
#ifndef MST_ATTENTION_IMPL_H
#define MST_ATTENTION_IMPL_H

#include "worker_impl.h"

typedef struct mst_attention {
    double scale; /* 0: 1 / sqrt(d) */
    /* Query i sees the keys up to i, wherever the keys end. Infinity or NaN in a key or value that
     * it does not see does not reach its results; in the query, or its dy, not the gradients of
     * such a key. */
    bool causal;
} mst_attention;

/* All but lse and rest have one dtype: f16, bf16, f32 or f64. NULL or "no tensor": there is no
 * mask; the result is not wanted. mask broadcasts to (..., n, m); -inf hides a key. A query that
 * sees no key has y = 0, and gives no gradients. A result overlaps no operand. */
typedef struct mst_attention_tensors {
    const muster_tensor *q, *k, *v, *mask;
    const muster_tensor *y;
    const muster_tensor *lse;  /* (..., n), f32 or f64: the logarithm of the sum of the exponentials of the scores; -inf: no key */
    const muster_tensor *rest; /* as lse: what lse has lost to rounding; 0: no key */
    const muster_tensor *dy;   /* the gradient of y */
    const muster_tensor *dq, *dk, *dv;
    const muster_tensor *dmask; /* the shape of mask */
} mst_attention_tensors;

/* Writes y, lse and rest. Messages begin with `where`. Errors: DTYPE_MISMATCH, UNSUPPORTED,
 * SHAPE_MISMATCH, OUT_OF_MEMORY, those of the worker's device. */
muster_status mst_attention_forward(muster_worker *worker, const mst_attention *attention, const mst_attention_tensors *tensors,
                                    const char *where);
/* Reads what the forward pass read and wrote, and dy; writes dq, dk and dv. */
muster_status mst_attention_gradient(muster_worker *worker, const mst_attention *attention, const mst_attention_tensors *tensors,
                                     const char *where);
/* Reads the same, and writes dmask alone: the gradients of the scores, summed over what the mask
 * repeats. They are computed once more, in 2 products, and never lie in memory as a whole. */
muster_status mst_attention_mask_gradient(muster_worker *worker, const mst_attention *attention, const mst_attention_tensors *tensors,
                                          const char *where);

#endif

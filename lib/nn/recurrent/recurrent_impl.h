/* Recurrent layers for one worker: what is done step by step, and its gradient. With the products
 * of the inputs in `gates`, which have been made for all steps at once, the step at time t computes
 * from the state h, and of LSTM c, of each row (s is the sigmoid, * goes by elements)
 *     plain  h = tanh(gates[t] + h r^T), or the larger of 0 and that sum
 *     LSTM   (i, f, g, o) = gates[t] + h r^T;  c = s(f) * c + s(i) * tanh(g);  h = s(o) * tanh(c)
 *     GRU    (a, b, p) = h r^T;  (x, y, z) = gates[t];
 *            n = tanh(z + s(x + a) * (p + bias));  h = n + s(y + b) * (h - n)
 * and y[t] = h. A row of length l takes its first l steps: behind them its y is 0, and its state
 * stays. In reverse the steps go from the last to the first, and a row begins at its own last. */
#ifndef MST_RECURRENT_IMPL_H
#define MST_RECURRENT_IMPL_H

#include "worker_impl.h"

typedef enum mst_recurrent_kind { MST_RECURRENT_TANH, MST_RECURRENT_RELU, MST_RECURRENT_LSTM, MST_RECURRENT_GRU } mst_recurrent_kind;
/* The widths of `gates` and of r, in states. */
static inline int64_t mst_recurrent_gates(int32_t kind) { return kind == MST_RECURRENT_LSTM ? 4 : kind == MST_RECURRENT_GRU ? 3 : 1; }

typedef struct mst_recurrent {
    int32_t kind; /* mst_recurrent_kind */
    bool reverse;
} mst_recurrent;

/* n rows, t steps, states of h numbers, g gates (mst_recurrent_gates). All but the lengths have one
 * dtype: f16, bf16, f32 or f64. f16 and bf16 are computed in f32, in which the states stay from
 * step to step. NULL, or "no tensor" for a result: there is none, or it is not wanted. A result
 * overlaps no operand. */
typedef struct mst_recurrent_tensors {
    const muster_tensor *gates;   /* (n, t, g h) */
    const muster_tensor *r;       /* (g h, h) */
    const muster_tensor *bias;    /* (h), of GRU */
    const muster_tensor *h0, *c0; /* they broadcast to (n, h); c0, of LSTM */
    const muster_tensor *lengths; /* broadcasts to (n); an integer dtype; more than t count as t */
    const muster_tensor *y;       /* (n, t, h) */
    const muster_tensor *hn, *cn; /* (n, h): the states at the end; cn, of LSTM */
    /* What the gradient needs: the state before each step, of LSTM c and else h; the gates after
     * their functions, of LSTM (n, t, 4 h), of GRU (n, t, 4 h) with p + bias as the last, of a
     * plain layer y. */
    const muster_tensor *before_h, *before_c, *kept;
    const muster_tensor *dy, *dhn, *dcn;     /* the gradients of y, hn and cn; dhn and dcn broadcast to their shapes */
    const muster_tensor *dgates, *dh0, *dc0; /* (n, t, g h), (n, h), (n, h) */
    const muster_tensor *dproducts;          /* (n, t, g h), of GRU: the gradient of h r^T + (0, 0, bias); of the others it is dgates */
} mst_recurrent_tensors;

/* Writes y, hn, cn, before_h, before_c and kept. Messages begin with `where`. Errors:
 * DTYPE_MISMATCH, UNSUPPORTED, SHAPE_MISMATCH, OUT_OF_MEMORY, those of the worker's device and of
 * muster_gemm. */
muster_status mst_recurrent_forward(muster_worker *worker, const mst_recurrent *recurrent, const mst_recurrent_tensors *tensors,
                                    const char *where);
/* Reads r, lengths, kept, of LSTM before_c, of GRU before_h, dy, dhn and dcn; writes dgates,
 * dproducts, dh0 and dc0. */
muster_status mst_recurrent_gradient(muster_worker *worker, const mst_recurrent *recurrent, const mst_recurrent_tensors *tensors,
                                     const char *where);

#endif

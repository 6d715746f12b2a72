/* muster/pointers.h: twins of functions, for languages whose foreign function interface passes no
 * structs by value and calls no inline functions. muster.h does not include it. Written by
 * tests/abi/pointer_twins.py.
 *
 * muster_sum_p is muster_sum with the addresses of the tensors in place of the tensors, and so for
 * every function that takes a struct by value. NULL stands for "no tensor". A function that gives a
 * struct writes it to *result, its last argument, which may be the address of an argument too, or
 * NULL if it is not wanted. All else is as for the function itself: the status, the message (which
 * names the function without _p), ownership, threads and errors. An address is borrowed for the
 * call; what the function keeps of a tensor, it copies. */
#ifndef MUSTER_POINTERS_H
#define MUSTER_POINTERS_H

#include "muster/buffer.h"
#include "muster/communicator.h"
#include "muster/dlpack.h"
#include "muster/function.h"
#include "muster/kernel.h"
#include "muster/ops.h"
#include "muster/runtime.h"
#include "muster/server.h"
#include "muster/tensor.h"
#include "muster/variable.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The twins of functions of muster/buffer.h. */
MUSTER_API void muster_buffer_tensor_p(const muster_buffer *buffer, muster_tensor *result);
MUSTER_API MUSTER_NODISCARD muster_status muster_buffer_set_value_p(muster_buffer *buffer, const muster_tensor *value, muster_cast cast);

/* The twins of functions of muster/communicator.h. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_p(muster_worker *worker, muster_communicator *communicator,
                                                                     muster_reduction op, const muster_tensor *input,
                                                                     const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_weighted_p(muster_worker *worker, muster_communicator *communicator,
                                                                              double weight, const muster_tensor *input,
                                                                              const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_shards_p(muster_worker *worker, muster_communicator *communicator,
                                                                            muster_reduction op, const muster_tensor *input,
                                                                            const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_axpy_p(muster_worker *worker, muster_communicator *communicator,
                                                                          double alpha, const muster_tensor *gradient,
                                                                          const muster_tensor *parameter);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_reduce_momentum_p(muster_worker *worker, muster_communicator *communicator,
                                                                              double alpha, const muster_tensor *gradient, double beta,
                                                                              const muster_tensor *velocity,
                                                                              const muster_tensor *parameter);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_reduce_p(muster_worker *worker, muster_communicator *communicator,
                                                                 muster_reduction op, int32_t root, const muster_tensor *input,
                                                                 const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_broadcast_p(muster_worker *worker, muster_communicator *communicator, int32_t root,
                                                                    const muster_tensor *input, const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_gather_p(muster_worker *worker, muster_communicator *communicator,
                                                                     const muster_tensor *input, const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_gather_p(muster_worker *worker, muster_communicator *communicator, int32_t root,
                                                                 const muster_tensor *input, const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_scatter_p(muster_worker *worker, muster_communicator *communicator, int32_t root,
                                                                  const muster_tensor *input, const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_reduce_scatter_p(muster_worker *worker, muster_communicator *communicator,
                                                                         muster_reduction op, const muster_tensor *input,
                                                                         const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_to_all_p(muster_worker *worker, muster_communicator *communicator,
                                                                     const muster_tensor *input, const muster_tensor *output);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_all_to_all_uneven_p(muster_worker *worker, muster_communicator *communicator,
                                                                            const muster_tensor *input, const int64_t *send_counts,
                                                                            const muster_tensor *output, const int64_t *recv_counts);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_send_p(muster_worker *worker, muster_communicator *communicator, int32_t to,
                                                               int32_t tag, const muster_tensor *input);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_recv_p(muster_worker *worker, muster_communicator *communicator, int32_t from,
                                                               int32_t tag, const muster_tensor *output);

/* The twins of functions of muster/dlpack.h. */
MUSTER_API MUSTER_NODISCARD muster_status muster_dlpack_export_p(const muster_runtime *runtime, const muster_tensor *tensor, uint64_t flags,
                                                                 void (*release)(void *owner), void *owner,
                                                                 muster_dlpack_versioned **managed);
MUSTER_API MUSTER_NODISCARD muster_status muster_dlpack_export_unversioned_p(const muster_runtime *runtime, const muster_tensor *tensor,
                                                                             void (*release)(void *owner), void *owner,
                                                                             muster_dlpack_unversioned **managed);

/* The twins of functions of muster/kernel.h. */
MUSTER_API void muster_argument_buffer_p(const muster_tensor *tensor, muster_argument *result);
MUSTER_API void muster_argument_strided_p(const muster_tensor *tensor, muster_argument *result);
MUSTER_API void muster_argument_base_p(const muster_tensor *tensor, muster_argument *result);
MUSTER_API void muster_argument_size_p(uint64_t value, muster_argument *result);
MUSTER_API void muster_argument_ssize_p(int64_t value, muster_argument *result);
MUSTER_API void muster_argument_float_p(int32_t type, double value, muster_argument *result);
MUSTER_API void muster_argument_int_p(int32_t type, int64_t value, muster_argument *result);
MUSTER_API void muster_argument_bits_p(int32_t type, uint64_t bits, muster_argument *result);

/* The twins of functions of muster/ops.h. */
MUSTER_API MUSTER_NODISCARD muster_status muster_gemm_p(muster_worker *worker, double alpha, const muster_tensor *a, const muster_tensor *b,
                                                        double beta, const muster_tensor *c);
MUSTER_API MUSTER_NODISCARD muster_status muster_gemm_batched_p(muster_worker *worker, double alpha, const muster_tensor *a,
                                                                const muster_tensor *b, double beta, const muster_tensor *c);
MUSTER_API MUSTER_NODISCARD muster_status muster_gemv_p(muster_worker *worker, double alpha, const muster_tensor *a, const muster_tensor *x,
                                                        double beta, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_axpy_p(muster_worker *worker, double alpha, const muster_tensor *x,
                                                        const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_dot_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y,
                                                       const muster_tensor *result);
MUSTER_API MUSTER_NODISCARD muster_status muster_fill_p(muster_worker *worker, double value, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_copy_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_unary_op_p(muster_worker *worker, muster_unary op, const muster_tensor *x,
                                                            const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_binary_op_p(muster_worker *worker, muster_binary op, const muster_tensor *a,
                                                             const muster_tensor *b, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_binary_scalar_p(muster_worker *worker, muster_binary op, const muster_tensor *x,
                                                                 double value, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_scalar_binary_p(muster_worker *worker, muster_binary op, double value,
                                                                 const muster_tensor *x, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_compare_p(muster_worker *worker, muster_comparison op, const muster_tensor *a,
                                                           const muster_tensor *b, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_predicate_op_p(muster_worker *worker, muster_predicate op, const muster_tensor *x,
                                                                const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_where_p(muster_worker *worker, const muster_tensor *condition, const muster_tensor *a,
                                                         const muster_tensor *b, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_clip_p(muster_worker *worker, double low, double high, const muster_tensor *x,
                                                        const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_take_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *indices,
                                                        const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_scatter_add_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *indices,
                                                               const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_one_hot_p(muster_worker *worker, const muster_tensor *labels, int64_t k,
                                                           const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_scale_add_p(muster_worker *worker, double alpha, const muster_tensor *x, double beta,
                                                             const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_bias_relu_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *bias,
                                                             const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_relu_gradient_p(muster_worker *worker, const muster_tensor *y, const muster_tensor *dy,
                                                                 const muster_tensor *dx);
MUSTER_API MUSTER_NODISCARD muster_status muster_reduce_p(muster_worker *worker, muster_reduction op, const muster_tensor *x, int32_t axis,
                                                          const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_reduce_axes_p(muster_worker *worker, muster_reduction op, const muster_tensor *x,
                                                               int32_t axes, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_mean_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_sum_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_argmax_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *index);
MUSTER_API MUSTER_NODISCARD muster_status muster_argmin_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *index);
MUSTER_API MUSTER_NODISCARD muster_status muster_softmax_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_log_softmax_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_logsumexp_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_softmax_gradient_p(muster_worker *worker, const muster_tensor *y, const muster_tensor *dy,
                                                                    const muster_tensor *dx);
MUSTER_API MUSTER_NODISCARD muster_status muster_log_softmax_gradient_p(muster_worker *worker, const muster_tensor *y,
                                                                        const muster_tensor *dy, const muster_tensor *dx);
MUSTER_API MUSTER_NODISCARD muster_status muster_cumsum_p(muster_worker *worker, const muster_tensor *x, int32_t axis,
                                                          const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_sort_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_argsort_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *index);
MUSTER_API MUSTER_NODISCARD muster_status muster_top_k_p(muster_worker *worker, const muster_tensor *x, int64_t k,
                                                         const muster_tensor *values, const muster_tensor *index);
MUSTER_API MUSTER_NODISCARD muster_status muster_tril_p(muster_worker *worker, const muster_tensor *x, int64_t k, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_triu_p(muster_worker *worker, const muster_tensor *x, int64_t k, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_eye_p(muster_worker *worker, int64_t k, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_arange_p(muster_worker *worker, double start, double increment, const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_softmax_cross_entropy_p(muster_worker *worker, const muster_tensor *logits,
                                                                         const muster_tensor *labels, double scale,
                                                                         const muster_tensor *loss, const muster_tensor *gradient,
                                                                         const muster_tensor *correct);
MUSTER_API MUSTER_NODISCARD muster_status muster_random_uniform_p(muster_worker *worker, uint64_t seed, uint64_t first_index,
                                                                  const muster_tensor *y);
MUSTER_API MUSTER_NODISCARD muster_status muster_random_normal_p(muster_worker *worker, uint64_t seed, uint64_t first_index, double mean,
                                                                 double deviation, const muster_tensor *y);

/* The twins of functions of muster/rule.h. */
MUSTER_API MUSTER_NODISCARD muster_status muster_function_state_get_p(muster_function *function, muster_variable *variable,
                                                                      const char *name, const muster_tensor *value);
MUSTER_API MUSTER_NODISCARD muster_status muster_function_state_set_p(muster_function *function, muster_variable *variable,
                                                                      const char *name, const muster_tensor *value);

/* The twins of functions of muster/runtime.h. */
MUSTER_API muster_status muster_runtime_tensor_destroy_p(muster_runtime *runtime, const muster_tensor *tensor);
MUSTER_API MUSTER_NODISCARD muster_status muster_runtime_tensor_copy_p(muster_runtime *runtime, const muster_tensor *from,
                                                                       const muster_tensor *to);

/* The twins of functions of muster/server.h. */
MUSTER_API MUSTER_NODISCARD muster_status muster_client_send_p(muster_client *client, int32_t index, muster_rule rule, double scale,
                                                               const muster_tensor *tensor, int32_t flags, muster_request **request);
MUSTER_API MUSTER_NODISCARD muster_status muster_client_receive_p(muster_client *client, int32_t index, const muster_tensor *tensor,
                                                                  muster_request **request);

/* The twins of functions of muster/tensor.h. */
MUSTER_API void muster_tensor_make_p(muster_dtype dtype, void *data, int32_t ndim, const int64_t *shape, muster_tensor *result);
MUSTER_API void muster_tensor_none_p(muster_tensor *result);
MUSTER_API int64_t muster_tensor_count_p(const muster_tensor *tensor);
MUSTER_API int64_t muster_tensor_rows_p(const muster_tensor *tensor);
MUSTER_API void muster_tensor_slice_p(const muster_tensor *tensor, int64_t begin, int64_t end, muster_tensor *result);
MUSTER_API void muster_tensor_reshape_p(const muster_tensor *tensor, int32_t ndim, const int64_t *shape, muster_tensor *result);
MUSTER_API void muster_tensor_transpose_p(const muster_tensor *tensor, muster_tensor *result);
MUSTER_API void muster_tensor_slice_axis_p(const muster_tensor *tensor, int32_t axis, int64_t begin, int64_t end, muster_tensor *result);
MUSTER_API void muster_tensor_permute_p(const muster_tensor *tensor, const int32_t *axes, muster_tensor *result);
MUSTER_API void muster_tensor_squeeze_p(const muster_tensor *tensor, int32_t axis, muster_tensor *result);
MUSTER_API void muster_tensor_broadcast_p(const muster_tensor *tensor, int32_t ndim, const int64_t *shape, muster_tensor *result);
MUSTER_API int32_t muster_tensor_is_contiguous_p(const muster_tensor *tensor);
MUSTER_API int64_t muster_tensor_bytes_p(const muster_tensor *tensor);
MUSTER_API MUSTER_NODISCARD muster_status muster_tensor_print_p(const muster_tensor *tensor, char *text, int64_t size, int64_t *length);
MUSTER_API void *muster_tensor_address_p(const muster_tensor *tensor);

/* The twins of functions of muster/variable.h. */
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_create_p(muster_runtime *runtime, const char *name, const muster_tensor *value,
                                                                   muster_variable **variable);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_set_p(muster_variable *variable, int32_t rank, const muster_tensor *value);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_set_selected_p(muster_variable *variable, int32_t rank,
                                                                         const muster_tensor *value, const muster_selection *selection);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_get_p(muster_variable *variable, int32_t rank, const muster_tensor *value);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_get_whole_p(muster_variable *variable, const muster_tensor *value);
MUSTER_API MUSTER_NODISCARD muster_status muster_variable_set_whole_p(muster_variable *variable, const muster_tensor *value);

/* The twins of functions of muster/worker.h. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_read_p(muster_worker *worker, const muster_tensor *device_tensor,
                                                               const muster_tensor *host_tensor);
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_write_p(muster_worker *worker, const muster_tensor *host_tensor,
                                                                const muster_tensor *device_tensor);
MUSTER_API MUSTER_NODISCARD muster_status muster_tensor_data_p(const muster_tensor *tensor, muster_dtype dtype, void **data);

#ifdef __cplusplus
}
#endif
#endif

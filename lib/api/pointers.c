/* The twins that take addresses. Written by tests/abi/pointer_twins.py. */
#include "muster/pointers.h"
#include "muster/buffer.h"
#include "muster/communicator.h"
#include "muster/dlpack.h"
#include "muster/kernel.h"
#include "muster/ops.h"
#include "muster/rule.h"
#include "muster/runtime.h"
#include "muster/server.h"
#include "muster/tensor.h"
#include "muster/variable.h"
#include "muster/worker.h"

static muster_tensor pointers_tensor(const muster_tensor *tensor) { return tensor ? *tensor : muster_tensor_none(); }
static void pointers_give_tensor(muster_tensor value, muster_tensor *result) {
    if (result) *result = value;
}
static void pointers_give_argument(muster_argument value, muster_argument *result) {
    if (result) *result = value;
}

void muster_buffer_tensor_p(const muster_buffer *buffer, muster_tensor *result) {
    pointers_give_tensor(muster_buffer_tensor(buffer), result);
}
muster_status muster_buffer_set_value_p(muster_buffer *buffer, const muster_tensor *value, muster_cast cast) {
    return muster_buffer_set_value(buffer, pointers_tensor(value), cast);
}
muster_status muster_worker_all_reduce_p(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                         const muster_tensor *input, const muster_tensor *output) {
    return muster_worker_all_reduce(worker, communicator, op, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_all_reduce_weighted_p(muster_worker *worker, muster_communicator *communicator, double weight,
                                                  const muster_tensor *input, const muster_tensor *output) {
    return muster_worker_all_reduce_weighted(worker, communicator, weight, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_all_reduce_shards_p(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                                const muster_tensor *input, const muster_tensor *output) {
    return muster_worker_all_reduce_shards(worker, communicator, op, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_all_reduce_axpy_p(muster_worker *worker, muster_communicator *communicator, double alpha,
                                              const muster_tensor *gradient, const muster_tensor *parameter) {
    return muster_worker_all_reduce_axpy(worker, communicator, alpha, pointers_tensor(gradient), pointers_tensor(parameter));
}
muster_status muster_worker_all_reduce_momentum_p(muster_worker *worker, muster_communicator *communicator, double alpha,
                                                  const muster_tensor *gradient, double beta, const muster_tensor *velocity,
                                                  const muster_tensor *parameter) {
    return muster_worker_all_reduce_momentum(worker, communicator, alpha, pointers_tensor(gradient), beta, pointers_tensor(velocity),
                                             pointers_tensor(parameter));
}
muster_status muster_worker_reduce_p(muster_worker *worker, muster_communicator *communicator, muster_reduction op, int32_t root,
                                     const muster_tensor *input, const muster_tensor *output) {
    return muster_worker_reduce(worker, communicator, op, root, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_broadcast_p(muster_worker *worker, muster_communicator *communicator, int32_t root, const muster_tensor *input,
                                        const muster_tensor *output) {
    return muster_worker_broadcast(worker, communicator, root, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_all_gather_p(muster_worker *worker, muster_communicator *communicator, const muster_tensor *input,
                                         const muster_tensor *output) {
    return muster_worker_all_gather(worker, communicator, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_gather_p(muster_worker *worker, muster_communicator *communicator, int32_t root, const muster_tensor *input,
                                     const muster_tensor *output) {
    return muster_worker_gather(worker, communicator, root, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_scatter_p(muster_worker *worker, muster_communicator *communicator, int32_t root, const muster_tensor *input,
                                      const muster_tensor *output) {
    return muster_worker_scatter(worker, communicator, root, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_reduce_scatter_p(muster_worker *worker, muster_communicator *communicator, muster_reduction op,
                                             const muster_tensor *input, const muster_tensor *output) {
    return muster_worker_reduce_scatter(worker, communicator, op, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_all_to_all_p(muster_worker *worker, muster_communicator *communicator, const muster_tensor *input,
                                         const muster_tensor *output) {
    return muster_worker_all_to_all(worker, communicator, pointers_tensor(input), pointers_tensor(output));
}
muster_status muster_worker_all_to_all_uneven_p(muster_worker *worker, muster_communicator *communicator, const muster_tensor *input,
                                                const int64_t *send_counts, const muster_tensor *output, const int64_t *recv_counts) {
    return muster_worker_all_to_all_uneven(worker, communicator, pointers_tensor(input), send_counts, pointers_tensor(output), recv_counts);
}
muster_status muster_worker_send_p(muster_worker *worker, muster_communicator *communicator, int32_t to, int32_t tag,
                                   const muster_tensor *input) {
    return muster_worker_send(worker, communicator, to, tag, pointers_tensor(input));
}
muster_status muster_worker_recv_p(muster_worker *worker, muster_communicator *communicator, int32_t from, int32_t tag,
                                   const muster_tensor *output) {
    return muster_worker_recv(worker, communicator, from, tag, pointers_tensor(output));
}
muster_status muster_dlpack_export_p(const muster_runtime *runtime, const muster_tensor *tensor, uint64_t flags,
                                     void (*release)(void *owner), void *owner, muster_dlpack_versioned **managed) {
    return muster_dlpack_export(runtime, pointers_tensor(tensor), flags, release, owner, managed);
}
muster_status muster_dlpack_export_unversioned_p(const muster_runtime *runtime, const muster_tensor *tensor, void (*release)(void *owner),
                                                 void *owner, muster_dlpack_unversioned **managed) {
    return muster_dlpack_export_unversioned(runtime, pointers_tensor(tensor), release, owner, managed);
}
void muster_argument_buffer_p(const muster_tensor *tensor, muster_argument *result) {
    pointers_give_argument(muster_argument_buffer(pointers_tensor(tensor)), result);
}
void muster_argument_strided_p(const muster_tensor *tensor, muster_argument *result) {
    pointers_give_argument(muster_argument_strided(pointers_tensor(tensor)), result);
}
void muster_argument_base_p(const muster_tensor *tensor, muster_argument *result) {
    pointers_give_argument(muster_argument_base(pointers_tensor(tensor)), result);
}
void muster_argument_size_p(uint64_t value, muster_argument *result) { pointers_give_argument(muster_argument_size(value), result); }
void muster_argument_ssize_p(int64_t value, muster_argument *result) { pointers_give_argument(muster_argument_ssize(value), result); }
void muster_argument_float_p(int32_t type, double value, muster_argument *result) {
    pointers_give_argument(muster_argument_float(type, value), result);
}
void muster_argument_int_p(int32_t type, int64_t value, muster_argument *result) {
    pointers_give_argument(muster_argument_int(type, value), result);
}
void muster_argument_bits_p(int32_t type, uint64_t bits, muster_argument *result) {
    pointers_give_argument(muster_argument_bits(type, bits), result);
}
muster_status muster_gemm_p(muster_worker *worker, double alpha, const muster_tensor *a, const muster_tensor *b, double beta,
                            const muster_tensor *c) {
    return muster_gemm(worker, alpha, pointers_tensor(a), pointers_tensor(b), beta, pointers_tensor(c));
}
muster_status muster_gemm_batched_p(muster_worker *worker, double alpha, const muster_tensor *a, const muster_tensor *b, double beta,
                                    const muster_tensor *c) {
    return muster_gemm_batched(worker, alpha, pointers_tensor(a), pointers_tensor(b), beta, pointers_tensor(c));
}
muster_status muster_gemv_p(muster_worker *worker, double alpha, const muster_tensor *a, const muster_tensor *x, double beta,
                            const muster_tensor *y) {
    return muster_gemv(worker, alpha, pointers_tensor(a), pointers_tensor(x), beta, pointers_tensor(y));
}
muster_status muster_axpy_p(muster_worker *worker, double alpha, const muster_tensor *x, const muster_tensor *y) {
    return muster_axpy(worker, alpha, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_dot_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y, const muster_tensor *result) {
    return muster_dot(worker, pointers_tensor(x), pointers_tensor(y), pointers_tensor(result));
}
muster_status muster_fill_p(muster_worker *worker, double value, const muster_tensor *y) {
    return muster_fill(worker, value, pointers_tensor(y));
}
muster_status muster_copy_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y) {
    return muster_copy(worker, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_unary_op_p(muster_worker *worker, muster_unary op, const muster_tensor *x, const muster_tensor *y) {
    return muster_unary_op(worker, op, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_binary_op_p(muster_worker *worker, muster_binary op, const muster_tensor *a, const muster_tensor *b,
                                 const muster_tensor *y) {
    return muster_binary_op(worker, op, pointers_tensor(a), pointers_tensor(b), pointers_tensor(y));
}
muster_status muster_binary_scalar_p(muster_worker *worker, muster_binary op, const muster_tensor *x, double value,
                                     const muster_tensor *y) {
    return muster_binary_scalar(worker, op, pointers_tensor(x), value, pointers_tensor(y));
}
muster_status muster_scalar_binary_p(muster_worker *worker, muster_binary op, double value, const muster_tensor *x,
                                     const muster_tensor *y) {
    return muster_scalar_binary(worker, op, value, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_compare_p(muster_worker *worker, muster_comparison op, const muster_tensor *a, const muster_tensor *b,
                               const muster_tensor *y) {
    return muster_compare(worker, op, pointers_tensor(a), pointers_tensor(b), pointers_tensor(y));
}
muster_status muster_predicate_op_p(muster_worker *worker, muster_predicate op, const muster_tensor *x, const muster_tensor *y) {
    return muster_predicate_op(worker, op, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_where_p(muster_worker *worker, const muster_tensor *condition, const muster_tensor *a, const muster_tensor *b,
                             const muster_tensor *y) {
    return muster_where(worker, pointers_tensor(condition), pointers_tensor(a), pointers_tensor(b), pointers_tensor(y));
}
muster_status muster_clip_p(muster_worker *worker, double low, double high, const muster_tensor *x, const muster_tensor *y) {
    return muster_clip(worker, low, high, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_take_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *indices, const muster_tensor *y) {
    return muster_take(worker, pointers_tensor(x), pointers_tensor(indices), pointers_tensor(y));
}
muster_status muster_scatter_add_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *indices, const muster_tensor *y) {
    return muster_scatter_add(worker, pointers_tensor(x), pointers_tensor(indices), pointers_tensor(y));
}
muster_status muster_one_hot_p(muster_worker *worker, const muster_tensor *labels, int64_t k, const muster_tensor *y) {
    return muster_one_hot(worker, pointers_tensor(labels), k, pointers_tensor(y));
}
muster_status muster_scale_add_p(muster_worker *worker, double alpha, const muster_tensor *x, double beta, const muster_tensor *y) {
    return muster_scale_add(worker, alpha, pointers_tensor(x), beta, pointers_tensor(y));
}
muster_status muster_bias_relu_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *bias, const muster_tensor *y) {
    return muster_bias_relu(worker, pointers_tensor(x), pointers_tensor(bias), pointers_tensor(y));
}
muster_status muster_relu_gradient_p(muster_worker *worker, const muster_tensor *y, const muster_tensor *dy, const muster_tensor *dx) {
    return muster_relu_gradient(worker, pointers_tensor(y), pointers_tensor(dy), pointers_tensor(dx));
}
muster_status muster_reduce_p(muster_worker *worker, muster_reduction op, const muster_tensor *x, int32_t axis, const muster_tensor *y) {
    return muster_reduce(worker, op, pointers_tensor(x), axis, pointers_tensor(y));
}
muster_status muster_reduce_axes_p(muster_worker *worker, muster_reduction op, const muster_tensor *x, int32_t axes,
                                   const muster_tensor *y) {
    return muster_reduce_axes(worker, op, pointers_tensor(x), axes, pointers_tensor(y));
}
muster_status muster_mean_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y) {
    return muster_mean(worker, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_sum_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y) {
    return muster_sum(worker, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_argmax_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *index) {
    return muster_argmax(worker, pointers_tensor(x), pointers_tensor(index));
}
muster_status muster_argmin_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *index) {
    return muster_argmin(worker, pointers_tensor(x), pointers_tensor(index));
}
muster_status muster_softmax_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y) {
    return muster_softmax(worker, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_log_softmax_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y) {
    return muster_log_softmax(worker, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_logsumexp_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y) {
    return muster_logsumexp(worker, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_softmax_gradient_p(muster_worker *worker, const muster_tensor *y, const muster_tensor *dy, const muster_tensor *dx) {
    return muster_softmax_gradient(worker, pointers_tensor(y), pointers_tensor(dy), pointers_tensor(dx));
}
muster_status muster_log_softmax_gradient_p(muster_worker *worker, const muster_tensor *y, const muster_tensor *dy,
                                            const muster_tensor *dx) {
    return muster_log_softmax_gradient(worker, pointers_tensor(y), pointers_tensor(dy), pointers_tensor(dx));
}
muster_status muster_cumsum_p(muster_worker *worker, const muster_tensor *x, int32_t axis, const muster_tensor *y) {
    return muster_cumsum(worker, pointers_tensor(x), axis, pointers_tensor(y));
}
muster_status muster_sort_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *y) {
    return muster_sort(worker, pointers_tensor(x), pointers_tensor(y));
}
muster_status muster_argsort_p(muster_worker *worker, const muster_tensor *x, const muster_tensor *index) {
    return muster_argsort(worker, pointers_tensor(x), pointers_tensor(index));
}
muster_status muster_top_k_p(muster_worker *worker, const muster_tensor *x, int64_t k, const muster_tensor *values,
                             const muster_tensor *index) {
    return muster_top_k(worker, pointers_tensor(x), k, pointers_tensor(values), pointers_tensor(index));
}
muster_status muster_tril_p(muster_worker *worker, const muster_tensor *x, int64_t k, const muster_tensor *y) {
    return muster_tril(worker, pointers_tensor(x), k, pointers_tensor(y));
}
muster_status muster_triu_p(muster_worker *worker, const muster_tensor *x, int64_t k, const muster_tensor *y) {
    return muster_triu(worker, pointers_tensor(x), k, pointers_tensor(y));
}
muster_status muster_eye_p(muster_worker *worker, int64_t k, const muster_tensor *y) { return muster_eye(worker, k, pointers_tensor(y)); }
muster_status muster_arange_p(muster_worker *worker, double start, double increment, const muster_tensor *y) {
    return muster_arange(worker, start, increment, pointers_tensor(y));
}
muster_status muster_softmax_cross_entropy_p(muster_worker *worker, const muster_tensor *logits, const muster_tensor *labels, double scale,
                                             const muster_tensor *loss, const muster_tensor *gradient, const muster_tensor *correct) {
    return muster_softmax_cross_entropy(worker, pointers_tensor(logits), pointers_tensor(labels), scale, pointers_tensor(loss),
                                        pointers_tensor(gradient), pointers_tensor(correct));
}
muster_status muster_random_uniform_p(muster_worker *worker, uint64_t seed, uint64_t first_index, const muster_tensor *y) {
    return muster_random_uniform(worker, seed, first_index, pointers_tensor(y));
}
muster_status muster_random_normal_p(muster_worker *worker, uint64_t seed, uint64_t first_index, double mean, double deviation,
                                     const muster_tensor *y) {
    return muster_random_normal(worker, seed, first_index, mean, deviation, pointers_tensor(y));
}
muster_status muster_function_state_get_p(muster_function *function, muster_variable *variable, const char *name,
                                          const muster_tensor *value) {
    return muster_function_state_get(function, variable, name, pointers_tensor(value));
}
muster_status muster_function_state_set_p(muster_function *function, muster_variable *variable, const char *name,
                                          const muster_tensor *value) {
    return muster_function_state_set(function, variable, name, pointers_tensor(value));
}
muster_status muster_runtime_tensor_destroy_p(muster_runtime *runtime, const muster_tensor *tensor) {
    return muster_runtime_tensor_destroy(runtime, pointers_tensor(tensor));
}
muster_status muster_runtime_tensor_copy_p(muster_runtime *runtime, const muster_tensor *from, const muster_tensor *to) {
    return muster_runtime_tensor_copy(runtime, pointers_tensor(from), pointers_tensor(to));
}
muster_status muster_client_send_p(muster_client *client, int32_t index, muster_rule rule, double scale, const muster_tensor *tensor,
                                   int32_t flags, muster_request **request) {
    return muster_client_send(client, index, rule, scale, pointers_tensor(tensor), flags, request);
}
muster_status muster_client_receive_p(muster_client *client, int32_t index, const muster_tensor *tensor, muster_request **request) {
    return muster_client_receive(client, index, pointers_tensor(tensor), request);
}
void muster_tensor_make_p(muster_dtype dtype, void *data, int32_t ndim, const int64_t *shape, muster_tensor *result) {
    pointers_give_tensor(muster_tensor_make(dtype, data, ndim, shape), result);
}
void muster_tensor_none_p(muster_tensor *result) { pointers_give_tensor(muster_tensor_none(), result); }
int64_t muster_tensor_count_p(const muster_tensor *tensor) { return muster_tensor_count(pointers_tensor(tensor)); }
int64_t muster_tensor_rows_p(const muster_tensor *tensor) { return muster_tensor_rows(pointers_tensor(tensor)); }
void muster_tensor_slice_p(const muster_tensor *tensor, int64_t begin, int64_t end, muster_tensor *result) {
    pointers_give_tensor(muster_tensor_slice(pointers_tensor(tensor), begin, end), result);
}
void muster_tensor_reshape_p(const muster_tensor *tensor, int32_t ndim, const int64_t *shape, muster_tensor *result) {
    pointers_give_tensor(muster_tensor_reshape(pointers_tensor(tensor), ndim, shape), result);
}
void muster_tensor_transpose_p(const muster_tensor *tensor, muster_tensor *result) {
    pointers_give_tensor(muster_tensor_transpose(pointers_tensor(tensor)), result);
}
void muster_tensor_slice_axis_p(const muster_tensor *tensor, int32_t axis, int64_t begin, int64_t end, muster_tensor *result) {
    pointers_give_tensor(muster_tensor_slice_axis(pointers_tensor(tensor), axis, begin, end), result);
}
void muster_tensor_permute_p(const muster_tensor *tensor, const int32_t *axes, muster_tensor *result) {
    pointers_give_tensor(muster_tensor_permute(pointers_tensor(tensor), axes), result);
}
void muster_tensor_squeeze_p(const muster_tensor *tensor, int32_t axis, muster_tensor *result) {
    pointers_give_tensor(muster_tensor_squeeze(pointers_tensor(tensor), axis), result);
}
void muster_tensor_broadcast_p(const muster_tensor *tensor, int32_t ndim, const int64_t *shape, muster_tensor *result) {
    pointers_give_tensor(muster_tensor_broadcast(pointers_tensor(tensor), ndim, shape), result);
}
int32_t muster_tensor_is_contiguous_p(const muster_tensor *tensor) { return muster_tensor_is_contiguous(pointers_tensor(tensor)); }
int64_t muster_tensor_bytes_p(const muster_tensor *tensor) { return muster_tensor_bytes(pointers_tensor(tensor)); }
muster_status muster_tensor_print_p(const muster_tensor *tensor, char *text, int64_t size, int64_t *length) {
    return muster_tensor_print(pointers_tensor(tensor), text, size, length);
}
void *muster_tensor_address_p(const muster_tensor *tensor) { return muster_tensor_address(pointers_tensor(tensor)); }
muster_status muster_variable_create_p(muster_runtime *runtime, const char *name, const muster_tensor *value, muster_variable **variable) {
    return muster_variable_create(runtime, name, pointers_tensor(value), variable);
}
muster_status muster_variable_set_p(muster_variable *variable, int32_t rank, const muster_tensor *value) {
    return muster_variable_set(variable, rank, pointers_tensor(value));
}
muster_status muster_variable_set_selected_p(muster_variable *variable, int32_t rank, const muster_tensor *value,
                                             const muster_selection *selection) {
    return muster_variable_set_selected(variable, rank, pointers_tensor(value), selection);
}
muster_status muster_variable_get_p(muster_variable *variable, int32_t rank, const muster_tensor *value) {
    return muster_variable_get(variable, rank, pointers_tensor(value));
}
muster_status muster_variable_get_whole_p(muster_variable *variable, const muster_tensor *value) {
    return muster_variable_get_whole(variable, pointers_tensor(value));
}
muster_status muster_variable_set_whole_p(muster_variable *variable, const muster_tensor *value) {
    return muster_variable_set_whole(variable, pointers_tensor(value));
}
muster_status muster_worker_read_p(muster_worker *worker, const muster_tensor *device_tensor, const muster_tensor *host_tensor) {
    return muster_worker_read(worker, pointers_tensor(device_tensor), pointers_tensor(host_tensor));
}
muster_status muster_worker_write_p(muster_worker *worker, const muster_tensor *host_tensor, const muster_tensor *device_tensor) {
    return muster_worker_write(worker, pointers_tensor(host_tensor), pointers_tensor(device_tensor));
}
muster_status muster_tensor_data_p(const muster_tensor *tensor, muster_dtype dtype, void **data) {
    return muster_tensor_data(pointers_tensor(tensor), dtype, data);
}

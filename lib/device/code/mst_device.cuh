/* The dialect of the kernel texts. NVRTC compiles them for a GPU; the tests compile the same texts
 * as C++ for the host (MST_SIMULATED), so that they can run where no GPU is. Hence only this: no
 * atomics, no shared memory or barriers of one's own, no textures, no recursion, no printf.
 *
 *   MST_KERNEL(name, parameters_type) { ... p ... } at the beginning of a line; p: the structure
 *   that the host code filled, at most
 *                                                     2048 bytes, read only
 *   MST_EACH(i, count) { ... } every i in [0, count), each by one thread; `continue` is legal,
 *   `break` and `return` are not
 *   MST_BLOCKS(b, count) { ... } every b in [0, count), each by all threads of one block; not
 *   `break`, `continue` or `return`
 *   MST_BLOCK_REDUCE(type, result, i, n, identity, value, combine);
 *                                                     inside MST_BLOCKS, met by all threads:
 *                                                     declares `type result`, in every thread the
 *                                                     combination of
 *                                                     value(i) over i in [0, n), in an order that n
 *                                                     alone fixes. type: plain data; value: an
 *                                                     expression of i;
 *                                                     combine: a function object of two,
 *                                                     associative but for rounding; identity
 *                                                     changes nothing
 *   MST_BLOCK_EACH(j, n) { ... } inside MST_BLOCKS: every j in [0, n), each by one thread of the
 *   block
 *   MST_ONE { ... }                                   inside MST_BLOCKS: one thread of the block
 *   MST_ADDRESS(type, pointer) a device address of the parameters as `type *`: each goes through it
 *   once, at the top of the kernel; NULL
 *                                                     stays NULL
 *   MST_OUTLINE result name(...) { ... } a function that stays one: what many loops share must not
 *   make the program larger with each of them
 * A kernel has MST_EACH or MST_BLOCKS loops, and what is written in one loop must not be read in
 * another: nothing orders the threads of two blocks. The tests compile all texts as one program, so
 * names beside the kernels carry the name of their file. */
#ifndef MST_DEVICE_CUH
#define MST_DEVICE_CUH

#include <stdint.h>
#include <string.h>

enum { MST_THREADS = 256 }; /* of a block, always */

#if defined(MST_SIMULATED) && !defined(__CUDACC_RTC__)
#include "mst_shim.hh"
#else

#define MST_KERNEL(name, parameters_type) extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ parameters_type p)
#define MST_EACH(i, count)                                                                                       \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, mst_count_##i = (count); i < mst_count_##i; \
         i += (int64_t)gridDim.x * blockDim.x)
#define MST_BLOCKS(b, count) for (int64_t b = blockIdx.x, mst_count_##b = (count); b < mst_count_##b; b += gridDim.x)
#define MST_BLOCK_EACH(j, n) for (int64_t j = threadIdx.x, mst_count_##j = (n); j < mst_count_##j; j += MST_THREADS)
#define MST_ONE if (threadIdx.x == 0)
#define MST_BLOCK_REDUCE(type, result, i, n, identity, value, combine)                                                         \
    type result = (identity);                                                                                                  \
    for (int64_t i = threadIdx.x, mst_count_##i = (n); i < mst_count_##i; i += MST_THREADS) result = combine(result, (value)); \
    result = mst_block_combine<type>(result, combine)
#define MST_ADDRESS(type, pointer) ((type *)(pointer))
#define MST_OUTLINE static __noinline__ __device__

/* Lane t takes lane t + 128, then t + 64, and so on: within the last warp without the block's
 * barrier. */
template <typename T, typename F> MST_OUTLINE T mst_block_combine(T value, F combine) {
    __shared__ __align__(16) unsigned char memory[MST_THREADS * sizeof(T)];
    T *lanes = (T *)memory;
    int lane = threadIdx.x;
    lanes[lane] = value;
    __syncthreads();
    for (int half = MST_THREADS / 2; half >= 32; half /= 2) {
        if (lane < half) lanes[lane] = combine(lanes[lane], lanes[lane + half]);
        __syncthreads();
    }
    if (lane < 32) {
        for (int half = 16; half > 0; half /= 2) {
            if (lane < half) lanes[lane] = combine(lanes[lane], lanes[lane + half]);
            __syncwarp();
        }
    }
    __syncthreads();
    T result = lanes[0];
    __syncthreads(); /* before the next one writes */
    return result;
}
#endif
#endif

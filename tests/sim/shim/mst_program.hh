/* CUDA C++ as NVRTC knows it without any header, for C++ on the host: included before a program of the user's. What stays to be translated
 * in the preprocessed text are __global__, __shared__ and __launch_bounds__ (nvrtc/translate.c). Strict where it can be: only the
 * overloads that CUDA has. No inline PTX, no textures, no cooperative groups. */
#include "mst_program.h"

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define MST_UNCHECKED __attribute__((no_sanitize_thread))

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef mst_program_position uint3;
struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

/* ---- where a thread is ---- */
static __thread mst_program_here mst_here;
static mst_program_machine mst_machine;
#define threadIdx (mst_here.thread)
#define blockIdx (mst_here.block)
#define blockDim (mst_here.threads)
#define gridDim (mst_here.blocks)
static const int warpSize = 32;

static MST_UNCHECKED __attribute__((unused)) void mst_check(const void *address, unsigned long bytes, unsigned long alignment, int kind) {
    const unsigned long at = (unsigned long)address;
    if (at - mst_here.stack.start < mst_here.stack.bytes) return;
    for (int i = 0; i < MST_PROGRAM_SEEN && at % alignment == 0; i++) {
        const mst_program_range *seen = &mst_here.seen[i];
        if (at - seen->start >= seen->bytes || bytes > seen->bytes - (at - seen->start)) continue;
        if (mst_machine.watch) mst_machine.watch(address, bytes, kind);
        return;
    }
    mst_machine.check(address, bytes, alignment, kind);
}

/* The compiler calls these before each access to memory, as -fsanitize=thread has it; the library of that sanitizer is not linked.
 * -fsanitize=kernel-address would do for legality, but leaves out the store behind a load of the same address. */
extern "C" {
#define MST_ACCESS_BY(name, bytes, alignment, kind) \
    __attribute__((visibility("hidden"))) MST_UNCHECKED void __tsan_##name(void *p) { mst_check(p, bytes, alignment, kind); }
#define MST_ACCESS(bytes, alignment)                                     \
    MST_ACCESS_BY(read##bytes, bytes, alignment, MST_PROGRAM_READ)       \
    MST_ACCESS_BY(write##bytes, bytes, alignment, MST_PROGRAM_WRITE)     \
    MST_ACCESS_BY(unaligned_read##bytes, bytes, 1, MST_PROGRAM_READ)     \
    MST_ACCESS_BY(unaligned_write##bytes, bytes, 1, MST_PROGRAM_WRITE)   \
    MST_ACCESS_BY(volatile_read##bytes, bytes, alignment, MST_PROGRAM_READ) \
    MST_ACCESS_BY(volatile_write##bytes, bytes, alignment, MST_PROGRAM_WRITE)
MST_ACCESS(1, 1)
MST_ACCESS(2, 2)
MST_ACCESS(4, 4)
MST_ACCESS(8, 8)
MST_ACCESS(16, 1)
__attribute__((visibility("hidden"))) MST_UNCHECKED void __tsan_read_range(void *p, long bytes) {
    mst_check(p, (unsigned long)bytes, 1, MST_PROGRAM_READ);
}
__attribute__((visibility("hidden"))) MST_UNCHECKED void __tsan_write_range(void *p, long bytes) {
    mst_check(p, (unsigned long)bytes, 1, MST_PROGRAM_WRITE);
}
__attribute__((visibility("hidden"))) MST_UNCHECKED void __tsan_init(void) {}
__attribute__((visibility("hidden"))) MST_UNCHECKED void __tsan_func_entry(void *) {}
__attribute__((visibility("hidden"))) MST_UNCHECKED void __tsan_func_exit(void *) {}
}

/* ---- threads of a block ---- */
static inline void __syncthreads() { mst_machine.barrier(); }
static inline void __syncwarp(unsigned int mask = 0xffffffffu) { mst_machine.warp_barrier(mask); }
static MST_UNCHECKED __noinline__ __attribute__((unused)) void mst_fence() {
    if (mst_machine.watch) mst_machine.watch((const void *)0, 0, MST_PROGRAM_FENCE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence() { mst_fence(); }
static inline void __threadfence_block() { mst_fence(); }
static inline void __threadfence_system() { mst_fence(); }
static inline void __trap() { mst_machine.trap(); }

static inline int mst_lane() {
    return (int)((mst_here.thread.x + mst_here.threads.x * (mst_here.thread.y + mst_here.threads.y * mst_here.thread.z)) % 32u);
}
template <typename T> static inline T mst_exchange(unsigned int mask, T value, int lane) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a type that the warp can exchange");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = mst_machine.exchange(mask, bits, lane);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T> static inline T __shfl_sync(unsigned int mask, T value, int from, int width = 32) {
    return mst_exchange(mask, value, mst_lane() / width * width + from % width);
}
template <typename T> static inline T __shfl_up_sync(unsigned int mask, T value, unsigned int by, int width = 32) {
    return mst_exchange(mask, value, mst_lane() % width < (int)by ? mst_lane() : mst_lane() - (int)by);
}
template <typename T> static inline T __shfl_down_sync(unsigned int mask, T value, unsigned int by, int width = 32) {
    return mst_exchange(mask, value, mst_lane() % width + (int)by < width ? mst_lane() + (int)by : mst_lane());
}
template <typename T> static inline T __shfl_xor_sync(unsigned int mask, T value, int with, int width = 32) {
    int other = mst_lane() ^ with;
    return mst_exchange(mask, value, other / width <= mst_lane() / width ? other : mst_lane());
}
static inline unsigned int __activemask() { return 0xffffffffu; }
static inline unsigned int __ballot_sync(unsigned int mask, int predicate) { return mst_machine.ballot(mask, predicate); }
static inline int __any_sync(unsigned int mask, int predicate) { return mst_machine.ballot(mask, predicate) != 0; }
static inline int __all_sync(unsigned int mask, int predicate) { return mst_machine.ballot(mask, !predicate) == 0; }

/* ---- atomics: each returns the old value ---- */
template <typename T> struct mst_bits_of;
template <> struct mst_bits_of<float> { typedef unsigned int type; };
template <> struct mst_bits_of<double> { typedef unsigned long long type; };
template <typename T, typename F> MST_UNCHECKED __noinline__ T mst_atomic(T *address, F change) {
    mst_check(address, sizeof(T), sizeof(T), MST_PROGRAM_ATOMIC);
    T old = __atomic_load_n(address, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(address, &old, change(old), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}
template <typename T, typename F> MST_UNCHECKED T mst_atomic_real(T *address, F change) {
    typedef typename mst_bits_of<T>::type bits;
    bits old = mst_atomic((bits *)address, [&](bits before) {
        T value;
        bits after;
        __builtin_memcpy(&value, &before, sizeof value);
        value = change(value);
        __builtin_memcpy(&after, &value, sizeof value);
        return after;
    });
    T result;
    __builtin_memcpy(&result, &old, sizeof result);
    return result;
}
#define MST_ATOMIC(name, T, new_value)                                     \
    static inline T name(T *address, T value) {                            \
        return mst_atomic(address, [=](T old) { return (T)(new_value); }); \
    }
#define MST_ATOMIC_REAL(name, T, new_value)                                     \
    static inline T name(T *address, T value) {                                 \
        return mst_atomic_real(address, [=](T old) { return (T)(new_value); }); \
    }
#define MST_ATOMIC_CAS(T)                                                                 \
    static inline T atomicCAS(T *address, T expected, T value) {                          \
        return mst_atomic(address, [=](T old) { return old == expected ? value : old; }); \
    }
typedef unsigned int mst_uint;
typedef unsigned long long mst_ulong;
typedef long long mst_long;
MST_ATOMIC(atomicAdd, int, (mst_uint)old + (mst_uint)value)
MST_ATOMIC(atomicAdd, mst_uint, old + value)
MST_ATOMIC(atomicAdd, mst_ulong, old + value)
MST_ATOMIC_REAL(atomicAdd, float, old + value)
MST_ATOMIC_REAL(atomicAdd, double, old + value)
MST_ATOMIC(atomicSub, int, (mst_uint)old - (mst_uint)value)
MST_ATOMIC(atomicSub, mst_uint, old - value)
MST_ATOMIC(atomicExch, int, value)
MST_ATOMIC(atomicExch, mst_uint, value)
MST_ATOMIC(atomicExch, mst_ulong, value)
MST_ATOMIC_REAL(atomicExch, float, value)
#define MST_ATOMICS(T)                                  \
    MST_ATOMIC(atomicMin, T, old < value ? old : value) \
    MST_ATOMIC(atomicMax, T, old > value ? old : value) \
    MST_ATOMIC(atomicAnd, T, old & value)               \
    MST_ATOMIC(atomicOr, T, old | value)                \
    MST_ATOMIC(atomicXor, T, old ^ value)
MST_ATOMICS(int)
MST_ATOMICS(mst_uint)
MST_ATOMICS(mst_ulong)
MST_ATOMIC(atomicMin, mst_long, old < value ? old : value)
MST_ATOMIC(atomicMax, mst_long, old > value ? old : value)
MST_ATOMIC(atomicInc, mst_uint, old >= value ? 0 : old + 1)
MST_ATOMIC(atomicDec, mst_uint, old == 0 || old > value ? value : old - 1)
MST_ATOMIC_CAS(int)
MST_ATOMIC_CAS(mst_uint)
MST_ATOMIC_CAS(mst_ulong)
MST_ATOMIC_CAS(unsigned short)

#include "mst_program_math.hh"

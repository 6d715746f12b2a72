/* The dialect of kernel texts, for CUDA. cluda_opencl.cl is the same for OpenCL: every name means
 * the same in both. README.md has the table. No header of NVIDIA's is needed. MST_SIMULATED:
 * compiled as C++ for the host, where there is no PTX. */
#ifndef CLUDA_H
#define CLUDA_H

#define MUSTER_HAS_DOUBLE

#define KERNEL extern "C" __global__
#define WITHIN_KERNEL extern "C" __device__
#define GLOBAL_MEM
#define LOCAL_MEM __shared__
#define LOCAL_MEM_ARG
#define GA_DECL_SHARED_PARAM(type, name)
/* One array for all types, since a program may have kernels with different ones. */
#define GA_DECL_SHARED_BODY(type, name)                           \
    extern __shared__ unsigned long long muster_dynamic_shared[]; \
    type *name = (type *)muster_dynamic_shared;

/* Of the threads of a group: until all have come here. local_barrier orders what they did in local
 * memory, MUSTER_GROUP_BARRIER in global memory, too. Nothing orders two groups. */
#define local_barrier() __syncthreads()
#define MUSTER_GROUP_BARRIER() __syncthreads()

typedef unsigned char ga_bool;
typedef signed char ga_byte;
typedef unsigned char ga_ubyte;
typedef short ga_short;
typedef unsigned short ga_ushort;
typedef int ga_int;
typedef unsigned int ga_uint;
typedef long long ga_long;
typedef unsigned long long ga_ulong;
typedef float ga_float;
typedef double ga_double;
typedef decltype(sizeof(0)) ga_size;
typedef decltype((char *)0 - (char *)0) ga_ssize;
/* Storage only: arithmetic on them does not compile. */
struct ga_half {
    ga_ushort data;
};
struct ga_bf16 {
    ga_ushort data;
};

/* Threads that may proceed together. Whoever relies on it still needs a barrier. */
#define GA_WARP_SIZE 32

/* Number in its group, size of the group, number of the group, number of groups: all of 64 bits. */
#define LID_0 ((ga_size)threadIdx.x)
#define LID_1 ((ga_size)threadIdx.y)
#define LID_2 ((ga_size)threadIdx.z)
#define LDIM_0 ((ga_size)blockDim.x)
#define LDIM_1 ((ga_size)blockDim.y)
#define LDIM_2 ((ga_size)blockDim.z)
#define GID_0 ((ga_size)blockIdx.x)
#define GID_1 ((ga_size)blockIdx.y)
#define GID_2 ((ga_size)blockIdx.z)
#define GDIM_0 ((ga_size)gridDim.x)
#define GDIM_1 ((ga_size)gridDim.y)
#define GDIM_2 ((ga_size)gridDim.z)

/* What OpenCL's language has. */
#ifndef NULL
#define NULL 0
#endif
#undef INFINITY
#undef NAN
#undef MAXFLOAT
#undef HUGE_VALF
#undef HUGE_VAL
#define INFINITY (muster_float_of(0x7f800000u))
#define NAN (muster_float_of(0x7fc00000u))
#define MAXFLOAT 3.402823466e+38f
#define HUGE_VALF (muster_float_of(0x7f800000u))
#define HUGE_VAL ((double)muster_float_of(0x7f800000u))
#undef M_E
#define M_E 2.7182818284590452354
#undef M_LOG2E
#define M_LOG2E 1.4426950408889634074
#undef M_LOG10E
#define M_LOG10E 0.43429448190325182765
#undef M_LN2
#define M_LN2 0.69314718055994530942
#undef M_LN10
#define M_LN10 2.30258509299404568402
#undef M_PI
#define M_PI 3.14159265358979323846
#undef M_PI_2
#define M_PI_2 1.57079632679489661923
#undef M_PI_4
#define M_PI_4 0.78539816339744830962
#undef M_1_PI
#define M_1_PI 0.31830988618379067154
#undef M_2_PI
#define M_2_PI 0.63661977236758134308
#undef M_2_SQRTPI
#define M_2_SQRTPI 1.12837916709551257390
#undef M_SQRT2
#define M_SQRT2 1.41421356237309504880
#undef M_SQRT1_2
#define M_SQRT1_2 0.70710678118654752440

static __device__ inline ga_uint muster_bits_of(float value) {
    union {
        float value;
        ga_uint bits;
    } both;
    both.value = value;
    return both.bits;
}
static __device__ inline float muster_float_of(ga_uint bits) {
    union {
        ga_uint bits;
        float value;
    } both;
    both.bits = bits;
    return both.value;
}

/* f16: to nearest, ties to even; a NaN stays one, quiet, with its sign and the upper bits of its
 * payload. The processor's own instructions, except for NaN, of which they make one and the same;
 * on the host bit arithmetic (after F. Giesen, public domain). */
static __device__ inline float ga_half2float(ga_half value) {
    ga_uint sign = (ga_uint)(value.data & 0x8000u) << 16, magnitude = (ga_uint)(value.data & 0x7fffu) << 13;
    if (magnitude > (31u << 23)) return muster_float_of(sign | magnitude | (255u << 23) | 0x00400000u);
#ifdef MST_SIMULATED
    const ga_uint smallest_normal = 113u << 23;
    ga_uint subnormal = muster_bits_of(muster_float_of(magnitude + smallest_normal) - muster_float_of(smallest_normal));
    ga_uint other = magnitude >= (31u << 23) ? magnitude | (255u << 23) : magnitude + (112u << 23);
    return muster_float_of(sign | (magnitude < (1u << 23) ? subnormal : other));
#else
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.data));
    return result;
#endif
}
static __device__ inline ga_half ga_float2half(float value) {
    ga_half result;
    ga_uint bits = muster_bits_of(value), sign = bits & 0x80000000u, magnitude = bits ^ sign;
    if (magnitude > (255u << 23)) {
        result.data = (ga_ushort)(sign >> 16 | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
        return result;
    }
#ifdef MST_SIMULATED
    const ga_uint smallest_normal = 113u << 23, subnormal_magic = 126u << 23;
    ga_uint subnormal = muster_bits_of(muster_float_of(magnitude < smallest_normal ? magnitude : 0u) + muster_float_of(subnormal_magic));
    subnormal -= subnormal_magic;
    ga_uint normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    result.data = (ga_ushort)((magnitude >= (143u << 23) ? 0x7c00u : magnitude < smallest_normal ? subnormal : normal) | sign >> 16);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.data) : "f"(value));
#endif
    return result;
}
static __device__ inline float ga_bf162float(ga_bf16 value) {
    ga_uint bits = (ga_uint)value.data << 16;
    return muster_float_of(bits | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x00400000u : 0u));
}
static __device__ inline ga_bf16 ga_float2bf16(float value) {
    ga_uint bits = muster_bits_of(value);
    ga_bf16 result;
    result.data = (ga_ushort)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    return result;
}

/* Atomics: atom_add_XY and atom_xchg_XY of the address and a value; X: i ga_int, I ga_uint, l
 * ga_long, L ga_ulong, f ga_float, d ga_double, e ga_half; Y: g global, l local memory. All return
 * the old value. */
#define MUSTER_ATOM(X, type, word, add, xchg)                                                                                      \
    static __device__ inline type atom_add_##X##g(type *address, type value) { return (type)add((word *)address, (word)value); }   \
    static __device__ inline type atom_add_##X##l(type *address, type value) { return (type)add((word *)address, (word)value); }   \
    static __device__ inline type atom_xchg_##X##g(type *address, type value) { return (type)xchg((word *)address, (word)value); } \
    static __device__ inline type atom_xchg_##X##l(type *address, type value) { return (type)xchg((word *)address, (word)value); }

static __device__ inline double muster_xchg_double(double *address, double value) {
    union {
        double value;
        ga_ulong bits;
    } both;
    both.value = value;
    both.bits = atomicExch((ga_ulong *)address, both.bits);
    return both.value;
}
/* The aligned word around the half: the other one in it is left as it is. */
static __device__ inline ga_half muster_atom_half(ga_half *address, ga_half value, bool add) {
    ga_uint shift = ((ga_size)address & 2) ? 16 : 0;
    ga_uint *word = (ga_uint *)((char *)address - shift / 8), old = *(volatile ga_uint *)word;
    for (;;) {
        ga_half before, after = value;
        before.data = (ga_ushort)(old >> shift);
        if (add) after = ga_float2half(ga_half2float(before) + ga_half2float(value));
        ga_uint seen = atomicCAS(word, old, (old & ~(0xffffu << shift)) | (ga_uint)after.data << shift);
        if (seen == old) return before;
        old = seen;
    }
}
static __device__ inline ga_half muster_add_half(ga_half *address, ga_half value) { return muster_atom_half(address, value, true); }
static __device__ inline ga_half muster_xchg_half(ga_half *address, ga_half value) { return muster_atom_half(address, value, false); }
MUSTER_ATOM(i, ga_int, int, atomicAdd, atomicExch)
MUSTER_ATOM(I, ga_uint, unsigned int, atomicAdd, atomicExch)
MUSTER_ATOM(l, ga_long, unsigned long long, atomicAdd, atomicExch)
MUSTER_ATOM(L, ga_ulong, unsigned long long, atomicAdd, atomicExch)
MUSTER_ATOM(f, ga_float, float, atomicAdd, atomicExch)
MUSTER_ATOM(d, ga_double, double, atomicAdd, muster_xchg_double)
MUSTER_ATOM(e, ga_half, ga_half, muster_add_half, muster_xchg_half)

/* Number of a thread among all, and number of all threads, along each dimension. */
#define MUSTER_GLOBAL_ID_0 (GID_0 * LDIM_0 + LID_0)
#define MUSTER_GLOBAL_ID_1 (GID_1 * LDIM_1 + LID_1)
#define MUSTER_GLOBAL_ID_2 (GID_2 * LDIM_2 + LID_2)
#define MUSTER_GLOBAL_SIZE_0 (GDIM_0 * LDIM_0)
#define MUSTER_GLOBAL_SIZE_1 (GDIM_1 * LDIM_1)
#define MUSTER_GLOBAL_SIZE_2 (GDIM_2 * LDIM_2)
/* Every i in [0, n), each by one thread, however many there are. */
#define MUSTER_EACH(i, n)                                                                                          \
    for (ga_size i = MUSTER_GLOBAL_ID_0, muster_end_##i = (n) > 0 ? (ga_size)(n) : (ga_size)0; i < muster_end_##i; \
         i += MUSTER_GLOBAL_SIZE_0)
/* Every pair of i in [0, n) and j in [0, m), each by one thread; neighbours differ in j. The inner
 * loop runs once: it declares i and j. */
#define MUSTER_EACH_2(i, n, j, m)                                                                                              \
    MUSTER_EACH(muster_pair_##i, (n) > 0 && (m) > 0 ? (ga_size)(n) * (ga_size)(m) : (ga_size)0)                                \
    for (ga_size i = muster_pair_##i / (ga_size)(m), j = muster_pair_##i % (ga_size)(m), muster_once_##i = 1; muster_once_##i; \
         muster_once_##i = 0)

/* For texts that do not know their element type, ga_half and ga_bf16 among them: MUSTER_WORK(type)
 * is the type to compute in (float for those two), MUSTER_LOAD(type, x[i]) an element in it, and
 * y[i] = MUSTER_STORE(type, value) its way back. type: ga_float and so on, or a macro for one. */
#define MUSTER_WORK(type) MUSTER_WORK_(type)
#define MUSTER_LOAD(type, element) MUSTER_LOAD_(type, element)
#define MUSTER_STORE(type, value) MUSTER_STORE_(type, value)
#define MUSTER_WORK_(type) MUSTER_WORK_##type
#define MUSTER_LOAD_(type, element) MUSTER_LOAD_##type(element)
#define MUSTER_STORE_(type, value) MUSTER_STORE_##type(value)
#define MUSTER_WORK_ga_half ga_float
#define MUSTER_LOAD_ga_half(element) ga_half2float(element)
#define MUSTER_STORE_ga_half(value) ga_float2half(value)
#define MUSTER_WORK_ga_bf16 ga_float
#define MUSTER_LOAD_ga_bf16(element) ga_bf162float(element)
#define MUSTER_STORE_ga_bf16(value) ga_float2bf16(value)
#define MUSTER_WORK_ga_bool ga_bool
#define MUSTER_LOAD_ga_bool(element) (element)
#define MUSTER_STORE_ga_bool(value) ((ga_bool)((value) != 0))
#define MUSTER_WORK_ga_byte ga_byte
#define MUSTER_LOAD_ga_byte(element) (element)
#define MUSTER_STORE_ga_byte(value) ((ga_byte)(value))
#define MUSTER_WORK_ga_ubyte ga_ubyte
#define MUSTER_LOAD_ga_ubyte(element) (element)
#define MUSTER_STORE_ga_ubyte(value) ((ga_ubyte)(value))
#define MUSTER_WORK_ga_short ga_short
#define MUSTER_LOAD_ga_short(element) (element)
#define MUSTER_STORE_ga_short(value) ((ga_short)(value))
#define MUSTER_WORK_ga_ushort ga_ushort
#define MUSTER_LOAD_ga_ushort(element) (element)
#define MUSTER_STORE_ga_ushort(value) ((ga_ushort)(value))
#define MUSTER_WORK_ga_int ga_int
#define MUSTER_LOAD_ga_int(element) (element)
#define MUSTER_STORE_ga_int(value) ((ga_int)(value))
#define MUSTER_WORK_ga_uint ga_uint
#define MUSTER_LOAD_ga_uint(element) (element)
#define MUSTER_STORE_ga_uint(value) ((ga_uint)(value))
#define MUSTER_WORK_ga_long ga_long
#define MUSTER_LOAD_ga_long(element) (element)
#define MUSTER_STORE_ga_long(value) ((ga_long)(value))
#define MUSTER_WORK_ga_ulong ga_ulong
#define MUSTER_LOAD_ga_ulong(element) (element)
#define MUSTER_STORE_ga_ulong(value) ((ga_ulong)(value))
#define MUSTER_WORK_ga_float ga_float
#define MUSTER_LOAD_ga_float(element) (element)
#define MUSTER_STORE_ga_float(value) ((ga_float)(value))
#define MUSTER_WORK_ga_double ga_double
#define MUSTER_LOAD_ga_double(element) (element)
#define MUSTER_STORE_ga_double(value) ((ga_double)(value))
#define MUSTER_WORK_ga_size ga_size
#define MUSTER_LOAD_ga_size(element) (element)
#define MUSTER_STORE_ga_size(value) ((ga_size)(value))
#define MUSTER_WORK_ga_ssize ga_ssize
#define MUSTER_LOAD_ga_ssize(element) (element)
#define MUSTER_STORE_ga_ssize(value) ((ga_ssize)(value))

#endif

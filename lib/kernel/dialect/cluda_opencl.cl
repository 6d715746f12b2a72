/* The dialect of kernel sources, for OpenCL. cluda_cuda.cuh is the same for CUDA: every name means
 * the same in both. README.md has the table. */
#ifndef CLUDA_H
#define CLUDA_H

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define MUSTER_HAS_DOUBLE
#endif
#ifdef cl_khr_byte_addressable_store
#pragma OPENCL EXTENSION cl_khr_byte_addressable_store : enable
#endif
#ifdef cl_khr_int64_base_atomics
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif
/* As on GPUs: a product and a sum round twice unless the text says fma. */
#pragma OPENCL FP_CONTRACT OFF

#define KERNEL __kernel
#define WITHIN_KERNEL
#define GLOBAL_MEM __global
#define LOCAL_MEM __local
#define LOCAL_MEM_ARG __local
#define GA_DECL_SHARED_PARAM(type, name) , __local type *name
#define GA_DECL_SHARED_BODY(type, name)

/* A thread waits until all threads of its group have reached the barrier. local_barrier orders
 * their accesses to local memory, MUSTER_GROUP_BARRIER also those to global memory. Nothing orders
 * two groups. */
#define local_barrier() barrier(CLK_LOCAL_MEM_FENCE)
#define MUSTER_GROUP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

typedef uchar ga_bool;
typedef char ga_byte;
typedef uchar ga_ubyte;
typedef short ga_short;
typedef ushort ga_ushort;
typedef int ga_int;
typedef uint ga_uint;
typedef long ga_long;
typedef ulong ga_ulong;
typedef float ga_float;
#ifdef MUSTER_HAS_DOUBLE
typedef double ga_double;
#endif
typedef ulong ga_size;
typedef long ga_ssize;
/* Storage only: arithmetic on them does not compile. */
typedef struct ga_half {
    ushort data;
} ga_half;
typedef struct ga_bf16 {
    ushort data;
} ga_bf16;

/* Threads that may proceed together; none do here. Whoever relies on it still needs a barrier. */
#ifndef GA_WARP_SIZE
#define GA_WARP_SIZE 1
#endif

/* Number in its group, size of the group, number of the group, number of groups: all of 64 bits. */
#define LID_0 ((ga_size)get_local_id(0))
#define LID_1 ((ga_size)get_local_id(1))
#define LID_2 ((ga_size)get_local_id(2))
#define LDIM_0 ((ga_size)get_local_size(0))
#define LDIM_1 ((ga_size)get_local_size(1))
#define LDIM_2 ((ga_size)get_local_size(2))
#define GID_0 ((ga_size)get_group_id(0))
#define GID_1 ((ga_size)get_group_id(1))
#define GID_2 ((ga_size)get_group_id(2))
#define GDIM_0 ((ga_size)get_num_groups(0))
#define GDIM_1 ((ga_size)get_num_groups(1))
#define GDIM_2 ((ga_size)get_num_groups(2))

#ifndef NULL
#define NULL ((void *)0)
#endif

/* f16: to nearest, ties to even; a NaN stays a NaN, quiet, with its sign and the upper bits of its
 * payload. Bit arithmetic, as in the library's own conversion (after F. Giesen, public domain),
 * gives the same bits on every processor. */
static inline float ga_half2float(ga_half value) {
    const uint smallest_normal = 113u << 23;
    uint sign = (uint)(value.data & 0x8000u) << 16, magnitude = (uint)(value.data & 0x7fffu) << 13;
    uint subnormal = as_uint(as_float(magnitude + smallest_normal) - as_float(smallest_normal));
    uint special = magnitude | (255u << 23) | (magnitude > (31u << 23) ? 0x00400000u : 0u);
    return as_float(sign | (magnitude < (1u << 23) ? subnormal : magnitude >= (31u << 23) ? special : magnitude + (112u << 23)));
}
static inline ga_half ga_float2half(float value) {
    const uint infinity = 255u << 23, overflow = 143u << 23, smallest_normal = 113u << 23, subnormal_magic = 126u << 23;
    uint bits = as_uint(value), sign = bits & 0x80000000u, magnitude = bits ^ sign;
    uint special = magnitude > infinity ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : 0x7c00u;
    uint subnormal = as_uint(as_float(magnitude < smallest_normal ? magnitude : 0u) + as_float(subnormal_magic)) - subnormal_magic;
    uint normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    ga_half result;
    result.data = (ushort)((magnitude >= overflow ? special : magnitude < smallest_normal ? subnormal : normal) | sign >> 16);
    return result;
}
static inline float ga_bf162float(ga_bf16 value) {
    uint bits = (uint)value.data << 16;
    return as_float(bits | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x00400000u : 0u));
}
static inline ga_bf16 ga_float2bf16(float value) {
    uint bits = as_uint(value);
    ga_bf16 result;
    result.data = (ushort)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    return result;
}

/* Atomics: atom_add_XY and atom_xchg_XY take the address and a value. X is the type: i ga_int,
 * I ga_uint, l ga_long, L ga_ulong, f ga_float, d ga_double, e ga_half. Y is the memory: g global,
 * l local. All return the old value. */
#define atom_add_ig(address, value) atomic_add(address, value)
#define atom_add_il(address, value) atomic_add(address, value)
#define atom_add_Ig(address, value) atomic_add(address, value)
#define atom_add_Il(address, value) atomic_add(address, value)
#define atom_xchg_ig(address, value) atomic_xchg(address, value)
#define atom_xchg_il(address, value) atomic_xchg(address, value)
#define atom_xchg_Ig(address, value) atomic_xchg(address, value)
#define atom_xchg_Il(address, value) atomic_xchg(address, value)
#define atom_xchg_fg(address, value) atomic_xchg(address, value)
#define atom_xchg_fl(address, value) atomic_xchg(address, value)

#define MUSTER_ATOM_FLOAT(space, Y)                                                                   \
    static inline ga_float atom_add_f##Y(volatile space ga_float *address, ga_float value) {          \
        volatile space uint *word = (volatile space uint *)address;                                   \
        uint old = *word, seen;                                                                       \
        while ((seen = atomic_cmpxchg(word, old, as_uint(as_float(old) + value))) != old) old = seen; \
        return as_float(old);                                                                         \
    }
MUSTER_ATOM_FLOAT(__global, g)
MUSTER_ATOM_FLOAT(__local, l)

/* The aligned word around the half: the other one in it is left as it is. */
#define MUSTER_ATOM_HALF(space, Y, name, what)                                                                          \
    static inline ga_half name##_e##Y(volatile space ga_half *address, ga_half value) {                                 \
        uint shift = ((ga_size)address & 2) ? 16 : 0;                                                                   \
        volatile space uint *word = (volatile space uint *)((volatile space char *)address - shift / 8);                \
        uint old = *word, seen;                                                                                         \
        ga_half before;                                                                                                 \
        before.data = (ushort)(old >> shift);                                                                           \
        while ((seen = atomic_cmpxchg(word, old, (old & ~(0xffffu << shift)) | ((uint)(what).data << shift))) != old) { \
            old = seen;                                                                                                 \
            before.data = (ushort)(old >> shift);                                                                       \
        }                                                                                                               \
        return before;                                                                                                  \
    }
MUSTER_ATOM_HALF(__global, g, atom_add, ga_float2half(ga_half2float(before) + ga_half2float(value)))
MUSTER_ATOM_HALF(__local, l, atom_add, ga_float2half(ga_half2float(before) + ga_half2float(value)))
MUSTER_ATOM_HALF(__global, g, atom_xchg, value)
MUSTER_ATOM_HALF(__local, l, atom_xchg, value)

#ifdef cl_khr_int64_base_atomics
#define atom_add_lg(address, value) atom_add(address, value)
#define atom_add_ll(address, value) atom_add(address, value)
#define atom_add_Lg(address, value) atom_add(address, value)
#define atom_add_Ll(address, value) atom_add(address, value)
#define atom_xchg_lg(address, value) atom_xchg(address, value)
#define atom_xchg_ll(address, value) atom_xchg(address, value)
#define atom_xchg_Lg(address, value) atom_xchg(address, value)
#define atom_xchg_Ll(address, value) atom_xchg(address, value)
#ifdef MUSTER_HAS_DOUBLE
#define MUSTER_ATOM_DOUBLE(space, Y)                                                                  \
    static inline ga_double atom_add_d##Y(volatile space ga_double *address, ga_double value) {       \
        volatile space ulong *word = (volatile space ulong *)address;                                 \
        ulong old = *word, seen;                                                                      \
        while ((seen = atom_cmpxchg(word, old, as_ulong(as_double(old) + value))) != old) old = seen; \
        return as_double(old);                                                                        \
    }                                                                                                 \
    static inline ga_double atom_xchg_d##Y(volatile space ga_double *address, ga_double value) {      \
        return as_double(atom_xchg((volatile space ulong *)address, as_ulong(value)));                \
    }
MUSTER_ATOM_DOUBLE(__global, g)
MUSTER_ATOM_DOUBLE(__local, l)
#endif
#endif

/* Number of a thread among all, and number of all threads, along each dimension. */
#define MUSTER_GLOBAL_ID_0 (GID_0 * LDIM_0 + LID_0)
#define MUSTER_GLOBAL_ID_1 (GID_1 * LDIM_1 + LID_1)
#define MUSTER_GLOBAL_ID_2 (GID_2 * LDIM_2 + LID_2)
#define MUSTER_GLOBAL_SIZE_0 (GDIM_0 * LDIM_0)
#define MUSTER_GLOBAL_SIZE_1 (GDIM_1 * LDIM_1)
#define MUSTER_GLOBAL_SIZE_2 (GDIM_2 * LDIM_2)
/* Every i in [0, n), each by one thread, for any number of threads. A thread of a CPU takes
 * neighbours: a loop that its compiler can vectorize, over memory in the order in which it lies. */
#define MUSTER_EACH(i, n)                                                                                                              \
    for (ga_size muster_n_##i = (n) > 0 ? (ga_size)(n) : (ga_size)0,                                                                   \
                 muster_each_##i = muster_n_##i / MUSTER_GLOBAL_SIZE_0 + (muster_n_##i % MUSTER_GLOBAL_SIZE_0 > 0),                    \
                 i = min(MUSTER_GLOBAL_ID_0 * muster_each_##i, muster_n_##i), muster_end_##i = min(i + muster_each_##i, muster_n_##i); \
         i < muster_end_##i; i++)
/* Every pair of i in [0, n) and j in [0, m), each by one thread, which takes neighbours: it counts
 * through the pairs from muster_at_ to muster_end_, row by row. */
#define MUSTER_EACH_2(i, n, j, m)                                                                                                         \
    for (ga_size muster_m_##i = (m) > 0 ? (ga_size)(m) : (ga_size)0, muster_n_##i = ((n) > 0 ? (ga_size)(n) : (ga_size)0) * muster_m_##i, \
                 muster_each_##i = muster_n_##i / MUSTER_GLOBAL_SIZE_0 + (muster_n_##i % MUSTER_GLOBAL_SIZE_0 > 0),                       \
                 muster_at_##i = min(MUSTER_GLOBAL_ID_0 * muster_each_##i, muster_n_##i),                                                 \
                 muster_end_##i = min(muster_at_##i + muster_each_##i, muster_n_##i),                                                     \
                 i = muster_at_##i < muster_end_##i ? muster_at_##i / muster_m_##i : muster_n_##i;                                        \
         i * muster_m_##i < muster_end_##i; i++)                                                                                          \
        for (ga_size j = max(muster_at_##i, i * muster_m_##i) - i * muster_m_##i,                                                         \
                     muster_end_##j = min(muster_end_##i - i * muster_m_##i, muster_m_##i);                                               \
             j < muster_end_##j; j++)

/* For sources that do not know their element type, which may be ga_half or ga_bf16:
 * MUSTER_WORK(type) is the type to compute in (float for those two), MUSTER_LOAD(type, x[i]) an
 * element in it, and y[i] = MUSTER_STORE(type, value) its way back. type: ga_float and so on, or a
 * macro for one. */
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

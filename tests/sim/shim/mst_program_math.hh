/* The functions of numbers: C's, with CUDA's overloads, and CUDA's own. */
/* clang-format off */

extern "C" {
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int printf(const char *format, ...);
}

#define MST_MATH1(name)                                       \
    extern "C" double name(double);                           \
    extern "C" float name##f(float);                          \
    static inline float name(float x) { return name##f(x); }
#define MST_MATH2(name)                        \
    extern "C" double name(double, double);    \
    extern "C" float name##f(float, float);    \
    static inline float name(float x, float y) { return name##f(x, y); }
MST_MATH1(sqrt) MST_MATH1(cbrt) MST_MATH1(exp) MST_MATH1(exp2) MST_MATH1(expm1) MST_MATH1(log) MST_MATH1(log2) MST_MATH1(log10)
MST_MATH1(log1p)
MST_MATH1(sin) MST_MATH1(cos) MST_MATH1(tan) MST_MATH1(asin) MST_MATH1(acos) MST_MATH1(atan) MST_MATH1(sinh) MST_MATH1(cosh) MST_MATH1(tanh)
MST_MATH1(asinh) MST_MATH1(acosh) MST_MATH1(atanh) MST_MATH1(floor) MST_MATH1(ceil) MST_MATH1(trunc) MST_MATH1(round) MST_MATH1(rint)
MST_MATH1(nearbyint)
MST_MATH1(fabs) MST_MATH1(erf) MST_MATH1(erfc) MST_MATH1(lgamma) MST_MATH1(tgamma)
MST_MATH2(pow) MST_MATH2(fmod) MST_MATH2(atan2) MST_MATH2(hypot) MST_MATH2(fmin) MST_MATH2(fmax) MST_MATH2(fdim) MST_MATH2(copysign)
MST_MATH2(nextafter)
MST_MATH2(remainder)
extern "C" {
double fma(double, double, double);
float fmaf(float, float, float);
double ldexp(double, int);
float ldexpf(float, int);
double frexp(double, int *);
float frexpf(float, int *);
double modf(double, double *);
float modff(float, float *);
}
static inline double pow(double x, int y) { return pow(x, (double)y); }
static inline float pow(float x, int y) { return powf(x, (float)y); }
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
static inline float ldexp(float x, int y) { return ldexpf(x, y); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline long long llrint(double x) { return (long long)rint(x); }
static inline int abs(int x) { return x < 0 ? -x : x; }
static inline long abs(long x) { return x < 0 ? -x : x; }
static inline long long abs(long long x) { return x < 0 ? -x : x; }
static inline long long llabs(long long x) { return x < 0 ? -x : x; }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }

#define MST_CLASSES(T)                                                       \
    static inline bool isnan(T x) { return __builtin_isnan(x); }             \
    static inline bool isinf(T x) { return __builtin_isinf(x) != 0; }        \
    static inline bool isfinite(T x) { return __builtin_isfinite(x); }       \
    static inline bool signbit(T x) { return __builtin_signbit(x) != 0; }
MST_CLASSES(float)
MST_CLASSES(double)

#define MST_SMALLER(T)                                         \
    static inline T min(T a, T b) { return b < a ? b : a; }    \
    static inline T max(T a, T b) { return a < b ? b : a; }
MST_SMALLER(int) MST_SMALLER(unsigned int) MST_SMALLER(long) MST_SMALLER(unsigned long) MST_SMALLER(long long)
MST_SMALLER(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

/* ---- the same bits as another type ---- */
#define MST_AS(name, from, to)                     \
    static inline to name(from value) {            \
        to result;                                 \
        __builtin_memcpy(&result, &value, sizeof result); \
        return result;                             \
    }
MST_AS(__int_as_float, int, float)
MST_AS(__uint_as_float, unsigned int, float)
MST_AS(__float_as_int, float, int)
MST_AS(__float_as_uint, float, unsigned int)
MST_AS(__longlong_as_double, long long, double)
MST_AS(__double_as_longlong, double, long long)

/* ---- CUDA's own ---- */
static inline float __expf(float x) { return expf(x); }
static inline float __exp10f(float x) { return powf(10.0f, x); }
static inline float __logf(float x) { return logf(x); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __tanf(float x) { return tanf(x); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline unsigned int __float2uint_rn(float x) { return (unsigned int)rintf(x); }
static inline unsigned int __float2uint_rz(float x) { return (unsigned int)x; }
static inline int __double2int_rn(double x) { return (int)rint(x); }
static inline int __double2int_rz(double x) { return (int)x; }
static inline float __double2float_rn(double x) { return (float)x; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned int x) { return (float)x; }
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
static inline unsigned int __umulhi(unsigned int x, unsigned int y) {
    return (unsigned int)((unsigned long long)x * y >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline int __mul24(int x, int y) { return x * y; }
static inline unsigned int __umul24(unsigned int x, unsigned int y) { return x * y; }
static inline unsigned int __brev(unsigned int x) {
    unsigned int result = 0;
    for (int i = 0; i < 32; i++) result |= (x >> i & 1u) << (31 - i);
    return result;
}
template <typename T>
static inline T __ldg(const T *address) {
    return *address;
}

/* ---- f16 by whole numbers: a float has every f16, and the other way rounds to the nearest, ties to even ---- */
static inline float mst_half_to_float(unsigned short half) {
    unsigned int sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0u));
    if (exponent) return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
    float small = (float)fraction * 5.9604644775390625e-8f; /* 2^-24, exactly */
    return sign ? -small : small;
}
static inline unsigned short mst_float_to_half(float value) {
    unsigned int bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | (size >> 13 & 0x3ffu));
    if (size >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);
    if (size < 0x33000000u) return (unsigned short)sign; /* below half of the smallest */
    unsigned int shift = size < 0x38800000u ? 126u - (size >> 23) : 13u;
    unsigned int whole = size < 0x38800000u ? (size & 0x7fffffu) | 0x800000u : size - 0x38000000u;
    unsigned int kept = whole >> shift, rest = whole & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
    kept += rest > tie || (rest == tie && (kept & 1u)) ? 1u : 0u;
    return (unsigned short)(sign | kept);
}

/* ---- vectors ---- */
#define MST_VECTORS(base, T, single, pair, quad)                                                                                       \
    struct base##1 {                                                                                                                   \
        T x;                                                                                                                           \
    };                                                                                                                                 \
    struct __align__(pair) base##2 {                                                                                                   \
        T x, y;                                                                                                                        \
    };                                                                                                                                 \
    struct __align__(quad) base##4 {                                                                                                   \
        T x, y, z, w;                                                                                                                  \
    };                                                                                                                                 \
    static inline base##1 make_##base##1(T x) { return {x}; }                                                                          \
    static inline base##2 make_##base##2(T x, T y) { return {x, y}; }                                                                  \
    static inline base##4 make_##base##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define MST_VECTOR3(base, T)                                                     \
    struct base##3 {                                                             \
        T x, y, z;                                                               \
    };                                                                           \
    static inline base##3 make_##base##3(T x, T y, T z) { return {x, y, z}; }
MST_VECTORS(char, signed char, 1, 2, 4) MST_VECTORS(uchar, unsigned char, 1, 2, 4) MST_VECTORS(short, short, 2, 4, 8)
MST_VECTORS(ushort, unsigned short, 2, 4, 8)
MST_VECTORS(int, int, 4, 8, 16) MST_VECTORS(uint, unsigned int, 4, 8, 16) MST_VECTORS(longlong, long long, 8, 16, 16)
MST_VECTORS(ulonglong, unsigned long long, 8, 16, 16) MST_VECTORS(float, float, 4, 8, 16) MST_VECTORS(double, double, 8, 16, 16)
MST_VECTOR3(char, signed char) MST_VECTOR3(uchar, unsigned char) MST_VECTOR3(short, short) MST_VECTOR3(ushort, unsigned short)
MST_VECTOR3(int, int)
MST_VECTOR3(longlong, long long) MST_VECTOR3(ulonglong, unsigned long long) MST_VECTOR3(float, float) MST_VECTOR3(double, double)
static inline uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) { return {x, y, z}; }

/* Powers of 16 floats at once, by instructions of AVX-512. What the compiler makes of the loop over
 * mst_vector_powf serves 8 numbers at once, in double, and takes twice as long as a power should.
 *
 * x = m 2^e with m in [1, 2); c is near 1 / m, from a table of 16, and r = m c - 1 is exact since c
 * has 5 bits. log2(x) = e - log2(c) + log2(1 + r) and its product with y are sums of two floats, of
 * which the second holds what rounding took from the first. The power is 2^k 2^f: k has 4 bits
 * behind the point, of which a table gives the power of two, and |f| < 1/31. Within 1 ulp. */
#include "binary_private.h"
#include "power_private.h"

bool mst_power_without_avx512;

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512dq")))

static const float power_reciprocal[16] = {0x1p+0f,   0x1.dp-1f, 0x1.cp-1f, 0x1.ap-1f, 0x1.9p-1f, 0x1.8p-1f, 0x1.7p-1f, 0x1.6p-1f,
                                           0x1.5p-1f, 0x1.4p-1f, 0x1.3p-1f, 0x1.3p-1f, 0x1.2p-1f, 0x1.1p-1f, 0x1.1p-1f, 0x1p-1f};
/* -log2 of the reciprocals: 16 bits behind the point, so that adding e is exact; and the rest. */
static const float power_log2[16] = {
    0,           0x1.22d8p-3f, 0x1.8a88p-3f, 0x1.32cp-2f,  0x1.6cbp-2f,  0x1.a9p-2f, 0x1.e7ep-2f, 0x1.14c6p-1f, 0x1.3722p-1f, 0x1.5b2cp-1f,
    0x1.811p-1f, 0x1.811p-1f,  0x1.a9p-1f,   0x1.d338p-1f, 0x1.d338p-1f, 1};
static const float power_log2_rest[16] = {0,
                                          0x1.6e155ap-18f,
                                          0x1.80abfcp-19f,
                                          -0x1.1c8f12p-22f,
                                          0x1.ed0cbap-19f,
                                          -0x1.a39fbep-20f,
                                          -0x1.40358ep-19f,
                                          -0x1.3e032ep-18f,
                                          0x1.5db83ap-20f,
                                          0x1.ed0cbap-20f,
                                          -0x1.6b9026p-19f,
                                          -0x1.6b9026p-19f,
                                          -0x1.a39fbep-19f,
                                          0x1.20a6dep-21f,
                                          0x1.20a6dep-21f,
                                          0};
/* 2^(i/16), rounded, and the rest. */
static const float power_exp2[16] = {0x1p+0f,        0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f, 0x1.306fep+0f,  0x1.3dea64p+0f,
                                     0x1.4bfdaep+0f, 0x1.5ab07ep+0f, 0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f,
                                     0x1.ae89fap+0f, 0x1.c199bep+0f, 0x1.d5818ep+0f, 0x1.ea4afap+0f};
static const float power_exp2_rest[16] = {0,
                                          0x1.9f3122p-25f,
                                          -0x1.c15742p-27f,
                                          0x1.ceac48p-25f,
                                          0x1.4636e2p-25f,
                                          0x1.824684p-25f,
                                          -0x1.593abcp-25f,
                                          -0x1.5bd5ecp-27f,
                                          0x1.9fcef4p-26f,
                                          -0x1.829fdp-25f,
                                          0x1.15506ep-27f,
                                          0x1.51f848p-27f,
                                          -0x1.a94b14p-26f,
                                          -0x1.3d56b2p-27f,
                                          -0x1.822dbcp-27f,
                                          0x1.52486cp-27f};

#define EACH(value) _mm512_set1_ps(value)
#define ADD _mm512_add_ps
#define SUB _mm512_sub_ps
#define MUL _mm512_mul_ps
#define MUL_ADD _mm512_fmadd_ps
#define MUL_SUB _mm512_fmsub_ps
/* The low 4 bits of each index count. */
#define LOOK_UP(index, table) _mm512_permutexvar_ps(index, _mm512_loadu_ps(table))

/* log2 |x|, and in *rest what rounding took from it. */
AVX512 static __m512 power_logarithm(__m512 x, __m512 *rest) {
    const __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
    const __m512i interval = _mm512_srli_epi32(_mm512_castps_si512(m), 19);
    const __m512 r = MUL_SUB(m, LOOK_UP(interval, power_reciprocal), EACH(1));
    /* log(1 + r) = r + square + r^3 p = log + log_rest, with square = -r^2 / 2 */
    const __m512 half = MUL(EACH(-0.5f), r), square = MUL(half, r), square_rest = MUL_SUB(half, r, square), cube = MUL(square, r);
    __m512 p = MUL_ADD(EACH(-0x1.10d074p-2f), r, EACH(0x1.55a17ep-2f));
    p = MUL_ADD(p, r, EACH(-0x1.99a474p-2f));
    p = MUL_ADD(p, r, EACH(0x1p-1f));
    p = MUL_ADD(p, r, EACH(-0x1.555554p-1f));
    const __m512 log = ADD(r, square), log_rest = ADD(SUB(square, SUB(log, r)), MUL_ADD(cube, p, square_rest));
    /* times 1 / log(2), which is 0x1.715476p+0 + 0x1.4ae0cp-26 */
    const __m512 of_r = MUL(log, EACH(0x1.715476p+0f));
    const __m512 of_r_rest =
        MUL_ADD(log_rest, EACH(0x1.715476p+0f), MUL_ADD(log, EACH(0x1.4ae0cp-26f), MUL_SUB(log, EACH(0x1.715476p+0f), of_r)));
    const __m512 of_c = ADD(_mm512_getexp_ps(x), LOOK_UP(interval, power_log2)), sum = ADD(of_c, of_r);
    *rest = ADD(SUB(of_r, SUB(sum, of_c)), ADD(of_r_rest, LOOK_UP(interval, power_log2_rest)));
    return sum;
}

enum { ZERO_INFINITE_NAN = 0x9f };

/* |x|^y, and in *special the lanes whose result is none: those where x or y is infinite or NaN, x
 * is 0, or the power is far outside of float. There 1 and 0 take the places of x and of the
 * product: what follows would raise exceptions. */
AVX512 static __m512 power_of_sizes(__m512 x, __m512 y, __mmask16 *special) {
    __m512 log_rest;
    const __mmask16 unusual = _mm512_fpclass_ps_mask(x, ZERO_INFINITE_NAN);
    const __m512 log = power_logarithm(_mm512_mask_mov_ps(x, unusual, EACH(1)), &log_rest), any = MUL(y, log);
    *special = (__mmask16)(~_mm512_cmp_ps_mask(_mm512_abs_ps(any), EACH(1000), _CMP_LE_OQ) | unusual);
    const __mmask16 usual = (__mmask16) ~*special;
    const __m512 product = _mm512_maskz_mov_ps(usual, any), rest = _mm512_maskz_fmadd_ps(usual, y, log_rest, MUL_SUB(y, log, any));
    /* adding 1.5 * 2^19 rounds to 4 bits behind the point, which are then the low bits */
    const __m512 shifted = ADD(ADD(product, rest), EACH(0x1.8p19f)), k = SUB(shifted, EACH(0x1.8p19f)), f = ADD(SUB(product, k), rest);
    const __m512 q = MUL(f, MUL_ADD(MUL_ADD(EACH(0x1.c6b46ap-5f), f, EACH(0x1.ebfff4p-3f)), f, EACH(0x1.62e43p-1f)));
    const __m512i low = _mm512_castps_si512(shifted);
    const __m512 of_low = LOOK_UP(low, power_exp2);
    /* scalef takes the integer below k */
    return _mm512_scalef_ps(ADD(of_low, MUL_ADD(of_low, q, LOOK_UP(low, power_exp2_rest))), k);
}

/* The results for the lanes `negative`, in which x is below 0, from |x|^y: NaN unless y is an
 * integer, and with a minus sign if it is odd. */
AVX512 static __m512 power_of_negative(__m512 size, __m512 y, __mmask16 negative) {
    const __m512 half = MUL(y, EACH(0.5f));
    const __mmask16 integral = _mm512_cmp_ps_mask(_mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), y, _CMP_EQ_OQ);
    const __mmask16 even = _mm512_cmp_ps_mask(_mm512_roundscale_ps(half, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), half, _CMP_EQ_OQ);
    const __m512 signed_size = _mm512_mask_xor_ps(size, negative & (__mmask16)~even, size, EACH(-0.0f));
    return _mm512_mask_mov_ps(signed_size, negative & (__mmask16)~integral, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
}

/* The lanes `special` of the power of x and y. */
AVX512 static __attribute__((noinline)) __m512 power_special(__m512 power, __m512 x, __m512 y, __mmask16 special) {
    float xs[16], ys[16], powers[16];
    _mm512_storeu_ps(xs, x), _mm512_storeu_ps(ys, y), _mm512_storeu_ps(powers, power);
    for (int lane = 0; lane < 16; lane++)
        if (special >> lane & 1) powers[lane] = mst_vector_powf(xs[lane], ys[lane]);
    return _mm512_loadu_ps(powers);
}

/* z[i] = x[i]^y[i]; z may be x or y. */
AVX512 static void power_floats(const float *x, const float *y, float *z, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff);
        const __m512 a = _mm512_mask_loadu_ps(EACH(1), lanes, x + i), b = _mm512_mask_loadu_ps(EACH(1), lanes, y + i);
        const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(a));
        __mmask16 special;
        __m512 power = power_of_sizes(a, b, &special);
        if (negative) power = power_of_negative(power, b, negative);
        if (__builtin_expect(special != 0, 0)) power = power_special(power, a, b, special);
        _mm512_mask_storeu_ps(z + i, lanes, power);
    }
}

enum { CHUNK = 256 };

static void power_load(const char *from, int64_t stride, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = *(const float *)(const void *)(from + i * stride);
}

/* Elements that do not lie behind each other go through a buffer; a repeated one is loaded once. */
static void power_strided(char *const *at, const int64_t *stride, int64_t n) {
    float buffers[3][CHUNK], *chunk[3];
    const int64_t size = sizeof(float);
    for (int k = 0; k < 3; k++) chunk[k] = buffers[k];
    for (int k = 0; k < 2; k++)
        if (stride[k] == 0) power_load(at[k], 0, buffers[k], n < CHUNK ? n : CHUNK);
    for (int64_t i = 0; i < n; i += CHUNK) {
        const int64_t count = n - i < CHUNK ? n - i : CHUNK;
        for (int k = 0; k < 3; k++) {
            if (stride[k] == size) chunk[k] = (float *)(void *)(at[k] + i * size);
            if (k < 2 && stride[k] != size && stride[k] != 0) power_load(at[k] + i * stride[k], stride[k], chunk[k], count);
        }
        power_floats(chunk[0], chunk[1], chunk[2], count);
        for (int64_t j = 0; j < count && stride[2] != size; j++) *(float *)(void *)(at[2] + (i + j) * stride[2]) = buffers[2][j];
    }
}

bool mst_power_avx512(char *const *at, const int64_t *stride, int64_t n) {
    if (mst_power_without_avx512 || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq")) return false;
    power_strided(at, stride, n);
    return true;
}

#else

bool mst_power_avx512(char *const *at, const int64_t *stride, int64_t n) {
    (void)at, (void)stride, (void)n;
    return false;
}

#endif

/* Includes the header MST_LOOPS once for each float dtype, with these parameters:
 *   SUFFIX       the name of the dtype
 *   T            the type of an element
 *   C            the type in which it is computed; f16 and bf16 are computed in float
 *   LOAD, STORE  conversions between T and C
 *   IS_FLOAT     1
 *   IS_HALF      whether T is not C
 * The file that includes this one defines MST_LOOPS. It defines MST_INLINE_HALVES and includes
 * half_impl.h for conversions of f16 and bf16 that are inlined; the public ones are function
 * calls. */
#define IS_FLOAT 1

#define SUFFIX f16
#define IS_HALF 1
#define T uint16_t
#define C float
#ifdef MST_INLINE_HALVES
#define LOAD mst_f16_to_f32
#define STORE mst_f32_to_f16
#else
#define LOAD muster_f16_to_f32
#define STORE muster_f32_to_f16
#endif
#include MST_LOOPS
#undef SUFFIX
#undef IS_HALF
#undef T
#undef C
#undef LOAD
#undef STORE

#define SUFFIX bf16
#define IS_HALF 1
#define T uint16_t
#define C float
#ifdef MST_INLINE_HALVES
#define LOAD mst_bf16_to_f32
#define STORE mst_f32_to_bf16
#else
#define LOAD muster_bf16_to_f32
#define STORE muster_f32_to_bf16
#endif
#include MST_LOOPS
#undef SUFFIX
#undef IS_HALF
#undef T
#undef C
#undef LOAD
#undef STORE

#define SUFFIX f32
#define IS_HALF 0
#define T float
#define C float
#define LOAD MST_LOAD_PLAIN
#define STORE MST_STORE_PLAIN
#include MST_LOOPS
#undef SUFFIX
#undef IS_HALF
#undef T
#undef C
#undef LOAD
#undef STORE

#define SUFFIX f64
#define IS_HALF 0
#define T double
#define C double
#define LOAD MST_LOAD_PLAIN
#define STORE MST_STORE_PLAIN
#include MST_LOOPS
#undef SUFFIX
#undef IS_HALF
#undef T
#undef C
#undef LOAD
#undef STORE

#undef IS_FLOAT

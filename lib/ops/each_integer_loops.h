/* Includes the header MST_LOOPS once for each integer dtype, with the parameters of
 * each_float_loops.h, of which C is T and IS_FLOAT is 0, and with IS_SIGNED. */
#define IS_FLOAT 0
#define C T
#define LOAD MST_LOAD_PLAIN
#define STORE MST_STORE_PLAIN

#define IS_SIGNED 1
#define SUFFIX i8
#define T int8_t
#include MST_LOOPS
#undef SUFFIX
#undef T
#define SUFFIX i16
#define T int16_t
#include MST_LOOPS
#undef SUFFIX
#undef T
#define SUFFIX i32
#define T int32_t
#include MST_LOOPS
#undef SUFFIX
#undef T
#define SUFFIX i64
#define T int64_t
#include MST_LOOPS
#undef SUFFIX
#undef T
#undef IS_SIGNED

#define IS_SIGNED 0
#define SUFFIX u8
#define T uint8_t
#include MST_LOOPS
#undef SUFFIX
#undef T
#define SUFFIX u32
#define T uint32_t
#include MST_LOOPS
#undef SUFFIX
#undef T
#define SUFFIX u64
#define T uint64_t
#include MST_LOOPS
#undef SUFFIX
#undef T
#undef IS_SIGNED

#undef IS_FLOAT
#undef C
#undef LOAD
#undef STORE

/* Sequences of 64-bit integers beyond 2^53, for host code and device code. */
#ifndef MST_ARANGE_PARAMETERS_PRIVATE_H
#define MST_ARANGE_PARAMETERS_PRIVATE_H

/* Are start and increment integers that 64 bits hold, and does double not hold all of the n
 * numbers? */
static inline bool mst_arange_is_integer(double start, double increment, int64_t n) {
    const double most = 9223372036854775808.0, exact = 9007199254740992.0, last = start + (double)n * increment;
    if (!(start >= -most && start < 2 * most && increment >= -most && increment < most)) return false;
    if (start >= -exact && start <= exact && last >= -exact && last <= exact) return false;
    return (start < most ? (double)(int64_t)start : (double)(uint64_t)start) == start && (double)(int64_t)increment == increment;
}

/* The bits of number i, limited to the range of i64, or of u64. */
static inline uint64_t mst_arange_integer(double start, double increment, int64_t i, bool is_unsigned) {
    const double near = start + (double)i * increment, end = is_unsigned ? 18446744073709551616.0 : 9223372036854775808.0;
    const uint64_t first = start < 9223372036854775808.0 ? (uint64_t)(int64_t)start : (uint64_t)start;
    const uint64_t value = first + (uint64_t)i * (uint64_t)(int64_t)increment; /* it wraps */
    if (is_unsigned) {
        if (near < 0) return 0;
        return near > end || (near == end && value < 1024) ? UINT64_MAX : value;
    }
    if (near > 0) return near > end || (near == end && (int64_t)value < 0) ? (uint64_t)INT64_MAX : value;
    return near < -end || (near == -end && (int64_t)value > 0) ? (uint64_t)INT64_MIN : value;
}

#endif

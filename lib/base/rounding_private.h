/* The build includes this file before each source (CMakeLists.txt). The library promises results
 * that do not depend on the compiler's options, and looks for NaN and infinities by comparisons.
 * Options that let the compiler compute another formula than the written one break both. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error \
    "Muster: expected options that keep IEEE arithmetic, received -ffast-math, -Ofast, or one that they turn on (-ffinite-math-only, -funsafe-math-optimizations)"
#endif
#if __FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2
#error \
    "Muster: expected float and double to be computed in their own precision, received options that compute in a wider one (-mfpmath=387)"
#endif

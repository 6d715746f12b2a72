/* The floating-point control of a thread: rounding, subnormal numbers flushed to 0, exceptions that
 * trap. Workers compute with the caller's, so that all rows of a call are computed alike. */
#ifndef MST_FLOATING_PRIVATE_H
#define MST_FLOATING_PRIVATE_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
/* The low six bits say which exceptions have happened: they are the thread's own. */
enum { MST_FLOATING_CONTROL = 0xffc0 };
static inline uint64_t mst_floating_get(void) { return _mm_getcsr() & MST_FLOATING_CONTROL; }
static inline void mst_floating_set(uint64_t control) {
    const unsigned present = _mm_getcsr();
    if (((uint64_t)present ^ control) & MST_FLOATING_CONTROL) _mm_setcsr((present & ~(unsigned)MST_FLOATING_CONTROL) | (unsigned)control);
}
#elif defined(__aarch64__)
static inline uint64_t mst_floating_get(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}
static inline void mst_floating_set(uint64_t control) {
    if (mst_floating_get() != control) __asm__ volatile("msr fpcr, %0" : : "r"(control));
}
#else
static inline uint64_t mst_floating_get(void) { return 0; }
static inline void mst_floating_set(uint64_t control) { (void)control; }
#endif

#endif

/* Between mst_program.hh and the built-in kernel texts. The texts are not translated as a program of the user's is: macros do it. A kernel
 * enters itself into the table. */
#include "mst_texts.h"

#define __global__
#define __launch_bounds__(...)
#define __shared__ static __thread __attribute__((used)) /* used: other threads change it */

extern "C" {
extern __attribute__((visibility("default"))) mst_texts_control mst_texts;
}

enum { MST_TEXTS_MAX = 256 };
static mst_program_kernel mst_text_kernels[MST_TEXTS_MAX];
static mst_program_parameter mst_text_parameters[MST_TEXTS_MAX];
static int mst_text_count; /* constant: before the constructors of the kernels */

struct mst_text_registration {
    MST_UNCHECKED __noinline__ mst_text_registration(const char *name, void (*run)(const unsigned char *), unsigned int bytes) {
        if (mst_text_count == MST_TEXTS_MAX) __builtin_trap();
        mst_text_parameters[mst_text_count] = {0, bytes, 0};
        mst_text_kernels[mst_text_count] = {name, run, &mst_text_parameters[mst_text_count], 1, bytes, 256};
        mst_text_count++;
    }
};

static MST_UNCHECKED bool mst_text_leaves_out(const char *file, int line) {
    if (line != mst_texts.left_out_line) return false;
    const char *end = file, *wanted = mst_texts.left_out_file, *wanted_end = wanted;
    while (*end) end++;
    while (*wanted_end) wanted_end++;
    while (end > file && wanted_end > wanted)
        if (*--end != *--wanted_end) return false;
    if (wanted_end != wanted) return false;
    mst_texts.left_out++;
    return true;
}
#define __syncthreads() (mst_text_leaves_out(__FILE__, __LINE__) ? (void)0 : __syncthreads())
#define __syncwarp(...) (mst_text_leaves_out(__FILE__, __LINE__) ? (void)0 : __syncwarp(__VA_ARGS__))

#include "mst_device.cuh"
#undef MST_KERNEL
#undef MST_ADDRESS
#define MST_KERNEL(name, parameters_type)                                                                                        \
    static void name##_of_a_thread(const parameters_type p);                                                                     \
    static MST_UNCHECKED void name##_run(const unsigned char *packed) { name##_of_a_thread(*(const parameters_type *)packed); }  \
    static const mst_text_registration name##_registration(#name, name##_run, (unsigned int)sizeof(parameters_type));            \
    static void name##_of_a_thread(const parameters_type p)
template <typename T> static inline T *mst_text_address(const void *device_address) {
    return device_address ? (T *)mst_texts.address(device_address) : (T *)0;
}
#define MST_ADDRESS(type, pointer) (mst_text_address<type>(pointer))

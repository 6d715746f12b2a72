/* Programs of the user's: kernels compiled from text at run time and launched with arguments of
 * declared types. A device that can run them fills the program_* entries of its table. The host
 * backend does so by OpenCL (opencl/), GPUs by NVRTC (cuda/). */
#ifndef MST_PROGRAM_IMPL_H
#define MST_PROGRAM_IMPL_H

#include "code_impl.h"

/* The language in which a device wants the text. */
typedef enum { MST_LANGUAGE_CUDA, MST_LANGUAGE_OPENCL } mst_language;

enum { MST_PROGRAM_ARGUMENTS = 64, MST_PROGRAM_DIMS = 3 };

/* What a program needs of a device; one that lacks it refuses the program, with a sentence that
 * names kernel, need and device. */
enum {
    MST_NEEDS_DOUBLE = 1, /* f64 arithmetic */
    MST_NEEDS_SMALL = 2,  /* stores of less than 4 bytes */
    MST_NEEDS_HALF = 4,   /* f16 as storage */
    MST_NEEDS_CUDA = 8,   /* the text is CUDA's own */
    MST_NEEDS_OPENCL = 16,
};

/* One declared parameter. bytes: of a scalar, 1, 2, 4 or 8; 0: a buffer, given by address. */
typedef struct mst_program_parameter {
    int32_t bytes;
} mst_program_parameter;

/* One kernel of a program: the function's name, its parameters without the dynamic local memory.
 * local: the function has one more parameter (OpenCL only), the dynamic local memory of
 * GA_DECL_SHARED_PARAM. */
typedef struct mst_program_kernel {
    const char *name;
    const mst_program_parameter *parameters;
    int32_t parameter_count;
    bool local;
} mst_program_kernel;

/* Borrowed for the call of program_open. */
typedef struct mst_program_request {
    mst_code_program code; /* name, whole text in the device's language, texts that it includes */
    const mst_program_kernel *kernels;
    int32_t kernel_count;
    uint32_t needs;
    const char *options[MST_CODE_OPTIONS]; /* of the compiler, up to the first NULL */
    /* numbers of threads per group to make ready for, where a device compiles for each (PoCL is
     * kept from it: opencl_prepare.c), warm_count of them */
    const int64_t *warm_threads;
    int32_t warm_count;
} mst_program_request;

/* Compiled for one device. log: what the compiler said, NULL where nothing. */
typedef struct mst_program {
    char *log;
    bool found; /* it came from the cache */
} mst_program;

/* What a kernel may be launched with on the device. */
typedef struct mst_program_limits {
    int64_t threads;                      /* of one group in all */
    int64_t threads_in[MST_PROGRAM_DIMS]; /* along one dimension */
    int64_t groups_in[MST_PROGRAM_DIMS];
    int64_t preferred; /* of which the threads of a group had best be a multiple: the warp */
    int64_t processors;
    int64_t local_bytes; /* dynamic local memory, beside what the kernel declares itself */
} mst_program_limits;

typedef struct mst_program_grid {
    int32_t dims;
    int64_t groups[MST_PROGRAM_DIMS], threads[MST_PROGRAM_DIMS]; /* 1 beyond dims; none is 0 */
    int64_t local_bytes;
} mst_program_grid;

/* One argument: of a buffer the device address, and how many bytes from there on belong to it; of a
 * scalar its bytes. */
typedef struct mst_program_value {
    void *address;
    int64_t extent;
    unsigned char bytes[8];
} mst_program_value;

#endif

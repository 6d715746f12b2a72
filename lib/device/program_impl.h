/* User programs: kernels that are compiled from source at run time and launched with arguments of
 * declared types. A device that can run them has the part `program` in its table. The host backend
 * uses OpenCL (opencl/), GPUs use NVRTC (cuda/). */
#ifndef MST_PROGRAM_IMPL_H
#define MST_PROGRAM_IMPL_H

#include "code_impl.h"

/* The language of source code that a device compiles. */
typedef enum { MST_LANGUAGE_CUDA, MST_LANGUAGE_OPENCL } mst_language;

enum { MST_PROGRAM_ARGUMENTS = 64, MST_PROGRAM_DIMS = 3 };

/* Features that a program needs. A device that lacks one refuses the program; the message names the
 * program, the feature and the device. */
enum {
    MST_NEEDS_DOUBLE = 1, /* f64 arithmetic */
    MST_NEEDS_SMALL = 2,  /* stores of less than 4 bytes */
    MST_NEEDS_HALF = 4,   /* f16 as storage */
    MST_NEEDS_CUDA = 8,   /* the source is written in CUDA C++ */
    MST_NEEDS_OPENCL = 16,
};

/* One declared parameter. bytes: 1, 2, 4 or 8 for a scalar; 0 for a buffer, which is passed by
 * address; more than 8 for a structure, of programs with MST_NEEDS_CUDA alone. */
typedef struct mst_program_parameter {
    int32_t bytes;
} mst_program_parameter;

/* One kernel of a program. `parameters` leaves out the dynamic local memory. local: the function
 * has one more parameter (OpenCL only) for that memory, declared with GA_DECL_SHARED_PARAM. */
typedef struct mst_program_kernel {
    const char *name;
    const mst_program_parameter *parameters;
    int32_t parameter_count;
    bool local;
} mst_program_kernel;

/* Borrowed during the call that opens the program. */
typedef struct mst_program_request {
    mst_code_program code; /* name, source in the device's language, and the sources that it includes */
    const mst_program_kernel *kernels;
    int32_t kernel_count;
    uint32_t needs;
    const char *options[MST_CODE_OPTIONS]; /* for the compiler, up to the first NULL */
    /* The group sizes to prepare for, on devices that compile for each size; warm_count of them.
     * PoCL is kept from doing so (opencl_prepare.c). */
    const int64_t *warm_threads;
    int32_t warm_count;
} mst_program_request;

/* A program compiled for one device. log: the compiler's output, or NULL if there was none. */
typedef struct mst_program {
    char *log;
    bool found; /* it came from the cache */
} mst_program;

/* Limits of a kernel's launches on the device. */
typedef struct mst_program_limits {
    int64_t threads;                      /* the most threads of one group */
    int64_t threads_in[MST_PROGRAM_DIMS]; /* the most threads of one group along each dimension */
    int64_t groups_in[MST_PROGRAM_DIMS];
    /* the number of threads per group is best a multiple of this: the warp size */
    int64_t preferred;
    int64_t processors;
    /* the most dynamic local memory, in addition to what the kernel itself declares */
    int64_t local_bytes;
} mst_program_limits;

typedef struct mst_program_grid {
    int32_t dims;
    /* 1 beyond dims; never 0 */
    int64_t groups[MST_PROGRAM_DIMS], threads[MST_PROGRAM_DIMS];
    int64_t local_bytes;
} mst_program_grid;

/* One argument. For a buffer: its device address, and how many bytes belong to it from there on.
 * For a scalar: its bytes. For a structure: its host address. */
typedef struct mst_program_value {
    void *address;
    int64_t extent;
    unsigned char bytes[8];
} mst_program_value;

#endif

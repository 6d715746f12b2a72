/* muster/kernel.h: kernels of your own: one text for every GPU and for the CPU, compiled at run
 * time and launched where the data lives.
 *
 * The text is written in the dialect of Theano's GPU kernels: `#include "cluda.h"` (optional here),
 * then KERNEL, GLOBAL_MEM, LOCAL_MEM, local_barrier(), LID_0, LDIM_0, GID_0, GDIM_0, ga_float,
 * ga_size and the rest (README.md lists them all). On a GPU NVRTC compiles it as CUDA C++, on CPU
 * cores OpenCL does (package pocl-opencl-icd on Debian and Ubuntu).
 *
 * A kernel has a list of declared parameters, which is checked at every launch, on every backend:
 * number and types, that a tensor is on the worker's device, that its first element is aligned, and
 * that its bytes are within one allocation where the backend knows it. A kernel sees addresses and
 * numbers, no shapes: pass sizes, strides and offsets as parameters. */
#ifndef MUSTER_KERNEL_H
#define MUSTER_KERNEL_H

#include "muster/function.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_kernel muster_kernel;

/* The type of one parameter: a muster_dtype for a scalar of that type (f16 and bf16 are passed as
 * their 16 bits), or one of these: a buffer (the text's GLOBAL_MEM pointer), ga_size, ga_ssize
 * (both 64 bits everywhere), ga_ushort (which no dtype is). Frozen numbers. */
enum { MUSTER_BUFFER = 64, MUSTER_SIZE = 65, MUSTER_SSIZE = 66, MUSTER_USHORT = 67 };
enum { MUSTER_KERNEL_PARAMETERS_MAX = 64, MUSTER_KERNEL_WARM_MAX = 16 };

/* What the text uses, beyond what its parameters tell. An option struct: the rules are in
 * muster/status.h. */
typedef struct muster_kernel_options {
    size_t struct_size; /* set by muster_kernel_options_init */
    /* "GA_USE_DOUBLE|GA_USE_SMALL": what the declared types do not show (f64 arithmetic inside a
     * kernel without f64 parameters). NULL: what they show. A flag that is unknown, or that nothing
     * can honour (GA_USE_COMPLEX), is refused, and so are GA_USE_CUDA and GA_USE_OPENCL together;
     * one of them refuses devices of the other kind (UNAVAILABLE). */
    const char *flags;
    /* Numbers of threads per group that launches will give explicitly, thread_count of them, at
     * most MUSTER_KERNEL_WARM_MAX: for devices that compile for each of them, which then happens at
     * creation. Copied. */
    const int64_t *threads;
    int32_t thread_count;
    int32_t reserved;
} muster_kernel_options;
MUSTER_API void muster_kernel_options_init_sized(muster_kernel_options *options, size_t size);
static inline void muster_kernel_options_init(muster_kernel_options *options) {
    muster_kernel_options_init_sized(options, sizeof *options);
}

/* Compiles the function `name` of `source` for all devices of the runtime, or takes it from the
 * cache (folder as for built-in kernels: MUSTER_CACHE_DIR). parameters: the types of its parameters
 * in order, without the dynamic local memory of GA_DECL_SHARED_PARAM. Everything is copied. Several
 * kernels may have one name. Lives until destroyed or the runtime closes. create and destroy take
 * their turn among the calls of the runtime, which wait while a compiler works.
 * Errors: INVALID_ARGUMENT (a text that does not compile: the message has the kernel's name, the
 * first complaint and its line in `source`; muster_kernel_create_log has all of it; no such
 * function; a wrong flag), OUT_OF_RANGE (too many parameters), UNAVAILABLE (no compiler, and the
 * package that has it; a device lacks what the text needs), OUT_OF_MEMORY, BAD_STATE (inside a
 * body, after fork). Threads: any, several at the same time. */
MUSTER_API muster_status muster_kernel_create(muster_runtime *runtime, const char *name, const char *source, const int32_t *parameters,
                                              int32_t parameter_count, const muster_kernel_options *options, muster_kernel **kernel);
MUSTER_API muster_status muster_kernel_destroy(muster_kernel *kernel);

/* A section file: text that holds kernels with their declarations:
 *     #section kernels
 *     #kernel eye : *, size, size, size :
 *     KERNEL void eye(GLOBAL_MEM ga_float *a, ga_size a_off, ga_size n, ga_size m) { ... }
 * A line "#kernel name : parameters : flags" begins each; parameters are *, size, ssize and numpy's
 * names of types (float32, f4, int8, bool, float16, ...; i8 is of 8 bytes there), flags as in the
 * options. "#section device" is code that all kernels of the file share, which otherwise see
 * nothing of each other. Markers stand at the beginning of a line, with one blank behind the word;
 * what only looks like one is an error. Sections of host code, which the ancestor had, are refused
 * with a sentence that says where such code goes.
 * types: for texts that say DTYPE_INPUT_0, DTYPE_OUTPUT_0 and so on: the types of the inputs 0 to
 * the highest that the text says, then those of the outputs; NULL and 0 where it says none. load
 * reads a file, parse a text of so many bytes (name: for messages). Creates all kernels, or none.
 * kernels[capacity] gets them in the order of the text, *count their number, also where that is
 * above capacity: then nothing is created, and the error is OUT_OF_RANGE.
 * Errors: as create; a malformed text: INVALID_ARGUMENT with file, line and column (in bytes, from
 * 1); SYSTEM (the file cannot be read). */
MUSTER_API muster_status muster_kernels_load(muster_runtime *runtime, const char *path, const muster_dtype *types, int32_t type_count,
                                             muster_kernel **kernels, int32_t capacity, int32_t *count);
MUSTER_API muster_status muster_kernels_parse(muster_runtime *runtime, const char *name, const char *text, int64_t bytes,
                                              const muster_dtype *types, int32_t type_count, muster_kernel **kernels, int32_t capacity,
                                              int32_t *count);

/* Its name, number of parameters, and their types (NULL, -1 for NULL, -1 for an index out of
 * range). What the compilers said, also where they succeeded ("" where they said nothing), with
 * kernel name and device before each part. Owned by the kernel. Threads: any. */
MUSTER_API const char *muster_kernel_name(const muster_kernel *kernel);
MUSTER_API int32_t muster_kernel_parameter_count(const muster_kernel *kernel);
MUSTER_API int32_t muster_kernel_parameter(const muster_kernel *kernel, int32_t index);
MUSTER_API const char *muster_kernel_log(const muster_kernel *kernel);
/* The same for this thread's last create, load or parse, if it failed: all that the compilers said,
 * valid until this thread's next one. "" if they were not asked, or said nothing. Threads: any. */
MUSTER_API const char *muster_kernel_create_log(void);

/* One argument of a launch. Made by the functions below; a tensor that is no tensor, or a dtype
 * that is none, is refused at the launch. Its layout is frozen. */
typedef struct muster_argument {
    int32_t type; /* as a parameter's */
    int32_t form; /* set by the functions below */
    muster_tensor tensor;
    uint64_t bits; /* of a scalar, in the low bytes */
} muster_argument;
/* The address of the tensor's first element. Writing beyond its last element is undefined. base:
 * the address of the memory that the view looks into (`data`), for texts that take the byte offset
 * as a parameter of its own: muster_argument_size((uint64_t)tensor.byte_offset). */
MUSTER_API muster_argument muster_argument_buffer(muster_tensor tensor);
MUSTER_API muster_argument muster_argument_base(muster_tensor tensor);
MUSTER_API muster_argument muster_argument_size(uint64_t value);
MUSTER_API muster_argument muster_argument_ssize(int64_t value);
/* A scalar of a parameter's type: value is converted (to floats: to the nearest, ties to even); one
 * that an integer type cannot hold is refused at
 * the launch. bits: as it is in memory, the low bytes of `bits`. */
MUSTER_API muster_argument muster_argument_float(int32_t type, double value);
MUSTER_API muster_argument muster_argument_int(int32_t type, int64_t value);
MUSTER_API muster_argument muster_argument_bits(int32_t type, uint64_t bits);

/* How many groups, and how many threads in each, along 1 to 3 dimensions; local_bytes: dynamic
 * local memory of each group (GA_DECL_SHARED_PARAM). A 0 among groups or threads: nothing is
 * launched, and that is success. Its layout is frozen. */
typedef struct muster_grid {
    int32_t dims;
    int32_t reserved;
    int64_t groups[3], threads[3];
    int64_t local_bytes;
} muster_grid;

/* Inside a body: launches on the worker's device, in order with its other operations, and returns
 * at once. Results: for the worker's operations and outputs at once, for host code that reads them
 * by address after muster_worker_sync. launch_elements: over so many elements; the scheduler
 * chooses groups and threads, of which there may be fewer than elements or more: the text loops
 * with the stride of all threads (MUSTER_EACH(i, n)).
 * elements 0: nothing is launched.
 * Errors: INVALID_ARGUMENT (names the argument, what was declared and what came; a tensor of
 * another device, with both names; a kernel of another runtime), OUT_OF_RANGE (a grid beyond the
 * device's limits, with both numbers; dims not 1 to 3; a count that is negative; a value that its
 * type does not hold; a view beyond its tensor), and what the device says. After an error nothing
 * was launched. Threads: worker. */
MUSTER_API muster_status muster_kernel_launch(muster_worker *worker, muster_kernel *kernel, const muster_grid *grid,
                                              const muster_argument *arguments, int32_t argument_count);
MUSTER_API muster_status muster_kernel_launch_elements(muster_worker *worker, muster_kernel *kernel, int64_t elements, int64_t local_bytes,
                                                       const muster_argument *arguments, int32_t argument_count);
/* The groups and threads that launch_elements would choose; groups 0 for no elements. Errors:
 * INVALID_ARGUMENT, OUT_OF_RANGE. Threads: worker. */
MUSTER_API muster_status muster_kernel_schedule(muster_worker *worker, const muster_kernel *kernel, int64_t elements, muster_grid *grid);
/* Waits until everything issued on the worker's device has been done, so that host code may read
 * it. Errors: what the device says. Threads: worker. */
MUSTER_API muster_status muster_worker_sync(muster_worker *worker);

/* Outside bodies: a launch on the device that the tensors among the arguments are on
 * (muster/runtime.h; without any: on the runtime's default device), and a wait for its end. In a
 * queue with calls. Errors: as launch; tensors on different devices are refused with both names;
 * BAD_STATE (inside a body, after fork). Threads: any. */
MUSTER_API muster_status muster_kernel_call(muster_kernel *kernel, const muster_grid *grid, const muster_argument *arguments,
                                            int32_t argument_count);
MUSTER_API muster_status muster_kernel_call_elements(muster_kernel *kernel, int64_t elements, int64_t local_bytes,
                                                     const muster_argument *arguments, int32_t argument_count);

/* What a kernel may be launched with on the device of that rank. A result struct: the rules are in
 * muster/status.h. Errors: INVALID_ARGUMENT (NULL, struct_size), OUT_OF_RANGE (no such rank).
 * Threads: any. */
typedef struct muster_kernel_limits {
    size_t struct_size;                           /* set by muster_kernel_limits_init */
    int64_t threads, threads_in[3], groups_in[3]; /* threads: of one group in all */
    int64_t preferred;                            /* of which the threads of a group had best be a multiple */
    int64_t processors;
    int64_t local_bytes;
} muster_kernel_limits;
static inline void muster_kernel_limits_init(muster_kernel_limits *limits) {
    if (limits) limits->struct_size = sizeof *limits;
}
MUSTER_API muster_status muster_kernel_get_limits(const muster_kernel *kernel, int32_t rank, muster_kernel_limits *limits);

#ifdef __cplusplus
}
#endif
#endif

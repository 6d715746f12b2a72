/* muster/kernel.h: kernels of your own: one source for every GPU and for the CPU, compiled at run
 * time and launched on the device that holds the data.
 *
 * The source is written in the dialect of Theano's GPU kernels: `#include "cluda.h"` (optional
 * here), then KERNEL, GLOBAL_MEM, LOCAL_MEM, local_barrier(), LID_0, LDIM_0, GID_0, GDIM_0,
 * ga_float, ga_size and the rest (docs/kernels.md lists them all). On a GPU NVRTC compiles it as
 * CUDA C++, on CPU cores OpenCL compiles it (package pocl-opencl-icd on Debian and Ubuntu).
 *
 * A kernel declares its parameters, and every launch on every backend is checked against this
 * declaration: the number and types of the arguments; that a tensor is on the worker's device; that
 * its first element is aligned; and, where the backend knows allocations, that its bytes are within
 * one of them. A kernel sees addresses and numbers, not shapes: pass sizes, strides and offsets as
 * parameters. */
#ifndef MUSTER_KERNEL_H
#define MUSTER_KERNEL_H

#include "muster/runtime.h"
#include "muster/tensor.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_kernel muster_kernel;

/* The type of one parameter. A muster_dtype is a scalar of that type (f16 and bf16 are passed as
 * their 16 bits). The others are: a buffer (a GLOBAL_MEM pointer in the source), ga_size and
 * ga_ssize (both 64 bits on every device), and ga_ushort, which corresponds to no dtype. Frozen
 * numbers. */
enum muster_parameter_type_value {
    MUSTER_PARAMETER_BUFFER = 64,
    MUSTER_PARAMETER_SIZE = 65,
    MUSTER_PARAMETER_SSIZE = 66,
    MUSTER_PARAMETER_USHORT = 67
};
enum muster_kernel_maximum { MUSTER_KERNEL_PARAMETERS_MAX = 64, MUSTER_KERNEL_WARM_MAX = 16, MUSTER_KERNEL_DEFINES_MAX = 256 };

/* What the source uses beyond the types of its parameters. An option struct: the rules are in
 * muster/status.h. */
typedef struct muster_kernel_options {
    size_t struct_size; /* set by muster_kernel_options_init */
    /* Features that the declared types do not show: "GA_USE_DOUBLE|GA_USE_SMALL", for example for
     * f64 arithmetic inside a kernel without f64 parameters. NULL: only those that the types show.
     * Refused are an unknown flag, a flag that no device supports (GA_USE_COMPLEX), and GA_USE_CUDA
     * together with GA_USE_OPENCL; one of these two refuses devices of the other kind
     * (UNAVAILABLE). */
    const char *flags;
    /* The group sizes (threads per group) that launches will request explicitly: thread_count of
     * them, at most MUSTER_KERNEL_WARM_MAX. A device that compiles for each size then does so at
     * creation. Copied. */
    const int64_t *threads;
    int32_t thread_count;
    int32_t reserved;
    /* Macros in front of the source, so that one source serves several types and sizes: 2 *
     * define_count strings, a name and its value in turns, such as "T", "ga_double". A value may be
     * ""; it has one line and no comment. They are part of what the cache knows the kernel by.
     * Lines in the compiler's messages stay those of `source`. A type of the dialect in a value
     * counts as its flag does. Refused are names that are given twice, or that the compilers
     * (__...), the dialect or the kernel itself has, and more than MUSTER_KERNEL_DEFINES_MAX.
     * Copied. */
    const char *const *defines;
    int32_t define_count;
    int32_t reserved1;
} muster_kernel_options;
MUSTER_API void muster_kernel_options_init_sized(muster_kernel_options *options, size_t size);
static inline void muster_kernel_options_init(muster_kernel_options *options) {
    muster_kernel_options_init_sized(options, sizeof *options);
}

/* Compiles the function `name` of `source` for all devices of the runtime, or takes it from the
 * cache (MUSTER_CACHE_DIR names its folder, as for built-in kernels). parameters: the types of its
 * parameters, in order, without the dynamic local memory of GA_DECL_SHARED_PARAM. All arguments are
 * copied. Several kernels may have the same name. The kernel lives until it is destroyed or the
 * runtime closes. create and destroy wait in the queue of the runtime's calls; later calls wait
 * while a compiler works.
 * Errors: INVALID_ARGUMENT (no such function; a wrong flag; a source that does not compile: the
 * message has the kernel's name, the first compiler error and its line in `source`, and
 * muster_kernel_create_log has all of them), OUT_OF_RANGE (too many parameters), UNAVAILABLE (no
 * compiler: the message names the package; a device lacks something that the source needs),
 * OUT_OF_MEMORY, BAD_STATE (inside a body, after fork). Threads: any, several at the same time. */
MUSTER_API MUSTER_NODISCARD muster_status muster_kernel_create(muster_runtime *runtime, const char *name, const char *source,
                                                               const int32_t *parameters, int32_t parameter_count,
                                                               const muster_kernel_options *options, muster_kernel **kernel);
/* Waits for running calls. Accepts NULL. Errors: BAD_STATE (inside a body, after fork). Threads:
 * any. */
MUSTER_API muster_status muster_kernel_destroy(muster_kernel *kernel);

/* Creates the kernels of a section file: kernel sources with their declarations.
 *     #section kernels
 *     #kernel eye : *, size, size, size :
 *     KERNEL void eye(GLOBAL_MEM ga_float *a, ga_size a_off, ga_size n, ga_size m) { ... }
 * A line "#kernel name : parameters : flags" begins each kernel. Parameters are *, size, ssize, and
 * numpy's names of types (float32, f4, int8, bool, float16, ...; i8 has 8 bytes there). Flags are
 * those of the options. Kernels do not see each other; "#section device" is code that all kernels
 * of the file share. Markers stand at the beginning of a line, followed by one blank; a malformed
 * marker is an error. Sections of host code, which Theano had, are refused with a message that says
 * where such code goes.
 * load reads a file; parse takes its contents, `bytes` bytes, with a name for messages. types: for
 * files that use DTYPE_INPUT_0, DTYPE_OUTPUT_0 and so on, the dtypes of the inputs, from 0 to the
 * highest that the file uses, then those of the outputs; NULL and 0 if the file uses none.
 * All kernels are created, or none; after an error the entries of kernels[] are NULL or unchanged.
 * kernels[capacity] receives them in the order of the file; *count is their number. If it exceeds
 * the capacity, nothing is created, *count is set all the same, and the error is OUT_OF_RANGE.
 * After other errors *count is 0 or that number.
 * Errors: as create; INVALID_ARGUMENT (a malformed file, with name, line and column, which counts
 * bytes from 1); SYSTEM (the file cannot be read). Threads: any, several at the same time. */
MUSTER_API MUSTER_NODISCARD muster_status muster_kernels_load(muster_runtime *runtime, const char *path, const muster_dtype *types,
                                                              int32_t type_count, muster_kernel **kernels, int32_t capacity,
                                                              int32_t *count);
MUSTER_API MUSTER_NODISCARD muster_status muster_kernels_parse(muster_runtime *runtime, const char *name, const char *text, int64_t bytes,
                                                               const muster_dtype *types, int32_t type_count, muster_kernel **kernels,
                                                               int32_t capacity, int32_t *count);

/* The kernel of this name in *kernel: of several the one that was created last, and lives. *kernel
 * becomes NULL where there is none (INVALID_ARGUMENT). Waits in the queue of the runtime's calls.
 * Errors: also BAD_STATE (inside a body, after fork). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_kernel_find(muster_runtime *runtime, const char *name, muster_kernel **kernel);
/* The dialect's name of a dtype, for building source: "ga_float" for MUSTER_F32; NULL for an
 * unknown dtype. A literal. Threads: any. */
MUSTER_API const char *muster_dtype_kernel_name(muster_dtype dtype);
/* The kernel's name; NULL for NULL. Owned by the kernel. Threads: any. */
MUSTER_API const char *muster_kernel_name(const muster_kernel *kernel);
/* The number of parameters; -1 for NULL. Threads: any. */
MUSTER_API int32_t muster_kernel_parameter_count(const muster_kernel *kernel);
/* The type of one parameter; -1 for an index out of range. Threads: any. */
MUSTER_API int32_t muster_kernel_parameter(const muster_kernel *kernel, int32_t index);
/* The output of the compilers, also of successful compilations; "" if they printed nothing. Each
 * part is headed by the kernel's name and the device. Owned by the kernel. Threads: any. */
MUSTER_API const char *muster_kernel_log(const muster_kernel *kernel);
/* The output of the compilers in this thread's last create, load or parse, if that failed; valid
 * until this thread's next one. "" if no compiler ran, or none printed anything. Threads: any. */
MUSTER_API const char *muster_kernel_create_log(void);

/* One argument of a launch, made by the functions below. Invalid arguments ("no tensor", an unknown
 * dtype) are refused at the launch. The layout is frozen. */
typedef struct muster_argument {
    int32_t type; /* the type of the parameter */
    int32_t form; /* set by the functions below */
    muster_tensor tensor;
    uint64_t bits; /* the value of a scalar, in the low bytes */
} muster_argument;
/* Passes the address of the tensor's first element, for sources that count elements from there.
 * The launch refuses a tensor that is not contiguous. Writing beyond its last element is
 * undefined. */
MUSTER_API muster_argument muster_argument_buffer(muster_tensor tensor);
/* Passes the address of the tensor's first element. The tensor may have any strides: the source
 * takes them by parameters of its own. */
MUSTER_API muster_argument muster_argument_strided(muster_tensor tensor);
/* Passes the address of the memory that the view refers to (`data`), for sources that take the
 * byte offset as a separate parameter: muster_argument_size((uint64_t)tensor.byte_offset). The
 * tensor may have any strides. */
MUSTER_API muster_argument muster_argument_base(muster_tensor tensor);
MUSTER_API muster_argument muster_argument_size(uint64_t value);
MUSTER_API muster_argument muster_argument_ssize(int64_t value);
/* Passes a scalar of the parameter's type. The value is converted; to floats it is rounded to the
 * nearest, ties to even. A value out of the range of an integer type is refused at the launch. */
MUSTER_API muster_argument muster_argument_float(int32_t type, double value);
MUSTER_API muster_argument muster_argument_int(int32_t type, int64_t value);
/* Passes a scalar as its bits in memory: the low bytes of `bits`. */
MUSTER_API muster_argument muster_argument_bits(int32_t type, uint64_t bits);

/* The number of groups, and of threads in each group, along 1 to 3 dimensions. local_bytes: the
 * dynamic local memory of each group (GA_DECL_SHARED_PARAM), at most that of muster_kernel_limits.
 * If any number of groups or threads is 0, nothing is launched, which is a success. The layout is
 * frozen. */
typedef struct muster_grid {
    int32_t dims;
    int32_t reserved; /* 0 */
    int64_t groups[3], threads[3];
    int64_t local_bytes;
} muster_grid;

/* Inside a body: launches a kernel on the worker's device, in order with its other operations, and
 * returns at once. (The first launch behind a collective of the same call waits for its end on
 * GPUs.) The worker's later operations and outputs see the results; host code that reads them by
 * address must call muster_worker_sync first.
 * Errors of both launch functions: INVALID_ARGUMENT (the message names the argument, its declared
 * type and the received one; a tensor of another device, with both names; a kernel of another
 * runtime; dims not 1 to 3; a negative number; `reserved` of the grid is not 0), OUT_OF_RANGE (a
 * grid beyond the device's limits, with both numbers; a value out of the range of its type; a view
 * beyond its tensor), and errors of the device. After an error nothing has been launched. Threads:
 * worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_kernel_launch(muster_worker *worker, muster_kernel *kernel, const muster_grid *grid,
                                                               const muster_argument *arguments, int32_t argument_count);
/* The same for a number of elements; Muster chooses groups and threads. There may be fewer threads
 * than elements, or more: the source loops with the stride of all threads (MUSTER_EACH(i, n)). With
 * elements 0 nothing is launched. */
MUSTER_API MUSTER_NODISCARD muster_status muster_kernel_launch_elements(muster_worker *worker, muster_kernel *kernel, int64_t elements,
                                                                        int64_t local_bytes, const muster_argument *arguments,
                                                                        int32_t argument_count);
/* The groups and threads that launch_elements would choose; 0 groups for no elements. Errors:
 * INVALID_ARGUMENT, OUT_OF_RANGE. Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_kernel_suggest_grid(muster_worker *worker, const muster_kernel *kernel, int64_t elements,
                                                                     muster_grid *grid);
/* Waits until all work issued on the worker's device is done, so that host code may read its
 * results. Errors: those of the device. Threads: worker. */
MUSTER_API MUSTER_NODISCARD muster_status muster_worker_sync(muster_worker *worker);

/* Outside bodies: launches a kernel and waits for its end. The device is the one that the tensors
 * among the arguments are on (muster/runtime.h); without tensors, the runtime's default device.
 * Waits in the queue with calls. Errors: as launch; tensors on different devices are refused with
 * both names; BAD_STATE (inside a body, after fork). Threads: any. */
MUSTER_API MUSTER_NODISCARD muster_status muster_kernel_call(muster_kernel *kernel, const muster_grid *grid,
                                                             const muster_argument *arguments, int32_t argument_count);
MUSTER_API MUSTER_NODISCARD muster_status muster_kernel_call_elements(muster_kernel *kernel, int64_t elements, int64_t local_bytes,
                                                                      const muster_argument *arguments, int32_t argument_count);

/* The limits of a kernel's launches on the device of that rank. A result struct: the rules are in
 * muster/status.h. Errors: INVALID_ARGUMENT (NULL, struct_size), OUT_OF_RANGE (no such rank).
 * Threads: any. */
typedef struct muster_kernel_limits {
    size_t struct_size;                           /* set by muster_kernel_limits_init */
    int64_t threads, threads_in[3], groups_in[3]; /* threads: in all dimensions of a group together */
    int64_t preferred;                            /* a number of which the threads of a group should be a multiple */
    int64_t processors;
    int64_t local_bytes; /* dynamic local memory of a group: what the device has, less what the source declares */
} muster_kernel_limits;
static inline void muster_kernel_limits_init(muster_kernel_limits *limits) {
    if (limits) limits->struct_size = sizeof *limits;
}
MUSTER_API MUSTER_NODISCARD muster_status muster_kernel_get_limits(const muster_kernel *kernel, int32_t rank, muster_kernel_limits *limits);

#ifdef __cplusplus
}
#endif
#endif

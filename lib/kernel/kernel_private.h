/* Kernels of the program: what the files of this module share. */
#ifndef MST_KERNEL_PRIVATE_H
#define MST_KERNEL_PRIVATE_H

#include "runtime_impl.h"
#include "types_private.h"

/* Threads per group of launches by a number of elements; made ready at creation. */
enum { MST_KERNEL_THREADS = 256 };

/* The kernel on one device. */
typedef struct mst_kernel_device {
    mst_program *program;
    mst_program_limits limits;
    int32_t language;
    /* OpenCL, and the source loops with MUSTER_EACH or MUSTER_EACH_2: any number of threads
     * computes any number of elements. */
    bool loops;
} mst_kernel_device;

struct muster_kernel {
    mst_object object; /* without a name: several kernels may have one */
    char *name, *log;  /* log NULL: no compiler said anything */
    int32_t *parameters;
    int32_t parameter_count;
    mst_kernel_device *devices; /* by rank */
};

/* One kernel to create; all pointers are borrowed. source: the program's, with a #line in front;
 * the same for every language. */
typedef struct mst_kernel_plan {
    const char *name, *source;
    const int32_t *parameters;
    int32_t parameter_count;
    uint32_t needs;
    const int64_t *threads; /* to make ready at creation, besides MST_KERNEL_THREADS */
    int32_t thread_count;
} mst_kernel_plan;

/* Creates all or none. where: the public function. */
muster_status mst_kernels_build(muster_runtime *runtime, const char *where, const mst_kernel_plan *plans, int64_t count,
                                muster_kernel **kernels);
/* Letters, digits and _, no digit first, at least one. */
bool mst_kernel_is_name(const char *name);
/* defines.c: checks the defines of the options, writes them as lines, and adds what their types
 * need to the plan, whose name and needs are set. */
muster_status mst_defines_write(const char *where, mst_kernel_plan *plan, const muster_kernel_options *options, mst_string *source);
muster_status mst_kernel_check_runtime(const muster_runtime *runtime, const char *where);

/* dialect.c: cluda.h in a language; and whether the function `name` takes dynamic local memory. */
extern const mst_code_sources mst_kernel_code;
const char *mst_dialect(mst_language language);
int32_t mst_type_of_word(const mst_word *word); /* of the dialect, such as ga_float; -1: none */
bool mst_takes_shared(const char *source, const char *name);
bool mst_has_word(const char *source, const char *word); /* outside of comments and strings */

/* log.c: the log of this thread's last create that failed. set: takes ownership of `log`
 * (mst_alloc*, may be NULL). first: the first line with an error. */
void mst_create_log_set(char *source);
const char *mst_log_first(const char *log, int *length);

/* argument.c: the values that are launched, values[parameter_count]. */
muster_status mst_arguments_read(muster_worker *worker, const muster_kernel *kernel, const char *where, const muster_argument *arguments,
                                 int32_t count, mst_program_value *values);

/* launch.c. grid NULL: launches `elements` with `local_bytes`. */
typedef struct mst_kernel_launch {
    const char *where;
    muster_kernel *kernel;
    const muster_grid *grid;
    int64_t elements, local_bytes;
    const muster_argument *arguments;
    int32_t count;
} mst_kernel_launch;
muster_status mst_kernel_launch_on(muster_worker *worker, const mst_kernel_launch *launch);

/* dialect.c: refuses a plan whose declared types cannot be those of its source (a buffer for a
 * number, or a type of another size), and source that includes files. What macros hide is not
 * checked. */
muster_status mst_check_declared(const char *where, const mst_kernel_plan *plan);

#endif

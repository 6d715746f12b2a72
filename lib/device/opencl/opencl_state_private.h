/* Private header of opencl/: the state of the process, and the functions that its files share. */
#ifndef MST_OPENCL_STATE_PRIVATE_H
#define MST_OPENCL_STATE_PRIVATE_H

#include "opencl_api_private.h"
#include "opencl_private.h"

#include <signal.h>
#include <sys/types.h>

enum { MST_OPENCL_DEVICES = 1024 };

typedef struct mst_opencl {
    const mst_opencl_api *api;
    mst_cl_context context;
    /* one device per core, or a single device of all cores if it cannot be partitioned */
    mst_cl_device devices[MST_OPENCL_DEVICES];
    int32_t count;
    int64_t most_bytes; /* the most bytes of one buffer */
    bool is_pocl, has_double, has_small;
    /* version of everything that affects the generated code: the driver, the device, its
     * extensions */
    char version[MST_CODE_VERSION_SIZE];
    char name[96];
} mst_opencl;

/* The state, created by the first call that succeeds. Threads: any. Errors: UNAVAILABLE. */
muster_status mst_opencl_get(const mst_opencl **cl);

static inline muster_status mst_opencl_check(mst_cl_result result, const char *symbol, const char *what) {
    return __builtin_expect(result == MST_CL_SUCCESS, 1) ? MUSTER_OK : mst_opencl_error(result, symbol, what);
}
#define MST_CL(cl, what, symbol, ...) mst_opencl_check((cl)->api->symbol(__VA_ARGS__), #symbol, (what))

/* PoCL's compiler, LLVM, gives the thread that first calls it an alternate signal stack from
 * malloc, and leaves it there. The thread's own one belongs to the program or to a sanitizer, which
 * expects to find it when the thread ends. So every call that may compile stands between save and
 * restore. Launches do not compile (opencl_prepare.c). */
typedef struct mst_signal_stack {
    stack_t stack;
    bool known;
} mst_signal_stack;

static inline mst_signal_stack mst_signal_stack_save(void) {
    mst_signal_stack saved = {0};
    saved.known = sigaltstack(NULL, &saved.stack) == 0;
    return saved;
}

static inline void mst_signal_stack_restore(const mst_signal_stack *saved) {
    if (saved->known) (void)sigaltstack(&saved->stack, NULL);
}

/* The OpenCL part of one host device (opencl_queue.c). */
struct mst_opencl_device {
    const mst_opencl *cl;
    const char *name; /* the name of `head` */
    mst_cl_device device;
    mst_cl_queue queue;
    mst_cl_event last; /* the last launch; once it is complete, so are all launches before it */
    const mst_device *head;
    pid_t process; /* the process that created it */
};
/* The device's part, created by the first call. Threads: any. */
muster_status mst_opencl_device_of(mst_device *head, mst_opencl_slot *slot, mst_opencl_device **device);
/* False if objects must not be released: on a lost device the release could wait for ever, and in a
 * child after fork there is no thread that would end the kernel. */
bool mst_opencl_may_release(const mst_opencl_device *device);
/* Keeps an object that is not released where leak checkers see it, so that they report only real
 * leaks. NULL is ignored. */
void mst_opencl_keep(void *object);

/* The compiler (opencl_compile.c). target.user is an mst_opencl_maker. */
typedef struct mst_opencl_maker {
    const mst_opencl *cl;
    mst_cl_device device;
} mst_opencl_maker;
extern const mst_code_compiler mst_opencl_compiler;
/* The log of the last build for the device, allocated with mst_alloc*; NULL if it is empty. */
char *mst_opencl_log(const mst_opencl *cl, mst_cl_program program, mst_cl_device device);

/* Call it once, before any other kernel runs (opencl_prepare.c). A failure has only one effect:
 * launches take longer. */
muster_status mst_opencl_prepare(const mst_opencl *cl);

/* Expands includes (opencl_text.c): replaces every line `#include "name"` that names one of the
 * program's sources by that source. #line directives keep the line numbers right. *text is
 * allocated with mst_alloc*. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT (sources that include each
 * other without end). */
muster_status mst_opencl_expand(const mst_code_program *program, char **text);

#endif

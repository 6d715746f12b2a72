/* Inside of opencl/: the state of the process, and what its files ask of each other. */
#ifndef MST_OPENCL_STATE_IMPL_H
#define MST_OPENCL_STATE_IMPL_H

#include "opencl_api_impl.h"
#include "opencl_impl.h"

#include <sys/types.h>

enum { MST_OPENCL_DEVICES = 1024 };

typedef struct mst_opencl {
    const mst_opencl_api *api;
    mst_cl_context context;
    mst_cl_device devices[MST_OPENCL_DEVICES]; /* a core each; one of all cores where they cannot be told apart */
    int32_t count;
    int64_t most_bytes; /* of one buffer */
    bool is_pocl, has_double, has_small;
    char version[MST_CODE_VERSION_SIZE]; /* of all that makes code: driver, device, its extensions */
    char name[96];
} mst_opencl;

/* The state, made by the first call that succeeds. Threads: any. Errors: UNAVAILABLE. */
muster_status mst_opencl_get(const mst_opencl **cl);

static inline muster_status mst_opencl_check(mst_cl_result result, const char *symbol, const char *what) {
    return __builtin_expect(result == MST_CL_SUCCESS, 1) ? MUSTER_OK : mst_opencl_error(result, symbol, what);
}
#define MST_CL(cl, what, symbol, ...) mst_opencl_check((cl)->api->symbol(__VA_ARGS__), #symbol, (what))

/* One device's part (opencl_queue.c). */
struct mst_opencl_device {
    const mst_opencl *cl;
    const char *name; /* the head's */
    mst_cl_device device;
    mst_cl_queue queue;
    mst_cl_event last; /* of the launch before which everything has been done once it has */
    const mst_device *head;
    pid_t process; /* that has made it */
};
/* Made by the first call. Threads: any. */
muster_status mst_opencl_device_of(mst_device *head, mst_opencl_slot *slot, mst_opencl_device **device);
/* Releasing what a kernel uses could wait for ever; and in a child of the process there is nobody
 * who would end it. What is not released is kept in sight of leak checkers, which shall find other
 * things; NULL is ignored. */
bool mst_opencl_may_release(const mst_opencl_device *device);
void mst_opencl_keep(void *object);

/* The compiler (opencl_compile.c). target.user: a mst_opencl_maker. */
typedef struct mst_opencl_maker {
    const mst_opencl *cl;
    mst_cl_device device;
} mst_opencl_maker;
extern const mst_code_compiler mst_opencl_compiler;
/* The log of the last build for the device, by mst_alloc*; NULL: it said nothing. */
char *mst_opencl_log(const mst_opencl *cl, mst_cl_program program, mst_cl_device device);

/* Once, before any other kernel runs (opencl_prepare.c). What fails of it costs time at launches
 * and nothing else. */
muster_status mst_opencl_prepare(const mst_opencl *cl);

/* One text of all (opencl_text.c): every line `#include "name"` whose name is among the program's
 * texts is replaced by that text, and
 * #line puts the numbering right again. By mst_alloc*. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT
 * (texts that include each other without end). */
muster_status mst_opencl_expand(const mst_code_program *program, char **text);

#endif

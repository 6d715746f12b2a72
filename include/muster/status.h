/* muster/status.h: status codes, the last error of a thread, and the rules that hold for every
 * other header.
 *
 * Errors. Every function that can fail returns a muster_status; 0 is success. A failure also sets
 * the calling thread's muster_last_error(): one sentence that names the function and the argument,
 * what was expected and what was received. A call that is refused changes nothing but its results.
 * A place for a handle, a tensor or a count that the function returns may then hold NULL, "no
 * tensor" or 0; the function says so if it holds something else.
 * The compiler warns where a program drops the status of a function marked MUSTER_NODISCARD. Not
 * marked are muster_fail and the functions that end or report something (destroy, close, release,
 * unregister, dump), since a program that cleans up after a failure has an error already.
 * Each header lists the errors of its functions, at its head or at the function. In these lists,
 * "errors of the device" are OUT_OF_MEMORY, UNSUPPORTED, UNAVAILABLE, DEVICE_LOST and SYSTEM, as
 * its driver or its compiler reports them, and TIMEOUT or ABORTED if a wait for the device ends
 * because of a deadline or of another rank. A function that takes an option or result struct also
 * returns INVALID_ARGUMENT if struct_size is no possible size.
 *
 * Ownership. create and open return an object that the caller owns and ends with destroy or close,
 * which accept NULL. Pointers passed to a function are borrowed for the duration of the call unless
 * the function says otherwise.
 * Order of destruction. Closing a runtime destroys what is left of its functions, variables,
 * kernels, operators, servers and device tensors. Functions end before the variables that they use
 * (destroy refuses the other order with BAD_STATE), and drivers before the part of a communicator
 * that is their group. Graphs, clients of host threads, drivers, handles of asynchronous calls,
 * buffers and tensors of DLPack belong to the program, which ends them before the runtime or after
 * it: until then their use is BAD_STATE where it needs the runtime. A binding with a garbage
 * collector, which ends objects in no order, lets each object keep its runtime alive (as muster.hpp
 * does).
 * `user` pointers. What `user` points to must stay until the library cannot pass it to the program
 * any more. With each `user` the program may give a destroy function (muster_destroy_function),
 * which the library then calls once with that pointer:
 * - when the object that held it has ended, by destroy or by the close of its runtime, before
 *   destroy or close returns;
 * - when the function that was given it fails, whatever the failure, before it returns. The one
 *   exception is an option struct whose struct_size is no possible size: nothing of it is read.
 * The destroy function runs in the thread that makes that call, and the library holds no lock: it
 * may call Muster, but for the object, or the runtime, that has ended. The last error of the thread
 * stays. It is not called for objects that the program never ends, nor in a child after fork for
 * objects of the parent. Without a destroy function the program frees what `user` points to after
 * destroy or close. Completion functions (muster_pending_notify) have no destroy function: each is
 * called once and never again, so that it frees what it needs by itself.
 * A handle that has ended must not be used, and neither must a copy of it. The library returns
 * BAD_STATE for such a handle as long as it can tell its memory from other memory, which is until
 * 256 other handles have ended, or the program sets another allocator (muster/allocator.h). The
 * same holds for a second wait, close or destroy. A function that returns no status then does
 * nothing, or returns what it returns for NULL. After that the use is undefined. A worker outside
 * of its body is always BAD_STATE in operations, kernels, copies and collectives. A part of a
 * communicator is not protected once all of its members have released it.
 *
 * Threads. Each function names the threads that may call it.
 * - "any": any thread, and several at the same time.
 * - "owner": one thread at a time per object.
 * - "worker": inside a function body, by the thread that runs the body.
 *
 * Option structs. They begin with struct_size, and later versions add fields only at the end. Zero
 * in a field selects its default; where zero is a meaningful value, a negative number selects it.
 * _init zeroes the struct and sets struct_size, as does {.struct_size = sizeof options}. NULL for
 * an options argument selects all defaults.
 * A program and a library of different versions work together. Fields that the program's header
 * lacks get their defaults. Fields that the library lacks must be zero, else the call returns
 * UNSUPPORTED. _init is inline: it passes the size known to the program's header to _init_sized,
 * which writes no more than that. A language binding calls _init_sized with the size of the struct
 * that it declares.
 *
 * Result structs. They also begin with struct_size, and later versions add fields only at the end.
 * The program sets struct_size, with _init or directly. The library fills the fields that the
 * program's header has, and zeroes the fields that the library lacks.
 *
 * Other structs are frozen: their layout never changes.
 * Enumerations have a tag (enum muster_dtype_value), for tools that make bindings. What the library
 * takes and stores is the int32_t of the same name without "_value".
 * Strings are UTF-8 and are copied. Sizes are int64_t. Callbacks must not let a C++ exception pass
 * through them. */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#if defined(__cplusplus) && __cplusplus < 201103L
#error "Muster's headers need C++11 or later (-std=c++11), and muster/muster.hpp needs C++17"
#endif

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MUSTER_API __attribute__((visibility("default")))
#define MUSTER_NODISCARD __attribute__((warn_unused_result))
#else
#define MUSTER_API
#define MUSTER_NODISCARD
#endif

#define MUSTER_VERSION_MAJOR 0
#define MUSTER_VERSION_MINOR 1
#define MUSTER_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* Frozen numbers: a code is never renumbered or reused. */
typedef int32_t muster_status;
enum muster_status_value {
    MUSTER_OK = 0,
    MUSTER_INVALID_ARGUMENT = 1, /* a value that is never valid: NULL, negative, unknown name */
    MUSTER_SHAPE_MISMATCH = 2,   /* shapes or lengths that do not match each other */
    MUSTER_DTYPE_MISMATCH = 3,   /* an element type other than the declared one */
    MUSTER_OUT_OF_RANGE = 4,     /* an index or a rank beyond its bounds */
    MUSTER_OVERFLOW = 5,         /* a size that does not fit 64 bits */
    MUSTER_OUT_OF_MEMORY = 6,
    MUSTER_UNSUPPORTED = 7, /* a combination that Muster does not support; the message gives the reason */
    MUSTER_UNAVAILABLE = 8, /* a library or a device that this machine lacks */
    MUSTER_BAD_STATE = 9,   /* not allowed now: a call inside a call, a closed runtime, after fork */
    MUSTER_ABORTED = 10,    /* another rank failed; the caller of the function gets the original error */
    MUSTER_TIMEOUT = 11,    /* a deadline passed; the message names the late rank */
    MUSTER_USER = 12,       /* a function body reported a failure of its own */
    MUSTER_DEVICE_LOST = 13,
    MUSTER_SYSTEM = 14,   /* the operating system reported an error; the message quotes it */
    MUSTER_INTERNAL = 15, /* a bug in Muster */
    /* another process of the launch has ended or cannot be reached; the runtime can only be closed
     * (muster/nodes.h) */
    MUSTER_NODE_LOST = 16,
    MUSTER_CANCELLED = 17, /* muster_runtime_cancel has ended the call */
};

/* The message of the calling thread's last failure; "" if there was none. At most 511 bytes of
 * UTF-8: a longer message is cut and ends with "...", and bytes that are no UTF-8 become "?". Valid
 * until the next failing call on this thread. Threads: any. */
MUSTER_API const char *muster_last_error(void);

/* The same message, copied into buffer[capacity]: the characters that fit, always ended by a 0.
 * Returns the number of bytes of the whole message without the 0; buffer may be NULL if capacity is
 * 0. For languages whose runtime may call Muster again, in the same thread, before it has read the
 * string: their bindings copy right after the call that failed. Threads: any. */
MUSTER_API int64_t muster_last_error_copy(char *buffer, int64_t capacity);

/* The name of a status code, for example "SHAPE_MISMATCH"; "UNKNOWN" for a number that is no status
 * code. Threads: any. */
MUSTER_API const char *muster_status_name(muster_status status);

/* How much a line of the log matters: `log` and `log_level` of muster_runtime_options.
 * docs/errors-and-deadlines.md lists the lines of each level. */
typedef int32_t muster_log_level;
enum muster_log_level_value {
    MUSTER_LOG_DEBUG = 1,
    MUSTER_LOG_INFO = 2,
    MUSTER_LOG_WARNING = 3, /* the work goes on, but slower or later than it should */
    MUSTER_LOG_ERROR = 4,   /* something is lost or given up */
};

/* Ends what a `user` pointer points to: see "`user` pointers" above. */
typedef void (*muster_destroy_function)(void *user);

/* Lets a function body report its own failure: stores the message and returns `status` (MUSTER_USER
 * if `status` is MUSTER_OK). Threads: any. */
MUSTER_API muster_status muster_fail(muster_status status, const char *message);

/* The version of the loaded library: major * 10000 + minor * 100 + patch. Threads: any. */
MUSTER_API int32_t muster_version(void);

/* For languages that cannot read a header: the value of a public constant, or the size in bytes of
 * a public struct, by its C name ("MUSTER_F32", "sizeof(muster_tensor)"). INT64_MIN if the name is
 * unknown or NULL, and for MUSTER_NONE, whose value it is. Threads: any. */
MUSTER_API int64_t muster_constant(const char *name);

/* Returns the status from the enclosing function when `expression` fails. */
#define MUSTER_TRY(expression)                                  \
    do {                                                        \
        muster_status muster_try_status_ = (expression);        \
        if (muster_try_status_ != 0) return muster_try_status_; \
    } while (0)

/* Ends the process where `status` is not MUSTER_OK: prints file, line, the status and the thread's
 * last error to stderr, and calls abort(). Nothing is cleaned up; the launcher of several processes
 * ends the others. Threads: any. MUSTER_MUST(muster_...(...)) calls it with its own place in the
 * program: for programs and examples that cannot go on after an error. Libraries, and bodies whose
 * failure should fail the call alone, use MUSTER_TRY. */
MUSTER_API void muster_must(muster_status status, const char *file, int32_t line);
#define MUSTER_MUST(expression) muster_must((expression), __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif
#endif

/* muster/status.h: status codes, the last error of a thread, and the rules that hold for every
 * other header.
 *
 * Errors. Every function that can fail returns a muster_status; 0 is success. A failure also sets
 * the calling thread's
 *            muster_last_error(): one sentence with the function, the argument, what was expected
 *            and what came.
 *            A refused call has changed nothing, except that a create or open which fails sets the
 *            place for its result to NULL.
 * Ownership. create/open hands an object to the caller, who ends it with destroy/close. NULL is
 * accepted there.
 *            Pointers passed in are borrowed for the duration of the call unless the function says
 *            otherwise.
 * Threads. "any": any thread, concurrently. "owner": one thread at a time per object. "worker":
 * inside a function body,
 *            by the thread that runs it.
 * Option structs. They begin with struct_size and only grow, at the end. Zero in a field means its
 *            default; where zero is a value of its own, a negative number stands for it. _init
 *            zeroes the struct and sets struct_size; {.struct_size = sizeof options} does the same.
 *            A program and a library of different versions understand each other: fields that the
 *            program's header does not have get their defaults, and fields that the library does
 *            not have must be zero (else UNSUPPORTED). _init is inline, and passes the size in the
 *            program's header to _init_sized, which writes no more than that; a binding calls
 *            _init_sized with the size of what it declares. options may be NULL: all defaults.
 * Result structs. They begin with struct_size and only grow, too. The program sets struct_size, by
 *            _init or itself; the library fills the struct as far as the program's header knows it,
 *            and sets fields that the library does not have to zero.
 * Other structs are frozen: their layout never changes.
 * Strings are UTF-8 and are copied. Sizes are int64_t. Callbacks must not let a C++ exception pass
 * through them. */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

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
enum {
    MUSTER_OK = 0,
    MUSTER_INVALID_ARGUMENT = 1, /* a value that is never right: NULL, negative, unknown name */
    MUSTER_SHAPE_MISMATCH = 2,   /* shapes or lengths that do not fit each other */
    MUSTER_DTYPE_MISMATCH = 3,   /* an element type other than the declared one */
    MUSTER_OUT_OF_RANGE = 4,     /* an index or a rank beyond its bounds */
    MUSTER_OVERFLOW = 5,         /* a size that does not fit 64 bits */
    MUSTER_OUT_OF_MEMORY = 6,
    MUSTER_UNSUPPORTED = 7, /* a combination that Muster refuses, with the reason */
    MUSTER_UNAVAILABLE = 8, /* a library or a device that this machine lacks */
    MUSTER_BAD_STATE = 9,   /* not now: a call inside a call, a closed runtime, after fork */
    MUSTER_ABORTED = 10,    /* another rank failed; the caller of the function gets the original error */
    MUSTER_TIMEOUT = 11,    /* a deadline passed; the message names the late rank */
    MUSTER_USER = 12,       /* a function body reported a failure of its own */
    MUSTER_DEVICE_LOST = 13,
    MUSTER_SYSTEM = 14,   /* the operating system refused; the message has its words */
    MUSTER_INTERNAL = 15, /* a bug in Muster */
};

/* The sentence of the calling thread's last failure, "" if there was none. Valid until the next
 * failing call on this
 * thread. Threads: any. */
MUSTER_API const char *muster_last_error(void);

/* The name of a code, for example "SHAPE_MISMATCH"; "UNKNOWN" for a number that is none. Threads:
 * any. */
MUSTER_API const char *muster_status_name(muster_status status);

/* Lets a function body report its own failure: stores the sentence and returns `status`
 * (MUSTER_USER if it is MUSTER_OK).
 * Threads: any. */
MUSTER_API muster_status muster_fail(muster_status status, const char *message);

/* major * 10000 + minor * 100 + patch of the library that is loaded. Threads: any. */
MUSTER_API int32_t muster_version(void);

/* The value of a public constant or the size in bytes of a public struct by its C name
 * ("MUSTER_F32", "sizeof(muster_tensor)"), for languages that cannot read a header; INT64_MIN if
 * the name is unknown (NULL too). Threads: any. */
MUSTER_API int64_t muster_constant(const char *name);

/* Returns the status from the enclosing function when `expression` fails. */
#define MUSTER_TRY(expression)                                  \
    do {                                                        \
        muster_status muster_try_status_ = (expression);        \
        if (muster_try_status_ != 0) return muster_try_status_; \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif

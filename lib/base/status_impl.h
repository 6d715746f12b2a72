/* Error messages: every failure sets one sentence in the calling thread, which can be copied to
 * another thread. */
#ifndef MST_STATUS_IMPL_H
#define MST_STATUS_IMPL_H

#include "muster/status.h"

enum { MST_MESSAGE_SIZE = 512, MST_STATUS_LAST = MUSTER_CANCELLED };

/* Formats the thread's last error and returns `code`. A message that is too long is cut and ends
 * with "...". */
muster_status mst_error(muster_status code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Returns INVALID_ARGUMENT with "where: argument: expected <expected>, received NULL". For an
 * output argument, `expected` is "the address of a pointer" or "the address of a number". */
muster_status mst_error_null(const char *where, const char *argument, const char *expected) __attribute__((cold));

/* The bytes of the first character of a terminated text; 0 if it is no UTF-8. */
size_t mst_utf8_length(const unsigned char *text);
/* Returns INVALID_ARGUMENT unless `text`, which is not NULL, is UTF-8. The message quotes it, with
 * "?" for the bytes that are none. */
muster_status mst_check_utf8(const char *text, const char *where, const char *argument);

/* Copies this thread's last error into `message`, always terminated. */
void mst_error_save(char message[MST_MESSAGE_SIZE]);
/* Makes `message` this thread's last error and returns `code`. */
muster_status mst_error_restore(muster_status code, const char *message);

/* For clang-tidy, which cannot see across files that mst_error never returns MUSTER_OK. */
#ifdef __clang_analyzer__
static inline muster_status mst_refusal(muster_status code) {
    if (code == MUSTER_OK) __builtin_unreachable();
    return code;
}
#define mst_error(...) mst_refusal(mst_error(__VA_ARGS__))
#define mst_error_null(...) mst_refusal(mst_error_null(__VA_ARGS__))
#endif

/* Only mst_error_count reads it. initial-exec: one instruction in place of a call; the eight bytes
 * fit what the loader keeps free for libraries opened late. */
extern _Thread_local uint64_t mst_errors_of_thread __attribute__((tls_model("initial-exec")));
/* The number of messages that this thread has set. It shows whether a callback that failed has set
 * one. */
static inline uint64_t mst_error_count(void) { return mst_errors_of_thread; }

#endif

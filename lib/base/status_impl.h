/* Messages: every refusal is one sentence in the calling thread, and can be carried to another
 * thread. */
#ifndef MST_STATUS_IMPL_H
#define MST_STATUS_IMPL_H

#include "muster/status.h"

enum { MST_MESSAGE_SIZE = 512 };

/* Formats the thread's last error and returns `code`. A message that is too long ends with
 * "...". */
muster_status mst_error(muster_status code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* INVALID_ARGUMENT: "where: argument: expected <expected>, received NULL". Of a place for a result
 * the address is expected: "the address of a pointer", "the address of a number". */
muster_status mst_error_null(const char *where, const char *argument, const char *expected) __attribute__((cold));

/* Copies the last error of this thread out (always terminated); makes `message` the last error of
 * this thread. */
void mst_error_save(char message[MST_MESSAGE_SIZE]);
muster_status mst_error_restore(muster_status code, const char *message);

/* For clang-tidy, which cannot see in another file that a refusal never returns MUSTER_OK. */
#ifdef __clang_analyzer__
static inline muster_status mst_refusal(muster_status code) {
    if (code == MUSTER_OK) __builtin_unreachable();
    return code;
}
#define mst_error(...) mst_refusal(mst_error(__VA_ARGS__))
#define mst_error_null(...) mst_refusal(mst_error_null(__VA_ARGS__))
#endif

/* How many messages this thread has set: tells whether a callback that failed said why. */
uint64_t mst_error_count(void);

#endif

/* What a message says without the processes and hosts that it names, so that a test expects the
 * same words of one process and of several: without " (process 1 (host b))",
 * ", process 1 (host b)", ", process 1, host b" and " of process 1 (host b)". */
#ifndef BASE_PLAIN_H
#define BASE_PLAIN_H

#include "memory_impl.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Where the words about a process that begin at `text` end; NULL: it is something else. */
static inline const char *test_process_words(const char *text) {
    static const char *const begins[] = {" (process ", ", process ", ", process ", " of process "},
                             *const between[] = {" (host ", ", host ", " (host ", " (host "}, *const ends[] = {"))", NULL, ")", ")"};
    for (int i = 0; i < 4; i++) {
        const char *at = text;
        if (strncmp(at, begins[i], strlen(begins[i])) != 0) continue;
        at += strlen(begins[i]);
        at += strspn(at, "0123456789");
        if (strncmp(at, between[i], strlen(between[i])) != 0) continue;
        at += strlen(between[i]);
        at += strcspn(at, "),;");
        if (!ends[i]) return at;
        if (strncmp(at, ends[i], strlen(ends[i])) == 0) return at + strlen(ends[i]);
    }
    return NULL;
}

/* A message as one process writes it, without process and host. The result is valid until 16 more
 * calls. The texts are not thread-local: every file that includes this one has its own, and they
 * would fill the small stacks of some tests, where the C library puts what is thread-local. */
static inline const char *test_plain(const char *message) {
    enum { TEXTS = 16 };
    static char texts[TEXTS][2 * MST_MESSAGE_SIZE];
    static _Atomic uint32_t calls;
    const char *asked = getenv("MUSTER_TEST_PROCESSES");
    size_t count = 0;
    if (!asked || !*asked) return message;
    char *plain = texts[atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) % TEXTS];
    while (*message && count + 1 < sizeof texts[0]) {
        const char *after = test_process_words(message);
        if (after)
            message = after;
        else
            plain[count++] = *message++;
    }
    plain[count] = 0;
    return plain;
}

#endif

/* What a message says without the processes and hosts that it names, so that a test expects the
 * same words of one process and of several: without " (process 1 (host b))",
 * ", process 1 (host b)", ", process 1, host b" and " of process 1 (host b)". */
#ifndef BASE_PLAIN_H
#define BASE_PLAIN_H

#include "memory_impl.h"

#include <stdbool.h>
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

enum { TEST_PLAIN_SIZE = 2 * MST_MESSAGE_SIZE };

/* A message as one process writes it, without process and host. */
static inline void test_plain(const char *message, char plain[TEST_PLAIN_SIZE]) {
    const char *asked = getenv("MUSTER_TEST_PROCESSES");
    size_t count = 0;
    while (*message && count + 1 < TEST_PLAIN_SIZE) {
        const char *after = asked && *asked ? test_process_words(message) : NULL;
        if (after)
            message = after;
        else
            plain[count++] = *message++;
    }
    plain[count] = 0;
}

/* Does the message say this, without process and host? Any thread. The text is not on the stack,
 * which is small in some tests. */
static inline bool test_says(const char *message, const char *text) {
    char *plain = malloc(TEST_PLAIN_SIZE);
    if (!plain) return false;
    test_plain(message, plain);
    const bool says = strstr(plain, text) != NULL;
    free(plain);
    return says;
}

#endif

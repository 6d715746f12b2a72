/* What the environment asks of tests with random cases: the seed, and how many cases. */
#ifndef BASE_SEED_H
#define BASE_SEED_H

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Writes "<program> <what>" to the file that MUSTER_TEST_ASKED names, by which tests/soak.py learns
 * which programs have random cases. One write of a short line: programs may run side by side. */
static inline void seed_note_question(const char *what, _Atomic bool *noted) {
    const char *path = getenv("MUSTER_TEST_ASKED");
    if (!path || !*path || atomic_exchange(noted, true)) return;
    char line[300];
    int length = snprintf(line, sizeof line, "%s %s\n", program_invocation_short_name, what);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line, (size_t)length) != length) perror(path);
    if (file >= 0) close(file);
}

/* MUSTER_SEED, or 1: the seed of a test's random numbers. */
static inline uint64_t test_seed(void) {
    static _Atomic bool noted;
    seed_note_question("seed", &noted);
    const char *text = getenv("MUSTER_SEED");
    return text && *text ? strtoull(text, NULL, 10) : 1;
}

/* Whether MUSTER_TEST_FULL=1 asks for all cases in place of a sample. */
static inline bool test_is_full(void) {
    static _Atomic bool noted;
    seed_note_question("full", &noted);
    const char *text = getenv("MUSTER_TEST_FULL");
    return text && *text == '1';
}

#endif

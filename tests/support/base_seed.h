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

/* Of so many cases a test keeps one: in optimised builds, with the sanitizer of addresses, with
 * that of threads; all with MUSTER_TEST_FULL=1. */
static inline int64_t test_one_in(int64_t optimised, int64_t addresses, int64_t threads) {
    if (test_is_full()) return 1;
#if defined(MUSTER_TEST_SANITIZED_THREADS)
    return (void)optimised, (void)addresses, threads;
#elif defined(MUSTER_TEST_SANITIZED)
    return (void)optimised, (void)threads, addresses;
#else
    return (void)addresses, (void)threads, optimised;
#endif
}

/* Is the case of this number, counted from 0, in the sample that keeps one in `one_in`? MUSTER_SEED
 * says which: as many seeds keep all cases. */
static inline bool test_keeps(int64_t number, int64_t one_in) { return number % one_in == (int64_t)(test_seed() % (uint64_t)one_in); }

/* How many of so many cases test_keeps keeps. */
static inline int64_t test_kept(int64_t count, int64_t one_in) {
    return (count - (int64_t)(test_seed() % (uint64_t)one_in) + one_in - 1) / one_in;
}

#endif

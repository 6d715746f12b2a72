/* An end for what tests wait for by calls that have none, such as the join of a thread: a library
 * that hangs ends its test with a sentence, long before ctest does it without one. */
#ifndef BASE_WATCH_H
#define BASE_WATCH_H

#include <pthread.h>
#include <stdint.h>

/* A call that is in progress. Its memory is the caller's, on the stack for instance. */
typedef struct test_watch {
    char words[240];
    void (*describe)(void *user); /* prints more to stderr before the program ends; may be NULL */
    void *user;
    int64_t begin_ns;
    struct test_watch *next;
} test_watch;

/* How long a call may take on a quiet machine: 300 s, far above what any takes. */
extern int64_t test_watch_longest_ns;

/* The calling thread begins something that must end: format says what, after "waited 300 s for ".
 * Where it has not ended in time the program prints that, and aborts. Any thread; a thread may have
 * several. watch->describe and user are the caller's to set before. */
void test_watch_begin(test_watch *watch, const char *format, ...) __attribute__((format(printf, 2, 3)));
void test_watch_end(test_watch *watch);

/* pthread_join within that time. format: whose thread it is. */
void test_join(pthread_t thread, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

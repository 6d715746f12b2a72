#include "base_watch.h"

#include "base_pace.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int64_t test_watch_longest_ns = 300000000000;

/* One thread looks at all calls that are in progress. A child of fork does not have it, and watches
 * nothing. */
static struct {
    pthread_mutex_t lock;
    test_watch *first;
    _Atomic pid_t process;
} watches = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void watch_look(test_watch *watch) {
    const int64_t waited_ns = pace_now_ns() - watch->begin_ns;
    if (waited_ns < test_watch_longest_ns || waited_ns < test_patience(test_watch_longest_ns)) return;
    fprintf(stderr, "waited %.3g s for %s\n", (double)waited_ns * 1e-9, watch->words);
    if (watch->describe) watch->describe(watch->user);
    abort();
}

static void *watch_main(void *unused) {
    for (;;) {
        pthread_mutex_lock(&watches.lock);
        for (test_watch *watch = watches.first; watch; watch = watch->next) watch_look(watch);
        pthread_mutex_unlock(&watches.lock);
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    }
    return unused;
}

/* The first call starts the thread. */
static bool watch_is_here(void) {
    pthread_t thread;
    if (watches.process == getpid()) return true;
    if (watches.process || pthread_create(&thread, NULL, watch_main, NULL) != 0) return false;
    pthread_detach(thread);
    watches.process = getpid();
    return true;
}

static void watch_begin(test_watch *watch, const char *format, va_list list) {
    vsnprintf(watch->words, sizeof watch->words, format, list);
    watch->begin_ns = pace_now_ns();
    watch->next = NULL;
    if (watches.process && watches.process != getpid()) return;
    pthread_mutex_lock(&watches.lock);
    if (watch_is_here()) {
        watch->next = watches.first;
        watches.first = watch;
    }
    pthread_mutex_unlock(&watches.lock);
}

void test_watch_begin(test_watch *watch, const char *format, ...) {
    va_list list;
    va_start(list, format);
    watch_begin(watch, format, list);
    va_end(list);
}

void test_watch_end(test_watch *watch) {
    if (watches.process != getpid()) return;
    pthread_mutex_lock(&watches.lock);
    for (test_watch **link = &watches.first; *link; link = &(*link)->next)
        if (*link == watch) {
            *link = watch->next;
            break;
        }
    pthread_mutex_unlock(&watches.lock);
}

void test_join(pthread_t thread, const char *format, ...) {
    test_watch watch = {.describe = NULL};
    va_list list;
    va_start(list, format);
    watch_begin(&watch, format, list);
    va_end(list);
    pthread_join(thread, NULL);
    test_watch_end(&watch);
}

/* A program waits for its signals in a thread of its own, with sigwait. That works only if every
 * thread of the library, and of the libraries that it opens, blocks them. */
#include "embedding.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

/* The blocked signals of one thread of this process: bit n - 1 is signal n. */
static uint64_t blocked_signals(const char *thread) {
    char path[64], line[256];
    unsigned long long blocked = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", thread);
    FILE *file = fopen(path, "r");
    if (!file) return ~0ULL; /* it has ended meanwhile */
    while (!found && fgets(line, sizeof line, file)) found = sscanf(line, "SigBlk: %llx", &blocked) == 1;
    fclose(file);
    assert_true(found);
    return blocked;
}

/* Checks all threads but this one; returns their number. */
static int check_threads(void) {
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGPROF, SIGIO};
    DIR *folder = opendir("/proc/self/task");
    int threads = 0;
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == (int)syscall(SYS_gettid)) continue;
        const uint64_t blocked = blocked_signals(entry->d_name);
        threads++;
        for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
            if (!(blocked >> (signals[i] - 1) & 1)) fail_msg("a thread does not block signal %d", signals[i]);
        }
    }
    closedir(folder);
    return threads;
}

/* OpenBLAS starts three threads beside the caller's, whatever the number of CPUs. */
static void test_every_thread_blocks_signals(void **state) {
    (void)state;
    embedded e = {.kernels = true};
    setenv("OPENBLAS_NUM_THREADS", "4", 1);
    embedded_open(&e);
    embedded_call(&e);
    embedded_kernel(&e);
    const int threads = check_threads();
    printf("%d threads\n", threads);
    assert_true(threads >= 2 + 3);
    embedded_server(&e);
    embedded_close(&e);
    assert_true(check_threads() >= 3);
}

/* The caller's own mask stays as it was. */
static void test_the_callers_signals_stay(void **state) {
    (void)state;
    sigset_t before, after;
    embedded e = {.kernels = true};
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    embedded_open(&e);
    embedded_call(&e);
    embedded_kernel(&e);
    embedded_server(&e);
    embedded_close(&e);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int i = 1; i < 32; i++) assert_int_equal(sigismember(&after, i), i == SIGUSR2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_thread_blocks_signals), cmocka_unit_test(test_the_callers_signals_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

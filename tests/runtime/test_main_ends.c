/* A program closes its runtime and ends its main thread by pthread_exit: no thread of a library
 * that Muster has opened keeps the process. */
#include "base_check.h"
#include "base_pace.h"
#include "runtime_impl.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int count_threads(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (const struct dirent *entry; folder && (entry = readdir(folder));) count += entry->d_name[0] != '.';
    if (folder) closedir(folder);
    return count;
}

/* In a process that has not opened OpenBLAS before. Twice: the second opening starts threads
 * again. */
static void open_and_close(void) {
    for (int i = 0; i < 2; i++) {
        muster_runtime *runtime;
        muster_runtime_options options;
        muster_runtime_options_init(&options);
        options.devices = "host:2";
        const int before = count_threads();
        if (muster_runtime_open(&options, &runtime) != MUSTER_OK) _exit(2);
        if (muster_runtime_close(runtime) != MUSTER_OK) _exit(3);
        if (count_threads() != before) _exit(4);
    }
    pthread_exit(NULL); /* the process ends with code 0, with its last thread */
}

static void a_process_ends_with_its_main_thread(void **state) {
    (void)state;
#ifdef MUSTER_TEST_SANITIZED
    skip(); /* the child ends by its last thread, without the stack that holds what cmocka has allocated */
#endif
    int status = -1;
    const pid_t process = fork();
    if (process == 0) open_and_close();
    pid_t ended = 0;
    for (double left = 20 * test_pace(); left > 0 && !ended; left -= 0.01) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        ended = waitpid(process, &status, WNOHANG);
    }
    if (!ended) {
        kill(process, SIGKILL);
        waitpid(process, &status, 0);
        fail_msg("the process does not end");
    }
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_process_ends_with_its_main_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* muster-timed NAME SECONDS COMMAND...: runs a suite, and ends it when it hangs. CMake puts it in
 * front of every suite (cmake/test.cmake).
 *
 * The suite may take as long as MUSTER_TEST_PATIENCE says (600 s), and 10 times SECONDS, its time
 * on a quiet machine, besides. These are seconds of a quiet core: while the machine is n times
 * slower, a second counts as 1/n. What is ended is the suite's whole process group.
 * MUSTER_TEST_TIMED=FILE: a line "NAME CPU WALL" is added to FILE, with the CPU seconds of the
 * suite and of the processes that it has waited for.
 * Exit: that of the suite, or its signal; 124 after the limit. */
#include "base_pace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const double measure_every = 10; /* seconds */

static double seconds_now(void) { return (double)pace_now_ns() / 1e9; }

static void write_line(const char *name, const struct rusage *used, double wall) {
    const char *path = getenv("MUSTER_TEST_TIMED");
    if (!path) return;
    const double cpu =
        (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) + (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
    char line[512];
    const int length = snprintf(line, sizeof line, "%s %.2f %.2f\n", name, cpu, wall);
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line, (size_t)length) != length) fprintf(stderr, "muster-timed: %s: %s\n", path, strerror(errno));
    if (file >= 0) close(file);
}

/* The limit ends the group, and so does the end of ctest. */
static pid_t start(char **command, const sigset_t *mask) {
    const pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(command[0], command);
    fprintf(stderr, "muster-timed: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

/* As the suite ended. */
static int end_as(int status) {
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(status));
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    return 128 + WTERMSIG(status);
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "expected: muster-timed NAME SECONDS COMMAND...\n");
        return 2;
    }
    const char *patience = getenv("MUSTER_TEST_PATIENCE"), *name = arguments[1];
    const double limit = (patience ? atof(patience) : 600) + 10 * atof(arguments[2]);
    sigset_t awaited, before;
    sigemptyset(&awaited);
    const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 4; i++) sigaddset(&awaited, signals[i]);
    sigprocmask(SIG_BLOCK, &awaited, &before);
    const double begin = seconds_now();
    const pid_t child = start(arguments + 3, &before);
    if (child < 0) {
        fprintf(stderr, "muster-timed: fork: %s\n", strerror(errno));
        return 126;
    }
    setpgid(child, child); /* whoever comes first */
    double quiet = 0, looked = begin;
    int status, over = 0;
    struct rusage used;
    while (wait4(child, &status, WNOHANG, &used) == 0) {
        const double rest = limit - quiet;
        const double pause = rest < measure_every ? (rest > 0.01 ? rest : 0.01) : measure_every;
        const struct timespec time = {(time_t)pause, (long)((pause - (double)(time_t)pause) * 1e9)};
        const int signal = sigtimedwait(&awaited, NULL, &time);
        if (signal == SIGCHLD || (signal < 0 && errno == EINTR)) continue;
        if (signal > 0) kill(-child, signal);
        const double pace = pace_measure(), now = seconds_now();
        quiet += (now - looked) / (pace > 1 ? pace : 1);
        looked = now;
        if (quiet < limit || over) continue;
        over = 1;
        printf("\nmuster-timed: %s: ended after %.0f s, which count as %.0f s of a quiet machine: it hangs\n", name, now - begin, quiet);
        fflush(stdout);
        kill(-child, SIGKILL);
    }
    write_line(name, &used, seconds_now() - begin);
    return over ? 124 : end_as(status);
}

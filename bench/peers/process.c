#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 120000, LEAVE_MS = 5000, MOST_SETTINGS = 16 };
extern char **environ;

struct bench_process {
    pid_t pid;
    int to, from; /* our ends */
    bool sleeper;
    char description[BENCH_NAME];
};

static bool receive(int from, void *data, size_t bytes) {
    for (char *at = data; bytes > 0;) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int result = poll(&ready, 1, PATIENCE_MS);
        if (result < 0 && errno == EINTR) continue;
        ssize_t got = result > 0 ? read(from, at, bytes) : 0;
        if (got <= 0) return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool receive_line(int from, char *line, size_t size) {
    for (size_t used = 0; used + 1 < size; used++) {
        line[used + 1] = 0;
        if (!receive(from, line + used, 1)) return false;
        if (line[used] == '\n') {
            line[used] = 0;
            return true;
        }
    }
    return false;
}

/* Our environment with `settings` first, without the settings' old values. The result is one block;
 * the strings are borrowed. */
static char **merged_environment(const char *const *settings) {
    size_t count = 0, used = 0;
    while (environ[count]) count++;
    char **merged = calloc(count + MOST_SETTINGS + 1, sizeof *merged);
    if (!merged) return NULL;
    for (; settings[used] && used < MOST_SETTINGS; used++) merged[used] = (char *)settings[used];
    size_t setting_count = used;
    for (size_t i = 0; i < count; i++) {
        bool replaced = false;
        for (size_t s = 0; s < setting_count && !replaced; s++)
            replaced = strncmp(environ[i], settings[s], (size_t)(strchr(settings[s], '=') - settings[s]) + 1) == 0;
        if (!replaced) merged[used++] = environ[i];
    }
    return merged;
}

static bool start(bench_process *process, char *const *argv, const char *const *settings, const char **why) {
    int request[2] = {-1, -1}, answer[2] = {-1, -1};
    char **environment = merged_environment(settings);
    posix_spawn_file_actions_t actions;
    if (!environment || pipe2(request, O_CLOEXEC) != 0 || pipe2(answer, O_CLOEXEC) != 0) {
        for (int i = 0; i < 2; i++)
            if (request[i] >= 0) close(request[i]);
        *why = "memory or file descriptors are short";
        free(environment);
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, request[0], 0);
    posix_spawn_file_actions_adddup2(&actions, answer[1], 1);
    int error = posix_spawnp(&process->pid, argv[0], &actions, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    close(request[0]);
    close(answer[1]);
    process->to = request[1];
    process->from = answer[0];
    if (error) {
        process->pid = 0;
        *why = strerror(error);
    }
    return error == 0;
}

static void stop(const bench_process *process) {
    kill(process->pid, SIGSTOP);
    int status;
    while (waitpid(process->pid, &status, WUNTRACED) < 0 && errno == EINTR) {}
}

static bench_process *open_process(const char *name, char *const *argv, const char *const *settings, bool sleeper) {
    bench_process *process = calloc(1, sizeof *process);
    if (!process) return NULL;
    process->sleeper = sleeper;
    process->to = process->from = -1;
    signal(SIGPIPE, SIG_IGN);
    char line[512] = "it ended before it was ready";
    const char *why = line;
    bool started = start(process, argv, settings, &why);
    if (started && receive_line(process->from, line, sizeof line) && strncmp(line, "ok ", 3) == 0) {
        snprintf(process->description, sizeof process->description, "%.90s", line + 3);
        if (!sleeper) stop(process);
        return process;
    }
    bench_log("not measured: %s: %s", name, strncmp(why, "no ", 3) == 0 ? why + 3 : why);
    bench_process_close(process);
    return NULL;
}

bench_process *bench_process_open(const char *name, char *const *argv, const char *const *settings) {
    return open_process(name, argv, settings, false);
}

bench_process *bench_process_open_sleeper(const char *name, char *const *argv, const char *const *settings) {
    return open_process(name, argv, settings, true);
}

const char *bench_process_description(const bench_process *process) { return process->description; }

/* Waits until the process has left, which its children may need; false: it has not. */
static bool left(const bench_process *process, int32_t patience_ms) {
    for (int32_t waited = 0; waited <= patience_ms; waited += 10) {
        pid_t ended = waitpid(process->pid, NULL, WNOHANG);
        if (ended == process->pid || (ended < 0 && errno == ECHILD)) return true;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return false;
}

static void end(const bench_process *process) {
    if (process->sleeper) {
        if (left(process, LEAVE_MS)) return;
        kill(process->pid, SIGTERM);
        if (left(process, LEAVE_MS)) return;
    }
    kill(process->pid, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR) {}
}

void bench_process_close(void *self) {
    bench_process *process = self;
    if (process->to >= 0) close(process->to);
    if (process->pid > 0) end(process);
    if (process->from >= 0) close(process->from);
    free(process);
}

bool bench_process_exchange(const bench_process *process, const void *request, size_t bytes, int32_t calls, double *ns, int64_t *wrong) {
    int64_t wrong_here = 0;
    char newline;
    bool ok = write(process->to, request, bytes) == (ssize_t)bytes && receive(process->from, &wrong_here, sizeof wrong_here) &&
              receive(process->from, ns, (size_t)calls * sizeof *ns) && receive(process->from, &newline, 1);
    *wrong += wrong_here;
    return ok;
}

bool bench_process_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const bench_process *process = self;
    bench_request request = {block->warm, block->calls, block->pause_ns};
    kill(process->pid, SIGCONT);
    bool ok = bench_process_exchange(process, &request, sizeof request, block->calls, ns, wrong);
    stop(process);
    return ok;
}

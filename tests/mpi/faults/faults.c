/* The faults themselves. */
#include "faults.h"

#include "memory_impl.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

fault fault_now;

static const char *const kinds[FAULT_KINDS] = {"none", "kill", "stop",   "exit_0",    "exit_1", "fail",
                                               "hang", "cut",  "refuse", "different", "order",  "memory"};
static const char *const places[FAULT_PLACES] = {"open", "begin", "arrival", "data", "end", "close"};

static int32_t named(const char *name, const char *const *names, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}
int32_t fault_kind_named(const char *name) { return named(name, kinds, FAULT_KINDS); }
int32_t fault_place_named(const char *name) { return named(name, places, FAULT_PLACES); }
const char *fault_kind_text(fault_kind kind) { return kinds[kind]; }
const char *fault_place_text(fault_place place) { return places[place]; }

static void pass_ms(int64_t ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0) {}
}

/* ---- who wakes a process that has stopped itself ---- */

static int alarm_clock[2] = {-1, -1}, woken[2] = {-1, -1};

void fault_prepare(void) {
    if (pipe(alarm_clock) != 0 || pipe(woken) != 0) abort();
    const pid_t sleeper = getpid();
    if (fork() != 0) {
        close(alarm_clock[0]);
        close(woken[1]);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(alarm_clock[1]);
    close(woken[0]);
    /* The launcher waits for the end of what it has given to its processes. */
    for (int file = 0; file < 3; file++) close(file);
    int32_t ms;
    while (read(alarm_clock[0], &ms, sizeof ms) == (ssize_t)sizeof ms) {
        kill(sleeper, SIGSTOP);
        pass_ms(ms);
        kill(sleeper, SIGCONT);
        if (write(woken[1], &ms, sizeof ms) != (ssize_t)sizeof ms) break;
    }
    _exit(0);
}

/* Returns when the process has been stopped and goes on. */
static void stop_for(int32_t ms) {
    if (write(alarm_clock[1], &ms, sizeof ms) != (ssize_t)sizeof ms) abort();
    while (read(woken[0], &ms, sizeof ms) != (ssize_t)sizeof ms) {}
}

/* ---- links ---- */

static void link_to(const char *word) {
    char command[128];
    snprintf(command, sizeof command, "hosts-link %s %s", word, strcmp(word, "heal") ? fault_now.host : "");
    if (system(command) == 0) return;
    fprintf(stderr, "fault_program: %s failed\n", command);
    abort(); /* a link that was not cut must not look like one that healed */
}

/* ---- striking ---- */

bool fault_is_here(fault_place place) { return fault_now.place == place && fault_now.process == fault_now.victim; }

static void strike(void) {
    const fault *f = &fault_now;
    const bool late = f->seed % 3 == 0; /* longer than the deadline, or shorter */
    switch (f->kind) {
    case FAULT_KILL:
        kill(getpid(), SIGKILL);
        break;
    case FAULT_STOP:
        if (f->survivable)
            stop_for(late ? FAULT_LATE_MS : 20 + (int32_t)(f->seed / 3 % 60));
        else
            kill(getpid(), SIGSTOP);
        break;
    case FAULT_EXIT_0:
        exit(0);
    case FAULT_EXIT_1:
        exit(1);
    case FAULT_HANG:
        while (!f->survivable) pause();
        pass_ms(FAULT_LATE_MS);
        break;
    case FAULT_CUT:
        link_to("cut");
        if (!f->survivable) break;
        pass_ms(20 + (int32_t)(f->seed / 3 % 60));
        link_to("heal");
        break;
    case FAULT_MEMORY:
        mst_memory_fail_at(1 + f->seed % 24);
        break;
    default:
        break;
    }
}

void fault_strike(fault_place place) {
    if (fault_is_here(place)) strike();
}

static void *strike_later(void *unused) {
    (void)unused;
    const struct timespec time = {.tv_nsec = 50000 * (fault_now.seed % 100)};
    nanosleep(&time, NULL);
    strike();
    return NULL;
}

void fault_strike_soon(fault_place place) {
    pthread_t thread;
    if (!fault_is_here(place)) return;
    if (fault_now.kind == FAULT_MEMORY)
        strike();
    else if (fault_now.kind != FAULT_FAIL && fault_now.kind != FAULT_ORDER && fault_now.kind != FAULT_DIFFERENT &&
             !pthread_create(&thread, NULL, strike_later, NULL))
        pthread_detach(thread);
}

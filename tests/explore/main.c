/* explore [--find] [prefix ...]: runs the scenarios whose names begin with a prefix (without: all)
 * and prints what was explored. Exit 0 when no fault was found; with --find, stops at the first
 * fault and exits 0 only if there was one. */
#include "explorer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool wanted(const char *name, char **prefixes, int count) {
    for (int i = 0; i < count; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return count == 0;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

typedef struct totals {
    int32_t scenarios, faulty;
    int64_t states, steps;
    double interleavings;
} totals;

/* In a process of its own: the thread-local variables of the real files, which all threads of a
 * scenario share, begin anew with each. */
static explore_result run_apart(const explore_scenario *scenario) {
    int ends[2];
    explore_result result = {.faulty = true};
    fflush(stdout);
    if (pipe(ends) != 0) return result;
    const pid_t child = fork();
    if (child == 0) {
        result = explore_run(scenario);
        fflush(stdout);
        _exit(write(ends[1], &result, sizeof result) == sizeof result ? 0 : 2);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0 ||
        read(ends[0], &result, sizeof result) != sizeof result) {
        fprintf(stderr, "explore: %s was not explored\n", scenario->name);
        exit(2);
    }
    close(ends[0]);
    close(ends[1]);
    return result;
}

static void run_one(const explore_scenario *scenario, totals *all) {
    double begun = seconds();
    explore_result r = run_apart(scenario);
    printf("%-52s %9lld states %10lld steps %10.3g interleavings, depth %4d, %.2f s%s\n", scenario->name, (long long)r.states,
           (long long)r.steps, r.interleavings, r.deepest, seconds() - begun, r.faulty ? ", FAULTY" : "");
    fflush(stdout);
    all->scenarios++;
    all->faulty += r.faulty;
    all->states += r.states;
    all->steps += r.steps;
    all->interleavings += r.interleavings;
}

int main(int argc, char **argv) {
    static const explore_scenario *const lists[] = {
        explore_eventcount_scenarios, explore_team_scenarios,        explore_lost_scenarios,         explore_mailbox_scenarios,
        explore_pool_scenarios,       explore_ticket_lock_scenarios, explore_server_queue_scenarios, explore_pool_queue_scenarios,
        explore_device_scenarios,     explore_cancel_scenarios};
    bool find = argc > 1 && strcmp(argv[1], "--find") == 0;
    int first = find ? 2 : 1;
    totals all = {0};
    double begun = seconds();
    for (size_t list = 0; list < sizeof(lists) / sizeof(lists[0]); list++) {
        for (const explore_scenario *s = lists[list]; s->name && !(find && all.faulty); s++) {
            if (wanted(s->name, argv + first, argc - first)) run_one(s, &all);
        }
    }
    printf("%d scenarios, %d faulty: %lld states, %lld steps, %.3g interleavings, %.1f s\n", all.scenarios, all.faulty,
           (long long)all.states, (long long)all.steps, all.interleavings, seconds() - begun);
    if (all.scenarios == 0) return 2;
    return find ? all.faulty == 0 : all.faulty > 0;
}

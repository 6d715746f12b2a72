#include "base_machine.h"

#include "base_check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

bool on_gpus(void) {
    const char *text = getenv("MUSTER_TEST_DEVICES");
    return text && strcmp(text, "cuda") == 0;
}

static void *of_machine(const char *name) {
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    char path[4096];
    snprintf(path, sizeof path, "%s/libmuster-sim.so", folder ? folder : "");
    void *library = folder ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    return library ? dlsym(library, name) : NULL; /* NULL: a real one, or none yet */
}

/* The runtimes of a test may close at the same time, each with a thread of its own. */
static pthread_mutex_t checking = PTHREAD_MUTEX_INITIALIZER;

void machine_check(bool all_closed) {
    void *found[3] = {of_machine("muster_sim_hazards"), of_machine("muster_sim_hazards_clear"), of_machine("muster_sim_check_leaks")};
    const char *(*hazards)(void);
    void (*clear)(void);
    int (*leaks)(void);
    if (!found[0] || !found[1] || !found[2]) return;
    memcpy(&hazards, &found[0], sizeof hazards);
    memcpy(&clear, &found[1], sizeof clear);
    memcpy(&leaks, &found[2], sizeof leaks);
    char text[4096];
    pthread_mutex_lock(&checking);
    if (all_closed) leaks();
    snprintf(text, sizeof text, "%s", hazards());
    clear();
    pthread_mutex_unlock(&checking);
    if (*text) fail_msg("the machine reports:\n%s", text);
}

int64_t machine_calls(const char *symbol) {
    void *found = of_machine("muster_sim_calls");
    uint64_t (*calls)(const char *);
    if (!found) return -1;
    memcpy(&calls, &found, sizeof calls);
    return (int64_t)calls(symbol);
}

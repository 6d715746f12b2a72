#include "runtime_gpus.h"

#include "muster/nodes.h"
#include "runtime_processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 2048, GPUS = 8 };

/* The linker's option --wrap leads what the test calls here. */
muster_status __real_muster_runtime_open(const muster_runtime_options *options, muster_runtime **runtime);
muster_status __wrap_muster_runtime_open(const muster_runtime_options *options, muster_runtime **runtime);
muster_status __real_muster_runtime_close(muster_runtime *runtime);
muster_status __wrap_muster_runtime_close(muster_runtime *runtime);

static _Atomic int open_runtimes;
static _Atomic pid_t process; /* that opens them: a child has what its parent has left open */

/* Of "name:count", else -1. */
static int count_in(const char *entry, const char *name) {
    size_t length = strlen(name);
    char *end;
    if (strncmp(entry, name, length) != 0 || entry[length] != ':') return -1;
    long count = strtol(entry + length + 1, &end, 10);
    return end != entry + length + 1 && (!*end || *end == ',') && count >= 1 && count <= 64 ? (int)count : -1;
}

static void put_gpus(char *text, int count, bool one) {
    char *end = text + strlen(text);
    if (!one && count <= GPUS) {
        sprintf(end, "cuda:%d", count);
        return;
    }
    end += sprintf(end, "cuda@");
    for (int i = 0; i < count; i++) end += sprintf(end, "%s%d", i ? "+" : "", one ? 0 : i % GPUS);
}

/* False: the text is none that a test names usually, and stays. */
static bool translate(const char *devices, char *text) {
    const bool mixed = strstr(devices, "host:") && strstr(devices, "discrete:");
    *text = '\0';
    for (const char *entry = devices; entry; entry = strchr(entry, ',')) {
        entry += *entry == ',';
        const int host = count_in(entry, "host"), discrete = count_in(entry, "discrete");
        if (host < 0 && discrete < 0) return false;
        if (entry != devices) strcat(text, ",");
        if (host > 0 && mixed)
            sprintf(text + strlen(text), "host:%d", host);
        else
            put_gpus(text, host > 0 ? host : discrete, host < 0 && !mixed);
    }
    return true;
}

static muster_status open_own(const muster_runtime_options *options, muster_runtime **runtime) {
    char text[TEXT];
    muster_runtime_options other;
    if (!on_gpus() || !options || options->struct_size != sizeof other || !options->devices || strlen(options->devices) >= 64 ||
        !translate(options->devices, text))
        return __real_muster_runtime_open(options, runtime);
    other = *options;
    other.devices = text;
    return __real_muster_runtime_open(&other, runtime);
}

muster_status __wrap_muster_runtime_open(const muster_runtime_options *options, muster_runtime **runtime) {
    char text[PROCESSES_TEXT];
    muster_runtime_options own;
    const bool of_launch = processes_options(options, &own, text);
    const muster_status status = open_own(of_launch ? &own : options, runtime);
    if (status == MUSTER_OK) {
        open_runtimes++;
        processes_opened(*runtime);
        processes_count_open(muster_runtime_processes(*runtime) > 1);
    }
    process = getpid();
    return status;
}

muster_status __wrap_muster_runtime_close(muster_runtime *runtime) {
    processes_closed(runtime);
    muster_status status = __real_muster_runtime_close(runtime);
    if (status != MUSTER_OK || !runtime || process != getpid()) return status;
    open_runtimes--;
    if (on_gpus()) machine_check(open_runtimes == 0);
    return status;
}

#include "bench.h"

#include <sched.h>
#include <string.h>
#include <sys/utsname.h>

enum { MOST_CPUS = 1024 };
static cpu_set_t started_with;
static int32_t cpus[MOST_CPUS];
static int32_t cpu_count, core_count;
static char description[512];

static int32_t read_number(const char *format, int32_t cpu) {
    char path[128];
    snprintf(path, sizeof path, format, cpu);
    FILE *file = fopen(path, "r");
    int32_t number = -1;
    if (file) {
        if (fscanf(file, "%d", &number) != 1) number = -1;
        fclose(file);
    }
    return number;
}

static void find_cpus(void) {
    static int32_t later[MOST_CPUS]; /* the second threads of cores */
    int32_t later_count = 0;
    for (int32_t cpu = 0; cpu < MOST_CPUS && cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &started_with)) continue;
        int32_t first = read_number("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        bool second = first >= 0 && first != cpu && CPU_ISSET(first, &started_with);
        if (second)
            later[later_count++] = cpu;
        else
            cpus[cpu_count++] = cpu;
    }
    core_count = cpu_count;
    for (int32_t i = 0; i < later_count; i++) cpus[cpu_count++] = later[i];
}

void bench_machine_init(void) {
    CPU_ZERO(&started_with);
    sched_getaffinity(0, sizeof started_with, &started_with);
    find_cpus();
    char model[128] = "processor", line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %127[^\n]", model) == 1) break;
    if (file) fclose(file);
    struct utsname name;
    uname(&name);
    snprintf(description, sizeof description, "%s, %d cores (%d CPUs) allowed, %s %s, gcc %s", model, core_count, cpu_count, name.sysname,
             name.release, __VERSION__);
}

int32_t bench_cpu(int32_t i) { return i < cpu_count ? cpus[i] : -1; }
int32_t bench_cores(void) { return core_count; }
const char *bench_machine(void) { return description; }

void bench_pin(int32_t cpu) {
    if (cpu < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

void bench_unpin(void) { sched_setaffinity(0, sizeof started_with, &started_with); }

#include "scheduler_trace_check.h"

#include <dirent.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char program[] =
    "import json, sys\n"
    "trace = json.load(open(sys.argv[1], encoding='utf-8'))\n"
    "events = [e for e in trace['traceEvents'] if e['ph'] != 'M']\n"
    "of = lambda rank: [e for e in events if e['tid'] == rank]\n"
    "meta = lambda rank, name: [e['args'] for e in trace['traceEvents'] if e['ph'] == 'M' and e['name'] == name and e.get('tid') == rank]\n"
    "sys.exit(0 if eval(sys.argv[2]) else 1)\n";

bool mst_trace_holds(const char *path, const char *expression) {
    /* Nothing of the environment or of the machine's Python packages: they are not what is tested,
     * and finding them takes longest. */
    char *arguments[] = {"python3", "-IS", "-c", (char *)program, (char *)path, (char *)expression, NULL};
    char *environment[] = {"PATH=/usr/bin:/usr/local/bin:/bin", NULL};
    pid_t child;
    int result;
    if (posix_spawnp(&child, "python3", NULL, NULL, arguments, environment) != 0) return false;
    return waitpid(child, &result, 0) == child && WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

void mst_trace_folder(char *folder, size_t size) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, size, "%s/muster-trace-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) abort();
}

int mst_trace_folder_entries(const char *folder) {
    DIR *entries = opendir(folder);
    int count = 0;
    if (!entries) return -1;
    for (struct dirent *entry; (entry = readdir(entries));) count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(entries);
    return count;
}

void mst_trace_folder_remove(const char *folder) {
    DIR *entries = opendir(folder);
    if (!entries) return;
    for (struct dirent *entry; (entry = readdir(entries));) unlinkat(dirfd(entries), entry->d_name, 0);
    closedir(entries);
    rmdir(folder);
}

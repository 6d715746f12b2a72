#include "runtime_processes.h"

#include "base_check.h"
#include "runtime_impl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 8 };

typedef struct entry {
    char name[16];
    int32_t count;
} entry;

/* "host:2,discrete:1"; 0: it is another text. */
static int32_t read_entries(const char *devices, entry entries[ENTRIES]) {
    int32_t count = 0;
    for (const char *at = devices; count < ENTRIES; count++) {
        int used = 0;
        if (sscanf(at, "%15[a-z]:%d%n", entries[count].name, &entries[count].count, &used) != 2 || entries[count].count < 1) return 0;
        at += used;
        if (!*at) return count + 1;
        if (*at++ != ',') return 0;
    }
    return 0;
}

bool processes_options(const muster_runtime_options *asked, muster_runtime_options *own, char text[PROCESSES_TEXT]) {
    entry entries[ENTRIES];
    int32_t total = 0, first, count, at = 0;
    if (processes_count() == 1) return false;
    if (!asked || asked->struct_size != sizeof *own || asked->nodes || !asked->devices || strlen(asked->devices) > 64) return false;
    const int32_t kinds = read_entries(asked->devices, entries);
    for (int32_t e = 0; e < kinds; e++) total += entries[e].count;
    *own = *asked;
    own->nodes = "none";
    if (kinds > 1 && asked->logical_shards > 0) return true; /* the processes would have other backends */
    if (!kinds || !processes_share(total, &first, &count)) return true;
    own->devices = text;
    own->nodes = "mpi";
    *text = 0;
    for (int32_t e = 0; e < kinds; at += entries[e++].count) {
        const int32_t begin = first > at ? first : at, end = first + count < at + entries[e].count ? first + count : at + entries[e].count;
        const size_t length = strlen(text);
        if (begin < end)
            snprintf(text + length, PROCESSES_TEXT - length, "%s%s:%d", length ? "," : "", entries[e].name, (int)(end - begin));
    }
    return true;
}

static _Atomic(const muster_runtime *) opened; /* last, and not closed; several threads may open some */

void processes_opened(const muster_runtime *runtime) { opened = runtime; }
void processes_closed(const muster_runtime *runtime) {
    const muster_runtime *its = runtime;
    atomic_compare_exchange_strong(&opened, &its, NULL);
}

void processes_merge(void *memory, int64_t bytes) {
    const muster_runtime *runtime = opened;
    mst_nodes *nodes = runtime ? runtime->nodes : NULL;
    int64_t each[64];
    if (!nodes) return;
    unsigned char *all = malloc((size_t)(nodes->processes * bytes));
    assert_non_null(all);
    for (int32_t p = 0; p < nodes->processes; p++) each[p] = bytes;
    memcpy(all + nodes->process * bytes, memory, (size_t)bytes);
    processes_gather(nodes, all, each);
    for (int32_t p = 0; p < nodes->processes; p++)
        for (int64_t i = 0; i < bytes; i++) ((unsigned char *)memory)[i] |= all[p * bytes + i];
    free(all);
}

int32_t processes_own_ranks(void) {
    const muster_runtime *runtime = opened;
    return runtime ? runtime->size : 0;
}

int64_t processes_sum(int64_t own) {
    const muster_runtime *runtime = opened;
    mst_nodes *nodes = runtime ? runtime->nodes : NULL;
    int64_t all[64], each[64], sum = 0;
    if (!nodes) return own;
    for (int32_t p = 0; p < nodes->processes; p++) each[p] = sizeof *all;
    all[nodes->process] = own;
    processes_gather(nodes, all, each);
    for (int32_t p = 0; p < nodes->processes; p++) sum += all[p];
    return sum;
}

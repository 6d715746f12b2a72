/* Which collectives go by the MPI's own: the rows that fit this launch. Nothing is timed when a
 * program runs, or bits would change between runs. */
#include "ways_private.h"

#include "hash_impl.h"
#include "memory_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS_FILE_BYTES = 256 * 1024 };

static const mst_way own_rows[] = {
#define MST_NODES_WAY(way, mpi, hosts, collective, from, to, processes_from, processes_to) \
    {MST_WAY_##way, MST_WAY_##hosts, WAY_##collective, mpi, from, to, processes_from, processes_to},
#define WAY_all_reduce MST_MOVE_ALL_REDUCE
#define WAY_reduce_scatter MST_MOVE_REDUCE_SCATTER
#define WAY_broadcast MST_MOVE_BROADCAST
#define WAY_all_gather MST_MOVE_ALL_GATHER
#include "ways.def"
#undef MST_NODES_WAY
    {.collective = MST_MOVE_KINDS}};
enum { OWN_ROWS = sizeof own_rows / sizeof *own_rows - 1 }; /* without the last one, which fits nothing */

/* ---- opening ---- */

static muster_status ways_refuse(const char *path, const char *problem) {
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_runtime_open: the environment's MUSTER_NODES_TABLE: expected a table of ways between processes, received "
                     "'%.200s': %s",
                     path, problem);
}

/* text[0, *bytes) and a 0 behind it. */
static muster_status ways_load(const char *path, char *text, size_t *bytes) {
    FILE *file = fopen(path, "re");
    if (!file) return ways_refuse(path, strerror(errno));
    *bytes = fread(text, 1, WAYS_FILE_BYTES, file);
    const int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed) return ways_refuse(path, strerror(failed));
    text[*bytes < WAYS_FILE_BYTES ? *bytes : WAYS_FILE_BYTES - 1] = 0;
    return *bytes < WAYS_FILE_BYTES && strlen(text) == *bytes ? MUSTER_OK : ways_refuse(path, "expected a text of less than 256 KiB");
}

static muster_status ways_read_file(mst_nodes_ways *ways, const char *path) {
    size_t bytes = 0;
    char *text = mst_alloc(WAYS_FILE_BYTES);
    if (!text) return mst_out_of_memory("the table of ways between processes", WAYS_FILE_BYTES);
    muster_status status = ways_load(path, text, &bytes);
    if (status == MUSTER_OK) {
        ways->has_file = true;
        ways->hash = mst_hash_bytes(MST_HASH_START, text, (int64_t)bytes);
        snprintf(ways->path, sizeof ways->path, "%s", path);
        status = mst_ways_read(ways, path, text);
    }
    mst_free(text);
    return status;
}

/* A message shows a word of the file, so a program with raised privileges reads none. */
muster_status mst_ways_open(mst_nodes_ways **opened) {
    const char *path = secure_getenv("MUSTER_NODES_TABLE");
    mst_nodes_ways *ways = mst_alloc(sizeof *ways);
    if (!ways) return mst_out_of_memory("the table of ways between processes", sizeof *ways);
    const muster_status status = path && *path ? ways_read_file(ways, path) : MUSTER_OK;
    if (status != MUSTER_OK) return mst_free(ways), status;
    ways->of_file = ways->count;
    memcpy(ways->rows + ways->count, own_rows, OWN_ROWS * sizeof *own_rows);
    ways->count += OWN_ROWS;
    *opened = ways;
    return MUSTER_OK;
}

/* ---- what fits ---- */

static bool is_of_mpi(const mst_way *row, const char *name) {
    const size_t length = strlen(row->mpi);
    if (strcmp(row->mpi, "any") == 0) return true;
    return strncmp(row->mpi, name, length) == 0 && (!name[length] || strchr(" .", name[length]));
}

static bool fits_launch(const mst_way *row, const mst_nodes *nodes) {
    const mst_way_hosts hosts = mst_nodes_one_host(nodes) ? MST_WAY_one_host : MST_WAY_several_hosts;
    return is_of_mpi(row, nodes->wire->table->name) && (row->hosts == hosts || row->hosts == MST_WAY_any_hosts) &&
           nodes->processes >= row->least_processes && nodes->processes <= row->most_processes;
}

void mst_ways_fit(const mst_nodes *nodes) {
    mst_nodes_ways *ways = nodes->ways;
    int32_t kept = 0, of_file = 0;
    for (int32_t i = 0; i < ways->count; i++) {
        if (!fits_launch(&ways->rows[i], nodes)) continue;
        of_file += i < ways->of_file;
        ways->rows[kept++] = ways->rows[i];
    }
    ways->count = kept;
    ways->of_file = of_file;
    ways->fitted = true;
}

static bool fits_bytes(const mst_way *row, mst_move_kind collective, int64_t bytes) {
    return row->collective == collective && bytes >= row->least_bytes && (row->most_bytes == 0 || bytes <= row->most_bytes);
}

bool mst_ways_by_mpi(const mst_nodes *nodes, mst_move_kind collective, int64_t bytes) {
    const mst_nodes_ways *ways = nodes->ways;
    if (!ways || !ways->fitted) return false;
    for (int32_t i = 0; i < ways->count; i++)
        if (fits_bytes(&ways->rows[i], collective, bytes)) return ways->rows[i].way == MST_WAY_mpi;
    return false;
}

bool mst_ways_has_all_reduce(const mst_nodes *nodes) {
    const mst_nodes_ways *ways = nodes->ways;
    for (int32_t i = 0; ways && ways->fitted && i < ways->count; i++)
        if (ways->rows[i].way == MST_WAY_mpi && ways->rows[i].collective == MST_MOVE_ALL_REDUCE) return true;
    return false;
}

static bool wire_has(const muster_wire_table *table, mst_move_kind collective) {
    switch (collective) {
    case MST_MOVE_ALL_REDUCE:
        return table->all_reduce;
    case MST_MOVE_REDUCE_SCATTER:
        return table->reduce_scatter;
    case MST_MOVE_BROADCAST:
        return table->broadcast;
    default:
        return table->all_gather;
    }
}

muster_status mst_ways_check(const mst_nodes *nodes, const char *where) {
    const mst_nodes_ways *ways = nodes->ways;
    for (int32_t i = 0; ways && i < ways->of_file; i++) {
        const mst_way *row = &ways->rows[i];
        if (row->way != MST_WAY_mpi || wire_has(nodes->wire->table, row->collective)) continue;
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: MUSTER_NODES_TABLE: expected a collective that the MPI has, received %s: \"%.60s\" has none", where,
                         mst_move_kind_name(row->collective), nodes->wire->table->name);
    }
    return MUSTER_OK;
}

/* ---- words ---- */

const char *mst_nodes_ways_text(const mst_nodes *nodes, char text[MST_WAYS_TEXT]) {
    const mst_nodes_ways *ways = nodes->ways;
    if (ways && ways->has_file)
        snprintf(text, MST_WAYS_TEXT, "a file with hash %016llx", (unsigned long long)ways->hash);
    else
        snprintf(text, MST_WAYS_TEXT, "no file");
    return text;
}

static size_t describe_row(const mst_way *row, char *text, size_t size) {
    char most[40] = "";
    if (row->most_bytes) snprintf(most, sizeof most, " to %lld", (long long)row->most_bytes);
    return (size_t)snprintf(text, size, "%s of %s%lld%s bytes %s", mst_move_kind_name(row->collective), row->most_bytes ? "" : "at least ",
                            (long long)row->least_bytes, most, row->way == MST_WAY_mpi ? "by it" : "by Muster");
}

size_t mst_nodes_ways_describe(const mst_nodes *nodes, char *text, size_t size) {
    enum { ROW = 120, END = 200, WORDS = 1200 };
    const mst_nodes_ways *ways = nodes->ways;
    if (!ways || size < WORDS) return 0;
    size_t at = (size_t)snprintf(text, size, "collectives of the MPI itself: ");
    int32_t i = 0;
    for (; i < ways->count && at + ROW + END + sizeof ways->path < WORDS; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s", i ? ", " : "");
        at += describe_row(&ways->rows[i], text + at, size - at);
    }
    if (i == 0) at += (size_t)snprintf(text + at, size - at, "none");
    if (i < ways->count) at += (size_t)snprintf(text + at, size - at, ", and %d more rows", (int)(ways->count - i));
    if (ways->has_file)
        at += (size_t)snprintf(text + at, size - at, " (%d of the file %s)", (int)ways->of_file, ways->path);
    else
        at += (size_t)snprintf(text + at, size - at, " (the library's table)");
    if (ways->differ)
        at += (size_t)snprintf(text + at, size - at, "; but all_reduces of floats by Muster, since it gives processes different bits");
    at += (size_t)snprintf(text + at, size - at, "\n");
    return at;
}

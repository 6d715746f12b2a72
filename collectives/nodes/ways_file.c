/* Reads the rows of a table of ways: lines as in ways.def, comments, and nothing else. */
#include "ways_private.h"

#include "status_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a line is read. expected: what should stand at `at`; NULL: nothing is wrong yet. */
typedef struct reader {
    const char *line, *at, *expected;
} reader;

static void skip_spaces(reader *r) { r->at += strspn(r->at, " \t\r"); }

/* Is there nothing left but a comment? One that begins in the line ends there. */
static bool is_at_end(reader *r) {
    skip_spaces(r);
    return !*r->at || strncmp(r->at, "/*", 2) == 0;
}

static bool fail(reader *r, const char *expected) {
    if (!r->expected) r->expected = expected;
    return false;
}

static bool take_text(reader *r, const char *mark, const char *expected) {
    const size_t length = strlen(mark);
    if (r->expected) return false;
    skip_spaces(r);
    if (strncmp(r->at, mark, length) != 0) return fail(r, expected);
    r->at += length;
    return true;
}

static bool take_comma(reader *r) { return take_text(r, ",", "a comma"); }

/* names[0, *value) and the one that is taken. */
static bool take_name(reader *r, const char *const *names, int32_t count, const char *expected, int32_t *value) {
    if (r->expected) return false;
    skip_spaces(r);
    const size_t length = strspn(r->at, "abcdefghijklmnopqrstuvwxyz_");
    for (int32_t i = 0; i < count; i++) {
        if (!names[i] || strlen(names[i]) != length || strncmp(names[i], r->at, length) != 0) continue;
        *value = i;
        r->at += length;
        return true;
    }
    return fail(r, expected);
}

static bool take_number(reader *r, int64_t least, int64_t most, const char *expected, int64_t *value) {
    char *end;
    if (r->expected) return false;
    skip_spaces(r);
    if (*r->at < '0' || *r->at > '9') return fail(r, expected);
    errno = 0;
    *value = strtoll(r->at, &end, 10);
    if (errno || *value < least || *value > most) return fail(r, expected);
    r->at = end;
    return true;
}

static bool take_mpi(reader *r, char mpi[MST_WAY_MPI]) {
    static const char expected[] = "the name of an MPI in quotation marks, or \"any\"";
    if (!take_text(r, "\"", expected)) return false;
    const size_t length = strcspn(r->at, "\"");
    if (length == 0 || length >= MST_WAY_MPI || !r->at[length]) return fail(r, expected);
    memcpy(mpi, r->at, length);
    mpi[length] = 0;
    r->at += length + 1;
    return true;
}

static bool take_row(reader *r, mst_way *row) {
    static const char *const ways[] = {[MST_WAY_own] = "own", [MST_WAY_mpi] = "mpi"};
    static const char *const hosts[] = {
        [MST_WAY_one_host] = "one_host", [MST_WAY_several_hosts] = "several_hosts", [MST_WAY_any_hosts] = "any_hosts"};
    static const char *const collectives[MST_MOVE_KINDS] = {[MST_MOVE_ALL_REDUCE] = "all_reduce",
                                                            [MST_MOVE_REDUCE_SCATTER] = "reduce_scatter",
                                                            [MST_MOVE_BROADCAST] = "broadcast",
                                                            [MST_MOVE_ALL_GATHER] = "all_gather"};
    static const char bytes[] = "a number of bytes";
    static const char processes[] = "a number of processes, at least 1 and that before it";
    int32_t way = 0, host = 0, collective = 0;
    memset(row, 0, sizeof *row);
    const bool taken = take_text(r, "MST_NODES_WAY", "a row MST_NODES_WAY(...)") && take_text(r, "(", "(") &&
                       take_name(r, ways, 2, "mpi or own", &way) && take_comma(r) && take_mpi(r, row->mpi) && take_comma(r) &&
                       take_name(r, hosts, 3, "one_host, several_hosts or any_hosts", &host) && take_comma(r) &&
                       take_name(r, collectives, MST_MOVE_KINDS, "all_reduce, reduce_scatter, broadcast or all_gather", &collective) &&
                       take_comma(r) && take_number(r, 0, INT64_MAX, bytes, &row->least_bytes) && take_comma(r) &&
                       take_number(r, 0, INT64_MAX, bytes, &row->most_bytes) && take_comma(r) &&
                       take_number(r, 1, INT32_MAX, processes, &row->least_processes) && take_comma(r) &&
                       take_number(r, row->least_processes, INT32_MAX, processes, &row->most_processes) && take_text(r, ")", ")");
    row->way = (mst_way_kind)way;
    row->hosts = (mst_way_hosts)host;
    row->collective = (mst_move_kind)collective;
    if (!taken) return false;
    return is_at_end(r) ? true : fail(r, "nothing behind the row");
}

static muster_status read_refuse(const char *path, int32_t number, const reader *r) {
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_runtime_open: the environment's MUSTER_NODES_TABLE: expected a table of ways between processes, received "
                     "'%.200s': line %d, column %d: expected %s, received \"%.60s\"",
                     path, (int)number, (int)(r->at - r->line) + 1, r->expected, r->at);
}

muster_status mst_ways_read(mst_nodes_ways *ways, const char *path, char *text) {
    /* Comments of several lines go on with " * ", as in ways.def. */
    for (int32_t number = 1; *text; number++) {
        char *end = text + strcspn(text, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        reader r = {.line = text, .at = text};
        mst_way row;
        const bool blank = is_at_end(&r) || strncmp(r.at, "* ", 2) == 0;
        if (!blank && ways->count >= MST_WAYS_MOST / 2)
            fail(&r, "no more than 128 rows");
        else if (!blank && take_row(&r, &row))
            ways->rows[ways->count++] = row;
        if (r.expected) return read_refuse(path, number, &r);
        text = next;
    }
    return MUSTER_OK;
}

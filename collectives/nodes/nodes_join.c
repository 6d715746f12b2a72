/* Joining: what must be equal in all processes is compared, and each learns the ranks and the names
 * of the devices of all. */
#include "nodes_data_private.h"
#include "rounds_private.h"
#include "ways_private.h"

#include "hash_impl.h"
#include "memory_impl.h"

#include <stdio.h>
#include <string.h>

static const char where[] = "muster_runtime_open";

/* What a process says first. */
typedef struct join_sizes {
    int32_t ranks, agreement_bytes, names_bytes;
    int32_t wire_bytes; /* of its slabs */
} join_sizes;

typedef struct join {
    mst_nodes *nodes;
    mst_nodes_wait wait;
    join_sizes *sizes; /* [processes] */
    const char *agreement, *names;
} join;

static uint64_t hash_of(const char *text) { return mst_hash_bytes(MST_HASH_START, text, (int64_t)strlen(text)); }

/* One arrival; all fail where one does. */
static muster_status arrive(join *j, muster_status status, const void *payload, int32_t bytes, uint64_t signature) {
    mst_nodes *nodes = j->nodes;
    const mst_arrival_header *header = &nodes->rounds->arrival.header;
    char name[MST_PROCESS_TEXT];
    mst_arrival_input input = {.kind = MST_ROUND_JOIN,
                               .status = status,
                               .rank = nodes->process,
                               .payload = payload,
                               .payload_bytes = bytes,
                               .signature = signature};
    const muster_status arrived = mst_rounds_arrive(nodes, &input, &j->wait);
    if (arrived == MUSTER_TIMEOUT || arrived == MUSTER_SYSTEM) return mst_rounds_give_up(nodes, arrived);
    MUSTER_TRY(arrived);
    if (!mst_arrival_matches(&nodes->rounds->arrival)) {
        nodes->rounds->closed = header->kind.most_at;
        return mst_error(MUSTER_BAD_STATE, "%s: %s closes its runtime before it is open", where,
                         mst_nodes_process_text(nodes, header->kind.most_at, name));
    }
    return header->status == MUSTER_OK ? MUSTER_OK : mst_rounds_failed(nodes, where, &j->wait, status);
}

/* ---- the agreement ---- */

/* Brings the agreements of two processes to all, half an arrival each at a time. */
static muster_status fetch_agreements(join *j, const int32_t at[2], char *sentences[2], int32_t bytes) {
    enum { HALF = MST_ROUND_BYTES / 2 };
    mst_nodes *nodes = j->nodes;
    const int32_t own_bytes = (int32_t)strlen(j->agreement);
    char halves[2][HALF];
    for (int32_t done = 0; done < bytes; done += HALF) {
        memset(halves, 0, sizeof halves);
        uint32_t carried = 0;
        for (int32_t i = 0; i < 2; i++) {
            if (at[i] != nodes->process) continue;
            carried |= 1u << i;
            if (done < own_bytes) memcpy(halves[i], j->agreement + done, (size_t)(own_bytes - done < HALF ? own_bytes - done : HALF));
        }
        mst_arrival_input input = {
            .kind = MST_ROUND_SENTENCES, .payload = halves, .payload_bytes = sizeof halves, .carry = true, .carried = carried};
        MUSTER_TRY(mst_rounds_arrive(nodes, &input, &j->wait));
        for (int32_t i = 0; i < 2 && sentences[0]; i++)
            memcpy(sentences[i] + done, nodes->rounds->arrival.all + i * HALF, (size_t)(bytes - done < HALF ? bytes - done : HALF));
    }
    return MUSTER_OK;
}

/* The value of `name` in lines of "name=value"; *length 0 and "" if there is none. */
static const char *value_of(const char *lines, const char *name, int name_length, int *length) {
    for (const char *line = lines; *line;) {
        const char *end = line + strcspn(line, "\n");
        if (strncmp(line, name, (size_t)name_length) == 0 && line[name_length] == '=') {
            *length = (int)(end - line) - name_length - 1;
            return line + name_length + 1;
        }
        line = *end ? end + 1 : end;
    }
    *length = 0;
    return "";
}

/* The first line of `lines` whose value is another one in `others`. low: of which process the lines
 * are. */
static bool name_difference(const mst_nodes *nodes, const int32_t at[2], char *const sentences[2], int32_t from) {
    char names[2][MST_PROCESS_TEXT];
    for (const char *line = sentences[from]; *line;) {
        const char *end = line + strcspn(line, "\n");
        const int name = (int)strcspn(line, "=\n");
        int lengths[2];
        const char *values[2] = {value_of(sentences[0], line, name, &lengths[0]), value_of(sentences[1], line, name, &lengths[1])};
        if (lengths[0] != lengths[1] || memcmp(values[0], values[1], (size_t)lengths[0]) != 0) {
            mst_error(MUSTER_INVALID_ARGUMENT, "%s: %.*s: expected the same in all processes, received '%.*s' in %s and '%.*s' in %s",
                      where, name < 60 ? name : 60, line, lengths[0] < 80 ? lengths[0] : 80, values[0],
                      mst_nodes_process_text(nodes, at[0], names[0]), lengths[1] < 80 ? lengths[1] : 80, values[1],
                      mst_nodes_process_text(nodes, at[1], names[1]));
            return true;
        }
        line = *end ? end + 1 : end;
    }
    return false;
}

static muster_status refuse_agreement(join *j, int32_t one, int32_t other) {
    const int32_t at[2] = {one < other ? one : other, one < other ? other : one};
    const int32_t lengths[2] = {j->sizes[at[0]].agreement_bytes, j->sizes[at[1]].agreement_bytes};
    const int32_t bytes = (lengths[0] > lengths[1] ? lengths[0] : lengths[1]) + 1;
    char *block = mst_alloc(2 * (size_t)bytes), *sentences[2] = {block, block ? block + bytes : NULL};
    const muster_status status = fetch_agreements(j, at, sentences, bytes);
    if (status == MUSTER_OK) {
        char names[2][MST_PROCESS_TEXT];
        if (!block || !(name_difference(j->nodes, at, sentences, 0) || name_difference(j->nodes, at, sentences, 1)))
            mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s and %s differ in what must be the same in all processes", where,
                      mst_nodes_process_text(j->nodes, at[0], names[0]), mst_nodes_process_text(j->nodes, at[1], names[1]));
    }
    mst_free(block);
    return status == MUSTER_OK ? MUSTER_INVALID_ARGUMENT : status;
}

/* ---- ranks and names ---- */

static muster_status count_ranks(join *j, int64_t *names_bytes, int32_t *most_names) {
    mst_nodes *nodes = j->nodes;
    *names_bytes = 1;
    *most_names = 0;
    for (int32_t p = 0; p < nodes->processes; p++) {
        if (__builtin_add_overflow(nodes->first[p], j->sizes[p].ranks, &nodes->first[p + 1]))
            return mst_error(MUSTER_OVERFLOW, "%s: the processes have more than 2^31 - 1 devices", where);
        *names_bytes += j->sizes[p].names_bytes;
        if (j->sizes[p].names_bytes > *most_names) *most_names = j->sizes[p].names_bytes;
    }
    return MUSTER_OK;
}

/* `status`: whether this process has the memory; the first arrival says so to all. */
static muster_status gather_names(join *j, muster_status status, int32_t most, char *all) {
    mst_nodes *nodes = j->nodes;
    const int32_t part = most < MST_ROUND_BYTES ? most : MST_ROUND_BYTES, mine = (int32_t)strlen(j->names);
    char chunk[MST_ROUND_BYTES];
    for (int32_t done = 0; done == 0 || done < most; done += part) {
        memset(chunk, 0, sizeof chunk);
        if (done < mine) memcpy(chunk, j->names + done, (size_t)(mine - done < part ? mine - done : part));
        MUSTER_TRY(arrive(j, status, chunk, part, 0));
        int64_t at = 0;
        for (int32_t p = 0; p < nodes->processes; at += j->sizes[p++].names_bytes) {
            const int32_t left = j->sizes[p].names_bytes - done;
            if (left > 0) memcpy(all + at + done, nodes->rounds->arrival.all + (int64_t)p * part, (size_t)(left < part ? left : part));
        }
        if (most == 0) break;
    }
    return MUSTER_OK;
}

/* The standard does not demand that an all_reduce of MPI gives all processes the same bits, and we
 * do. An MPI chooses its algorithm by the size, and an algorithm gives the same bits everywhere, or
 * does not, whenever it runs: so a few sizes show it. Of a reduce_scatter each process has results
 * that no other has. */
static muster_status try_sums(join *j) {
    mst_nodes *nodes = j->nodes;
    uint64_t hash = MST_HASH_START;
    if (!mst_ways_has_all_reduce(nodes)) return MUSTER_OK;
    MUSTER_TRY(mst_nodes_try_sums(nodes, where, &hash));
    MUSTER_TRY(arrive(j, MUSTER_OK, NULL, 0, hash));
    const mst_arrival_header *header = &nodes->rounds->arrival.header;
    nodes->ways->differ = header->least != header->most;
    if (nodes->ways->differ && nodes->rounds->log)
        nodes->rounds->log(nodes->rounds->log_user, MUSTER_LOG_WARNING,
                           "MPI's own sums of floats have different bits in different processes: Muster's take their place");
    return MUSTER_OK;
}

static muster_status run(join *j, muster_status status, int32_t ranks, char **all_names) {
    mst_nodes *nodes = j->nodes;
    join_sizes mine = {ranks, (int32_t)strlen(j->agreement), (int32_t)strlen(j->names), 0};
    const int32_t processes = nodes->processes;
    if (status == MUSTER_OK) {
        j->sizes = mst_alloc((size_t)processes * sizeof *j->sizes);
        nodes->first = mst_alloc((size_t)(processes + 1) * sizeof *nodes->first);
        if (!j->sizes || !nodes->first) status = mst_out_of_memory("the ranks of the processes", processes * (int64_t)sizeof *j->sizes);
    }
    if (status == MUSTER_OK) status = mst_nodes_data_open(nodes, where);
    if (status == MUSTER_OK) status = mst_ways_check(nodes, where);
    if (status == MUSTER_OK) mine.wire_bytes = (int32_t)nodes->slabs->bytes;
    MUSTER_TRY(arrive(j, status, &mine, sizeof mine, hash_of(j->agreement)));
    const mst_arrival_header header = nodes->rounds->arrival.header;
    memcpy(j->sizes, nodes->rounds->arrival.all, (size_t)processes * sizeof *j->sizes);
    if (header.least != header.most) return refuse_agreement(j, header.least_at, header.most_at);
    for (int32_t p = 0; p < processes; p++) mst_nodes_data_agree(nodes, j->sizes[p].wire_bytes);
    int64_t bytes;
    int32_t most;
    status = count_ranks(j, &bytes, &most);
    char *all = status == MUSTER_OK ? mst_alloc((size_t)bytes) : NULL;
    if (status == MUSTER_OK && !all) status = mst_out_of_memory("the names of the devices", bytes);
    status = gather_names(j, status, most, all);
    if (status == MUSTER_OK) status = try_sums(j);
    if (status == MUSTER_OK)
        *all_names = all;
    else
        mst_free(all);
    return status;
}

muster_status mst_nodes_join(mst_nodes *nodes, muster_status status, int32_t ranks, const char *agreement, const char *names,
                             char **all_names) {
    *all_names = NULL;
    join j = {.nodes = nodes,
              .wait = {.waiter = {.doing = "the opening of the runtime"},
                       .where = where,
                       .warn_after_ns = nodes->warn_after_ns,
                       .fail_after_ns = nodes->fail_after_ns},
              .agreement = agreement,
              .names = names};
    const muster_status joined = run(&j, status, ranks, all_names);
    mst_free(j.sizes);
    if (joined != MUSTER_OK) {
        mst_free(nodes->first);
        nodes->first = NULL;
    }
    return joined;
}

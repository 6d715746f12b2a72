/* Collectives over host memory. Every one of them has a single meeting: all ranks arrive with their addresses, each does its part in the others'
 * memory, and nobody leaves while a peer is still there.
 *
 * Reductions: rank r combines segment r of every rank's input, in rank order, in a small accumulator, and writes the result to segment r of every
 * output that wants it. Only rank r touches segment r of anything, so in place needs no second phase, every element is computed
 * once (equal bit for bit everywhere), and each byte is read once and written once per rank. */
#include "group_impl.h"

#include <stdio.h>
#include <string.h>

typedef enum { ALL_REDUCE = 1, REDUCE, BROADCAST, ALL_GATHER, BARRIER } operation;
static const char *const operation_names[] = {"", "all_reduce", "reduce", "broadcast", "all_gather", "barrier"};

/* What a rank enters with, in the payload of its line; its input is the line's pointer. */
typedef struct entry {
    int64_t count; /* elements; bytes of a broadcast */
    void *output;
    int32_t root;
    uint8_t operation, reduction, dtype, unused;
} entry;
_Static_assert(sizeof(entry) <= MST_PARTY_PAYLOAD, "an entry travels in a line");

typedef struct meeting {
    mst_group *group;
    muster_worker *worker;
    mst_party_line *lines;
    uint64_t tag;
    uint64_t event;
    const char *name;
} meeting;

/* Equal heads with different counts differ always, different heads all but surely. */
static uint64_t signature_of(const entry *own) {
    uint64_t head = (uint64_t)own->operation | (uint64_t)own->reduction << 8 | (uint64_t)own->dtype << 16 | (uint64_t)(uint32_t)own->root << 32;
    head = (head ^ head >> 31) * 0x9e3779b97f4a7c15u;
    return (head ^ head >> 29) * 0xbf58476d1ce4e5b9u ^ (uint64_t)own->count;
}

static const char *entry_text(const mst_party_line *line, char text[96]) {
    entry other;
    memcpy(&other, line->payload, sizeof other);
    const char *name = operation_names[other.operation];
    switch (other.operation) {
    case ALL_REDUCE: snprintf(text, 96, "%s %s of %lld %s", name, mst_reduction_name(other.reduction), (long long)other.count, muster_dtype_name(other.dtype)); break;
    case REDUCE: snprintf(text, 96, "%s %s of %lld %s to rank %d", name, mst_reduction_name(other.reduction), (long long)other.count, muster_dtype_name(other.dtype), other.root); break;
    case BROADCAST: snprintf(text, 96, "%s of %lld bytes from rank %d", name, (long long)other.count, other.root); break;
    case ALL_GATHER: snprintf(text, 96, "%s of %lld %s", name, (long long)other.count, muster_dtype_name(other.dtype)); break;
    default: snprintf(text, 96, "%s", name);
    }
    return text;
}

/* Every rank compares everybody with rank 0, so that all of them give the same answer. */
static muster_status check_signatures(const meeting *m) {
    for (int32_t r = 1; r < m->group->base.size; r++) {
        if (m->lines[r].signature == m->lines[0].signature) continue;
        char first[96], other[96];
        return mst_error(MUSTER_INVALID_ARGUMENT, "collective: expected the same on every rank, rank %d entered %s, rank 0 entered %s", r,
                         entry_text(&m->lines[r], other), entry_text(&m->lines[0], first));
    }
    return MUSTER_OK;
}

/* The end of every meeting that has begun, whatever came of it: the caller's memory is its own again. Keeps the first failure. */
static muster_status depart(const meeting *m, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    if (status != MUSTER_OK) mst_error_save(message);
    muster_status left = mst_party_leave(m->group->party, m->worker, m->tag, m->name);
    mst_record_end(&m->worker->recorder, m->event);
    return status != MUSTER_OK ? mst_error_restore(status, message) : left;
}

static muster_status enter_section(const meeting *m) {
    MUSTER_TRY(mst_party_wait_all(m->group->party, m->worker, m->tag, m->name));
    return mst_party_read_begin(m->group->party, m->worker, m->tag);
}

/* On success this rank is inside its section, and finish() must follow. */
static muster_status meet(meeting *m, mst_communicator *self, muster_worker *worker, const entry *own, const void *input, int64_t bytes) {
    mst_group *group = mst_group_of(self);
    *m = (meeting){.group = group, .worker = worker, .lines = mst_party_lines(group->party), .name = operation_names[own->operation]};
    m->tag = mst_party_tag(worker);
    m->event = mst_record_begin(&worker->recorder, MST_EVENT_COLLECTIVE, m->name, worker->sequence, bytes);
    mst_party_line *line = &m->lines[worker->rank];
    line->signature = signature_of(own);
    line->pointer = input;
    memcpy(line->payload, own, sizeof *own);
    mst_party_arrive(group->party, worker, m->tag);
    muster_status status = enter_section(m);
    if (status != MUSTER_OK) return depart(m, status);
    status = check_signatures(m);
    if (status == MUSTER_OK) return MUSTER_OK;
    mst_party_read_end(group->party, worker, m->tag);
    return depart(m, status);
}

static muster_status finish(const meeting *m) {
    mst_party_read_end(m->group->party, m->worker, m->tag);
    return depart(m, MUSTER_OK);
}

static void *output_of(const meeting *m, int32_t rank) {
    entry other;
    memcpy(&other, m->lines[rank].payload, sizeof other);
    return other.output;
}

/* Whole cache lines, so that no two ranks write to the same one. */
static int64_t segment_edge(int64_t count, int64_t element, int32_t size, int32_t rank) {
    int64_t line = MST_CACHE_LINE / element, lines = count / line + (count % line != 0);
    int64_t edge = (int64_t)((__int128)lines * rank / size) * line;
    return edge < count ? edge : count;
}

static void write_chunk(void *to, muster_dtype dtype, const char *chunk, muster_dtype compute, int64_t count) {
    if (compute == dtype) {
        memcpy(to, chunk, (size_t)(count * muster_dtype_size(dtype)));
    } else {
        mst_convert(dtype, to, compute, chunk, count);
    }
}

/* Elements [begin, end): combined from every input, written to the outputs of ranks [first, last). */
static void reduce_segment(const meeting *m, muster_reduction op, muster_dtype dtype, int64_t begin, int64_t end, int32_t first, int32_t last) {
    int32_t size = m->group->base.size;
    muster_dtype compute = mst_dtype_compute(dtype);
    int64_t element = muster_dtype_size(dtype), step = MST_CHUNK_BYTES / muster_dtype_size(compute);
    char *chunk = m->group->ranks[m->worker->rank].chunk;
    for (int64_t at = begin; at < end; at += step) {
        int64_t count = end - at < step ? end - at : step;
        for (int32_t r = 0; r < size; r++) {
            mst_reduction_accumulate(op, dtype, chunk, (const char *)m->lines[r].pointer + at * element, count, 1.0 / size, r == 0);
        }
        for (int32_t r = first; r < last; r++) write_chunk((char *)output_of(m, r) + at * element, dtype, chunk, compute, count);
    }
}

static muster_status reduce_to(mst_communicator *self, muster_worker *worker, const entry *own, const void *input, int32_t first, int32_t last) {
    int64_t element = muster_dtype_size(own->dtype);
    meeting m;
    MUSTER_TRY(meet(&m, self, worker, own, input, own->count * element));
    int64_t begin = segment_edge(own->count, element, self->size, worker->rank);
    int64_t end = segment_edge(own->count, element, self->size, worker->rank + 1);
    reduce_segment(&m, own->reduction, own->dtype, begin, end, first, last);
    return finish(&m);
}

static muster_status all_reduce(mst_communicator *self, muster_worker *worker, muster_reduction op, muster_dtype dtype, const void *input,
                                void *output, int64_t count) {
    entry own = {.count = count, .output = output, .operation = ALL_REDUCE, .reduction = (uint8_t)op, .dtype = (uint8_t)dtype};
    return reduce_to(self, worker, &own, input, 0, self->size);
}

static muster_status reduce(mst_communicator *self, muster_worker *worker, muster_reduction op, muster_dtype dtype, const void *input,
                            void *output_at_root, int64_t count, int32_t root) {
    entry own = {.count = count, .output = output_at_root, .root = root, .operation = REDUCE, .reduction = (uint8_t)op, .dtype = (uint8_t)dtype};
    return reduce_to(self, worker, &own, input, root, root + 1);
}

static muster_status broadcast(mst_communicator *self, muster_worker *worker, void *data, int64_t bytes, int32_t root) {
    entry own = {.count = bytes, .root = root, .operation = BROADCAST};
    meeting m;
    MUSTER_TRY(meet(&m, self, worker, &own, data, bytes));
    if (worker->rank != root && bytes > 0) memcpy(data, m.lines[root].pointer, (size_t)bytes);
    return finish(&m);
}

static muster_status all_gather(mst_communicator *self, muster_worker *worker, muster_dtype dtype, const void *input, void *output,
                                const int64_t *counts) {
    int64_t element = muster_dtype_size(dtype);
    entry own = {.operation = ALL_GATHER, .dtype = (uint8_t)dtype};
    for (int32_t r = 0; r < self->size; r++) own.count += counts[r];
    meeting m;
    MUSTER_TRY(meet(&m, self, worker, &own, input, own.count * element));
    char *place = output;
    for (int32_t r = 0; r < self->size; r++) {
        int64_t bytes = counts[r] * element;
        if (bytes > 0 && place != (const char *)m.lines[r].pointer) memcpy(place, m.lines[r].pointer, (size_t)bytes);
        place += bytes;
    }
    return finish(&m);
}

static muster_status barrier(mst_communicator *self, muster_worker *worker) {
    entry own = {.operation = BARRIER};
    meeting m;
    MUSTER_TRY(meet(&m, self, worker, &own, NULL, 0));
    return finish(&m);
}

const mst_communicator_table mst_host_table = {"host", all_reduce, reduce, broadcast, all_gather, barrier, NULL};

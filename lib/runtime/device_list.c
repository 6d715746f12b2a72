#include "cuda/cuda_impl.h"
#include "device_list_impl.h"

#include <stdio.h>
#include <string.h>

typedef struct list_reader {
    const char *text, *source;
    const char *at;
    const int32_t *cores;
    int32_t core_count;
    mst_device_request *requests;
    int32_t count;
} list_reader;

static muster_status unreadable(const list_reader *reader, const char *expected) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: %s: expected %s at position %d, received '%.200s'", reader->source,
                     expected, (int)(reader->at - reader->text), reader->text);
}

static muster_status read_backend(list_reader *reader, const mst_device_table **table) {
    size_t length = strcspn(reader->at, ":,@");
    char name[32];
    if (length == 0) return unreadable(reader, "the name of a backend");
    if (length >= sizeof name) return unreadable(reader, "the name of a backend (at most 31 characters)");
    memcpy(name, reader->at, length);
    name[length] = '\0';
    *table = mst_device_find(name);
    if (!*table) {
        return mst_error(MUSTER_UNAVAILABLE, "muster_runtime_open: %s: there is no backend '%s' at position %d of '%.200s'", reader->source,
                         name, (int)(reader->at - reader->text), reader->text);
    }
    reader->at += length;
    return MUSTER_OK;
}

/* Of a backend that is named alone. */
static muster_status count_alone(const list_reader *reader, const mst_device_table *table, int32_t *count) {
    const char *reason;
    *count = 1;
    if (table == &mst_host_device_table) *count = reader->core_count;
    if (table != &mst_cuda_device_table) return MUSTER_OK;
    MUSTER_TRY(mst_cuda_probe(count, &reason));
    if (*count > 0) return MUSTER_OK;
    return mst_error(MUSTER_UNAVAILABLE, "muster_runtime_open: %s: expected GPUs for '%.100s', but there are none: %.300s", reader->source,
                     reader->text, reason);
}

static muster_status read_count(list_reader *reader, const mst_device_table *table, int32_t *count) {
    if (*reader->at != ':') return count_alone(reader, table, count);
    reader->at++;
    int32_t value = 0;
    const char *digit = reader->at;
    while (*digit >= '0' && *digit <= '9' && value <= MST_DEVICES_MAX) value = 10 * value + (*digit++ - '0');
    if (digit == reader->at || value < 1 || value > MST_DEVICES_MAX) return unreadable(reader, "a count from 1 to 1024");
    reader->at = digit;
    *count = value;
    return MUSTER_OK;
}

static int32_t count_of(const list_reader *reader, const mst_device_table *table) {
    int32_t count = 0;
    for (int32_t i = 0; i < reader->count; i++) count += reader->requests[i].table == table;
    return count;
}

static muster_status end_entry(const list_reader *reader) {
    return *reader->at == ',' || *reader->at == '\0' ? MUSTER_OK : unreadable(reader, "a comma or the end");
}

static muster_status add(list_reader *reader, mst_device_request request) {
    if (reader->count == MST_DEVICES_MAX) return unreadable(reader, "at most 1024 devices");
    reader->requests[reader->count++] = request;
    return MUSTER_OK;
}

/* "@0+2": each of them, as often as it is named. */
static muster_status read_ids(list_reader *reader, const mst_device_table *table) {
    if (table == &mst_host_device_table) return unreadable(reader, "a count of host devices, which have no ids");
    do {
        reader->at++;
        const size_t length = strcspn(reader->at, "+,");
        if (length == 0) return unreadable(reader, "an ordinal, a UUID or a PCI id");
        if (length >= MST_DEVICE_ID) return unreadable(reader, "an ordinal, a UUID or a PCI id (at most 63 characters)");
        MUSTER_TRY(add(reader,
                       (mst_device_request){
                           .table = table, .ordinal = count_of(reader, table), .id = reader->at, .id_length = (int32_t)length, .cpu = -1}));
        reader->at += length;
    } while (*reader->at == '+');
    return MUSTER_OK;
}

static muster_status read_entry(list_reader *reader) {
    const mst_device_table *table;
    int32_t count;
    MUSTER_TRY(read_backend(reader, &table));
    if (*reader->at == '@') {
        MUSTER_TRY(read_ids(reader, table));
        return end_entry(reader);
    }
    MUSTER_TRY(read_count(reader, table, &count));
    MUSTER_TRY(end_entry(reader));
    if (count > MST_DEVICES_MAX - reader->count) return unreadable(reader, "at most 1024 devices");
    const int32_t first = count_of(reader, table);
    for (int32_t i = 0; i < count; i++) MUSTER_TRY(add(reader, (mst_device_request){.table = table, .ordinal = first + i, .cpu = -1}));
    return MUSTER_OK;
}

/* Host devices get a core each, or equally many share each core, or none is pinned: otherwise
 * pinning would pile workers on some. */
static void assign_cores(list_reader *reader) {
    int32_t count = count_of(reader, &mst_host_device_table);
    if (count > reader->core_count && count % reader->core_count != 0) return;
    for (int32_t i = 0; i < reader->count; i++) {
        mst_device_request *request = &reader->requests[i];
        if (request->table == &mst_host_device_table) request->cpu = reader->cores[request->ordinal % reader->core_count];
    }
}

muster_status mst_device_list_read(const char *text, const char *source, const int32_t *cores, int32_t core_count,
                                   mst_device_request *requests, int32_t *count) {
    list_reader reader = {text, source, text, cores, core_count, requests, 0};
    MUSTER_TRY(read_entry(&reader));
    while (*reader.at == ',') {
        reader.at++;
        MUSTER_TRY(read_entry(&reader));
    }
    assign_cores(&reader);
    *count = reader.count;
    return MUSTER_OK;
}

const char *mst_device_list_default(const char **reason) {
    static _Thread_local char why[MST_MESSAGE_SIZE];
    char last[MST_MESSAGE_SIZE];
    int32_t count = 0;
    mst_error_save(last);
    if (mst_cuda_probe(&count, reason) != MUSTER_OK) {
        mst_error_save(why);
        *reason = why;
        mst_error_restore(MUSTER_OK, last); /* nobody asked for GPUs: that there are none is no failure */
    }
    return count > 0 ? "cuda" : "host";
}

muster_status mst_device_request_open(const mst_device_request *request, mst_device **device) {
    char argument[MST_DEVICE_ID];
    if (request->id)
        snprintf(argument, sizeof argument, "%.*s", (int)request->id_length, request->id);
    else
        snprintf(argument, sizeof argument, "%d", request->ordinal);
    MUSTER_TRY(request->table->open(request->table, argument, device));
    if (request->table != &mst_host_device_table) return MUSTER_OK;
    (*device)->cpu = request->cpu;
    if (request->cpu >= 0) {
        snprintf((*device)->name, sizeof(*device)->name, "host cpu %d", request->cpu);
    } else {
        snprintf((*device)->name, sizeof(*device)->name, "host %d", request->ordinal);
    }
    return MUSTER_OK;
}

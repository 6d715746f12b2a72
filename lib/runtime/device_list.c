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
    return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: %s: expected %s at position %d, received '%.200s'", reader->source, expected,
                     (int)(reader->at - reader->text), reader->text);
}

static muster_status read_backend(list_reader *reader, const mst_device_table **table) {
    size_t length = strcspn(reader->at, ":,");
    char name[32];
    if (length == 0) return unreadable(reader, "the name of a backend");
    if (length >= sizeof name) return unreadable(reader, "the name of a backend (at most 31 characters)");
    memcpy(name, reader->at, length);
    name[length] = '\0';
    *table = mst_device_find(name);
    if (!*table) {
        return mst_error(MUSTER_UNAVAILABLE, "muster_runtime_open: %s: there is no backend '%s' at position %d of '%.200s'", reader->source, name,
                         (int)(reader->at - reader->text), reader->text);
    }
    reader->at += length;
    return MUSTER_OK;
}

static muster_status read_count(list_reader *reader, const mst_device_table *table, int32_t *count) {
    *count = table == &mst_host_device_table ? reader->core_count : 1;
    if (*reader->at != ':') return MUSTER_OK;
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

static muster_status read_entry(list_reader *reader) {
    const mst_device_table *table;
    int32_t count;
    MUSTER_TRY(read_backend(reader, &table));
    MUSTER_TRY(read_count(reader, table, &count));
    if (*reader->at != ',' && *reader->at != '\0') return unreadable(reader, "a comma or the end");
    if (count > MST_DEVICES_MAX - reader->count) return unreadable(reader, "at most 1024 devices");
    int32_t first = count_of(reader, table);
    for (int32_t i = 0; i < count; i++) reader->requests[reader->count++] = (mst_device_request){table, first + i, -1};
    return MUSTER_OK;
}

/* Host devices get a core each, or equally many share each core, or none is pinned: otherwise pinning would pile workers on some. */
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
    if (!text) text = "host";
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

muster_status mst_device_request_open(const mst_device_request *request, mst_device **device) {
    char argument[16];
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

#include "device_list_private.h"

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

static muster_status refuse_backend(const list_reader *reader, const char *name) {
    char known[160] = "";
    const mst_device_table *table;
    for (int32_t place = 0; (table = mst_device_backend(place)); place++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", table->backend);
    }
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "muster_runtime_open: %s: expected one of the backends %s at position %d of '%.200s', received '%s': there is no backend '%s'",
        reader->source, known, (int)(reader->at - reader->text), reader->text, name, name);
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
        return refuse_backend(reader, name);
    }
    reader->at += length;
    return MUSTER_OK;
}

/* The number of devices of a backend that is named alone. */
static muster_status count_alone(const list_reader *reader, const mst_device_table *table, int32_t *count) {
    *count = table == &mst_host_device_table ? reader->core_count : 1;
    if (!table->hardware) return MUSTER_OK;
    mst_device_probe found;
    table->hardware->probe(&found);
    *count = found.count;
    if (*count > 0) return MUSTER_OK;
    return mst_error(MUSTER_UNAVAILABLE, "muster_runtime_open: %s: expected %s for '%.100s', but there are none: %.300s", reader->source,
                     table->hardware->plural, reader->text, found.reason);
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

/* "@0+2": one device per id, even if an id is repeated. */
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

/* Pins each host device to a core of its own, or equally many devices to each core. Otherwise none
 * is pinned, since pinning would put more workers on some cores than on others. */
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

/* Adds a line for the runtime's description. */
static muster_status add_unused(char **unused, const mst_device_table *table, const char *reason) {
    const size_t before = *unused ? strlen(*unused) : 0, size = before + strlen(table->hardware->plural) + strlen(reason) + 32;
    char *lines = mst_alloc(size);
    if (!lines) return mst_out_of_memory("muster_runtime_open", (int64_t)size);
    snprintf(lines, size, "%s%s: none used, %s\n", *unused ? *unused : "", table->hardware->plural, reason);
    mst_free(*unused);
    *unused = lines;
    return MUSTER_OK;
}

muster_status mst_device_list_default(const char **text, mst_device_probe *missed, const char **plural, char **unused) {
    const mst_device_table *table;
    mst_device_probe found;
    *plural = NULL;
    for (int32_t place = 0; (table = mst_device_backend(place)); place++) {
        if (!table->hardware) continue;
        table->hardware->probe(&found);
        *text = table->backend;
        if (found.count > 0) return MUSTER_OK;
        MUSTER_TRY(add_unused(unused, table, found.reason));
        if (*plural || !found.expected) continue;
        *missed = found;
        *plural = table->hardware->plural;
    }
    *text = mst_host_device_table.backend;
    return MUSTER_OK;
}

muster_status mst_device_request_open(const mst_device_request *request, const mst_device_settings *settings, mst_device **device) {
    char argument[MST_DEVICE_ID];
    int32_t ordinal = request->ordinal;
    if (request->id) snprintf(argument, sizeof argument, "%.*s", (int)request->id_length, request->id);
    if (request->id && request->table->hardware) MUSTER_TRY(request->table->hardware->find(argument, &ordinal));
    if (!request->id || request->table->hardware) snprintf(argument, sizeof argument, "%d", ordinal);
    if (request->table->hardware) return request->table->hardware->open_with(argument, settings, device);
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

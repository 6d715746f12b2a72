/* The device registry: backends by name. */
#include "device_impl.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

enum { MAX_BACKENDS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define MST_BACKEND(name) extern const mst_device_table mst_##name##_device_table;
#include "backends.def"
#undef MST_BACKEND
#define MST_BACKEND(name) &mst_##name##_device_table,
static const mst_device_table *backends[MAX_BACKENDS] = {
#include "backends.def"
};
#undef MST_BACKEND

#define MST_BACKEND(name) +1
static int32_t backend_count = 0
#include "backends.def"
    ;
#undef MST_BACKEND

static const mst_device_table *find_locked(const char *backend) {
    for (int32_t i = 0; i < backend_count; i++) {
        if (strcmp(backends[i]->backend, backend) == 0) return backends[i];
    }
    return NULL;
}

const mst_device_table *mst_device_find(const char *backend) {
    if (!backend) return NULL;
    pthread_mutex_lock(&lock);
    const mst_device_table *table = find_locked(backend);
    pthread_mutex_unlock(&lock);
    return table;
}

const mst_device_table *mst_device_backend(int32_t place) {
    pthread_mutex_lock(&lock);
    const mst_device_table *table = place >= 0 && place < backend_count ? backends[place] : NULL;
    pthread_mutex_unlock(&lock);
    return table;
}

/* ---- missing entries of a table ---- */

typedef struct entry {
    const char *name;
    size_t offset;
} entry;

#define ENTRY(part, name) \
    { #name, offsetof(mst_device##part##_table, name) }
#define COUNT(entries) (sizeof(entries) / sizeof *(entries))

static const entry own_entries[] = {ENTRY(, open), ENTRY(, close), ENTRY(, synchronize), ENTRY(, memory)};
static const entry memory_entries[] = {ENTRY(_memory, allocate), ENTRY(_memory, release), ENTRY(_memory, reserve), ENTRY(_memory, copy_in),
                                       ENTRY(_memory, copy_out), ENTRY(_memory, copy),    ENTRY(_memory, adopt)};
static const entry queue_entries[] = {ENTRY(_queue, enter),         ENTRY(_queue, leave),        ENTRY(_queue, poll),
                                      ENTRY(_queue, copy_in_async), ENTRY(_queue, event_create), ENTRY(_queue, event_destroy),
                                      ENTRY(_queue, event_record),  ENTRY(_queue, event_wait),   ENTRY(_queue, event_query)};
static const entry code_entries[] = {ENTRY(_code, launch), ENTRY(_code, gemm), ENTRY(_code, peer_access)};
static const entry program_entries[] = {ENTRY(_program, language), ENTRY(_program, open), ENTRY(_program, close), ENTRY(_program, limits),
                                        ENTRY(_program, launch)};
static const entry hardware_entries[] = {
    ENTRY(_hardware, plural),      ENTRY(_hardware, probe),     ENTRY(_hardware, find),    ENTRY(_hardware, describe_libraries),
    ENTRY(_hardware, open_with),   ENTRY(_hardware, get_facts), ENTRY(_hardware, ordinal), ENTRY(_hardware, describe_device),
    ENTRY(_hardware, take_notice), ENTRY(_hardware, give_up)};
static const entry host_memory_entries[] = {ENTRY(_host_memory, allocate), ENTRY(_host_memory, release), ENTRY(_host_memory, pin),
                                            ENTRY(_host_memory, unpin)};

/* Every entry of these structs is a pointer, and a NULL pointer of any type is all zeros on every
 * machine that the library runs on. */
static const char *find_missing(const void *part, const entry *entries, size_t count) {
    static const char null[sizeof(void (*)(void))];
    for (size_t i = 0; part && i < count; i++) {
        if (memcmp((const char *)part + entries[i].offset, null, sizeof null) == 0) return entries[i].name;
    }
    return NULL;
}

static muster_status check_part(const mst_device_table *table, const char *part, const void *entries_of_part, const entry *entries,
                                size_t count) {
    const char *missing = find_missing(entries_of_part, entries, count);
    if (!missing) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "mst_device_register: table: expected every entry, received \"%s\" without %s%s",
                     table->backend, part, missing);
}

static muster_status check_entries(const mst_device_table *table) {
    MUSTER_TRY(check_part(table, "", table, own_entries, COUNT(own_entries)));
    MUSTER_TRY(check_part(table, "memory.", table->memory, memory_entries, COUNT(memory_entries)));
    MUSTER_TRY(check_part(table, "queue.", table->queue, queue_entries, COUNT(queue_entries)));
    MUSTER_TRY(check_part(table, "code.", table->code, code_entries, COUNT(code_entries)));
    MUSTER_TRY(check_part(table, "program.", table->program, program_entries, COUNT(program_entries)));
    MUSTER_TRY(check_part(table, "hardware.", table->hardware, hardware_entries, COUNT(hardware_entries)));
    return check_part(table, "host_memory.", table->host_memory, host_memory_entries, COUNT(host_memory_entries));
}

static muster_status check_table(const mst_device_table *table) {
    if (!table || !table->backend || !table->backend[0]) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "mst_device_register: table: expected a table with a backend name, received %s",
                         table ? "no name" : "NULL");
    }
    if (strchr(table->backend, ':') || strchr(table->backend, ',')) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "mst_device_register: backend: expected a name without ':' and ',', received \"%s\"",
                         table->backend);
    }
    return check_entries(table);
}

/* ---- the list ---- */

static muster_status add_locked(const mst_device_table *table) {
    if (find_locked(table->backend)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "mst_device_register: backend: expected a new name, received \"%s\", which is registered",
                         table->backend);
    }
    if (backend_count == MAX_BACKENDS) {
        return mst_error(MUSTER_UNSUPPORTED, "mst_device_register: backend: expected at most %d backends, received \"%s\" as one more",
                         MAX_BACKENDS, table->backend);
    }
    backends[backend_count++] = table;
    return MUSTER_OK;
}

muster_status mst_device_register(const mst_device_table *table) {
    MUSTER_TRY(check_table(table));
    pthread_mutex_lock(&lock);
    muster_status status = add_locked(table);
    pthread_mutex_unlock(&lock);
    return status;
}

/* The device registry: backends by name. */
#include "cuda/cuda_impl.h"
#include "device_impl.h"

#include <pthread.h>
#include <string.h>

enum { MAX_BACKENDS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const mst_device_table *backends[MAX_BACKENDS] = {&mst_host_device_table, &mst_cuda_device_table};
static int32_t backend_count = 2;

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

static muster_status check_table(const mst_device_table *table) {
    if (!table || !table->backend || !table->backend[0]) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "mst_device_register: table: expected a table with a backend name, received %s",
                         table ? "no name" : "NULL");
    }
    if (strchr(table->backend, ':') || strchr(table->backend, ',')) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "mst_device_register: backend: expected a name without ':' and ',', received \"%s\"",
                         table->backend);
    }
    if (!table->open || !table->close || !table->allocate || !table->release || !table->copy_in || !table->copy_out || !table->copy ||
        !table->sync) {
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "mst_device_register: table: expected every function but launch, received \"%s\" without one", table->backend);
    }
    return MUSTER_OK;
}

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

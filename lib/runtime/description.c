/* The description of a runtime: what it found and decided. */
#include "nodes_private.h"
#include "onednn/onednn_impl.h"
#include "topology_impl.h"

#include <stdio.h>
#include <string.h>

enum { HARDWARE_LINE = 192 };

/* Describes one backend: one line for its libraries, and one for each device. */
static size_t describe_backend(const muster_runtime *runtime, const mst_device_table *table, char *text, size_t size) {
    char line[HARDWARE_LINE];
    size_t at = 0;
    bool said = false;
    for (int32_t r = 0; r < runtime->size; r++) {
        const mst_device *device = runtime->devices[r];
        if (device->table != table) continue;
        if (!said) {
            table->hardware->describe_libraries(device, line, sizeof line);
            at += (size_t)snprintf(text + at, size - at, "%s: %s\n", table->hardware->plural, line);
        }
        said = true;
        table->hardware->describe_device(device, line, sizeof line);
        at += (size_t)snprintf(text + at, size - at, "device %d: %s\n", runtime->first + r, line);
    }
    return at;
}

/* First the hardware that the default choice passed over, with the reasons; then the backends in
 * use. */
static size_t describe_hardware(const muster_runtime *runtime, char *text, size_t size) {
    const mst_device_table *table;
    size_t at = (size_t)snprintf(text, size, "%s", runtime->unused_hardware ? runtime->unused_hardware : "");
    for (int32_t place = 0; (table = mst_device_backend(place)); place++) {
        if (table->hardware) at += describe_backend(runtime, table, text + at, size - at);
    }
    return at;
}

static size_t hardware_size(const muster_runtime *runtime) {
    const size_t unused = runtime->unused_hardware ? strlen(runtime->unused_hardware) : 0;
    return unused + (size_t)runtime->size * (sizeof(mst_device) + 2 * HARDWARE_LINE + 64);
}

/* A description as it was at one revision of the communicator. The last one is the runtime's; those
 * before it live on, because the program may hold them. */
struct mst_description {
    struct mst_description *older;
    int32_t revision;
    const char *onednn; /* what it says of it */
    char text[];
};

static struct mst_description *make_description(const muster_runtime *runtime, struct mst_description *older) {
    size_t size = 4096 + MST_MESSAGE_SIZE + hardware_size(runtime), at = 0;
    struct mst_description *made = mst_alloc(sizeof *made + size);
    if (!made) return NULL;
    char *text = made->text;
    made->older = older;
    made->revision = atomic_load(&runtime->communicator->revision);
    made->onednn = mst_onednn_description();
    const mst_pool_options *settings = mst_pool_settings(runtime->pool);
    at += (size_t)snprintf(text + at, size - at, "devices: %d (", runtime->size);
    for (int32_t r = 0; r < runtime->size; r++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", r ? ", " : "", runtime->devices[r]->name);
    at += (size_t)snprintf(text + at, size - at, ")\nBLAS: %.500s\noneDNN: %.400s\ntopology: %.200s, %d CPUs allowed\n",
                           runtime->blas_open ? mst_blas_get()->description : "not opened, no host device", made->onednn,
                           mst_topology_source(), mst_topology_allowed());
    at += describe_hardware(runtime, text + at, size - at);
    at += mst_runtime_nodes_describe(runtime, text + at, size - at);
    char ways[1200];
    at +=
        (size_t)snprintf(text + at, size - at, "collectives: %s\n", mst_communicator_description(runtime->communicator, ways, sizeof ways));
    at += mst_runtime_spin_describe(&runtime->spin, settings->spin_ns, text + at, size - at);
    snprintf(text + at, size - at, "deadlines: warn after %lld ns, fail after %lld ns (negative: never)\n",
             (long long)settings->warn_after_ns, (long long)settings->fail_after_ns);
    at += strlen(text + at);
    if (runtime->logical_shards)
        snprintf(text + at, size - at, "logical shards: %d, %d on each device\n", runtime->logical_shards,
                 runtime->logical_shards / runtime->total);
    else
        snprintf(text + at, size - at, "logical shards: off\n");
    at += strlen(text + at);
    mst_runtime_trace_describe(runtime, text + at, size - at);
    return made;
}

muster_status mst_runtime_describe(muster_runtime *runtime) {
    struct mst_description *made = make_description(runtime, NULL);
    if (!made) return mst_out_of_memory("muster_runtime_open", sizeof *made);
    atomic_store(&runtime->description, made);
    return MUSTER_OK;
}

/* The newest description. Without memory for it, an older one. */
static const char *description_of(muster_runtime *runtime) {
    struct mst_description *last = atomic_load(&runtime->description);
    if (atomic_load(&runtime->communicator->revision) == last->revision && last->onednn == mst_onednn_description()) return last->text;
    struct mst_description *made = make_description(runtime, last);
    if (!made) return last->text;
    if (atomic_compare_exchange_strong(&runtime->description, &last, made)) return made->text;
    mst_free(made); /* another thread was faster */
    return last->text;
}

void mst_runtime_descriptions_free(muster_runtime *runtime) {
    for (struct mst_description *one = atomic_load(&runtime->description), *older; one; one = older) {
        older = one->older;
        mst_free(one);
    }
}

const char *muster_runtime_description(const muster_runtime *runtime) {
    return runtime && runtime->pool ? description_of((muster_runtime *)(uintptr_t)runtime) : NULL;
}

#include "code_impl.h"
#include "environment_impl.h"
#include "nn_impl.h"
#include "nodes_private.h"
#include "object_names_private.h"
#include "ops_impl.h"
#include "options_impl.h"
#include "topology_impl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Thread_local const char *mst_runtime_callback __attribute__((tls_model("initial-exec")));

void muster_runtime_options_init_sized(muster_runtime_options *options, size_t size) { mst_options_init(options, size); }

/* If several devices have queues of their own, rank 0 gets a thread of its own instead of the
 * calling thread, so that each such device is always served by the same thread. */
static bool wants_dedicated_rank0(const muster_runtime *runtime) {
    int32_t queued = 0;
    for (int32_t r = 0; r < runtime->size; r++) queued += !mst_device_is_host(runtime->devices[r]);
    return queued > 1 && !mst_device_is_host(runtime->devices[0]);
}

static mst_pool_options pool_options(muster_runtime *runtime, const muster_runtime_options *options) {
    int32_t crowd, crowd_cpus;
    mst_runtime_nodes_crowd(runtime, &crowd, &crowd_cpus);
    return (mst_pool_options){
        .spin_ns = runtime->spin.ns,
        .warn_after_ns = mst_runtime_warn_after(options),
        .fail_after_ns = mst_runtime_fail_after(options),
        .pin = !options->no_pinning,
        .masks = runtime->cpu_masks,
        .dedicated_rank0 = wants_dedicated_rank0(runtime),
        .first = runtime->first,
        .total = runtime->total,
        .process = mst_runtime_process_number(runtime),
        .crowd = crowd,
        .crowd_cpus = crowd_cpus,
        .log = mst_runtime_log,
        .log_user = runtime,
    };
}

/* If the machine seems to have such devices, the program's author should learn that they are not
 * used: once per process, not with every runtime. */
static void log_missed(muster_runtime *runtime, const char *plural, const char *reason) {
    static _Atomic bool said;
    if (runtime->log_level > MUSTER_LOG_WARNING || atomic_exchange(&said, true)) return;
    char line[MST_MESSAGE_SIZE + 128];
    snprintf(line, sizeof line, "this machine's %.32s are not used, its CPU cores are: %s", plural, reason);
    mst_runtime_log(runtime, MUSTER_LOG_WARNING, line);
}

static muster_status default_devices(muster_runtime *runtime, const char **text) {
    mst_device_probe missed;
    const char *plural;
    MUSTER_TRY(mst_device_list_default(text, &missed, &plural, &runtime->unused_hardware));
    if (plural && strcmp(*text, mst_host_device_table.backend) == 0) log_missed(runtime, plural, missed.reason);
    return MUSTER_OK;
}

/* What the list of devices asks for. On the heap: the caller's stack may be small. */
typedef struct device_list {
    const char *text, *source;
    mst_device_request requests[MST_DEVICES_MAX];
    int32_t count;
    int32_t cores[MST_DEVICES_MAX];
} device_list;

static muster_status read_devices(muster_runtime *runtime, const muster_runtime_options *options, device_list *list) {
    int32_t core_count = mst_topology_cores(list->cores, MST_DEVICES_MAX);
    if (core_count > MST_DEVICES_MAX) core_count = MST_DEVICES_MAX;
    mst_runtime_nodes_divide_cores(runtime, list->cores, &core_count);
    const char *text = options->devices, *source = "devices";
    bool by_default = false;
    if (!text) {
        text = mst_environment_get("MUSTER_DEVICES");
        source = "the environment's MUSTER_DEVICES";
    }
    if (!text) {
        MUSTER_TRY(default_devices(runtime, &text));
        source = "the default devices";
        by_default = true;
    }
    list->text = text;
    list->source = source;
    MUSTER_TRY(mst_device_list_read(text, source, list->cores, core_count, list->requests, &list->count));
    if (by_default) mst_runtime_nodes_divide_devices(runtime, list->requests, &list->count);
    if (options->no_pinning) return MUSTER_OK;
    return mst_runtime_claim_cpus(runtime, list->cores, core_count, list->requests, list->count);
}

void mst_runtime_log_notices(muster_runtime *runtime) {
    if (runtime->log_level > MUSTER_LOG_WARNING) return;
    char text[MST_MESSAGE_SIZE];
    const mst_device_table *table;
    while (mst_code_take_notice(text)) mst_runtime_log(runtime, MUSTER_LOG_WARNING, text);
    for (int32_t place = 0; (table = mst_device_backend(place)); place++) {
        while (table->hardware && table->hardware->take_notice(text)) mst_runtime_log(runtime, MUSTER_LOG_WARNING, text);
    }
}

/* A device says only why it cannot be opened. */
static muster_status refuse_device(const device_list *list, int32_t rank, muster_status status) {
    char reason[MST_MESSAGE_SIZE];
    mst_error_save(reason);
    if (strncmp(reason, "muster_runtime_open", strlen("muster_runtime_open")) == 0) return status;
    return mst_error(status, "muster_runtime_open: %s: device %d of '%.100s': %s", list->source, (int)rank, list->text, reason);
}

static void log_device(void *runtime, const char *sentence) { mst_runtime_log(runtime, MUSTER_LOG_INFO, sentence); }

static muster_status open_listed(muster_runtime *runtime, const muster_runtime_options *options, device_list *list) {
    MUSTER_TRY(read_devices(runtime, options, list));
    const mst_device_settings settings = {.memory = options->device_memory,
                                          .tf32 = options->tf32,
                                          .p2p = options->p2p,
                                          .alone = list->count == 1,
                                          .log = log_device,
                                          .log_user = runtime};
    runtime->devices = mst_alloc((size_t)list->count * sizeof(mst_device *));
    if (!runtime->devices) return mst_out_of_memory("muster_runtime_open", list->count * (int64_t)sizeof(mst_device *));
    for (; runtime->size < list->count; runtime->size++) {
        const int32_t rank = runtime->size;
        const muster_status status = mst_device_request_open(&list->requests[rank], &settings, &runtime->devices[rank]);
        if (status != MUSTER_OK) return refuse_device(list, rank, status);
    }
    return MUSTER_OK;
}

static muster_status open_devices(muster_runtime *runtime, const muster_runtime_options *options) {
    bool host = false;
    MUSTER_TRY(mst_code_add(&mst_ops_code));
    MUSTER_TRY(mst_code_add(&mst_nn_code));
    MUSTER_TRY(mst_code_add(&mst_collectives_code));
    device_list *list = mst_alloc(sizeof *list);
    if (!list) return mst_out_of_memory("muster_runtime_open", sizeof *list);
    const muster_status status = open_listed(runtime, options, list);
    mst_free(list);
    MUSTER_TRY(status);
    for (int32_t r = 0; r < runtime->size; r++) host |= mst_device_is_host(runtime->devices[r]);
    mst_runtime_log_notices(runtime);
    if (!host) return MUSTER_OK;
    MUSTER_TRY(mst_blas_open(options->keep_blas_threads != 0));
    runtime->blas_open = true;
    return MUSTER_OK;
}

/* Undoes everything that open has done, in reverse order. */
static void dismantle(muster_runtime *runtime) {
    mst_runtime_descriptions_free(runtime);
    mst_communicator_destroy(runtime->communicator);
    mst_runtime_nodes_close(runtime);
    mst_runtime_trace_close(runtime);
    if (runtime->pool) mst_pool_destroy(runtime->pool);
    mst_object_names_free(runtime);
    mst_runtime_unregister_all(runtime);
    mst_runtime_release_buffers(runtime);
    mst_runtime_release_tensors(runtime);
    mst_runtime_names_close(runtime);
    mst_free(runtime->unused_hardware);
    if (runtime->blas_open) mst_blas_close();
    while (runtime->size > 0) {
        mst_device *device = runtime->devices[--runtime->size];
        device->table->close(device);
    }
    mst_free(runtime->devices);
    mst_runtime_release_cpus(runtime);
    memset(runtime, 0, sizeof *runtime);
    mst_retire(runtime);
}

static muster_status open_settings(muster_runtime *runtime, const muster_runtime_options *options) {
    int64_t checks = 0;
    bool is_set;
    MUSTER_TRY(mst_runtime_check_settings(options));
    MUSTER_TRY(mst_environment_number("MUSTER_CHECK", "0 or 1", 0, 1, &checks, &is_set));
    runtime->checks = checks != 0;
    if (gethostname(runtime->host, sizeof runtime->host - 1) != 0) snprintf(runtime->host, sizeof runtime->host, "localhost");
    MUSTER_TRY(mst_runtime_names_open(runtime));
    MUSTER_TRY(mst_runtime_read_shards(options, &runtime->logical_shards));
    MUSTER_TRY(mst_runtime_read_wire(options, runtime->logical_shards, &runtime->wire_dtype));
    return mst_runtime_spin_read(options->spin_ns, &runtime->spin);
}

/* When all processes know of each other, and have devices. */
static muster_status open_workers(muster_runtime *runtime, const muster_runtime_options *options) {
    MUSTER_TRY(mst_runtime_check_shards(options, runtime->total, runtime->logical_shards));
    const mst_pool_options settings = pool_options(runtime, options);
    MUSTER_TRY(mst_pool_create(&settings, runtime->devices, runtime->size, &runtime->pool));
    const mst_communicator_options ways = {.algorithm = options->collective_algorithm,
                                           .fixed_order = runtime->logical_shards > 0,
                                           .checks = runtime->checks,
                                           .wire_dtype = runtime->wire_dtype,
                                           .stream_bytes = options->stream_bytes,
                                           .nodes = runtime->nodes};
    const muster_status status = mst_communicator_create(runtime->pool, &ways, &runtime->communicator);
    mst_runtime_log_notices(runtime);
    MUSTER_TRY(status);
    MUSTER_TRY(mst_runtime_trace_open(runtime, options));
    return mst_runtime_describe(runtime);
}

/* A process that fails tells the others so in the next step that they make together. What fails
 * before the launch is open fails alone: then nobody has told this process of others. */
static muster_status open_parts(muster_runtime *runtime, const muster_runtime_options *options) {
    runtime->process = getpid();
    MUSTER_TRY(mst_runtime_log_open(runtime, options));
    MUSTER_TRY(mst_runtime_nodes_open(runtime, options));
    MUSTER_TRY(mst_runtime_nodes_exchange(runtime, options, open_settings(runtime, options)));
    MUSTER_TRY(mst_runtime_nodes_join(runtime, options, open_devices(runtime, options)));
    return mst_runtime_nodes_agree(runtime, open_workers(runtime, options));
}

static muster_status open_read(const muster_runtime_options *options, muster_runtime **runtime) {
    if (!runtime) return mst_error_null("muster_runtime_open", "runtime", "the address of a pointer");
    muster_runtime *opened = mst_alloc(sizeof *opened);
    if (!opened) return mst_out_of_memory("muster_runtime_open", sizeof *opened);
    const muster_status status = open_parts(opened, options);
    if (status != MUSTER_OK) {
        char message[MST_MESSAGE_SIZE];
        mst_error_save(message);
        dismantle(opened);
        return mst_error_restore(status, message);
    }
    *runtime = opened;
    return MUSTER_OK;
}

muster_status muster_runtime_open(const muster_runtime_options *options, muster_runtime **runtime) {
    muster_runtime_options known;
    if (runtime) *runtime = NULL;
    const muster_status status = mst_options_read("muster_runtime_open", "muster_runtime_options", options, &known, sizeof known);
    return mst_owned_refused(status == MUSTER_OK ? open_read(&known, runtime) : status, known.log_destroy, known.log_user);
}

static void destroy_objects(muster_runtime *runtime, const char *kind) {
    mst_object *object = runtime->objects;
    while (object) {
        mst_object *next = object->next;
        if (!kind || strcmp(object->kind, kind) == 0) {
            mst_runtime_remove(object);
            object->destroy(object);
        }
        object = next;
    }
}

muster_status muster_runtime_close(muster_runtime *runtime) {
    if (!runtime) return MUSTER_OK;
    if (mst_runtime_callback)
        return mst_error(MUSTER_BAD_STATE, "muster_runtime_close: called inside %s, which has to return first", mst_runtime_callback);
    /* A child after fork has none of the parent's worker threads, and its copy of the memory may be
     * in the middle of a change. It therefore touches nothing. */
    if (runtime->pool && runtime->process != getpid()) return MUSTER_OK;
    MUSTER_TRY(mst_pool_enter_to_end(runtime->pool, "muster_runtime_close"));
    mst_runtime_trace_at_close(runtime);
    destroy_objects(runtime, "function"); /* first, because they count the variables that they use */
    destroy_objects(runtime, NULL);
    mst_owned *ended = mst_runtime_take_ended(runtime);
    const muster_destroy_function log_destroy = runtime->log_destroy;
    void *log_user = runtime->log_user;
    mst_pool_leave(runtime->pool);
    dismantle(runtime);
    mst_owned_end(ended);
    mst_owned_call(log_destroy, log_user);
    return MUSTER_OK;
}

int32_t muster_runtime_size(const muster_runtime *runtime) { return runtime && runtime->pool ? runtime->total : -1; }

const char *muster_runtime_device(const muster_runtime *runtime, int32_t rank) {
    if (!runtime || rank < 0 || rank >= runtime->total) return NULL;
    return runtime->names_of_all ? runtime->names_of_all[rank] : runtime->devices[rank]->name;
}

static void dump_line(void *runtime, const char *line) { mst_runtime_log(runtime, MUSTER_LOG_WARNING, line); }

muster_status muster_runtime_dump(muster_runtime *runtime, int32_t events) {
    if (!runtime) return mst_error_null("muster_runtime_dump", "runtime", "a runtime");
    MUSTER_TRY(mst_runtime_check_open(runtime, "muster_runtime_dump"));
    if (events < 0) return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_dump: events: expected 0 or more, received %d", events);
    mst_names_read_begin(runtime);
    for (int32_t r = 0; r < runtime->size; r++) {
        mst_recorder_dump(&mst_pool_worker(runtime->pool, r)->recorder, runtime->first + r, events, dump_line, runtime);
    }
    mst_names_read_end(runtime);
    return MUSTER_OK;
}

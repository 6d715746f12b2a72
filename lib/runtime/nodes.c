/* Joining the other processes of a launch: what they learn of each other before and after they open
 * their devices, and how they share the CPUs and GPUs of a host. */
#include "clock_impl.h"
#include "clocks_private.h"
#include "environment_impl.h"
#include "hash_impl.h"
#include "nodes/nodes_impl.h"
#include "nodes_private.h"
#include "topology_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char where[] = "muster_runtime_open";

/* What a process tells of itself before it opens devices. */
typedef struct mst_process_facts {
    cpu_set_t cpus;  /* that it may use */
    int32_t allowed; /* how many of them its control group lets it use at a time */
    uint32_t gpus;   /* a hash of the list of GPUs that its environment shows */
    int32_t traces;  /* its runtime writes a trace */
} mst_process_facts;

muster_status mst_runtime_nodes_open(muster_runtime *runtime, const muster_runtime_options *options) {
    const mst_nodes_options asked = {.nodes = options->nodes,
                                     .mpi_communicator = options->mpi_communicator,
                                     .warn_after_ns = mst_runtime_warn_after(options),
                                     .fail_after_ns = mst_runtime_fail_after(options),
                                     .on_lost = options->on_lost,
                                     .abort_after_ns = options->abort_after_ns,
                                     .exit_after_ns = options->exit_after_ns,
                                     .log = mst_runtime_log,
                                     .log_user = runtime};
    return mst_nodes_open(&asked, &runtime->nodes);
}

static mst_process_facts own_facts(const muster_runtime_options *options) {
    mst_process_facts facts;
    const char *visible = mst_environment_get("CUDA_VISIBLE_DEVICES");
    memset(&facts, 0, sizeof facts);
    if (sched_getaffinity(0, sizeof facts.cpus, &facts.cpus) != 0) CPU_ZERO(&facts.cpus);
    facts.allowed = mst_topology_allowed();
    facts.traces = options->trace ? *options->trace != 0 : mst_environment_get("MUSTER_TRACE") != NULL;
    facts.gpus = visible ? mst_text_hash(visible, (int64_t)strlen(visible)) : 0;
    return facts;
}

/* An Open MPI that is not told otherwise binds each of two processes to one core. */
static void log_binding(muster_runtime *runtime, const mst_process_facts *facts) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (CPU_COUNT(&facts->cpus) != 1 || online <= runtime->nodes->locals) return;
    char line[240];
    snprintf(line, sizeof line,
             "this process may run on 1 of the %ld CPUs of its host: the launcher binds it (mpirun --bind-to none, srun --cpu-bind=none or "
             "--cpus-per-task)",
             online);
    mst_runtime_log(runtime, MUSTER_LOG_WARNING, line);
}

muster_status mst_runtime_nodes_exchange(muster_runtime *runtime, const muster_runtime_options *options, muster_status status) {
    mst_nodes *nodes = runtime->nodes;
    if (!nodes) return status;
    const int64_t bytes = nodes->processes * (int64_t)sizeof(mst_process_facts);
    if (status == MUSTER_OK) {
        runtime->process_facts = mst_alloc((size_t)bytes);
        if (!runtime->process_facts) status = mst_out_of_memory(where, bytes);
    }
    const mst_process_facts facts = own_facts(options);
    mst_round round = {.where = where,
                       .text = "muster_runtime_open",
                       .signature = 1,
                       .status = status,
                       .rank = -1,
                       .payload = &facts,
                       .payload_bytes = sizeof facts};
    MUSTER_TRY(mst_nodes_begin(nodes, &round));
    memcpy(runtime->process_facts, round.all, (size_t)bytes);
    log_binding(runtime, &facts);
    return MUSTER_OK;
}

/* ---- sharing ---- */

/* The place of this process among those of its host that see the same, and their number. */
static void find_place(const muster_runtime *runtime, bool (*same)(const mst_process_facts *, const mst_process_facts *), int32_t *place,
                       int32_t *count) {
    const mst_nodes *nodes = runtime->nodes;
    const mst_process_facts *facts = &runtime->process_facts[nodes->process];
    *place = *count = 0;
    for (int32_t p = 0; p < nodes->processes; p++) {
        if (nodes->host_of[p] != nodes->host_of[nodes->process] || !same(&runtime->process_facts[p], facts)) continue;
        *place += p < nodes->process;
        ++*count;
    }
}

static bool same_cpus(const mst_process_facts *a, const mst_process_facts *b) { return CPU_EQUAL(&a->cpus, &b->cpus) != 0; }
static bool same_gpus(const mst_process_facts *a, const mst_process_facts *b) { return a->gpus == b->gpus; }

/* Of `items`, those of one of several: equal shares, and at least one. */
static void find_range(int32_t items, int32_t place, int32_t count, int32_t *begin, int32_t *end) {
    *begin = (int32_t)((int64_t)items * place / count);
    *end = (int32_t)((int64_t)items * (place + 1) / count);
    if (items >= count) return;
    *begin = place % items;
    *end = *begin + 1;
}

/* Processes that the launcher has bound to different CPUs have shared them already. */
void mst_runtime_nodes_divide_cores(const muster_runtime *runtime, int32_t *cores, int32_t *count) {
    int32_t place, sharers, begin, end;
    if (!runtime->nodes) return;
    find_place(runtime, same_cpus, &place, &sharers);
    find_range(*count, place, sharers, &begin, &end);
    memmove(cores, cores + begin, (size_t)(end - begin) * sizeof *cores);
    *count = end - begin;
}

void mst_runtime_nodes_divide_devices(const muster_runtime *runtime, mst_device_request *requests, int32_t *count) {
    int32_t place, sharers, begin, end;
    if (!runtime->nodes || !requests[0].table->hardware) return;
    find_place(runtime, same_gpus, &place, &sharers);
    find_range(*count, place, sharers, &begin, &end);
    memmove(requests, requests + begin, (size_t)(end - begin) * sizeof *requests);
    *count = end - begin;
}

void mst_runtime_nodes_crowd(const muster_runtime *runtime, int32_t *crowd, int32_t *cpus) {
    const mst_nodes *nodes = runtime->nodes;
    cpu_set_t all;
    int32_t sum = 0;
    *crowd = *cpus = 0;
    if (!nodes) return;
    CPU_ZERO(&all);
    bool equal = true;
    const mst_process_facts *here = &runtime->process_facts[nodes->process];
    for (int32_t p = 0; p < nodes->processes; p++) {
        if (nodes->host_of[p] != nodes->host_of[nodes->process]) continue;
        const mst_process_facts *facts = &runtime->process_facts[p];
        *crowd += nodes->first[p + 1] - nodes->first[p];
        CPU_OR(&all, &all, &facts->cpus);
        equal = equal && same_cpus(facts, here);
        sum += facts->allowed;
    }
    *cpus = CPU_COUNT(&all) < sum ? CPU_COUNT(&all) : sum;
    if (equal && here->allowed < *cpus) *cpus = here->allowed; /* one quota for all, as far as can be seen */
}

/* ---- joining ---- */

static size_t add_backends(const muster_runtime *runtime, char *text, size_t size) {
    size_t at = 0;
    const mst_device_table *table;
    for (int32_t place = 0; (table = mst_device_backend(place)); place++) {
        int32_t r = 0;
        while (r < runtime->size && runtime->devices[r]->table != table) r++;
        if (r < runtime->size) at += (size_t)snprintf(text + at, size - at, "%s%s", at ? "," : "", table->backend);
    }
    return at;
}

/* What must be equal everywhere. In the reproducible mode the results depend on the machine. */
static void write_agreement(const muster_runtime *runtime, const muster_runtime_options *options, char *text, size_t size) {
    char build[MST_BUILD_TEXT], machine[MST_MACHINE_TEXT], ways[MST_WAYS_TEXT];
    const char *algorithm = options->collective_algorithm;
    if (!algorithm) algorithm = mst_environment_get("MUSTER_COLLECTIVE_ALGORITHM");
    mst_build_id(build);
    size_t at = (size_t)snprintf(text, size,
                                 "version=%d.%d.%d\nbuild=%s\nprocesses=%d\nlogical_shards=%d\ncollective_algorithm=%.64s\non_lost=%d\n"
                                 "wire_dtype=%s\nMUSTER_CHECK=%d\nMUSTER_NODES_TABLE=%s\n",
                                 MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH, build, runtime->nodes->processes,
                                 runtime->logical_shards, algorithm ? algorithm : "", options->on_lost,
                                 muster_dtype_name(runtime->wire_dtype ? runtime->wire_dtype : MUSTER_F32), runtime->checks,
                                 mst_nodes_ways_text(runtime->nodes, ways));
    if (!runtime->logical_shards) return;
    mst_machine_type(machine);
    at += (size_t)snprintf(text + at, size - at, "machine=%s\nbackends=", machine);
    at += add_backends(runtime, text + at, size - at);
    snprintf(text + at, size - at, "\n");
}

/* The names of this process's devices, a line each. NULL: out of memory. */
static char *own_names(const muster_runtime *runtime) {
    size_t size = 1, at = 0;
    for (int32_t r = 0; r < runtime->size; r++) size += strlen(runtime->devices[r]->name) + 1;
    char *names = mst_alloc(size);
    for (int32_t r = 0; names && r < runtime->size; r++) at += (size_t)sprintf(names + at, "%s\n", runtime->devices[r]->name);
    return names;
}

/* all_names: becomes the lines of all processes, ended by 0 each. */
static muster_status find_names(muster_runtime *runtime) {
    const int64_t bytes = runtime->total * (int64_t)sizeof(char *);
    runtime->names_of_all = mst_alloc((size_t)bytes);
    if (!runtime->names_of_all) return mst_out_of_memory(where, bytes);
    char *at = runtime->name_lines;
    for (int32_t rank = 0; rank < runtime->total; rank++) {
        char *end = at ? strchr(at, '\n') : NULL;
        if (!end) return mst_error(MUSTER_INTERNAL, "%s: the names of %d devices are %d lines", where, runtime->total, rank);
        *end = 0;
        runtime->names_of_all[rank] = at;
        at = end + 1;
    }
    return MUSTER_OK;
}

muster_status mst_runtime_nodes_join(muster_runtime *runtime, const muster_runtime_options *options, muster_status status) {
    char agreement[1024] = "";
    runtime->total = runtime->size;
    if (!runtime->nodes) return status;
    char *names = NULL;
    if (status == MUSTER_OK) {
        write_agreement(runtime, options, agreement, sizeof agreement);
        names = own_names(runtime);
        if (!names) status = mst_out_of_memory(where, runtime->size);
    }
    status = mst_nodes_join(runtime->nodes, status, status == MUSTER_OK ? runtime->size : 0, agreement, names ? names : "",
                            &runtime->name_lines);
    mst_free(names);
    MUSTER_TRY(status);
    runtime->first = mst_nodes_first(runtime->nodes);
    runtime->total = mst_nodes_total(runtime->nodes);
    return MUSTER_OK;
}

static int64_t clock_now(void *unused) {
    (void)unused;
    return mst_now_ns();
}

/* The traces of all processes are to lie on the scale of process 0. */
static muster_status align_clocks(muster_runtime *runtime) {
    bool traces = false;
    mst_clock_bounds bounds;
    for (int32_t p = 0; p < runtime->nodes->processes; p++) traces |= runtime->process_facts[p].traces != 0;
    if (!traces) return MUSTER_OK;
    MUSTER_TRY(mst_clocks_compare(runtime->nodes, clock_now, NULL, &bounds));
    runtime->clock_ahead_ns = mst_clock_ahead(&bounds);
    return MUSTER_OK;
}

muster_status mst_runtime_nodes_agree(muster_runtime *runtime, muster_status status) {
    if (!runtime->nodes) return status;
    if (runtime->pool) runtime->nodes->spin_ns = mst_pool_settings(runtime->pool)->spin_ns;
    if (status == MUSTER_OK) status = find_names(runtime);
    mst_round round = {.where = where, .text = "muster_runtime_open", .signature = 2, .status = status, .rank = -1};
    MUSTER_TRY(mst_nodes_begin(runtime->nodes, &round));
    return align_clocks(runtime);
}

void mst_runtime_nodes_close(muster_runtime *runtime) {
    mst_nodes_close(runtime->nodes);
    mst_free(runtime->process_facts);
    mst_free(runtime->names_of_all);
    mst_free(runtime->name_lines);
    runtime->nodes = NULL;
    runtime->process_facts = NULL;
    runtime->names_of_all = NULL;
    runtime->name_lines = NULL;
}

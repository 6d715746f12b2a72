/* What a program asks about the processes of its launch. */
#include "muster/nodes.h"

#include "mpi/mpi_impl.h"
#include "nodes/nodes_impl.h"
#include "nodes_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_open(const muster_runtime *runtime) { return runtime && runtime->pool; }

int32_t muster_runtime_processes(const muster_runtime *runtime) {
    if (!is_open(runtime)) return -1;
    return runtime->nodes ? runtime->nodes->processes : 1;
}

int32_t mst_runtime_process_number(const muster_runtime *runtime) { return runtime->nodes ? runtime->nodes->process : 0; }

int32_t muster_runtime_process(const muster_runtime *runtime) { return is_open(runtime) ? mst_runtime_process_number(runtime) : -1; }

int32_t muster_runtime_first_rank(const muster_runtime *runtime, int32_t process) {
    if (process < 0 || process > muster_runtime_processes(runtime)) return -1;
    return runtime->nodes ? runtime->nodes->first[process] : process * runtime->size;
}

int32_t muster_runtime_hosts(const muster_runtime *runtime) {
    if (!is_open(runtime)) return -1;
    return runtime->nodes ? runtime->nodes->hosts : 1;
}

const char *muster_runtime_host(const muster_runtime *runtime, int32_t process) {
    if (process < 0 || process >= muster_runtime_processes(runtime)) return NULL;
    return runtime->nodes ? runtime->nodes->host_names[runtime->nodes->host_of[process]] : runtime->host;
}

int32_t muster_worker_process(const muster_worker *worker) { return worker ? mst_pool_settings(worker->pool)->process : -1; }

muster_status muster_runtime_abort(muster_runtime *runtime, int32_t code) {
    char line[160], name[MST_PROCESS_TEXT] = "the process";
    if (!runtime) return mst_error_null(__func__, "runtime", "a runtime");
    MUSTER_TRY(mst_runtime_check_open(runtime, __func__));
    if (code < 1 || code > 255) return mst_error(MUSTER_INVALID_ARGUMENT, "%s: code: expected 1 to 255, received %" PRId32, __func__, code);
    if (runtime->nodes) mst_nodes_process_text(runtime->nodes, runtime->nodes->process, name);
    snprintf(line, sizeof line, "%s: %s ends the launch with code %" PRId32, __func__, name, code);
    mst_runtime_log(runtime, MUSTER_LOG_ERROR, line);
    if (runtime->nodes) {
        mst_wire *wire = runtime->nodes->wire;
        pthread_mutex_lock(&wire->lock);
        wire->table->abort(wire->state, code);
        pthread_mutex_unlock(&wire->lock);
    }
    _exit(code);
}

/* ---- ranks ---- */

muster_status mst_runtime_local_rank(const muster_runtime *runtime, int32_t rank, const char *where, const char *what, int32_t *local) {
    char process[MST_PROCESS_TEXT];
    if (rank < 0 || rank >= runtime->total)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: %s: expected 0 to %" PRId32 ", received %" PRId32, where, what, runtime->total - 1,
                         rank);
    *local = rank - runtime->first;
    if (*local >= 0 && *local < runtime->size) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: %s: expected a device of this process, which has ranks %" PRId32 " to %" PRId32 ", received %" PRId32 " of %s",
                     where, what, runtime->first, runtime->first + runtime->size - 1, rank,
                     mst_nodes_process_text(runtime->nodes, mst_nodes_process_of(runtime->nodes, rank), process));
}

muster_status mst_runtime_refuse_nodes(const muster_runtime *runtime, const char *where, const char *what) {
    if (!runtime || !runtime->nodes) return MUSTER_OK;
    return mst_error(MUSTER_UNSUPPORTED, "%s: expected a runtime of one process, since there is no %s over several yet, received one of %d",
                     where, what, (int)runtime->nodes->processes);
}

/* ---- the description ---- */

static size_t describe_wire(const mst_nodes *nodes, char *text, size_t size) {
    char version[200] = "", chosen[MST_MPI_TEXT];
    const muster_wire_table *table = nodes->wire->table;
    mst_mpi_describe(chosen);
    if (chosen[0]) {
        const int written = snprintf(text, size, "messages between processes: %s\n", chosen);
        return written < 0 ? 0 : (size_t)written;
    }
    if (table->version) table->version(version, sizeof version);
    const int length = snprintf(text, size, "messages between processes: %.100s (%.200s)\n", table->name, version);
    return length < 0 ? 0 : (size_t)length;
}

size_t mst_runtime_nodes_describe(const muster_runtime *runtime, char *text, size_t size) {
    const mst_nodes *nodes = runtime->nodes;
    if (!nodes) return 0;
    const char *host = nodes->host_names[nodes->host_of[nodes->process]];
    size_t at = (size_t)snprintf(text, size, "processes: %d on %d host%s; this is process %d, on host %.63s, with ranks %d to %d of %d\n",
                                 nodes->processes, nodes->hosts, nodes->hosts == 1 ? "" : "s", nodes->process, host, runtime->first,
                                 runtime->first + runtime->size - 1, runtime->total);
    at += describe_wire(nodes, text + at, size - at);
    if (!runtime->logical_shards) at += mst_nodes_ways_describe(nodes, text + at, size - at);
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < (int)sysconf(_SC_NPROCESSORS_ONLN))
        at += (size_t)snprintf(text + at, size - at,
                               "CPUs of this process: %d of the %ld of its host, as its launcher has bound it (mpirun --bind-to none, or "
                               "srun --cpu-bind=none, gives it more)\n",
                               CPU_COUNT(&cpus), sysconf(_SC_NPROCESSORS_ONLN));
    return at;
}

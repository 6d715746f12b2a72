/* A launch: its processes, its faults, and the mst_wire that wraps it. */
#include "wire_launch_private.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    wire_launch *launch;
    int32_t process;
} thread_joined;

void *wire_allocate(wire_launch *launch, size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (memory) launch->counts.bytes += (int64_t)bytes;
    if (launch->counts.bytes > launch->counts.peak_bytes) launch->counts.peak_bytes = launch->counts.bytes;
    return memory;
}

void wire_free(wire_launch *launch, void *memory, size_t bytes) {
    if (!memory) return;
    launch->counts.bytes -= (int64_t)bytes;
    free(memory);
}

uint64_t wire_random(wire_launch *launch) { /* splitmix64 */
    uint64_t z = launch->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

bool wire_chance(wire_launch *launch) { return launch->options.seed && (wire_random(launch) & 1); }

int32_t wire_process(const wire_comm *comm, int32_t rank) { return comm->group->members ? comm->group->members[rank] : rank; }

bool wire_is_dead(const wire_launch *launch, const wire_comm *comm, int32_t rank) {
    return launch->any_dead && launch->dead[wire_process(comm, rank)];
}

bool wire_is_cut(const wire_launch *launch, const wire_comm *comm, int32_t from, int32_t to) {
    if (!launch->cut_count) return false;
    from = wire_process(comm, from);
    to = wire_process(comm, to);
    for (int32_t i = 0; i < launch->cut_count; i++)
        if ((launch->cuts[i][0] == from && launch->cuts[i][1] == to) || (launch->cuts[i][0] == to && launch->cuts[i][1] == from))
            return true;
    return false;
}

wire_launch *wire_thread_launch(int32_t *process) {
    *process = thread_joined.process;
    return thread_joined.launch;
}

void wire_launch_join(wire_launch *launch, int32_t process) {
    thread_joined.launch = launch;
    thread_joined.process = process;
}

static bool launch_add_group(wire_launch *launch, const int32_t *members, int32_t count) {
    wire_group *group = &launch->groups[launch->group_count];
    group->count = count;
    group->opens = wire_allocate(launch, sizeof *group->opens * (size_t)count);
    group->members = members ? wire_allocate(launch, sizeof *members * (size_t)count) : NULL;
    launch->group_count++; /* also if it lacks memory: wire_launch_destroy frees it */
    if (!group->opens || (members && !group->members)) return false;
    if (members) memcpy(group->members, members, sizeof *members * (size_t)count);
    return true;
}

wire_launch *wire_launch_create(const wire_launch_options *options) {
    if (options->processes < 1 || options->processes_per_host < 0) return NULL;
    wire_launch *launch = calloc(1, sizeof *launch);
    if (!launch) return NULL;
    pthread_mutex_init(&launch->mutex, NULL);
    launch->options = *options;
    if (!launch->options.eager_bytes) launch->options.eager_bytes = WIRE_EAGER_BYTES;
    launch->random = options->seed;
    launch->aborted = -1;
    launch->dead = wire_allocate(launch, sizeof *launch->dead * (size_t)options->processes);
    launch->state = wire_allocate(launch, sizeof *launch->state * (size_t)options->processes);
    wire_table_fill(launch);
    if (!launch_add_group(launch, NULL, options->processes) || !launch->dead || !launch->state) {
        wire_launch_destroy(launch);
        return NULL;
    }
    return launch;
}

void wire_launch_destroy(wire_launch *launch) {
    if (!launch) return;
    wire_clock_free(launch);
    wire_comms_free(launch);
    const size_t processes = (size_t)launch->options.processes;
    for (int32_t i = 0; i < launch->group_count; i++) {
        wire_group *group = &launch->groups[i];
        wire_free(launch, group->members, sizeof *group->members * (size_t)group->count);
        wire_free(launch, group->opens, sizeof *group->opens * (size_t)group->count);
    }
    for (int32_t i = 0; i < launch->chunk_count; i++) wire_free(launch, launch->chunks[i], sizeof(wire_request) * WIRE_REQUEST_CHUNK);
    wire_free(launch, launch->chunks, sizeof *launch->chunks * (size_t)launch->chunk_limit);
    wire_free(launch, launch->dead, processes * sizeof *launch->dead);
    wire_free(launch, launch->state, processes * sizeof *launch->state);
    free(launch->cuts);
    pthread_mutex_destroy(&launch->mutex);
    free(launch);
}

const muster_wire_table *wire_launch_table(wire_launch *launch) { return &launch->table; }

int32_t wire_launch_group(wire_launch *launch, const int32_t *processes, int32_t count) {
    pthread_mutex_lock(&launch->mutex);
    int32_t handle = -1;
    bool right = count >= 1 && launch->group_count < WIRE_GROUPS;
    for (int32_t i = 0; right && i < count; i++) right = processes[i] >= 0 && processes[i] < launch->options.processes;
    if (right && launch_add_group(launch, processes, count)) handle = launch->group_count - 1;
    pthread_mutex_unlock(&launch->mutex);
    return handle;
}

/* ---- the mst_wire ---- */

static void launch_close(mst_wire *wire, mst_wire_end end) {
    (void)end; /* nothing is kept here: processes do not exit */
    wire->table->close(wire->state);
    pthread_mutex_destroy(&wire->lock);
    free(wire);
}

mst_wire *wire_launch_wrap(wire_launch *launch, muster_wire *state) {
    mst_wire *wire = calloc(1, sizeof *wire);
    if (!wire) return NULL;
    wire->table = &launch->table;
    wire->state = state;
    wire->process = wire->table->rank(state);
    wire->processes = wire->table->size(state);
    pthread_mutex_init(&wire->lock, NULL);
    wire->close = launch_close;
    wire->opener = launch;
    return wire;
}

bool wire_launch_open(mst_wire **wire) {
    wire_launch *launch = thread_joined.launch;
    *wire = NULL;
    if (!launch) return false;
    muster_wire *state;
    muster_wire_request request;
    if (launch->table.open(0, 0, &state, &request) != MUSTER_WIRE_OK) return false;
    int32_t done = 0;
    while (!done) {
        if (launch->table.test(state, &request, &done, NULL) != MUSTER_WIRE_OK) {
            launch->table.close(state);
            return false;
        }
        if (!done) sched_yield();
    }
    *wire = wire_launch_wrap(launch, state);
    if (!*wire) launch->table.close(state);
    return *wire != NULL;
}

wire_launch_counts wire_launch_count(wire_launch *launch) {
    pthread_mutex_lock(&launch->mutex);
    const wire_launch_counts counts = launch->counts;
    pthread_mutex_unlock(&launch->mutex);
    return counts;
}

int32_t wire_launch_aborted(wire_launch *launch) {
    pthread_mutex_lock(&launch->mutex);
    const int32_t code = launch->aborted;
    pthread_mutex_unlock(&launch->mutex);
    return code;
}

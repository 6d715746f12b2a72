/* Opening and closing: the wire, the rounds, and who runs on which host. */
#include "mpi/mpi_impl.h"
#include "nodes_data_private.h"
#include "rounds_private.h"
#include "ways_private.h"

#include "clock_impl.h"
#include "environment_impl.h"
#include "memory_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char where[] = "muster_runtime_open";
static const int64_t default_close_grace_ns = 5LL * 1000000000, lost_grace_ns = 5LL * 1000000000, drain_grace_ns = 200 * 1000000;

/* ---- hosts ---- */

void mst_host_name(const muster_wire_table *table, char name[MST_HOST_TEXT]) {
    const char *given = mst_environment_get("MUSTER_HOSTNAME");
    memset(name, 0, MST_HOST_TEXT);
    if (given)
        snprintf(name, MST_HOST_TEXT, "%s", given);
    else if (table)
        table->host(name, MST_HOST_TEXT);
    else
        (void)gethostname(name, MST_HOST_TEXT - 1);
    name[MST_HOST_TEXT - 1] = 0;
}

static muster_status own_host(const mst_wire *wire, char name[MST_HOST_TEXT]) {
    mst_host_name(wire->table, name);
    return name[0] ? MUSTER_OK : mst_error(MUSTER_SYSTEM, "%s: this host has no name", where);
}

/* Hosts are numbered by their smallest process. */
static muster_status number_hosts(mst_nodes *nodes, const char (*names)[MST_HOST_TEXT]) {
    const int32_t processes = nodes->processes;
    char(*distinct)[MST_HOST_TEXT] = mst_alloc((size_t)processes * MST_HOST_TEXT);
    if (!distinct) return mst_out_of_memory("the names of the hosts", (int64_t)processes * MST_HOST_TEXT);
    for (int32_t p = 0; p < processes; p++) {
        int32_t host = 0;
        while (host < nodes->hosts && strncmp(distinct[host], names[p], MST_HOST_TEXT) != 0) host++;
        if (host == nodes->hosts) memcpy(distinct[nodes->hosts++], names[p], MST_HOST_TEXT);
        distinct[host][MST_HOST_TEXT - 1] = 0;
        nodes->host_of[p] = host;
    }
    nodes->host_names = distinct;
    for (int32_t p = 0; p < processes; p++) {
        if (nodes->host_of[p] != nodes->host_of[nodes->process]) continue;
        nodes->local += p < nodes->process;
        nodes->locals++;
    }
    return MUSTER_OK;
}

/* *lost_ns: how long a process that has lost another one waits before it ends the launch. The exit
 * reads its own grace when it comes, too late to refuse it: so it is checked here. */
static muster_status read_graces(const mst_nodes_options *options, int64_t *lost_ns) {
    int64_t exit_ns = 0;
    if (options->exit_after_ns == 0) MUSTER_TRY(mst_environment_seconds("MUSTER_EXIT_AFTER", &exit_ns));
    if (options->abort_after_ns == 0) return mst_environment_seconds("MUSTER_ABORT_AFTER", lost_ns);
    *lost_ns = options->abort_after_ns < 0 ? 0 : options->abort_after_ns;
    return MUSTER_OK;
}

static muster_status find_hosts(mst_nodes *nodes, const mst_nodes_options *options) {
    mst_rounds *rounds = nodes->rounds;
    char name[MST_HOST_TEXT];
    mst_nodes_wait wait = {.waiter = {.doing = "the opening of the runtime"},
                           .where = where,
                           .warn_after_ns = nodes->warn_after_ns,
                           .fail_after_ns = nodes->fail_after_ns};
    muster_status mine = own_host(nodes->wire, name);
    if (mine == MUSTER_OK) mine = read_graces(options, &rounds->lost_grace_ns);
    if (mine == MUSTER_OK) mine = mst_ways_open(&nodes->ways);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    mst_arrival_input input = {.kind = MST_ROUND_OPEN, .status = mine, .rank = -1, .payload = name, .payload_bytes = MST_HOST_TEXT};
    const muster_status status = mst_rounds_arrive(nodes, &input, &wait);
    /* SYSTEM: what has come is none of ours, and not all processes need see that themselves */
    if (status == MUSTER_TIMEOUT || status == MUSTER_SYSTEM) return mst_rounds_give_up(nodes, status);
    MUSTER_TRY(status);
    const mst_arrival_header *header = &rounds->arrival.header;
    if (header->status != MUSTER_OK) {
        /* For the sentence; without memory it names the process alone. */
        if (mst_arrival_matches(&rounds->arrival)) (void)number_hosts(nodes, (const char(*)[MST_HOST_TEXT])rounds->arrival.all);
        rounds->refused = true;
        mst_error_restore(mine, message);
        return mst_rounds_failed(nodes, where, &wait, mine);
    }
    if (!mst_arrival_matches(&rounds->arrival))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: process %d does something else than process %d, which opens its runtime", where,
                         (int)header->kind.most_at, (int)header->kind.least_at);
    MUSTER_TRY(number_hosts(nodes, (const char(*)[MST_HOST_TEXT])rounds->arrival.all));
    mst_ways_fit(nodes);
    return MUSTER_OK;
}

/* ---- opening ---- */

static void free_nodes(mst_nodes *nodes, mst_wire_end end) {
    mst_wire *wire = nodes->wire;
    mst_rounds *rounds = nodes->rounds;
    mst_nodes_data_close(nodes);
    if (rounds) {
        pthread_mutex_lock(&wire->lock);
        const bool in_use = mst_control_close(&rounds->control);
        mst_arrival_close(&rounds->arrival);
        pthread_mutex_unlock(&wire->lock);
        if (in_use)
            mst_wire_keep(rounds);
        else
            mst_free(rounds);
    }
    wire->close(wire, end);
    mst_free(nodes->first);
    mst_free(nodes->host_of);
    mst_free(nodes->host_names);
    mst_free(nodes->ways);
    mst_free(nodes);
}

static muster_status open_rounds(mst_nodes *nodes, const mst_nodes_options *options) {
    nodes->rounds = mst_alloc(sizeof *nodes->rounds);
    if (!nodes->rounds) return mst_out_of_memory("the rounds between processes", sizeof *nodes->rounds);
    mst_rounds *rounds = nodes->rounds;
    mst_control_open(&rounds->control, nodes->wire);
    rounds->epoch = MST_EPOCH_OPEN;
    rounds->closed = -1;
    rounds->on_lost = options->on_lost;
    rounds->log = options->log;
    rounds->log_user = options->log_user;
    rounds->lost_grace_ns = lost_grace_ns;
    const mst_channel channel = {.wire = nodes->wire, .lane = 0, .size = nodes->processes, .rank = nodes->process};
    return mst_arrival_open(&rounds->arrival, &channel, MST_ROUND_BYTES);
}

static muster_status fill(mst_nodes *nodes, const mst_nodes_options *options) {
    nodes->process = nodes->wire->process;
    nodes->processes = nodes->wire->processes;
    nodes->warn_after_ns = options->warn_after_ns;
    nodes->fail_after_ns = options->fail_after_ns;
    nodes->close_grace_ns = options->close_grace_ns ? options->close_grace_ns : default_close_grace_ns;
    nodes->host_of = mst_alloc((size_t)nodes->processes * sizeof *nodes->host_of);
    if (!nodes->host_of)
        return mst_out_of_memory("the hosts of the processes", (int64_t)nodes->processes * (int64_t)sizeof *nodes->host_of);
    MUSTER_TRY(open_rounds(nodes, options));
    return find_hosts(nodes, options);
}

muster_status mst_nodes_open(const mst_nodes_options *options, mst_nodes **nodes) {
    *nodes = NULL;
    mst_wire *wire = NULL;
    if (mst_wire_test_open) {
        if (!mst_wire_test_open(&wire)) return MUSTER_OK;
    } else {
        MUSTER_TRY(mst_mpi_open(options, &wire));
    }
    if (!wire) return MUSTER_OK;
    if (wire->processes == 1) {
        wire->close(wire, MST_WIRE_FREE);
        return MUSTER_OK;
    }
    mst_nodes *opened = mst_alloc(sizeof *opened);
    if (!opened) {
        wire->close(wire, MST_WIRE_LOST);
        return mst_out_of_memory("the processes of the launch", sizeof *opened);
    }
    opened->wire = wire;
    const muster_status status = fill(opened, options);
    if (status == MUSTER_OK)
        *nodes = opened;
    else if (opened->rounds && opened->rounds->refused)
        mst_nodes_close(opened); /* as all processes do */
    else
        free_nodes(opened, MST_WIRE_LOST);
    return status;
}

/* ---- closing ---- */

/* Tells the others. FREE: all close now, or refuse the calls that they make instead; where some do,
 * the wire is stale. KEEP: another process works on for longer than this one waits. But where
 * the opening has failed, and not in all processes together, nobody has work that is waited for. */
static mst_wire_end agree_to_close(mst_nodes *nodes) {
    if (atomic_load(&nodes->lost) || mst_wire_has_ended(nodes->wire)) return MST_WIRE_LOST;
    if (nodes->rounds->closed >= 0) return MST_WIRE_FREE;
    const bool sooner = nodes->fail_after_ns >= 0 && nodes->fail_after_ns < nodes->close_grace_ns;
    const muster_status status = mst_rounds_close(nodes, sooner ? nodes->fail_after_ns : nodes->close_grace_ns);
    if (status == MUSTER_OK) return MST_WIRE_FREE;
    if (!nodes->first || atomic_load(&nodes->lost)) return MST_WIRE_LOST;
    return status == MUSTER_TIMEOUT || status == MUSTER_BAD_STATE ? MST_WIRE_KEEP : MST_WIRE_LOST;
}

/* Poison and answers that are still leaving, or could not leave yet. */
static void drain(mst_nodes *nodes) {
    const int64_t until = mst_now_ns() + drain_grace_ns;
    for (bool sending = true; sending && mst_now_ns() < until;) {
        const struct timespec nap = {.tv_nsec = 100000};
        pthread_mutex_lock(&nodes->wire->lock);
        mst_control_progress(&nodes->rounds->control, nodes->rounds->epoch);
        sending = mst_control_is_sending(&nodes->rounds->control);
        pthread_mutex_unlock(&nodes->wire->lock);
        if (sending) nanosleep(&nap, NULL);
    }
}

void mst_nodes_close(mst_nodes *nodes) {
    if (!nodes) return;
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    mst_wire_end end = agree_to_close(nodes);
    pthread_mutex_lock(&nodes->wire->lock);
    nodes->rounds->control.without_wait = "the close of the runtime";
    pthread_mutex_unlock(&nodes->wire->lock);
    drain(nodes);
    /* Others, for which this process would wait in its exit, have said so. */
    if (end == MST_WIRE_KEEP && mst_control_is_poisoned(&nodes->rounds->control, MST_CONTROL_GIVEN_UP, MST_CONTROL_FOR_EVER))
        end = MST_WIRE_LOST;
    mst_nodes_linger(nodes);
    free_nodes(nodes, end);
    mst_error_restore(MUSTER_OK, message);
}

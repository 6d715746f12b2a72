#include "collectives_pool.h"

#include "base_check.h"
#include "base_machine.h"
#include "code_impl.h"
#include "core/transport_private.h"
#include "device_discrete.h"

#include <stdio.h>
#include <stdlib.h>

bool collectives_fixed_order;
static int open_pools;

bool collectives_are_shared(int32_t size) { return processes_count() > 1 && size >= processes_count(); }

collectives_kind collectives_devices(void) {
    const char *text = getenv("MUSTER_TEST_DEVICES");
    if (!text || !*text) return COLLECTIVES_HOST_AND_DISCRETE;
    if (strcmp(text, "cuda") == 0) return COLLECTIVES_GPUS;
    if (strcmp(text, "cuda-virtual") == 0) return COLLECTIVES_VIRTUAL;
    fail_msg("MUSTER_TEST_DEVICES: expected cuda or cuda-virtual, received \"%s\"", text);
    return COLLECTIVES_HOST_AND_DISCRETE;
}

/* Opens the devices of this process: ranks c->first to c->first + c->count - 1 of the test. */
static void open_devices(collectives_pool *c, int32_t host) {
    const collectives_kind kind = collectives_devices();
    enum { GPUS = 8 }; /* of the simulated machine: a ninth rank shares one */
    assert_ok(mst_discrete_register());
    assert_ok(mst_code_add(&mst_ops_code));
    assert_ok(mst_code_add(&mst_collectives_code));
    open_pools++;
    for (int32_t r = c->first; r < c->first + c->count; r++) {
        const mst_device_table *table = mst_device_find(kind != COLLECTIVES_HOST_AND_DISCRETE ? "cuda" : r < host ? "host" : "discrete");
        int32_t number = kind == COLLECTIVES_GPUS ? r % GPUS : kind == COLLECTIVES_VIRTUAL ? 0 : r < host ? r : r - host;
        char ordinal[16];
        snprintf(ordinal, sizeof ordinal, "%d", number);
        assert_ok(table->open(table, ordinal, &c->devices[r - c->first]));
    }
}

void collectives_open_devices(collectives_pool *c, int32_t host, int32_t discrete) {
    *c = (collectives_pool){.size = host + discrete, .count = host + discrete};
    open_devices(c, host);
    processes_count_open(false);
}

/* ---- the transport that MUSTER_COLLECTIVE_ALGORITHM names ---- */

static struct {
    int64_t served_runs, refused_host_pools, refused_other_pools;
    const char *name; /* of the transport */
    char reason[MST_MESSAGE_SIZE];
} forced;

/* Read by tests/adding/adding.py. */
static void report_forced(void) {
    printf("%s served %lld runs; %lld pools of host devices and %lld others went without it%s%s\n", forced.name,
           (long long)forced.served_runs, (long long)forced.refused_host_pools, (long long)forced.refused_other_pools,
           *forced.reason ? ": " : "", forced.reason);
}

static const char *forced_name(void) {
    const char *name = getenv("MUSTER_COLLECTIVE_ALGORITHM");
    if (name && *name && !forced.name) {
        forced.name = name;
        atexit(report_forced);
    }
    return forced.name;
}

static bool on_host(mst_pool *pool) {
    bool all = true;
    for (int32_t r = 0; r < mst_pool_size(pool); r++) all &= mst_device_is_host(mst_pool_worker(pool, r)->device);
    return all;
}

muster_status collectives_create(mst_pool *pool, const char *algorithm, muster_communicator **made) {
    mst_communicator_options options = {.algorithm = algorithm};
    const muster_status status = mst_communicator_create(pool, &options, made);
    if (status != MUSTER_UNAVAILABLE || algorithm || !forced_name()) return status;
    *(on_host(pool) ? &forced.refused_host_pools : &forced.refused_other_pools) += 1;
    mst_error_save(forced.reason);
    options.algorithm = ""; /* none */
    return mst_communicator_create(pool, &options, made);
}

muster_status collectives_check_served(const muster_communicator *communicator) {
    const mst_transport *transport = communicator->forced.transport;
    bool served = false;
    if (!forced_name() || !transport || communicator->forced.algorithm || strcmp(transport->name, forced.name) != 0) return MUSTER_OK;
    for (int32_t r = 0; r < communicator->size; r++) {
        const char *name = communicator->members[r].served_transport;
        served |= name != NULL;
        if (name && strcmp(name, transport->name) != 0)
            return mst_error(MUSTER_USER, "rank %d: expected \"%s\" to serve, received %s", r, transport->name, name);
    }
    forced.served_runs += served;
    return MUSTER_OK;
}

static void log_nothing(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static mst_pool_options usual_options(int64_t fail_after_ns) {
    return (mst_pool_options){.spin_ns = 20000, .warn_after_ns = -1, .fail_after_ns = fail_after_ns, .log = log_nothing};
}

void collectives_open(collectives_pool *c, int32_t host, int32_t discrete) {
    collectives_open_with(c, host, discrete, NULL, 60LL * 1000000000);
}

/* With several processes, the part of this one. */
static void open_processes(collectives_pool *c, mst_pool_options *options, int32_t host) {
    const mst_nodes_options asked = {.nodes = "mpi",
                                     .warn_after_ns = options->warn_after_ns,
                                     .fail_after_ns = options->fail_after_ns,
                                     .on_lost = MST_LOST_ERROR,
                                     .log = options->log,
                                     .log_user = options->log_user};
    const bool joint = processes_share(c->size, &c->first, &c->count);
    if (joint) assert_ok(mst_nodes_open(&asked, &c->nodes));
    open_devices(c, host);
    processes_count_open(joint);
    if (!joint) return;
    char *names;
    assert_ok(mst_nodes_join(c->nodes, MUSTER_OK, c->count, "", "device\n", &names));
    mst_free(names);
    options->first = mst_nodes_first(c->nodes);
    options->total = mst_nodes_total(c->nodes);
    options->process = c->nodes->process;
}

/* What serves between processes as the algorithm of this name does in one. */
static const char *joint_name(const char *algorithm) {
    static const char *const names[][2] = {{"reference", "naive"}, {"direct", "flat"}, {"inline", "hierarchical"}};
    for (size_t i = 0; algorithm && i < sizeof names / sizeof *names; i++)
        if (strcmp(algorithm, names[i][0]) == 0) return names[i][1];
    return algorithm;
}

static void open_pool(collectives_pool *c, const char *algorithm, mst_pool_options *options) {
    options->dedicated_rank0 |= collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE && c->size > 1;
    assert_ok(mst_pool_create(options, c->devices, c->count, &c->pool));
    if (c->nodes) {
        const mst_communicator_options ways = {
            .algorithm = joint_name(algorithm), .nodes = c->nodes, .fixed_order = collectives_fixed_order};
        assert_ok(mst_communicator_create(c->pool, &ways, &c->communicator));
    } else {
        assert_ok(collectives_create(c->pool, algorithm, &c->communicator));
    }
}

void collectives_open_options(collectives_pool *c, int32_t host, int32_t discrete, const char *algorithm, const mst_pool_options *asked) {
    mst_pool_options options = *asked;
    *c = (collectives_pool){.size = host + discrete};
    open_processes(c, &options, host);
    open_pool(c, algorithm, &options);
}

void collectives_open_with(collectives_pool *c, int32_t host, int32_t discrete, const char *algorithm, int64_t fail_after_ns) {
    const mst_pool_options options = usual_options(fail_after_ns);
    collectives_open_options(c, host, discrete, algorithm, &options);
}

void collectives_open_alone(collectives_pool *c, int32_t host, int32_t discrete) {
    mst_pool_options options = usual_options(60LL * 1000000000);
    collectives_open_devices(c, host, discrete);
    open_pool(c, NULL, &options);
}

void collectives_close(collectives_pool *c) {
    mst_communicator_destroy(c->communicator);
    mst_pool_destroy(c->pool);
    for (int32_t r = c->count - 1; r >= 0; r--) c->devices[r]->table->close(c->devices[r]);
    mst_nodes_close(c->nodes);
    open_pools--;
    if (collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE) machine_check(open_pools == 0);
}

void collectives_gather(collectives_pool *c, void *array, int64_t size) { processes_gather_ranks(c->nodes, array, size); }

int64_t collectives_sum(collectives_pool *c, int64_t value) {
    int64_t all[16] = {0}, bytes[16], sum = 0;
    if (!c->nodes) return value;
    for (int32_t p = 0; p < c->nodes->processes; p++) bytes[p] = sizeof *all;
    all[c->nodes->process] = value;
    processes_gather(c->nodes, all, bytes);
    for (int32_t p = 0; p < c->nodes->processes; p++) sum += all[p];
    return sum;
}

/* The end of "process 1 (host h)" at `text`; NULL: it is something else. */
static char *behind_process(char *text) {
    int used = 0;
    if (sscanf(text, "process %*d (host %*[^)])%n", &used) != 0 || used == 0) return NULL;
    return text + used;
}

void collectives_strip(char *message) {
    static const char *const before[] = {" (", ", in ", ", "};
    for (char *at = message; *at; at++)
        for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
            const size_t length = strlen(before[i]);
            char *end = strncmp(at, before[i], length) == 0 ? behind_process(at + length) : NULL;
            if (!end || (i == 0 && *end != ')')) continue;
            end += i == 0;
            memmove(at, end, strlen(end) + 1);
            i = 0;
        }
}

/* As a call of a function does it: a round before and one behind it, and what fails is told. */
static muster_status run_joint(collectives_pool *c, mst_task task, void *argument) {
    mst_round round = {.where = "test", .text = "a task", .rank = -1};
    MUSTER_TRY(mst_nodes_begin(c->nodes, &round));
    mst_communicator_ready(c->communicator);
    round.status = mst_pool_run(c->pool, task, argument);
    if (round.status != MUSTER_OK) {
        round.rank = mst_pool_failed_rank(c->pool);
        mst_nodes_poison(c->nodes, round.status, round.rank);
    }
    return mst_nodes_end(c->nodes, &round);
}

muster_status collectives_run_until(collectives_pool *c, mst_task task, void *argument, int64_t fail_after_ns) {
    MUSTER_TRY(mst_pool_enter(c->pool, "test", 0));
    mst_pool_set_deadlines(c->pool, 0, fail_after_ns);
    muster_status status;
    if (c->nodes) {
        status = run_joint(c, task, argument);
    } else {
        mst_communicator_ready(c->communicator);
        status = mst_pool_run(c->pool, task, argument);
    }
    mst_pool_leave(c->pool);
    return status;
}

muster_status collectives_run(collectives_pool *c, mst_task task, void *argument) {
    const muster_status status = collectives_run_until(c, task, argument, 0);
    return status == MUSTER_OK && !c->nodes ? collectives_check_served(c->communicator) : status;
}

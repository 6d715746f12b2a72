/* A parameter server: two clients, on a core each, push (add) their tensors and pull the value. */
#include "muster_case.h"
#include "process.h"
#include "server_loops.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t KIB = 1024, MIB = 1024 * 1024;

/* How Muster is used. */
typedef enum { WAITING, BY_HANDLE, BY_THREAD } way;

typedef struct muster_side {
    muster_runtime *runtime;
    muster_function *function;
    muster_server *server;
    way how;
    collective_session *session;
    server_job job;
    float *tensors[SERVER_CLIENTS], *pulled[SERVER_CLIENTS];
} muster_side;

typedef struct client_side {
    muster_client *client;
    way how;
    muster_tensor tensor, pulled;
    muster_status status;
} client_side;

static muster_status push_and_pull(const client_side *mine) {
    muster_request *requests[2] = {NULL, NULL};
    if (mine->how == WAITING) {
        MUSTER_TRY(muster_client_send(mine->client, 0, MUSTER_RULE_ADD, 1, mine->tensor, 0, NULL));
        return muster_client_receive(mine->client, 0, mine->pulled, NULL);
    }
    MUSTER_TRY(muster_client_send(mine->client, 0, MUSTER_RULE_ADD, 1, mine->tensor, 0, &requests[0]));
    MUSTER_TRY(muster_client_receive(mine->client, 0, mine->pulled, &requests[1]));
    return muster_requests_wait_all(requests, 2);
}

static bool exchange(void *self, const server_job *job, const server_player *player) {
    client_side *mine = self;
    (void)job, (void)player;
    mine->status = push_and_pull(mine);
    return mine->status == MUSTER_OK;
}

static muster_status body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_side *side = user;
    const int32_t rank = muster_worker_rank(w);
    client_side mine = {.how = side->how,
                        .tensor = muster_f32(side->tensors[rank], side->job.count),
                        .pulled = muster_f32(side->pulled[rank], side->job.count)};
    const server_player player = {.session = side->session,
                                  .rank = rank,
                                  .tensor = side->tensors[rank],
                                  .pulled = side->pulled[rank],
                                  .exchange = exchange,
                                  .self = &mine};
    mine.status = muster_worker_client(w, side->server, &mine.client);
    if (mine.status == MUSTER_OK)
        server_play(&player, &side->job);
    else
        collective_abort(side->session);
    return mine.status;
}

static void close_side(muster_side *side) {
    if (side->runtime) bench_muster_ok(muster_runtime_close(side->runtime), "muster");
    for (int32_t r = 0; r < SERVER_CLIENTS; r++) {
        free(side->tensors[r]);
        free(side->pulled[r]);
    }
    free(side->session);
}

static bool open_side(muster_side *side, way how, int64_t count) {
    *side = (muster_side){.how = how, .session = calloc(1, sizeof *side->session), .job.count = count};
    bool ok = side->session != NULL;
    for (int32_t r = 0; r < SERVER_CLIENTS; r++) {
        side->tensors[r] = collective_allocate(count);
        side->pulled[r] = collective_allocate(count);
        if (side->tensors[r]) memset(side->tensors[r], 0, (size_t)count * sizeof(float));
        if (side->pulled[r]) memset(side->pulled[r], 0, (size_t)count * sizeof(float));
        ok = ok && side->tensors[r] && side->pulled[r];
    }
    if (!ok) return false;
    collective_session_open(side->session, false);
    side->runtime = bench_muster_open(SERVER_CLIENTS);
    if (!side->runtime) return false;
    muster_server_options options;
    muster_server_options_init(&options);
    options.progress = how == BY_THREAD ? 1 : -1;
    const muster_tensor value = muster_f32(side->tensors[0], count);
    return bench_muster_ok(muster_server_create(side->runtime, "bench", &value, 1, &options, &side->server), "muster") &&
           bench_muster_ok(muster_function_create(side->runtime, "push and pull", body, side, &side->function), "muster");
}

static bool muster_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    muster_side *side = self;
    const collective_job two = {.ranks = SERVER_CLIENTS};
    side->job.warm = block->warm;
    side->job.calls = block->calls;
    if (!bench_muster_ok(muster_function_call(side->function, NULL, 0, NULL, 0, NULL), "muster")) return false;
    *wrong += collective_result(side->session, &two, SERVER_CLIENTS, block->calls, ns);
    return true;
}

/* ---- OpenMPI ---- */

typedef struct mpi_way {
    bench_process *process;
    int64_t count;
    int32_t variant;
} mpi_way;

static bool mpi_block(void *self, const bench_block *block, double *ns, int64_t *wrong) {
    const mpi_way *mpi = self;
    const server_job job = {.count = mpi->count, .variant = mpi->variant, .warm = block->warm, .calls = block->calls};
    return bench_process_exchange(mpi->process, &job, sizeof job, block->calls, ns, wrong);
}

static bench_process *open_mpi(void) {
    char path[1024];
    if (access(bench_sibling_path(path, "muster-bench-mpi-server"), X_OK) != 0) {
        bench_log("not measured: OpenMPI: there was no mpicc when the bench was built");
        return NULL;
    }
    char *argv[12] = {"mpirun"};
    int used = 1;
    if (geteuid() == 0) argv[used++] = "--allow-run-as-root";
    for (char *const *more = (char *const[]){"-np", "2", "--bind-to", "core", path, NULL}; *more; more++) argv[used++] = *more;
    return bench_process_open_sleeper("OpenMPI, one-sided", argv, (const char *const[]){NULL});
}

/* ---- a row ---- */

static void add_loops(bench_row *row, bench_pair *pair, int64_t count, int32_t shards, bench_kind kind, const char *name) {
    server_loops *loops = server_loops_open(pair, count, shards);
    if (loops)
        bench_add(row, kind, name, loops, server_loops_block, server_loops_close);
    else
        bench_log("not measured: %s: no memory", name);
}

static bool run_row(bench_pair *pair, bench_process *mpi, int64_t bytes, const bench_options *options) {
    bench_row row = {.round_count = bytes < 16 * MIB ? 15 : 7,
                     .rest_ns = 3000000,
                     .median = true,
                     .items = 4.0 * (double)bytes,
                     .items_name = "bytes/s"};
    const int64_t count = bytes / (int64_t)sizeof(float);
    int64_t calls = 64 * MIB / bytes;
    calls = calls < 4 ? 4 : calls > 400 ? 400 : calls;
    row.block = (bench_block){bytes < 4 * MIB ? 6 : 2, (int32_t)calls, 0};
    snprintf(row.name, sizeof row.name, "server: 2 clients push (add) and pull %lld KiB", (long long)(bytes / KIB));
    if (!bench_wanted(options, row.name)) return true;
    muster_side sides[3];
    mpi_way ways[2] = {{mpi, count, 0}, {mpi, count, 1}};
    bool ok = true;
    for (int i = 0; i < 3; i++) ok = open_side(&sides[i], (way)i, count) && ok;
    if (ok) {
        bench_muster_add(&row, "muster", &sides[WAITING], muster_block);
        bench_add(&row, BENCH_PEER, "(muster, by handles)", &sides[BY_HANDLE], muster_block, NULL);
        bench_add(&row, BENCH_PEER, "(muster, by a third thread)", &sides[BY_THREAD], muster_block, NULL);
    }
    add_loops(&row, pair, count, 0, BENCH_LIMIT, "a value for each client, no locks");
    add_loops(&row, pair, count, 2, BENCH_PEER, "plain loop, 2 shards with spin locks");
    add_loops(&row, pair, count, 8, BENCH_PEER, "plain loop, 8 shards with spin locks");
    for (int i = 0; mpi && i < 2; i++)
        bench_add(&row, BENCH_PEER, i ? "OpenMPI, exclusive locks" : "OpenMPI, shared lock and flush", &ways[i], mpi_block, NULL);
    bench_target_add(&row, BENCH_RATIO, "plain loop", 1.05);
    if (mpi) bench_target_add(&row, BENCH_SPEEDUP, "OpenMPI", 1);
    ok = bench_run(&row, options) && ok;
    for (int i = 0; i < 3; i++) close_side(&sides[i]);
    return ok;
}

bool bench_server(const bench_options *options) {
    const int64_t begin = options->begin ? options->begin : 4 * KIB, end = options->end ? options->end : 64 * MIB;
    const double factor = options->factor > 1 ? options->factor : 4;
    bench_pair *pair = bench_pair_open();
    if (!pair) {
        bench_log("not measured: two clients: only one core is allowed");
        return true;
    }
    bench_process *mpi = options->no_peers ? NULL : open_mpi();
    bool ok = true;
    for (double bytes = (double)begin; bytes <= (double)end; bytes *= factor) ok = run_row(pair, mpi, (int64_t)bytes, options) && ok;
    if (mpi) bench_process_close(mpi);
    bench_pair_close(pair);
    return ok;
}

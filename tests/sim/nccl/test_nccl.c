/* The simulated NCCL itself: that it waits, ends, refuses and reports as it should, with 2, 4 and 8
 * devices and random delays. What it shares with the real one is in test_contract_nccl.c. */
#include "nccl_check.h"

#include <time.h>

/* Turns differ in whether there are delays (odd ones) and in whether communicators block. */
#ifdef MUSTER_TEST_SANITIZED
enum { STEP = 3 };
#else
enum { STEP = 1 };
#endif

/* ---- order in the stream ---- */

static void collectives_follow_each_other_in_the_stream(void **state) {
    (void)state;
    for (int devices = 2; devices <= 8; devices *= 2) {
        for (uint64_t turn = 0; turn < 4; turn += STEP) {
            team t;
            open_team(&t, devices, turn / 2 == 0, turn);
            assert_nccl(team_start(&t));
            assert_nccl(team_run(&t, powers_task, NULL, NULL));
            assert_nccl(team_end(&t, false));
            team_close(&t);
            assert_clean();
        }
    }
}

static mst_nccl_result two_streams_task(team *t, int rank, void *argument) {
    mst_cu_stream own = t->streams[rank], other = ((mst_cu_stream *)argument)[rank];
    uint32_t values[2] = {0};
    TEAM_TRY(team_fill(t, rank, 0, 1));
    TEAM_TRY(team_fill(t, rank, 1, 1));
    TEAM_TRY(team_sync(t, rank));
    TEAM_TRY(nccl.ncclGroupStart());
    TEAM_TRY(sum(t, rank, 0, 1));
    t->streams[rank] = other;
    mst_nccl_result result = sum(t, rank, 1, 1);
    t->streams[rank] = own;
    TEAM_TRY(result);
    TEAM_TRY(team_wait(t->comms[rank], nccl.ncclGroupEnd()));
    TEAM_TRY(team_sync(t, rank));
    TEAM_TRY(team_read(t, rank, 1, 0, values, 4)); /* in the first stream: the group joins both */
    return values[0] == 0x01010101u * (uint32_t)t->size ? MST_NCCL_SUCCESS : MST_NCCL_INTERNAL_ERROR;
}

static void a_group_joins_the_streams_that_it_names(void **state) {
    (void)state;
    for (uint64_t turn = 0; turn < 4; turn += STEP) {
        team t;
        mst_cu_stream others[2];
        open_team(&t, 2, turn / 2, turn);
        for (int rank = 0; rank < 2; rank++) {
            cuda.cuCtxSetCurrent(t.contexts[rank]);
            assert_int_equal(cuda.cuStreamCreate(&others[rank], MST_CU_STREAM_NON_BLOCKING), MST_CU_SUCCESS);
        }
        assert_nccl(team_start(&t));
        assert_nccl(team_run(&t, two_streams_task, others, NULL));
        for (int rank = 0; rank < 2; rank++) { /* a communicator is destroyed when nothing of it is in flight */
            cuda.cuCtxSetCurrent(t.contexts[rank]);
            while (cuda.cuStreamQuery(others[rank]) == MST_CU_NOT_READY) sched_yield();
            cuda.cuStreamDestroy_v2(others[rank]);
        }
        assert_nccl(team_end(&t, false));
        team_close(&t);
        assert_clean();
    }
}

/* One thread for all devices: everything in groups. */
static void one_thread_drives_all_ranks_in_groups(void **state) {
    (void)state;
    for (int blocking = 0; blocking < 2; blocking++) {
        team t;
        uint32_t value = 0;
        mst_nccl_config config = team_config(blocking);
        open_team(&t, 4, blocking, 1);
        assert_nccl(nccl.ncclGetUniqueId(&t.id));
        assert_nccl(nccl.ncclGroupStart());
        for (int rank = 0; rank < 4; rank++) {
            cuda.cuCtxSetCurrent(t.contexts[rank]);
            mst_nccl_result result = nccl.ncclCommInitRankConfig(&t.comms[rank], 4, t.id, rank, &config);
            assert_true(result == MST_NCCL_SUCCESS || result == MST_NCCL_IN_PROGRESS);
        }
        mst_nccl_result result = nccl.ncclGroupEnd();
        for (int rank = 0; rank < 4; rank++) assert_nccl(team_wait(t.comms[rank], result));
        for (int rank = 0; rank < 4; rank++) assert_nccl(team_fill(&t, rank, 0, 1));
        assert_nccl(nccl.ncclGroupStart());
        for (int rank = 0; rank < 4; rank++) assert_nccl(sum(&t, rank, 0, 10));
        result = nccl.ncclGroupEnd();
        for (int rank = 0; rank < 4; rank++) assert_nccl(team_wait(t.comms[rank], result));
        for (int rank = 0; rank < 4; rank++) {
            assert_nccl(team_read(&t, rank, 0, 36, &value, sizeof value));
            assert_int_equal(value, 0x04040404);
        }
        assert_nccl(team_end(&t, false));
        team_close(&t);
        assert_clean();
    }
}

static mst_nccl_result parts_task(team *t, int rank, void *argument) {
    team *parts = argument;
    uint32_t value = 0;
    TEAM_TRY(team_wait(t->comms[rank], nccl.ncclCommSplit(t->comms[rank], rank % 2, rank, &parts->comms[rank], NULL)));
    TEAM_TRY(team_fill(t, rank, 0, 1));
    parts->streams[rank] = t->streams[rank];
    memcpy(parts->memory[rank], t->memory[rank], sizeof t->memory[rank]);
    return team_read(t, rank, 0, 0, &value, sizeof value);
}

static mst_nccl_result whole_and_part_task(team *t, int rank, void *argument) {
    team *parts = argument;
    uint32_t value = 0;
    TEAM_TRY(nccl.ncclGroupStart());
    TEAM_TRY(sum(t, rank, 0, 1));
    TEAM_TRY(sum(parts, rank, 0, 1));
    TEAM_TRY(team_wait(t->comms[rank], nccl.ncclGroupEnd()));
    TEAM_TRY(team_wait(parts->comms[rank], MST_NCCL_IN_PROGRESS));
    TEAM_TRY(team_sync(t, rank));
    TEAM_TRY(team_read(t, rank, 0, 0, &value, sizeof value));
    return value == 0x01010101u * (uint32_t)(t->size * (t->size / 2)) ? MST_NCCL_SUCCESS : MST_NCCL_INTERNAL_ERROR;
}

static void a_group_may_hold_several_communicators(void **state) {
    (void)state;
    for (int devices = 4; devices <= 8; devices *= 2) {
        for (uint64_t turn = 0; turn < 4; turn += STEP) {
            team t, parts;
            memset(&parts, 0, sizeof parts);
            open_team(&t, devices, turn / 2, turn);
            parts.size = devices;
            assert_nccl(team_start(&t));
            assert_nccl(team_run(&t, parts_task, &parts, NULL));
            assert_nccl(team_run(&t, whole_and_part_task, &parts, NULL));
            memcpy(parts.contexts, t.contexts, sizeof t.contexts);
            assert_nccl(team_end(&parts, false));
            assert_nccl(team_end(&t, false));
            team_close(&t);
            assert_clean();
        }
    }
}

/* ---- waiting for ranks that do not come ---- */

typedef struct late {
    _Atomic int arrived, returned;
} late;

static mst_nccl_result late_task(team *t, int rank, void *argument) {
    late *l = argument;
    mst_nccl_config config = team_config(true);
    mst_nccl_result result = MST_NCCL_SUCCESS;
    if (rank == t->size - 1) {
        while (muster_sim_calls("ncclCommInitRankConfig") < (uint64_t)t->size - 1) sched_yield();
        nanosleep(&(struct timespec){0, 20000000}, NULL); /* only to give a wrong return time to happen */
        if (l->returned) result = MST_NCCL_INTERNAL_ERROR;
    }
    mst_nccl_result made = nccl.ncclCommInitRankConfig(&t->comms[rank], t->size, t->id, rank, &config);
    l->returned++;
    return made == MST_NCCL_SUCCESS ? result : made;
}

static void starting_waits_for_the_last_rank(void **state) {
    (void)state;
    team t;
    late l = {0};
    open_team(&t, 4, true, 0);
    assert_nccl(nccl.ncclGetUniqueId(&t.id));
    assert_nccl(team_run(&t, late_task, &l, NULL));
    assert_nccl(team_end(&t, false));
    team_close(&t);
    assert_clean();
}

static void starting_without_blocking_is_in_progress_until_an_abort(void **state) {
    (void)state;
    team t;
    mst_nccl_config config = team_config(false);
    open_team(&t, 2, false, 0);
    cuda.cuCtxSetCurrent(t.contexts[0]);
    assert_nccl(nccl.ncclGetUniqueId(&t.id));
    assert_int_equal(nccl.ncclCommInitRankConfig(&t.comms[0], 2, t.id, 0, &config), MST_NCCL_IN_PROGRESS);
    mst_nccl_result now;
    for (int i = 0; i < 10; i++) {
        assert_nccl(nccl.ncclCommGetAsyncError(t.comms[0], &now));
        assert_int_equal(now, MST_NCCL_IN_PROGRESS);
    }
    assert_int_equal(sum(&t, 0, 0, 1), MST_NCCL_INVALID_ARGUMENT);
    assert_non_null(strstr(nccl.ncclGetLastError(NULL), "before the previous operation"));
    assert_int_equal(nccl.ncclCommDestroy(t.comms[0]), MST_NCCL_INVALID_ARGUMENT);
    assert_nccl(nccl.ncclCommAbort(t.comms[0]));
    team_close(&t);
    assert_clean();
}

/* One rank is aborted while it starts: the other waits for its own abort. */
static void starting_with_an_aborted_rank_waits_for_an_abort(void **state) {
    (void)state;
    team t;
    mst_nccl_config config = team_config(false);
    mst_nccl_result now;
    open_team(&t, 2, false, 0);
    assert_nccl(nccl.ncclGetUniqueId(&t.id));
    for (int rank = 0; rank < 2; rank++) {
        cuda.cuCtxSetCurrent(t.contexts[rank]);
        assert_int_equal(nccl.ncclCommInitRankConfig(&t.comms[rank], 2, t.id, rank, &config), MST_NCCL_IN_PROGRESS);
        if (rank == 0) assert_nccl(nccl.ncclCommAbort(t.comms[0]));
    }
    for (int i = 0; i < 10; i++) {
        assert_nccl(nccl.ncclCommGetAsyncError(t.comms[1], &now));
        assert_int_equal(now, MST_NCCL_IN_PROGRESS);
    }
    assert_nccl(nccl.ncclCommAbort(t.comms[1]));
    team_close(&t);
    assert_clean();
}

/* Until the others have come nothing is done; then everything. */
static mst_nccl_result issue_task(team *t, int rank, void *argument) {
    if (rank == *(int *)argument) return MST_NCCL_SUCCESS;
    mst_nccl_result result = sum(t, rank, 0, 10);
    for (int i = 0; i < 10 && result == MST_NCCL_IN_PROGRESS; i++) TEAM_TRY(nccl.ncclCommGetAsyncError(t->comms[rank], &result));
    return result;
}

static void a_missing_rank_is_waited_for_until_all_abort(void **state) {
    (void)state;
    for (int devices = 2; devices <= 8; devices *= 2) {
        for (uint64_t turn = 0; turn < 4; turn += STEP) {
            team t;
            int missing = (int)turn % devices, in_stream = 0;
            open_team(&t, devices, false, turn);
            assert_nccl(team_start(&t));
            /* past the first collective, which connects */
            for (int i = 0; i < (int)turn; i++) assert_nccl(team_run(&t, powers_task, NULL, NULL));
            mst_nccl_result results[TEAM_MOST];
            team_run(&t, issue_task, &missing, results);
            for (int rank = 0; rank < devices; rank++) {
                assert_true(results[rank] == MST_NCCL_SUCCESS || results[rank] == MST_NCCL_IN_PROGRESS);
                if (rank == missing || results[rank] != MST_NCCL_SUCCESS) continue;
                assert_false(team_empty(&t, rank));
                in_stream++;
            }
            if (turn == 0) assert_int_equal(in_stream, 0); /* the first needs all host threads */
            assert_nccl(team_run(&t, abort_and_sync_task, NULL, NULL));
            team_close(&t);
            assert_clean();
        }
    }
}

static mst_nccl_result receive_task(team *t, int rank, void *argument) {
    int from = *(int *)argument;
    if (rank == from) return MST_NCCL_SUCCESS;
    return team_wait(t->comms[rank], nccl.ncclRecv(team_at(t, rank, 0, 0), 1, MST_NCCL_INT32, from, t->comms[rank], t->streams[rank]));
}

static void an_abort_ends_its_own_rank_only(void **state) {
    (void)state;
    team t;
    int silent = 2;
    open_team(&t, 3, false, 5);
    assert_nccl(team_start(&t));
    assert_nccl(team_run(&t, deal_task, &silent, NULL));
    assert_nccl(team_run(&t, receive_task, &silent, NULL));
    assert_nccl(nccl.ncclCommAbort(t.comms[0]));
    assert_nccl(team_sync(&t, 0));
    assert_false(team_empty(&t, 1));
    assert_nccl(nccl.ncclCommAbort(t.comms[1]));
    assert_nccl(team_sync(&t, 1));
    assert_nccl(nccl.ncclCommAbort(t.comms[2]));
    team_close(&t);
    assert_clean();
}

/* ---- connections ---- */

static mst_nccl_result sum_bytes_task(team *t, int rank, void *argument) {
    const size_t bytes = *(size_t *)argument;
    void *at = team_at(t, rank, 0, 0);
    TEAM_TRY(team_wait(t->comms[rank], nccl.ncclAllReduce(at, at, bytes, MST_NCCL_UINT8, MST_NCCL_SUM, t->comms[rank], t->streams[rank])));
    return team_sync(t, rank);
}

static mst_nccl_result broadcast_task(team *t, int rank, void *argument) {
    void *at = team_at(t, rank, 0, 0);
    (void)argument;
    TEAM_TRY(team_wait(t->comms[rank], nccl.ncclBroadcast(at, at, 100, MST_NCCL_UINT8, 0, t->comms[rank], t->streams[rank])));
    return team_sync(t, rank);
}

/* As sum_bytes_task, but a rank whose peer has failed does not wait for its stream. */
static mst_nccl_result connect_or_fail_task(team *t, int rank, void *argument) {
    const size_t bytes = *(size_t *)argument;
    void *at = team_at(t, rank, 0, 0);
    return team_wait(t->comms[rank], nccl.ncclAllReduce(at, at, bytes, MST_NCCL_UINT8, MST_NCCL_SUM, t->comms[rank], t->streams[rank]));
}

static uint64_t connections(void) { return muster_sim_calls("ncclConnect"); }

/* Each algorithm connects when it is first used, each pair of ranks with its first message; the
 * memory comes back with the last rank. */
static void connections_are_made_at_first_use(void **state) {
    (void)state;
    for (int blocking = 0; blocking < 2; blocking++) {
        team t;
        size_t small = 8, large = TEAM_BYTES;
        int dealer = 1;
        open_team(&t, 4, blocking, 2);
        const uint64_t before = muster_sim_memory_taken(0);
        assert_nccl(team_start(&t));
        assert_int_equal(connections(), 0);
        const uint64_t started = muster_sim_memory_taken(0);
        assert_true(started > before);
        for (int i = 0; i < 2; i++) assert_nccl(team_run(&t, sum_bytes_task, &small, NULL));
        assert_int_equal(connections(), 4);
        assert_true(muster_sim_memory_taken(0) > started);
        for (int i = 0; i < 2; i++) assert_nccl(team_run(&t, sum_bytes_task, &large, NULL));
        assert_int_equal(connections(), 8);
        for (int i = 0; i < 2; i++) assert_nccl(team_run(&t, broadcast_task, NULL, NULL));
        assert_int_equal(connections(), 12);
        for (int i = 0; i < 2; i++) assert_nccl(team_run(&t, deal_task, &dealer, NULL));
        assert_int_equal(connections(), 12 + 3 + 3); /* to three ranks, and on each of them from one */
        assert_nccl(team_end(&t, false));
        assert_int_equal(muster_sim_memory_taken(0), before);
        team_close(&t);
        assert_clean();
    }
}

/* Leaves less than 4 KiB of a device's memory; the context is current. */
enum { FILLED_MOST = 64 };
static int fill_memory(mst_cu_address *blocks) {
    int count = 0;
    for (size_t bytes = 32 << 20; bytes >= 4096; bytes /= 2)
        while (count < FILLED_MOST && cuda.cuMemAlloc_v2(&blocks[count], bytes) == MST_CU_SUCCESS) count++;
    assert_in_range(count, 1, FILLED_MOST - 1);
    return count;
}

static void a_connection_can_fail(void **state) {
    (void)state;
    for (int blocking = 0; blocking < 2; blocking++) {
        for (int memory = 0; memory < 2; memory++) {
            team t;
            size_t small = 8;
            mst_nccl_result results[TEAM_MOST];
            mst_cu_address blocks[FILLED_MOST];
            int filled = 0;
            open_team(&t, 2, blocking, 0);
            assert_nccl(team_start(&t));
            cuda.cuCtxSetCurrent(t.contexts[0]);
            if (memory)
                filled = fill_memory(blocks);
            else
                muster_sim_inject("ncclConnect", 1, MST_NCCL_SYSTEM_ERROR);
            const mst_nccl_result wanted = memory ? MST_NCCL_UNHANDLED_CUDA_ERROR : MST_NCCL_SYSTEM_ERROR;
            /* the rank whose connection was made waits in its stream, until it is aborted */
            team_run(&t, connect_or_fail_task, &small, results);
            assert_true(results[0] == wanted || (!memory && results[1] == wanted));
            assert_nccl(team_end(&t, true));
            for (int i = 0; i < filled; i++) assert_int_equal(cuda.cuMemFree_v2(blocks[i]), MST_CU_SUCCESS);
            team_close(&t);
            assert_clean();
        }
    }
}

/* ---- the last rank pays for all ---- */

typedef struct last_end {
    mst_nccl_comm comm;
    mst_cu_context context;
    bool abort;
    mst_nccl_result result;
    _Atomic bool returned;
} last_end;

static void *end_last(void *argument) {
    last_end *e = argument;
    cuda.cuCtxSetCurrent(e->context);
    e->result = e->abort ? nccl.ncclCommAbort(e->comm) : nccl.ncclCommDestroy(e->comm);
    e->returned = true;
    return NULL;
}

static mst_nccl_result issue_sum_task(team *t, int rank, void *argument) {
    (void)argument;
    return team_wait(t->comms[rank], sum(t, rank, 0, 10));
}

/* Something stands in the stream of rank 0 in front of the collective: rank 0 ends its communicator
 * at once, rank 1 waits for it, whether the communicators block or not. */
static void the_last_rank_that_ends_waits_for_the_streams_of_all(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const bool blocking = kind & 1, abort = kind & 2;
        team t;
        pthread_t thread;
        size_t small = 40;
        open_team(&t, 2, blocking, 0);
        assert_nccl(team_start(&t));
        assert_nccl(team_run(&t, sum_bytes_task, &small, NULL));
        cuda.cuCtxSetCurrent(t.contexts[0]);
        muster_sim_inject_queue_stall("cuMemsetD8Async", 1, 0);
        assert_nccl(team_fill(&t, 0, 1, 1));
        assert_nccl(team_run(&t, issue_sum_task, NULL, NULL));
        last_end last = {.comm = t.comms[1], .context = t.contexts[1], .abort = abort};
        assert_nccl(abort ? nccl.ncclCommAbort(t.comms[0]) : nccl.ncclCommDestroy(t.comms[0]));
        assert_int_equal(pthread_create(&thread, NULL, end_last, &last), 0);
        nanosleep(&(struct timespec){0, 20000000}, NULL); /* only to give a wrong return time to happen */
        assert_false(last.returned);
        muster_sim_release();
        pthread_join(thread, NULL);
        assert_nccl(last.result);
        if (!abort) assert_reported("ncclCommDestroy waits in the host");
        muster_sim_hazards_clear();
        for (int rank = 0; rank < 2; rank++) assert_nccl(team_sync(&t, rank));
        team_close(&t);
        assert_clean();
    }
}

/* ---- failures ---- */

static mst_nccl_result wait_task(team *t, int rank, void *argument) {
    (void)argument;
    return team_wait(t->comms[rank], sum(t, rank, 0, 1));
}

static void a_lost_device_ends_what_waits_on_it_and_is_told(void **state) {
    (void)state;
    team t;
    open_team(&t, 2, false, 2);
    assert_nccl(team_start(&t));
    assert_nccl(team_run(&t, wait_task, NULL, NULL));
    muster_sim_lose_device(1);
    mst_nccl_result now;
    assert_nccl(nccl.ncclCommGetAsyncError(t.comms[1], &now));
    assert_int_equal(now, MST_NCCL_UNHANDLED_CUDA_ERROR);
    mst_nccl_result results[TEAM_MOST];
    int missing = -1;
    team_run(&t, issue_task, &missing, results);
    assert_int_equal(results[1], MST_NCCL_UNHANDLED_CUDA_ERROR);
    assert_nccl(team_end(&t, true));
    assert_nccl(team_sync(&t, 0));
}

/* Whatever fails gives its code, leaves nothing, and the next call is well. */
static void every_symbol_can_be_made_to_fail(void **state) {
    (void)state;
    team t;
    float factor = 1;
    unsigned operation = 0;
    open_team(&t, 1, true, 0);
    assert_nccl(team_start(&t));
    cuda.cuCtxSetCurrent(t.contexts[0]);
    void *at = team_at(&t, 0, 0, 0);
    mst_nccl_comm comm = t.comms[0], part = NULL;
    mst_nccl_config config = team_config(true);
    mst_nccl_id id;
    int version;
#define FAILS(symbol, call)                               \
    muster_sim_inject(#symbol, 1, MST_NCCL_SYSTEM_ERROR); \
    assert_int_equal(nccl.symbol call, MST_NCCL_SYSTEM_ERROR)
    FAILS(ncclGetVersion, (&version));
    FAILS(ncclGetUniqueId, (&id));
    assert_nccl(nccl.ncclGetUniqueId(&id));
    FAILS(ncclCommInitRankConfig, (&part, 1, id, 0, &config));
    assert_null(part);
    FAILS(ncclCommSplit, (comm, 0, 0, &part, NULL));
    FAILS(ncclCommGetAsyncError, (comm, &operation));
    FAILS(ncclCommFinalize, (comm));
    FAILS(ncclGroupStart, ());
    assert_nccl(nccl.ncclGroupStart());
    FAILS(ncclGroupEnd, ());
    FAILS(ncclRedOpCreatePreMulSum, (&operation, &factor, MST_NCCL_FLOAT32, MST_NCCL_SCALAR_HOST_IMMEDIATE, comm));
    FAILS(ncclAllReduce, (at, at, 1, MST_NCCL_INT8, MST_NCCL_SUM, comm, t.streams[0]));
    FAILS(ncclReduce, (at, at, 1, MST_NCCL_INT8, MST_NCCL_SUM, 0, comm, t.streams[0]));
    FAILS(ncclBroadcast, (at, at, 1, MST_NCCL_INT8, 0, comm, t.streams[0]));
    FAILS(ncclAllGather, (at, at, 1, MST_NCCL_INT8, comm, t.streams[0]));
    FAILS(ncclReduceScatter, (at, at, 1, MST_NCCL_INT8, MST_NCCL_SUM, comm, t.streams[0]));
    FAILS(ncclSend, (at, 1, MST_NCCL_INT8, 0, comm, t.streams[0]));
    FAILS(ncclRecv, (at, 1, MST_NCCL_INT8, 0, comm, t.streams[0]));
    FAILS(ncclAlltoAll, (at, at, 1, MST_NCCL_INT8, comm, t.streams[0]));
    FAILS(ncclGather, (at, at, 1, MST_NCCL_INT8, 0, comm, t.streams[0]));
    FAILS(ncclScatter, (at, at, 1, MST_NCCL_INT8, 0, comm, t.streams[0]));
    assert_nccl(nccl.ncclRedOpCreatePreMulSum(&operation, &factor, MST_NCCL_FLOAT32, MST_NCCL_SCALAR_HOST_IMMEDIATE, comm));
    FAILS(ncclRedOpDestroy, (operation, comm));
    muster_sim_inject("ncclGetErrorString", 1, MST_NCCL_SYSTEM_ERROR);
    assert_string_equal(nccl.ncclGetErrorString(MST_NCCL_SUCCESS), "unknown result code");
    muster_sim_inject("ncclGetLastError", 1, MST_NCCL_SYSTEM_ERROR);
    assert_string_equal(nccl.ncclGetLastError(NULL), "");
    assert_nccl(sum(&t, 0, 0, 1));
    assert_nccl(team_sync(&t, 0));
    FAILS(ncclCommDestroy, (comm)); /* it is destroyed all the same, as is one that is aborted */
    assert_nccl(team_start(&t));
    FAILS(ncclCommAbort, (t.comms[0]));
    assert_nccl(team_sync(&t, 0));
    team_close(&t);
    assert_clean();
}

int main(void) {
    const char *reason = team_open_libraries();
    if (reason) {
        printf("MUSTER_CUDA_LIBRARIES must name the simulated libraries: %s\n", reason);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_follow_each_other_in_the_stream),
        cmocka_unit_test(a_group_joins_the_streams_that_it_names),
        cmocka_unit_test(one_thread_drives_all_ranks_in_groups),
        cmocka_unit_test(a_group_may_hold_several_communicators),
        cmocka_unit_test(starting_waits_for_the_last_rank),
        cmocka_unit_test(starting_without_blocking_is_in_progress_until_an_abort),
        cmocka_unit_test(starting_with_an_aborted_rank_waits_for_an_abort),
        cmocka_unit_test(a_missing_rank_is_waited_for_until_all_abort),
        cmocka_unit_test(an_abort_ends_its_own_rank_only),
        cmocka_unit_test(connections_are_made_at_first_use),
        cmocka_unit_test(a_connection_can_fail),
        cmocka_unit_test(the_last_rank_that_ends_waits_for_the_streams_of_all),
        cmocka_unit_test(a_lost_device_ends_what_waits_on_it_and_is_told),
        cmocka_unit_test(every_symbol_can_be_made_to_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

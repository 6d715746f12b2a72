/* What the simulated NCCL reports: ranks that ask for different things, and rules that are broken
 * on purpose. */
#include "nccl_check.h"

/* ---- ranks that differ ---- */

static mst_nccl_result mismatch_task(team *t, int rank, void *argument) {
    int kind = *(int *)argument;
    void *at = team_at(t, rank, 0, 0);
    mst_nccl_comm comm = t->comms[rank];
    mst_cu_stream stream = t->streams[rank];
    mst_nccl_result result = MST_NCCL_SUCCESS;
    if (kind == 0) result = nccl.ncclAllReduce(at, at, rank ? 10 : 11, MST_NCCL_INT32, MST_NCCL_SUM, comm, stream);
    if (kind == 1) result = nccl.ncclAllReduce(at, at, 10, rank ? MST_NCCL_INT32 : MST_NCCL_FLOAT32, MST_NCCL_SUM, comm, stream);
    if (kind == 2) result = nccl.ncclAllReduce(at, at, 10, MST_NCCL_INT32, rank ? MST_NCCL_SUM : MST_NCCL_MAX, comm, stream);
    if (kind == 3) result = nccl.ncclBroadcast(at, at, 10, MST_NCCL_INT32, rank ? 0 : 1, comm, stream);
    if (kind == 4 && rank) result = nccl.ncclBroadcast(at, at, 10, MST_NCCL_INT32, 0, comm, stream);
    if (kind == 4 && !rank) result = nccl.ncclAllReduce(at, at, 10, MST_NCCL_INT32, MST_NCCL_SUM, comm, stream);
    if (kind == 5 && rank) result = nccl.ncclSend(at, 10, MST_NCCL_INT32, 0, comm, stream);
    if (kind == 5 && !rank) result = nccl.ncclRecv(at, 9, MST_NCCL_INT32, 1, comm, stream);
    return team_wait(comm, result);
}

static void what_differs_is_reported_and_waits_until_aborted(void **state) {
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        team t;
        open_team(&t, 2, kind % 2, (uint64_t)kind);
        assert_nccl(team_start(&t));
        assert_nccl(team_run(&t, mismatch_task, &kind, NULL));
        while (!muster_sim_hazard_count()) sched_yield();
        assert_reported("they wait until they are aborted");
        assert_false(team_empty(&t, 0));
        assert_false(team_empty(&t, 1));
        assert_nccl(team_run(&t, abort_and_sync_task, NULL, NULL));
        team_close(&t);
        muster_sim_hazards_clear();
        assert_clean();
    }
}

static void starting_with_other_sizes_or_the_same_rank_is_reported(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        team t;
        mst_nccl_config config = team_config(false);
        open_team(&t, 2, false, 0);
        assert_nccl(nccl.ncclGetUniqueId(&t.id));
        for (int i = 0; i < 2; i++) {
            cuda.cuCtxSetCurrent(t.contexts[i]);
            assert_int_equal(nccl.ncclCommInitRankConfig(&t.comms[i], kind ? 2 : 2 + i, t.id, kind ? 0 : i, &config), MST_NCCL_IN_PROGRESS);
        }
        assert_reported("nobody will get out of ncclCommInitRankConfig but by an abort");
        for (int i = 0; i < 2; i++) assert_nccl(nccl.ncclCommAbort(t.comms[i]));
        team_close(&t);
    }
}

/* ---- rules broken on purpose ---- */

typedef struct intruder {
    team *t;
    mst_nccl_result result;
} intruder;

static void *intrude(void *argument) {
    intruder *i = argument;
    cuda.cuCtxSetCurrent(i->t->contexts[0]);
    i->result = sum(i->t, 0, 1, 1);
    return NULL;
}

static void two_threads_on_a_device_are_reported(void **state) {
    (void)state;
    team t;
    pthread_t thread;
    open_team(&t, 1, true, 0);
    assert_nccl(team_start(&t));
    intruder other = {&t, MST_NCCL_SUCCESS};
    cuda.cuCtxSetCurrent(t.contexts[0]);
    assert_nccl(nccl.ncclGroupStart());
    assert_nccl(sum(&t, 0, 0, 1));
    assert_int_equal(pthread_create(&thread, NULL, intrude, &other), 0);
    pthread_join(thread, NULL);
    assert_nccl(nccl.ncclGroupEnd());
    assert_reported("two threads issue NCCL operations on the device");
    assert_nccl(team_sync(&t, 0));
    assert_nccl(team_end(&t, false));
    team_close(&t);
}

static mst_nccl_result orders_task(team *t, int rank, void *argument) {
    team *parts = argument;
    mst_nccl_result result = rank ? sum(t, rank, 0, 1) : sum(parts, rank, 1, 1);
    TEAM_TRY(result == MST_NCCL_IN_PROGRESS ? MST_NCCL_SUCCESS : result);
    result = rank ? sum(parts, rank, 1, 1) : sum(t, rank, 0, 1);
    TEAM_TRY(result == MST_NCCL_IN_PROGRESS ? MST_NCCL_SUCCESS : result);
    return MST_NCCL_SUCCESS;
}

static void other_orders_of_communicators_are_reported(void **state) {
    (void)state;
    team t, parts;
    memset(&parts, 0, sizeof parts);
    open_team(&t, 2, true, 0);
    assert_nccl(team_start(&t));
    parts = t;
    assert_nccl(team_start(&parts));
    for (int i = 0; i < 2; i++) { /* connects both */
        assert_nccl(team_run(&t, powers_task, NULL, NULL));
        assert_nccl(team_run(&parts, powers_task, NULL, NULL));
    }
    /* streams of their own: in one the two would wait for each other for ever */
    for (int rank = 0; rank < 2; rank++) {
        cuda.cuCtxSetCurrent(t.contexts[rank]);
        assert_int_equal(cuda.cuStreamCreate(&parts.streams[rank], MST_CU_STREAM_NON_BLOCKING), MST_CU_SUCCESS);
    }
    assert_nccl(team_run(&t, orders_task, &parts, NULL));
    assert_reported("communicators are used in another order than on another device");
    for (int rank = 0; rank < 2; rank++) {
        assert_nccl(team_sync(&t, rank));
        assert_nccl(team_sync(&parts, rank));
    }
    assert_nccl(team_end(&t, false));
    assert_nccl(team_end(&parts, false));
    for (int rank = 0; rank < 2; rank++) cuda.cuStreamDestroy_v2(parts.streams[rank]);
    team_close(&t);
}

static void a_collective_before_all_ranks_have_started_is_reported(void **state) {
    (void)state;
    team t;
    mst_nccl_config config = team_config(false);
    open_team(&t, 2, false, 0);
    assert_nccl(nccl.ncclGetUniqueId(&t.id));
    mst_nccl_result result[2];
    for (int rank = 0; rank < 2; rank++) {
        cuda.cuCtxSetCurrent(t.contexts[rank]);
        result[rank] = nccl.ncclCommInitRankConfig(&t.comms[rank], 2, t.id, rank, &config);
    }
    assert_int_equal(result[0], MST_NCCL_IN_PROGRESS); /* rank 1 had not come */
    assert_nccl(team_wait(t.comms[1], result[1]));
    void *at = team_at(&t, 1, 0, 0);
    result[1] = nccl.ncclSend(at, 1, MST_NCCL_INT32, 0, t.comms[1], t.streams[1]);
    assert_int_equal(result[1], MST_NCCL_IN_PROGRESS); /* rank 0 does not connect */
    assert_reported("a barrier belongs between");
    assert_nccl(team_wait(t.comms[0], result[0]));
    assert_nccl(team_end(&t, true));
    team_close(&t);
}

static void use_after_the_end_is_reported(void **state) {
    (void)state;
    team t;
    open_team(&t, 1, true, 0);
    assert_nccl(team_start(&t));
    mst_nccl_comm comm = t.comms[0];
    assert_nccl(team_end(&t, false));
    mst_nccl_result now;
    assert_int_equal(nccl.ncclCommGetAsyncError(comm, &now), MST_NCCL_INVALID_ARGUMENT);
    assert_reported("destroyed or aborted before");
    assert_int_equal(nccl.ncclCommDestroy(comm), MST_NCCL_INVALID_ARGUMENT);
    team_close(&t);
}

static void allocation_while_a_collective_flies_is_reported(void **state) {
    (void)state;
    team t;
    open_team(&t, 2, true, 0);
    assert_nccl(team_start(&t));
    mst_cu_address address;
    void *at = team_at(&t, 0, 0, 0);
    int dealer = 0;
    assert_nccl(team_run(&t, deal_task, &dealer, NULL));
    cuda.cuCtxSetCurrent(t.contexts[0]);
    assert_nccl(nccl.ncclSend(at, 1, MST_NCCL_INT32, 1, t.comms[0], t.streams[0])); /* nobody receives */
    cuda.cuCtxSetCurrent(t.contexts[1]);
    assert_int_equal(cuda.cuMemAlloc_v2(&address, 100), MST_CU_SUCCESS);
    assert_reported("cuMemAlloc");
    assert_reported("while a collective is in flight");
    assert_nccl(team_run(&t, abort_and_sync_task, NULL, NULL));
    cuda.cuMemFree_v2(address);
    team_close(&t);
}

static void a_communicator_that_is_left_is_reported(void **state) {
    (void)state;
    team t;
    open_team(&t, 2, true, 0);
    assert_nccl(team_start(&t));
    assert_nccl(nccl.ncclCommDestroy(t.comms[0]));
    assert_true(muster_sim_check_leaks() > 0);
    assert_reported("leak: device 1: 1 NCCL communicator");
    muster_sim_hazards_clear();
    assert_nccl(nccl.ncclCommDestroy(t.comms[1]));
    team_close(&t);
    assert_clean();
}

static mst_nccl_result overlap_task(team *t, int rank, void *argument) {
    (void)argument;
    return nccl.ncclAllReduce(team_at(t, rank, 0, 0), team_at(t, rank, 0, 4), 10, MST_NCCL_INT32, MST_NCCL_SUM, t->comms[rank],
                              t->streams[rank]);
}

static void overlapping_buffers_are_reported(void **state) {
    (void)state;
    team t;
    open_team(&t, 2, true, 0);
    assert_nccl(team_start(&t));
    assert_nccl(team_run(&t, overlap_task, NULL, NULL));
    assert_reported("overlap");
    for (int rank = 0; rank < 2; rank++) assert_nccl(team_sync(&t, rank));
    assert_nccl(team_end(&t, false));
    team_close(&t);
}

static mst_nccl_result foreign_memory_task(team *t, int rank, void *argument) {
    (void)argument;
    int other = (rank + 1) % t->size; /* whose memory this device has not been given access to */
    return nccl.ncclAllReduce(team_at(t, other, 0, 0), team_at(t, rank, 1, 0), 10, MST_NCCL_INT32, MST_NCCL_SUM, t->comms[rank],
                              t->streams[rank]);
}

static void memory_out_of_reach_spoils_the_context(void **state) {
    (void)state;
    team t;
    open_team(&t, 2, true, 0);
    assert_nccl(team_start(&t));
    assert_nccl(team_run(&t, foreign_memory_task, NULL, NULL));
    mst_cu_result result;
    while ((result = cuda.cuStreamQuery(t.streams[0])) == MST_CU_NOT_READY) sched_yield();
    assert_int_equal(result, MST_CU_ILLEGAL_ADDRESS);
    assert_reported("memory that this device cannot reach");
    team_end(&t, true);
}

int main(void) {
    const char *reason = team_open_libraries();
    if (reason) {
        printf("MUSTER_CUDA_LIBRARIES must name the simulated libraries: %s\n", reason);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_is_reported_and_waits_until_aborted),
        cmocka_unit_test(starting_with_other_sizes_or_the_same_rank_is_reported),
        cmocka_unit_test(two_threads_on_a_device_are_reported),
        cmocka_unit_test(other_orders_of_communicators_are_reported),
        cmocka_unit_test(a_collective_before_all_ranks_have_started_is_reported),
        cmocka_unit_test(use_after_the_end_is_reported),
        cmocka_unit_test(allocation_while_a_collective_flies_is_reported),
        cmocka_unit_test(a_communicator_that_is_left_is_reported),
        cmocka_unit_test(overlapping_buffers_are_reported),
        cmocka_unit_test(memory_out_of_reach_spoils_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The life of NCCL's communicators on all GPUs of the machine: how long they take to make, the
 * first and the second use of every algorithm, a rank that never comes, and making them again and
 * again. On the driver and NCCL alone. */
#include "base_check.h"
#include "base_skip.h"
#include "nccl_team.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { IN, OUT, REMAKES = 20 };
static int devices;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* ---- a trial of everything that may connect at its first use ---- */

typedef enum { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, RING, ALL_TO_ALL, KINDS } kind;
static const char *const kind_names[KINDS] = {"all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "ring", "all_to_all"};
typedef struct trial {
    kind what;
    size_t bytes; /* of the larger of input and output */
    double ms;    /* of rank 0 */
} trial;

static mst_nccl_result messages(team *t, int rank, const trial *j, size_t count) {
    const size_t part = count / (size_t)t->size;
    TEAM_TRY(nccl.ncclGroupStart());
    for (int peer = 0; peer < t->size; peer++) {
        const bool all = j->what == ALL_TO_ALL;
        const size_t n = all ? part : count, at = all ? (size_t)peer * part * 4 : 0;
        if (all || peer == (rank + 1) % t->size)
            TEAM_TRY(nccl.ncclSend(team_at(t, rank, IN, at), n, MST_NCCL_FLOAT32, peer, t->comms[rank], t->streams[rank]));
        if (all || peer == (rank + t->size - 1) % t->size)
            TEAM_TRY(nccl.ncclRecv(team_at(t, rank, OUT, at), n, MST_NCCL_FLOAT32, peer, t->comms[rank], t->streams[rank]));
    }
    return nccl.ncclGroupEnd();
}

static mst_nccl_result issue(team *t, int rank, const trial *j) {
    const size_t count = j->bytes / 4, part = count / (size_t)t->size;
    void *in = team_at(t, rank, IN, 0), *out = team_at(t, rank, OUT, 0);
    mst_nccl_comm comm = t->comms[rank];
    mst_cu_stream stream = t->streams[rank];
    switch (j->what) {
    case ALL_REDUCE:
        return nccl.ncclAllReduce(in, out, count, MST_NCCL_FLOAT32, MST_NCCL_SUM, comm, stream);
    case REDUCE:
        return nccl.ncclReduce(in, out, count, MST_NCCL_FLOAT32, MST_NCCL_SUM, 0, comm, stream);
    case REDUCE_SCATTER:
        return nccl.ncclReduceScatter(in, out, part, MST_NCCL_FLOAT32, MST_NCCL_SUM, comm, stream);
    case ALL_GATHER:
        return nccl.ncclAllGather(in, out, part, MST_NCCL_FLOAT32, comm, stream);
    case BROADCAST:
        return nccl.ncclBroadcast(in, out, count, MST_NCCL_FLOAT32, 0, comm, stream);
    default:
        return messages(t, rank, j, count);
    }
}

static mst_nccl_result trial_task(team *t, int rank, void *argument) {
    trial *j = argument;
    TEAM_TRY(team_fill(t, rank, IN, 0)); /* zeros: 0.0f */
    TEAM_TRY(team_fill(t, rank, OUT, 0xFF));
    TEAM_TRY(team_sync(t, rank));
    const double began = now_ms();
    TEAM_TRY(team_wait(t->comms[rank], issue(t, rank, j)));
    TEAM_TRY(team_sync(t, rank));
    if (rank == 0) j->ms = now_ms() - began;
    unsigned last = 1;
    const bool has_output = j->what != REDUCE || rank == 0;
    const size_t bytes = j->what == REDUCE_SCATTER ? j->bytes / (size_t)t->size : j->bytes;
    if (has_output) TEAM_TRY(team_read(t, rank, OUT, bytes - 4, &last, sizeof last));
    return !has_output || last == 0 ? MST_NCCL_SUCCESS : MST_NCCL_INTERNAL_ERROR;
}

static void every_algorithm_at_its_first_and_second_use(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 64 << 10, TEAM_BYTES}; /* the first: one element for each rank */
    int trials = 0;
    for (int blocking = 0; blocking < 2; blocking++) {
        team t;
        assert_true(team_open(&t, devices, blocking));
        const double began = now_ms();
        assert_nccl(team_start(&t));
        printf("found: NCCL: %s communicators of %d ranks took %.1f ms\n", blocking ? "blocking" : "non-blocking", devices,
               now_ms() - began);
        for (int what = 0; what < KINDS; what++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                const size_t unit = 4 * (size_t)devices, bytes = sizes[s] < unit ? unit : sizes[s] / unit * unit;
                trial first = {.what = (kind)what, .bytes = bytes}, second = first;
                assert_nccl(team_run(&t, trial_task, &first, NULL));
                assert_nccl(team_run(&t, trial_task, &second, NULL));
                trials += 2;
                printf("found: NCCL: %s, %zu bytes, %s: %.3f ms, then %.3f ms\n", kind_names[what], bytes,
                       blocking ? "blocking" : "non-blocking", first.ms, second.ms);
            }
        assert_nccl(team_end(&t, false));
        team_close(&t);
    }
    assert_int_equal(trials, 2 * KINDS * 3 * 2);
}

/* ---- a rank that never comes ---- */

typedef struct stuck {
    team *newer; /* a second communicator for each rank, on the same streams; NULL: none */
    pthread_barrier_t together;
    double ms[TEAM_MOST];
} stuck;

static mst_nccl_result enter(team *t, int rank, mst_nccl_comm comm) {
    void *at = team_at(t, rank, IN, 0);
    mst_nccl_result result = nccl.ncclAllReduce(at, at, 256, MST_NCCL_FLOAT32, MST_NCCL_SUM, comm, t->streams[rank]);
    for (int i = 0; i < 50 && result == MST_NCCL_IN_PROGRESS; i++) { /* it may stay so: a rank is missing */
        nccl.ncclCommGetAsyncError(comm, &result);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return result;
}

/* The last rank enters nothing of the first communicator; of the second it enters all. All
 * communicators of a rank are aborted in one group, the newest first. */
static mst_nccl_result stuck_task(team *t, int rank, void *argument) {
    stuck *s = argument;
    if (rank < t->size - 1) enter(t, rank, t->comms[rank]);
    if (s->newer) enter(t, rank, s->newer->comms[rank]);
    pthread_barrier_wait(&s->together);
    const double began = now_ms();
    TEAM_TRY(nccl.ncclGroupStart());
    if (s->newer) nccl.ncclCommAbort(s->newer->comms[rank]);
    nccl.ncclCommAbort(t->comms[rank]);
    nccl.ncclGroupEnd();
    const mst_nccl_result result = team_sync(t, rank);
    s->ms[rank] = now_ms() - began;
    t->comms[rank] = NULL;
    return result;
}

/* Waits at most `seconds` for the abort: a process that hangs in it would hang here, too. */
typedef struct watched {
    team *t;
    stuck *s;
    mst_nccl_result result;
} watched;
static void *run_stuck(void *argument) {
    watched *w = argument;
    w->result = team_run(w->t, stuck_task, w->s, NULL);
    return NULL;
}

static void abort_within(bool two, int seconds) {
    team t, newer;
    stuck s = {.newer = two ? &newer : NULL};
    watched w = {&t, &s, MST_NCCL_IN_PROGRESS};
    struct timespec until;
    pthread_t thread;
    assert_true(team_open(&t, devices, false));
    assert_nccl(team_start(&t));
    if (two) {
        newer = t; /* the same streams and memory */
        assert_nccl(team_start(&newer));
    }
    pthread_barrier_init(&s.together, NULL, (unsigned)devices);
    assert_int_equal(pthread_create(&thread, NULL, run_stuck, &w), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        printf("FAILED: %d communicators for each rank: the abort did not end within %d s\n", two ? 2 : 1, seconds);
        fflush(stdout);
        _Exit(1); /* the threads that hang use this function's memory */
    }
    double longest = 0;
    for (int rank = 0; rank < devices; rank++) longest = s.ms[rank] > longest ? s.ms[rank] : longest;
    printf("found: NCCL: a stuck rank, %d communicators for each: the abort took %.0f ms\n", two ? 2 : 1, longest);
    assert_nccl(w.result);
    pthread_barrier_destroy(&s.together);
    team_close(&t);
}

/* 5 s on hardware; a simulated machine may be slow for reasons of its own. */
static int limit(void) { return getenv("MUSTER_CUDA_LIBRARIES") ? 60 : 5; }

static void an_abort_ends_with_one_communicator_for_each_rank(void **state) {
    (void)state;
    if (devices < 2) SKIP("it needs two devices");
    abort_within(false, limit());
}
static void an_abort_ends_with_two_communicators_for_each_rank(void **state) {
    (void)state;
    if (devices < 2) SKIP("it needs two devices");
    abort_within(true, limit());
}

/* ---- again and again ---- */

static size_t free_bytes(const team *t) {
    size_t free_now = 0, total = 0;
    assert_int_equal(cuda.cuCtxSetCurrent(t->contexts[0]), MST_CU_SUCCESS);
    assert_int_equal(cuda.cuMemGetInfo_v2(&free_now, &total), MST_CU_SUCCESS);
    return free_now;
}

/* The first two may take what the driver and NCCL keep for the process. */
static void making_them_again_leaves_no_memory_behind(void **state) {
    (void)state;
    enum { SETTLED = 2, ALLOWED = 4 << 20 };
    team t;
    size_t before = 0, after = 0;
    assert_true(team_open(&t, devices, false));
    const double began = now_ms();
    for (int i = 0; i < SETTLED + REMAKES; i++) {
        trial j = {.what = ALL_REDUCE, .bytes = TEAM_BYTES};
        assert_nccl(team_start(&t));
        assert_nccl(team_run(&t, trial_task, &j, NULL));
        assert_nccl(team_end(&t, i % 2));
        after = free_bytes(&t);
        if (i == SETTLED - 1) before = after;
    }
    printf("found: NCCL: %d times made and ended in %.0f ms; device memory that is gone: %lld KiB\n", SETTLED + REMAKES, now_ms() - began,
           ((long long)before - (long long)after) / 1024);
    assert_true(after + ALLOWED >= before);
    team_close(&t);
}

int main(void) {
    const char *reason = team_open_libraries();
    if (reason) return SKIP_SUITE(reason);
    devices = team_devices();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_at_its_first_and_second_use), cmocka_unit_test(an_abort_ends_with_one_communicator_for_each_rank),
        cmocka_unit_test(an_abort_ends_with_two_communicators_for_each_rank), cmocka_unit_test(making_them_again_leaves_no_memory_behind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

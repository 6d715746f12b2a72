/* What a caller may rely on, symbol by symbol: the name of each test begins with its symbol. Holds
 * for the real library as for the simulated one; script/gpu-check runs it against the real one.
 * With one device most of it is done by one rank; what needs two is then skipped. */
#include "base_check.h"
#include "base_skip.h"
#include "half_impl.h"
#include "nccl_team.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static team crew; /* all devices */
static int wanted_ranks(void) { return team_devices(); }

static int open_crew(void **state) {
    (void)state;
    if (!team_open(&crew, wanted_ranks(), true)) return -1;
    if (team_start(&crew) == MST_NCCL_SUCCESS) return 0;
    fprintf(stderr, "no communicators: %s\n", nccl.ncclGetLastError(NULL));
    return -1;
}

static int close_crew(void **state) {
    (void)state;
    mst_nccl_result result = team_end(&crew, false);
    team_close(&crew);
    return result == MST_NCCL_SUCCESS ? 0 : -1;
}

/* ---- values ---- */

static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
enum { TYPES = 10, COUNT = 1000 };

static double value_of(int rank, size_t i) { return (i + (size_t)rank) % 3 == 0 ? 2 : 1; }

static void encode(unsigned type, double value, void *at) {
    int64_t whole = (int64_t)value;
    float real = (float)value;
    uint16_t half = type == MST_NCCL_FLOAT16 ? mst_f32_to_f16(real) : mst_f32_to_bf16(real);
    if (type <= MST_NCCL_UINT64)
        memcpy(at, &whole, widths[type]); /* little endian */
    else if (type == MST_NCCL_FLOAT32)
        memcpy(at, &real, sizeof real);
    else if (type == MST_NCCL_FLOAT64)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &half, sizeof half);
}

static double decode(unsigned type, const void *at) {
    int8_t i8;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
    uint16_t half;
    switch (type) {
    case MST_NCCL_INT8:
        return memcpy(&i8, at, 1), i8;
    case MST_NCCL_UINT8:
        return *(const uint8_t *)at;
    case MST_NCCL_INT32:
        return memcpy(&i32, at, 4), i32;
    case MST_NCCL_UINT32:
        return memcpy(&i32, at, 4), (double)(uint32_t)i32;
    case MST_NCCL_INT64:
    case MST_NCCL_UINT64:
        return memcpy(&i64, at, 8), (double)i64;
    case MST_NCCL_FLOAT32:
        return memcpy(&f32, at, 4), f32;
    case MST_NCCL_FLOAT64:
        return memcpy(&f64, at, 8), f64;
    case MST_NCCL_FLOAT16:
        return memcpy(&half, at, 2), mst_f16_to_f32(half);
    default:
        return memcpy(&half, at, 2), mst_bf16_to_f32(half);
    }
}

/* ---- one collective, on all ranks, and what must come of it ---- */

typedef enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, RING } kind;
static const bool reduces[] = {[ALL_REDUCE] = true, [REDUCE] = true, [REDUCE_SCATTER] = true, [RING] = false};
typedef struct job {
    kind what;
    unsigned type, operation;
    int root;
    size_t count;
    bool in_place;
    int residence; /* of the factor of a PreMulSum; -1: none */
    _Atomic int wrong;
} job;

enum { IN, OUT, FACTOR };

static double combine(const team *t, const job *j, size_t i) {
    double sum = 0, product = 1, most = 0, least = 9;
    for (int rank = 0; rank < t->size; rank++) {
        double value = value_of(rank, i), factor = j->residence < 0 ? 1 : rank + 1;
        sum += value * factor;
        product *= value;
        most = fmax(most, value);
        least = fmin(least, value);
    }
    if (j->residence >= 0 || j->operation == MST_NCCL_SUM) return sum;
    if (j->operation == MST_NCCL_AVG) return j->type <= MST_NCCL_UINT64 ? floor(sum / t->size) : sum / t->size;
    return j->operation == MST_NCCL_PROD ? product : j->operation == MST_NCCL_MAX ? most : least;
}

static size_t output_count(const team *t, const job *j, int rank) {
    if ((j->what == REDUCE || j->what == GATHER) && rank != j->root) return 0;
    return j->what == ALL_GATHER || j->what == ALL_TO_ALL || j->what == GATHER ? j->count * (size_t)t->size : j->count;
}

static double expected(const team *t, const job *j, int rank, size_t i) {
    size_t n = j->count, own = (size_t)rank * n;
    switch (j->what) {
    case ALL_REDUCE:
    case REDUCE:
        return combine(t, j, i);
    case REDUCE_SCATTER:
        return combine(t, j, own + i);
    case BROADCAST:
        return value_of(j->root, i);
    case SCATTER:
        return value_of(j->root, own + i);
    case ALL_GATHER:
    case GATHER:
        return value_of((int)(i / n), i % n);
    case ALL_TO_ALL:
        return value_of((int)(i / n), own + i % n);
    default:
        return value_of((rank + t->size - 1) % t->size, i);
    }
}

/* Where input and output lie: in place they share the buffer IN, as each collective wants it. */
static void places(const team *t, const job *j, int rank, size_t *in, int *out_buffer, size_t *out) {
    size_t own = (size_t)rank * j->count * widths[j->type];
    *in = *out = 0;
    *out_buffer = j->in_place ? IN : OUT;
    if (!j->in_place) return;
    if (j->what == ALL_GATHER || (j->what == GATHER && rank == j->root)) *in = own;
    if (j->what == REDUCE_SCATTER || (j->what == SCATTER && rank == j->root)) *out = own;
    (void)t;
}

static mst_nccl_result factor_of(team *t, const job *j, int rank, unsigned *operation) {
    unsigned char factor[8] = {0};
    *operation = j->operation;
    if (j->residence < 0) return MST_NCCL_SUCCESS;
    encode(j->type, rank + 1, factor);
    if (j->residence == MST_NCCL_SCALAR_DEVICE) TEAM_TRY(team_write(t, rank, FACTOR, 0, factor, sizeof factor));
    void *scalar = j->residence == MST_NCCL_SCALAR_DEVICE ? team_at(t, rank, FACTOR, 0) : factor;
    return nccl.ncclRedOpCreatePreMulSum(operation, scalar, j->type, (unsigned)j->residence, t->comms[rank]);
}

static mst_nccl_result ring(team *t, int rank, const job *j, const void *in, void *out) {
    TEAM_TRY(nccl.ncclGroupStart());
    TEAM_TRY(nccl.ncclSend(in, j->count, j->type, (rank + 1) % t->size, t->comms[rank], t->streams[rank]));
    TEAM_TRY(nccl.ncclRecv(out, j->count, j->type, (rank + t->size - 1) % t->size, t->comms[rank], t->streams[rank]));
    return nccl.ncclGroupEnd();
}

static mst_nccl_result call(team *t, int rank, const job *j, const void *in, void *out, unsigned operation) {
    mst_nccl_comm comm = t->comms[rank];
    mst_cu_stream stream = t->streams[rank];
    switch (j->what) {
    case ALL_REDUCE:
        return nccl.ncclAllReduce(in, out, j->count, j->type, operation, comm, stream);
    case REDUCE:
        return nccl.ncclReduce(in, out, j->count, j->type, operation, j->root, comm, stream);
    case BROADCAST:
        return nccl.ncclBroadcast(in, out, j->count, j->type, j->root, comm, stream);
    case ALL_GATHER:
        return nccl.ncclAllGather(in, out, j->count, j->type, comm, stream);
    case REDUCE_SCATTER:
        return nccl.ncclReduceScatter(in, out, j->count, j->type, operation, comm, stream);
    case ALL_TO_ALL:
        return nccl.ncclAlltoAll(in, out, j->count, j->type, comm, stream);
    case GATHER:
        return nccl.ncclGather(in, out, j->count, j->type, j->root, comm, stream);
    case SCATTER:
        return nccl.ncclScatter(in, out, j->count, j->type, j->root, comm, stream);
    default:
        return ring(t, rank, j, in, out);
    }
}

static mst_nccl_result compare(team *t, int rank, job *j, int buffer, size_t at) {
    size_t count = output_count(t, j, rank), width = widths[j->type];
    unsigned char *bytes = malloc(count * width + 1);
    mst_nccl_result result = bytes ? team_read(t, rank, buffer, at, bytes, count * width) : MST_NCCL_SYSTEM_ERROR;
    for (size_t i = 0; i < count && result == MST_NCCL_SUCCESS; i++) {
        unsigned char wrapped[8];
        double wanted = expected(t, j, rank, i), got = decode(j->type, bytes + i * width);
        encode(j->type, wanted, wrapped);
        if (j->type <= MST_NCCL_UINT64) wanted = decode(j->type, wrapped);
        if (fabs(got - wanted) <= (j->type <= MST_NCCL_UINT64 ? 0 : 0.02 * fabs(wanted))) continue;
        if (j->wrong++ < 3)
            fprintf(stderr, "collective %d, type %u, operation %u, rank %d, element %zu: %g instead of %g\n", j->what, j->type,
                    j->operation, rank, i, got, wanted);
    }
    free(bytes);
    return result;
}

/* All of it goes through the stream and is waited for only where the host reads. */
static mst_nccl_result job_task(team *t, int rank, void *argument) {
    job *j = argument;
    size_t width = widths[j->type], total = j->count * (size_t)t->size, in, out;
    unsigned operation;
    int buffer;
    unsigned char *bytes = malloc(total * width + 1);
    if (!bytes) return MST_NCCL_SYSTEM_ERROR;
    places(t, j, rank, &in, &buffer, &out);
    for (size_t i = 0; i < total; i++) encode(j->type, value_of(rank, i), bytes + i * width);
    mst_nccl_result result = team_fill(t, rank, OUT, 0xa5);
    if (result == MST_NCCL_SUCCESS) result = team_write(t, rank, IN, in, bytes, (in ? j->count : total) * width);
    free(bytes);
    TEAM_TRY(result);
    TEAM_TRY(factor_of(t, j, rank, &operation));
    result = team_wait(t->comms[rank], call(t, rank, j, team_at(t, rank, IN, in), team_at(t, rank, buffer, out), operation));
    TEAM_TRY(result);
    if (j->residence >= 0) TEAM_TRY(nccl.ncclRedOpDestroy(operation, t->comms[rank]));
    TEAM_TRY(team_sync(t, rank));
    return compare(t, rank, j, buffer, out);
}

static void check(job j) {
    assert_nccl(team_run(&crew, job_task, &j, NULL));
    assert_int_equal(j.wrong, 0);
}

/* Every type, every operation where there is one, out of place and in place, every root. */
static void check_kind(kind what, bool rooted, bool can_be_in_place) {
    for (unsigned type = 0; type < TYPES; type++)
        for (unsigned operation = 0; operation <= (reduces[what] ? MST_NCCL_AVG : 0); operation++)
            for (int in_place = 0; in_place <= (can_be_in_place ? 1 : 0); in_place++)
                check((job){.what = what,
                            .type = type,
                            .operation = operation,
                            .count = COUNT,
                            .in_place = in_place,
                            .residence = -1,
                            .root = rooted ? (int)(type + operation) % crew.size : 0});
    for (int root = 0; rooted && root < crew.size; root++)
        check((job){.what = what, .type = MST_NCCL_FLOAT32, .count = COUNT, .root = root, .residence = -1});
    check((job){.what = what, .type = MST_NCCL_FLOAT32, .count = 0, .residence = -1});
    check((job){.what = what, .type = MST_NCCL_FLOAT32, .count = 1, .residence = -1});
}

/* ---- the symbols ---- */

static void ncclGetVersion_gives_2_18_or_later(void **state) {
    (void)state;
    int version = 0;
    assert_nccl(nccl.ncclGetVersion(&version));
    assert_true(version >= 21800 && version < 30000);
    assert_int_equal(nccl.ncclGetVersion(NULL), MST_NCCL_INVALID_ARGUMENT);
    print_message("NCCL %d\n", version);
}

static void ncclGetErrorString_has_a_text_for_every_number(void **state) {
    (void)state;
    assert_string_equal(nccl.ncclGetErrorString(MST_NCCL_SUCCESS), "no error");
    for (unsigned code = 0; code < 12; code++) assert_true(strlen(nccl.ncclGetErrorString(code)) > 0);
    assert_string_not_equal(nccl.ncclGetErrorString(MST_NCCL_INVALID_ARGUMENT), nccl.ncclGetErrorString(MST_NCCL_INVALID_USAGE));
}

static void ncclGetLastError_tells_of_the_failure_before(void **state) {
    (void)state;
    assert_int_equal(nccl.ncclAllReduce(NULL, NULL, 1, MST_NCCL_FLOAT32, MST_NCCL_SUM, NULL, NULL), MST_NCCL_INVALID_ARGUMENT);
    assert_non_null(nccl.ncclGetLastError(NULL));
    assert_non_null(strstr(nccl.ncclGetLastError(NULL), "comm argument is NULL"));
}

static void ncclGetUniqueId_gives_another_id_each_time(void **state) {
    (void)state;
    mst_nccl_id a, b;
    assert_nccl(nccl.ncclGetUniqueId(&a));
    assert_nccl(nccl.ncclGetUniqueId(&b));
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_int_equal(nccl.ncclGetUniqueId(NULL), MST_NCCL_INVALID_ARGUMENT);
}

static void alone(void) { assert_int_equal(cuda.cuCtxSetCurrent(crew.contexts[0]), MST_CU_SUCCESS); }

static void ncclCommInitRankConfig_makes_one_rank_with_and_without_blocking(void **state) {
    (void)state;
    alone();
    for (int blocking = 0; blocking < 2; blocking++) {
        mst_nccl_config config = team_config(blocking);
        mst_nccl_id id;
        mst_nccl_comm comm = NULL;
        assert_nccl(nccl.ncclGetUniqueId(&id));
        mst_nccl_result result = nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &config);
        assert_true(result == MST_NCCL_SUCCESS || (!blocking && result == MST_NCCL_IN_PROGRESS));
        assert_non_null(comm);
        assert_nccl(team_wait(comm, result));
        assert_nccl(nccl.ncclCommDestroy(comm));
    }
}

static void ncclCommInitRankConfig_refuses_ranks_and_settings_that_are_none(void **state) {
    (void)state;
    alone();
    mst_nccl_id id;
    assert_nccl(nccl.ncclGetUniqueId(&id));
    const int wrong[][2] = {{1, 1}, {1, -1}, {0, 0}, {-1, 0}, {2, 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mst_nccl_comm comm = (mst_nccl_comm)(uintptr_t)1;
        mst_nccl_config config = team_config(true);
        assert_int_equal(nccl.ncclCommInitRankConfig(&comm, wrong[i][0], id, wrong[i][1], &config), MST_NCCL_INVALID_ARGUMENT);
        assert_null(comm);
    }
    mst_nccl_comm comm = NULL;
    mst_nccl_config config = team_config(true);
    config.magic = 0;
    assert_int_equal(nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &config), MST_NCCL_INVALID_ARGUMENT);
    config = team_config(true);
    config.blocking = 2;
    assert_int_equal(nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &config), MST_NCCL_INVALID_ARGUMENT);
}

static mst_nccl_result same_device_task(team *t, int rank, void *argument) {
    (void)argument;
    mst_nccl_config config = team_config(true);
    if (cuda.cuCtxSetCurrent(t->contexts[0]) != MST_CU_SUCCESS) return MST_NCCL_UNHANDLED_CUDA_ERROR;
    return nccl.ncclCommInitRankConfig(&t->comms[rank], 2, t->id, rank, &config);
}

/* By the rule of NCCL up to 2.29; later ones can be told otherwise by their environment. */
static void ncclCommInitRankConfig_refuses_two_ranks_on_one_device(void **state) {
    (void)state;
    team pair = {.size = 2, .blocking = true, .contexts = {crew.contexts[0], crew.contexts[0]}};
    mst_nccl_result results[2];
    assert_nccl(nccl.ncclGetUniqueId(&pair.id));
    team_run(&pair, same_device_task, NULL, results);
    int version = 0;
    assert_nccl(nccl.ncclGetVersion(&version));
    printf("found: NCCL: two ranks on one device: %u and %u\n", results[0], results[1]);
    for (int rank = 0; rank < 2 && version < 23000; rank++) assert_int_equal(results[rank], MST_NCCL_INVALID_USAGE);
    for (int rank = 0; rank < 2; rank++) nccl.ncclCommAbort(pair.comms[rank]);
}

static void ncclCommGetAsyncError_says_that_all_is_well(void **state) {
    (void)state;
    mst_nccl_result error = MST_NCCL_SYSTEM_ERROR;
    assert_nccl(nccl.ncclCommGetAsyncError(crew.comms[0], &error));
    assert_int_equal(error, MST_NCCL_SUCCESS);
    assert_int_equal(nccl.ncclCommGetAsyncError(NULL, &error), MST_NCCL_INVALID_ARGUMENT);
    assert_int_equal(nccl.ncclCommGetAsyncError(crew.comms[0], NULL), MST_NCCL_INVALID_ARGUMENT);
}

/* A communicator of one rank on the first device. */
static mst_nccl_comm make_single(bool blocking) {
    alone();
    mst_nccl_config config = team_config(blocking);
    mst_nccl_id id;
    mst_nccl_comm comm = NULL;
    assert_nccl(nccl.ncclGetUniqueId(&id));
    mst_nccl_result result = nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &config);
    assert_nccl(team_wait(comm, result));
    return comm;
}

static void ncclCommFinalize_ends_once_what_runs(void **state) {
    (void)state;
    for (int blocking = 0; blocking < 2; blocking++) {
        mst_nccl_comm comm = make_single(blocking);
        void *at = team_at(&crew, 0, OUT, 0);
        assert_nccl(team_wait(comm, nccl.ncclAllReduce(at, at, COUNT, MST_NCCL_FLOAT32, MST_NCCL_SUM, comm, crew.streams[0])));
        assert_nccl(team_wait(comm, nccl.ncclCommFinalize(comm)));
        assert_nccl(nccl.ncclCommDestroy(comm));
    }
    assert_nccl(nccl.ncclCommFinalize(NULL));
}

static void ncclCommDestroy_takes_none(void **state) {
    (void)state;
    assert_nccl(nccl.ncclCommDestroy(NULL));
    assert_nccl(nccl.ncclCommDestroy(make_single(true)));
    assert_nccl(nccl.ncclCommDestroy(make_single(false)));
}

static void ncclCommAbort_takes_one_that_is_well_and_none(void **state) {
    (void)state;
    assert_nccl(nccl.ncclCommAbort(NULL));
    assert_nccl(nccl.ncclCommAbort(make_single(true)));
    assert_nccl(nccl.ncclCommAbort(make_single(false)));
}

static mst_nccl_result split_task(team *t, int rank, void *argument) {
    team *parts = argument;
    int color = rank == t->size - 1 && t->size > 1 ? MST_NCCL_NO_COLOR : 7;
    TEAM_TRY(team_wait(t->comms[rank], nccl.ncclCommSplit(t->comms[rank], color, -rank, &parts->comms[rank], NULL)));
    return (color < 0) == (parts->comms[rank] == NULL) ? MST_NCCL_SUCCESS : MST_NCCL_INTERNAL_ERROR;
}

static mst_nccl_result gather_ranks_task(team *t, int rank, void *argument) {
    team *parts = argument;
    int32_t own = rank, all[TEAM_MOST] = {0};
    int members = t->size > 1 ? t->size - 1 : 1;
    if (!parts->comms[rank]) return MST_NCCL_SUCCESS;
    TEAM_TRY(team_write(t, rank, IN, 0, &own, sizeof own));
    TEAM_TRY(team_wait(parts->comms[rank], nccl.ncclAllGather(team_at(t, rank, IN, 0), team_at(t, rank, OUT, 0), 1, MST_NCCL_INT32,
                                                              parts->comms[rank], t->streams[rank])));
    TEAM_TRY(team_sync(t, rank));
    TEAM_TRY(team_read(t, rank, OUT, 0, all, sizeof *all * (size_t)members));
    for (int i = 0; i < members; i++)
        if (all[i] != members - 1 - i) return MST_NCCL_INTERNAL_ERROR; /* by the key, which fell with the rank */
    return MST_NCCL_SUCCESS;
}

static void ncclCommSplit_orders_the_ranks_of_a_color_by_key(void **state) {
    (void)state;
    team parts = {.size = 0};
    assert_nccl(team_run(&crew, split_task, &parts, NULL));
    assert_nccl(team_run(&crew, gather_ranks_task, &parts, NULL));
    for (int rank = 0; rank < crew.size; rank++) assert_nccl(nccl.ncclCommDestroy(parts.comms[rank]));
}

static void ncclGroupStart_may_be_nested(void **state) {
    (void)state;
    alone();
    assert_nccl(nccl.ncclGroupStart());
    assert_nccl(nccl.ncclGroupStart());
    assert_nccl(nccl.ncclGroupEnd());
    assert_nccl(nccl.ncclGroupEnd());
    assert_int_equal(nccl.ncclGroupEnd(), MST_NCCL_INVALID_USAGE);
}

/* What was in the group before the failure is not done either. */
static void ncclGroupEnd_gives_the_failure_of_a_call_in_the_group(void **state) {
    (void)state;
    mst_nccl_comm comm = make_single(true);
    unsigned char bytes[4];
    assert_nccl(team_fill(&crew, 0, IN, 1));
    assert_nccl(team_fill(&crew, 0, OUT, 0xa5));
    assert_nccl(nccl.ncclGroupStart());
    assert_nccl(nccl.ncclAllReduce(team_at(&crew, 0, IN, 0), team_at(&crew, 0, OUT, 0), COUNT, MST_NCCL_FLOAT32, MST_NCCL_SUM, comm,
                                   crew.streams[0]));
    assert_int_equal(
        nccl.ncclAllReduce(team_at(&crew, 0, IN, 0), team_at(&crew, 0, OUT, 0), COUNT, 99, MST_NCCL_SUM, comm, crew.streams[0]),
        MST_NCCL_INVALID_ARGUMENT);
    assert_int_equal(nccl.ncclGroupEnd(), MST_NCCL_INVALID_ARGUMENT);
    assert_nccl(team_read(&crew, 0, OUT, 0, bytes, sizeof bytes));
    if (crew.size > 1) assert_int_equal(bytes[0], 0xa5);
    nccl.ncclCommAbort(comm);
}

static void ncclAllReduce_combines_every_type_by_every_operation(void **state) {
    (void)state;
    check_kind(ALL_REDUCE, false, true);
}
static void ncclReduce_combines_at_the_root(void **state) {
    (void)state;
    check_kind(REDUCE, true, true);
}
static void ncclBroadcast_copies_from_the_root(void **state) {
    (void)state;
    check_kind(BROADCAST, true, true);
}
static void ncclAllGather_joins_in_rank_order(void **state) {
    (void)state;
    check_kind(ALL_GATHER, false, true);
}
static void ncclReduceScatter_gives_each_rank_its_block(void **state) {
    (void)state;
    check_kind(REDUCE_SCATTER, false, true);
}
static void ncclSend_to_the_next_rank_in_a_group(void **state) {
    (void)state;
    check_kind(RING, false, false);
}

static mst_nccl_result chain_task(team *t, int rank, void *argument) {
    (void)argument;
    int32_t token = 41;
    if (rank == 0) TEAM_TRY(team_write(t, 0, IN, 0, &token, sizeof token));
    if (rank > 0)
        TEAM_TRY(team_wait(t->comms[rank],
                           nccl.ncclRecv(team_at(t, rank, IN, 0), 1, MST_NCCL_INT32, rank - 1, t->comms[rank], t->streams[rank])));
    if (rank < t->size - 1)
        TEAM_TRY(team_wait(t->comms[rank],
                           nccl.ncclSend(team_at(t, rank, IN, 0), 1, MST_NCCL_INT32, rank + 1, t->comms[rank], t->streams[rank])));
    TEAM_TRY(team_sync(t, rank));
    token = 0;
    TEAM_TRY(team_read(t, rank, IN, 0, &token, sizeof token));
    return token == 41 ? MST_NCCL_SUCCESS : MST_NCCL_INTERNAL_ERROR;
}

static void ncclRecv_waits_in_the_stream_for_the_send(void **state) {
    (void)state;
    assert_nccl(team_run(&crew, chain_task, NULL, NULL));
}

static void ncclRecv_from_itself_needs_the_send_in_the_group(void **state) {
    (void)state;
    mst_nccl_comm comm = make_single(true);
    assert_int_equal(nccl.ncclRecv(team_at(&crew, 0, IN, 0), 1, MST_NCCL_INT32, 0, comm, crew.streams[0]), MST_NCCL_INVALID_USAGE);
    nccl.ncclCommAbort(comm);
}

static void ncclRedOpCreatePreMulSum_scales_before_the_sum(void **state) {
    (void)state;
    for (unsigned type = 0; type < TYPES; type++)
        for (int residence = 0; residence < 2; residence++)
            check((job){.what = type % 2 ? ALL_REDUCE : REDUCE_SCATTER, .type = type, .count = COUNT, .residence = residence});
}

static void ncclRedOpDestroy_refuses_what_it_did_not_make(void **state) {
    (void)state;
    unsigned operation;
    float factor = 2;
    assert_nccl(nccl.ncclRedOpCreatePreMulSum(&operation, &factor, MST_NCCL_FLOAT32, MST_NCCL_SCALAR_HOST_IMMEDIATE, crew.comms[0]));
    assert_true(operation >= MST_NCCL_BUILT_IN_OPERATIONS);
    assert_nccl(nccl.ncclRedOpDestroy(operation, crew.comms[0]));
    assert_int_equal(nccl.ncclRedOpDestroy(MST_NCCL_SUM, crew.comms[0]), MST_NCCL_INVALID_ARGUMENT);
}

/* The optional ones: there are none before 2.28. */
#define NEED(function)                                        \
    do {                                                      \
        if (!(function)) SKIP("this NCCL has no " #function); \
    } while (0)
static void ncclAlltoAll_exchanges_blocks(void **state) {
    (void)state;
    NEED(nccl.ncclAlltoAll);
    check_kind(ALL_TO_ALL, false, false);
}
static void ncclGather_joins_at_the_root(void **state) {
    (void)state;
    NEED(nccl.ncclGather);
    check_kind(GATHER, true, true);
}
static void ncclScatter_deals_from_the_root(void **state) {
    (void)state;
    NEED(nccl.ncclScatter);
    check_kind(SCATTER, true, true);
}

static void ncclAllReduce_refuses_types_and_roots_that_are_none(void **state) {
    (void)state;
    mst_nccl_comm comm = make_single(true);
    void *at = team_at(&crew, 0, IN, 0);
    assert_int_equal(nccl.ncclAllReduce(at, at, 1, 99, MST_NCCL_SUM, comm, crew.streams[0]), MST_NCCL_INVALID_ARGUMENT);
    assert_int_equal(nccl.ncclBroadcast(at, at, 1, MST_NCCL_INT8, 1, comm, crew.streams[0]), MST_NCCL_INVALID_ARGUMENT);
    assert_int_equal(nccl.ncclReduce(at, at, 1, MST_NCCL_INT8, MST_NCCL_SUM, -1, comm, crew.streams[0]), MST_NCCL_INVALID_ARGUMENT);
    assert_nccl(nccl.ncclCommDestroy(comm));
}

/* The ranks but the last enter an all-reduce; in time each aborts its own communicator, and every
 * stream is empty again. */
static mst_nccl_result stuck_task(team *t, int rank, void *argument) {
    pthread_barrier_t *barrier = argument;
    mst_nccl_comm comm = t->comms[rank];
    void *at = team_at(t, rank, IN, 0);
    if (rank < t->size - 1) {
        mst_nccl_result result = nccl.ncclAllReduce(at, at, COUNT, MST_NCCL_FLOAT32, MST_NCCL_SUM, comm, t->streams[rank]);
        for (int i = 0; i < 20 && result == MST_NCCL_IN_PROGRESS; i++) {
            nccl.ncclCommGetAsyncError(comm, &result);
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
    }
    pthread_barrier_wait(barrier);
    TEAM_TRY(nccl.ncclCommAbort(comm));
    t->comms[rank] = NULL;
    return team_sync(t, rank);
}

static void ncclCommAbort_ends_what_waits_for_a_missing_rank(void **state) {
    (void)state;
    if (team_devices() < 2) SKIP("it needs two devices");
    team own;
    pthread_barrier_t barrier;
    assert_true(team_open(&own, team_devices(), false));
    pthread_barrier_init(&barrier, NULL, (unsigned)own.size);
    assert_nccl(team_start(&own));
    assert_nccl(team_run(&own, stuck_task, &barrier, NULL));
    pthread_barrier_destroy(&barrier);
    team_close(&own);
}

typedef struct pair {
    team *second; /* the same ranks and streams, and other communicators */
    pthread_barrier_t barrier;
} pair;

/* Returns when both are in the stream, or, if a rank is missing, after a while. */
static mst_nccl_result both_sums(team *t, int rank, const pair *p, bool missing) {
    const mst_nccl_comm comms[] = {t->comms[rank], p->second->comms[rank]};
    void *at = team_at(t, rank, IN, 0);
    for (int i = 0; i < 2; i++) {
        mst_nccl_result result = nccl.ncclAllReduce(at, at, COUNT, MST_NCCL_FLOAT32, MST_NCCL_SUM, comms[i], t->streams[rank]);
        if (!missing) result = team_wait(comms[i], result);
        for (int poll = 0; poll < 100 && result == MST_NCCL_IN_PROGRESS; poll++) {
            nccl.ncclCommGetAsyncError(comms[i], &result);
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        if (result != MST_NCCL_SUCCESS) return missing && result == MST_NCCL_IN_PROGRESS ? MST_NCCL_SUCCESS : result;
    }
    return MST_NCCL_SUCCESS;
}

/* First both communicators connect. Then the ranks but the last enter an all-reduce of each, one
 * behind the other in the stream, and in time each rank aborts both in one group, the newer one
 * first. */
static mst_nccl_result stuck_twice_task(team *t, int rank, void *argument) {
    pair *p = argument;
    TEAM_TRY(both_sums(t, rank, p, false));
    TEAM_TRY(team_sync(t, rank));
    pthread_barrier_wait(&p->barrier);
    if (rank < t->size - 1) TEAM_TRY(both_sums(t, rank, p, true));
    pthread_barrier_wait(&p->barrier);
    TEAM_TRY(nccl.ncclGroupStart());
    TEAM_TRY(nccl.ncclCommAbort(p->second->comms[rank]));
    TEAM_TRY(nccl.ncclCommAbort(t->comms[rank]));
    TEAM_TRY(nccl.ncclGroupEnd());
    return team_sync(t, rank);
}

static void ncclCommAbort_in_a_group_ends_communicators_that_wait_for_each_other(void **state) {
    (void)state;
    if (team_devices() < 2) SKIP("it needs two devices");
    team own, second;
    pair p = {.second = &second};
    assert_true(team_open(&own, team_devices(), false));
    pthread_barrier_init(&p.barrier, NULL, (unsigned)own.size);
    assert_nccl(team_start(&own));
    second = own;
    assert_nccl(team_start(&second));
    assert_nccl(team_run(&own, stuck_twice_task, &p, NULL));
    pthread_barrier_destroy(&p.barrier);
    team_close(&own);
}

/* Every symbol that Muster calls has a test. */
static bool has_test(const struct CMUnitTest *tests, size_t count, const char *symbol) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(tests[i].name, symbol, strlen(symbol)) == 0 && tests[i].name[strlen(symbol)] == '_') return true;
    return false;
}

int main(void) {
    const char *reason = team_open_libraries();
    if (reason) return SKIP_SUITE(reason);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ncclGetVersion_gives_2_18_or_later),
        cmocka_unit_test(ncclGetErrorString_has_a_text_for_every_number),
        cmocka_unit_test(ncclGetLastError_tells_of_the_failure_before),
        cmocka_unit_test(ncclGetUniqueId_gives_another_id_each_time),
        cmocka_unit_test(ncclCommInitRankConfig_makes_one_rank_with_and_without_blocking),
        cmocka_unit_test(ncclCommInitRankConfig_refuses_ranks_and_settings_that_are_none),
        cmocka_unit_test(ncclCommInitRankConfig_refuses_two_ranks_on_one_device),
        cmocka_unit_test(ncclCommGetAsyncError_says_that_all_is_well),
        cmocka_unit_test(ncclCommFinalize_ends_once_what_runs),
        cmocka_unit_test(ncclCommDestroy_takes_none),
        cmocka_unit_test(ncclCommAbort_takes_one_that_is_well_and_none),
        cmocka_unit_test(ncclCommAbort_ends_what_waits_for_a_missing_rank),
        cmocka_unit_test(ncclCommAbort_in_a_group_ends_communicators_that_wait_for_each_other),
        cmocka_unit_test(ncclCommSplit_orders_the_ranks_of_a_color_by_key),
        cmocka_unit_test(ncclGroupStart_may_be_nested),
        cmocka_unit_test(ncclGroupEnd_gives_the_failure_of_a_call_in_the_group),
        cmocka_unit_test(ncclAllReduce_combines_every_type_by_every_operation),
        cmocka_unit_test(ncclAllReduce_refuses_types_and_roots_that_are_none),
        cmocka_unit_test(ncclReduce_combines_at_the_root),
        cmocka_unit_test(ncclBroadcast_copies_from_the_root),
        cmocka_unit_test(ncclAllGather_joins_in_rank_order),
        cmocka_unit_test(ncclReduceScatter_gives_each_rank_its_block),
        cmocka_unit_test(ncclSend_to_the_next_rank_in_a_group),
        cmocka_unit_test(ncclRecv_waits_in_the_stream_for_the_send),
        cmocka_unit_test(ncclRecv_from_itself_needs_the_send_in_the_group),
        cmocka_unit_test(ncclRedOpCreatePreMulSum_scales_before_the_sum),
        cmocka_unit_test(ncclRedOpDestroy_refuses_what_it_did_not_make),
        cmocka_unit_test(ncclAlltoAll_exchanges_blocks),
        cmocka_unit_test(ncclGather_joins_at_the_root),
        cmocka_unit_test(ncclScatter_deals_from_the_root),
    };
#define CHECK(result, symbol, arguments) \
    if (!has_test(tests, sizeof tests / sizeof *tests, #symbol)) return fprintf(stderr, "%s has no test\n", #symbol), 1;
    MST_NCCL_SYMBOLS(CHECK)
    MST_NCCL_OPTIONAL_SYMBOLS(CHECK)
    return cmocka_run_group_tests(tests, open_crew, close_crew);
}

/* Collectives between GPUs of the simulated machine: which way they go, what they wait for, and
 * what happens when NCCL or a rank fails. */
#include "collectives_values.h"
#include "cuda/cuda_api_private.h"
#include "cuda/cuda_impl.h"
#include "nccl/nccl_api_private.h"
#include "sim.h"

#include <stdlib.h>

/* elements of f32 or i64: below, and above what p2p is chosen for */
enum { RANKS = 4, SMALL = 1000, LARGE = 100000 };
/* calls of ncclAllReduce and of ncclSend in the trial of new communicators, on all ranks */
enum { TRIAL = 2 * RANKS, TRIAL_SENDS = RANKS * (RANKS - 1) };
#define NO_WAY 30LL * 1000000000

static char log_text[4096];
static void keep_line(void *user, muster_log_level level, const char *line) {
    (void)user, (void)level;
    strncat(log_text, line, sizeof log_text - strlen(log_text) - 1);
}

static void begin(bool peers) {
    muster_sim_options options = {.devices = RANKS, .no_peers = !peers, .longest_delay = 20, .delay_one_of = 8};
    log_text[0] = '\0';
    muster_sim_reset(&options);
    mst_cuda_forget_lost();
}

static int64_t create_deadline; /* for the creation of NCCL's communicators; 0: the usual one */

static void open_workers(collectives_pool *c, const char *devices) {
    mst_pool_options options = {.spin_ns = 0, .warn_after_ns = -1, .fail_after_ns = NO_WAY, .dedicated_rank0 = true, .log = keep_line};
    setenv("MUSTER_TEST_DEVICES", devices, 1);
    collectives_open_devices(c, 0, RANKS);
    assert_ok(mst_pool_create(&options, c->devices, c->size, &c->pool));
}

static muster_status open_pool(collectives_pool *c, const char *devices, const char *algorithm, bool fixed_order) {
    open_workers(c, devices);
    const mst_communicator_options options = {.algorithm = algorithm, .fixed_order = fixed_order, .nccl_create_ns = create_deadline};
    return mst_communicator_create(c->pool, &options, &c->communicator);
}

static void open_good(collectives_pool *c, const char *devices, const char *algorithm) {
    assert_ok(open_pool(c, devices, algorithm, false));
}

/* ---- what ranks do ---- */

static muster_status sum_of(muster_worker *w, int64_t count) {
    muster_tensor x = values_make(w, count, w->rank, 1);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return values_expect(w, x, RANKS * (RANKS - 1) / 2, RANKS);
}
static muster_status small_sum(muster_worker *w, void *argument) { return (void)argument, sum_of(w, SMALL); }
static muster_status large_sum(muster_worker *w, void *argument) { return (void)argument, sum_of(w, LARGE); }

/* Whole numbers in floats: exact in any order. */
static muster_status float_reduction(muster_worker *w, muster_reduction op, double expected) {
    int64_t count = LARGE;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &x));
    float *host = mst_alloc((size_t)count * sizeof *host), last = 0;
    if (!host) return mst_out_of_memory("test", count * 4);
    for (int64_t i = 0; i < count; i++) host[i] = (float)(w->rank + 1);
    muster_status status = muster_worker_write(w, muster_f32(host, count), x);
    if (status == MUSTER_OK) status = muster_worker_all_reduce(w, NULL, op, x, x);
    if (status == MUSTER_OK) status = muster_worker_read(w, x, muster_f32(host, count));
    last = host[count - 1];
    mst_free(host);
    MUSTER_TRY(status);
    VALUES_REQUIRE((double)last == expected);
    return MUSTER_OK;
}
static muster_status float_sum(muster_worker *w, void *argument) { return (void)argument, float_reduction(w, MUSTER_SUM, 10); }
static muster_status float_average(muster_worker *w, void *argument) { return (void)argument, float_reduction(w, MUSTER_AVG, 2.5); }
static muster_status float_max(muster_worker *w, void *argument) { return (void)argument, float_reduction(w, MUSTER_MAX, RANKS); }

/* ---- which way ---- */

static uint64_t p2p_launches(void) { return muster_sim_launches("mst_p2p_reduce") + muster_sim_launches("mst_p2p_reduce_integers"); }

static void small_ones_go_between_peers_and_large_ones_by_nccl(void **state) {
    (void)state;
    collectives_pool c;
    begin(true);
    open_good(&c, "cuda", NULL);
    assert_ok(collectives_run(&c, small_sum, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), TRIAL);
    assert_int_equal(p2p_launches(), RANKS);
    assert_ok(collectives_run(&c, large_sum, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), TRIAL + RANKS);
    assert_int_equal(p2p_launches(), RANKS);
    collectives_close(&c);
}

static void averages_of_floats_are_ncclavg_and_their_maximum_is_ours(void **state) {
    (void)state;
    collectives_pool c;
    begin(true);
    open_good(&c, "cuda", NULL);
    assert_ok(collectives_run(&c, float_average, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), TRIAL + RANKS);
    assert_ok(collectives_run(&c, float_max, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), TRIAL + RANKS);
    assert_int_equal(p2p_launches(), RANKS);
    collectives_close(&c);
}

static void in_a_fixed_order_nccl_sums_no_floats(void **state) {
    (void)state;
    for (int peers = 0; peers < 2; peers++) {
        collectives_pool c;
        begin(peers);
        assert_ok(open_pool(&c, "cuda", NULL, true));
        assert_ok(collectives_run(&c, float_sum, NULL));
        assert_int_equal(muster_sim_calls("ncclAllReduce"), TRIAL);
        assert_int_equal(p2p_launches(), RANKS);
        assert_int_equal(muster_sim_calls("ncclSend") > TRIAL_SENDS, !peers);
        collectives_close(&c);
    }
}

static void virtual_devices_go_without_nccl(void **state) {
    (void)state;
    collectives_pool c;
    char ways[400];
    begin(true);
    open_good(&c, "cuda-virtual", NULL);
    assert_non_null(strstr(mst_communicator_description(c.communicator, ways, sizeof ways), "NCCL takes each GPU once"));
    assert_ok(collectives_run(&c, large_sum, NULL));
    assert_int_equal(muster_sim_calls("ncclCommInitRankConfig"), 0);
    assert_int_equal(p2p_launches(), RANKS);
    collectives_close(&c);
}

static void a_way_that_the_devices_do_not_have_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *devices, *algorithm, *text;
        bool peers;
    } cases[] = {{"cuda-virtual", "nccl", "received \"nccl\": NCCL takes each GPU once", true},
                 {"cuda", "p2p", "received \"p2p\": they do not read each other's memory", false},
                 {"cuda", "ring",
                  "expected reference, inline, direct, p2p, nccl, staged, naive, flat, hierarchical, two_dimensional, single_node, "
                  "non_cuda_aware or pure_nccl, received \"ring\"",
                  true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        collectives_pool c;
        begin(cases[i].peers);
        muster_status status = open_pool(&c, cases[i].devices, cases[i].algorithm, false);
        assert_int_equal(status, i < 2 ? MUSTER_UNAVAILABLE : MUSTER_INVALID_ARGUMENT);
        assert_non_null(strstr(muster_last_error(), cases[i].text));
        c.communicator = NULL;
        collectives_close(&c);
    }
}

/* The driver says that all are peers; one pair's access delivers garbage. */
static void peers_that_lie_go_another_way(void **state) {
    (void)state;
    static const muster_sim_options machines[] = {{.devices = RANKS, .lying_kernels = {0, 0, 1 << 3}},
                                                  {.devices = RANKS, .lying_copies = {0, 1}}};
    static const char *const algorithms[] = {NULL, "staged"};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
            collectives_pool c;
            char notice[MST_MESSAGE_SIZE];
            begin(true);
            muster_sim_reset(&machines[i]);
            open_good(&c, "cuda", algorithms[a]);
            assert_true(mst_cuda_take_notice(notice));
            assert_non_null(strstr(notice, "cannot use the memory of"));
            assert_ok(collectives_run(&c, small_sum, NULL));
            assert_ok(collectives_run(&c, large_sum, NULL));
            assert_ok(collectives_run(&c, float_sum, NULL));
            collectives_close(&c);
        }
    }
}

static void without_peers_where_the_environment_says_so(void **state) {
    (void)state;
    collectives_pool c;
    begin(true);
    setenv("MUSTER_P2P", "0", 1);
    muster_status status = open_pool(&c, "cuda", "p2p", false);
    assert_int_equal(status, MUSTER_UNAVAILABLE);
    c.communicator = NULL;
    collectives_close(&c);
    begin(true);
    open_good(&c, "cuda", NULL);
    unsetenv("MUSTER_P2P");
    assert_ok(collectives_run(&c, small_sum, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), TRIAL + RANKS);
    assert_int_equal(p2p_launches(), 0);
    collectives_close(&c);
}

/* ---- how many inputs the kernel takes ---- */

/* Rank 0 brings all shards but one for each other rank. */
static muster_status shards_task(muster_worker *w, void *argument) {
    enum { COUNT = 1000 };
    const int64_t total = *(int64_t *)argument, shards = w->rank == 0 ? total - (RANKS - 1) : 1, shape[] = {shards, COUNT};
    muster_tensor y = values_make(w, COUNT, -1, 0);
    int64_t *values = mst_alloc((size_t)(shards * COUNT) * sizeof *values);
    if (!values) return mst_out_of_memory("test", shards * COUNT * 8);
    for (int64_t i = 0; i < shards * COUNT; i++) values[i] = i % COUNT + w->rank;
    muster_tensor x = values_copy(w, muster_tensor_make(MUSTER_I64, values, 2, shape));
    mst_free(values);
    MUSTER_TRY(muster_worker_all_reduce_shards(w, NULL, MUSTER_SUM, x, y));
    return values_expect(w, y, RANKS * (RANKS - 1) / 2, total);
}

static void more_shards_than_the_kernel_takes_go_another_way(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        bool peers;
        int64_t shards;
        const char *server;
    } cases[] = {{"cuda-virtual", true, 63, "p2p"}, {"cuda-virtual", true, 64, "p2p"}, {"cuda-virtual", true, 65, "staged"},
                 {"cuda", true, 64, "p2p"},         {"cuda", true, 65, "staged"},      {"cuda", false, 64, "nccl"},
                 {"cuda", false, 65, "staged"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        collectives_pool c;
        int64_t shards = cases[i].shards;
        begin(cases[i].peers);
        open_good(&c, cases[i].devices, NULL);
        assert_ok(collectives_run(&c, shards_task, &shards));
        for (int32_t r = 0; r < RANKS; r++) assert_string_equal(c.communicator->members[r].served_transport, cases[i].server);
        collectives_close(&c);
    }
}

/* ---- what waits ---- */

static muster_status unwatched_sum(muster_worker *w, void *argument) {
    muster_tensor x = values_make(w, *(int64_t *)argument, w->rank, 1);
    static _Atomic uint64_t before;
    MUSTER_TRY(muster_worker_barrier(w, NULL)); /* the rank that made the values has waited for them */
    if (w->rank == 0) before = muster_sim_calls("cuEventQuery");
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    bool none = w->rank != 0 || muster_sim_calls("cuEventQuery") == before;
    MUSTER_TRY(muster_worker_barrier(w, NULL)); /* before anybody waits for its device at the end */
    VALUES_REQUIRE(none);
    return MUSTER_OK;
}

static void no_rank_waits_for_its_device_in_a_collective(void **state) {
    (void)state;
    collectives_pool c;
    int64_t counts[] = {SMALL, LARGE};
    begin(true);
    open_good(&c, "cuda", NULL);
    for (int i = 0; i < 2; i++) assert_ok(collectives_run(&c, unwatched_sum, &counts[i]));
    assert_int_equal(muster_sim_waits(), 0);
    collectives_close(&c);
}

/* ---- when something fails ---- */

/* The last rank fails after the others are inside NCCL. */
static muster_status sum_then_leave_one(muster_worker *w, void *argument) {
    (void)argument;
    MUSTER_TRY(sum_of(w, LARGE));
    if (w->rank == RANKS - 1) return mst_error(MUSTER_USER, "the last rank has had enough");
    return sum_of(w, LARGE);
}

/* The first product of a shape, while the queue of one device stands still in front of NCCL's
 * kernel, so that the others are in theirs. cuBLAS would load its kernel, and wait inside the
 * driver. */
static muster_status product_behind_sum(muster_worker *w, void *argument) {
    (void)argument;
    int64_t count = LARGE;
    muster_tensor x = values_make(w, count, w->rank, 1);
    muster_tensor a;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &(int64_t){64}, &a));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    for (int64_t m = 1; m <= 4; m++) {
        const mst_gemm gemm = {.dtype = MUSTER_F32,
                               .m = m,
                               .n = 3,
                               .k = 2,
                               .lda = 2,
                               .ldb = 3,
                               .ldc = 3,
                               .alpha = 1,
                               .a = muster_tensor_address(a),
                               .b = muster_tensor_address(a),
                               .c = (float *)muster_tensor_address(a) + 32};
        MUSTER_TRY(w->device->code->gemm(w->device, &gemm));
    }
    return values_expect(w, x, RANKS * (RANKS - 1) / 2, RANKS);
}

static void a_new_product_behind_a_collective_loads_nothing_before_its_end(void **state) {
    (void)state;
    collectives_pool c;
    begin(false);
    open_good(&c, "cuda", NULL);
    assert_ok(collectives_run(&c, large_sum, NULL));
    const uint64_t products = muster_sim_calls("cublasGemmEx");
    muster_sim_inject_queue_stall("ncclAllReduce", 1, 30);
    assert_ok(collectives_run(&c, product_behind_sum, NULL));
    assert_int_equal(muster_sim_injected(), 1);
    assert_int_equal(muster_sim_calls("cublasGemmEx") - products, 4 * RANKS);
    assert_string_equal(muster_sim_hazards(), "");
    collectives_close(&c);
}

static void the_call_after_a_lost_one_has_new_communicators(void **state) {
    (void)state;
    collectives_pool c;
    begin(true);
    open_good(&c, "cuda", NULL);
    uint64_t made = muster_sim_calls("ncclCommInitRankConfig");
    assert_refused(collectives_run(&c, sum_then_leave_one, NULL), MUSTER_USER, "has had enough");
    assert_ok(collectives_run(&c, large_sum, NULL));
    assert_true(muster_sim_calls("ncclCommInitRankConfig") == made || muster_sim_calls("ncclCommInitRankConfig") == made + RANKS);
    assert_true(muster_sim_calls("ncclAllReduce") >= TRIAL + 2 * RANKS);
    collectives_close(&c);
}

/* The communicators are stuck inside NCCL: one rank's call fails, the others wait on their
 * devices. */
static void a_failure_of_nccl_ends_the_call_on_every_rank(void **state) {
    (void)state;
    static const char *const symbols[] = {"ncclAllReduce", "ncclGroupStart", "ncclGroupEnd", "ncclCommGetAsyncError"};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        collectives_pool c;
        begin(true);
        open_good(&c, "cuda", NULL);
        assert_ok(collectives_run(&c, large_sum, NULL));
        const bool asks = strcmp(symbols[i], "ncclCommGetAsyncError") == 0; /* only while something is in progress */
        if (asks) muster_sim_inject("ncclGroupEnd", 1, MST_NCCL_IN_PROGRESS);
        muster_sim_inject(symbols[i], 2, MST_NCCL_INTERNAL_ERROR);
        assert_refused(collectives_run(&c, large_sum, NULL), MUSTER_INTERNAL, symbols[i]);
        assert_int_equal(muster_sim_injected(), asks ? 2 : 1);
        assert_ok(collectives_run(&c, large_sum, NULL));
        collectives_close(&c);
    }
}

/* NCCL is in progress for ever, on one rank or on all: then no rank's device waits for another's,
 * and only the deadline of the wait for NCCL ends the call. */
static void nccl_in_progress_for_ever_ends_at_the_deadline(void **state) {
    (void)state;
    for (int32_t stuck = 1; stuck <= RANKS; stuck += RANKS - 1) {
        collectives_pool c;
        begin(true);
        open_good(&c, "cuda", NULL);
        assert_ok(collectives_run(&c, large_sum, NULL));
        for (int32_t i = 0; i < stuck; i++) muster_sim_inject("ncclGroupEnd", 1, MST_NCCL_IN_PROGRESS);
        const muster_status status = collectives_run_until(&c, large_sum, NULL, NO_WAY / 100); /* of this call alone */
        assert_int_equal(muster_sim_injected(), stuck);
        assert_int_equal(status, MUSTER_TIMEOUT);
        if (stuck == RANKS) {
            assert_non_null(strstr(muster_last_error(), "NCCL: ncclGroupEnd: rank "));
            assert_non_null(strstr(muster_last_error(), " has been in progress for 0.3 s"));
        }
        assert_ok(collectives_run(&c, large_sum, NULL));
        assert_int_equal(muster_sim_calls("ncclCommInitRankConfig"), 2 * RANKS);
        collectives_close(&c);
    }
}

/* The creation of a communicator is in progress for ever, on one rank or on all, when the runtime
 * opens and when NCCL's communicators are made anew: at its deadline NCCL is given up, and
 * collectives go another way. The deadline is short only where it has to end something. */
static void nccl_that_is_created_for_ever_is_given_up(void **state) {
    (void)state;
    enum { SHORT = 200 * 1000000 };
    static const char words[] = "NCCL: ncclCommInitRankConfig: rank ", time[] = " has been in progress for 0.2 s";
    for (int32_t stuck = 1; stuck <= RANKS; stuck += RANKS - 1) {
        collectives_pool c;
        begin(false);
        for (int32_t i = 0; i < stuck; i++) muster_sim_inject("ncclCommInitRankConfig", 1, MST_NCCL_IN_PROGRESS);
        create_deadline = SHORT;
        open_good(&c, "cuda", NULL);
        create_deadline = 0;
        assert_int_equal(muster_sim_injected(), stuck);
        assert_non_null(strstr(log_text, words));
        assert_non_null(strstr(log_text, time));
        assert_ok(collectives_run(&c, large_sum, NULL));
        assert_int_equal(muster_sim_calls("ncclAllReduce"), 0);
        assert_int_equal(muster_sim_calls("ncclCommAbort"), muster_sim_calls("ncclCommInitRankConfig"));
        collectives_close(&c);

        begin(false);
        open_good(&c, "cuda", NULL);
        muster_sim_inject("ncclGroupStart", RANKS, 3); /* the others are inside */
        assert_refused(collectives_run(&c, large_sum, NULL), MUSTER_INTERNAL, "ncclGroupStart");
        assert_null(strstr(log_text, words));
        const uint64_t before = muster_sim_calls("ncclAllReduce");
        const int64_t usual = c.communicator->nccl_create_ns;
        for (int32_t i = 0; i < stuck; i++) muster_sim_inject("ncclCommInitRankConfig", 1, MST_NCCL_IN_PROGRESS);
        c.communicator->nccl_create_ns = SHORT;
        assert_ok(collectives_run(&c, large_sum, NULL)); /* staged */
        c.communicator->nccl_create_ns = usual;
        assert_non_null(strstr(log_text, words));
        assert_non_null(strstr(log_text, time));
        assert_int_equal(muster_sim_calls("ncclAllReduce"), before);
        assert_ok(collectives_run(&c, large_sum, NULL)); /* they could be made */
        assert_int_equal(muster_sim_calls("ncclAllReduce"), before + TRIAL + RANKS);
        collectives_close(&c);
    }
}

/* At close, NCCL has 5 s to finalize; then its communicators are aborted. */
static void nccl_that_does_not_finalize_is_aborted(void **state) {
    (void)state;
    collectives_pool c;
    begin(true);
    open_good(&c, "cuda", NULL);
    assert_ok(collectives_run(&c, large_sum, NULL));
    for (int32_t i = 0; i < RANKS; i++) muster_sim_inject("ncclCommFinalize", 1, MST_NCCL_IN_PROGRESS);
    collectives_close(&c);
    assert_int_equal(muster_sim_injected(), RANKS);
    assert_int_equal(muster_sim_calls("ncclCommAbort"), RANKS);
}

static void what_nccl_cannot_make_goes_another_way(void **state) {
    (void)state;
    collectives_pool c;
    begin(true);
    muster_sim_inject("ncclCommInitRankConfig", 2, 2);
    open_good(&c, "cuda", NULL);
    assert_non_null(strstr(log_text, "NCCL's communicators could not be made"));
    assert_ok(collectives_run(&c, large_sum, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), 0);
    collectives_close(&c);
}

static void until_nccl_is_made_anew_collectives_go_another_way(void **state) {
    (void)state;
    collectives_pool c;
    begin(false);
    open_good(&c, "cuda", NULL);
    muster_sim_inject("ncclGroupStart", RANKS, 3); /* the others are inside */
    assert_refused(collectives_run(&c, large_sum, NULL), MUSTER_INTERNAL, "ncclGroupStart");
    muster_sim_inject("ncclGetUniqueId", 1, 2);
    uint64_t before = muster_sim_calls("ncclAllReduce");
    assert_ok(collectives_run(&c, large_sum, NULL)); /* staged */
    assert_non_null(strstr(log_text, "the next call tries again"));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), before);
    assert_ok(collectives_run(&c, large_sum, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), before + TRIAL + RANKS);
    collectives_close(&c);
}

/* Two failures that follow each other: the making run's wait for a device, and then the `kth` time
 * that a device is entered (0: never). collectives_close looks for communicators that are left.
 * Returns how often a device was entered. */
static uint64_t make_with_two_failures(uint64_t kth) {
    collectives_pool c;
    begin(true);
    open_workers(&c, "cuda");
    const uint64_t before = muster_sim_calls("cuCtxPushCurrent_v2");
    muster_sim_inject("cuEventQuery", 1, MST_CU_UNKNOWN);
    if (kth > 0) muster_sim_inject("cuCtxPushCurrent_v2", kth, MST_CU_UNKNOWN);
    if (mst_communicator_create(c.pool, &(mst_communicator_options){.algorithm = NULL}, &c.communicator) != MUSTER_OK)
        c.communicator = NULL;
    else
        assert_non_null(strstr(log_text, "NCCL's communicators could not be made"));
    const uint64_t entered = muster_sim_calls("cuCtxPushCurrent_v2") - before;
    assert_int_equal(muster_sim_calls("ncclCommAbort"), muster_sim_calls("ncclCommInitRankConfig"));
    muster_sim_inject_clear();
    if (c.communicator) assert_ok(collectives_run(&c, large_sum, NULL));
    collectives_close(&c);
    return entered;
}

static void what_nccl_has_made_is_ended_where_a_device_cannot_be_entered_once(void **state) {
    (void)state;
    const uint64_t entered = make_with_two_failures(0);
    assert_true(entered >= 2 * RANKS); /* to make them, and to end them */
    for (uint64_t kth = 1; kth <= entered; kth++) make_with_two_failures(kth);
}

/* The same before the call after a lost one, which ends the communicators that are left and makes
 * new ones; and at the end. */
static void remake_with_a_failure(uint64_t kth, bool close) {
    collectives_pool c;
    begin(true);
    open_good(&c, "cuda", NULL);
    assert_refused(collectives_run(&c, sum_then_leave_one, NULL), MUSTER_USER, "has had enough");
    muster_sim_inject("cuCtxPushCurrent_v2", kth, MST_CU_UNKNOWN);
    if (!close) {
        if (collectives_run(&c, large_sum, NULL) != MUSTER_OK) assert_non_null(strstr(muster_last_error(), "cuCtxPushCurrent_v2"));
        muster_sim_inject_clear();
        assert_ok(collectives_run(&c, large_sum, NULL));
        assert_ok(collectives_run(&c, large_sum, NULL));
    }
    collectives_close(&c);
}

static void what_nccl_has_made_is_ended_after_a_lost_call_too(void **state) {
    (void)state;
    for (uint64_t kth = 1; kth <= 3 * RANKS; kth++)
        for (int close = 0; close < 2; close++) remake_with_a_failure(kth, close);
}

static muster_status part_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    MUSTER_TRY(muster_worker_split(w, NULL, w->rank % 2, 0, &part));
    muster_tensor x = values_make(w, LARGE, w->rank, 1);
    MUSTER_TRY(muster_worker_all_reduce(w, part, MUSTER_SUM, x, x));
    MUSTER_TRY(values_expect(w, x, 2 * (w->rank % 2) + 2, 2));
    MUSTER_TRY(muster_worker_release(w, part));
    return sum_of(w, LARGE);
}

static void parts_have_communicators_of_their_own(void **state) {
    (void)state;
    collectives_pool c;
    begin(false);
    open_good(&c, "cuda", NULL);
    for (int i = 0; i < 3; i++) assert_ok(collectives_run(&c, part_task, NULL));
    assert_int_equal(muster_sim_calls("ncclAllReduce"), TRIAL + 3 * (TRIAL + 2 * RANKS));
    collectives_close(&c);
}

static muster_status split_task(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    return muster_worker_split(w, NULL, w->rank % 2, 0, &part);
}

/* The next call ends what the failed split has made of NCCL's. */
static void a_split_that_nccl_refuses_leaves_nothing(void **state) {
    (void)state;
    collectives_pool c;
    begin(false);
    open_good(&c, "cuda", NULL);
    assert_ok(collectives_run(&c, large_sum, NULL));
    const int64_t live = mst_memory_live();
    muster_sim_inject("ncclCommInitRankConfig", 2, 2);
    assert_refused(collectives_run(&c, split_task, NULL), MUSTER_SYSTEM, "ncclCommInitRankConfig");
    assert_int_equal(muster_sim_injected(), 1);
    assert_ok(collectives_run(&c, large_sum, NULL));
    assert_int_equal(mst_memory_live(), live);
    collectives_close(&c);
}

/* ---- kernels at their first use ---- */

/* Each rank has a collective in flight, and then needs a kernel that nobody has compiled: odd ranks
 * another one than even ranks. fails: rank 3 leaves instead of entering the collective. */
static muster_status sum_and_first_use(muster_worker *w, void *fails) {
    int64_t count = LARGE;
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &x));
    float first[2] = {0};
    MUSTER_TRY(muster_fill(w, w->rank + 1, x));
    if (fails && w->rank == 3) return mst_error(MUSTER_USER, "rank 3 leaves");
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x)); /* 10 everywhere */
    MUSTER_TRY(w->rank % 2 ? muster_unary_op(w, MUSTER_SQUARE, x, x) : muster_clip(w, 0, 7, x, x));
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    MUSTER_TRY(muster_worker_read(w, muster_tensor_slice(x, count - 2, count), muster_f32(first, 2)));
    VALUES_REQUIRE(first[0] == 2 * 100 + 2 * 7 && first[1] == first[0]);
    return MUSTER_OK;
}

static void a_first_use_waits_for_the_collective_in_flight(void **state) {
    (void)state;
    for (int peers = 0; peers < 2; peers++) {
        collectives_pool c;
        begin(peers);
        open_good(&c, "cuda", NULL);
        assert_int_equal(muster_sim_compiled("mst_unary") + muster_sim_compiled("mst_clip"), 0);
        for (int run = 0; run < 2; run++) assert_ok(collectives_run(&c, sum_and_first_use, NULL));
        assert_int_equal(muster_sim_compiled("mst_unary"), 1); /* for all devices */
        assert_int_equal(muster_sim_compiled("mst_clip"), 1);
        assert_true(muster_sim_calls("ncclAllReduce") > 0);
        collectives_close(&c); /* and no hazard */
    }
}

/* The collective that the first uses wait for never ends. */
static void a_failure_of_another_rank_ends_the_wait_of_a_first_use(void **state) {
    (void)state;
    collectives_pool c;
    begin(false);
    open_good(&c, "cuda", NULL);
    assert_refused(collectives_run(&c, sum_and_first_use, &c), MUSTER_USER, "rank 3 leaves");
    assert_int_equal(muster_sim_compiled("mst_unary") + muster_sim_compiled("mst_clip"), 0);
    assert_ok(collectives_run(&c, sum_and_first_use, NULL));
    assert_int_equal(muster_sim_compiled("mst_unary"), 1);
    collectives_close(&c);
}

static void a_first_use_that_fails_ends_the_run_and_the_next_is_right(void **state) {
    (void)state;
    collectives_pool c;
    begin(false);
    open_good(&c, "cuda", NULL);
    muster_sim_inject("nvrtcCompileProgram", 1, 11);
    const muster_status status = collectives_run(&c, sum_and_first_use, NULL);
    if (status == MUSTER_OK || !strstr(muster_last_error(), " at its first use: NVRTC: nvrtcCompileProgram"))
        fail_msg("%s", muster_last_error());
    assert_ok(collectives_run(&c, sum_and_first_use, NULL));
    collectives_close(&c);
}

int main(void) {
    setenv("MUSTER_CACHE_DIR", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones_go_between_peers_and_large_ones_by_nccl),
        cmocka_unit_test(averages_of_floats_are_ncclavg_and_their_maximum_is_ours),
        cmocka_unit_test(in_a_fixed_order_nccl_sums_no_floats),
        cmocka_unit_test(virtual_devices_go_without_nccl),
        cmocka_unit_test(a_way_that_the_devices_do_not_have_is_refused),
        cmocka_unit_test(peers_that_lie_go_another_way),
        cmocka_unit_test(without_peers_where_the_environment_says_so),
        cmocka_unit_test(more_shards_than_the_kernel_takes_go_another_way),
        cmocka_unit_test(no_rank_waits_for_its_device_in_a_collective),
        cmocka_unit_test(a_new_product_behind_a_collective_loads_nothing_before_its_end),
        cmocka_unit_test(the_call_after_a_lost_one_has_new_communicators),
        cmocka_unit_test(a_failure_of_nccl_ends_the_call_on_every_rank),
        cmocka_unit_test(nccl_in_progress_for_ever_ends_at_the_deadline),
        cmocka_unit_test(nccl_that_is_created_for_ever_is_given_up),
        cmocka_unit_test(nccl_that_does_not_finalize_is_aborted),
        cmocka_unit_test(what_nccl_cannot_make_goes_another_way),
        cmocka_unit_test(until_nccl_is_made_anew_collectives_go_another_way),
        cmocka_unit_test(what_nccl_has_made_is_ended_where_a_device_cannot_be_entered_once),
        cmocka_unit_test(what_nccl_has_made_is_ended_after_a_lost_call_too),
        cmocka_unit_test(parts_have_communicators_of_their_own),
        cmocka_unit_test(a_split_that_nccl_refuses_leaves_nothing),
        cmocka_unit_test(a_first_use_waits_for_the_collective_in_flight),
        cmocka_unit_test(a_failure_of_another_rank_ends_the_wait_of_a_first_use),
        cmocka_unit_test(a_first_use_that_fails_ends_the_run_and_the_next_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

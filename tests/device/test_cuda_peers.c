/* Access to a peer's memory that the driver promises and that does not work: each ordered pair is
 * tried before it is used, and what does not work is not used. */
#include "cuda_fixture.h"

#include <pthread.h>

enum { GPUS = 4, MOST = 8 };

static void take_no_notice(void) {
    char notice[MST_MESSAGE_SIZE];
    if (mst_cuda_take_notice(notice)) fail_msg("a notice that nobody expected: %s", notice);
}

static void expect_notice(const char *begin, const char *words) {
    char notice[MST_MESSAGE_SIZE];
    if (!mst_cuda_take_notice(notice)) fail_msg("no notice, expected one with \"%s\"", words);
    assert_memory_equal(notice, begin, strlen(begin));
    if (!strstr(notice, words)) fail_msg("expected \"%s\" in the notice: %s", words, notice);
    assert_non_null(strstr(notice, "NCCL_P2P_DISABLE=1"));
}

static void open_all(mst_device *devices[], int count) {
    for (int i = 0; i < count; i++) devices[i] = opened((const char[]){(char)('0' + i), 0});
}

static void close_all(mst_device *devices[], int count) {
    for (int i = count; i-- > 0;) closed(devices[i]);
}

static bool reaches(mst_device *from, mst_device *to) {
    bool access = false;
    assert_ok(from->code->peer_access(from, to, &access));
    return access;
}

/* ---- what works ---- */

static void peers_that_work_are_tried_once(void **state) {
    (void)state;
    mst_device *devices[GPUS];
    new_machine(&(muster_sim_options){.devices = GPUS, .longest_delay = 20});
    open_all(devices, GPUS);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < GPUS; i++)
            for (int j = 0; j < GPUS; j++)
                if (i != j) assert_true(reaches(devices[i], devices[j]));
        assert_int_equal(muster_sim_launches("mst_peer_probe"), GPUS * (GPUS - 1));
    }
    mst_device *again = opened("0"); /* a virtual device of a GPU that has been tried */
    assert_true(reaches(again, devices[1]));
    assert_true(reaches(again, devices[0]));
    assert_int_equal(muster_sim_launches("mst_peer_probe"), GPUS * (GPUS - 1));
    closed(again);
    close_all(devices, GPUS);
    check_machine();
}

/* What 8 GPUs pay when a runtime opens: the work in queues and the objects of the driver. */
static void the_attempt_is_cheap(void **state) {
    (void)state;
    enum { PAIRS = MOST * (MOST - 1), SYMBOLS = 9 };
    static const struct {
        const char *symbol;
        int64_t per_pair;
    } costs[SYMBOLS] = {{"cuLaunchKernel", 1},        {"cuMemcpyDtoDAsync_v2", 2}, {"cuMemcpyHtoDAsync_v2", 2},
                        {"cuMemcpyDtoHAsync_v2", 2},  {"cuEventRecord", 4},        {"cuStreamCreate", 1},
                        {"cuDeviceCanAccessPeer", 1}, {"cuMemAlloc_v2", 0},        {"cuMemFree_v2", 0}};
    uint64_t before[SYMBOLS];
    mst_device *devices[MOST];
    new_machine(&(muster_sim_options){.devices = MOST});
    open_all(devices, MOST);
    for (int i = 0; i < SYMBOLS; i++) before[i] = muster_sim_calls(costs[i].symbol);
    for (int i = 0; i < MOST; i++)
        for (int j = 0; j < MOST; j++)
            if (i != j) assert_true(reaches(devices[i], devices[j]));
    for (int i = 0; i < SYMBOLS; i++) {
        const int64_t calls = (int64_t)(muster_sim_calls(costs[i].symbol) - before[i]);
        if (calls != PAIRS * costs[i].per_pair) fail_msg("%lld calls of %s for %d pairs", (long long)calls, costs[i].symbol, (int)PAIRS);
    }
    close_all(devices, MOST);
    check_machine();
}

/* ---- what lies ---- */

/* One of the 6 ordered pairs lies, by its kernels or by its copies: it alone is not used. */
static void a_pair_that_lies_is_not_used(void **state) {
    static const char *const words[] = {"of 1024 words each, a kernel loaded 0 and stored 0, copies read 1024 and wrote 1024 rightly",
                                        "of 1024 words each, a kernel loaded 1024 and stored 1024, copies read 0 and wrote 0 rightly"};
    (void)state;
    int32_t lies = 0;
    for (int from = 0; from < 3; from++) {
        for (int to = 0; to < 3; to++) {
            for (int copies = 0; copies < 2 && from != to; copies++, lies++) {
                muster_sim_options options = {.devices = 3};
                char begin[80];
                mst_device *devices[3];
                (copies ? options.lying_copies : options.lying_kernels)[from] = (uint8_t)(1 << to);
                new_machine(&options);
                open_all(devices, 3);
                for (int round = 0; round < 2; round++)
                    for (int i = 0; i < 3; i++)
                        for (int j = 0; j < 3; j++) assert_int_equal(reaches(devices[i], devices[j]), i != from || j != to);
                snprintf(begin, sizeof begin, "cuda:%d cannot use the memory of cuda:%d, although the driver says so: ", from, to);
                expect_notice(begin, words[copies]);
                take_no_notice();
                close_all(devices, 3);
                check_machine();
            }
        }
    }
    assert_int_equal(lies, 12);
}

/* ---- what never ends ---- */

static void a_pair_that_does_not_answer_is_left_alone(void **state) {
    (void)state;
    mst_device *devices[3];
    char notice[MST_MESSAGE_SIZE];
    const int64_t usual = mst_cuda_probe_ns;
    new_machine(&(muster_sim_options){.devices = 3, .stuck_peers = {1 << 1}});
    mst_cuda_probe_ns = 50 * 1000000ll;
    open_all(devices, 3);
    assert_false(reaches(devices[0], devices[1]));
    expect_notice("cuda:0 cannot use the memory of cuda:1", "had not ended after 0.05 s");
    assert_false(reaches(devices[1], devices[0])); /* nobody is sent to wait behind it */
    assert_false(reaches(devices[2], devices[1]));
    assert_int_equal(muster_sim_calls("cuLaunchKernel"), 1);
    unsigned char in[64], out[64] = {0};
    for (int i = 0; i < 64; i++) in[i] = pattern_at(i, 3);
    for (int i = 0; i < 3; i++) { /* each goes on by itself */
        void *place = allocated(devices[i], sizeof in);
        assert_ok(devices[i]->memory->copy_in(devices[i], place, in, sizeof in));
        assert_ok(devices[i]->memory->copy_out(devices[i], out, place, sizeof out));
        assert_ok(devices[i]->table->synchronize(devices[i]));
        check_pattern(out, sizeof out, 3);
        devices[i]->memory->release(devices[i], place);
    }
    const uint64_t freed = muster_sim_calls("cuMemFree_v2");
    close_all(devices, 3);
    closed(opened("2"));
    assert_int_equal(muster_sim_calls("cuMemFree_v2"), freed); /* it would wait for ever */
    for (int i = 0; i < 4; i++) {
        assert_true(mst_cuda_take_notice(notice));
        assert_non_null(strstr(notice, "is closed, but another device, which may still use its memory, does not end"));
    }
    take_no_notice();
    assert_int_equal(muster_sim_hazard_count(), 0);
    mst_cuda_probe_ns = usual;
    new_machine(NULL);
}

/* ---- the setting ---- */

static void the_setting_forbids_peers(void **state) {
    static const struct {
        int32_t p2p;
        const char *variable;
        bool used;
    } cases[] = {{0, NULL, true}, {0, "1", true},    {0, "0", false},  {1, NULL, true},
                 {1, "0", true},  {-1, NULL, false}, {-1, "1", false}, {0, "", true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mst_device *devices[3];
        const mst_device_settings settings = {.p2p = cases[i].p2p};
        new_machine(NULL);
        if (cases[i].variable) setenv("MUSTER_P2P", cases[i].variable, 1);
        assert_ok(mst_cuda_device_table.hardware->open_with("0", &settings, &devices[0]));
        assert_ok(mst_cuda_device_table.hardware->open_with("1", &settings, &devices[1]));
        assert_ok(mst_cuda_device_table.hardware->open_with("0", &settings, &devices[2]));
        unsetenv("MUSTER_P2P");
        assert_int_equal(reaches(devices[0], devices[1]), cases[i].used);
        assert_int_equal(reaches(devices[1], devices[0]), cases[i].used);
        assert_true(reaches(devices[0], devices[2])); /* one GPU */
        assert_int_equal(muster_sim_calls("cuCtxEnablePeerAccess") > 0, cases[i].used);
        close_all(devices, 3);
        check_machine();
    }
}

/* ---- failures of the attempt ---- */

/* Every call of an attempt fails once: the question fails, or the attempt went on without it, and
 * the next question has the true answer. */
static void every_failure_leaves_nothing(void **state) {
    (void)state;
    int32_t failed = 0;
    for (uint64_t k = 1;; k++) {
        mst_device *devices[2];
        bool access = true;
        new_machine(NULL);
        open_all(devices, 2);
        muster_sim_inject(NULL, k, MST_CU_OPERATING_SYSTEM);
        const muster_status status = devices[0]->code->peer_access(devices[0], devices[1], &access);
        const bool sprung = muster_sim_injected() > 0;
        muster_sim_inject_clear();
        if (status != MUSTER_OK) {
            assert_false(access);
            assert_non_null(strstr(muster_last_error(), "CUDA_ERROR_OPERATING_SYSTEM"));
            failed++;
        }
        assert_true(reaches(devices[0], devices[1]));
        close_all(devices, 2);
        check_machine();
        if (!sprung) break;
    }
    assert_true(failed >= 10);
    mst_device *devices[2];
    bool access = true;
    new_machine(NULL);
    open_all(devices, 2);
    mst_memory_fail_at(1); /* the only allocation of the attempt */
    const muster_status status = devices[0]->code->peer_access(devices[0], devices[1], &access);
    mst_memory_fail_at(0);
    assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
    assert_true(reaches(devices[0], devices[1]));
    close_all(devices, 2);
    check_machine();
}

/* ---- two threads ---- */

static void *ask_many_times(void *devices) {
    mst_device **pair = devices;
    for (int i = 0; i < 50; i++) {
        bool access = false;
        if (pair[0]->code->peer_access(pair[0], pair[1], &access) != MUSTER_OK || !access) return pair;
    }
    return NULL;
}

static void two_runtimes_ask_at_once(void **state) {
    (void)state;
    mst_device *devices[4];
    pthread_t thread;
    void *wrong = NULL;
    new_machine(&(muster_sim_options){.longest_delay = 50});
    for (int i = 0; i < 4; i++) devices[i] = opened(i % 2 ? "1" : "0");
    assert_int_equal(pthread_create(&thread, NULL, ask_many_times, devices), 0);
    assert_null(ask_many_times(devices + 2));
    pthread_join(thread, &wrong);
    assert_null(wrong);
    assert_int_equal(muster_sim_launches("mst_peer_probe"), 1);
    close_all(devices, 4);
    check_machine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_that_work_are_tried_once), cmocka_unit_test(the_attempt_is_cheap),
        cmocka_unit_test(a_pair_that_lies_is_not_used),   cmocka_unit_test(a_pair_that_does_not_answer_is_left_alone),
        cmocka_unit_test(the_setting_forbids_peers),      cmocka_unit_test(every_failure_leaves_nothing),
        cmocka_unit_test(two_runtimes_ask_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

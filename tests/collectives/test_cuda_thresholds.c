/* Which transport serves on either side of each threshold, by the table of the library and by a
 * file of the user's. */
#include "collectives_values.h"
#include "cuda/cuda_impl.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 2 };
static char path[64];

static void drop_line(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static void open_pool(collectives_pool *c, bool peers, const char *algorithm, const char *rows) {
    const muster_sim_options machine = {.devices = RANKS, .no_peers = !peers};
    const mst_pool_options options = {.fail_after_ns = 60LL * 1000000000, .dedicated_rank0 = true, .log = drop_line};
    const mst_communicator_options ways = {.algorithm = algorithm};
    muster_sim_reset(&machine);
    mst_cuda_forget_lost();
    unsetenv("MUSTER_THRESHOLDS");
    if (rows) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(rows, file);
        fclose(file);
        setenv("MUSTER_THRESHOLDS", path, 1);
    }
    setenv("MUSTER_TEST_DEVICES", "cuda", 1);
    collectives_open_devices(c, 0, RANKS);
    assert_ok(mst_pool_create(&options, c->devices, c->size, &c->pool));
    assert_ok(mst_communicator_create(c->pool, &ways, &c->communicator));
}

static muster_status sum_task(muster_worker *w, void *argument) {
    const int64_t count = *(int64_t *)argument;
    muster_tensor x = values_make(w, count, w->rank, 1);
    MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, x));
    return values_expect(w, x, RANKS * (RANKS - 1) / 2, RANKS);
}

static void expect(collectives_pool *c, int64_t count, const char *transport) {
    assert_ok(collectives_run(c, sum_task, &count));
    for (int32_t r = 0; r < RANKS; r++) assert_string_equal(c->communicator->members[r].served_transport, transport);
}

/* The values of values_make have 8 bytes. */
static void either_side_of_each_threshold(void **state) {
    (void)state;
    static const struct {
        bool peers;
        const char *algorithm, *rows;
        int64_t last; /* the most elements that `below` serves; 0: `above` serves all */
        const char *below, *above;
    } cases[] = {
        {true, NULL, NULL, 32768, "p2p", "nccl"}, /* 256 KiB: lib/device/thresholds.def */
        {false, NULL, NULL, 0, NULL, "nccl"},
        {true, NULL, "MST_THRESHOLD(800, p2p_bytes, \"any\")\n", 100, "p2p", "nccl"},
        {true, NULL, "MST_THRESHOLD(807, p2p_bytes, \"any\")\n", 100, "p2p", "nccl"},
        {true, NULL, "MST_THRESHOLD(0, p2p_bytes, \"any\")\n", 0, NULL, "nccl"},
        {true, NULL, "MST_THRESHOLD(800, p2p_bytes, \"sm_90\")\nMST_THRESHOLD(8, p2p_bytes, \"sm_80\")\n", 100, "p2p", "nccl"},
        {true, NULL, "MST_THRESHOLD(8000, staged_bytes, \"any\")\nMST_THRESHOLD(800, p2p_bytes, \"any\")\n", 100, "p2p", "nccl"},
        {false, NULL, "MST_THRESHOLD(8000, staged_bytes, \"any\")\n", 1000, "staged", "nccl"},
        {false, "nccl", "MST_THRESHOLD(8000, staged_bytes, \"any\")\n", 0, NULL, "nccl"},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, count++) {
        collectives_pool c;
        open_pool(&c, cases[i].peers, cases[i].algorithm, cases[i].rows);
        if (cases[i].below) expect(&c, 1, cases[i].below);
        if (cases[i].below) expect(&c, cases[i].last, cases[i].below);
        expect(&c, cases[i].last + 1, cases[i].above);
        collectives_close(&c);
    }
    assert_int_equal(count, 9);
}

int main(void) {
    snprintf(path, sizeof path, "/tmp/muster-thresholds-%d", (int)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(either_side_of_each_threshold)};
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return result;
}

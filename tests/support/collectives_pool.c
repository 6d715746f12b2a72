#include "collectives_pool.h"

#include "base_check.h"
#include "base_machine.h"
#include "code_impl.h"
#include "device_discrete.h"

#include <stdio.h>
#include <stdlib.h>

static int open_pools;

collectives_kind collectives_devices(void) {
    const char *text = getenv("MUSTER_TEST_DEVICES");
    if (!text || !*text) return COLLECTIVES_HOST_AND_DISCRETE;
    if (strcmp(text, "cuda") == 0) return COLLECTIVES_GPUS;
    if (strcmp(text, "cuda-virtual") == 0) return COLLECTIVES_VIRTUAL;
    fail_msg("MUSTER_TEST_DEVICES: expected cuda or cuda-virtual, received \"%s\"", text);
    return COLLECTIVES_HOST_AND_DISCRETE;
}

void collectives_open_devices(collectives_pool *c, int32_t host, int32_t discrete) {
    const collectives_kind kind = collectives_devices();
    enum { GPUS = 8 }; /* of the simulated machine: a ninth rank shares one */
    assert_ok(mst_discrete_register());
    assert_ok(mst_code_add(&mst_ops_code));
    assert_ok(mst_code_add(&mst_collectives_code));
    *c = (collectives_pool){.size = host + discrete};
    open_pools++;
    for (int32_t r = 0; r < c->size; r++) {
        const mst_device_table *table = mst_device_find(kind != COLLECTIVES_HOST_AND_DISCRETE ? "cuda" : r < host ? "host" : "discrete");
        int32_t number = kind == COLLECTIVES_GPUS ? r % GPUS : kind == COLLECTIVES_VIRTUAL ? 0 : r < host ? r : r - host;
        char ordinal[16];
        snprintf(ordinal, sizeof ordinal, "%d", number);
        assert_ok(table->open(table, ordinal, &c->devices[r]));
    }
}

static void log_nothing(void *user, const char *line) { (void)user, (void)line; }

void collectives_open(collectives_pool *c, int32_t host, int32_t discrete) {
    collectives_open_with(c, host, discrete, NULL, 60LL * 1000000000);
}

void collectives_open_with(collectives_pool *c, int32_t host, int32_t discrete, const char *algorithm, int64_t fail_after_ns) {
    mst_pool_options options = {.spin_ns = 20000, .warn_after_ns = -1, .fail_after_ns = fail_after_ns, .log = log_nothing};
    collectives_open_devices(c, host, discrete);
    options.dedicated_rank0 = collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE && c->size > 1;
    assert_ok(mst_pool_create(&options, c->devices, c->size, &c->pool));
    assert_ok(mst_communicator_create(c->pool, &(mst_communicator_options){.algorithm = algorithm}, &c->communicator));
}

void collectives_close(collectives_pool *c) {
    mst_communicator_destroy(c->communicator);
    mst_pool_destroy(c->pool);
    for (int32_t r = c->size - 1; r >= 0; r--) c->devices[r]->table->close(c->devices[r]);
    open_pools--;
    if (collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE) machine_check(open_pools == 0);
}

muster_status collectives_run(collectives_pool *c, mst_task task, void *argument) {
    MUSTER_TRY(mst_pool_enter(c->pool, "test", 0));
    mst_communicator_ready(c->communicator);
    muster_status status = mst_pool_run(c->pool, task, argument);
    mst_pool_leave(c->pool);
    return status;
}

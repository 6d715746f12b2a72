#include "collectives_pool.h"

#include "base_check.h"
#include "device_far.h"

#include <stdio.h>

static void log_nothing(void *user, const char *line) { (void)user, (void)line; }

void collectives_open(collectives_pool *c, int32_t host, int32_t far) { collectives_open_with(c, host, far, NULL, 60LL * 1000000000); }

void collectives_open_with(collectives_pool *c, int32_t host, int32_t far, const char *algorithm, int64_t fail_after_ns) {
    mst_pool_options options = {.spin_ns = 20000, .warn_after_ns = -1, .fail_after_ns = fail_after_ns, .log = log_nothing};
    assert_ok(mst_far_register());
    *c = (collectives_pool){.size = host + far};
    for (int32_t r = 0; r < c->size; r++) {
        const mst_device_table *table = mst_device_find(r < host ? "host" : "far");
        char ordinal[16];
        snprintf(ordinal, sizeof ordinal, "%d", r < host ? r : r - host);
        assert_ok(table->open(table, ordinal, &c->devices[r]));
    }
    assert_ok(mst_pool_create(&options, c->devices, c->size, &c->pool));
    assert_ok(mst_communicator_create(c->pool, &(mst_communicator_options){algorithm}, &c->communicator));
}

void collectives_close(collectives_pool *c) {
    mst_communicator_destroy(c->communicator);
    mst_pool_destroy(c->pool);
    for (int32_t r = c->size - 1; r >= 0; r--) c->devices[r]->table->close(c->devices[r]);
}

muster_status collectives_run(collectives_pool *c, mst_task task, void *argument) {
    MUSTER_TRY(mst_pool_enter(c->pool, "test", 0));
    muster_status status = mst_pool_run(c->pool, task, argument);
    mst_pool_leave(c->pool);
    return status;
}

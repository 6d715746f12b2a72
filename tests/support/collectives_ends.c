#include "collectives_ends.h"

ends_seen ends;

static void ends_close(mst_wire *wire, mst_wire_end end) {
    ends.ends[wire->process] = end;
    ends.stale[wire->process] = wire->stale;
    ends.close(wire, end);
    atomic_fetch_add(&ends.closed, 1);
}

void ends_begin(void) { atomic_store(&ends.closed, 0); }

void ends_note(nodes_test *test, mst_nodes *nodes, int32_t process) {
    if (process == 0) ends.close = nodes->wire->close;
    await_barrier_wait(&test->barrier);
    nodes->wire->close = ends_close;
}

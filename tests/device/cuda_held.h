/* A GPU whose queues stand still while a collective is in flight: what waits for them has to wait
 * where a deadline reaches it. A call that waits in the driver would not come back, so a thread
 * releases the queues when the machine has seen the broken rule. */
#ifndef MST_CUDA_HELD_H
#define MST_CUDA_HELD_H

#include "base_await.h"
#include "cuda_fixture.h"
#include "sim_impl.h"

#include <pthread.h>
#include <unistd.h>

static _Atomic bool held_is_over;
static pthread_t held_releaser;
static int held_polls; /* until the interrupt ends the wait */

static MAYBE_UNUSED muster_status held_interrupt(void *unused) {
    (void)unused;
    return --held_polls > 0 ? MUSTER_OK : mst_error(MUSTER_TIMEOUT, "waited long enough");
}

static MAYBE_UNUSED void *held_release_when_broken(void *unused) {
    TEST_AWAIT(atomic_load(&held_is_over) || muster_sim_hazard_count(), 1000000);
    if (!atomic_load(&held_is_over)) muster_sim_release();
    return unused;
}

static MAYBE_UNUSED void hold_queues(mst_device *device) {
    bool done = false;
    device->in_flight = true;
    sim_collective_begin(mst_cuda_ordinal(device), "test");
    muster_sim_inject_queue_stall("cuStreamQuery", 1, 0);
    assert_ok(device->queue->poll(device, &done));
    held_polls = 50;
    device->interrupt = held_interrupt;
    atomic_store(&held_is_over, false);
    assert_int_equal(pthread_create(&held_releaser, NULL, held_release_when_broken, NULL), 0);
}

static MAYBE_UNUSED void release_queues(mst_device *device) {
    atomic_store(&held_is_over, true);
    pthread_join(held_releaser, NULL);
    sim_collective_end(mst_cuda_ordinal(device));
    muster_sim_release();
    device->interrupt = NULL;
    device->in_flight = false;
}

#endif

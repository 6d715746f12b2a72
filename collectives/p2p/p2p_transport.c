/* The transport between peers: its table and its state. */
#include "p2p_private.h"
#include "p2p_reduce_private.h"

#include <stdio.h>

static const char opening[] = "muster_runtime_open: communicator";

static muster_status ask_access(const mst_pool *pool, mst_p2p *p2p) {
    for (int32_t i = 0; i < p2p->size; i++) {
        mst_device *device = mst_pool_worker((mst_pool *)(uintptr_t)pool, i)->device;
        for (int32_t j = 0; j < p2p->size; j++) {
            bool *access = &p2p->access[i * p2p->size + j];
            if (i == j)
                *access = true;
            else
                MUSTER_TRY(device->code->peer_access(device, mst_pool_worker((mst_pool *)(uintptr_t)pool, j)->device, access));
        }
    }
    return MUSTER_OK;
}

static muster_status create_events(const mst_pool *pool, mst_p2p *p2p) {
    for (int32_t r = 0; r < p2p->size; r++) {
        mst_device *device = mst_pool_worker((mst_pool *)(uintptr_t)pool, r)->device;
        for (int32_t e = 0; e < MST_P2P_EVENTS; e++) MUSTER_TRY(mst_device_event_create(device, &p2p->workers[r].events[e]));
    }
    return MUSTER_OK;
}

/* If this fails, the close of the world frees what has been created. */
static muster_status p2p_open(muster_communicator *world) {
    const size_t size = (size_t)world->size;
    MUSTER_TRY(mst_transport_refuse(world, &mst_transport_p2p, "they do not read each other's memory by address"));
    if (!mst_devices_move_tensors(world->pool)) return MUSTER_OK;
    mst_p2p *p2p = mst_alloc(sizeof *p2p);
    if (!p2p) return mst_out_of_memory(opening, sizeof *p2p);
    world->open[MST_TRANSPORT_p2p] = p2p;
    p2p->size = world->size;
    p2p->workers = mst_alloc(size * sizeof *p2p->workers);
    p2p->access = mst_alloc(size * size * sizeof *p2p->access);
    if (!p2p->workers || !p2p->access) return mst_out_of_memory(opening, (int64_t)(size * sizeof *p2p->workers + size * size));
    for (size_t r = 0; r < size; r++) pthread_mutex_init(&p2p->workers[r].recording, NULL);
    MUSTER_TRY(create_events(world->pool, p2p));
    return ask_access(world->pool, p2p);
}

static void p2p_close(muster_communicator *world) {
    mst_p2p *p2p = world->open[MST_TRANSPORT_p2p];
    if (!p2p) return;
    for (int32_t r = 0; p2p->workers && p2p->access && r < p2p->size; r++) {
        pthread_mutex_destroy(&p2p->workers[r].recording);
        for (int32_t e = 0; e < MST_P2P_EVENTS; e++) mst_device_event_destroy(p2p->workers[r].events[e]);
        mst_device_staging_free(mst_pool_worker(world->pool, r)->device, &p2p->workers[r].staging);
    }
    mst_free(p2p->workers);
    mst_free(p2p->access);
    mst_free(p2p);
}

/* Can every member's device access the memory of every other member's? */
static bool are_peers(const mst_p2p *p2p, const muster_communicator *communicator) {
    for (int32_t i = 0; i < communicator->size; i++)
        for (int32_t j = 0; j < communicator->size; j++)
            if (!p2p->access[communicator->members[i].rank * p2p->size + communicator->members[j].rank]) return false;
    return true;
}

static muster_status p2p_create(const char *where, muster_communicator *communicator, const muster_communicator *parent) {
    mst_p2p *p2p = communicator->world->open[MST_TRANSPORT_p2p];
    (void)where, (void)parent;
    if (p2p && are_peers(p2p, communicator)) communicator->state[MST_TRANSPORT_p2p] = p2p;
    return MUSTER_OK;
}

static void p2p_describe(const muster_communicator *communicator, char *text, size_t size) {
    snprintf(text, size, "%s", !mst_p2p_of(communicator) ? "" : communicator->size == 1 ? "one rank" : "p2p between peers");
}

/* Without a view, one rank can only assume that the kernel's parameters have room for all
 * inputs. */
static int32_t p2p_bid(const muster_communicator *communicator, const mst_request *request, const mst_view *view) {
    (void)communicator, (void)request;
    return !view || mst_p2p_combines(view) ? MST_BID_GOOD : 0;
}

const mst_transport mst_transport_p2p = {.name = "p2p",
                                         .number = MST_TRANSPORT_p2p,
                                         .sharing = true,
                                         .describe = p2p_describe,
                                         .open = p2p_open,
                                         .close = p2p_close,
                                         .create = p2p_create,
                                         .bid = p2p_bid,
                                         .prepare = mst_p2p_prepare,
                                         .run = mst_p2p_run,
                                         .finish = mst_p2p_finish,
                                         .reserve_apply = mst_p2p_apply_reserve,
                                         .messages = &mst_p2p_messages};

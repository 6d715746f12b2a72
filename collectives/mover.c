/* Rounds between devices with memory of their own: which way serves an item, and in what order the
 * queues take it.
 *
 * A rank records an event in its queue before it arrives. A rank that serves p2p waits, in its queue,
 * for the events of all others, works, records a second event, and after everybody has left waits for
 * the second events of the others. So nothing waits in the host but the meeting. NCCL orders the devices by itself. */
#include "mover_impl.h"
#include "nccl/nccl_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what there is ---- */

static bool able(const mst_device *device) { return !mst_device_is_host(device) && device->queue && device->code; }

static const mst_device *device_of(mst_pool *pool, int32_t rank) { return mst_pool_worker(pool, rank)->device; }

static bool all_able(mst_pool *pool) {
    for (int32_t r = 0; r < mst_pool_size(pool); r++)
        if (!able(device_of(pool, r)) || device_of(pool, r)->table != device_of(pool, 0)->table) return false;
    return true;
}

static muster_status ask_reaches(mst_movers *movers) {
    for (int32_t i = 0; i < movers->size; i++) {
        mst_device *device = mst_pool_worker(movers->pool, i)->device;
        for (int32_t j = 0; j < movers->size; j++) {
            bool *reaches = &movers->reaches[i * movers->size + j];
            if (i == j)
                *reaches = true;
            else
                MUSTER_TRY(device->code->peer_access(device, mst_pool_worker(movers->pool, j)->device, reaches));
        }
    }
    return MUSTER_OK;
}

/* Do all members reach the memory of all others? */
static bool are_peers(const mst_host_communicator *self) {
    const mst_movers *movers = self->movers;
    for (int32_t i = 0; i < self->base.size; i++)
        for (int32_t j = 0; j < self->base.size; j++)
            if (!movers->reaches[self->members[i].rank * movers->size + self->members[j].rank]) return false;
    return true;
}

void mst_movers_share(mst_host_communicator *part, const mst_host_communicator *world) {
    part->movers = world->movers;
    part->peers = part->movers && are_peers(part);
}

static muster_status create_events(mst_movers *movers) {
    for (int32_t r = 0; r < movers->size; r++) {
        mst_device *device = mst_pool_worker(movers->pool, r)->device;
        for (int32_t e = 0; e < MST_PEER_EVENTS; e++) MUSTER_TRY(mst_device_event_create(device, &movers->asides[r].events[e]));
    }
    return MUSTER_OK;
}

static const char opening[] = "muster_runtime_open: communicator";

static muster_status build(mst_host_communicator *world, mst_movers *movers) {
    const size_t size = (size_t)movers->size;
    movers->asides = mst_alloc(size * sizeof *movers->asides);
    movers->reaches = mst_alloc(size * size * sizeof *movers->reaches);
    if (!movers->asides || !movers->reaches) return mst_out_of_memory(opening, (int64_t)(size * sizeof *movers->asides + size * size));
    for (size_t r = 0; r < size; r++) pthread_mutex_init(&movers->asides[r].recording, NULL);
    MUSTER_TRY(create_events(movers));
    MUSTER_TRY(ask_reaches(movers));
    mst_movers_share(world, world);
    return world->forced == MST_P2P ? MUSTER_OK : mst_nccl_open(world, movers);
}

static muster_status refuse_name(const char *name, const char *reason) {
    return mst_error(MUSTER_UNAVAILABLE,
                     "muster_runtime_open: collective algorithm: expected one that these devices have, received \"%s\": %.600s", name,
                     reason);
}

static muster_status check_name(const mst_host_communicator *world) {
    const mst_movers *movers = world->movers;
    const mst_algorithm_kind forced = world->forced;
    if (forced < MST_P2P) return MUSTER_OK;
    if (forced == MST_STAGED && mst_device_is_host(device_of(world->pool, 0))) return refuse_name("staged", "their memory is the host's");
    if (forced == MST_P2P && !world->peers) return refuse_name("p2p", "they do not read each other's memory by address");
    if (forced == MST_NCCL && !world->unique_id) return refuse_name("nccl", movers ? movers->reason : "they are not all GPUs");
    return MUSTER_OK;
}

muster_status mst_movers_open(mst_host_communicator *world, bool fixed_order) {
    if (!all_able(world->pool)) return check_name(world);
    mst_movers *movers = mst_alloc(sizeof *movers);
    if (!movers) return mst_out_of_memory(opening, sizeof *movers);
    *movers = (mst_movers){.pool = world->pool, .size = world->base.size, .fixed_order = fixed_order};
    world->movers = movers;
    MUSTER_TRY(build(world, movers)); /* whoever made the world closes it */
    return check_name(world);
}

void mst_movers_close(mst_host_communicator *world) {
    mst_movers *movers = world->movers;
    if (!movers) return;
    mst_nccl_close(movers);
    for (int32_t r = 0; movers->asides && movers->reaches && r < movers->size; r++) {
        pthread_mutex_destroy(&movers->asides[r].recording);
        for (int32_t e = 0; e < MST_PEER_EVENTS; e++) mst_device_event_destroy(movers->asides[r].events[e]);
        mst_device *device = mst_pool_worker(movers->pool, r)->device;
        if (movers->asides[r].memory && !device->lost) device->memory->release(device, movers->asides[r].memory);
    }
    mst_free(movers->asides);
    mst_free(movers->reaches);
    mst_free(movers);
    world->movers = NULL;
}

/* ---- memory ---- */

enum { ALIGNMENT = 256 };
int64_t mst_device_aside_bytes(int64_t bytes) { return (bytes + ALIGNMENT - 1) & -(int64_t)ALIGNMENT; }

/* What is there may still be in use by peers, as their own queues go; after sync it is not, since
 * this queue has waited for them. */
muster_status mst_device_aside_begin(muster_worker *worker, mst_device_aside *aside, int64_t bytes) {
    mst_device *device = worker->device;
    aside->used = 0;
    if (bytes <= aside->capacity) return MUSTER_OK;
    if (aside->memory) {
        MUSTER_TRY(mst_worker_sync(worker));
        device->memory->release(device, aside->memory);
        aside->memory = NULL;
        aside->capacity = 0;
    }
    void *address = NULL;
    MUSTER_TRY(mst_worker_allocate(worker, bytes, &address));
    aside->memory = address;
    aside->capacity = bytes;
    return MUSTER_OK;
}

void *mst_device_aside_take(mst_device_aside *aside, int64_t bytes) {
    void *address = aside->memory + aside->used;
    aside->used += mst_device_aside_bytes(bytes);
    return address;
}

static mst_device_aside *aside_of(const mst_items *items) { return &items->self->movers->asides[items->worker->rank]; }

/* ---- events ---- */

muster_status mst_peer_event_record(const mst_host_communicator *self, muster_worker *worker, int32_t event) {
    mst_device_aside *own = &self->movers->asides[worker->rank];
    pthread_mutex_lock(&own->recording);
    muster_status status = mst_device_event_record(own->events[event], MST_QUEUE_COMPUTE);
    pthread_mutex_unlock(&own->recording);
    return status;
}

muster_status mst_peer_event_wait(const mst_host_communicator *self, muster_worker *worker, int32_t rank, int32_t event) {
    const int32_t other_rank = self->members[rank].rank;
    mst_device_aside *other = &self->movers->asides[other_rank];
    if (other_rank == worker->rank) return MUSTER_OK;
    pthread_mutex_lock(&other->recording);
    muster_status status = mst_device_event_wait(worker->device, MST_QUEUE_COMPUTE, other->events[event]);
    pthread_mutex_unlock(&other->recording);
    return status;
}

/* ---- before the arrival ---- */

/* Every rank's output is where its peers' parcels go: they must still find the input. */
static bool overwrites_input(const mst_request *r) {
    return r->collective == MST_ALL_TO_ALL && !r->send_counts && r->input && r->input == r->output;
}

static bool may_take_nccl(const mst_items *items, const mst_request *r) {
    const mst_host_communicator *self = items->self;
    if (!mst_nccl_ready(self)) return false;
    int64_t in = mst_request_input_bytes(r), out = mst_request_output_bytes(r);
    return mst_algorithm_select_device(self->peers, true, true, in > out ? in : out, self->forced) == MST_NCCL;
}

static muster_status make_room(const mst_items *items, const mst_request *offered) {
    int64_t bytes = 0;
    bool nccl = false;
    for (int32_t i = 0; i < items->count; i++) {
        if (overwrites_input(&offered[i])) bytes += mst_device_aside_bytes(mst_request_input_bytes(&offered[i]));
        if (!may_take_nccl(items, &offered[i])) continue;
        bytes += mst_nccl_room(items->self, items->rank, &offered[i]);
        nccl = true;
    }
    MUSTER_TRY(mst_device_aside_begin(items->worker, aside_of(items), bytes));
    /* From here on until the end of the run some rank may be inside NCCL, and the driver must not
     * be asked for memory. */
    if (nccl) items->worker->device->in_flight = true;
    return MUSTER_OK;
}

muster_status mst_movers_offer(const mst_items *items, mst_request *offered) {
    mst_device *device = items->worker->device;
    MUSTER_TRY(make_room(items, offered));
    for (int32_t i = 0; i < items->count; i++) {
        if (!overwrites_input(&offered[i])) continue;
        const int64_t bytes = mst_request_input_bytes(&offered[i]);
        void *copy = mst_device_aside_take(aside_of(items), bytes);
        MUSTER_TRY(device->memory->copy(device, copy, offered[i].input, bytes));
        offered[i].input = copy;
    }
    return items->self->peers ? mst_peer_event_record(items->self, items->worker, MST_PEER_ARRIVED + (int32_t)(items->tag & 1)) : MUSTER_OK;
}

/* ---- after it ---- */

static int64_t largest_bytes(const mst_view *view) {
    int64_t largest = 0;
    for (int32_t r = 0; r < view->size; r++) {
        int64_t in = mst_request_input_bytes(view->requests[r]), out = mst_request_output_bytes(view->requests[r]);
        largest = in > largest ? in : largest;
        largest = out > largest ? out : largest;
    }
    return largest;
}

static mst_algorithm_kind decide(const mst_host_communicator *self, const mst_view *view) {
    const bool native = mst_nccl_native(view, self->movers->fixed_order), combines = mst_p2p_serves(view);
    return mst_algorithm_select_device(self->peers && combines, mst_nccl_ready(self) && (native || combines), native, largest_bytes(view),
                                       self->forced);
}

/* COMPUTE of this worker's device goes on after the event of each other rank. */
static muster_status wait_for_all(const mst_items *items, int32_t event) {
    for (int32_t r = 0; r < items->self->base.size; r++) MUSTER_TRY(mst_peer_event_wait(items->self, items->worker, r, event));
    return MUSTER_OK;
}

static muster_status serve_p2p(const mst_items *items) {
    MUSTER_TRY(wait_for_all(items, MST_PEER_ARRIVED + (int32_t)(items->tag & 1)));
    for (int32_t i = 0; i < items->count; i++) {
        mst_view view = mst_items_view(items, i);
        if (decide(items->self, &view) == MST_P2P) MUSTER_TRY(mst_p2p_serve(items->worker, &view));
    }
    return mst_peer_event_record(items->self, items->worker, MST_PEER_ENDED + (int32_t)(items->tag & 1));
}

muster_status mst_movers_serve(const mst_items *items, bool *staged, bool *recorded) {
    int32_t nccl = 0;
    *staged = *recorded = false;
    for (int32_t i = 0; i < items->count; i++) {
        mst_view view = mst_items_view(items, i);
        mst_algorithm_kind kind = decide(items->self, &view);
        *staged |= kind == MST_STAGED;
        *recorded |= kind == MST_P2P;
        nccl += kind == MST_NCCL;
    }
    if (*staged) return *recorded = false, MUSTER_OK;
    if (*recorded) MUSTER_TRY(serve_p2p(items));
    return nccl > 0 ? mst_nccl_serve(items, aside_of(items)) : MUSTER_OK;
}

bool mst_mover_is_nccl(const mst_items *items, const mst_view *view) { return decide(items->self, view) == MST_NCCL; }

muster_status mst_movers_end(const mst_items *items) { return wait_for_all(items, MST_PEER_ENDED + (int32_t)(items->tag & 1)); }

/* Tensors in the memory of a worker's device. A send is copied into a slot of page-locked memory in
 * the order of the worker's operations, and begins at the shards when the copy has been made. No
 * thread waits for that copy before a wait needs it. A receive is copied into a slot; its worker
 * then issues the copy to the device, so that the work which the worker issues afterwards sees it.
 * Only the worker's thread issues on its device: it polls whenever it begins a request, waits or
 * tests. */
#include "server_private.h"

#include <string.h>

/* Copies in one direction, numbered. One event for all: it is recorded again when it is over. */
typedef struct mst_lane {
    /* NULL: the device has no queues, or the memory is not page-locked: each copy is waited for */
    mst_device_event *event;
    uint64_t issued, recorded, done;
} mst_lane;

typedef struct mst_slot {
    void *memory;
    muster_request *user; /* NULL: free, once the copy has been made */
    uint64_t copy;        /* the number of its last copy */
} mst_slot;

typedef struct mst_client_staging {
    mst_lane out, in;
    mst_slot *slots;              /* [2 * count]: of sends, of receives */
    muster_request *first, *last; /* that wait for their copy, or for others' */
    bool locked;                  /* page-locked memory, the device's own; else plain */
} mst_client_staging;

/* ---- memory ---- */

static int64_t value_bytes(const mst_value *value) { return value->bytes; }

static muster_status slot_allocate(mst_device *device, const char *where, bool locked, int64_t bytes, void **memory) {
    if (locked) return device->host_memory->allocate(device, bytes, memory);
    *memory = mst_alloc_uninitialised((size_t)bytes);
    return *memory ? MUSTER_OK : mst_out_of_memory(where, bytes);
}

muster_status mst_client_staging_open(muster_client *client, const char *where, bool in_body) {
    mst_device *device = client->worker->device;
    muster_server *server = client->server;
    if (mst_device_is_host(device)) return MUSTER_OK;
    mst_client_staging *staging = client->staging = mst_alloc(sizeof *staging);
    if (!staging) return mst_out_of_memory(where, sizeof *staging);
    if (device->queue && !in_body) {
        MUSTER_TRY(mst_device_event_create(device, &staging->out.event));
        MUSTER_TRY(mst_device_event_create(device, &staging->in.event));
    }
    staging->locked = device->host_memory != NULL && !in_body;
    staging->slots = mst_alloc((size_t)server->count * 2 * sizeof *staging->slots);
    if (!staging->slots) return mst_out_of_memory(where, server->count * 2 * (int64_t)sizeof *staging->slots);
    for (int32_t i = 0; i < 2 * server->count; i++)
        MUSTER_TRY(slot_allocate(device, where, staging->locked, value_bytes(&server->values[i / 2]), &staging->slots[i].memory));
    return MUSTER_OK;
}

/* Handles of requests that have ended may be dropped later: drivers keep theirs until their end. */
static void staging_close(muster_client *client) {
    mst_client_staging *staging = client->staging;
    mst_device *device = client->worker->device;
    for (muster_request *request = client->made; request; request = request->next_made) request->slot = NULL;
    for (int32_t i = 0; staging->slots && i < 2 * client->server->count; i++) {
        if (staging->locked && staging->slots[i].memory) device->host_memory->release(device, staging->slots[i].memory);
        if (!staging->locked) mst_free(staging->slots[i].memory);
    }
    mst_device_event_destroy(staging->out.event);
    mst_device_event_destroy(staging->in.event);
    mst_free(staging->slots);
    mst_free(staging);
    client->staging = NULL;
}

void mst_client_staging_close_all(muster_server *server) {
    for (int32_t r = 0; server->workers && r < server->runtime_size; r++) {
        if (server->workers[r].staging) staging_close(&server->workers[r]);
    }
}

bool mst_server_stages(const muster_server *server) {
    for (int32_t r = 0; server->workers && r < server->runtime_size; r++) {
        if (server->workers[r].staging) return true;
    }
    return false;
}

/* ---- events ---- */

static muster_status lane_record(mst_lane *lane) {
    MUSTER_TRY(mst_device_event_record(lane->event, MST_QUEUE_COMPUTE));
    lane->recorded = lane->issued;
    return MUSTER_OK;
}

/* After a copy was issued. A device without queues can only be waited for. */
static muster_status lane_note_copy(muster_worker *worker, mst_lane *lane) {
    lane->issued++;
    if (!lane->event) {
        MUSTER_TRY(mst_worker_sync(worker));
        lane->recorded = lane->done = lane->issued;
        return MUSTER_OK;
    }
    return lane->recorded == lane->done ? lane_record(lane) : MUSTER_OK;
}

static muster_status lane_poll(mst_lane *lane) {
    bool over = false;
    if (lane->done == lane->issued) return MUSTER_OK;
    MUSTER_TRY(mst_device_event_query(lane->event, &over));
    if (!over) return MUSTER_OK;
    lane->done = lane->recorded;
    return lane->recorded == lane->issued ? MUSTER_OK : lane_record(lane);
}

/* ---- slots ---- */

/* Waits until the slot's last request has ended, and its copy. */
static muster_status slot_clear(muster_client *client, mst_slot *slot, mst_lane *lane, const char *where) {
    muster_status status;
    if (slot->user && (!mst_request_finish(slot->user, where, false, &status) || slot->user->left)) return status;
    slot->user = NULL;
    if (slot->copy <= lane->done) return MUSTER_OK;
    MUSTER_TRY(lane_poll(lane));
    if (slot->copy <= lane->done) return MUSTER_OK;
    MUSTER_TRY(mst_worker_sync(client->worker));
    lane->done = lane->recorded = lane->issued;
    return MUSTER_OK;
}

muster_status mst_stage_attach(muster_request *request, const char *where, void *device_address) {
    muster_client *client = request->client;
    mst_client_staging *staging = client->staging;
    mst_device *device = client->worker->device;
    const mst_value *value = request->operation.value;
    const bool send = request->operation.rule != NULL;
    mst_lane *lane = send ? &staging->out : &staging->in;
    mst_slot *slot = &staging->slots[2 * (value - client->server->values) + !send];
    MUSTER_TRY(slot_clear(client, slot, lane, where));
    request->operation.memory = slot->memory;
    request->device_address = device_address;
    if (send) {
        if (value_bytes(value) > 0) MUSTER_TRY(device->memory->copy_out(device, slot->memory, device_address, value_bytes(value)));
        MUSTER_TRY(lane_note_copy(client->worker, lane));
        slot->copy = lane->issued;
    } else {
        request->target++;
    }
    request->slot = slot;
    slot->user = request;
    return MUSTER_OK;
}

void mst_stage_detach(muster_request *request) {
    request->slot->user = NULL;
    request->slot = NULL;
}

/* ---- the order of what waits ---- */

static bool stage_may_begin(const mst_client_staging *staging, const muster_request *request) {
    return !request->slot || !request->operation.rule || request->slot->copy <= staging->out.done;
}

void mst_stage_begin(muster_request *request, const char *from, bool lazily) {
    muster_client *client = request->client;
    mst_client_staging *staging = client->staging;
    mst_stage_advance(client, NULL);
    if (request->slot) mst_request_count_begun(request);
    if (!staging->first && stage_may_begin(staging, request)) {
        mst_request_begin(request, from, lazily);
        mst_stage_advance(client, request);
        return;
    }
    if (!request->begun) mst_request_count_begun(request);
    if (request->operation.memory != from && from) memcpy(request->operation.memory, from, (size_t)value_bytes(request->operation.value));
    request->waiting = true;
    request->next_waiting = NULL;
    if (staging->last)
        staging->last->next_waiting = request;
    else
        staging->first = request;
    staging->last = request;
}

static void stage_unlink(mst_client_staging *staging, muster_request *request) {
    muster_request *before = NULL;
    for (muster_request *at = staging->first; at != request; at = at->next_waiting) before = at;
    if (before)
        before->next_waiting = request->next_waiting;
    else
        staging->first = request->next_waiting;
    if (staging->last == request) staging->last = before;
    request->waiting = false;
}

void mst_stage_cancel(muster_request *request) {
    stage_unlink(request->client->staging, request);
    mst_request_add_done(request, request->target - MST_REQUEST_UNWATCHED);
}

/* ---- looking ---- */

static void stage_copy_in(muster_client *client, muster_request *request) {
    mst_client_staging *staging = client->staging;
    mst_device *device = client->worker->device;
    const int64_t bytes = value_bytes(request->operation.value);
    muster_status status = atomic_load(&request->status);
    if (status == MUSTER_OK) {
        if (bytes > 0) status = device->memory->copy_in(device, request->device_address, request->slot->memory, bytes);
        if (status == MUSTER_OK) status = lane_note_copy(client->worker, &staging->in);
        if (status != MUSTER_OK) mst_request_fail(request, status);
        request->slot->copy = staging->in.issued;
    }
    mst_request_add_done(request, 1);
}

void mst_stage_advance(muster_client *client, muster_request *request) {
    mst_client_staging *staging = client->staging;
    if (!staging) return;
    if (staging->first) {
        const muster_status status = lane_poll(&staging->out);
        while (staging->first && (status != MUSTER_OK || stage_may_begin(staging, staging->first))) {
            muster_request *next = staging->first;
            stage_unlink(staging, next);
            if (status != MUSTER_OK) mst_request_fail(next, status);
            if (status != MUSTER_OK)
                mst_request_add_done(next, next->target - MST_REQUEST_UNWATCHED);
            else
                mst_request_begin(next, next->operation.memory, client->server->progress_count > 0);
        }
    }
    if (request && !request->waiting && mst_stage_due(request)) stage_copy_in(client, request);
}

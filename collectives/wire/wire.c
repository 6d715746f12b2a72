/* The functions of the wire's table that count what they send, and its errors. */
#include "wire/wire_impl.h"

#include "memory_impl.h"

#include <stdio.h>

mst_wire_test_opener mst_wire_test_open;

int32_t mst_wire_send(mst_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, bool matched,
                      muster_wire_request *request) {
    const muster_wire_table *table = wire->table;
    const int32_t result = (matched ? table->send_matched : table->send)(wire->state, from, bytes, to, tag, request);
    if (result != MUSTER_WIRE_OK) return result;
    atomic_fetch_add_explicit(&wire->sent_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&wire->sent_messages, 1, memory_order_relaxed);
    return result;
}

muster_status mst_wire_error(const mst_wire *wire, const char *what) {
    char text[256] = "";
    wire->table->error(text, sizeof text);
    text[sizeof text - 1] = 0;
    return mst_error(MUSTER_SYSTEM, "%s: %s", what, text[0] ? text : "the wire gives no reason");
}

/* ---- a wire whose MPI has been finalised ---- */

static void ended_error(char *text, int32_t size) { snprintf(text, (size_t)size, "the program has called MPI_Finalize"); }
static int32_t ended_send(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request) {
    (void)wire, (void)from, (void)bytes, (void)to, (void)tag, (void)request;
    return MUSTER_WIRE_ERROR;
}
static int32_t ended_receive(muster_wire *wire, void *to, int64_t bytes, int32_t from, int32_t tag, muster_wire_request *request) {
    (void)wire, (void)to, (void)bytes, (void)from, (void)tag, (void)request;
    return MUSTER_WIRE_ERROR;
}
static int32_t ended_test(muster_wire *wire, muster_wire_request *request, int32_t *done, muster_wire_status *status) {
    (void)wire, (void)request, (void)status;
    *done = 0;
    return MUSTER_WIRE_ERROR;
}
static int32_t ended_test_some(muster_wire *wire, int32_t count, muster_wire_request *requests, int32_t *done_count, int32_t *done,
                               muster_wire_status *statuses) {
    (void)wire, (void)count, (void)requests, (void)done, (void)statuses;
    *done_count = 0;
    return MUSTER_WIRE_ERROR;
}
static int32_t ended_probe(muster_wire *wire, int32_t from, int32_t tag, int32_t *there, muster_wire_status *status) {
    (void)wire, (void)from, (void)tag, (void)status;
    *there = 0;
    return MUSTER_WIRE_ERROR;
}
static int32_t ended_cancel(muster_wire *wire, muster_wire_request *request) {
    (void)wire, (void)request;
    return MUSTER_WIRE_ERROR;
}

bool mst_wire_has_ended(mst_wire *wire) {
    static const muster_wire_table ended = {.name = "an MPI that was finalised",
                                            .error = ended_error,
                                            .send = ended_send,
                                            .send_matched = ended_send,
                                            .receive = ended_receive,
                                            .test = ended_test,
                                            .test_some = ended_test_some,
                                            .probe = ended_probe,
                                            .cancel = ended_cancel};
    int32_t initialised = 0, finalised = 0, threads = 0;
    pthread_mutex_lock(&wire->lock);
    if (wire->table != &ended && wire->table->state && wire->table->state(&initialised, &finalised, &threads) == MUSTER_WIRE_OK &&
        finalised)
        wire->table = &ended;
    const bool has_ended = wire->table == &ended;
    pthread_mutex_unlock(&wire->lock);
    return has_ended;
}

/* ---- memory that stays ---- */

/* A list, so that the blocks are no leaks to those who look for leaks. */
typedef struct kept_block {
    struct kept_block *next;
    void *block;
} kept_block;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static kept_block *kept_blocks;
static int64_t kept_count;

void mst_wire_keep(void *block) {
    kept_block *kept = mst_alloc(sizeof *kept);
    pthread_mutex_lock(&kept_lock);
    kept_count += kept ? 2 : 1;
    if (kept) {
        *kept = (kept_block){kept_blocks, block};
        kept_blocks = kept;
    }
    pthread_mutex_unlock(&kept_lock);
}

int64_t mst_wire_kept(void) {
    pthread_mutex_lock(&kept_lock);
    const int64_t count = kept_count;
    pthread_mutex_unlock(&kept_lock);
    return count;
}

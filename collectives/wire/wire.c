/* The functions of the wire's table that count what they send, and its errors. */
#include "wire/wire_impl.h"

#include "memory_impl.h"

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

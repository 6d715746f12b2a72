/* An aborted run: one word holds its epoch, the first rank that failed, and the status. Nothing is
 * reset: the word of an older run has no effect. */
#include "pool_state_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CODE_BITS = 8, RANK_BITS = 12 };

static uint64_t failure_word(uint64_t epoch, int32_t rank, muster_status code) {
    return epoch << (CODE_BITS + RANK_BITS) | (uint64_t)rank << CODE_BITS | (uint64_t)(code & 255);
}

uint64_t mst_failure_epoch(uint64_t word) { return word >> (CODE_BITS + RANK_BITS); }
int32_t mst_failure_rank(uint64_t word) { return (int32_t)(word >> CODE_BITS & ((1 << RANK_BITS) - 1)); }
muster_status mst_failure_code(uint64_t word) { return (muster_status)(word & 255); }

bool mst_run_aborted(const mst_pool *pool, uint64_t epoch) { return mst_failure_epoch(atomic_load(&pool->failure)) == epoch; }

/* ABORTED reports a failure elsewhere, so that any other failure of the same run replaces it. */
static bool outranks(muster_status code, uint64_t word, uint64_t epoch) {
    if (mst_failure_epoch(word) != epoch) return true;
    return mst_failure_code(word) == MUSTER_ABORTED && code != MUSTER_ABORTED;
}

void mst_run_abort(muster_worker *worker, muster_status code, const char *message) {
    mst_pool *pool = worker->pool;
    if (code <= MUSTER_OK || code > 255) code = MUSTER_USER; /* a code that is none of ours would not fit the word */
    uint64_t word = atomic_load(&pool->failure);
    if (!outranks(code, word, worker->epoch)) return;
    /* Stored before the word, so that a thread that has read the word may read the message. Nobody
     * reads this rank's message while another rank is first. */
    if (message)
        snprintf(pool->states[worker->rank].message, MST_MESSAGE_SIZE, "%s", message);
    else
        mst_error_save(pool->states[worker->rank].message);
    do {
        if (!outranks(code, word, worker->epoch)) return;
    } while (!atomic_compare_exchange_weak(&pool->failure, &word, failure_word(worker->epoch, worker->rank, code)));
    mst_pool_notify_all(pool);
}

void mst_pool_abort(muster_worker *worker, muster_status code) { mst_run_abort(worker, code, NULL); }

bool mst_pool_aborted(const muster_worker *worker) { return mst_run_aborted(worker->pool, worker->epoch) || mst_worker_ends(worker); }

muster_status mst_pool_aborted_status(const muster_worker *worker) {
    return mst_failure_code(atomic_load(&worker->pool->failure)) == MUSTER_CANCELLED ? MUSTER_CANCELLED : MUSTER_ABORTED;
}

int32_t mst_pool_failed_rank(const mst_pool *pool) { return pool->options.first + mst_failure_rank(atomic_load(&pool->failure)); }

muster_status mst_failure_outcome(mst_pool *pool, uint64_t epoch, int32_t size) {
    uint64_t word = atomic_load(&pool->failure);
    if (__builtin_expect(mst_failure_epoch(word) != epoch, 1)) return MUSTER_OK;
    int32_t rank = mst_failure_rank(word);
    muster_status code = mst_failure_code(word);
    const char *message = pool->states[rank].message;
    if (size == 1 || code == MUSTER_CANCELLED) return mst_error_restore(code, message); /* no rank has failed */
    char place[32];
    snprintf(place, sizeof place, "(rank %" PRId32 ")", pool->options.first + rank);
    if (strstr(message, place)) return mst_error_restore(code, message); /* it names the rank already */
    return mst_error(code, "%.480s %s", message, place);
}

void mst_report_workers(const mst_pool *pool, const char *headline) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* several ranks may report at once */
    pthread_mutex_lock(&lock);
    pool->options.log(pool->options.log_user, MUSTER_LOG_WARNING, headline);
    for (int32_t rank = 0; rank < pool->size; rank++) {
        char last[160], line[256];
        mst_recorder_last(&pool->states[rank].worker.recorder, last, sizeof(last));
        snprintf(line, sizeof(line), "muster:   worker %" PRId32 " on %.60s: %s", pool->options.first + rank,
                 pool->states[rank].worker.device->name, last);
        pool->options.log(pool->options.log_user, MUSTER_LOG_WARNING, line);
    }
    pthread_mutex_unlock(&lock);
}

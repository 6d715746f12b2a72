/* Workers that wait for each other, found at once rather than by a deadline: each publishes how it
 * waits, and looks whether a cycle closes. */
#include "peer_wait_private.h"

void mst_peer_wait_publish(mst_worker_state *state, const mst_peer_wait *m) {
    state->wait_word = m->word;
    state->wait_target = m->target;
    state->wait_what = m->what;
    atomic_store(&state->waits_for, m->peer + 1);
}

/* The wait ends under the lock, which others hold while they read its word: the word's memory may
 * be freed after the wait. */
void mst_peer_wait_conceal(mst_worker_state *state) {
    pthread_mutex_lock(&state->wait_lock);
    atomic_store(&state->waits_for, 0);
    state->wait_word = NULL;
    state->wait_target = 0;
    state->wait_what = NULL;
    pthread_mutex_unlock(&state->wait_lock);
}

static void follow_waits(const mst_peer_wait *m, mst_peer_cycle *found) {
    const mst_worker_state *states = m->worker->pool->states;
    int32_t count = 0, rank = m->peer;
    found->count = 0;
    while (count < MST_PEER_CYCLE) {
        found->ranks[count++] = rank;
        rank = atomic_load(&states[rank].waits_for) - 1;
        if (rank < 0) return;
        if (rank == m->worker->rank) found->count = count;
        if (found->count) return;
    }
}

/* Under the lock a wait that has begun does not end: how it waits stays, and so does the word's
 * memory. One that has not begun is being written. */
static bool still_waits(mst_worker_state *state, int32_t rank, const char **what) {
    pthread_mutex_lock(&state->wait_lock);
    const bool waits = atomic_load(&state->waits_for) == rank + 1 && atomic_load(state->wait_word) < state->wait_target;
    if (waits) *what = state->wait_what;
    pthread_mutex_unlock(&state->wait_lock);
    return waits;
}

/* Does this worker's wait close a cycle? Then none can go on, since only the one that is waited for
 * writes the word of the other. Each publishes its wait before it looks, so that the last one sees
 * all. The last of the cycle waits for this worker, which does nothing meanwhile, and so stays; who
 * is found to wait for one that stays, stays too: hence the order, from the last to this one. */
bool mst_peer_cycle_find(const mst_peer_wait *m, mst_peer_cycle *found) {
    mst_worker_state *states = m->worker->pool->states;
    follow_waits(m, found);
    if (__builtin_expect(found->count == 0, 1)) return false;
    for (int32_t i = found->count - 1, rank = m->worker->rank; i >= 0; rank = found->ranks[i--])
        if (!still_waits(&states[found->ranks[i]], rank, &found->what[i])) return false;
    return atomic_load(m->word) < m->target && !mst_run_aborted(m->worker->pool, m->worker->epoch);
}

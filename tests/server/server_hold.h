/* A rule that keeps its shard until it is let go: for what happens to operations that find it busy.
 * No test depends on how long that takes. */
#ifndef SERVER_HOLD_H
#define SERVER_HOLD_H

#include "base_await.h"
#include "server_fixture.h"

#include <pthread.h>
#include <time.h>

static inline void server_pause(void) { nanosleep(&(struct timespec){0, 200000}, NULL); }

typedef struct server_hold {
    muster_server *server;
    muster_rule rule;
    _Atomic bool inside, let_go;
    muster_status status; /* of the send that holds */
    pthread_t thread;
    float zeros[64];
    int64_t count;
} server_hold;

static inline muster_status server_hold_rule(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                                             double scale) {
    server_hold *hold = user;
    (void)dtype, (void)value, (void)tensor, (void)count, (void)scale;
    if (first > 0) return MUSTER_OK; /* the first shard only */
    atomic_store(&hold->inside, true);
    TEST_AWAIT(atomic_load(&hold->let_go), 200000);
    atomic_store(&hold->inside, false);
    return MUSTER_OK;
}

static inline void *server_hold_main(void *self) {
    server_hold *hold = self;
    muster_client *client;
    hold->status = muster_client_open(hold->server, &client);
    if (hold->status != MUSTER_OK) return NULL;
    hold->status = muster_client_send(client, 0, hold->rule, 0, muster_f32(hold->zeros, hold->count), 0, NULL);
    if (muster_client_close(client) != MUSTER_OK) hold->status = MUSTER_INTERNAL;
    return NULL;
}

/* A thread with a client of its own holds shard 0 of value 0 (f32, of count elements) when this
 * returns. */
static inline void server_hold_begin(server_hold *hold, muster_server *server, int64_t count) {
    memset(hold, 0, sizeof *hold);
    hold->server = server;
    hold->count = count;
    char name[32];
    snprintf(name, sizeof name, "hold %p", (void *)hold);
    muster_status status = muster_server_add_rule(server, name, server_hold_rule, hold, &hold->rule);
    if (status == MUSTER_INVALID_ARGUMENT) fail_msg("%s", muster_last_error());
    assert_ok(status);
    assert_int_equal(pthread_create(&hold->thread, NULL, server_hold_main, hold), 0);
    TEST_AWAIT(atomic_load(&hold->inside), 200000);
}

static inline void server_hold_end(server_hold *hold) {
    atomic_store(&hold->let_go, true);
    pthread_join(hold->thread, NULL);
    assert_int_equal(hold->status, MUSTER_OK);
}

#endif

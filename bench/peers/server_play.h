/* The protocol that every program follows when parameter servers are measured, in every library:
 * Muster, plain loops, OpenMPI.
 *
 * An iteration: each of two clients rewrites its tensor on its own core, both wait for each other
 * in a rendezvous, each pushes its tensor (the server's value += tensor) and then pulls the whole
 * value, and the time is the later end minus the common start. Tensors change their sign in each
 * iteration, so that after every second one the value is zero again. What is pulled in the last
 * iteration of a block is therefore known, but for whether the other's push was before it, and is
 * checked. Threads and processes; see collective.h for the session. */
#ifndef BENCH_SERVER_PLAY_H
#define BENCH_SERVER_PLAY_H

#include "collective.h"

enum { SERVER_CLIENTS = 2 };

typedef struct server_job {
    int64_t count; /* floats of the value */
    int32_t variant;
    int32_t warm, calls; /* both even; calls 0: leave */
    int32_t reserved;
} server_job;

typedef struct server_player {
    collective_session *session;
    int32_t rank;
    float *tensor, *pulled;                                                                  /* [count] */
    bool (*exchange)(void *self, const server_job *job, const struct server_player *player); /* pushes and pulls */
    void *self;
} server_player;

/* Plays one block; both clients call it. false: one of them failed; both return. Results by
 * collective_result, with a job of two ranks. */
bool server_play(const server_player *player, const server_job *job);

#endif

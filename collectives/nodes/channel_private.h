/* A channel: the processes of a communicator and the lane on which they talk. And what all state
 * machines of this folder have in common: they hold no lock, read no clock and never wait, so that
 * one thread can drive as many of them as a simulation has processes. */
#ifndef MST_CHANNEL_PRIVATE_H
#define MST_CHANNEL_PRIVATE_H

#include "wire/wire_impl.h"

typedef struct mst_channel {
    mst_wire *wire;
    int32_t lane;           /* below MST_WIRE_LANES; 0: the rounds; the last MST_NODES_DATA_LANES: the data of calls */
    int32_t size, rank;     /* its members, and which of them this process is */
    const int32_t *members; /* [size] their process numbers, kept by the owner; NULL: member i is process i */
    int32_t slice;          /* 0; 1 to MST_CHANNEL_SLICES: schedules that run beside each other on the lane */
} mst_channel;

/* The kinds of messages on a lane. A pair of processes exchanges the messages of a kind in the
 * order in which they were sent. The first ones are on every lane, CONTROL and TEXTS on lane 0
 * only. */
typedef enum mst_kind {
    MST_KIND_ARRIVAL = 0,                /* arrive.c */
    MST_KIND_CONTROL,                    /* poison, and who waits for whom (control.c) */
    MST_KIND_DATA,                       /* schedules: towards the result */
    MST_KIND_RESULT,                     /* schedules: the way back, where it would be mistaken for DATA */
    MST_KIND_CREDIT,                     /* schedules: the root of a gather has room */
    MST_KIND_READY,                      /* messages between ranks: the receiver is there */
    MST_KIND_MESSAGE,                    /* messages between ranks: what is sent */
    MST_KIND_SPLIT,                      /* what a split exchanges beside its arrivals */
    MST_KIND_SLICES,                     /* DATA and RESULT of slice 1, then those of slice 2, ... */
    MST_KIND_FREE = MST_KIND_SLICES + 16 /* the first that has no meaning yet; below MST_WIRE_KINDS */
} mst_kind;
enum { MST_CHANNEL_SLICES = 8 };

/* The process number of a member. */
static inline int32_t mst_channel_process(const mst_channel *channel, int32_t member) {
    return channel->members ? channel->members[member] : member;
}
static inline int32_t mst_channel_tag(const mst_channel *channel, mst_kind kind) {
    const bool sliced = channel->slice > 0 && (kind == MST_KIND_DATA || kind == MST_KIND_RESULT);
    const int32_t after = (int32_t)kind - MST_KIND_DATA;
    return mst_wire_tag(channel->lane, sliced ? MST_KIND_SLICES + 2 * (channel->slice - 1) + after : (int32_t)kind);
}

/* What `progress` of a state machine returns. */
typedef enum mst_progress {
    MST_PROGRESS_RUNNING = 0, /* call it again */
    MST_PROGRESS_DONE,        /* all of its requests are done, too */
    MST_PROGRESS_FAILED,      /* the wire has failed; the thread's last error says how, without naming a function */
    MST_PROGRESS_LOST         /* a process is lost (MUSTER_WIRE_LOST) */
} mst_progress;

/* A state machine. Each has one of these as its first member, and is driven through it. */
typedef struct mst_machine {
    /* Does what can be done now, and returns. The caller holds the lock of the wire, so it takes 50
     * us at most. */
    mst_progress (*progress)(struct mst_machine *machine);
    /* The number of a process whose message this machine needs to go on; -1: of none in
     * particular. */
    int32_t (*waits_for)(const struct mst_machine *machine);
    /* Has the last call of `progress` done anything? Then the caller calls it again before it
     * sleeps: folds and copies are done a batch in each call. */
    bool moved;
} mst_machine;

/* What progress returns when a function of the table has returned `result`, which is not
 * MUSTER_WIRE_OK. what: what the machine was about, for the last error. */
static inline mst_progress mst_channel_failed(const mst_channel *channel, int32_t result, const char *what) {
    if (result == MUSTER_WIRE_LOST) return MST_PROGRESS_LOST;
    mst_wire_error(channel->wire, what);
    return MST_PROGRESS_FAILED;
}

#endif

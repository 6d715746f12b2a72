/* What the files of the simulated launch share. One mutex per launch guards everything. */
#ifndef SIM_WIRE_LAUNCH_PRIVATE_H
#define SIM_WIRE_LAUNCH_PRIVATE_H

#include "wire_launch.h"

#include <stddef.h>

typedef struct wire_comm wire_comm;
typedef struct wire_request wire_request;
typedef struct wire_message wire_message;
typedef struct wire_collective wire_collective;

struct wire_message {
    wire_message *next;
    wire_comm *comm;
    const void *source;    /* the sender's memory, until its request is done */
    void *copy;            /* then: memory of its own */
    wire_request *send;    /* in progress; NULL: done */
    wire_message *flying;  /* with a clock: the next one that is on its way */
    wire_request *receive; /* with a clock: has matched it, and waits for its bytes */
    int64_t bytes;
    int64_t time; /* with a clock: of its next event */
    int32_t from, to, tag;
    bool asks;       /* with a clock: the bytes follow when it is matched */
    bool aloft;      /* with a clock: an event or the list of flying ones has it */
    bool dropped;    /* and is to free it */
    bool rendezvous; /* the send is done when it is matched */
    bool probed;     /* was found for a receive from any process, which will get it */
    bool aged;       /* in an outbox: its sender has called the table since */
    bool matched;    /* with a clock: its bytes follow to a receive, which may have been cancelled since */
};

typedef enum { WIRE_FREE, WIRE_SEND, WIRE_RECEIVE, WIRE_OPEN, WIRE_COLLECTIVE } wire_request_kind;

struct wire_request {
    wire_request *next; /* in the list of free ones, or of posted receives */
    muster_wire *wire;
    wire_message *message;       /* of a send that is not matched */
    wire_collective *collective; /* of a collective */
    void *to;                    /* of a receive */
    int64_t room, done_at;       /* done_at: with a clock, when the process can know of it */
    muster_wire_status status;
    uint32_t number, generation;
    int32_t from, tag; /* of a receive: what it asks for; of a send: from is the receiver */
    int32_t result;
    wire_request_kind kind;
    bool done;
    const char *error; /* a literal, where result is MUSTER_WIRE_ERROR */
};

/* What one process does in one communicator. */
struct muster_wire {
    wire_launch *launch;
    wire_comm *comm;
    wire_request *posted, **posted_end;         /* receives, in the order of their calls */
    wire_message *unexpected, **unexpected_end; /* messages that have arrived, in that order */
    wire_message *held;                         /* by a cut, the first one first */
    wire_message *outbox, **outbox_end;         /* of a lazy launch: sent, but not on their way */
    int64_t collectives;                        /* how many it has begun */
    int32_t rank;
    bool opened, closed;
};

typedef struct wire_group {
    int32_t count;
    int32_t *members; /* [count] processes of the world; NULL: all of them */
    int32_t *opens;   /* [count] how many duplicates each has begun to open */
} wire_group;

struct wire_comm {
    wire_comm *next;
    const wire_group *group;
    muster_wire *members; /* [size] */
    wire_collective *collectives;
    int64_t first_collective; /* the number of the first in the list */
    int32_t group_number, number, size, opened;
    bool revoked;
};

enum { WIRE_REQUEST_CHUNK = 64, WIRE_GROUPS = 64 };

struct wire_launch {
    pthread_mutex_t mutex;
    muster_wire_table table;
    wire_launch_options options;
    wire_group groups[WIRE_GROUPS];
    int32_t group_count;
    wire_comm *comms;
    wire_request **chunks; /* requests keep their places */
    int32_t chunk_count, chunk_limit;
    wire_request *free_requests;
    bool *dead;    /* [processes] */
    int8_t *state; /* [processes] bit 0: initialised, bit 1: finalised */
    bool any_dead;
    int32_t (*cuts)[2]; /* pairs of processes */
    int32_t cut_count;
    int32_t aborted;
    uint64_t random;
    wire_launch_counts counts;
    struct wire_clock *clock; /* clock.c; NULL: messages arrive at once */
};

/* ---- launch.c ---- */
void *wire_allocate(wire_launch *launch, size_t bytes);
void wire_free(wire_launch *launch, void *memory, size_t bytes);
uint64_t wire_random(wire_launch *launch);
/* Whether chance says no, where the launch has a seed. */
bool wire_chance(wire_launch *launch);
bool wire_is_cut(const wire_launch *launch, const wire_comm *comm, int32_t from, int32_t to);
/* The process of the world that has this rank of a communicator. */
int32_t wire_process(const wire_comm *comm, int32_t rank);
bool wire_is_dead(const wire_launch *launch, const wire_comm *comm, int32_t rank);
/* The launch and the process of the calling thread. */
wire_launch *wire_thread_launch(int32_t *process);

/* ---- requests.c ---- */
wire_request *wire_request_begin(muster_wire *wire, wire_request_kind kind, muster_wire_request *handle);
/* NULL: there is no such request. */
wire_request *wire_request_find(wire_launch *launch, muster_wire_request handle);
void wire_request_end(wire_request *request, int32_t result, const char *error);
void wire_request_free(wire_launch *launch, wire_request *request);
/* Says why, for the table's `error`. Returns MUSTER_WIRE_ERROR. */
int32_t wire_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *wire_last_error(void);

/* ---- match.c ---- */
int32_t wire_send(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, bool rendezvous,
                  muster_wire_request *request);
int32_t wire_receive(muster_wire *wire, void *to, int64_t bytes, int32_t from, int32_t tag, muster_wire_request *request);
/* The message that a receive would take. */
wire_message **wire_find(muster_wire *wire, int32_t from, int32_t tag);
/* A cut holds the message. */
void wire_hold(wire_message *message);
/* The message is at its receiver now. */
void wire_arrive(wire_launch *launch, wire_message *message);
void wire_message_free(wire_launch *launch, wire_message *message);
/* The receive gets the message, which is in no list any more. receive NULL: has been cancelled. */
void wire_message_take(wire_launch *launch, wire_request *receive, wire_message *message);
/* The message keeps its bytes by itself; its send does not know it any more. False: out of
 * memory. */
bool wire_message_keep(wire_launch *launch, wire_message *message);
/* Takes back what a request has left in lists. */
void wire_request_unlink(wire_request *request);
/* What the request needs is gone: it ends with MUSTER_WIRE_LOST. */
void wire_request_look(wire_request *request);
/* What the process had in a lazy outbox goes on its way, if it has called since. */
void wire_outbox_flush(muster_wire *wire);

/* ---- comm.c ---- */
int32_t wire_comm_open(wire_launch *launch, int32_t process, int32_t parent, muster_wire **wire, muster_wire_request *request);
void wire_comm_close(muster_wire *wire);
void wire_comms_free(wire_launch *launch);

/* ---- collectives.c ---- */
typedef enum { WIRE_ALL_REDUCE, WIRE_REDUCE_SCATTER, WIRE_BROADCAST, WIRE_ALL_GATHER, WIRE_ALL_TO_ALL } wire_collective_kind;
/* What one process brings to a collective. */
typedef struct wire_part {
    const void *from;
    void *to;
    const int32_t *counts, *offsets; /* of what it gets */
    const int32_t *send_counts, *send_offsets;
    int64_t count; /* elements, or bytes */
    int32_t type, operation, root;
    wire_request *request;
} wire_part;
struct wire_collective {
    wire_collective *next;
    wire_collective_kind kind;
    int32_t entered;
    bool ended;
    wire_part *parts; /* [size] */
};
int32_t wire_collective_enter(muster_wire *wire, wire_collective_kind kind, const wire_part *part, muster_wire_request *request);
/* Does it, when all have come. Returns NULL, or why it cannot be done. */
const char *wire_collective_do(wire_launch *launch, const wire_comm *comm, wire_collective *collective);

/* ---- reduce.c ---- */
/* to = to operation from. */
void wire_reduce(int32_t type, int32_t operation, void *to, const void *from, int64_t count);
int32_t wire_type_size(int32_t type);

/* ---- clock.c: without a clock they do nothing ---- */
void wire_clock_free(wire_launch *launch);
int64_t wire_clock_now(const muster_wire *wire);
/* The process has done something. */
void wire_clock_act(muster_wire *wire);
/* The process is told that the request is done. */
void wire_clock_told(muster_wire *wire, const wire_request *request);
void wire_clock_done(wire_request *request, int64_t time);
/* The process that looks for messages may want to know. */
void wire_clock_arrived(const muster_wire *wire, const wire_message *message);
void wire_clock_send(wire_launch *launch, wire_message *message);
/* True: the bytes follow, and wire_message_take with them. */
bool wire_clock_match(wire_launch *launch, wire_message *message, wire_request *receive);
/* The bytes of a matched message, which a cut has held, go on. */
void wire_clock_release(wire_launch *launch, wire_message *message);
/* Everybody looks at what has changed. */
void wire_clock_wake_all(wire_launch *launch);
void wire_clock_collective(const wire_comm *comm, const wire_collective *collective, int64_t bytes);

/* ---- table.c ---- */
void wire_table_fill(wire_launch *launch);
/* Locks the launch for a call: OK if messages may go through the wire, because all have opened
 * it, and nobody has revoked it. wire_table_leave follows in any case, and returns `result`. */
int32_t wire_table_enter(muster_wire *wire);
int32_t wire_table_leave(muster_wire *wire, int32_t result);

/* ---- collectives_table.c ---- */
void wire_collectives_fill(muster_wire_table *table);

#endif

/* The processes of a launch, and the rounds in which they agree. A runtime of one process has no
 * mst_nodes: its pointer is NULL, and nothing here runs.
 *
 * Every process has ranks [first[p], first[p + 1]) of the whole. Inside the library `rank` of a
 * worker or a pool stays its number in the process; public functions and messages add first[p]. */
#ifndef MST_NODES_IMPL_H
#define MST_NODES_IMPL_H

#include "muster/communicator.h"
#include "wire/wire_impl.h"

enum { MST_HOST_TEXT = 64, MST_PROCESS_TEXT = 96 };
/* The name of this host: MUSTER_HOSTNAME, else as the wire says it; table NULL: as the system says
 * it. "": there is none. */
void mst_host_name(const muster_wire_table *table, char name[MST_HOST_TEXT]);

typedef struct mst_nodes {
    mst_wire *wire;
    int32_t process, processes;
    int32_t *first;                       /* [processes + 1] the first rank of each process; the last entry is the number of all ranks */
    int32_t hosts;                        /* their number; hosts are numbered by their smallest process */
    int32_t *host_of;                     /* [processes] the number of each process's host */
    char (*host_names)[MST_HOST_TEXT];    /* [hosts] */
    int32_t local, locals;                /* this process among the processes of its host, in their order */
    int64_t warn_after_ns, fail_after_ns; /* negative: never; of rounds without deadlines of their own, and of data */
    int64_t close_grace_ns;               /* how long the close waits for the other processes */
    int64_t spin_ns;                      /* a wait for other processes spins so long at most; the runtime sets it, 0 on crowded hosts */
    _Atomic bool lost;                    /* a process has ended: the runtime can only be closed */
    struct mst_rounds *rounds;            /* rounds.c */
    struct mst_slabs *slabs;              /* the memory that the wire reads and writes */
    struct mst_nodes_ways *ways;          /* which collectives go by the MPI's own (ways.def) */
} mst_nodes;

static inline int32_t mst_nodes_total(const mst_nodes *nodes) { return nodes->first[nodes->processes]; }
/* Between processes of one host a message is in the receiver's memory when MPI calls a send of it
 * done. On a network MPI may only have queued it, and it travels no sooner than the sender calls
 * MPI again: there what a body may follow is sent by send_matched, unless little is on its way
 * (arrive_private.h). */
static inline bool mst_nodes_one_host(const mst_nodes *nodes) { return nodes->hosts == 1; }
static inline int32_t mst_nodes_first(const mst_nodes *nodes) { return nodes->first[nodes->process]; }
/* The process that has the rank. */
int32_t mst_nodes_process_of(const mst_nodes *nodes, int32_t rank);
/* "process 2 (host c)". Returns text. */
const char *mst_nodes_process_text(const mst_nodes *nodes, int32_t process, char text[MST_PROCESS_TEXT]);

/* ---- rounds: all processes take part in the same order ----
 * The thread that has entered the pool calls them, outside of a run. */

enum { MST_ROUND_BYTES = 4096, MST_ROUND_TEXT = 200 };
/* What a call passes, for the message where signatures differ: a label and a value for each
 * argument, the same labels in the same order in all processes that make the call. */
enum { MST_DETAIL_LABEL = 80, MST_DETAILS_BYTES = 512 };
typedef struct mst_round_details {
    int32_t first, count; /* those before `first` are left out; count: how many were given */
    bool full;            /* more follow */
    size_t length;
    char text[MST_DETAILS_BYTES];
} mst_round_details;
/* Adds one. */
void mst_round_detail(mst_round_details *details, const char *label, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds one whose value no message shows, such as the elements of a tensor. */
void mst_round_hash_detail(mst_round_details *details, const char *label, uint64_t hash);

typedef struct mst_round {
    const char *where; /* the public function, for messages; a literal */
    /* What this process is about to do, as messages name it: "function 'train'". */
    char text[MST_ROUND_TEXT];
    uint64_t signature; /* processes with different signatures make different calls, which is refused */
    /* Gives all details of the call, each time that it is called. NULL: there are none. */
    void (*details)(const void *context, mst_round_details *details);
    const void *details_context;
    /* Of this process: OK, or why it refuses or has failed; then its message is the thread's last
     * error, and rank is the rank that failed, or -1. */
    muster_status status;
    int32_t rank;
    /* Bytes that all processes get: payload_bytes of each, the same number everywhere. `all`
     * becomes [processes][payload_bytes], valid until the next round. */
    const void *payload;
    int32_t payload_bytes; /* 0 to MST_ROUND_BYTES */
    const void *all;
    int64_t warn_after_ns, fail_after_ns; /* 0: those of the nodes; negative: never */
    /* Of an end round: why worker `rank` of this process has run no code of the program in the
     * call: text, of `size` bytes, becomes "has no rows, and ...". false: it has run some. Threads:
     * any, until the round has ended. NULL: all have. */
    bool (*absence)(const void *context, int32_t rank, char *text, size_t size);
    const void *absence_context;
    /* Is this process told to end the call? Before a begin round it then refuses the call, unless
     * `status` does already. While it waits in an end round with OK it tells the processes whose
     * tasks still run, as mst_nodes_poison does; one that has heard that enters its own end round
     * with it, unless it is told nothing and has OK. The status is CANCELLED, with a message that
     * names the process. NULL: it is not ended any more, or never. */
    bool (*must_end)(const void *context);
    const void *must_end_context;
} mst_round;

/* Before a call touches anything: do all processes make the same call, and does none refuse it? All
 * return the same status: OK, or that of the lowest process which refuses, with its message; or
 * INVALID_ARGUMENT with both texts where signatures differ; or TIMEOUT naming the process that has
 * made no call and what it did last. */
muster_status mst_nodes_begin(mst_nodes *nodes, mst_round *round);
/* At the end of a call that has begun: the same, and what failed anywhere fails everywhere: the
 * lowest failing rank decides, and its message travels. After it nothing of the call is in flight.
 * Waits for processes whose bodies have not returned. Tells them, when they ask, that those of this
 * process have. */
muster_status mst_nodes_end(mst_nodes *nodes, mst_round *round);

/* Tells the processes that wait for this one inside the call in progress that it has failed, with
 * the thread's last error as the message, to which it adds the name of this process if the status
 * is CANCELLED. mst_nodes_end still follows. Threads: any. */
void mst_nodes_poison(mst_nodes *nodes, muster_status status, int32_t rank);
/* Has a process given up the begin round of the call in progress, which other processes have seen
 * completed? It takes no part in the call, nor in rounds about how the call has ended. */
bool mst_nodes_given_up(const mst_nodes *nodes);
/* How many rounds of this thread have failed. A round fails in all processes, but for one that a
 * process gives up when it has been complete in others. A caller that counts one more than before
 * has an error that the others have, too: no further round has to tell it. */
uint64_t mst_nodes_failed_rounds(void);

/* ---- data, after a round that all have agreed on; the same thread ----
 * In host memory of any kind, through the slabs. Errors: NODE_LOST, TIMEOUT. */

/* buffer: the concatenation of bytes[p] bytes of every process, of which this process's are there
 * already. */
muster_status mst_nodes_all_gather(mst_nodes *nodes, const char *where, void *buffer, const int64_t *bytes);
/* The same concatenation at process `root` alone: the others pass only their own bytes. */
muster_status mst_nodes_gather(mst_nodes *nodes, const char *where, int32_t root, void *buffer, const int64_t *bytes);
/* The other way: `root` passes the concatenation, which is only read; the others get their own
 * bytes. */
muster_status mst_nodes_scatter(mst_nodes *nodes, const char *where, int32_t root, void *buffer, const int64_t *bytes);
/* buffer[0, count) becomes the reduction over the processes, in process order; f16 and bf16 come
 * and go as f32. */
muster_status mst_nodes_all_reduce(mst_nodes *nodes, const char *where, muster_reduction op, muster_dtype dtype, void *buffer,
                                   int64_t count);
/* to[0, count): what a process without values brings to a reduction. It changes no value with which
 * it is combined; the identity of a sum would make 0 of -0.0. */
void mst_nodes_neutral(muster_reduction op, muster_dtype compute, void *to, int64_t count);
muster_status mst_nodes_broadcast(mst_nodes *nodes, const char *where, int32_t from, void *buffer, int64_t bytes);

/* ---- opening ---- */

/* on_lost: the values of MUSTER_LOST_ABORT and MUSTER_LOST_ERROR, which are public further to the
 * right. */
enum { MST_LOST_ABORT = 0, MST_LOST_ERROR = 1 };

typedef struct mst_nodes_options {
    const char *nodes; /* as in muster_runtime_options, or what the environment says instead */
    int64_t mpi_communicator;
    int64_t warn_after_ns, fail_after_ns;
    int32_t on_lost;
    int64_t abort_after_ns, exit_after_ns; /* as in muster_runtime_options */
    int64_t close_grace_ns;                /* how long the close waits for the other processes; 0: 5 s, of which tests would wait */
    void (*log)(void *user, muster_log_level level, const char *line);
    void *log_user;
} mst_nodes_options;
/* First of all that opening does, before any thread and any device. Opens the wire, and finds the
 * processes and their hosts; ranks are not known yet. *nodes stays NULL if nobody has asked for
 * several processes, or the launch has one. Collective over the launch. */
muster_status mst_nodes_open(const mst_nodes_options *options, mst_nodes **nodes);
/* When the devices are open: tells the others how many ranks this process has, or why it could not
 * open (status is not OK; the message is the thread's last error), and sets `first`.
 * agreement: lines of "name=value" that must be equal in all processes, else opening is refused in
 * all of them with both values. names: the names of the devices, one line each; *all_names becomes
 * those of all ranks in order, allocated by mst_alloc. Every process that has opened calls it. */
muster_status mst_nodes_join(mst_nodes *nodes, muster_status status, int32_t ranks, const char *agreement, const char *names,
                             char **all_names);
/* Tells the others, waits for them for a bounded time, and frees all. Accepts NULL. */
void mst_nodes_close(mst_nodes *nodes);

/* The hash of the file that MUSTER_NODES_TABLE names, or that there is none: it must be equal in
 * all processes. Returns text. */
enum { MST_WAYS_TEXT = 48 };
const char *mst_nodes_ways_text(const mst_nodes *nodes, char text[MST_WAYS_TEXT]);
/* One line for the description: the rows that apply. Returns its length; 0 where there is no room
 * for it. */
size_t mst_nodes_ways_describe(const mst_nodes *nodes, char *text, size_t size);

#endif

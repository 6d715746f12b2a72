/* The wire of a runtime: the table of functions, this process's communicator, and the lock under
 * which the table is called. */
#ifndef MST_WIRE_IMPL_H
#define MST_WIRE_IMPL_H

#include "muster/status.h"
#include "wire/wire_abi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* How a wire ends. */
typedef enum mst_wire_end {
    MST_WIRE_FREE, /* nothing of it is in flight anywhere: all processes free it, or use it no more */
    /* Other processes may still use it, and they will: what this one has sent is to reach them. So
     * the communicator stays until the process ends, which waits for them as if it were freed. */
    MST_WIRE_KEEP,
    MST_WIRE_LOST /* other processes are gone: nothing waits for them any more, in the exit either */
} mst_wire_end;

typedef struct mst_wire {
    const muster_wire_table *table;
    muster_wire *state;
    int32_t process, processes;
    /* Held for one batch of calls of the table, 50 us at most, and never while something waits. */
    pthread_mutex_t lock;
    _Atomic int64_t sent_bytes, sent_messages; /* for tests and the description */
    _Atomic int64_t collectives;               /* the MPI's own, begun; for tests */
    /* A call has failed: what it has sent may be in the wire for ever. So the communicator is not
     * freed, or an MPI may give its messages to the next one. */
    bool stale;
    /* Frees what the opener has made, but for what `end` keeps. Waits for nobody. */
    void (*close)(struct mst_wire *wire, mst_wire_end end);
    void *opener; /* of `close` */
} mst_wire;

/* A tag has a kind (5 bits) and a lane (10 bits), because 32767 is all that MPI guarantees. Lane 0
 * belongs to the runtime: its rounds. Lane 1 belongs to the communicator of all ranks, the last
 * ones to the data of calls (MST_NODES_DATA_LANES), and those between to communicators that are
 * split from it. Epochs and sequence numbers are inside the messages. */
enum { MST_WIRE_LANES = 1024, MST_WIRE_KINDS = 32 };
static inline int32_t mst_wire_tag(int32_t lane, int32_t kind) { return lane * MST_WIRE_KINDS + kind; }

/* For tests: instead of MPI, this opens the wire of the runtime that the calling thread opens.
 * Returns false if this runtime is to have no wire. NULL: none. */
typedef bool (*mst_wire_test_opener)(mst_wire **wire);
extern mst_wire_test_opener mst_wire_test_open;

/* ---- wire.c: functions of the table, counted, and their errors. The caller holds the lock.
 * ---- */

/* send, or send_matched. Returns what the table does. */
int32_t mst_wire_send(mst_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, bool matched, muster_wire_request *request);
/* After MUSTER_WIRE_ERROR: makes "<what>: <the words of the wire>" the thread's last error. Returns
 * SYSTEM. */
muster_status mst_wire_error(const mst_wire *wire, const char *what);
/* Has the program ended what the wire is made of (MPI_Finalize)? From then on its functions fail by
 * themselves, since an MPI ends a process that calls it. Takes the lock. */
bool mst_wire_has_ended(mst_wire *wire);
/* Instead of mst_free, for memory that the wire may still read or write because something was given
 * up: it stays until the process ends. Threads: any. */
void mst_wire_keep(void *block);
/* How many blocks of memory_impl.h stay for that: those that are kept, and entries of a list of
 * them. Threads: any. */
int64_t mst_wire_kept(void);

#endif

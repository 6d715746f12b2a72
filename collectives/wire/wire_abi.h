/* wire_abi.h: how messages travel between the processes of a launch. The wire is a table of
 * functions. A shim (collectives/mpi/shim) fills the table from one MPI: it is compiled with that
 * MPI's mpi.h and knows nothing else of Muster, and the library never sees a symbol of MPI. The
 * tests fill the table from a simulation.
 *
 * C99 and C++, with integers of fixed width only, because the shim and the library may come from
 * different compilers. Both sides compare MUSTER_WIRE_ABI and the size of the table.
 *
 * No function blocks. The library calls all of them under one lock, so MPI_THREAD_SERIALIZED is
 * enough. Buffers are the library's own memory, contiguous, and stay in use until the request is
 * done. */
#ifndef MUSTER_WIRE_ABI_H
#define MUSTER_WIRE_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MUSTER_WIRE_ABI = 1 };

/* What the functions return. */
enum {
    MUSTER_WIRE_OK = 0,
    MUSTER_WIRE_ERROR = 1, /* `error` says why */
    MUSTER_WIRE_LOST = 2   /* a process has ended, or the communicator was revoked; only with fault tolerance (ULFM) */
};

/* Levels of thread support, as MPI orders them. */
enum { MUSTER_WIRE_SINGLE = 0, MUSTER_WIRE_FUNNELED = 1, MUSTER_WIRE_SERIALIZED = 2, MUSTER_WIRE_MULTIPLE = 3 };

/* Element types and operations of all_reduce and reduce_scatter. */
enum {
    MUSTER_WIRE_I8 = 0,
    MUSTER_WIRE_U8,
    MUSTER_WIRE_I16,
    MUSTER_WIRE_U16,
    MUSTER_WIRE_I32,
    MUSTER_WIRE_U32,
    MUSTER_WIRE_I64,
    MUSTER_WIRE_U64,
    MUSTER_WIRE_F32,
    MUSTER_WIRE_F64
};
enum { MUSTER_WIRE_SUM = 0, MUSTER_WIRE_PROD, MUSTER_WIRE_MAX, MUSTER_WIRE_MIN };

/* One communicator of this process. */
typedef struct muster_wire muster_wire;
/* A request in progress; 0: none. A request that is done becomes 0. */
typedef uint64_t muster_wire_request;
/* Of a message that was received or found. */
typedef struct muster_wire_status {
    int32_t from, tag;
    int64_t bytes;
} muster_wire_status;

typedef struct muster_wire_table {
    int32_t abi;      /* MUSTER_WIRE_ABI */
    int32_t bytes;    /* sizeof(muster_wire_table) where the shim was compiled */
    const char *name; /* what the shim was compiled for, such as "Open MPI 4.1.4" */

    /* ---- the process ---- */
    /* Writes what the MPI in this process says of itself, in one line. May be called at any
     * time. */
    void (*version)(char *text, int32_t size);
    /* threads: the level in force, if initialised. May be called at any time. */
    int32_t (*state)(int32_t *initialised, int32_t *finalised, int32_t *threads);
    /* Asks for MUSTER_WIRE_SERIALIZED; *threads is what the MPI gives. Blocks as long as the
     * launcher lets it. */
    int32_t (*initialise)(int32_t *threads);
    int32_t (*finalise)(void);
    /* Ends all processes of the launch. wire NULL: those of MPI_COMM_WORLD. */
    void (*abort)(muster_wire *wire, int32_t code);
    /* Describes the last MUSTER_WIRE_ERROR of this thread. */
    void (*error)(char *text, int32_t size);

    /* ---- communicators ---- */
    /* Begins to duplicate a communicator: that of the Fortran handle `parent` if has_parent, else
     * MPI_COMM_WORLD. All its processes call it. When the request is done the wire can be used. */
    int32_t (*open)(int32_t has_parent, int32_t parent, muster_wire **wire, muster_wire_request *request);
    /* Frees the wire, which has no requests in progress any more. */
    void (*close)(muster_wire *wire);
    int32_t (*rank)(muster_wire *wire);
    int32_t (*size)(muster_wire *wire);
    /* The host on which this process runs, as MPI names it. */
    void (*host)(char *text, int32_t size);

    /* ---- messages: 0 <= tag <= 32767; bytes <= 2^31 - 1 ---- */
    int32_t (*send)(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request);
    /* The same; it is done only when the receiver has matched it. */
    int32_t (*send_matched)(muster_wire *wire, const void *from, int64_t bytes, int32_t to, int32_t tag, muster_wire_request *request);
    /* bytes: room for the message, which may be shorter. from -1: from any process. */
    int32_t (*receive)(muster_wire *wire, void *to, int64_t bytes, int32_t from, int32_t tag, muster_wire_request *request);
    /* done: 1 if the request is done, or was 0. status may be NULL, and is meaningful for
     * receives. */
    int32_t (*test)(muster_wire *wire, muster_wire_request *request, int32_t *done, muster_wire_status *status);
    /* Tests all; requests that are 0 are skipped. done[0, *done_count) become the numbers of those
     * that are done now, statuses[0, *done_count) their statuses (NULL: not wanted). */
    int32_t (*test_some)(muster_wire *wire, int32_t count, muster_wire_request *requests, int32_t *done_count, int32_t *done,
                         muster_wire_status *statuses);
    /* Is there a message that a receive would match? */
    int32_t (*probe)(muster_wire *wire, int32_t from, int32_t tag, int32_t *there, muster_wire_status *status);
    /* Ends a receive that need not be matched any more; the request becomes 0. ERROR: its message
     * is on its way, so that the request stays in progress. */
    int32_t (*cancel)(muster_wire *wire, muster_wire_request *request);

    /* ---- the MPI's own collectives, of all processes of the wire; NULL where it has none ---- */
    int32_t (*all_reduce)(muster_wire *wire, const void *from, void *to, int64_t count, int32_t type, int32_t operation,
                          muster_wire_request *request);
    /* Process p gets counts[p] elements of the result. */
    int32_t (*reduce_scatter)(muster_wire *wire, const void *from, void *to, const int32_t *counts, int32_t type, int32_t operation,
                              muster_wire_request *request);
    int32_t (*broadcast)(muster_wire *wire, void *buffer, int64_t bytes, int32_t root, muster_wire_request *request);
    /* In bytes. The arrays stay in use until the request is done. */
    int32_t (*all_gather)(muster_wire *wire, const void *from, int32_t bytes, void *to, const int32_t *counts, const int32_t *offsets,
                          muster_wire_request *request);
    int32_t (*all_to_all)(muster_wire *wire, const void *from, const int32_t *send_counts, const int32_t *send_offsets, void *to,
                          const int32_t *receive_counts, const int32_t *receive_offsets, muster_wire_request *request);

    /* ---- fault tolerance (ULFM); NULL where it is not on ---- */
    /* Makes all requests of all processes of the wire end with MUSTER_WIRE_LOST. */
    int32_t (*revoke)(muster_wire *wire);
    /* The processes known to have ended: ranks[0, min(*count, size)). */
    int32_t (*lost)(muster_wire *wire, int32_t *ranks, int32_t size, int32_t *count);
} muster_wire_table;

/* The symbol that a shim exports. NULL if `abi` is not the one it was compiled for. */
typedef const muster_wire_table *(*muster_wire_entry)(int32_t abi);
#define MUSTER_WIRE_SYMBOL "muster_wire_1"

#ifdef __cplusplus
}
#endif
#endif

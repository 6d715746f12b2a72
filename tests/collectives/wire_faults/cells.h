/* A launch in which one process goes wrong, in one thread and in the virtual time of the simulated
 * wire: the real rounds, control messages, arrivals and schedules, with their real waits and
 * deadlines. A cell is what goes wrong (kind) and where (place). What each process sees is noted;
 * who looks at it is the test. */
#ifndef WIRE_FAULTS_CELLS_H
#define WIRE_FAULTS_CELLS_H

#include "nodes/rounds_private.h"
#include "nodes/schedule_private.h"
#include "wire_fibers.h"

typedef enum cell_kind {
    CELL_KILLED = 0, /* it ends, and the wire notices (ULFM) */
    CELL_DIES,       /* it ends, and nobody notices, but for the launcher, who ends the launch after CELL_EVER_MS */
    CELL_STOPPED,    /* it stands still for a while */
    CELL_CUT,        /* no message gets through between it and `other`, for a while */
    CELL_EXITS,      /* it ends its program without closing, which ends the launch; at BEGIN: it closes its runtime instead of calling */
    CELL_REFUSES,    /* it brings a refusal to the begin round */
    CELL_FAILS,      /* its body fails */
    CELL_DIFFERS,    /* it makes another call, or passes something else */
    CELL_KINDS
} cell_kind;

typedef enum cell_place {
    CELL_BEGIN = 0, /* the begin round */
    CELL_TRANSFER,  /* data of the runtime behind it, on lane 0 */
    CELL_ARRIVAL,   /* in the call: an arrival on a lane of its own */
    CELL_DATA,      /* in the call: what moves behind that arrival */
    CELL_END,       /* the end round */
    CELL_PLACES
} cell_place;

enum {
    CELL_MOST = 8,  /* processes */
    CELL_CALLS = 3, /* the last one is made when all is well again */
    CELL_DEADLINE_MS = 300,
    CELL_PATIENT_MS = 60000, /* the deadline of calls without a fault */
    CELL_EVER_MS = 6000,     /* `ms` of a fault that lasts longer than anybody waits */
    CELL_GRACE_MS = 20,      /* of the option on_lost */
    CELL_LOG = 32768
};

typedef struct cell {
    cell_kind kind;
    cell_place place;
    int32_t processes, victim, other;
    int32_t call;   /* the one that goes wrong: 1 or 2 */
    int32_t inside; /* 0: before the victim comes to the place; else at so many of its sleeps there, or when it leaves */
    int32_t ms;     /* of what passes */
    int32_t on_lost;
    int32_t late;  /* wire_fibers.h */
    int64_t bytes; /* that move: of each process */
    mst_move_algorithm algorithm;
    char hosts[CELL_MOST + 1]; /* the digit of each process's host */
    uint64_t seed;
} cell;

typedef struct cell_note {
    bool noted;
    muster_status status;
    char message[MST_MESSAGE_SIZE];
} cell_note;

typedef struct cell_seen {
    cell_note opened, notes[CELL_CALLS][CELL_PLACES]; /* what came of each place, in the calls of which a process came to it */
    bool right[CELL_CALLS];                           /* what has moved is right */
    bool over, closed;                                /* it has come to its end; it has called the close */
    int64_t returned_ns[CELL_CALLS], over_ns;
    char log[CELL_LOG];
} cell_seen;

typedef struct cell_run {
    cell cell;
    cell_seen seen[CELL_MOST];
    int64_t struck_ns; /* when it went wrong; 0: it has not */
    cell_place struck; /* where: the place, or CELL_PLACES: behind the call */
    int32_t aborted;   /* the code that was given to abort, or -1 */
    int64_t rested;
} cell_run;

/* What all call, and the text of the victim where it differs. */
extern const char cell_text[], cell_other_text[];
/* "process 2 (host host5)", by the drawn hosts. Returns text. */
const char *cell_name(const cell *c, int32_t process, char text[MST_PROCESS_TEXT]);
/* Process p has p + 1 ranks; the first of them. */
static inline int32_t cell_rank(int32_t process) { return process * (process + 1) / 2; }

/* Runs it. False: out of memory. */
bool cell_do(cell_run *run);

#endif

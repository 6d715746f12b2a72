/* A device that does something wrong at a chosen exchange of a call. */
#ifndef GRAPH_FAULTS_H
#define GRAPH_FAULTS_H

#include "communicator_impl.h"

typedef enum {
    FAILS,      /* before it enters */
    NO_MEMORY,  /* an allocation, before it enters */
    RETURNS,    /* it leaves the exchange out */
    STAYS_AWAY, /* until the others have given up */
    BREAKS,     /* when all have entered, and some may write */
    DAWDLES,    /* then it stands still until the others have given up, and goes on */
    FAILS_LATE, /* when the exchange is done */
    FAULT_KINDS
} fault_kind;
extern const char *const fault_names[FAULT_KINDS];

/* Whose end only a deadline brings. */
static inline bool fault_is_slow(fault_kind kind) { return kind == STAYS_AWAY || kind == DAWDLES; }

/* Between both, the exchanges of each rank in the calls below are counted, up to FAULT_EXCHANGES of
 * them. */
enum { FAULT_RANKS = 4, FAULT_EXCHANGES = 256 };
void faults_begin(void);
void faults_end(void);

/* The program's call, with a deadline for its waits (0: none that matters), and what sets its
 * values as they were before it. */
typedef struct fault_program {
    muster_status (*call)(void *context, int64_t deadline_ns);
    void (*reset)(void *context);
    void *context;
} fault_program;

/* How many exchanges the rank has entered in the last call, and the mst_collective of each of rank
 * 0 in the last call without a fault. */
int32_t faults_entered(int32_t rank);
int32_t faults_collective(int32_t exchange);
/* The call itself, and with a fault. *struck: whether the rank has come to this moment. */
muster_status faults_call(const fault_program *program);
muster_status faults_call_with(const fault_program *program, fault_kind kind, int32_t rank, int32_t exchange, bool *struck);

#endif

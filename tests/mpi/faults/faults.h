/* What the files of fault_program share: a launch in which one process, the victim, does something
 * wrong at a certain place. */
#ifndef FAULTS_H
#define FAULTS_H

#include "muster/communicator.h"
#include "muster/function.h"
#include "muster/nodes.h"
#include "muster/runtime.h"
#include "muster/tensor.h"
#include "muster/worker.h"

#include <stdbool.h>

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_KILL,      /* SIGKILL */
    FAULT_STOP,      /* SIGSTOP; survivable: SIGCONT follows */
    FAULT_EXIT_0,    /* exit(0) with an open runtime */
    FAULT_EXIT_1,    /* exit(1) with an open runtime */
    FAULT_FAIL,      /* its body returns an error */
    FAULT_HANG,      /* it never comes back; survivable: after more than the deadline */
    FAULT_CUT,       /* its host loses its link; survivable: for a while */
    FAULT_REFUSE,    /* it passes what is refused */
    FAULT_DIFFERENT, /* it makes another call than the others */
    FAULT_ORDER,     /* it does two things in the other order */
    FAULT_MEMORY,    /* an allocation fails */
    FAULT_KINDS
} fault_kind;

typedef enum fault_place {
    FAULT_OPEN,    /* before or inside of opening the runtime */
    FAULT_BEGIN,   /* before the call: the others wait in its begin round */
    FAULT_ARRIVAL, /* in the body: the others wait in a collective that has moved nothing */
    FAULT_DATA,    /* in the body, while data moves */
    FAULT_END,     /* at the end of the body: the others wait in the end round */
    FAULT_CLOSE,   /* the others wait in closing */
    FAULT_PLACES
} fault_place;

typedef struct fault {
    fault_kind kind;
    fault_place place;
    int32_t victim;
    bool survivable;
    uint32_t seed;   /* sizes, times, the number of the allocation */
    int32_t process; /* this one; before a runtime is open what the launcher says */
    char host[64];   /* the victim's */
} fault;

enum { FAULT_DEADLINE_MS = 300, FAULT_LATE_MS = 560 };
extern fault fault_now;

/* By name; -1: none has it. */
int32_t fault_kind_named(const char *name);
int32_t fault_place_named(const char *name);
const char *fault_kind_text(fault_kind kind);
const char *fault_place_text(fault_place place);

/* Before MPI: starts the process that wakes this one after SIGSTOP. */
void fault_prepare(void);
/* Is this the victim, and the place? */
bool fault_is_here(fault_place place);
/* Does what the fault demands of the victim at this place, if it is this one: dies, stops, hangs,
 * cuts a link, or lets an allocation fail. Kinds that are answers (FAIL and so on) do nothing. */
void fault_strike(fault_place place);
/* The same after a while, by a thread of its own: the caller goes on. */
void fault_strike_soon(fault_place place);

/* The functions of a runtime (fault_calls.c). */
typedef struct fault_calls {
    muster_runtime *runtime;
    muster_function *train, *evaluate;
} fault_calls;
muster_status fault_calls_make(muster_runtime *runtime, fault_calls *calls);
/* Makes the calls with the fault inside, and the one after it, without a fault and without a
 * deadline that it could miss. `report` gets each one's status (the message is the thread's last
 * error), and whether its outputs are right. */
typedef void (*fault_report)(const char *what, muster_status status, bool right);
void fault_call(fault_calls *calls, fault_report report);
void fault_call_after(const fault_calls *calls, fault_report report);

#endif

/* interrupt.h: Ctrl-C ends a training, in one process within a step, which then has no effect, and
 * in several between two steps. */
#ifndef INTERRUPT_H
#define INTERRUPT_H

#include <muster/muster.h>
#include <stdbool.h>

/* A second Ctrl-C ends the program at once, in case a step never returns. Launchers of several
 * processes pass Ctrl-C on as SIGTERM, which is caught, too. */
void interrupt_catch(void);

/* Ctrl-C reaches several processes in different steps, and one that stopped alone would leave the
 * others in a call: so they agree by a call of this function. *agreement is NULL in one process,
 * where the signal alone says it, and ends the step. */
muster_status interrupt_open(muster_runtime *runtime, muster_function **agreement);
/* From now on Ctrl-C ends no call. Before the runtime is closed. */
void interrupt_close(void);

/* Whether a process was interrupted; the same in all, which all call it. */
muster_status interrupt_agree(muster_function *agreement, bool *interrupted);

#endif

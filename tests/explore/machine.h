/* Between the modelled machine (one step) and search.c (all orders of steps). */
#ifndef EXPLORE_MACHINE_H
#define EXPLORE_MACHINE_H

#include "explorer.h"

typedef enum { STEP_RUN, STEP_FLUSH, STEP_TIMEOUT, STEP_SPURIOUS } step_kind;
typedef struct step {
    step_kind kind;
    int32_t thread, entry; /* entry: of the store buffer; of a wake: the sleepers that it wakes, one bit for each */
} step;
enum { MAX_STEPS = 32 };

void machine_reset(const explore_scenario *scenario);
/* After prepare: from here on the state can be saved. */
void machine_begin(void);
/* What can happen next. A wake-up without a reason is among them, but saves nobody: useful: how
 * many of the others there are. */
int32_t machine_steps(step steps[MAX_STEPS], int32_t *useful);
void machine_step(const step *chosen);
/* "" or the fault of this path. */
const char *machine_fault(void);
/* Everybody has ended or may sleep; if not, says who sleeps where. */
void machine_look_at_end(void);

/* The state of everything: save returns its size, at most MACHINE_MOST bytes. */
enum { MACHINE_MOST = 1 << 17 };
size_t machine_save(void *to);
void machine_restore(const void *from);
uint64_t machine_hash(void);

/* One line about a step that is about to be taken. */
void machine_describe(const step *chosen, char *text, size_t size);

#endif

/* Collectives as the collectives module builds them on a team. */
#ifndef EXPLORE_RENDEZVOUS_H
#define EXPLORE_RENDEZVOUS_H

#include "rank.h"

/* How the failing rank of a plan fails, in its last round. */
enum {
    FAILS_BEFORE = 1, /* never arrives */
    FAILS_ARRIVED,    /* between its arrival and its wait */
    FAILS_READING,    /* inside its section; goes on reading for a while */
    STAYS_AWAY,       /* returns without an error */
    SKIPS_SECTION     /* leaves without having read, with an error of its own */
};

/* Values in the lines: no second rendezvous. */
muster_status rendezvous_inline(muster_worker *worker, const run_plan *plan);
/* Memory offered by address: a section and a leave. */
muster_status rendezvous_by_address(muster_worker *worker, const run_plan *plan);

#endif

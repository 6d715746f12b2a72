/* Bruck's algorithm, for those who gather before they do something else. */
#ifndef MST_ALL_GATHER_PRIVATE_H
#define MST_ALL_GATHER_PRIVATE_H

#include "flow_private.h"

int32_t mst_bruck_flows(int32_t size);
/* The parts lie in the concatenation `at`, by schedule->offsets; step and next are 0 at first. Adds
 * the flows of the next step, when its parts have come. true: all parts are there. */
bool mst_bruck_advance(mst_schedule *schedule, char *at);

#endif

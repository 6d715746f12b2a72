/* A reduction between processes as several exchanges at the same time, one for each slice of the
 * values: what "two_dimensional" does. */
#ifndef MST_SLICES_PRIVATE_H
#define MST_SLICES_PRIVATE_H

#include "schedule_private.h"

enum { MST_SLICES_MOST = MST_CHANNEL_SLICES };

typedef struct mst_slice {
    mst_channel channel;
    mst_schedule schedule;
    mst_move move;
} mst_slice;

typedef struct mst_slices {
    mst_machine machine; /* all of them */
    bool running;
    int32_t count;
    mst_slice slices[MST_SLICES_MOST];
} mst_slices;

/* channel: that of the communicator, which is copied. count: how many, the same in all processes;
 * above MST_SLICES_MOST they are as many. Errors: OUT_OF_MEMORY. */
muster_status mst_slices_open(const mst_channel *channel, int32_t count, mst_slices **slices);
/* Leaks what the wire may still use. Accepts NULL. */
void mst_slices_free(mst_slices *slices);
bool mst_slices_in_flight(const mst_slices *slices);
/* Begins a reduction to all or to one; `move` is not kept. The end is that of the machine. Errors:
 * as mst_schedule_begin. */
muster_status mst_slices_begin(mst_slices *slices, const mst_move *move);

#endif

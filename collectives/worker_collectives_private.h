/* What the files of the public collectives share. */
#ifndef MST_WORKER_COLLECTIVES_PRIVATE_H
#define MST_WORKER_COLLECTIVES_PRIVATE_H

#include "communicator_impl.h"

/* Checks what one rank can check alone of an average over the ranks that takes several collectives:
 * no group may be open. */
muster_status mst_collective_check_average(const char *where, muster_worker *worker, muster_communicator *communicator,
                                           const muster_tensor *input, const muster_tensor *output);

#endif

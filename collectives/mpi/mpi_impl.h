/* The one entrance to MPI. */
#ifndef MST_MPI_IMPL_H
#define MST_MPI_IMPL_H

#include "nodes/nodes_impl.h"

/* Finds the MPI that options->nodes asks for, opens its shim, initialises MPI where nobody has, and
 * makes a communicator of this runtime's own. *wire stays NULL if nobody has asked for several
 * processes, or the launch has one. Collective over the launch. `close` of the wire frees it.
 * Errors: INVALID_ARGUMENT, UNAVAILABLE (no such MPI), UNSUPPORTED (an MPI that is initialised with
 * too little thread support, or has been finalised), TIMEOUT, SYSTEM. */
muster_status mst_mpi_open(const mst_nodes_options *options, mst_wire **wire);

#endif

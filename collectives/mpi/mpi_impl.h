/* Opens the wire between the processes of a launch through MPI. The library knows no MPI: a shim
 * (shim/shim.c), compiled for each one, is opened at run time. */
#ifndef MST_MPI_IMPL_H
#define MST_MPI_IMPL_H

#include "library_facts_impl.h"
#include "nodes/nodes_impl.h"

enum { MST_MPI_TEXT = 320 };

/* What options->nodes asks for; where it is NULL, MUSTER_NODES; where that is not set, "none".
 * "none", or a launch of one process: *wire stays NULL, and with "none" nothing of MPI is touched.
 * "mpi", "mpi:PATH": initialises MPI unless somebody has, and opens a communicator of its own, for
 * which all processes of the launch (or of options->mpi_communicator) must call this. Of options
 * also uses fail_after_ns and log. wire->close frees it; MPI itself is finalised when the process
 * exits (mpi_exit.c).
 * Errors: INVALID_ARGUMENT (an unknown value), UNSUPPORTED ("nccl"), UNAVAILABLE (no shim, or one
 * that does not fit), BAD_STATE (MPI was finalised; its level of threads; a launcher that does not
 * belong to this MPI; a second MPI), TIMEOUT, SYSTEM (an error of MPI). */
muster_status mst_mpi_open(const mst_nodes_options *options, mst_wire **wire);
/* "Open MPI v4.1.4 by /usr/lib/libmuster-mpi-openmpi.so (the launcher is Open MPI's)"; "" if no
 * shim is open. */
void mst_mpi_describe(char text[MST_MPI_TEXT]);
/* As the functions of library_facts_impl.h: of the shim that a runtime with nodes would open, or
 * has opened. MPI is not initialised. */
void mst_mpi_get_facts(mst_library_facts *facts);

#endif

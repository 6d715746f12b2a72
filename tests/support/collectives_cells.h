/* Runs cells of the conformance suite. */
#ifndef COLLECTIVES_CELLS_H
#define COLLECTIVES_CELLS_H

#include "collectives_matrix.h"

/* Cells in the order of their fields. Fails the test with the first cell that gives something else
 * than it must. Returns how many collectives it entered: one per cell and root; every root where
 * there are at most 1000 elements. */
int64_t cells_run(const cell *cells, int64_t count);

#endif

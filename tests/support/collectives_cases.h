/* Runs cases of the conformance suite. */
#ifndef COLLECTIVES_CASES_H
#define COLLECTIVES_CASES_H

#include "collectives_matrix.h"

/* Cases in the order of their fields. Fails the test with the first case that gives something else
 * than it must. Returns how many collectives it entered: one per case and root; every root where
 * there are at most 1000 elements. */
int64_t cases_run(const matrix_case *cases, int64_t count);

#endif

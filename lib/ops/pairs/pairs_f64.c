/* Pairs of cheap operations on f64. */
#include "pairs_private.h"

#include <math.h>

#define T double
#define MST_PAIR_ABS fabs
#define PAIRS mst_pairs_f64
#include "pairs_loops.h"

/* Pairs of cheap operations on f32. */
#include "pairs_private.h"

#include <math.h>

#define T float
#define MST_PAIR_ABS fabsf
#define PAIRS mst_pairs_f32
#include "pairs_loops.h"

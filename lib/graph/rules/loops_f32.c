/* The loops of rules on f32. */
#include "loops_private.h"
#include "muster/rule.h"
#include "stream_impl.h"

#include <math.h>

#define T float
#define ROOT sqrtf
#define ABSOLUTE fabsf
#define LOOPS mst_rule_loops_f32
#include "each_loops.h"

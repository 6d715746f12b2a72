/* The loops of rules on f64. */
#include "loops_private.h"
#include "muster/rule.h"
#include "stream_impl.h"

#include <math.h>

#define T double
#define ROOT sqrt
#define ABSOLUTE fabs
#define LOOPS mst_rule_loops_f64
#include "each_loops.h"

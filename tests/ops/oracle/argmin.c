#define FUNCTION muster_argmin
#define BETTER(a, b) ((a) < (b))
#define BEST_OF_0_AND_1 0
#include "extreme_cases.h"

const ops_oracle ops_oracle_argmin = {.draw = draw, .cases = cases, .case_count = 12 * OPS_LAYOUTS};

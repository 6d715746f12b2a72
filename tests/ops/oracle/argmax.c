#define FUNCTION muster_argmax
#define BETTER(a, b) ((a) > (b))
#define BEST_OF_0_AND_1 1
#include "extreme_cases.h"

const ops_oracle ops_oracle_argmax = {.draw = draw, .cases = cases, .case_count = 12 * OPS_LAYOUTS};

#define FUNCTION muster_log_softmax
#define OF(x, log_of_sum) ((x) - (log_of_sum))
#define PER_ROW 0
#include "softmax_family.h"

const ops_oracle ops_oracle_log_softmax = {.draw = draw, .cases = cases, .case_count = 4 * 10 * OPS_LAYOUTS};

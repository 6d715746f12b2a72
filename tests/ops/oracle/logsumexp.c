#define FUNCTION muster_logsumexp
#define OF(x, log_of_sum) (log_of_sum)
#define PER_ROW 1
#include "softmax_family.h"

const ops_oracle ops_oracle_logsumexp = {.draw = draw, .cases = cases, .case_count = 4 * 10 * OPS_LAYOUTS};

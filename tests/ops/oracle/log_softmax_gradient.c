#define FUNCTION muster_log_softmax_gradient
#define TERM(y, dy) ((void)(y), (dy))
#define RESULT(y, dy, sum) ((dy)-exp(y) * (sum))
#include "softmax_gradient_family.h"

const ops_oracle ops_oracle_log_softmax_gradient = {.draw = draw, .cases = cases, .case_count = 4 * 7 * 27};

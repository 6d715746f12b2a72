#define FUNCTION muster_softmax_gradient
#define TERM(y, dy) ((y) * (dy))
#define RESULT(y, dy, sum) ((y) * ((dy) - (sum)))
#include "softmax_gradient_family.h"

const ops_oracle ops_oracle_softmax_gradient = {.draw = draw, .cases = cases, .case_count = 4 * 7 * 27};

#define SCALAR_FIRST true
#include "scalar_operand_cases.h"

const ops_oracle ops_oracle_scalar_binary = {
    .draw = draw, .cases = cases, .case_count = (11 * 9 + 4 * 3 + 7 * 5) * 9, .values = {{.integer = MUSTER_ADD}, {.number = 1}}};

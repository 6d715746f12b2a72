#define SCALAR_FIRST false
#include "scalar_operand_cases.h"

const ops_oracle ops_oracle_binary_scalar = {
    .draw = draw, .cases = cases, .case_count = (11 * 9 + 4 * 3 + 7 * 5) * 9, .values = {{.integer = MUSTER_ADD}, {.number = 1}}};

#define FUNCTION muster_triu
#define KEEPS(i, j, k) ((double)(j) - (double)(i) >= (double)(k))
#include "triangle.h"

const ops_oracle ops_oracle_triu = {.draw = draw, .cases = cases, .case_count = 12 * 9 * 10};

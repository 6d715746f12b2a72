/* LARGEST and SMALLEST: the index of the first of the largest and of the smallest elements of a
 * row. NaN counts as larger, and as smaller, than all numbers. Other parameters: T, C, LOAD,
 * IS_FLOAT, as in each_float_loops.h. A contiguous row is read twice, in loops that the compiler
 * vectorises: for the best of each lane, then for its first place. */
#define FUNCTION LARGEST
#define BETTER(value, best) ((value) > (best))
#include "argmax/argmax_row_loops.h"
#define FUNCTION SMALLEST
#define BETTER(value, best) ((value) < (best))
#include "argmax/argmax_row_loops.h"

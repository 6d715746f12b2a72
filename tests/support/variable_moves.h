/* Collectives on two variables, and what each of them should do by loops over the matrices of all
 * ranks. The values are small integers, and weights add up to powers of two: all sums are exact. */
#ifndef MST_VARIABLE_MOVES_H
#define MST_VARIABLE_MOVES_H

#include "muster/variable.h"

#include <stdbool.h>

enum { MOVES_RANKS = 4, MOVES_ELEMENTS = 128, MOVES_VARIABLES = 2, MOVES = 19, MOVES_WITH_ROOT = 5 };

typedef struct moves_matrix {
    int64_t rows, columns;
    float at[MOVES_ELEMENTS];
} moves_matrix;

/* The replicas of all ranks before an operation and after it, and the results for the caller: found
 * and expected, without rows where there are none. */
typedef struct moves_trial {
    muster_variable *variables[MOVES_VARIABLES];
    int32_t size, root;
    moves_matrix before[MOVES_VARIABLES][MOVES_RANKS], after[MOVES_VARIABLES][MOVES_RANKS];
    moves_matrix results[MOVES_VARIABLES], expected[MOVES_VARIABLES];
} moves_trial;

typedef struct moves_operation {
    const char *name;
    muster_status (*run)(moves_trial *t);
    bool rooted, uneven;                       /* it has a root; it takes replicas of different lengths */
    void (*expect)(moves_trial *t, int32_t i); /* changes `after` or `expected` of variable i */
} moves_operation;
extern const moves_operation moves_operations[MOVES];

/* Sets `before` for the operation, and what it should do. */
void moves_fill(moves_trial *t, const moves_operation *operation);
bool moves_equal(const moves_matrix *a, const moves_matrix *b);
/* Undoes a split. */
muster_status moves_join(moves_trial *t);

#endif

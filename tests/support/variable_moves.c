#include "variable_moves.h"

#include <string.h>

static const double weights[MOVES_RANKS + 1][MOVES_RANKS] = {{0}, {0}, {1, 3}, {1, 1, 2}, {1, 2, 1, 4}};
static const double totals[MOVES_RANKS + 1] = {1, 1, 4, 4, 8};

/* ---- loops over the matrices ---- */

static void append(moves_matrix *to, const moves_matrix *from, int64_t begin, int64_t end) {
    for (int64_t i = begin * from->columns; i < end * from->columns; i++)
        to->at[to->rows * to->columns + i - begin * from->columns] = from->at[i];
    to->rows += end - begin;
}

static moves_matrix rows_of(const moves_matrix *from, int64_t begin, int64_t end) {
    moves_matrix made = {.columns = from->columns};
    append(&made, from, begin, end);
    return made;
}

static moves_matrix columns_of(const moves_matrix *from, int64_t begin, int64_t end) {
    moves_matrix made = {.rows = from->rows, .columns = end - begin};
    for (int64_t row = 0; row < from->rows; row++)
        for (int64_t column = begin; column < end; column++)
            made.at[row * made.columns + column - begin] = from->at[row * from->columns + column];
    return made;
}

static moves_matrix cut(const moves_trial *t, const moves_matrix *from, int32_t rank) {
    return rows_of(from, from->rows * rank / t->size, from->rows * (rank + 1) / t->size);
}

static moves_matrix concatenated(const moves_trial *t, int32_t i) {
    moves_matrix made = {.columns = t->before[i][0].columns};
    for (int32_t r = 0; r < t->size; r++) append(&made, &t->before[i][r], 0, t->before[i][r].rows);
    return made;
}

static float combined(muster_reduction op, float a, float b) {
    if (op == MUSTER_SUM) return a + b;
    return op == MUSTER_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

static moves_matrix folded(const moves_trial *t, int32_t i, muster_reduction op) {
    moves_matrix made = t->before[i][0];
    for (int32_t r = 1; r < t->size; r++)
        for (int64_t e = 0; e < made.rows * made.columns; e++) made.at[e] = combined(op, made.at[e], t->before[i][r].at[e]);
    return made;
}

static moves_matrix averaged(const moves_trial *t, int32_t i) {
    moves_matrix made = t->before[i][0];
    for (int64_t e = 0; e < made.rows * made.columns; e++) {
        double sum = 0;
        for (int32_t r = 0; r < t->size; r++) sum += weights[t->size][r] * t->before[i][r].at[e];
        made.at[e] = (float)(sum / totals[t->size]);
    }
    return made;
}

static void to_all(moves_trial *t, int32_t i, moves_matrix value) {
    for (int32_t r = 0; r < t->size; r++) t->after[i][r] = value;
}

/* ---- the operations, each with what it should do to variable i ---- */

static muster_status broadcast_from(moves_trial *t) { return muster_variables_broadcast_from(t->variables, MOVES_VARIABLES, t->root); }
static void expect_broadcast_from(moves_trial *t, int32_t i) { to_all(t, i, t->before[i][t->root]); }

static muster_status broadcast(moves_trial *t) { return muster_variables_broadcast(t->variables, NULL, MOVES_VARIABLES); }
static void expect_broadcast(moves_trial *t, int32_t i) { to_all(t, i, t->before[i][0]); }

static muster_status scatter_from(moves_trial *t) { return muster_variables_scatter_from(t->variables, MOVES_VARIABLES, t->root); }
static void expect_scatter_from(moves_trial *t, int32_t i) {
    for (int32_t r = 0; r < t->size; r++) t->after[i][r] = cut(t, &t->before[i][t->root], r);
}

static muster_status all_gather(moves_trial *t) { return muster_variables_all_gather(t->variables, MOVES_VARIABLES); }
static void expect_all_gather(moves_trial *t, int32_t i) { to_all(t, i, concatenated(t, i)); }

static muster_status gather_at(moves_trial *t) { return muster_variables_gather_at(t->variables, MOVES_VARIABLES, t->root); }
static void expect_gather_at(moves_trial *t, int32_t i) { t->after[i][t->root] = concatenated(t, i); }

static muster_status all_to_all(moves_trial *t) { return muster_variables_all_to_all(t->variables, MOVES_VARIABLES); }
static void expect_all_to_all(moves_trial *t, int32_t i) {
    for (int32_t r = 0; r < t->size; r++) {
        t->after[i][r] = (moves_matrix){.columns = t->before[i][0].columns};
        for (int32_t from = 0; from < t->size; from++) {
            const moves_matrix part = cut(t, &t->before[i][from], r);
            append(&t->after[i][r], &part, 0, part.rows);
        }
    }
}

static muster_status all_reduce(moves_trial *t) { return muster_variables_all_reduce(t->variables, MOVES_VARIABLES, MUSTER_MIN); }
static void expect_all_reduce(moves_trial *t, int32_t i) { to_all(t, i, folded(t, i, MUSTER_MIN)); }

static muster_status all_reduce_sum(moves_trial *t) { return muster_variables_all_reduce(t->variables, MOVES_VARIABLES, MUSTER_SUM); }
static void expect_all_reduce_sum(moves_trial *t, int32_t i) { to_all(t, i, folded(t, i, MUSTER_SUM)); }

static muster_status all_reduce_weighted(moves_trial *t) {
    return muster_variables_all_reduce_weighted(t->variables, MOVES_VARIABLES, weights[t->size], t->size);
}
static void expect_all_reduce_weighted(moves_trial *t, int32_t i) { to_all(t, i, averaged(t, i)); }

static muster_status reduce(moves_trial *t) { return muster_variables_reduce(t->variables, MOVES_VARIABLES, MUSTER_MAX); }
static void expect_reduce(moves_trial *t, int32_t i) { t->after[i][0] = folded(t, i, MUSTER_MAX); }

static muster_status reduce_at(moves_trial *t) { return muster_variables_reduce_at(t->variables, MOVES_VARIABLES, MUSTER_SUM, t->root); }
static void expect_reduce_at(moves_trial *t, int32_t i) { t->after[i][t->root] = folded(t, i, MUSTER_SUM); }

static muster_status reduce_weighted_at(moves_trial *t) {
    return muster_variables_reduce_weighted_at(t->variables, MOVES_VARIABLES, weights[t->size], t->size, t->root);
}
static void expect_reduce_weighted_at(moves_trial *t, int32_t i) { t->after[i][t->root] = averaged(t, i); }

static muster_status reduce_scatter(moves_trial *t) { return muster_variables_reduce_scatter(t->variables, MOVES_VARIABLES, MUSTER_SUM); }
static void expect_reduce_scatter(moves_trial *t, int32_t i) {
    const moves_matrix sum = folded(t, i, MUSTER_SUM);
    for (int32_t r = 0; r < t->size; r++) t->after[i][r] = cut(t, &sum, r);
}

static void make_results(moves_trial *t, muster_tensor results[MOVES_VARIABLES]) {
    for (int32_t i = 0; i < MOVES_VARIABLES; i++) {
        t->results[i] = (moves_matrix){.rows = t->before[i][0].rows, .columns = t->before[i][0].columns};
        results[i] = muster_f32(t->results[i].at, t->results[i].rows, t->results[i].columns);
    }
}

static muster_status reduce_to(moves_trial *t) {
    muster_tensor results[MOVES_VARIABLES];
    make_results(t, results);
    return muster_variables_reduce_to(t->variables, results, MOVES_VARIABLES, MUSTER_SUM);
}
static void expect_reduce_to(moves_trial *t, int32_t i) { t->expected[i] = folded(t, i, MUSTER_SUM); }

static muster_status reduce_weighted_to(moves_trial *t) {
    muster_tensor results[MOVES_VARIABLES];
    make_results(t, results);
    return muster_variables_reduce_weighted_to(t->variables, results, MOVES_VARIABLES, weights[t->size], t->size);
}
static void expect_reduce_weighted_to(moves_trial *t, int32_t i) { t->expected[i] = averaged(t, i); }

static muster_status split_all(moves_trial *t, int32_t axis) {
    for (int32_t i = 0; i < MOVES_VARIABLES; i++) MUSTER_TRY(muster_variable_split(t->variables[i], axis));
    return MUSTER_OK;
}

muster_status moves_join(moves_trial *t) {
    for (int32_t i = 0; i < MOVES_VARIABLES; i++) MUSTER_TRY(muster_variable_join(t->variables[i]));
    return MUSTER_OK;
}

static muster_status split_rows(moves_trial *t) { return split_all(t, 0); }
static void expect_split_rows(moves_trial *t, int32_t i) {
    for (int32_t r = 0; r < t->size; r++) t->after[i][r] = cut(t, &t->before[i][0], r);
}

static muster_status split_columns(moves_trial *t) { return split_all(t, 1); }
static void expect_split_columns(moves_trial *t, int32_t i) {
    const moves_matrix *whole = &t->before[i][0];
    for (int32_t r = 0; r < t->size; r++)
        t->after[i][r] = columns_of(whole, whole->columns * r / t->size, whole->columns * (r + 1) / t->size);
}

static muster_status split_again(moves_trial *t) {
    MUSTER_TRY(split_all(t, 0));
    return split_all(t, 1);
}

static muster_status split_and_join(moves_trial *t) {
    MUSTER_TRY(split_all(t, 1));
    return moves_join(t);
}

const moves_operation moves_operations[MOVES] = {
    {"broadcast_from", broadcast_from, true, true, expect_broadcast_from},
    {"broadcast", broadcast, false, true, expect_broadcast},
    {"scatter_from", scatter_from, true, true, expect_scatter_from},
    {"all_gather", all_gather, false, true, expect_all_gather},
    {"gather_at", gather_at, true, true, expect_gather_at},
    {"all_to_all", all_to_all, false, true, expect_all_to_all},
    {"all_reduce", all_reduce, false, false, expect_all_reduce},
    {"all_reduce_sum", all_reduce_sum, false, false, expect_all_reduce_sum},
    {"all_reduce_weighted", all_reduce_weighted, false, false, expect_all_reduce_weighted},
    {"reduce", reduce, false, false, expect_reduce},
    {"reduce_at", reduce_at, true, false, expect_reduce_at},
    {"reduce_weighted_at", reduce_weighted_at, true, false, expect_reduce_weighted_at},
    {"reduce_scatter", reduce_scatter, false, false, expect_reduce_scatter},
    {"reduce_to", reduce_to, false, false, expect_reduce_to},
    {"reduce_weighted_to", reduce_weighted_to, false, false, expect_reduce_weighted_to},
    {"split_rows", split_rows, false, false, expect_split_rows},
    {"split_columns", split_columns, false, false, expect_split_columns},
    {"split_again", split_again, false, false, expect_split_columns},
    {"split_and_join", split_and_join, false, false, expect_broadcast},
};

/* ---- one operation ---- */

void moves_fill(moves_trial *t, const moves_operation *operation) {
    memset(t->results, 0, sizeof t->results);
    memset(t->expected, 0, sizeof t->expected);
    for (int32_t i = 0; i < MOVES_VARIABLES; i++) {
        for (int32_t r = 0; r < t->size; r++) {
            moves_matrix *m = &t->before[i][r];
            *m = (moves_matrix){.rows = operation->uneven ? (3 * r + i) % 4 : 5 + i, .columns = 3 + i};
            for (int e = 0; e < m->rows * m->columns; e++) m->at[e] = (float)((7 * r + 5 * e + 11 * i) % 23 - 9);
        }
        memcpy(t->after[i], t->before[i], sizeof t->after[i]);
        operation->expect(t, i);
    }
}

bool moves_equal(const moves_matrix *a, const moves_matrix *b) {
    return a->rows == b->rows && a->columns == b->columns && memcmp(a->at, b->at, (size_t)(a->rows * a->columns) * sizeof(float)) == 0;
}

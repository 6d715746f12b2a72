/* Accumulates three or four inputs in one pass. The accumulator is written once and not read again,
 * and memory delivers all inputs at the same time. */
#include "many_private.h"

#include "half_impl.h"
#include "op_impl.h"

enum { MANY = 4 };

/* Accumulates element i of `from`. This file, too, is compiled without contraction, so that all
 * algorithms give the same bits. */
#define TAKE(C, LOAD, NEXT, from) \
    do {                          \
        C v = (C)LOAD((from)[i]); \
        a = (C)(NEXT);            \
    } while (0)
#define MST_LOOPS "each_reduction_loops.h"
#define MST_REDUCTION "host/many_inputs_loops.h"
#define MST_INLINE_HALVES
#include "each_float_loops.h"
#include "each_integer_loops.h"

#define INTEGER_ROW(NAME, name, ...) \
    [MUSTER_##NAME] = {[MUSTER_SUM] = sum_##name, [MUSTER_PROD] = prod_##name, [MUSTER_MAX] = max_##name, [MUSTER_MIN] = min_##name},
#define FLOAT_ROW(NAME, name, ...)                  \
    [MUSTER_##NAME] = {[MUSTER_SUM] = sum_##name,   \
                       [MUSTER_PROD] = prod_##name, \
                       [MUSTER_MAX] = max_##name,   \
                       [MUSTER_MIN] = min_##name,   \
                       [MUSTER_AVG] = avg_##name},
/* inputs[MANY]; the last one may be NULL. There are no loops for bool, whose inputs are accumulated
 * one by one. */
static void (*const loops[MST_DTYPE_COUNT][MUSTER_AVG + 1])(void *accumulator, const void *const *inputs, int64_t count, double scale) = {
    MST_EACH_FLOAT(FLOAT_ROW) MST_EACH_SIGNED(INTEGER_ROW) MST_EACH_UNSIGNED(INTEGER_ROW)};

static bool at_once(muster_reduction op, muster_dtype dtype, int64_t input_count) { return loops[dtype][op] && input_count >= MANY - 1; }

bool mst_many_in_place(muster_reduction op, muster_dtype dtype, int64_t input_count) {
    return at_once(op, dtype, input_count) && input_count <= MANY && mst_dtype_compute(dtype) == dtype;
}

/* Accumulates further inputs in groups. The accumulator takes the place of an input, which is done
 * only if it changes no value. */
static int64_t continue_at_once(muster_reduction op, muster_dtype dtype, void *accumulator, const void *const *inputs, int64_t left,
                                int64_t count) {
    int64_t taken = 0;
    if (op == MUSTER_AVG || mst_dtype_compute(dtype) != dtype) return taken;
    while (left - taken >= MANY - 2) {
        const void *group[MANY] = {accumulator, inputs[taken], inputs[taken + 1], left - taken >= MANY - 1 ? inputs[taken + 2] : NULL};
        loops[dtype][op](accumulator, group, count, 1);
        taken += group[MANY - 1] ? MANY - 1 : MANY - 2;
    }
    return taken;
}

void mst_many_accumulate(muster_reduction op, muster_dtype dtype, void *accumulator, const void *const *inputs, int64_t input_count,
                         int64_t count, double scale) {
    int64_t taken = 0;
    if (at_once(op, dtype, input_count)) {
        const void *group[MANY] = {inputs[0], inputs[1], inputs[2], input_count >= MANY ? inputs[MANY - 1] : NULL};
        loops[dtype][op](accumulator, group, count, scale);
        taken = input_count < MANY ? input_count : MANY;
        taken += continue_at_once(op, dtype, accumulator, inputs + taken, input_count - taken, count);
    }
    for (; taken < input_count; taken++) mst_reduction_accumulate(op, dtype, accumulator, inputs[taken], count, scale, taken == 0);
}

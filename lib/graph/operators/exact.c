/* Integers that f64 does not tell apart: beyond 2^53 a plain number is the nearest f64 and what is
 * missing to the integer, so that texts compute with the digits that they show. */
#include "locale_impl.h"
#include "operators_private.h"

#include <math.h>

bool mst_value_integer(const mst_graph_value *value, mst_wide *integer) {
    if (value->number != floor(value->number) || fabs(value->number) > 0x1p65) return false;
    *integer = (mst_wide)value->number + value->integer;
    return true;
}

mst_graph_value mst_value_of_integer(mst_wide integer) {
    const double number = (double)integer;
    return (mst_graph_value){.number = number, .integer = (int64_t)(integer - (mst_wide)number)};
}

/* The first and the last value of an integer dtype. */
static mst_wide dtype_lowest(muster_dtype dtype) {
    static const int64_t low[MST_DTYPE_COUNT] = {
        [MUSTER_I8] = INT8_MIN, [MUSTER_I16] = INT16_MIN, [MUSTER_I32] = INT32_MIN, [MUSTER_I64] = INT64_MIN};
    return low[dtype];
}
static mst_wide dtype_highest(muster_dtype dtype) {
    static const uint64_t high[MST_DTYPE_COUNT] = {
        [MUSTER_BOOL] = 1,      [MUSTER_U8] = UINT8_MAX,  [MUSTER_U32] = UINT32_MAX, [MUSTER_U64] = UINT64_MAX,
        [MUSTER_I8] = INT8_MAX, [MUSTER_I16] = INT16_MAX, [MUSTER_I32] = INT32_MAX,  [MUSTER_I64] = INT64_MAX};
    return (mst_wide)high[dtype];
}

bool mst_dtype_holds(muster_dtype dtype, const mst_graph_value *value) {
    mst_wide integer;
    if (mst_dtype_is_float(dtype)) return true;
    return mst_value_integer(value, &integer) && integer >= dtype_lowest(dtype) && integer <= dtype_highest(dtype);
}

const char *mst_value_text(const mst_graph_value *value, char text[MST_NUMBER_TEXT]) {
    mst_wide integer;
    const bool is_integer = fabs(value->number) <= 0x1p64 && mst_value_integer(value, &integer);
    if (is_integer && integer >= INT64_MIN && integer <= INT64_MAX)
        mst_snprintf(text, MST_NUMBER_TEXT, "%lld", (long long)integer);
    else if (is_integer && integer > 0 && integer <= UINT64_MAX)
        mst_snprintf(text, MST_NUMBER_TEXT, "%llu", (unsigned long long)integer);
    else
        mst_snprintf(text, MST_NUMBER_TEXT, "%.15g", value->number);
    return text;
}

muster_status mst_draft_holds(mst_draft *draft, int32_t attribute, muster_dtype dtype) {
    char text[MST_NUMBER_TEXT];
    if (mst_dtype_holds(dtype, &draft->values[attribute])) return MUSTER_OK;
    return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "%s: expected a number that %s holds, received %s",
                            draft->op->attributes[attribute].name, muster_dtype_name(dtype),
                            mst_value_text(&draft->values[attribute], text));
}

/* In halves, of which f64 holds each. */
muster_expr *mst_exact_number(mst_graph *graph, muster_dtype dtype, const mst_graph_value *value) {
    mst_wide integer;
    if (value->integer == 0 || mst_dtype_is_float(dtype) || !mst_value_integer(value, &integer))
        return mst_number(graph, dtype, value->number);
    const double low = (double)(integer & 0xffffffff), high = (double)(integer >> 32);
    return MST_APPLY(graph, add, MST_APPLY(graph, multiply, mst_number(graph, dtype, high), mst_number(graph, dtype, 0x1p32)),
                     mst_number(graph, dtype, low));
}

muster_expr *mst_number_cast(mst_graph *graph, muster_dtype dtype, const mst_graph_value *value) {
    mst_graph_value held = *value;
    mst_wide integer;
    if (mst_dtype_is_float(dtype) || mst_dtype_holds(dtype, value)) return mst_exact_number(graph, dtype, value);
    if (dtype == MUSTER_BOOL) return mst_number(graph, dtype, value->number != 0);
    if (isnan(value->number)) return mst_number(graph, dtype, 0);
    held.number = trunc(fmin(fmax(value->number, -0x1p65), 0x1p65));
    if (!mst_value_integer(&held, &integer)) integer = 0;
    if (integer < dtype_lowest(dtype)) integer = dtype_lowest(dtype);
    if (integer > dtype_highest(dtype)) integer = dtype_highest(dtype);
    held = mst_value_of_integer(integer);
    return mst_exact_number(graph, dtype, &held);
}

bool mst_integers_combine(int32_t op, const mst_graph_value *a, const mst_graph_value *b, mst_graph_value *result) {
    mst_wide x, y, made;
    const mst_wide most = (mst_wide)UINT64_MAX;
    if (!mst_value_integer(a, &x) || !mst_value_integer(b, &y)) return false;
    if (op == MST_OPERATOR_add)
        made = x + y;
    else if (op == MST_OPERATOR_subtract)
        made = x - y;
    else if (op != MST_OPERATOR_multiply || fabs(a->number * b->number) > 0x1p65)
        return false;
    else
        made = x * y;
    if (made > most || made < -most || (made == 0 && (signbit(a->number) || signbit(b->number)))) return false;
    *result = mst_value_of_integer(made);
    return true;
}

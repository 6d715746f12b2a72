/* The binary operations in double precision, for the oracles of tensors and of scalar operands. */
#ifndef PLAIN_BINARY_H
#define PLAIN_BINARY_H

#include "ops_oracle.h"

#include <math.h>

static bool binary_exists(muster_binary op, muster_dtype dtype) {
    const bool is_float = mst_dtype_is_float(dtype);
    if (dtype == MUSTER_BOOL) return false;
    if (op == MUSTER_POW || op == MUSTER_ATAN2 || op == MUSTER_HYPOT) return is_float;
    return op < MUSTER_BITWISE_AND || !is_float;
}

/* Draws an operation by chance, and a dtype that the operation takes. */
static muster_binary binary_draw(const mst_op_row *o, muster_dtype *dtype) {
    const muster_binary op = 1 + (muster_binary)ops_random(MUSTER_RIGHT_SHIFT);
    do *dtype = ops_random_dtype(o);
    while (!binary_exists(op, *dtype));
    return op;
}

/* floor(a / b) or trunc(a / b), and the remainder, in more bits than any dtype has. */
static double plain_division(muster_binary op, bool integer, double a, double b) {
    if (integer && b == 0) return 0;
    const long double quotient = (long double)a / b;
    if (op == MUSTER_FLOOR_DIVIDE) return (double)floorl(quotient);
    return (double)((long double)a - (op == MUSTER_FMOD ? truncl(quotient) : floorl(quotient)) * b);
}

static double plain_binary(muster_binary op, bool integer, double a, double b) {
    switch (op) {
    case MUSTER_ADD:
        return a + b;
    case MUSTER_SUB:
        return a - b;
    case MUSTER_MUL:
        return a * b;
    case MUSTER_DIV:
        return !integer ? a / b : b == 0 ? 0 : trunc(a / b);
    case MUSTER_POW:
        return pow(a, b);
    case MUSTER_FLOOR_DIVIDE:
    case MUSTER_REMAINDER:
    case MUSTER_FMOD:
        return plain_division(op, integer, a, b);
    case MUSTER_ATAN2:
        return (double)atan2l(a, b);
    case MUSTER_HYPOT:
        return (double)sqrtl((long double)a * a + (long double)b * b);
    case MUSTER_BITWISE_AND:
        return (double)((int64_t)a & (int64_t)b);
    case MUSTER_BITWISE_OR:
        return (double)((int64_t)a | (int64_t)b);
    case MUSTER_BITWISE_XOR:
        return (double)((int64_t)a ^ (int64_t)b);
    case MUSTER_LEFT_SHIFT:
        return b < 0 ? 0 : a * exp2(b); /* b is less than the bits of each dtype */
    case MUSTER_RIGHT_SHIFT:
        return b < 0 ? -(a < 0) : floor(a / exp2(b));
    case MUSTER_MAXIMUM:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

#endif

/* The binary operations in double precision, for the oracles of tensors and of scalar operands. */
#ifndef PLAIN_BINARY_H
#define PLAIN_BINARY_H

#include "ops_oracle.h"

#include <math.h>

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
    case MUSTER_MAXIMUM:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

#endif

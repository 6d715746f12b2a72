/* What the shim calls instead of the processor and the kernel. Defined in machine.c. */
#ifndef EXPLORE_OPERATION_H
#define EXPLORE_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    EXPLORE_LOAD = 1,
    EXPLORE_STORE,
    EXPLORE_ADD,
    EXPLORE_OR,
    EXPLORE_AND,
    EXPLORE_EXCHANGE,
    EXPLORE_COMPARE_EXCHANGE, /* result: what was there */
    EXPLORE_FUTEX_WAIT,       /* expected: of the word; value: the timeout in nanoseconds, negative: none */
    EXPLORE_FUTEX_WAKE,       /* value: how many sleepers to wake; result: how many were woken */
    EXPLORE_LOCK,             /* of a mutex, whose first word is 1 while it is held; not before it is free */
    EXPLORE_UNLOCK,
    EXPLORE_JOIN /* value: the thread */
} explore_kind;

/* order: an __ATOMIC_... number. value: stored, added ...; returns what was there before. */
uint64_t explore_operation(explore_kind kind, int order, void *address, size_t size, uint64_t value, uint64_t expected);
bool explore_compare_exchange(int order, void *address, size_t size, void *expected, uint64_t value);

#endif

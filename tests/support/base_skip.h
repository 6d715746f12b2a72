/* How a test says that it cannot run. tests/count.py compares that with tests/skips.txt. */
#ifndef BASE_SKIP_H
#define BASE_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Ends a case, which counts as skipped. It prints the name of the function, so use it in the
 * function of the case itself. */
#define SKIP(reason)                               \
    do {                                           \
        printf("SKIP %s: %s\n", __func__, reason); \
        fflush(stdout);                            \
        skip();                                    \
    } while (0)

/* The exit code of a program all of whose cases are skipped, for main to return. */
#define SKIP_SUITE(reason) (printf("SKIP suite: %s\n", reason), 77)

#endif

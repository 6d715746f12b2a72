/* What tests of functions share: every test runs once per kind of device. */
#ifndef FUNCTION_FIXTURE_H
#define FUNCTION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "muster/function.h"
#include "runtime_processes.h"

/* A silent runtime of `count` devices of `backend` ("host" or "discrete"). Fails the test if it
 * does not open. */
muster_runtime *fixture_open(const char *backend, int count);
/* The same with logical shards; 0: off. */
muster_runtime *fixture_open_shards(const char *backend, int count, int shards);
/* The same for this process alone, also where the test is several: to compare others with. */
muster_runtime *fixture_open_alone(const char *backend, int count);
void fixture_close(muster_runtime *runtime);

/* The status is OK, else the test fails with the message. */
#define assert_ok(expression) fixture_assert_ok(expression, #expression, __FILE__, __LINE__)
void fixture_assert_ok(muster_status status, const char *what, const char *file, int line);

/* The call fails with `code` and its message holds `part`. */
#define assert_refused(expression, code, part) fixture_assert_refused(expression, code, part, #expression, __FILE__, __LINE__)
void fixture_assert_refused(muster_status status, muster_status code, const char *part, const char *what, const char *file, int line);

/* Runs the body of a test for both kinds of devices. */
#define for_each_backend(name) for (const char *const *name##_at = fixture_backends, *name = *name##_at; name; name = *++name##_at)
extern const char *const fixture_backends[];

/* A small repeatable generator: value in [0, bound). */
uint32_t fixture_random(uint64_t *state, uint32_t bound);
uint64_t fixture_seed(void);             /* MUSTER_SEED, else fixed; printed once */
int fixture_rounds(int usual, int full); /* full with MUSTER_TEST_FULL */

#endif

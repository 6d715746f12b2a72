/* Tests that also run on GPUs: the environment's MUSTER_TEST_DEVICES=cuda asks for it. What they
 * see of the simulated machine, if it is one. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

bool on_gpus(void);

/* Fails the test if the machine has seen a broken rule since the last check or, where all is
 * closed, if anything is left in it. */
void machine_check(bool all_closed);

/* How often the function of a foreign library has been called; -1: the machine is not simulated. */
int64_t machine_calls(const char *symbol);

#endif

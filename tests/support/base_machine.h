/* Tests that also run on GPUs: the environment's MUSTER_TEST_DEVICES=cuda asks for it. What they
 * see of the simulated machine, if it is one. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdbool.h>

bool on_gpus(void);

/* Fails the test if the machine has seen a broken rule since the last check or, where all is
 * closed, if anything is left in it. */
void machine_check(bool all_closed);

#endif

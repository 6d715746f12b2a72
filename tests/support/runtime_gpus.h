/* Tests of runtimes on GPUs: where the environment has MUSTER_TEST_DEVICES=cuda, every runtime that
 * a test opens has other devices than the test names. "host:3" becomes three GPUs, "discrete:3"
 * three virtual devices of one GPU, and where a text names both, the host devices stay and the
 * discrete ones become GPUs. Whenever a runtime is closed, the simulated machine must have seen no
 * broken rule, and with the last one no leak. */
#ifndef RUNTIME_GPUS_H
#define RUNTIME_GPUS_H

#include "base_machine.h"

#endif

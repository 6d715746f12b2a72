/* ResNet-50 v1.5 with its training step, as samples/models/resnet50.c writes it, for counting the
 * instructions of making the graph and compiling it. */
#ifndef COUNT_RESNET50_H
#define COUNT_RESNET50_H

#include <muster/muster.h>

/* Makes and compiles it so many times. The variables are made once. Exits the process in case of an
 * error. */
void count_compile_resnet50(muster_runtime *runtime, long times);

/* Compiles it once, and trains it so many steps with one image of 64 x 64, which
 * callgrind runs in a minute and a half. */
void count_step_resnet50(muster_runtime *runtime, long times);

#endif

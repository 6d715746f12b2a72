/* Large layers on two devices: split and data parallel. */
#ifndef BENCH_LAYERS_H
#define BENCH_LAYERS_H

#include "muster_case.h"

/* Runs the row if it is asked for. false: something failed. */
bool bench_layers(const bench_options *options);

#endif

/* Runtimes of tests as several processes of a launch (collectives_processes.h): what a test opens
 * as "host:3" is, with two processes, two devices of the first and one of the second. */
#ifndef RUNTIME_PROCESSES_H
#define RUNTIME_PROCESSES_H

#include "collectives_processes.h"
#include "muster/runtime.h"

/* The options of this process; `text` becomes its devices. False: they stay as they are. */
enum { PROCESSES_TEXT = 256 };
bool processes_options(const muster_runtime_options *asked, muster_runtime_options *own, char text[PROCESSES_TEXT]);
/* processes_gather_ranks of a runtime's processes. */
void processes_gather_runtime(const muster_runtime *runtime, void *array, int64_t size);

#endif

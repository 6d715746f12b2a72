/* Runtimes of tests as several processes of a launch (collectives_processes.h): what a test opens
 * as "host:3" is, with two processes, two devices of the first and one of the second. */
#ifndef RUNTIME_PROCESSES_H
#define RUNTIME_PROCESSES_H

#include "collectives_processes.h"
#include "muster/runtime.h"

/* The options of this process; `text` becomes its devices. False: they stay as they are. */
enum { PROCESSES_TEXT = 256 };
bool processes_options(const muster_runtime_options *asked, muster_runtime_options *own, char text[PROCESSES_TEXT]);
/* The three below are calls of all processes of the runtime that was opened last; where that has
 * one, nothing happens. What the bodies of all processes have noted in memory that was 0 before and
 * of which each byte is written in one process: */
void processes_merge(void *memory, int64_t bytes);
/* This process's ranks. */
int32_t processes_own_ranks(void);
/* How often something was counted in all of them. */
int64_t processes_sum(int64_t own);
/* By runtime_gpus.c. */
void processes_opened(const muster_runtime *runtime);
void processes_closed(const muster_runtime *runtime);

#endif

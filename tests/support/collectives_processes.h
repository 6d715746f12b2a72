/* Test programs as several processes of a launch: where the environment has
 * MUSTER_TEST_PROCESSES=mpi and the launcher has started several, the devices that a test asks for
 * are shared out to all of them, so that the same program with the same expectations passes in
 * every process. A runtime or a pool of fewer devices than processes has each process for itself.
 * tests/mpi/suites.py starts the programs. */
#ifndef COLLECTIVES_PROCESSES_H
#define COLLECTIVES_PROCESSES_H

#include "nodes/nodes_impl.h"

#include <stdbool.h>

/* Has the environment MUSTER_TEST_PROCESSES? */
bool processes_launched(void);
/* The number of processes, and this one's; 1 and 0 without a launch. */
int32_t processes_count(void);
int32_t processes_own(void);
/* Of `devices` in order, those of this process: [*first, *first + *count), the first processes have
 * one more. False: they are fewer than processes, and stay with each. */
bool processes_share(int32_t devices, int32_t *first, int32_t *count);

/* What this process has done, for the line that it writes to the file MUSTER_TEST_PROCESSES_REPORT
 * when it exits, such as "process 1 of 2: 7 joint, 3 alone, 120 tasks, 64 rows of 131, 4711 bytes
 * sent, 8 devices". joint: runtimes and pools that other processes share; the rows are those that
 * this process has computed, of those of the calls of all; the devices are the most that one of
 * them was asked for. */
void processes_count_open(bool joint);
void processes_count_rows(int64_t computed, int64_t of_call);

/* The parts of all processes, each at its place: bytes[p] of every process, of which this one's are
 * there. Outside of calls, and in all processes. NULL nodes: nothing. */
void processes_gather(mst_nodes *nodes, void *buffer, const int64_t *bytes);
/* The same for an array of `size` bytes for each rank. */
void processes_gather_ranks(mst_nodes *nodes, void *array, int64_t size);

#endif

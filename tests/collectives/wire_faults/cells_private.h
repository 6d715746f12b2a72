/* What cells.c and cells_process.c share. */
#ifndef WIRE_FAULTS_CELLS_PRIVATE_H
#define WIRE_FAULTS_CELLS_PRIVATE_H

#include "cells.h"
#include "nodes/nodes_data_private.h"

enum { CELLS_MS = 1000000, CELLS_SCRATCH = 65536, CELLS_CODE = 3, CELLS_KEPT = 64 };

typedef struct cells_process {
    mst_nodes *nodes;
    mst_arrival arrival;
    mst_channel channels[CELL_CALLS];
    mst_schedule schedules[CELL_CALLS];
    char *memory;
    int32_t call, place, sleeps;
} cells_process;

/* The run in progress. */
typedef struct cells_state {
    cell_run *run;
    wire_launch *launch;
    mst_wire *wires[CELL_MOST];
    cells_process processes[CELL_MOST];
    void *kept[CELLS_KEPT]; /* what the wire may still have used */
    mst_nodes_data *data[CELL_MOST];
    int32_t kept_count, data_count;
} cells_state;
extern cells_state cells_now;

/* The process comes to a place; CELL_PLACES: it returns from the call. Here it may go wrong. */
void cells_come(int32_t process, int32_t call, int32_t place);
/* What a process does, in its fiber (cells_process.c). */
void cells_main(void *unused, int32_t process);

#endif

/* The collectives that the fault tests enter, as one rank sees them: between collectives_faults.c
 * and collectives_faults_kinds.c only. */
#ifndef COLLECTIVES_FAULTS_KINDS_H
#define COLLECTIVES_FAULTS_KINDS_H

#include "collectives_faults.h"

typedef struct faults_seat {
    muster_worker *worker;
    muster_communicator *communicator;
    faults_plan *plan;
    faults_call call;
    int32_t rank, size; /* in the communicator */
    bool at_fault;      /* this rank, in this step */
    muster_tensor input, output;
} faults_seat;

typedef struct faults_row {
    const char *name;
    int64_t (*inputs)(const faults_seat *), (*outputs)(const faults_seat *); /* elements; NULL: none */
    muster_status (*enter)(faults_seat *);
    double (*expected)(const faults_seat *, int64_t i); /* element i of the output */
    bool reduces, rooted;
} faults_row;

extern const faults_row faults_rows[FAULTS_KINDS];
/* Element i of a rank's input, and of a parameter before the collective. Small whole numbers, whose
 * sums and products are exact in every dtype used. */
double faults_value(const faults_seat *s, int32_t rank, int64_t i);
double faults_parameter(int64_t i);

#endif

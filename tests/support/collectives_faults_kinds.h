/* The collectives that the fault tests enter, as one rank sees them: between collectives_faults.c
 * and collectives_faults_kinds.c only. */
#ifndef COLLECTIVES_FAULTS_KINDS_H
#define COLLECTIVES_FAULTS_KINDS_H

#include "collectives_faults.h"

typedef struct faults_member {
    muster_worker *worker;
    muster_communicator *communicator;
    faults_plan *plan;
    faults_call call;
    int32_t rank, size; /* in the communicator */
    bool at_fault;      /* this rank, in this step */
    muster_tensor input, output;
} faults_member;

typedef struct faults_row {
    const char *name;
    int64_t (*inputs)(const faults_member *), (*outputs)(const faults_member *); /* elements; NULL: none */
    muster_status (*enter)(faults_member *);
    double (*expected)(const faults_member *, int64_t i); /* element i of the output */
    bool reduces, rooted;
} faults_row;

extern const faults_row faults_rows[FAULTS_KINDS];
/* Element i of a rank's input, and of a parameter before the collective. Small whole numbers, whose
 * sums and products are exact in every dtype used. */
double faults_value(const faults_member *s, int32_t rank, int64_t i);
double faults_parameter(int64_t i);

#endif

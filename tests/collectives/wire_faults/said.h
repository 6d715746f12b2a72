/* What processes say of a cell: the whole sentences, by the drawn rank, process and hosts. */
#ifndef WIRE_FAULTS_SAID_H
#define WIRE_FAULTS_SAID_H

#include "cells.h"

/* May the process say so of this call? OK says nothing. */
bool cells_said(const cell_run *run, int32_t process, int32_t call, const cell_note *note);
/* May it have logged what it has logged? */
bool cells_log_said(const cell_run *run, int32_t process);

#endif

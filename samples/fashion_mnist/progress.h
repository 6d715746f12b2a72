/* progress.h: the progress of a training: a bar that redraws itself on a terminal; elsewhere one
 * line every tenth of the training. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdint.h>
#include <stdio.h>

typedef struct progress {
    FILE *stream;
    int terminal;
    int64_t total, done;         /* numbers of samples */
    double started, drawn, loss; /* started and drawn in seconds; the smoothed loss */
    int tenths;
} progress;

/* Seconds on the monotonic clock. */
double progress_now(void);

void progress_start(progress *p, FILE *stream, int64_t total);
/* Reports that `samples` more samples have been trained on, with this mean loss. */
void progress_add(progress *p, int64_t samples, double loss);
/* Ends the line. Returns the samples per second since the start. */
double progress_finish(progress *p);

#endif

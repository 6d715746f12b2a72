/* progress.h: how far a training has come: a bar that redraws itself on a terminal, otherwise one
 * line every tenth. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdint.h>
#include <stdio.h>

typedef struct progress {
    FILE *stream;
    int terminal;
    int64_t total, done;         /* samples */
    double started, drawn, loss; /* seconds; the loss, smoothed */
    int tenths;
} progress;

/* Seconds on the monotonic clock. */
double progress_now(void);

void progress_start(progress *p, FILE *stream, int64_t total);
/* `samples` more have been trained on, with this mean loss. */
void progress_add(progress *p, int64_t samples, double loss);
/* Ends the line; samples per second since the start. */
double progress_finish(progress *p);

#endif

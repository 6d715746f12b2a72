#include "progress.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 40 };

double progress_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(progress *p, FILE *stream, int64_t total) {
    memset(p, 0, sizeof *p);
    p->stream = stream;
    p->terminal = isatty(fileno(stream));
    p->total = total;
    p->started = progress_now();
}

static double rate(const progress *p) {
    double seconds = progress_now() - p->started;
    return seconds > 0 ? (double)p->done / seconds : 0;
}

static void draw_bar(progress *p) {
    int filled = (int)(WIDTH * p->done / p->total);
    fprintf(p->stream, "\r[%.*s%*s] %3d %%  loss %.4f  %.0f samples/s ", filled, "########################################", WIDTH - filled,
            "", (int)(100 * p->done / p->total), p->loss, rate(p));
    fflush(p->stream);
    p->drawn = progress_now();
}

void progress_add(progress *p, int64_t samples, double loss) {
    p->loss = p->done ? 0.9 * p->loss + 0.1 * loss : loss;
    p->done += samples;
    int tenths = (int)(10 * p->done / p->total);
    if (p->terminal) {
        /* drawing at every step would slow down the training that it shows */
        if (progress_now() - p->drawn > 0.1 || p->done == p->total) draw_bar(p);
    } else if (tenths > p->tenths) {
        fprintf(p->stream, "%3d %%  loss %.4f  %.0f samples/s\n", 10 * tenths, p->loss, rate(p));
        fflush(p->stream);
    }
    p->tenths = tenths;
}

double progress_finish(progress *p) {
    double samples_per_second = rate(p);
    if (p->terminal && p->done) {
        draw_bar(p);
        fputc('\n', p->stream);
    }
    return samples_per_second;
}

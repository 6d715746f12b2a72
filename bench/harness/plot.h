/* A picture of curves over a logarithmic x axis, as plain SVG: panels side by side, each with its
 * own y axis that begins at 0. */
#ifndef BENCH_PLOT_H
#define BENCH_PLOT_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_CURVES = 8, BENCH_POINTS = 64 };

typedef struct bench_curve {
    const char *name; /* also decides the colour: the same name, the same colour in all panels */
    double x[BENCH_POINTS], y[BENCH_POINTS];
    int32_t count;
} bench_curve;

typedef struct bench_plot bench_plot;

/* NULL: no memory. Up to 64 panels. */
bench_plot *bench_plot_open(const char *title, const char *x_label, const char *y_label);
/* Copied, but for the names, which must last until close. false: no memory, or too many panels. */
bool bench_plot_panel(bench_plot *plot, const char *title, const bench_curve *curves, int32_t count);
/* Writes the file, unless `path` is NULL, and frees. false: it could not be written. */
bool bench_plot_close(bench_plot *plot, const char *path);

#endif

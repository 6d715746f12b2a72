#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PANELS = 64,
    COLUMNS = 2,
    WIDTH = 520,
    HEIGHT = 300,
    LEFT = 60,
    RIGHT = 15,
    TOP = 34,
    BOTTOM = 46,
    HEAD = 64,
    NAMES = 16,
    TITLE = 96
};

typedef struct panel {
    char title[TITLE];
    bench_curve curves[BENCH_CURVES];
    int32_t count;
    double least_x, most_x, most_y, step_y;
} panel;

struct bench_plot {
    char title[256];
    const char *x_label, *y_label;
    panel *panels[PANELS];
    int32_t count;
    const char *names[NAMES]; /* in the order in which they first came: their colours and the legend */
    int32_t name_count;
};

static const char *const colours[NAMES] = {"#1f5fbf", "#222222", "#d1542b", "#e2a13a", "#3f9b4f", "#8a4fbf", "#c2417f", "#4fb0b5",
                                           "#7a7a7a", "#a05a2c", "#5f7f1f", "#2f4f6f", "#bf8f8f", "#6fbf8f", "#9f9fdf", "#000000"};

static void text(FILE *file, const char *words) {
    for (; *words; words++) {
        if (*words == '<')
            fputs("&lt;", file);
        else if (*words == '>')
            fputs("&gt;", file);
        else if (*words == '&')
            fputs("&amp;", file);
        else if (*words == '"')
            fputs("&quot;", file);
        else if ((unsigned char)*words >= 0x20)
            fputc(*words, file);
    }
}

static void label(FILE *file, double x, double y, const char *anchor, const char *extra, const char *words) {
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, extra);
    text(file, words);
    fprintf(file, "</text>\n");
}

static void line(FILE *file, double x1, double y1, double x2, double y2, const char *colour) {
    fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour);
}

static int32_t number_of(bench_plot *plot, const char *name) {
    for (int32_t i = 0; i < plot->name_count; i++)
        if (strcmp(plot->names[i], name) == 0) return i;
    if (plot->name_count == NAMES) return NAMES - 1;
    plot->names[plot->name_count] = name;
    return plot->name_count++;
}

/* 1, 2 or 5 times a power of ten, four to eight of which reach `most`. */
static double nice_step(double most) {
    if (!(most > 0)) return 1;
    double power = pow(10, floor(log10(most / 4))), times = most / 4 / power;
    return power * (times >= 5 ? 5 : times >= 2 ? 2 : 1);
}

static void find_range(panel *p) {
    p->least_x = INFINITY;
    p->most_x = -INFINITY;
    double most = 0;
    for (int32_t c = 0; c < p->count; c++)
        for (int32_t i = 0; i < p->curves[c].count; i++) {
            double x = p->curves[c].x[i], y = p->curves[c].y[i];
            if (!(x > 0) || !isfinite(y)) continue;
            p->least_x = fmin(p->least_x, x);
            p->most_x = fmax(p->most_x, x);
            most = fmax(most, y);
        }
    if (!(p->least_x <= p->most_x)) p->least_x = p->most_x = 1;
    if (p->least_x == p->most_x) p->most_x *= 2;
    p->step_y = nice_step(most);
    p->most_y = p->step_y * fmax(1, ceil(most / p->step_y));
}

static double at_x(const panel *p, double x) {
    return LEFT + (WIDTH - LEFT - RIGHT) * (log2(x) - log2(p->least_x)) / (log2(p->most_x) - log2(p->least_x));
}

static double at_y(const panel *p, double y) { return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / p->most_y; }

static const char *size_name(char name[24], double bytes) {
    static const char *const units[] = {"", "K", "M", "G", "T"};
    int32_t unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
    snprintf(name, 24, "%.4g%s", bytes, units[unit]);
    return name;
}

static void axes(FILE *file, const bench_plot *plot, const panel *p) {
    char words[32];
    for (double y = 0; y <= p->most_y * 1.001; y += p->step_y) {
        line(file, LEFT, at_y(p, y), WIDTH - RIGHT, at_y(p, y), y > 0 ? "#dddddd" : "#444444");
        snprintf(words, sizeof words, "%.4g", y);
        label(file, LEFT - 6, at_y(p, y) + 4, "end", "", words);
    }
    double octaves = log2(p->most_x / p->least_x), step = fmax(1, ceil(octaves / 8));
    for (double octave = 0; octave <= octaves + 0.001; octave += step) {
        double x = p->least_x * pow(2, octave);
        line(file, at_x(p, x), HEIGHT - BOTTOM, at_x(p, x), HEIGHT - BOTTOM + 5, "#444444");
        label(file, at_x(p, x), HEIGHT - BOTTOM + 18, "middle", "", size_name(words, x));
    }
    label(file, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - BOTTOM + 36, "middle", "", plot->x_label);
    fprintf(file, "<g transform=\"translate(14 %d) rotate(-90)\">", (TOP + HEIGHT - BOTTOM) / 2);
    label(file, 0, 0, "middle", "", plot->y_label);
    fprintf(file, "</g>\n");
    label(file, LEFT, TOP - 12, "start", " font-weight=\"bold\"", p->title);
}

static void curve(FILE *file, const panel *p, const bench_curve *c, const char *colour) {
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int32_t i = 0; i < c->count; i++)
        if (c->x[i] > 0 && isfinite(c->y[i])) fprintf(file, "%.1f,%.1f ", at_x(p, c->x[i]), at_y(p, c->y[i]));
    fprintf(file, "\"/>\n");
    for (int32_t i = 0; i < c->count; i++)
        if (c->x[i] > 0 && isfinite(c->y[i]))
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n", at_x(p, c->x[i]), at_y(p, c->y[i]), colour);
}

static void legend(FILE *file, const bench_plot *plot) {
    for (int32_t i = 0; i < plot->name_count; i++) {
        double x = LEFT + 190 * i, y = HEAD - 14;
        fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"24\" height=\"3\" fill=\"%s\"/>\n", x, y - 6, colours[i]);
        label(file, x + 30, y, "start", "", plot->names[i]);
    }
}

static void draw(FILE *file, bench_plot *plot) {
    int32_t rows = (plot->count + COLUMNS - 1) / COLUMNS, width = COLUMNS * WIDTH;
    if (LEFT + 190 * plot->name_count > width) width = LEFT + 190 * plot->name_count;
    fprintf(file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ",
            width, HEAD + rows * HEIGHT);
    fprintf(file, "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    label(file, LEFT, 24, "start", " font-size=\"16\" font-weight=\"bold\"", plot->title);
    legend(file, plot);
    for (int32_t i = 0; i < plot->count; i++) {
        const panel *p = plot->panels[i];
        fprintf(file, "<g transform=\"translate(%d %d)\">\n", i % COLUMNS * WIDTH, HEAD + i / COLUMNS * HEIGHT);
        axes(file, plot, p);
        for (int32_t c = 0; c < p->count; c++)
            if (p->curves[c].count > 0) curve(file, p, &p->curves[c], colours[number_of(plot, p->curves[c].name)]);
        fprintf(file, "</g>\n");
    }
    fprintf(file, "</svg>\n");
}

bench_plot *bench_plot_open(const char *title, const char *x_label, const char *y_label) {
    bench_plot *plot = calloc(1, sizeof *plot);
    if (!plot) return NULL;
    snprintf(plot->title, sizeof plot->title, "%s", title);
    plot->x_label = x_label;
    plot->y_label = y_label;
    return plot;
}

bool bench_plot_panel(bench_plot *plot, const char *title, const bench_curve *curves, int32_t count) {
    panel *p = plot->count < PANELS ? calloc(1, sizeof *p) : NULL;
    if (!p) return false;
    snprintf(p->title, sizeof p->title, "%s", title);
    p->count = count < BENCH_CURVES ? count : BENCH_CURVES;
    memcpy(p->curves, curves, (size_t)p->count * sizeof *curves);
    for (int32_t c = 0; c < p->count; c++)
        if (curves[c].count > 0) number_of(plot, curves[c].name);
    find_range(p);
    plot->panels[plot->count++] = p;
    return true;
}

bool bench_plot_close(bench_plot *plot, const char *path) {
    if (!plot) return true;
    FILE *file = path ? fopen(path, "w") : NULL;
    bool ok = !path || file;
    if (file) {
        draw(file, plot);
        ok = !ferror(file);
        ok = fclose(file) == 0 && ok;
    }
    for (int32_t i = 0; i < plot->count; i++) free(plot->panels[i]);
    free(plot);
    return ok;
}

#include "collectives_wire.h"

#include <math.h>

double wire_rounded(muster_dtype dtype, double x) {
    const int digits = dtype == MUSTER_F16 ? 11 : dtype == MUSTER_BF16 ? 8 : 24, least = dtype == MUSTER_F16 ? -14 : -126;
    const double most = dtype == MUSTER_F16 ? 65504 : ldexp(2 - ldexp(1, 1 - digits), 127);
    if (x == 0 || !isfinite(x)) return x;
    int exponent = ilogb(x);
    if (exponent < least) exponent = least;
    const double unit = ldexp(1, exponent - digits + 1), rounded = nearbyint(x / unit) * unit;
    return fabs(rounded) > most ? copysign(INFINITY, x) : rounded;
}

/* The library adds in f32: a scaled value is not rounded before it is added. */
static double add(double sum, double scale, double value, bool first) {
    return wire_rounded(MUSTER_F32, first ? scale * value : sum + scale * value);
}

static double weight_of(const wire_element *e, int32_t first, int32_t count) {
    double sum = 0;
    for (int32_t r = first; r < first + count; r++) sum += e->weighted ? e->weights[r] : 1;
    return sum;
}

static int32_t total_of(const wire_element *e) {
    int32_t total = 0;
    for (int32_t p = 0; p < e->processes; p++) total += e->each[p];
    return total;
}

/* A value of a rank, with its part of `all`, the weights of its process or of all ranks. With
 * weights each product is a value of its own; what has no weight does not count, whatever it is. */
static double value_of(const wire_element *e, int32_t rank, double all) {
    if (!e->weighted) return e->values[rank];
    return e->weights[rank] == 0 ? 0 : wire_rounded(MUSTER_F32, e->weights[rank] / all * e->values[rank]);
}

/* What a process makes of its ranks: their sum, or their part of the average of `all`. */
static double own_of(const wire_element *e, int32_t first, int32_t count, double all) {
    double sum = 0;
    for (int32_t r = first; r < first + count; r++) sum = add(sum, e->average ? 1 / all : 1, value_of(e, r, all), r == first);
    return sum;
}

/* With a wire dtype a process makes its own average, which then has the weight of the process. */
static bool has_own(const wire_element *e) { return e->wire != MUSTER_F32 && (e->average || e->weighted); }

/* Where the values of every rank travel, all of them are added up in rank order. */
static double apart(const wire_element *e) {
    const double all = weight_of(e, 0, total_of(e));
    double sum = 0;
    for (int32_t p = 0, r = 0; p < e->processes; p++) {
        const double process = weight_of(e, r, e->each[p]);
        for (int32_t last = r + e->each[p]; r < last; r++) {
            const double value = value_of(e, r, has_own(e) ? process : all),
                         rounded = e->wire == MUSTER_F32 ? value : wire_rounded(e->wire, value);
            const double scale = e->average ? 1 / all : has_own(e) ? process / all : 1;
            sum = add(sum, scale, rounded, r == 0);
        }
    }
    return sum;
}

static double together(const wire_element *e) {
    const double all = weight_of(e, 0, total_of(e));
    double sum = 0;
    for (int32_t p = 0, r = 0; p < e->processes; r += e->each[p++]) {
        const double process = weight_of(e, r, e->each[p]);
        const double own = wire_rounded(e->wire, own_of(e, r, e->each[p], has_own(e) ? process : all));
        sum = add(sum, has_own(e) ? process / all : 1, own, p == 0);
    }
    return sum;
}

double wire_result(const wire_element *e) { return wire_rounded(e->dtype, wire_rounded(e->wire, e->apart ? apart(e) : together(e))); }

/* A process multiplies its sum, before it is rounded, by what makes it that of all. */
double wire_gradient(const wire_element *e) {
    const int32_t total = total_of(e);
    double sum = 0;
    for (int32_t p = 0, r = 0; p < e->processes; r += e->each[p++]) {
        const double part = (double)e->each[p] / total, own = own_of(e, r, e->each[p], 1);
        sum = add(sum, part, wire_rounded(e->wire, part < 1 ? wire_rounded(MUSTER_F32, 1 / part * own) : own), p == 0);
    }
    return wire_rounded(e->dtype, sum);
}

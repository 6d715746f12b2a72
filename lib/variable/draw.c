/* Draws the elements of an initial value by their indices. */
#include "dtype_impl.h"
#include "initialise_private.h"
#include "ops_impl.h"

#include <math.h>

enum { CHUNK = 512 };

static double polynomial(const double coefficients[8], double x) {
    double y = coefficients[7];
    for (int i = 6; i >= 0; i--) y = y * x + coefficients[i];
    return y;
}

/* The number below which a standard normal number lies with probability p, to 16 digits: algorithm
 * AS 241 (Wichura, Applied Statistics 37, 1988), without its part for probabilities below e^-25. */
static double normal_quantile(double p) {
    static const double a[8] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
                                4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3};
    static const double b[8] = {1,
                                4.2313330701600911252e1,
                                6.8718700749205790830e2,
                                5.3941960214247511077e3,
                                2.1213794301586595867e4,
                                3.9307895800092710610e4,
                                2.8729085735721942674e4,
                                5.2264952788528545610e3};
    static const double c[8] = {1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    const double q = p - .5;
    if (fabs(q) <= .425) return q * polynomial(a, .180625 - q * q) / polynomial(b, .180625 - q * q);
    const double r = sqrt(-log(q < 0 ? p : 1 - p)) - 1.6;
    return copysign(polynomial(c, r) / polynomial(d, r), q);
}

/* The value for the uniform number u. */
static double of_uniform(const mst_draw *draw, double u) {
    const double below = 0.022750131948179207; /* of a standard normal number: the probability of less than -2 */
    if (draw->kind == MST_DRAW_UNIFORM) return draw->a + (draw->b - draw->a) * u;
    return draw->a + draw->b * normal_quantile(below + u * (1 - 2 * below));
}

static void fill_f64(const mst_draw *draw, int64_t first, int64_t count, double *to) {
    const bool normal = draw->kind == MST_DRAW_NORMAL;
    mst_random_numbers(draw->seed, (uint64_t)first, normal, draw->a, draw->b, muster_f64(to, count));
    for (int64_t i = 0; !normal && i < count; i++) to[i] = of_uniform(draw, to[i]);
}

static void fill_f32(const mst_draw *draw, int64_t first, int64_t count, float *to) {
    const bool normal = draw->kind == MST_DRAW_NORMAL;
    mst_random_numbers(draw->seed, (uint64_t)first, normal, draw->a, draw->b, muster_f32(to, count));
    for (int64_t i = 0; !normal && i < count; i++) to[i] = (float)of_uniform(draw, (double)to[i]);
}

void mst_draw_fill(const mst_draw *draw, int64_t first, int64_t count, void *to) {
    const int64_t bytes = muster_dtype_size(draw->dtype);
    double constant[CHUNK];
    float numbers[CHUNK];
    for (int i = 0; draw->kind == MST_DRAW_CONSTANT && i < CHUNK; i++) constant[i] = draw->a;
    for (int64_t i = 0; i < count; i += CHUNK) {
        const int64_t n = count - i < CHUNK ? count - i : CHUNK;
        char *at = (char *)to + i * bytes;
        if (draw->kind == MST_DRAW_CONSTANT || draw->kind == MST_DRAW_TABLE) {
            mst_convert(draw->dtype, at, MUSTER_F64, draw->table ? draw->table + first + i : constant, n);
        } else if (draw->dtype == MUSTER_F64) {
            fill_f64(draw, first + i, n, (double *)(void *)at);
        } else {
            fill_f32(draw, first + i, n, draw->dtype == MUSTER_F32 ? (float *)(void *)at : numbers);
            if (draw->dtype != MUSTER_F32) mst_convert(draw->dtype, at, MUSTER_F32, numbers, n);
        }
    }
}

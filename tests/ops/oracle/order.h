/* What the oracles of sort, argsort and top_k share: the place of each element of a row is the
 * number of elements that come before it. The including file defines DESCENDING. */
#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

/* Does a come before b, whatever their indices? NaN counts as the largest. */
static bool comes_before(double a, double b) {
    if (isnan(a) || isnan(b)) return DESCENDING ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
    return DESCENDING ? a > b : a < b;
}

static int64_t places_of_row[ORACLE_MOST];

/* places_of_row[r] = the index of the element in place r of row i. */
static void order_row(const ops_pair *x, int64_t i, int64_t length) {
    for (int64_t j = 0; j < length; j++) {
        int64_t place = 0;
        const double value = ops_at(x, i, j);
        for (int64_t l = 0; l < length; l++) {
            const double other = ops_at(x, i, l);
            place += comes_before(other, value) || (l < j && !comes_before(value, other));
        }
        places_of_row[place] = j;
    }
}

/* The first `wanted` of each row: the values, or the places. */
static void plain_order(const ops_pair *x, int64_t wanted, bool places) {
    for (int64_t i = 0; i < x->host.shape[0]; i++) {
        order_row(x, i, x->host.shape[1]);
        for (int64_t r = 0; r < wanted; r++)
            ops_results[i * wanted + r] = places ? (double)places_of_row[r] : ops_at(x, i, places_of_row[r]);
    }
}

/* Some NaN, infinities and zeros of either sign among the numbers. */
static void put_specials(muster_worker *w, const ops_pair *x) {
    static const double specials[] = {NAN, INFINITY, -INFINITY, 0, -0.0};
    for (int64_t i = 0; i < x->host_storage.shape[0] && mst_dtype_is_float(x->host.dtype); i++)
        if (ops_random(6) == 0) mst_convert(x->host.dtype, ops_place_of(x->host_storage, &i), MUSTER_F64, &specials[ops_random(5)], 1);
    ops_send(w, x);
}

/* On both sides of a run of 16, and of two, four and eight runs. */
static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

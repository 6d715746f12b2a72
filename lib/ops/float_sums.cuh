/* Sums of f32 to about the accuracy of double, without f64 for each element: GPUs for graphics
 * compute f64 at 1/64 of the rate of f32, and conversions to it as slowly. */
#ifndef MST_FLOAT_SUMS_CUH
#define MST_FLOAT_SUMS_CUH

#include "mst_device.cuh"

/* So many terms are summed in f32 before one addition in double. The sums of errors stay so short
 * that their own roundings are below 2^-40 of the sum of the magnitudes. */
enum { MST_SUM_GROUP = 8 };

/* `sum` is the rounded sum, `errors` the sum of what the roundings lost. */
struct mst_float_sum {
    float sum, errors;
    inline mst_float_sum() : sum(0), errors(0) {}
    /* Knuth's TwoSum (The Art of Computer Programming, volume 2, 4.2.2): the new sum and its error
     * together are exact. */
    inline void add(float term) {
        float next = sum + term, added = next - sum;
        errors += (sum - (next - added)) + (term - added);
        sum = next;
    }
    /* The product of two f32 and its rounding error together are exact. */
    inline void add_product(float a, float b) {
        float product = a * b;
        add(product);
        errors += fmaf(a, b, -product);
    }
    /* False where a term is not finite, or f32 does not hold a sum: then it has to be computed in
     * double. */
    inline bool holds() const {
        float all = sum + errors;
        return all - all == 0;
    }
    /* The same of products: those below 2^-126, and the errors of those below 2^-102, are rounded
     * to multiples of 2^-149, the smallest f32. Beside a sum of 2^-100 that is nothing. */
    inline bool holds_products() const {
        float all = sum + errors;
        return all - all == 0 && (all > 0x1p-100f || all < -0x1p-100f);
    }
    inline double value() const { return (double)sum + (double)errors; }
};

#endif

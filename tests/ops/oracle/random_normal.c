#include "ops_oracle.h"

#include "base_check.h"

#include <math.h>

/* Number `number` of the stream, by the definition in muster/ops.h. */
static double uniform(uint64_t seed, muster_dtype dtype, uint64_t number) {
    const uint64_t block = dtype == MUSTER_F32 ? number / 4 : number / 2;
    uint32_t out[4];
    muster_philox4x32((const uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), 0, 0},
                      (const uint32_t[]){(uint32_t)seed, (uint32_t)(seed >> 32)}, out);
    if (dtype == MUSTER_F32) return ldexp((double)(out[number % 4] >> 8), -24);
    const uint32_t *lanes = out + 2 * (number % 2);
    return ldexp((double)(((uint64_t)lanes[1] << 32 | lanes[0]) >> 11), -53);
}

/* Box-Muller, mean 1 and deviation 2. */
static double plain(uint64_t seed, muster_dtype dtype, uint64_t number) {
    const double u = uniform(seed, dtype, number & ~(uint64_t)1), v = uniform(seed, dtype, number | 1);
    const double radius = sqrt(-2 * log(1 - u)), angle = 2 * M_PI * v;
    return 1 + 2 * radius * (number % 2 ? sin(angle) : cos(angle));
}

static void draw(muster_worker *w, const mst_op_row *o) {
    const uint64_t seed = (uint64_t)ops_random(1 << 30) << 20, first = (uint64_t)ops_random(1000);
    muster_dtype dtype = ops_random_dtype(o);
    ops_pair y = ops_output(w, dtype, ops_random_shape());
    for (int64_t i = 0; i < muster_tensor_count(y.host); i++) ops_results[i] = plain(seed, dtype, first + (uint64_t)i);
    assert_ok(ops_apply(w, o, VALUES({.integer = (int64_t)seed}, {.integer = (int64_t)first}, {.number = 1}, {.number = 2}), PAIRS(&y)));
    ops_check(w, o, &y, ops_results);
}

const ops_oracle ops_oracle_random_normal = {.draw = draw, .values = {{.integer = 1}, {.integer = 0}, {.number = 0}, {.number = 1}}};

/* Reductions of variables over several processes with a wire dtype: what f16 cannot tell from the
 * mean is the mean, what it cannot hold is infinite, and f64 is not rounded. */
#include "collectives_wire.h"
#include "muster/variable.h"
#include "runtime_launch.h"

#include <math.h>
#include <string.h>

typedef struct layout {
    int32_t processes;
    int32_t devices[LAUNCH_PROCESSES];
} layout;
static const layout layouts[] = {{2, {1, 1}}, {2, {2, 1}}, {2, {1, 3}}, {3, {1, 2, 1}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, COUNT = 12, MOST = 4 };

typedef enum { SUM, AVERAGE, WEIGHTED, REDUCED, WAYS } way;
static const double weights[MOST] = {0.5, 0, 3, 1.25};
static struct {
    const layout *layout;
    muster_dtype dtype;
    way way;
    _Atomic int32_t compared;
} now;

static double value_of(int32_t rank, int64_t i) {
    const double values[COUNT] = {40000,       6e-8,       1.0004, -3.3333, 65504,   1e-3 * (rank + 1),
                                  2049 + rank, 0.1 * rank, -7,     5e-6,    123.456, 30000};
    return wire_rounded(MUSTER_F32, values[i]);
}

static double expected_at(int64_t i) {
    wire_element e = {.processes = now.layout->processes,
                      .dtype = now.dtype == MUSTER_F64 ? MUSTER_F32 : now.dtype,
                      .wire = MUSTER_F16,
                      .average = now.way == AVERAGE || now.way == REDUCED,
                      .weighted = now.way == WEIGHTED};
    int32_t rank = 0;
    for (int32_t p = 0; p < e.processes; p++)
        for (e.each[p] = 0; e.each[p] < now.layout->devices[p]; e.each[p]++, rank++) {
            e.values[rank] = wire_rounded(e.dtype, value_of(rank, i));
            e.weights[rank] = weights[rank];
        }
    return wire_result(&e);
}

static muster_status combine(muster_variable *v, int32_t size) {
    switch (now.way) {
    case SUM:
        return muster_variables_all_reduce(&v, 1, MUSTER_SUM);
    case AVERAGE:
        return muster_variables_all_reduce(&v, 1, MUSTER_AVG);
    case WEIGHTED:
        return muster_variables_all_reduce_weighted(&v, 1, weights, size);
    default:
        return muster_variables_reduce_at(&v, 1, MUSTER_AVG, 1);
    }
}

static void reduce(launch_process *p) {
    char devices[16];
    muster_runtime *runtime;
    muster_variable *v;
    float start[COUNT], all[MOST][COUNT];
    double wide[COUNT];
    snprintf(devices, sizeof devices, "host:%d", (int)now.layout->devices[p->process]);
    muster_runtime_options options = launch_options(devices);
    options.wire_dtype = MUSTER_F16;
    launch_ok(p, muster_runtime_open(&options, &runtime));
    const int32_t size = muster_runtime_size(runtime);
    const bool is_wide = now.dtype == MUSTER_F64;
    for (int64_t i = 0; i < COUNT; i++) wide[i] = start[i] = (float)value_of(0, i);
    launch_ok(p, muster_variable_create(runtime, "v", is_wide ? muster_f64(wide, COUNT) : muster_f32(start, COUNT), &v));
    for (int32_t r = 0; r < size; r++) {
        for (int64_t i = 0; i < COUNT; i++) wide[i] = all[r][i] = (float)value_of(r, i);
        launch_ok(p, muster_variable_set(v, r, is_wide ? muster_f64(wide, COUNT) : muster_f32(all[r], COUNT)));
    }
    launch_ok(p, combine(v, size));
    for (int32_t r = now.way == REDUCED ? 1 : 0; r < (now.way == REDUCED ? 2 : size); r++) {
        launch_ok(p, muster_variable_get(v, r, is_wide ? muster_f64(wide, COUNT) : muster_f32(start, COUNT)));
        for (int64_t i = 0; i < COUNT; i++) {
            const double expected = expected_at(i), received = is_wide ? wide[i] : (double)start[i];
            /* f64 is not what a half would be, where that is rounded */
            if (is_wide ? i == 2 && received == expected : received != expected)
                launch_fail(p, "way %d, rank %d, element %lld: %.9g as with f16, received %.9g", (int)now.way, (int)r, (long long)i,
                            expected, received);
        }
    }
    launch_ok(p, muster_runtime_close(runtime));
    now.compared++;
}

static void test_variables_are_reduced_by_way_of_halves(void **state) {
    int32_t expected = 0;
    (void)state;
    for (int32_t l = 0; l < LAYOUTS; l++)
        for (now.way = SUM; now.way < WAYS; now.way++)
            for (int32_t w = 0; w < 2; w++) {
                now.layout = &layouts[l];
                now.dtype = w ? MUSTER_F64 : MUSTER_F32;
                launch_run(&(wire_launch_options){.processes = layouts[l].processes}, reduce, NULL);
                expected += layouts[l].processes;
            }
    assert_int_equal(now.compared, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variables_are_reduced_by_way_of_halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

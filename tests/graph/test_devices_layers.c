/* neon's cases of layers on several devices: the parameters after ten steps of training are those
 * of one device, with sizes that the number of devices divides and with those that it does not,
 * with layers whose parameters are split over the devices and without. */
#include "base_machine.h"
#include "base_pairs.h"
#include "base_seed.h"
#include "graph_invariance.h"

enum { STEPS = 10, COUNTS = 3, ALL_COUNTS = 7 };

/* The largest layers are split along their outputs; what follows, along its inputs. */
static void split_layers(muster_graph *graph, muster_expr *const *x, int32_t count, const invariance_case *its) {
    (void)graph, (void)its, (void)count;
    assert_ok(muster_graph_split(x[2], 1));
    assert_ok(muster_graph_split(x[3], 0));
    assert_ok(muster_graph_split(x[4], 0));
}

#define LAYERS(title, nin, hidden, nout, how)                                                                           \
    {                                                                                                                   \
        .name = (title), .inputs = {{.name = "x", SHAPE_OF(ROWS, nin)}, {.name = "t", .kind = LABELS, SHAPE_OF(ROWS)}}, \
        .variables = {{.name = "w1", SHAPE_OF(nin, hidden)},                                                            \
                      {.name = "b1", SHAPE_OF(hidden)},                                                                 \
                      {.name = "w2", SHAPE_OF(hidden, nout)},                                                           \
                      {.name = "b2", SHAPE_OF(nout)}},                                                                  \
        .let = "tanh(x @ w1 + b1) @ w2 * 0.25 + b2", .loss = "mean(cross_entropy(it, t))",                              \
        .outputs = {{"loss", "mean(cross_entropy(it, t))"}, {"z", "it"}}, .build = (how),                               \
    }
static const struct {
    invariance_case its;
    int64_t rows;
} cases[] = {
    {LAYERS("even layers", 16, 24, 8, NULL), 64},         {LAYERS("ten outputs", 16, 24, 10, NULL), 64},
    {LAYERS("a batch of 130", 16, 24, 8, NULL), 130},     {LAYERS("layers of 6, 200 and 20", 6, 200, 20, NULL), 64},
    {LAYERS("even split", 16, 24, 8, split_layers), 64},  {LAYERS("ten outputs, split", 16, 10, 10, split_layers), 64},
    {LAYERS("130, split", 16, 24, 8, split_layers), 130}, {LAYERS("6, 200 and 20, split", 6, 202, 20, split_layers), 64},
};
enum { CASES = sizeof cases / sizeof *cases };

static void layers_train_as_on_one_device(void **state) {
    static const char *const machines[ALL_COUNTS] = {"host:2", "host:4", "host:8", "host:3", "host:5", "host:6", "host:7"};
    static const int32_t extents[] = {CASES, 2, COUNTS};
    const int32_t counts = test_is_full() ? ALL_COUNTS : COUNTS, steps = on_gpus() && !test_is_full() ? 3 : STEPS;
    int32_t compared = 0, drawn;
    (void)state;
    pairs_case *sample = pairs_draw(extents, 3, test_seed(), NULL, &drawn);
    for (int32_t c = 0; c < CASES; c++)
        for (int32_t wide = 0; wide < 2; wide++) {
            int64_t rows[STEPS];
            for (int32_t i = 0; i < STEPS; i++) rows[i] = cases[c].rows;
            const invariance_way way = {.dtype = wide ? MUSTER_F64 : MUSTER_F32, .rows = rows, .calls = steps};
            invariance_values expected, values;
            invariance_run(devices_open("host:1"), &cases[c].its, &way, &expected);
            if (*expected.message) fail_msg("%s: %s", cases[c].its.name, expected.message);
            for (int32_t m = 0; m < counts; m++) {
                if (!test_is_full() && !pairs_has(sample, drawn, 3, (const int32_t[]){c, wide, m})) continue;
                if (!test_is_full() && on_gpus() && m == 1) continue; /* 2 and 8 */
                compared++;
                invariance_run(devices_open(machines[m]), &cases[c].its, &way, &values);
                const double distance = invariance_distance(&expected, &values);
                if (!(distance <= (wide ? 1e-11 : 1e-5)))
                    fail_msg("%s on %s: differs by %g from one device %s", cases[c].its.name, machines[m], distance, values.message);
                invariance_free(&values);
            }
            invariance_free(&expected);
        }
    free(sample);
    assert_in_range(compared, test_is_full() ? CASES * 2 * counts : 2 * CASES, CASES * 2 * counts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_train_as_on_one_device)};
    return cmocka_run_group_tests(tests, NULL, devices_close);
}

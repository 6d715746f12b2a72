/* The fixed list of graphs and random graphs in runtimes with logical shards: every number of
 * devices that divides the number of shards gives the bits of one device with as many shards, and
 * all of them the values of one device without shards, nearly. */
#include "base_machine.h"
#include "base_seed.h"
#include "graph_invariance.h"

#include <math.h>

static const int64_t changing[] = {7, 1, 64, 3, 64, 7}, with_none[] = {4, 0, 9, 0};

/* The first devices of a set are the oracle of the others. */
enum { MOST_OF_SET = 3 };
typedef struct shard_set {
    int32_t shards;
    const char *first, *others[MOST_OF_SET + 1];
} shard_set;
static const shard_set sets[] = {
    {8, "host:1", {"host:2", "host:4", "host:8"}},
    {6, "host:1", {"host:2", "host:3", "host:6"}},
    {8, "discrete:1", {"discrete:2", "discrete:4"}},
};
enum { SETS = sizeof sets / sizeof *sets };
/* On GPUs up to four of them: the machine of the tests has eight, and shares two cores. */
static bool is_left_out(const char *devices) { return on_gpus() && (strcmp(devices, "host:8") == 0 || strcmp(devices, "host:6") == 0); }

/* Nothing that a call scatters says which rows belong to which shard: refused. */
static bool has_rows_of_variables_alone(const invariance_case *its) {
    for (int32_t i = 0; its->inputs[i].name; i++)
        if (!its->inputs[i].broadcast) return false;
    for (int32_t v = 0; its->variables[v].name; v++)
        if (its->variables[v].shape[0] == ROWS) return true;
    return false;
}

static double plain_distance(const invariance_case *its, const invariance_values *plain, const invariance_values *sharded) {
    if (!has_rows_of_variables_alone(its)) return invariance_distance(plain, sharded);
    return strstr(sharded->message, "nothing that it scatters says which rows are whose") ? 0 : (double)INFINITY;
}

/* Compares the devices of the set; returns how many were compared with the first ones. */
static int32_t set_compare(const shard_set *set, const invariance_case *its, const invariance_way *way) {
    invariance_values plain, expected, values;
    const double tolerance = its->exact ? 0 : way->dtype == MUSTER_F64 ? 1e-11 : 1e-5;
    int32_t compared = 0;
    invariance_run(devices_open("host:1"), its, way, &plain);
    invariance_run(devices_open_shards(set->first, set->shards), its, way, &expected);
    const double distance = plain_distance(its, &plain, &expected);
    if (!(distance <= tolerance))
        fail_msg("%s, seed %llu, %s: %d shards differ by %g from none (\"%s\", \"%s\")", its->name, (unsigned long long)its->seed,
                 muster_dtype_name(way->dtype), (int)set->shards, distance, plain.message, expected.message);
    for (const char *const *devices = set->others; *devices; devices++) {
        if (is_left_out(*devices)) continue;
        invariance_run(devices_open_shards(*devices, set->shards), its, way, &values);
        if (invariance_distance(&expected, &values) != 0)
            fail_msg("%s, seed %llu, %s, %d shards: %s differs by %g from the bits of %s (\"%s\", \"%s\")", its->name,
                     (unsigned long long)its->seed, muster_dtype_name(way->dtype), (int)set->shards, *devices,
                     invariance_distance(&expected, &values), set->first, expected.message, values.message);
        invariance_free(&values);
        compared++;
    }
    invariance_free(&plain);
    invariance_free(&expected);
    return compared;
}

static int32_t set_size(const shard_set *set) {
    int32_t count = 0;
    for (const char *const *devices = set->others; *devices; devices++) count += !is_left_out(*devices);
    return count;
}

#if defined(MUSTER_TEST_SANITIZED)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif

/* One of so many combinations is run where not all are asked for. */
static int32_t sample_stride(int32_t usual, int32_t slow) {
    return test_is_full() ? 1 : on_gpus() ? slow : (int32_t)test_one_in(usual, slow, 2 * slow);
}

/* ---- the fixed list ---- */

static const invariance_way ways[] = {
    {.rows = changing},
    {.rows = with_none},
    {.rows = changing, .selection = MUSTER_SELECT_RANGE},
    {.rows = changing, .selection = MUSTER_SELECT_LIST},
    {.rows = changing, .selection = MUSTER_SELECT_LIST, .minibatch = true},
    {.rows = changing, .asynchronous = true},
    {.rows = changing, .unwanted = ~1u},
    {.rows = changing, .unwanted = 1},
    {.rows = changing, .unshared = true},
    {.rows = changing, .unfused = true},
    {.rows = changing, .unsimplified = true},
    {.rows = changing, .checked = true},
    {.rows = changing, .expected_rows = 1},
    {.rows = changing, .expected_rows = 1000000},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void a_list_of_graphs_has_the_bits_of_one_device(void **state) {
    const int32_t stride = sample_stride(8, 32);
    int32_t compared = 0, all = 0, turn = (int32_t)(test_seed() % 1000);
    (void)state;
    for (int32_t s = 0; s < SETS; s++) all += 2 * WAYS * invariance_case_count * set_size(&sets[s]);
    for (int32_t c = 0; c < invariance_case_count; c++)
        for (int32_t w = 0; w < WAYS; w++)
            for (int32_t s = 0; s < SETS; s++)
                for (int32_t wide = 0; wide < 2; wide++) {
                    /* each way, set and dtype meets many cases */
                    if ((turn++ + c) % stride) continue;
                    invariance_way way = ways[w];
                    way.dtype = wide ? MUSTER_F64 : MUSTER_F32;
                    way.calls = way.rows == with_none ? 4 : on_gpus() ? 3 : 6;
                    compared += set_compare(&sets[s], &invariance_cases[c], &way);
                }
    /* the sample has each set about as often */
    assert_in_range(compared, all / stride * 9 / 10, stride == 1 ? all : all / stride * 11 / 10 + 1);
}

/* ---- random graphs ---- */

enum { GRAPHS = 40, SLOW_GRAPHS = 8, FULL_GRAPHS = 1000 };

static void random_graphs_have_the_bits_of_one_device(void **state) {
    static const int64_t rows[] = {7, 1, 64};
    const int32_t wanted = test_is_full() ? FULL_GRAPHS : on_gpus() || SLOW_BUILD ? SLOW_GRAPHS : GRAPHS;
    int32_t compared = 0, all = 0, least = INT32_MAX;
    (void)state;
    for (int32_t s = 0; s < SETS; s++) all += set_size(&sets[s]);
    for (int32_t s = 0; s < SETS; s++) least = set_size(&sets[s]) < least ? set_size(&sets[s]) : least;
    for (int32_t i = 0; i < wanted; i++) {
        const invariance_case its = invariance_random(test_seed() * 1000003u + (uint64_t)i);
        const invariance_way way = {.dtype = MUSTER_F64, .rows = rows, .calls = 3};
        for (int32_t s = 0; s < SETS; s++) {
            if (!test_is_full() && s != i % SETS) continue;
            compared += set_compare(&sets[s], &its, &way);
        }
    }
    /* each graph by one set, in turn */
    assert_in_range(compared, test_is_full() ? wanted * all : wanted / SETS * all,
                    test_is_full() ? wanted * all : (wanted / SETS + 1) * all);
    assert_true(least > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_graphs_has_the_bits_of_one_device),
        cmocka_unit_test(random_graphs_have_the_bits_of_one_device),
    };
    return cmocka_run_group_tests(tests, NULL, devices_close);
}

/* Plain stores, or stores that bypass the cache: what the options demand, what is measured, and
 * what the description says. */
#include "collectives_values.h"
#include "host/stores_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2 };

/* ---- the decision ---- */

static void record(mst_stores_trial *trial, int64_t bytes, bool streaming, int64_t ns, int32_t times) {
    for (int32_t i = 0; i < times; i++) assert_false(mst_stores_record(trial, bytes, streaming, ns));
}

static void streaming_stores_are_used_if_they_are_10_percent_better(void **state) {
    (void)state;
    static const struct {
        int64_t plain, streaming;
        mst_stores_decision decision;
    } cases[] = {{1100, 1000, MST_STORES_STREAMING},
                 {1099, 1000, MST_STORES_PLAIN},
                 {5000, 1000, MST_STORES_STREAMING},
                 {1000, 1000, MST_STORES_PLAIN},
                 {1000, 3000, MST_STORES_PLAIN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mst_stores_trial trial = {.decision = MST_STORES_UNDECIDED};
        /* three outliers of seven do not move a median */
        record(&trial, 64, false, 1, 3);
        record(&trial, 64, true, 1000000, 3);
        record(&trial, 64, false, cases[i].plain, 4);
        record(&trial, 64, true, cases[i].streaming, 3);
        assert_true(mst_stores_record(&trial, 64, true, cases[i].streaming));
        assert_int_equal(trial.decision, cases[i].decision);
        assert_true(fabs(trial.speedup - (double)cases[i].plain / (double)cases[i].streaming) < 1e-9);
        record(&trial, 64, true, 1, 20); /* it is decided once */
        assert_int_equal(trial.decision, cases[i].decision);
    }
}

static void only_collectives_of_one_size_are_compared(void **state) {
    (void)state;
    enum { OTHERS = 32 };
    mst_stores_trial trial = {.decision = MST_STORES_UNDECIDED};
    record(&trial, 64, false, 100, 7);
    record(&trial, 128, true, 1, 7); /* of another size */
    record(&trial, 64, true, 1000, 6);
    assert_true(mst_stores_record(&trial, 64, true, 1000));
    assert_int_equal(trial.decision, MST_STORES_PLAIN);
    /* a size that does not come again gives way */
    trial = (mst_stores_trial){.decision = MST_STORES_UNDECIDED};
    record(&trial, 64, false, 100, 7);
    record(&trial, 128, true, 10, OTHERS - 1);
    assert_int_equal(trial.bytes, 64);
    record(&trial, 128, true, 10, 7);
    assert_int_equal(trial.bytes, 128);
    record(&trial, 128, false, 20, 6);
    assert_true(mst_stores_record(&trial, 128, false, 20));
    assert_int_equal(trial.decision, MST_STORES_STREAMING);
}

/* What is decided for one size holds for those up to twice the least one of its class. */
static void classes_of_sizes_are_decided_apart(void **state) {
    (void)state;
    enum { FROM = 1000 };
    static const struct {
        int64_t bytes;
        int32_t class;
    } sizes[] = {{FROM, 0},         {2 * FROM - 1, 0}, {2 * FROM, 1},   {4 * FROM - 1, 1}, {4 * FROM, 2},
                 {8 * FROM - 1, 2}, {8 * FROM, 3},     {100 * FROM, 3}, {INT64_MAX - 1, 3}};
    mst_stores stores = {.from = FROM, .measured = true};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) assert_int_equal(mst_stores_class(&stores, sizes[i].bytes), sizes[i].class);
    atomic_store(&stores.trials[MST_ALL_REDUCE][1].decision, MST_STORES_STREAMING);
    atomic_store(&stores.trials[MST_ALL_REDUCE][2].decision, MST_STORES_PLAIN);
    static const int64_t tried[] = {FROM - 1, 2 * FROM, 3 * FROM, 4 * FROM, 7 * FROM};
    static const bool streams[] = {false, true, true, false, false};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        for (uint64_t tag = 1; tag < 20; tag++) { /* whatever a trial would do */
            mst_stores_use use;
            mst_stores_begin(&stores, MST_ALL_REDUCE, tried[i], tag, true, &use);
            assert_int_equal(use.streaming, streams[i]);
            assert_int_equal(use.begin_ns, 0);
        }
    }
    mst_stores_use undecided;
    mst_stores_begin(&stores, MST_ALL_REDUCE, FROM, 1, true, &undecided);
    assert_true(undecided.past_cache && undecided.begin_ns != 0);
    mst_stores_begin(&stores, MST_BROADCAST, 2 * FROM, 1, true, &undecided);
    assert_true(undecided.past_cache && undecided.begin_ns != 0);
}

/* ---- in collectives ---- */

typedef struct sums {
    int64_t count;
    int32_t times;
    bool in_place;
} sums;

static muster_status sums_task(muster_worker *w, void *argument) {
    const sums *s = argument;
    muster_tensor x, y;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &s->count, &x));
    y = x;
    if (!s->in_place) MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &s->count, &y));
    for (int32_t i = 0; i < s->times; i++) {
        MUSTER_TRY(muster_fill(w, w->rank + i + 1, x));
        MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, x, y));
        const float *sum = muster_tensor_address(y), expected = (float)(3 + 2 * i);
        for (int64_t k = 0; k < s->count; k += 1021) VALUES_REQUIRE(fabsf(sum[k] - expected) < 0.5f);
        VALUES_REQUIRE(fabsf(sum[s->count - 1] - expected) < 0.5f);
        MUSTER_TRY(muster_worker_barrier(w, NULL)); /* before the next inputs */
    }
    return MUSTER_OK;
}

static void open_with(collectives_pool *c, int64_t stream_bytes) {
    collectives_open_devices(c, RANKS, 0);
    const mst_pool_options options = {.spin_ns = 20000, .warn_after_ns = -1, .fail_after_ns = 60LL * 1000000000};
    const mst_communicator_options ways = {.algorithm = "direct", .stream_bytes = stream_bytes};
    assert_ok(mst_pool_create(&options, c->devices, c->size, &c->pool));
    assert_ok(mst_communicator_create(c->pool, &ways, &c->communicator));
}

static bool streamed(const collectives_pool *c) {
    const mst_member *members = c->communicator->members;
    assert_int_equal(members[0].served_streaming, members[1].served_streaming);
    return members[0].served_streaming;
}

/* A step reads one of the parameters, and the velocity if it has momentum; only the other
 * parameters bypass the cache. */
typedef struct steps {
    int64_t count;
    bool momentum;
} steps;

static muster_status steps_task(muster_worker *w, void *argument) {
    const steps *s = argument;
    const int64_t count = s->count;
    muster_tensor gradient, velocity, parameter;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &gradient));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &velocity));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &parameter));
    MUSTER_TRY(muster_fill(w, w->rank + 1, gradient));
    MUSTER_TRY(muster_fill(w, 8, velocity));
    MUSTER_TRY(muster_fill(w, 100, parameter));
    for (int32_t i = 0; i < 2; i++) {
        if (s->momentum)
            MUSTER_TRY(muster_worker_all_reduce_momentum(w, NULL, -2, gradient, 0.5, velocity, parameter));
        else
            MUSTER_TRY(muster_worker_all_reduce_axpy(w, NULL, -2, gradient, parameter));
    }
    /* With momentum the velocities are 4 - 6 and -1 - 6; without it both steps are -6. */
    const float *next = muster_tensor_address(parameter), expected = s->momentum ? 91 : 88;
    for (int64_t k = 0; k < count; k++) VALUES_REQUIRE(fabsf(next[k] - expected) < 0.5f);
    return MUSTER_OK;
}

static void steps_are_right_by_both_kinds(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 31, 32, 1000, 65537};
    int32_t streams = 0;
    for (int64_t stream_bytes = -1; stream_bytes <= 1; stream_bytes += 2) {
        for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts; i++) {
            collectives_pool c;
            steps s = {counts[i / 2], i % 2 == 1};
            open_with(&c, stream_bytes);
            assert_ok(collectives_run(&c, steps_task, &s));
            if (s.count >= 1000) assert_int_equal(streamed(&c), stream_bytes == 1);
            streams += s.count >= 1000 && streamed(&c);
            collectives_close(&c);
        }
    }
    assert_int_equal(streams, 2 * 2); /* with momentum and without it, two sizes */
}

/* Two ranks touch two gradients and two parameters. With momentum each of them also touches its
 * part of the velocity, and the parts are one vector. A bound of exactly that many bytes streams,
 * and one more byte does not. */
static void what_a_step_touches_counts_one_velocity(void **state) {
    (void)state;
    enum { COUNT = 1 << 15, BYTES = COUNT * 4 };
    static const struct {
        bool momentum;
        int64_t stream_bytes;
        bool streams;
    } cases[] = {{true, 5 * BYTES, true}, {true, 5 * BYTES + 1, false}, {false, 4 * BYTES, true}, {false, 4 * BYTES + 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        collectives_pool c;
        open_with(&c, cases[i].stream_bytes);
        assert_ok(collectives_run(&c, steps_task, &(steps){COUNT, cases[i].momentum}));
        assert_int_equal(streamed(&c), cases[i].streams);
        collectives_close(&c);
    }
}

static void the_option_demands_either_from_its_size_on(void **state) {
    (void)state;
    enum { COUNT = 1 << 16, TOUCHED = COUNT * 4 * 2 * RANKS };
    static const struct {
        int64_t stream_bytes;
        bool in_place, streams;
        const char *text;
    } cases[] = {{1, false, true, "host memory, streaming stores from 1 bytes on, as asked for"},
                 {TOUCHED, false, true, "streaming stores from 1048576 bytes on, as asked for"},
                 {TOUCHED + 1, false, false, "streaming stores from 1048577 bytes on, as asked for"},
                 {1, true, false, "streaming stores from 1 bytes on"}, /* in place the output has just been read */
                 {-1, false, false, "host memory, streaming stores never, as asked for"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        collectives_pool c;
        char text[1200];
        open_with(&c, cases[i].stream_bytes);
        assert_ok(collectives_run(&c, sums_task, &(sums){COUNT, 2, cases[i].in_place}));
        assert_int_equal(streamed(&c), cases[i].streams);
        assert_non_null(strstr(mst_communicator_description(c.communicator, text, sizeof text), cases[i].text));
        assert_int_equal(c.communicator->revision, 0);
        collectives_close(&c);
    }
}

/* Past the cache both kinds are tried until one is decided on; from then on it is used. */
static void without_an_option_it_is_measured_and_described(void **state) {
    (void)state;
    enum { COUNT = MST_STORES_FROM / 4 / 2 / RANKS, MOST = 400 };
    collectives_pool c;
    char text[1200];
    int32_t tries[2] = {0, 0}, times = 0;
    open_with(&c, 0);
    assert_ok(collectives_run(&c, sums_task, &(sums){COUNT - 16, 3, false})); /* too small */
    assert_false(streamed(&c));
    assert_non_null(strstr(mst_communicator_description(c.communicator, text, sizeof text), "streaming stores not measured yet"));
    for (; atomic_load(&c.communicator->revision) == 0 && times < MOST; times++) {
        assert_ok(collectives_run(&c, sums_task, &(sums){COUNT, 1, false}));
        /* rank 0's, which is timed: it may decide before the other rank begins the same one */
        tries[c.communicator->members[0].served_streaming]++;
    }
    assert_true(tries[0] >= MST_STORES_SAMPLES && tries[1] >= MST_STORES_SAMPLES);
    mst_communicator_description(c.communicator, text, sizeof text);
    const char *words = strstr(text, "in all_reduce of 24 MiB (");
    assert_non_null(words);
    const bool chosen = strncmp(words - 4, "not ", 4) != 0;
    const mst_stores *stores = c.communicator->world->open[MST_TRANSPORT_host];
    const double speedup = stores->trials[MST_ALL_REDUCE][mst_stores_class(stores, stores->from)].speedup;
    assert_int_equal(speedup >= 1.1, chosen);
    /* the text has three digits: 1.098 is written as 1.1, and is not chosen */
    assert_true(fabs(atof(words + strlen("in all_reduce of 24 MiB (")) - speedup) <= 0.006 * speedup);
    for (int32_t i = 0; i < 5; i++) {
        assert_ok(collectives_run(&c, sums_task, &(sums){COUNT + 16 * i, 1, false}));
        assert_int_equal(streamed(&c), chosen);
    }
    assert_int_equal(c.communicator->revision, 1);
    collectives_close(&c);
}

static void the_environment_demands_what_no_option_does(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t option, from;
        bool measured;
    } good[] = {{"", 0, MST_STORES_FROM, true}, {"0", 0, MST_STORES_FROM, true}, {"1", 0, 1, false}, {"-1", 0, -1, false},
                {"1", -1, -1, false},           {"-1", 4096, 4096, false}};
    static const char *const bad[] = {"x", "1x", "99999999999999999999"};
    mst_stores stores;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("MUSTER_STREAM_BYTES", good[i].text, 1);
        assert_ok(mst_stores_read(good[i].option, &stores));
        assert_int_equal(stores.from, good[i].from);
        assert_int_equal(stores.measured, good[i].measured);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("MUSTER_STREAM_BYTES", bad[i], 1);
        assert_refused(mst_stores_read(0, &stores), MUSTER_INVALID_ARGUMENT,
                       "muster_runtime_open: the environment's MUSTER_STREAM_BYTES: expected a number of bytes, received '");
    }
    unsetenv("MUSTER_STREAM_BYTES");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(streaming_stores_are_used_if_they_are_10_percent_better),
                                       cmocka_unit_test(only_collectives_of_one_size_are_compared),
                                       cmocka_unit_test(classes_of_sizes_are_decided_apart),
                                       cmocka_unit_test(steps_are_right_by_both_kinds),
                                       cmocka_unit_test(what_a_step_touches_counts_one_velocity),
                                       cmocka_unit_test(the_option_demands_either_from_its_size_on),
                                       cmocka_unit_test(without_an_option_it_is_measured_and_described),
                                       cmocka_unit_test(the_environment_demands_what_no_option_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

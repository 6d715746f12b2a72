/* all_reduce_apply over several processes: the steps of plain loops, the bits of the order of
 * ranks, and what a failure before and after the agreement leaves. */
#include "base_check.h"
#include "base_seed.h"
#include "collectives_apply.h"
#include "collectives_oracle.h"
#include "collectives_spans.h"
#include "core/request_impl.h"
#include "core/transport_private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct shape {
    const int32_t *counts; /* ranks of each process */
    int32_t processes, discrete;
} shape;
static const shape shapes[] = {{(const int32_t[]){2, 1}, 2, 0}, {(const int32_t[]){1, 1, 1}, 3, 0},    {(const int32_t[]){3, 1}, 2, 0},
                               {(const int32_t[]){2, 2}, 2, 0}, {(const int32_t[]){1, 1, 1, 1}, 4, 0}, {(const int32_t[]){2, 1}, 2, 1},
                               {(const int32_t[]){1, 1}, 2, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void open_shape(spans_launch *launch, const shape *s, int64_t fail_after_ns) {
    spans_open(launch,
               &(spans_options){.counts = s->counts, .processes = s->processes, .discrete = s->discrete, .fail_after_ns = fail_after_ns});
}

/* ---- training ---- */

/* On both sides of a cache line for each rank, and of a round. */
static const int64_t counts[] = {0, 1, 17, 129, 1025, 65537, 131071, 300001};
enum { COUNTS = sizeof counts / sizeof *counts, KINDS = 8 * APPLY_CUTS };

typedef struct training {
    int32_t part, parts; /* which of all plans */
    _Atomic int64_t plans_run;
} training;

static muster_status train(muster_worker *w, const apply_plan *plan) {
    apply_rank a;
    mst_worker_scratch_rewind(w);
    muster_status status = apply_open(&a, w, spans_size(w), plan);
    for (int32_t s = 0; s < APPLY_STEPS && status == MUSTER_OK; s++) {
        status = apply_write_gradients(&a, s);
        if (status == MUSTER_OK && (s == 0 || plan->sharded))
            status = apply_enter(&a, NULL);
        else if (status == MUSTER_OK)
            status = apply_enter_phases(&a, NULL, s > 1);
    }
    if (status == MUSTER_OK) status = apply_check(&a, APPLY_STEPS, NULL);
    apply_close(&a);
    return status;
}

static muster_status train_all(muster_worker *w, void *argument) {
    training *t = argument;
    int64_t number = 0, run = 0;
    for (int32_t d = MUSTER_F16; d <= MUSTER_F64; d++)
        for (int32_t n = 0; n < COUNTS; n++)
            for (int32_t kind = 0; kind < KINDS; kind++) {
                const apply_plan plan = {(muster_dtype)d, counts[n], (apply_cut)(kind / 8), kind & 1,
                                         kind & 2,        kind & 4,  (kind + n + d) % 2,    (kind / 2 + n) % 2};
                if (plan.cut == APPLY_TINY && plan.count > APPLY_TINY_COUNT) continue;
                if (number++ % t->parts != t->part) continue;
                MUSTER_TRY(train(w, &plan));
                run++;
            }
    if (spans_rank(w) == 0) t->plans_run += run;
    return MUSTER_OK;
}

static void test_processes_take_the_steps_of_plain_loops(void **state) {
    (void)state;
    enum { ALL_PLANS = 4 * (8 * 2 * COUNTS + 8 * 5) };
    int64_t run = 0;
    const int32_t parts = SHAPES * (int32_t)test_one_in(4, 4, 11); /* 77 meets other plans in each dtype */
    int64_t expected = 0;
    for (int32_t i = 0; i < SHAPES; i++) {
        spans_launch launch;
        training t = {.part = i, .parts = parts};
        open_shape(&launch, &shapes[i], 0);
        assert_ok(spans_run(&launch, train_all, &t));
        assert_true(spans_sent_bytes(&launch) > (1 << 20) / test_one_in(1, 1, 8));
        spans_close(&launch);
        run += t.plans_run;
        expected += (ALL_PLANS - i + parts - 1) / parts;
    }
    print_message("%lld trainings\n", (long long)run);
    assert_int_equal(run, expected);
    assert_in_range(run, ALL_PLANS / (parts / SHAPES), ALL_PLANS);
}

/* ---- bits ---- */

enum { BITS_COUNT = 70001 };

static muster_status takes_the_sum(void *context, muster_worker *worker, const mst_apply_part *part) {
    (void)context;
    muster_tensor from = muster_tensor_make(part->dtype, (void *)(uintptr_t)part->gradient, 1, &part->count),
                  to = muster_tensor_make(part->dtype, part->after, 1, &part->count);
    from.device = to.device = worker->rank;
    return muster_copy(worker, from, to);
}

/* The sums that the rule sees are those that all_reduce gives. */
static muster_status compare_sums(muster_worker *w, void *argument) {
    (void)argument;
    const int64_t count = BITS_COUNT;
    for (int32_t d = MUSTER_F16; d <= MUSTER_F64; d++) {
        const muster_dtype dtype = (muster_dtype)d;
        const int64_t bytes = count * (int64_t)muster_dtype_size(dtype);
        mst_worker_scratch_rewind(w);
        muster_tensor gradients, parameter, sum;
        MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &count, &gradients));
        MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &count, &parameter));
        MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &count, &sum));
        char *values = malloc((size_t)bytes), *expected = malloc((size_t)bytes);
        oracle_fill(dtype, values, count, (uint64_t)spans_rank(w) + 7);
        const mst_apply_segment segment = {.count = count, .parameter = muster_tensor_address(parameter)};
        const mst_apply_request request = {.gradients = gradients, .segments = &segment, .segment_count = 1, .function = takes_the_sum};
        muster_status status = muster_worker_write(w, muster_tensor_make(dtype, values, 1, &count), gradients);
        if (status == MUSTER_OK) status = muster_worker_all_reduce(w, NULL, MUSTER_SUM, gradients, sum);
        if (status == MUSTER_OK) status = mst_worker_all_reduce_apply(w, NULL, &request);
        if (status == MUSTER_OK) status = muster_worker_read(w, parameter, muster_tensor_make(dtype, values, 1, &count));
        if (status == MUSTER_OK) status = muster_worker_read(w, sum, muster_tensor_make(dtype, expected, 1, &count));
        if (status == MUSTER_OK && memcmp(values, expected, (size_t)bytes) != 0)
            status = mst_error(MUSTER_USER, "%s: other bits on rank %d", muster_dtype_name(dtype), spans_rank(w));
        free(values);
        free(expected);
        MUSTER_TRY(status);
    }
    return MUSTER_OK;
}

static void test_sums_have_the_bits_of_all_reduce(void **state) {
    (void)state;
    for (int32_t i = 0; i < SHAPES; i++) {
        spans_launch launch;
        open_shape(&launch, &shapes[i], 0);
        assert_ok(spans_run(&launch, compare_sums, NULL));
        spans_close(&launch);
    }
}

/* ---- failures ---- */

typedef enum { FAILS, RETURNS, STAYS_AWAY, OTHER, COUNTS_DIFFER, PHASE, RULE_FAILS, WRITES_FAIL, FAULTS } fault;
enum { FAULT_COUNT = 96, FAULT_DEADLINE_MS = 800 };
typedef struct trial {
    fault fault;
    int32_t at;
    bool entered[SPANS_RANKS], undefined[SPANS_RANKS][2];
    muster_status status[SPANS_RANKS];
    void *memory[SPANS_RANKS];
} trial;
static trial *hooked;

static muster_tensor vector_at(const muster_worker *w, void *address) {
    const int64_t count = FAULT_COUNT;
    muster_tensor t = muster_tensor_make(MUSTER_F32, address, 1, &count);
    t.device = w->rank;
    return t;
}

static muster_status rule(void *context, muster_worker *w, const mst_apply_part *part) {
    const trial *t = context;
    if (t->fault == RULE_FAILS && t->at == spans_rank(w)) return mst_error(MUSTER_USER, "the rule fails");
    muster_tensor gradient = muster_tensor_make(MUSTER_F32, (void *)(uintptr_t)part->gradient, 1, &part->count),
                  after = muster_tensor_make(MUSTER_F32, part->after, 1, &part->count);
    gradient.device = after.device = w->rank;
    return muster_scale_add(w, 1, gradient, 1, after);
}

static bool hook(muster_worker *w, int32_t collective, mst_rendezvous_moment moment, muster_status *status) {
    if (!hooked || collective != MST_ALL_REDUCE_APPLY || moment != MST_MOMENT_WRITES || hooked->at != spans_rank(w)) return false;
    *status = mst_error(MUSTER_USER, "this rank cannot write");
    return true;
}

static muster_status write_constants(const trial *t, muster_worker *w) {
    float values[FAULT_COUNT];
    for (int32_t part = 0; part < 2; part++) {
        for (int32_t i = 0; i < FAULT_COUNT; i++) values[i] = part ? 1 : 7;
        const int64_t count = FAULT_COUNT;
        MUSTER_TRY(muster_worker_write(w, muster_tensor_make(MUSTER_F32, values, 1, &count),
                                       vector_at(w, (float *)t->memory[spans_rank(w)] + part * FAULT_COUNT)));
    }
    return MUSTER_OK;
}

static muster_status begin(muster_worker *w, void *argument) {
    trial *t = argument;
    MUSTER_TRY(mst_worker_allocate(w, 2 * FAULT_COUNT * 4, &t->memory[spans_rank(w)]));
    return write_constants(t, w);
}

static muster_status end(muster_worker *w, void *argument) {
    trial *t = argument;
    w->device->memory->release(w->device, t->memory[spans_rank(w)]);
    return MUSTER_OK;
}

static muster_status misbehave(trial *t, muster_worker *w, mst_apply_segment *segments) {
    switch (t->fault) {
    case FAILS:
        return mst_error(MUSTER_USER, "this body fails");
    case STAYS_AWAY:
        nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL); /* the others wait as long again for its end */
        return MUSTER_OK;
    case OTHER:
        return muster_worker_barrier(w, NULL);
    case COUNTS_DIFFER:
        segments[0].count--;
        segments[1] = (mst_apply_segment){segments[1].offset - 1, segments[1].count + 1, (float *)segments[1].parameter - 1, NULL, false};
        return MUSTER_OK;
    default:
        return MUSTER_OK;
    }
}

static muster_status faulty_step(muster_worker *w, void *argument) {
    trial *t = argument;
    const int32_t rank = spans_rank(w);
    float *parameter = t->memory[rank];
    mst_apply_segment segments[] = {{.count = 40, .parameter = parameter},
                                    {.offset = 40, .count = FAULT_COUNT - 40, .parameter = parameter + 40}};
    mst_apply_request request = {.gradients = vector_at(w, parameter + FAULT_COUNT),
                                 .segments = segments,
                                 .segment_count = 2,
                                 .function = rule,
                                 .context = t,
                                 .undefined = t->undefined[rank]};
    if (t->at == rank) {
        MUSTER_TRY(misbehave(t, w, segments));
        if (t->fault == RETURNS || t->fault == STAYS_AWAY || t->fault == OTHER) return MUSTER_OK;
        if (t->fault == PHASE) return mst_worker_apply_sum(w, NULL, &request, MST_APPLY_ALL_BUCKETS);
    }
    t->entered[rank] = true;
    return t->status[rank] = mst_worker_all_reduce_apply(w, NULL, &request);
}

/* What the parameters hold: 7 before, 7 + the number of ranks after. */
static muster_status check_values(muster_worker *w, const trial *t, float expected) {
    float values[FAULT_COUNT];
    const int64_t count = FAULT_COUNT;
    MUSTER_TRY(muster_worker_read(w, vector_at(w, t->memory[spans_rank(w)]), muster_tensor_make(MUSTER_F32, values, 1, &count)));
    for (int32_t i = 0; i < FAULT_COUNT; i++)
        if (values[i] != expected)
            return mst_error(MUSTER_USER, "fault %d at %d: element %d of rank %d is %g, expected %g", (int)t->fault, (int)t->at, (int)i,
                             (int)spans_rank(w), (double)values[i], (double)expected);
    return MUSTER_OK;
}

static muster_status check_untouched(muster_worker *w, void *argument) { return check_values(w, argument, 7); }
static muster_status check_right(muster_worker *w, void *argument) {
    trial *t = argument;
    MUSTER_TRY(write_constants(t, w));
    MUSTER_TRY(faulty_step(w, t));
    return check_values(w, t, 7 + (float)spans_size(w));
}

static bool is_late(fault f) { return f == RULE_FAILS || f == WRITES_FAIL; }

static void run_trial(const shape *s, fault f, int32_t at) {
    spans_launch launch;
    trial t = {.fault = f, .at = at};
    int32_t total = 0;
    for (int32_t p = 0; p < s->processes; p++) total += s->counts[p];
    open_shape(&launch, s, f == STAYS_AWAY || f == RETURNS ? FAULT_DEADLINE_MS * 1000000ll : 0);
    assert_ok(spans_run(&launch, begin, &t));
    hooked = f == WRITES_FAIL ? &t : NULL;
    assert_int_not_equal(spans_run(&launch, faulty_step, &t), MUSTER_OK);
    hooked = NULL;
    for (int32_t r = 0; r < total; r++) {
        /* A rank whose collective was right has written: that the call fails all the same is what
         * its process is told at the end. */
        const bool ended_well = t.entered[r] && t.status[r] == MUSTER_OK;
        if (!is_late(f)) assert_false(ended_well);
        for (int32_t i = 0; i < 2; i++) assert_int_equal(t.undefined[r][i], is_late(f) && !ended_well);
    }
    if (!is_late(f)) assert_ok(spans_run(&launch, check_untouched, &t));
    t.at = -1;
    assert_ok(spans_run(&launch, check_right, &t));
    assert_ok(spans_run(&launch, end, &t));
    spans_close(&launch);
}

static void test_a_failure_leaves_parameters_or_names_them(void **state) {
    (void)state;
    int32_t cases = 0;
    mst_rendezvous_test_hook = hook;
    for (int32_t i = 0; i < SHAPES; i++)
        for (int32_t f = 0; f < FAULTS; f++) {
            int32_t total = 0;
            if ((f == STAYS_AWAY || f == RETURNS) && i % 3 != 0) continue;
            for (int32_t p = 0; p < shapes[i].processes; p++) total += shapes[i].counts[p];
            for (int32_t at = 0; at < total; at += !test_is_full() ? total - 1 : 1) {
                run_trial(&shapes[i], (fault)f, at);
                cases++;
            }
        }
    mst_rendezvous_test_hook = NULL;
    print_message("%d cases\n", cases);
    assert_int_equal(cases, !test_is_full() ? (FAULTS - 2) * 2 * SHAPES + 2 * 2 * 3 : (FAULTS - 2) * 23 + 2 * 9);
}

/* ---- refusals ---- */

static muster_status apply_in_part(muster_worker *w, void *argument) {
    (void)argument;
    muster_communicator *part;
    muster_tensor scratch;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, (const int64_t[]){1}, &scratch));
    const mst_apply_request request = {.gradients = scratch, .function = rule};
    MUSTER_TRY(muster_worker_split(w, NULL, 0, -spans_rank(w), &part));
    const muster_status status = mst_worker_all_reduce_apply(w, part, &request);
    (void)muster_worker_release(w, part);
    return status;
}

static void test_a_part_of_several_processes_is_refused(void **state) {
    (void)state;
    spans_launch launch;
    open_shape(&launch, &shapes[0], 0);
    assert_int_equal(spans_run(&launch, apply_in_part, NULL), MUSTER_UNSUPPORTED);
    assert_non_null(strstr(muster_last_error(), "expected the communicator of all workers, or one of one process, received a part of 2"));
    spans_close(&launch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_take_the_steps_of_plain_loops),
        cmocka_unit_test(test_sums_have_the_bits_of_all_reduce),
        cmocka_unit_test(test_a_failure_leaves_parameters_or_names_them),
        cmocka_unit_test(test_a_part_of_several_processes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

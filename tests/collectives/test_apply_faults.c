/* all_reduce_apply when one rank does something wrong: whatever happens before all ranks have
 * entered leaves all parameters as they were, on all ranks, and the next call is right. */
#include "base_check.h"
#include "collectives_apply.h"
#include "collectives_pool.h"

#include <time.h>

typedef enum {
    FAILS,      /* returns an error instead of entering */
    RETURNS,    /* returns MUSTER_OK instead of entering */
    STAYS_AWAY, /* until the others' deadline has passed */
    OTHER,      /* enters another collective */
    NO_RULE,    /* passes no function */
    OVERLAPS,   /* a parameter lies in the gradients */
    COUNTS,     /* two segments portion the same elements in another way */
    SEGMENTS,   /* the last segment is missing; it has no elements */
    LOCAL,      /* a segment without elements is local */
    LENGTH,     /* one element more */
    RULE_FAILS, /* of the first call: after all have entered */
    FAULTS
} fault;

enum { RANKS = 3, COUNT = 96 }; /* two cache lines of f32 for each rank */
/* How long the ranks wait for the rank that stays away. In the other cases they wait for longer,
 * since a busy machine is slow. */
static const int64_t DEADLINE_NS = 1000000000ll;

/* What each rank has from one run to the next. */
typedef struct kept {
    muster_status status[RANKS];
    char messages[RANKS][MST_MESSAGE_SIZE];
    bool undefined[RANKS][4];
} kept;

typedef struct trial {
    fault fault;
    int32_t at; /* the rank at fault */
    kept *kept;
    mst_apply_segment segments[RANKS][4];
    void *memory[RANKS]; /* parameters of COUNT + 1 f32, states, gradients of COUNT + 1 */
} trial;

static muster_tensor vector_at(const muster_worker *w, void *address, int64_t count) {
    muster_tensor t = muster_tensor_make(MUSTER_F32, address, 1, &count);
    t.device = w->rank;
    return t;
}
static char *part_of(const trial *t, const muster_worker *w, int32_t part) {
    return (char *)t->memory[muster_worker_rank(w)] + part * (COUNT + 4) * 4;
}

static muster_status rule(void *context, muster_worker *w, const mst_apply_part *part) {
    const trial *t = context;
    if (t->fault == RULE_FAILS && t->at == muster_worker_rank(w)) return mst_error(MUSTER_USER, "the rule fails");
    return muster_scale_add(w, 1, vector_at(w, (void *)(uintptr_t)part->gradient, part->count), 1, vector_at(w, part->after, part->count));
}

static muster_status write_constant(const trial *t, muster_worker *w, int32_t part, float value) {
    float values[COUNT + 1];
    int64_t count = COUNT + 1;
    for (int32_t i = 0; i < COUNT + 1; i++) values[i] = value;
    return muster_worker_write(w, muster_tensor_make(MUSTER_F32, values, 1, &count), vector_at(w, part_of(t, w, part), count));
}

/* Three segments, which the portions cross, and an empty one. */
static void make_table(trial *t, muster_worker *w) {
    static const int64_t sizes[] = {10, 40, COUNT - 50, 0};
    int64_t at = 0;
    for (int32_t i = 0; i < 4; at += sizes[i++])
        t->segments[muster_worker_rank(w)][i] =
            (mst_apply_segment){.offset = at, .count = sizes[i], .parameter = part_of(t, w, 0) + at * 4};
}

static muster_status begin(muster_worker *w, void *argument) {
    trial *t = argument;
    MUSTER_TRY(mst_worker_allocate(w, 3 * (COUNT + 4) * 4, &t->memory[muster_worker_rank(w)]));
    MUSTER_TRY(write_constant(t, w, 0, 7));
    return write_constant(t, w, 1, 1);
}

static muster_status end(muster_worker *w, void *argument) {
    trial *t = argument;
    MUSTER_TRY(mst_worker_sync(w));
    w->device->memory->release(w->device, t->memory[muster_worker_rank(w)]);
    return MUSTER_OK;
}

/* The request of the rank at fault. */
static void spoil(const trial *t, const muster_worker *w, mst_apply_request *request, mst_apply_segment *segments) {
    switch (t->fault) {
    case NO_RULE:
        request->function = NULL;
        break;
    case OVERLAPS:
        segments[1].parameter = part_of(t, w, 1);
        break;
    case COUNTS:
        segments[0].count++;
        segments[1].count--;
        segments[1].offset++;
        break;
    case SEGMENTS:
        request->segment_count = 3;
        break;
    case LOCAL:
        segments[3].local = true;
        break;
    case LENGTH:
        segments[2].count++;
        segments[3].offset++;
        break;
    default:
        break;
    }
}

static void sleep_ms(int64_t ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static muster_status instead(const trial *t, muster_worker *w) {
    if (t->fault == FAILS) return mst_error(MUSTER_USER, "its own error");
    if (t->fault == STAYS_AWAY) {
        sleep_ms(3 * DEADLINE_NS / 2000000);
        return MUSTER_OK;
    }
    muster_tensor all = vector_at(w, part_of(t, w, 1), COUNT);
    return t->fault == OTHER ? muster_worker_all_reduce(w, NULL, MUSTER_SUM, all, all) : MUSTER_OK;
}

static muster_status enter(trial *t, muster_worker *w) {
    bool *undefined = t->kept->undefined[muster_worker_rank(w)];
    make_table(t, w);
    mst_apply_request request = {.gradients = vector_at(w, part_of(t, w, 1), COUNT + 1),
                                 .segments = t->segments[muster_worker_rank(w)],
                                 .segment_count = 4,
                                 .function = rule,
                                 .context = t,
                                 .undefined = undefined};
    if (muster_worker_rank(w) == t->at) spoil(t, w, &request, t->segments[muster_worker_rank(w)]);
    return muster_worker_rank(w) == t->at && t->fault <= OTHER ? instead(t, w) : mst_worker_all_reduce_apply(w, NULL, &request);
}

static muster_status go_wrong(muster_worker *w, void *argument) {
    trial *t = argument;
    for (int32_t i = 0; i < 4; i++) t->kept->undefined[muster_worker_rank(w)][i] = t->fault != RULE_FAILS && muster_worker_rank(w) != t->at;
    muster_status status = enter(t, w);
    t->kept->status[muster_worker_rank(w)] = status;
    if (status != MUSTER_OK) mst_error_save(t->kept->messages[muster_worker_rank(w)]);
    return status;
}

/* The parameters are `expected`, but for segments that are marked. */
typedef struct expectation {
    const trial *trial;
    float expected;
} expectation;
static muster_status look(muster_worker *w, void *argument) {
    const expectation *e = argument;
    static const int64_t ends[] = {10, 50, COUNT};
    float values[COUNT];
    int64_t count = COUNT;
    MUSTER_TRY(muster_worker_read(w, vector_at(w, part_of(e->trial, w, 0), COUNT), muster_tensor_make(MUSTER_F32, values, 1, &count)));
    for (int32_t i = 0; i < COUNT; i++) {
        const int32_t segment = i < ends[0] ? 0 : i < ends[1] ? 1 : 2;
        if (e->trial->fault == RULE_FAILS && e->expected == 7 &&
            (e->trial->kept->undefined[muster_worker_rank(w)][segment] || e->trial->kept->status[muster_worker_rank(w)] == MUSTER_OK))
            continue;
        if (values[i] != e->expected)
            return mst_error(MUSTER_USER, "rank %d: element %d is %g, expected %g", muster_worker_rank(w), i, (double)values[i],
                             (double)e->expected);
    }
    return MUSTER_OK;
}

static muster_status go_right(muster_worker *w, void *argument) {
    trial *t = argument;
    MUSTER_TRY(write_constant(t, w, 0, 7));
    MUSTER_TRY(write_constant(t, w, 1, 1));
    return enter(t, w);
}

static void check_messages(const trial *t, const kept *k) {
    static const char *const own[FAULTS] = {[FAILS] = "its own error",
                                            [NO_RULE] = "function: expected a rule, received NULL",
                                            [OVERLAPS] = "segment 1: expected a parameter apart from the gradients, received an overlap",
                                            [RULE_FAILS] = "the rule fails"};
    static const char *const of_all[FAULTS] = {[OTHER] = "collective mismatch: rank ",
                                               [COUNTS] = "segment 0: expected 1",
                                               [SEGMENTS] = "segments: expected as many as rank 0, ",
                                               [LOCAL] = "segment 3: expected a ",
                                               [LENGTH] = "collective mismatch: rank "};
    for (int32_t r = 0; r < RANKS; r++) {
        const bool table = t->fault == COUNTS || t->fault == SEGMENTS || t->fault == LOCAL;
        const char *expected = of_all[t->fault] ? of_all[t->fault] : r == t->at ? own[t->fault] : NULL;
        if (table && collectives_are_shared(RANKS))
            expected = "of the same segments and buckets as on rank 0"; /* processes compare hashes */
        if (expected && !strstr(k->messages[r], expected)) fail_msg("rank %d: \"%s\" lacks \"%s\"", r, k->messages[r], expected);
        assert_null(strstr(k->messages[r], "all_reduce_apply: all_reduce_apply"));
        if (expected && of_all[t->fault]) assert_non_null(strstr(k->messages[r], "rank 0"));
        for (int32_t i = 0; i < 4 && t->fault != RULE_FAILS; i++) {
            const bool entered = r != t->at || t->fault > OTHER;
            if (entered) assert_false(k->undefined[r][i]);
        }
        if (t->fault == RULE_FAILS || r == t->at || of_all[t->fault]) continue;
        if (k->status[r] != MUSTER_ABORTED && k->status[r] != (t->fault == STAYS_AWAY ? MUSTER_TIMEOUT : MUSTER_INVALID_ARGUMENT))
            fail_msg("fault %d at rank %d: rank %d: %s: %s", t->fault, t->at, r, muster_status_name(k->status[r]), k->messages[r]);
    }
    /* the rule never ran on the rank's portion: elements 32 r to 32 r + 31 */
    static const bool in_portion[RANKS][3] = {{true, true, false}, {false, true, true}, {false, false, true}};
    for (int32_t i = 0; i < 3 && t->fault == RULE_FAILS; i++)
        if (in_portion[t->at][i]) assert_true(k->undefined[t->at][i]);
}

static void try_fault(collectives_pool *pool, fault f, int32_t at) {
    kept k = {.status = {MUSTER_OK}};
    trial t = {.fault = f, .at = at, .kept = &k};
    assert_ok(collectives_run(pool, begin, &t));
    muster_status status = collectives_run(pool, go_wrong, &t);
    collectives_gather(pool, k.status, sizeof *k.status);
    collectives_gather(pool, k.messages, sizeof *k.messages);
    collectives_gather(pool, k.undefined, sizeof *k.undefined);
    assert_int_not_equal(status, MUSTER_OK);
    check_messages(&t, &k);
    assert_ok(collectives_run(pool, look, &(expectation){&t, 7}));
    t.at = -1;
    assert_ok(collectives_run(pool, go_right, &t));
    assert_ok(collectives_run(pool, look, &(expectation){&t, 7 + RANKS}));
    assert_ok(collectives_run(pool, end, &t));
}

/* The faults of each rank on `host` and `discrete` devices. */
static int32_t try_faults(int32_t host, int32_t discrete, bool stays_away) {
    collectives_pool pool;
    int32_t run = 0;
    collectives_open_with(&pool, host, discrete, NULL, stays_away ? DEADLINE_NS : 60 * DEADLINE_NS);
    for (int32_t f = 0; f < FAULTS; f++)
        for (int32_t at = 0; at < RANKS && (f == STAYS_AWAY) == stays_away; at++, run++) try_fault(&pool, (fault)f, at);
    collectives_close(&pool);
    return run;
}

static void test_nothing_is_written_before_all_have_entered(void **state) {
    (void)state;
    assert_int_equal(try_faults(RANKS, 0, false), (FAULTS - 1) * RANKS);
    if (collectives_devices() != COLLECTIVES_HOST_AND_DISCRETE) return;
    assert_int_equal(try_faults(0, RANKS, false), (FAULTS - 1) * RANKS);
    assert_int_equal(try_faults(2, 1, false), (FAULTS - 1) * RANKS);
}

static void test_a_rank_that_stays_away_leaves_all_as_it_was(void **state) {
    (void)state;
    assert_int_equal(try_faults(RANKS, 0, true), RANKS);
}

/* ---- what one rank can see ---- */

static muster_status refusals(muster_worker *w, void *argument) {
    (void)argument;
    int64_t count = 8;
    muster_tensor gradients, whole, memory;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &gradients));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_I32, 1, &count, &whole));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, &count, &memory));
    trial t = {.fault = FAILS, .at = -1};
    mst_apply_segment segments[2] = {{.count = 4, .parameter = muster_tensor_address(memory)},
                                     {.offset = 4, .count = 4, .parameter = (char *)muster_tensor_address(memory) + 16}};
    mst_apply_request r = {.gradients = gradients, .segments = segments, .segment_count = 2, .function = rule, .context = &t};
#define REFUSED(code, text) assert_refused(mst_worker_all_reduce_apply(w, NULL, &r), code, "all_reduce_apply: " text)
    r.gradients = whole;
    REFUSED(MUSTER_UNSUPPORTED, "gradients: expected a float dtype, received i32");
    r.gradients = muster_tensor_reshape(gradients, 3, (int64_t[]){2, 2, 2});
    REFUSED(MUSTER_SHAPE_MISMATCH, "gradients: expected a vector, or one for each shard, received 3 axes");
    r.gradients = gradients;
    segments[1].offset = 3;
    REFUSED(MUSTER_INVALID_ARGUMENT, "segment 1: expected elements from 4 to 8 of the gradients, received 4 elements from 3 on");
    segments[1].offset = 5;
    REFUSED(MUSTER_INVALID_ARGUMENT, "segment 1: expected elements from 4 to 8 of the gradients, received 4 elements from 5 on");
    segments[1].offset = 4;
    segments[0].count = -1;
    REFUSED(MUSTER_INVALID_ARGUMENT, "segment 0: expected a count of at least 0, received -1");
    segments[0].count = 4;
    segments[0].parameter = NULL;
    REFUSED(MUSTER_INVALID_ARGUMENT, "segment 0: expected the address of a parameter of 4 elements, received NULL");
    segments[0] = (mst_apply_segment){.count = 4, .parameter = muster_tensor_address(memory), .local = true};
    REFUSED(MUSTER_INVALID_ARGUMENT, "segment 0: expected the address of a gradient of 4 elements, received NULL");
    segments[0].gradient = (char *)muster_tensor_address(memory) + 4;
    REFUSED(MUSTER_INVALID_ARGUMENT, "segment 0: expected a parameter apart from the gradients, received an overlap");
    segments[0].parameter = (char *)muster_tensor_address(memory) + 1;
    REFUSED(MUSTER_INVALID_ARGUMENT, "segment 0: expected addresses that are multiples of 4, received another");
    r.segments = NULL;
    REFUSED(MUSTER_INVALID_ARGUMENT, "segments: expected a table of at least 0 segments, received NULL of 2");
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    REFUSED(MUSTER_BAD_STATE, "communicator: expected no open group");
    return muster_worker_group_end(w, NULL);
}

static void test_wrong_arguments_are_refused(void **state) {
    (void)state;
    collectives_pool pool;
    collectives_open(&pool, 1, 0);
    assert_ok(collectives_run(&pool, refusals, NULL));
    collectives_close(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_written_before_all_have_entered),
        cmocka_unit_test(test_a_rank_that_stays_away_leaves_all_as_it_was),
        cmocka_unit_test(test_wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

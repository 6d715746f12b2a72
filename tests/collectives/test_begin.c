/* Collectives that only begin, on devices of every kind: the bits of the collectives themselves,
 * several at once, beside other work, and after failures. */
#include "collectives_values.h"
#include "scheduler_scratch.h"

#include <stdlib.h>
#include <string.h>

static const int64_t counts[] = {0, 1, 7, 1000, 40000};
enum { COUNTS = sizeof counts / sizeof *counts, FORMS = 3 };

/* ---- the same bits ---- */

/* Numbers whose sum depends on the order. */
static muster_tensor floats_make(muster_worker *w, int64_t count, int32_t seed) {
    float *values = malloc((size_t)(count + 1) * sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = 1.0f / (float)(1 + (i * 7 + muster_worker_rank(w) * 13 + seed) % 1013);
    const muster_tensor made = values_copy(w, muster_f32(values, count));
    free(values);
    return made;
}

/* Inputs and outputs of one form: all_reduce, reduce_scatter, all_gather. */
typedef struct form_case {
    muster_tensor in, out, begun;
} form_case;

static form_case case_make(muster_worker *w, int32_t form, int64_t count) {
    const int64_t all = count * muster_worker_size(w), in = form == 1 ? all : count, out = form == 2 ? all : count;
    return (form_case){floats_make(w, in, form), scratch_tensor(w, MUSTER_F32, 1, &out), scratch_tensor(w, MUSTER_F32, 1, &out)};
}

static muster_status case_run(muster_worker *w, int32_t form, const form_case *c) {
    if (form == 0) return muster_worker_all_reduce(w, NULL, MUSTER_SUM, c->in, c->out);
    if (form == 1) return muster_worker_reduce_scatter(w, NULL, MUSTER_SUM, c->in, c->out);
    return muster_worker_all_gather(w, NULL, c->in, c->out);
}

static muster_status case_begin(muster_worker *w, int32_t form, const form_case *c) {
    if (form == 0) return mst_worker_all_reduce_begin(w, NULL, MUSTER_SUM, c->in, c->begun);
    if (form == 1) return mst_worker_reduce_scatter_begin(w, NULL, MUSTER_SUM, c->in, c->begun);
    return mst_worker_all_gather_begin(w, NULL, c->in, c->begun);
}

static muster_status case_check(muster_worker *w, const form_case *c) {
    const int64_t count = c->out.shape[0];
    float *values = malloc((size_t)(count + 1) * sizeof *values);
    muster_status status = muster_worker_read(w, c->out, muster_f32(values, count));
    if (status == MUSTER_OK) status = values_same(w, c->begun, muster_f32(values, count));
    free(values);
    return status;
}

/* NCCL may sum in another order where it has another number of elements, but not otherwise. */
static muster_status same_bits(muster_worker *w, void *argument) {
    int32_t *compared = argument;
    for (int32_t form = 0; form < FORMS; form++)
        for (int32_t i = 0; i < COUNTS; i++) {
            const int64_t mark = muster_worker_scratch_mark(w);
            const form_case c = case_make(w, form, counts[i]);
            MUSTER_TRY(case_run(w, form, &c));
            MUSTER_TRY(case_begin(w, form, &c));
            MUSTER_TRY(mst_worker_exchange_end(w));
            MUSTER_TRY(case_check(w, &c));
            MUSTER_TRY(muster_worker_scratch_release(w, mark));
            if (muster_worker_rank(w) == 0) ++*compared;
        }
    return MUSTER_OK;
}

static void what_has_begun_gives_the_same_bits(void **state) {
    (void)state;
    int32_t compared = 0;
    values_run_on_all(same_bits, &compared, 1);
    assert_true(compared > 0);
    assert_int_equal(compared % (FORMS * COUNTS), 0);
}

/* ---- several at once ---- */

/* Between the begun ones a collective that does not only begin, and work of this worker alone. */
static muster_status several_at_once(muster_worker *w, void *argument) {
    form_case begun[FORMS * 2];
    (void)argument;
    for (int32_t i = 0; i < FORMS * 2; i++) {
        begun[i] = case_make(w, i % FORMS, counts[2 + i / FORMS]);
        MUSTER_TRY(case_begin(w, i % FORMS, &begun[i]));
        muster_tensor own = values_make(w, 500, i, 1);
        if (i == 3) {
            MUSTER_TRY(muster_worker_all_reduce(w, NULL, MUSTER_SUM, own, own));
            MUSTER_TRY(values_expect(w, own, (int64_t)i * muster_worker_size(w), muster_worker_size(w)));
        } else {
            MUSTER_TRY(values_expect(w, own, i, 1));
        }
    }
    MUSTER_TRY(mst_worker_exchange_end(w));
    MUSTER_TRY(mst_worker_exchange_end(w)); /* there is nothing to wait for any more */
    for (int32_t i = 0; i < FORMS * 2; i++) {
        MUSTER_TRY(case_run(w, i % FORMS, &begun[i]));
        MUSTER_TRY(case_check(w, &begun[i]));
    }
    return MUSTER_OK;
}

static void several_begin_and_other_work_goes_on(void **state) {
    (void)state;
    values_run_on_all(several_at_once, NULL, 1);
}

/* ---- failures ---- */

static muster_status fails_after_it_began(muster_worker *w, void *argument) {
    (void)argument;
    const form_case c = case_make(w, 0, counts[4]);
    MUSTER_TRY(case_begin(w, 0, &c));
    if (muster_worker_rank(w) == 1) return mst_error(MUSTER_USER, "rank 1 fails");
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    return mst_worker_exchange_end(w);
}

static muster_status leaves_before_it_begins(muster_worker *w, void *argument) {
    (void)argument;
    const form_case c = case_make(w, 0, counts[4]);
    return muster_worker_rank(w) == 1 ? MUSTER_OK : case_begin(w, 0, &c);
}

/* The body ends without the end of what has begun. */
static muster_status never_ends(muster_worker *w, void *argument) {
    (void)argument;
    const form_case c = case_make(w, 0, counts[4]);
    return case_begin(w, 0, &c);
}

static void the_run_after_a_failure_is_right(void **state) {
    (void)state;
    int32_t compared = 0;
    collectives_pool c;
    collectives_open(&c, 0, 3);
    assert_int_equal(collectives_run(&c, fails_after_it_began, NULL), MUSTER_USER);
    assert_non_null(strstr(muster_last_error(), "rank 1 fails"));
    assert_ok(collectives_run(&c, same_bits, &compared));
    assert_int_not_equal(collectives_run(&c, leaves_before_it_begins, NULL), MUSTER_OK);
    assert_ok(collectives_run(&c, never_ends, NULL));
    assert_ok(collectives_run(&c, same_bits, &compared));
    assert_int_equal(collectives_sum(&c, compared), 2 * FORMS * COUNTS);
    collectives_close(&c);
}

static muster_status begins_in_a_group(muster_worker *w, void *argument) {
    (void)argument;
    const form_case c = case_make(w, 0, 5);
    MUSTER_TRY(muster_worker_group_begin(w, NULL));
    VALUES_REFUSED(case_begin(w, 0, &c), MUSTER_BAD_STATE, "muster_worker_all_reduce: communicator: expected no open group");
    MUSTER_TRY(muster_worker_group_end(w, NULL));
    muster_tensor other;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, (const int64_t[]){6}, &other));
    VALUES_REFUSED(mst_worker_all_reduce_begin(w, NULL, MUSTER_SUM, c.in, other), MUSTER_SHAPE_MISMATCH,
                   "muster_worker_all_reduce: output");
    MUSTER_TRY(case_begin(w, 0, &c));
    MUSTER_TRY(case_run(w, 0, &c));
    return case_check(w, &c);
}

static void a_begin_in_a_group_and_wrong_arguments_are_refused(void **state) {
    (void)state;
    values_run_on_all(begins_in_a_group, NULL, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_begun_gives_the_same_bits),
        cmocka_unit_test(several_begin_and_other_work_goes_on),
        cmocka_unit_test(the_run_after_a_failure_is_right),
        cmocka_unit_test(a_begin_in_a_group_and_wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What does not travel in the wire dtype although there is one: maxima, f64, and the sums of a
 * graph, which are exact for all ranks where they are for one. And where rounded sums of parameters
 * go. */
#include "base_check.h"
#include "collectives_spans.h"

#include <math.h>
#include <stdlib.h>

static const char *const names[] = {NULL, "naive", "flat", "hierarchical", "two_dimensional", "non_cuda_aware"};
enum { NAMES = sizeof names / sizeof *names };
/* Inside an arrival, in one round, in several. */
static const int64_t counts[] = {1, 5, 1024, 2048, 2049, 300001};
enum { COUNTS = sizeof counts / sizeof *counts };

typedef enum { MAXIMUM, PRODUCT, F64, EXACT, ONE_IS_EXACT, ROUNDED, KINDS } kind;
typedef struct one_case {
    kind kind;
    int64_t count;
} one_case;

/* f32 has it, no half does. All ranks bring the same, so that an average is the value itself. */
static double value(void) { return 1 + ldexp(1, -20); }

static muster_status enter(muster_worker *w, kind k, muster_tensor x) {
    if (k == MAXIMUM || k == PRODUCT) return muster_worker_all_reduce(w, NULL, k == MAXIMUM ? MUSTER_MAX : MUSTER_PROD, x, x);
    mst_worker_set_exact(w, k == EXACT || (k == ONE_IS_EXACT && spans_rank(w) == 1));
    const muster_status status = muster_worker_all_reduce(w, NULL, MUSTER_AVG, x, x);
    mst_worker_set_exact(w, false);
    return status;
}

static muster_status task(muster_worker *w, void *argument) {
    const one_case *c = argument;
    const muster_dtype dtype = c->kind == F64 ? MUSTER_F64 : MUSTER_F32;
    /* of a product rank 0 has the value, and the others 1 */
    const double mine = c->kind == PRODUCT && spans_rank(w) ? 1 : value(), expected = c->kind == ROUNDED ? 1 : value();
    mst_worker_scratch_rewind(w);
    muster_tensor x;
    MUSTER_TRY(muster_worker_scratch(w, dtype, 1, &c->count, &x));
    MUSTER_TRY(muster_fill(w, mine, x));
    MUSTER_TRY(enter(w, c->kind, x));
    for (int64_t i = 0; i < c->count; i++) {
        const double got =
            dtype == MUSTER_F64 ? ((const double *)muster_tensor_address(x))[i] : ((const float *)muster_tensor_address(x))[i];
        if (got != expected)
            return mst_error(MUSTER_USER, "kind %d, %lld elements: rank %d has %.12g", (int)c->kind, (long long)c->count, spans_rank(w),
                             got);
    }
    return MUSTER_OK;
}

static void check_layout(const int32_t *ranks, int32_t processes, const char *name, int32_t *cases) {
    spans_launch launch;
    spans_open(&launch, &(spans_options){.counts = ranks, .processes = processes, .algorithm = name, .wire_dtype = MUSTER_BF16});
    for (kind k = 0; k < KINDS; k++)
        for (int32_t n = 0; n < COUNTS; n++, ++*cases) assert_ok(spans_run(&launch, task, &(one_case){k, counts[n]}));
    spans_close(&launch);
}

static void test_only_sums_of_floats_are_rounded(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t n = 0; n < NAMES; n++) {
        check_layout((const int32_t[]){1, 1}, 2, names[n], &cases);
        check_layout((const int32_t[]){2, 2}, 2, names[n], &cases);
    }
    assert_int_equal(cases, 2 * NAMES * KINDS * COUNTS);
}

/* ---- rounded sums in parameters ---- */

/* The gradients and their sums are integers up to 244, which bf16 has, and differ from element to
 * element. */
static muster_status update(muster_worker *w, void *argument) {
    const int64_t *count = argument;
    muster_tensor gradient, parameter;
    mst_worker_scratch_rewind(w);
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, count, &gradient));
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F32, 1, count, &parameter));
    float *from = muster_tensor_address(gradient), *to = muster_tensor_address(parameter);
    for (int64_t i = 0; i < *count; i++) {
        from[i] = (float)(i % 61);
        to[i] = (float)(i % 7);
    }
    MUSTER_TRY(muster_worker_all_reduce_axpy(w, NULL, 1, gradient, parameter));
    for (int64_t i = 0; i < *count; i++)
        if (to[i] != (float)(i % 7 + spans_size(w) * (i % 61)))
            return mst_error(MUSTER_USER, "%lld elements: rank %d has %g at %lld", (long long)*count, spans_rank(w), (double)to[i],
                             (long long)i);
    return MUSTER_OK;
}

static void test_each_element_of_a_parameter_takes_its_sum(void **state) {
    (void)state;
    int32_t cases = 0;
    for (int32_t n = 0; n < NAMES; n++) {
        spans_launch launch;
        spans_open(&launch,
                   &(spans_options){.counts = (const int32_t[]){2, 2}, .processes = 2, .algorithm = names[n], .wire_dtype = MUSTER_BF16});
        for (int32_t i = 0; i < COUNTS; i++, cases++) {
            int64_t count = counts[i];
            assert_ok(spans_run(&launch, update, &count));
        }
        spans_close(&launch);
    }
    assert_int_equal(cases, NAMES * COUNTS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_sums_of_floats_are_rounded),
        cmocka_unit_test(test_each_element_of_a_parameter_takes_its_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

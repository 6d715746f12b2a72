/* What a task can ask of its worker. */
#include "scheduler_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <cmocka.h>

typedef muster_status (*single_task)(muster_worker *worker, void *argument);

static void run_alone(single_task task, void *argument, muster_status expected) {
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    assert_int_equal(mst_pool_run(pool, task, argument), expected);
    mst_pool_destroy(pool);
    assert_int_equal(plain_live(), 0);
}

static muster_status view_task(muster_worker *worker, void *argument) {
    (void)argument;
    bool right = muster_worker_size(worker) == 3 && muster_worker_rank(worker) == worker->rank && muster_worker_cancelled(worker) == 0 &&
                 strcmp(muster_worker_backend(worker), "plain") == 0;
    return right ? MUSTER_OK : muster_fail(MUSTER_USER, "wrong view");
}

static void a_worker_knows_its_place_and_its_backend(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(3, 0, -1, -1);
    assert_int_equal(mst_pool_run(pool, view_task, NULL), MUSTER_OK);
    mst_pool_destroy(pool);
}

static muster_status scratch_task(muster_worker *worker, void *argument) {
    (void)argument;
    int64_t shape[2] = {100, 70};
    muster_tensor tensors[20];
    for (int32_t i = 0; i < 20; i++) {
        MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 2, shape, &tensors[i]));
        if (tensors[i].dtype != MUSTER_F32 || tensors[i].ndim != 2 || tensors[i].device != worker->rank)
            return muster_fail(MUSTER_USER, "wrong tensor");
        if ((uintptr_t)muster_tensor_address(tensors[i]) % 64 != 0) return muster_fail(MUSTER_USER, "not aligned");
        memset(muster_tensor_address(tensors[i]), i, 28000);
    }
    for (int32_t i = 0; i < 20; i++) {
        const unsigned char *bytes = muster_tensor_address(tensors[i]);
        for (int32_t j = 0; j < 28000; j++) {
            if (bytes[j] != i) return muster_fail(MUSTER_USER, "overlapping scratch");
        }
    }
    return MUSTER_OK;
}

static void a_repeated_run_allocates_no_scratch(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(3, 0, -1, -1);
    assert_int_equal(mst_pool_run(pool, scratch_task, NULL), MUSTER_OK);
    int64_t device = plain_allocations(), host = mst_memory_count();
    for (int32_t i = 0; i < 5; i++) assert_int_equal(mst_pool_run(pool, scratch_task, NULL), MUSTER_OK);
    assert_int_equal(plain_allocations(), device);
    assert_int_equal(mst_memory_count(), host);
    mst_pool_destroy(pool);
    assert_int_equal(plain_live(), 0);
}

static unsigned char *take_scratch(muster_worker *worker, int64_t bytes) {
    muster_tensor scratch;
    assert_int_equal(muster_worker_scratch(worker, MUSTER_U8, 1, &bytes, &scratch), MUSTER_OK);
    return muster_tensor_address(scratch);
}

/* Rounds that take more than a block give it back, and find the same memory; what was taken before
 * the mark keeps its bytes. */
static muster_status release_task(muster_worker *worker, void *argument) {
    const int64_t allocations = plain_allocations();
    int64_t *grown = argument;
    unsigned char *before = take_scratch(worker, 1000), *first = NULL;
    const int64_t mark = muster_worker_scratch_mark(worker);
    memset(before, 7, 1000);
    for (int32_t round = 0; round < 100; round++) {
        unsigned char *small = take_scratch(worker, 100), *large = take_scratch(worker, 1 << 20);
        memset(small, round, 100);
        memset(large, round, 1 << 20);
        if (round == 0) first = small;
        assert_ptr_equal(small, first);
        assert_int_equal(small[99], round);
        const int64_t inner = muster_worker_scratch_mark(worker);
        take_scratch(worker, 1 << 16);
        assert_int_equal(muster_worker_scratch_release(worker, inner), MUSTER_OK);
        assert_int_equal(muster_worker_scratch_mark(worker), inner);
        assert_int_equal(muster_worker_scratch_release(worker, mark), MUSTER_OK);
    }
    for (int32_t i = 0; i < 1000; i++) assert_int_equal(before[i], 7);
    *grown = plain_allocations() - allocations;
    assert_int_equal(muster_worker_scratch_release(worker, 0), MUSTER_OK);
    assert_ptr_equal(take_scratch(worker, 8), before);
    return MUSTER_OK;
}

static void scratch_is_given_back_to_a_mark(void **state) {
    (void)state;
    int64_t grown = 0;
    run_alone(release_task, &grown, MUSTER_OK);
    assert_int_equal(grown, 3); /* a block for the first requests, one for the large one, one behind it */
}

static muster_status refuse_marks_task(muster_worker *worker, void *argument) {
    (void)argument;
    assert_int_equal(muster_worker_scratch_mark(worker), 0);
    take_scratch(worker, 100);
    const int64_t mark = muster_worker_scratch_mark(worker), wrong[] = {-1, INT64_MIN, 1, mark - 1, mark + 1, mark + 64, INT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(muster_worker_scratch_release(worker, wrong[i]), MUSTER_INVALID_ARGUMENT);
        assert_non_null(strstr(muster_last_error(), "muster_worker_scratch_release: mark: expected one of this run, of at most 128 bytes"));
    }
    assert_int_equal(muster_worker_scratch_mark(worker), mark);
    assert_int_equal(muster_worker_scratch_release(worker, 0), MUSTER_OK);
    assert_int_equal(muster_worker_scratch_release(worker, mark), MUSTER_INVALID_ARGUMENT); /* given back already */
    return MUSTER_OK;
}

#ifdef __SANITIZE_ADDRESS__
static bool may_use(const unsigned char *at) { return !__asan_address_is_poisoned(at); }

static muster_status forbidden_task(muster_worker *worker, void *argument) {
    const unsigned char *kept = take_scratch(worker, 3);
    const int64_t mark = muster_worker_scratch_mark(worker);
    const unsigned char *other = take_scratch(worker, 64);
    assert_true(may_use(kept) && may_use(kept + 2) && !may_use(kept + 3) && !may_use(kept + 63));
    assert_true(may_use(other) && may_use(other + 63) && !may_use(other + 64));
    assert_int_equal(muster_worker_scratch_release(worker, mark), MUSTER_OK);
    assert_true(may_use(kept + 2) && !may_use(other) && !may_use(other + 63));
    assert_ptr_equal(take_scratch(worker, 1), other);
    assert_true(may_use(other) && !may_use(other + 1));
    *(const unsigned char **)argument = other;
    return MUSTER_OK;
}

static void scratch_that_nobody_asked_for_is_forbidden_under_a_sanitizer(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    const unsigned char *last = NULL;
    assert_int_equal(mst_pool_run(pool, forbidden_task, &last), MUSTER_OK);
    assert_non_null(last);
    assert_false(may_use(last)); /* after its run */
    mst_pool_destroy(pool);
}
#endif

static void marks_that_are_none_are_refused(void **state) {
    (void)state;
    run_alone(refuse_marks_task, NULL, MUSTER_OK);
    assert_int_equal(muster_worker_scratch_mark(NULL), -1);
    assert_int_equal(muster_worker_scratch_release(NULL, 0), MUSTER_INVALID_ARGUMENT);
}

static muster_status bad_scratch_task(muster_worker *worker, void *argument) {
    (void)argument;
    muster_tensor none;
    float value = 0;
    if (muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){2, -1}, &none) != MUSTER_INVALID_ARGUMENT ||
        none.dtype != MUSTER_DTYPE_NONE || worker->scratch_status != MUSTER_INVALID_ARGUMENT)
        return muster_fail(MUSTER_INTERNAL, "accepted");
    return muster_worker_read(worker, none, muster_f32(&value));
}

static void a_failed_request_fails_what_uses_it(void **state) {
    (void)state;
    run_alone(bad_scratch_task, NULL, MUSTER_INVALID_ARGUMENT);
    assert_string_equal(muster_last_error(), "muster_worker_scratch: shape[1]: expected 0 or more, received -1");
}

typedef struct request {
    muster_dtype dtype;
    int32_t ndim;
    int64_t shape[2];
} request;

static muster_status request_task(muster_worker *worker, void *argument) {
    request *r = argument;
    muster_tensor scratch = muster_tensor_make(MUSTER_U8, r, 0, NULL);
    const muster_status status = muster_worker_scratch(worker, r->dtype, r->ndim, r->shape, &scratch);
    assert_int_equal(scratch.dtype, status == MUSTER_OK ? r->dtype : MUSTER_DTYPE_NONE);
    return status;
}

static void sizes_that_cannot_be_are_refused(void **state) {
    (void)state;
    run_alone(request_task, &(request){MUSTER_F64, 2, {INT64_MAX / 4, 2}}, MUSTER_OVERFLOW);
    run_alone(request_task, &(request){MUSTER_U8, 1, {INT64_MAX}}, MUSTER_OVERFLOW);
    run_alone(request_task, &(request){MUSTER_F32, 9, {1, 1}}, MUSTER_INVALID_ARGUMENT);
    run_alone(request_task, &(request){99, 1, {1}}, MUSTER_INVALID_ARGUMENT);
    run_alone(request_task, &(request){MUSTER_F32, 2, {0, INT64_MAX}}, MUSTER_OK);
    plain_fail_allocations(true);
    run_alone(request_task, &(request){MUSTER_F32, 1, {10}}, MUSTER_OUT_OF_MEMORY);
    plain_fail_allocations(false);
}

static muster_status copy_task(muster_worker *worker, void *argument) {
    float *values = argument, back[6] = {0};
    muster_tensor there;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){2, 3}, &there));
    MUSTER_TRY(muster_worker_write(worker, muster_f32(values, 6), there));
    MUSTER_TRY(muster_worker_read(worker, there, muster_f32(back, 3, 2)));
    return memcmp(values, back, sizeof(back)) == 0 ? MUSTER_OK : muster_fail(MUSTER_USER, "values changed");
}

static void values_go_to_the_device_and_back(void **state) {
    (void)state;
    float values[6] = {1, 2, 3, 4, 5, 6};
    run_alone(copy_task, values, MUSTER_OK);
}

static muster_status mismatch_task(muster_worker *worker, void *argument) {
    muster_tensor host = *(muster_tensor *)argument, scratch;
    MUSTER_TRY(muster_worker_scratch(worker, MUSTER_F32, 2, (int64_t[]){2, 3}, &scratch));
    return muster_worker_read(worker, scratch, host);
}

static void copies_that_do_not_fit_are_refused(void **state) {
    (void)state;
    double values[8] = {0};
    muster_tensor wide = muster_tensor_make(MUSTER_F64, values, 2, (int64_t[]){2, 3}), few = muster_f32((void *)values, 5);
    muster_tensor turned = muster_tensor_transpose(muster_tensor_make(MUSTER_F32, values, 2, (int64_t[]){3, 2})),
                  away = muster_f32((void *)values, 6);
    away.device = 1;
    run_alone(mismatch_task, &wide, MUSTER_DTYPE_MISMATCH);
    assert_non_null(strstr(muster_last_error(), "muster_worker_read: host_tensor: expected f32"));
    run_alone(mismatch_task, &few, MUSTER_SHAPE_MISMATCH);
    run_alone(mismatch_task, &turned, MUSTER_UNSUPPORTED);
    run_alone(mismatch_task, &away, MUSTER_INVALID_ARGUMENT);
}

typedef struct noted_hook {
    mst_exit_hook hook; /* first */
    muster_status status;
    struct noted_hook *adds; /* another hook, which this one adds; NULL: none */
    int32_t place;           /* in the order in which the hooks ran; 0: has not run */
} noted_hook;

static int32_t hooks_run;
static bool task_returned;

static muster_status note_hook(muster_worker *worker, mst_exit_hook *hook) {
    noted_hook *noted = (noted_hook *)hook;
    if (!task_returned || mst_current_worker() != worker || noted->place != 0) return muster_fail(MUSTER_INTERNAL, "not at the end");
    noted->place = ++hooks_run;
    if (noted->adds) mst_worker_add_exit_hook(worker, &noted->adds->hook);
    return noted->status == MUSTER_OK ? MUSTER_OK : muster_fail(noted->status, "the hook");
}

/* The last of the four is added by the third. */
static muster_status hooks_task(muster_worker *worker, void *argument) {
    noted_hook *hooks = argument;
    for (int32_t i = 0; i < 3; i++) mst_worker_add_exit_hook(worker, &hooks[i].hook);
    task_returned = true;
    return MUSTER_OK;
}

static muster_status hooks_then_failure_task(muster_worker *worker, void *argument) {
    MUSTER_TRY(hooks_task(worker, argument));
    return muster_fail(MUSTER_USER, "the task");
}

static void run_hooks(mst_pool *pool, single_task task, muster_status hook_status, muster_status expected) {
    noted_hook hooks[4] = {{.hook.run = note_hook}, {.hook.run = note_hook}, {.hook.run = note_hook}, {.hook.run = note_hook}};
    hooks[1].status = hook_status;
    hooks[2].adds = &hooks[3];
    hooks_run = 0;
    task_returned = false;
    assert_int_equal(mst_pool_run(pool, task, hooks), expected);
    static const int32_t places[] = {4, 3, 1, 2};
    for (int32_t i = 0; i < 4; i++) assert_int_equal(hooks[i].place, places[i]);
}

static muster_status nothing_task(muster_worker *worker, void *argument) {
    (void)worker, (void)argument;
    return MUSTER_OK;
}

static void every_exit_hook_of_a_run_runs_once_after_its_task(void **state) {
    (void)state;
    mst_pool *pool = plain_pool(1, 0, -1, -1);
    run_hooks(pool, hooks_task, MUSTER_OK, MUSTER_OK);
    assert_int_equal(mst_pool_run(pool, nothing_task, NULL), MUSTER_OK);
    assert_int_equal(hooks_run, 4);
    run_hooks(pool, hooks_task, MUSTER_USER, MUSTER_USER);
    assert_string_equal(muster_last_error(), "the hook");
    run_hooks(pool, hooks_then_failure_task, MUSTER_TIMEOUT, MUSTER_USER);
    assert_string_equal(muster_last_error(), "the task");
    mst_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_knows_its_place_and_its_backend),
        cmocka_unit_test(a_repeated_run_allocates_no_scratch),
        cmocka_unit_test(scratch_is_given_back_to_a_mark),
#ifdef __SANITIZE_ADDRESS__
        cmocka_unit_test(scratch_that_nobody_asked_for_is_forbidden_under_a_sanitizer),
#endif
        cmocka_unit_test(marks_that_are_none_are_refused),
        cmocka_unit_test(a_failed_request_fails_what_uses_it),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(values_go_to_the_device_and_back),
        cmocka_unit_test(copies_that_do_not_fit_are_refused),
        cmocka_unit_test(every_exit_hook_of_a_run_runs_once_after_its_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A child of fork opens a runtime of its own, whatever its parent has open. */
#include "base_skip.h"
#include "embedding.h"

#include <stdio.h>
#include <sys/wait.h>

typedef enum { PARENT_NEVER, PARENT_CLOSED, PARENT_OPEN, PARENTS } parent;

static void use_all(embedded *e) {
    embedded_open(e);
    embedded_call(e);
    embedded_server(e);
    embedded_reports(e);
}

/* An assertion that fails here ends the child with another status. */
static void be_child(parent how, embedded *of_parent, muster_function *f) {
    embedded own;
    if (how == PARENT_OPEN) {
        muster_variable *v;
        float x = 1;
        assert_refused(muster_function_call(f, NULL, 0, NULL, 0, NULL), MUSTER_BAD_STATE, "before fork");
        assert_refused(muster_variable_create(of_parent->runtime, "w", muster_f32(&x, 1), &v), MUSTER_BAD_STATE, "before fork");
        assert_refused(muster_runtime_dump(of_parent->runtime, 1), MUSTER_BAD_STATE, "before fork");
    }
    use_all(&own);
    if (how == PARENT_OPEN) assert_ok(muster_runtime_close(of_parent->runtime));
    embedded_call(&own);
    embedded_close(&own);
    use_all(&own);
    embedded_close(&own);
}

static muster_status nothing(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}

static void a_child_has_runtimes_of_its_own(parent how) {
    embedded e = {0};
    muster_function *f = NULL;
    int result;
    if (how != PARENT_NEVER) {
        use_all(&e);
        assert_ok(muster_function_create(e.runtime, "nothing", nothing, NULL, &f));
        assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    }
    if (how == PARENT_CLOSED) embedded_close(&e);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        be_child(how, &e, f);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    if (how != PARENT_OPEN) return;
    assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    embedded_call(&e);
    embedded_close(&e);
}

static void before_any_runtime(void **state) {
    (void)state;
    a_child_has_runtimes_of_its_own(PARENT_NEVER);
}

static void after_a_runtime_was_closed(void **state) {
    (void)state;
    a_child_has_runtimes_of_its_own(PARENT_CLOSED);
}

static void while_a_runtime_is_open(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    SKIP("ThreadSanitizer ends a child that starts threads if its parent had threads");
#endif
    a_child_has_runtimes_of_its_own(PARENT_OPEN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_any_runtime),
        cmocka_unit_test(after_a_runtime_was_closed),
        cmocka_unit_test(while_a_runtime_is_open),
    };
    assert_int_equal(sizeof tests / sizeof *tests, PARENTS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

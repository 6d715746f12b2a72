/* Names of objects and steps: how long they live, and how many steps it takes to find them. */
#include "base_check.h"
#include "memory_impl.h"
#include "object_names_private.h"

#include <stdio.h>
#include <string.h>

enum { RING = 16, LIVE = 20000, CHURN = 4000 };

/* The least ring, so that names without users are few. */
static muster_runtime *open_ring(int32_t events) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = "host:1";
    options.recorder_events = events;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static void add(muster_runtime *runtime, mst_object *object, const char *kind, int number) {
    char name[32];
    snprintf(name, sizeof name, "layer.%d.weight", number);
    *object = (mst_object){0};
    assert_ok(mst_runtime_add(runtime, object, kind, name, "test"));
    assert_string_equal(object->name, name);
}

static int64_t unused(const muster_runtime *runtime) { return runtime->object_names.unused; }
static int64_t compared(const muster_runtime *runtime) { return runtime->object_names.compared; }

/* A name is looked for among those of its slot, of which there are at least as many as names. */
static void the_last_of_many_names_is_found_in_as_few_steps_as_the_first(void **state) {
    (void)state;
    static mst_object objects[LIVE];
    muster_runtime *runtime = open_ring(RING);
    for (int i = 0; i < LIVE; i++) add(runtime, &objects[i], "variable", i);
    assert_true(compared(runtime) < 2 * LIVE);
    const int64_t before = compared(runtime);
    for (int i = 0; i < LIVE; i++) {
        char name[32];
        mst_object *found = NULL;
        snprintf(name, sizeof name, "layer.%d.weight", i);
        assert_ok(mst_runtime_find_object(runtime, "variable", name, "test", &found));
        assert_ptr_equal(found, &objects[i]);
    }
    assert_true(compared(runtime) - before >= LIVE && compared(runtime) - before < 3 * LIVE);
    for (int i = 0; i < LIVE; i++) mst_runtime_remove(&objects[i]); /* the oldest first */
    assert_null(runtime->objects);
    assert_int_equal(runtime->object_names.used, 0);
    assert_ok(muster_runtime_close(runtime));
}

static void add_and_remove(muster_runtime *runtime, int number) {
    mst_object object;
    add(runtime, &object, "function", number);
    mst_runtime_remove(&object);
    assert_null(object.name);
}

static void names_end_with_their_objects(void **state) {
    (void)state;
    muster_runtime *runtime = open_ring(RING);
    for (int i = 0; i < CHURN / 2; i++) add_and_remove(runtime, i);
    const int64_t live = mst_memory_live(), before = compared(runtime);
    for (int i = CHURN / 2; i < CHURN; i++) add_and_remove(runtime, i);
    assert_true(mst_memory_live() - live <= RING + 64);
    assert_true(compared(runtime) - before < 3 * CHURN);
    assert_true(unused(runtime) <= RING + 64);
    assert_ok(muster_runtime_close(runtime));
}

static int shown;
static void count_line(void *user, const char *text) { shown += strcmp(text, user) == 0; }

static void a_name_that_a_recorder_shows_stays(void **state) {
    (void)state;
    muster_runtime *runtime = open_ring(RING);
    mst_recorder *recorder = &mst_pool_worker(runtime->pool, 0)->recorder;
    mst_object object;
    add(runtime, &object, "function", -1);
    const char *name = object.name;
    mst_record_begin(recorder, MST_EVENT_CALL, name, 1, 0);
    mst_runtime_remove(&object);
    for (int i = 0; i < CHURN; i++) add_and_remove(runtime, i);
    shown = 0;
    mst_recorder_each_name(recorder, count_line, "layer.-1.weight");
    assert_int_equal(shown, 1);
    add(runtime, &object, "variable", -1); /* the same string serves again */
    assert_ptr_equal(object.name, name);
    mst_runtime_remove(&object);
    for (int i = 0; i <= RING; i++) mst_record_begin(recorder, MST_EVENT_CALL, "another", 1, 0);
    for (int i = 0; i < CHURN; i++) add_and_remove(runtime, i);
    assert_null(mst_name_find(runtime, "layer.-1.weight"));
    assert_ok(muster_runtime_close(runtime));
}

static void no_name_is_freed_while_recorders_are_read(void **state) {
    (void)state;
    muster_runtime *runtime = open_ring(RING);
    mst_names_read_begin(runtime);
    for (int i = 0; i < CHURN; i++) add_and_remove(runtime, i);
    assert_int_equal(unused(runtime), CHURN);
    mst_names_read_end(runtime);
    add_and_remove(runtime, CHURN);
    assert_true(unused(runtime) <= RING + 64);
    assert_ok(muster_runtime_close(runtime));
}

/* Two kinds may share a name; kernels may share it among themselves. */
static void the_newest_of_a_name_is_found_whichever_ends_first(void **state) {
    (void)state;
    muster_runtime *runtime = open_ring(RING);
    mst_object kernels[3], other;
    for (int i = 0; i < 3; i++) {
        kernels[i] = (mst_object){0};
        assert_ok(mst_runtime_add_newest(runtime, &kernels[i], "kernel", "same", "test"));
    }
    other = (mst_object){0};
    assert_ok(mst_runtime_add(runtime, &other, "variable", "same", "test"));
    assert_ptr_equal(mst_runtime_look(runtime, "kernel", "same"), &kernels[2]);
    assert_ptr_equal(mst_runtime_look(runtime, "variable", "same"), &other);
    mst_runtime_remove(&kernels[1]);
    assert_ptr_equal(mst_runtime_look(runtime, "kernel", "same"), &kernels[2]);
    mst_runtime_remove(&kernels[2]);
    mst_runtime_remove(&kernels[2]); /* again: nothing */
    assert_ptr_equal(mst_runtime_look(runtime, "kernel", "same"), &kernels[0]);
    mst_runtime_remove(&other);
    assert_null(mst_runtime_look(runtime, "variable", "same"));
    mst_runtime_remove(&kernels[0]);
    assert_null(mst_runtime_look(runtime, "kernel", "same"));
    assert_ok(muster_runtime_close(runtime));
}

static const char *title_of(const void *user, int32_t index) { return ((const char *const *)user)[index]; }

static void names_of_steps_end_with_their_graph_or_their_runtime(void **state) {
    (void)state;
    static const char *const titles[] = {"tanh", "add", "tanh"};
    muster_runtime *runtime = open_ring(RING);
    mst_step_names *first, *second;
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    assert_ok(mst_step_names_make(runtime, "test", 3, title_of, titles, &first));
    assert_ok(mst_step_names_make(runtime, "test", 2, title_of, titles, &second));
    mst_pool_leave(runtime->pool);
    assert_ptr_equal(first->names[0], first->names[2]);
    assert_ptr_equal(first->names[1], second->names[1]);
    assert_int_equal(runtime->object_names.used, 2);
    mst_step_names_free(first);
    assert_int_equal(runtime->object_names.used, 2);
    assert_ok(muster_runtime_close(runtime));
    mst_step_names_free(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_of_many_names_is_found_in_as_few_steps_as_the_first),
        cmocka_unit_test(names_end_with_their_objects),
        cmocka_unit_test(a_name_that_a_recorder_shows_stays),
        cmocka_unit_test(no_name_is_freed_while_recorders_are_read),
        cmocka_unit_test(the_newest_of_a_name_is_found_whichever_ends_first),
        cmocka_unit_test(names_of_steps_end_with_their_graph_or_their_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

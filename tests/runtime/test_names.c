/* Names of devices, the default one, and the device of an operation inferred from its tensors. */
#include "base_check.h"
#include "base_machine.h"
#include "base_skip.h"
#include "device_discrete.h"
#include "runtime_gpus.h"
#include "runtime_impl.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static muster_runtime *open_text(const char *devices) {
    muster_runtime_options options;
    muster_runtime *runtime;
    muster_runtime_options_init(&options);
    options.devices = devices;
    assert_ok(muster_runtime_open(&options, &runtime));
    return runtime;
}

static int32_t found(muster_runtime *runtime, const char *name) {
    int32_t rank = -7;
    assert_ok(muster_runtime_find_device(runtime, name, &rank));
    return rank;
}

static void assert_unknown(muster_runtime *runtime, const char *name, const char *message) {
    int32_t rank = -7;
    assert_refused(muster_runtime_find_device(runtime, name, &rank), MUSTER_INVALID_ARGUMENT, message);
    assert_int_equal(rank, -7);
}

static muster_tensor tensor_on(int32_t rank) {
    static float value;
    muster_tensor tensor = muster_f32(&value);
    tensor.device = rank;
    return tensor;
}

static void a_device_has_its_number_and_its_own_name(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:3");
    assert_int_equal(found(runtime, "0"), 0);
    assert_int_equal(found(runtime, "2"), 2);
    if (!on_gpus()) assert_int_equal(found(runtime, "discrete 1"), 1); /* virtual devices of one GPU have equal names */
    assert_ok(muster_runtime_close(runtime));
}

static void a_device_has_as_many_names_as_it_is_given(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    assert_ok(muster_runtime_name_device(runtime, "left", 0));
    assert_ok(muster_runtime_name_device(runtime, "right", 1));
    assert_ok(muster_runtime_name_device(runtime, "large one", 1));
    assert_ok(muster_runtime_name_device(runtime, "right", 1)); /* again */
    assert_ok(muster_runtime_name_device(runtime, "1", 1));     /* its number */
    assert_int_equal(found(runtime, "left"), 0);
    assert_int_equal(found(runtime, "right"), 1);
    assert_int_equal(found(runtime, "large one"), 1);
    assert_int_equal(found(runtime, "1"), 1);
    assert_ok(muster_runtime_close(runtime));
}

static void two_runtimes_have_names_of_their_own(void **state) {
    (void)state;
    muster_runtime *one = open_text("discrete:2"), *other = open_text("discrete:2");
    assert_ok(muster_runtime_name_device(one, "a", 0));
    assert_ok(muster_runtime_name_device(other, "a", 1));
    assert_int_equal(found(one, "a"), 0);
    assert_int_equal(found(other, "a"), 1);
    assert_ok(muster_runtime_close(one));
    assert_int_equal(found(other, "a"), 1);
    assert_ok(muster_runtime_close(other));
}

static void a_name_of_another_device_is_refused(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: its messages name discrete devices");
    muster_runtime *runtime = open_text("discrete:2");
    assert_ok(muster_runtime_name_device(runtime, "a", 1));
    assert_refused(muster_runtime_name_device(runtime, "a", 0), MUSTER_INVALID_ARGUMENT,
                   "muster_runtime_name_device: name: expected one that no other device has, received 'a' for device 0, which is a name of "
                   "device 1 ('a', 'discrete 1')");
    assert_refused(muster_runtime_name_device(runtime, "1", 0), MUSTER_INVALID_ARGUMENT,
                   "received '1' for device 0, which is a name of device 1");
    assert_refused(muster_runtime_name_device(runtime, "discrete 1", 0), MUSTER_INVALID_ARGUMENT,
                   "received 'discrete 1' for device 0, which is a name of device 1");
    assert_int_equal(found(runtime, "a"), 1);
    assert_ok(muster_runtime_name_device(runtime, "discrete 0", 0));
    assert_int_equal(found(runtime, "discrete 0"), 0);
    assert_ok(muster_runtime_close(runtime));
}

static void names_that_cannot_be_given_are_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    assert_refused(muster_runtime_name_device(runtime, "", 0), MUSTER_INVALID_ARGUMENT,
                   "name: expected a name that is not empty, received \"\"");
    assert_refused(muster_runtime_name_device(runtime, NULL, 0), MUSTER_INVALID_ARGUMENT,
                   "name: expected a name that is not empty, received NULL");
    assert_refused(muster_runtime_name_device(NULL, "a", 0), MUSTER_INVALID_ARGUMENT, "runtime: expected a runtime, received NULL");
    assert_refused(muster_runtime_name_device(runtime, "a", 2), MUSTER_OUT_OF_RANGE,
                   "muster_runtime_name_device: rank: expected 0 to 1, received 2");
    assert_refused(muster_runtime_name_device(runtime, "a", -1), MUSTER_OUT_OF_RANGE, "received -1");
    assert_refused(muster_runtime_name_device(runtime, "7", 1), MUSTER_INVALID_ARGUMENT,
                   "expected a word, since numbers are ranks, received '7'");
    assert_ok(muster_runtime_close(runtime));
}

static void an_unknown_name_is_refused_with_the_list(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: its messages name discrete devices");
    muster_runtime *runtime = open_text("discrete:2");
    assert_ok(muster_runtime_name_device(runtime, "left", 0));
    assert_unknown(
        runtime, "lefr",
        "muster_runtime_find_device: name: expected the name or number of a device, which are 0 ('left', 'discrete 0'), 1 ('discrete 1'), "
        "received 'lefr'");
    assert_unknown(runtime, "2", "received '2'");
    assert_unknown(runtime, "-1", "received '-1'");
    assert_unknown(runtime, "", "name: expected a name that is not empty");
    assert_unknown(NULL, "0", "runtime: expected a runtime, received NULL");
    assert_refused(muster_runtime_find_device(runtime, "0", NULL), MUSTER_INVALID_ARGUMENT,
                   "rank: expected the address of a number, received NULL");
    assert_ok(muster_runtime_close(runtime));
}

static void a_list_that_is_too_long_is_cut(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:24");
    int32_t rank;
    assert_refused(muster_runtime_find_device(runtime, "x", &rank), MUSTER_INVALID_ARGUMENT, "..., received 'x'");
    assert_ok(muster_runtime_close(runtime));
}

/* Several workers on one core, or virtual devices of one GPU. */
static void an_own_name_of_two_devices_is_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text(on_gpus() ? "discrete:3" : "discrete@5+6+5");
    char message[200];
    snprintf(message, sizeof message,
             "expected a name of one device, received '%s', which devices 0 and %d have: give them names, or say the number",
             muster_runtime_device(runtime, 0), on_gpus() ? 1 : 2);
    assert_unknown(runtime, muster_runtime_device(runtime, 0), message);
    assert_ok(muster_runtime_close(runtime));
}

static void the_default_device_is_the_first_until_it_is_set(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:3");
    assert_int_equal(found(runtime, NULL), 0);
    assert_ok(muster_runtime_name_device(runtime, "work", 2));
    assert_ok(muster_runtime_set_default_device(runtime, "work"));
    assert_int_equal(found(runtime, NULL), 2);
    assert_refused(muster_runtime_set_default_device(runtime, "home"), MUSTER_INVALID_ARGUMENT,
                   "muster_runtime_set_default_device: name: expected the name or number");
    assert_refused(muster_runtime_set_default_device(runtime, NULL), MUSTER_INVALID_ARGUMENT,
                   "name: expected the name of a device, received NULL");
    assert_refused(muster_runtime_set_default_device(NULL, "0"), MUSTER_INVALID_ARGUMENT, "runtime: expected a runtime, received NULL");
    assert_int_equal(found(runtime, NULL), 2);
    assert_ok(muster_runtime_set_default_device(runtime, "1"));
    assert_int_equal(found(runtime, NULL), 1);
    assert_ok(muster_runtime_close(runtime));
}

static void the_device_is_that_of_the_tensors(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:3");
    const muster_tensor mixed[] = {tensor_on(MUSTER_DEVICE_HOST), muster_tensor_none(), tensor_on(2), tensor_on(2)};
    int32_t rank = -7;
    assert_ok(muster_runtime_infer_device(runtime, mixed, 4, &rank));
    assert_int_equal(rank, 2);
    assert_ok(muster_runtime_infer_device(runtime, mixed, 2, &rank)); /* on none */
    assert_int_equal(rank, 0);
    assert_ok(muster_runtime_set_default_device(runtime, "1"));
    assert_ok(muster_runtime_infer_device(runtime, mixed, 2, &rank));
    assert_int_equal(rank, 1);
    assert_ok(muster_runtime_infer_device(runtime, NULL, 0, &rank));
    assert_int_equal(rank, 1);
    assert_ok(muster_runtime_infer_device(runtime, mixed, 3, &rank)); /* the default does not matter */
    assert_int_equal(rank, 2);
    assert_ok(muster_runtime_close(runtime));
}

static void tensors_on_two_devices_are_refused_with_both_names(void **state) {
    (void)state;
    if (on_gpus()) SKIP("not on GPUs: its messages name discrete devices");
    muster_runtime *runtime = open_text("discrete:3");
    const muster_tensor tensors[] = {muster_tensor_none(), tensor_on(2), tensor_on(0)};
    int32_t rank = -7;
    assert_ok(muster_runtime_name_device(runtime, "big", 2));
    assert_refused(
        muster_runtime_infer_device(runtime, tensors, 3, &rank), MUSTER_INVALID_ARGUMENT,
        "muster_runtime_infer_device: tensors[2]: expected one on device 2 ('big', 'discrete 2'), where tensors[1] is, received one "
        "on device 0 ('discrete 0'); "
        "muster_runtime_tensor_copy copies it to a tensor there");
    assert_int_equal(rank, -7);
    assert_ok(muster_runtime_close(runtime));
}

static void what_infer_cannot_read_is_refused(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    const muster_tensor beyond = tensor_on(2), before = tensor_on(-2);
    int32_t rank;
    assert_refused(muster_runtime_infer_device(runtime, &beyond, 1, &rank), MUSTER_INVALID_ARGUMENT,
                   "tensors[0]: expected memory of the host or of a device from 0 to 1, received device 2");
    assert_refused(muster_runtime_infer_device(runtime, &before, 1, &rank), MUSTER_INVALID_ARGUMENT, "received device -2");
    assert_refused(muster_runtime_infer_device(runtime, NULL, 1, &rank), MUSTER_INVALID_ARGUMENT,
                   "tensors: expected 1 tensors, received NULL");
    assert_refused(muster_runtime_infer_device(runtime, NULL, -1, &rank), MUSTER_INVALID_ARGUMENT,
                   "count: expected 0 or more, received -1");
    assert_refused(muster_runtime_infer_device(runtime, &beyond, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "rank: expected the address of a number, received NULL");
    assert_refused(muster_runtime_infer_device(NULL, &beyond, 1, &rank), MUSTER_INVALID_ARGUMENT,
                   "runtime: expected a runtime, received NULL");
    assert_ok(muster_runtime_close(runtime));
}

static muster_status ask_inside(muster_worker *worker, void *argument) {
    int32_t rank = -1;
    MUSTER_TRY(muster_runtime_find_device(argument, "here", &rank));
    return rank == 1 && muster_worker_rank(worker) >= 0 ? MUSTER_OK : MUSTER_USER;
}

static void names_are_known_inside_a_body(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    assert_ok(muster_runtime_name_device(runtime, "here", 1));
    assert_ok(mst_pool_enter(runtime->pool, "test", 0));
    assert_ok(mst_pool_run(runtime->pool, ask_inside, runtime));
    mst_pool_leave(runtime->pool);
    assert_ok(muster_runtime_close(runtime));
}

static void a_child_has_no_names(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("discrete:2");
    const pid_t child = fork();
    if (child == 0) {
        int32_t rank;
        const bool refused = muster_runtime_find_device(runtime, "0", &rank) == MUSTER_BAD_STATE &&
                             muster_runtime_name_device(runtime, "a", 0) == MUSTER_BAD_STATE &&
                             muster_runtime_infer_device(runtime, NULL, 0, &rank) == MUSTER_BAD_STATE &&
                             strstr(muster_last_error(), "fork");
        _exit(refused ? 0 : 1);
    }
    int outcome;
    waitpid(child, &outcome, 0);
    assert_int_equal(outcome, 0);
    assert_ok(muster_runtime_close(runtime));
}

static void a_name_for_which_there_is_no_memory_is_not_given(void **state) {
    (void)state;
    muster_runtime *runtime = open_text("host:2");
    mst_memory_fail_at(1);
    const muster_status status = muster_runtime_name_device(runtime, "a", 1);
    mst_memory_fail_at(0);
    assert_refused(status, MUSTER_OUT_OF_MEMORY, "muster_runtime_name_device: out of memory");
    int32_t rank;
    assert_int_equal(muster_runtime_find_device(runtime, "a", &rank), MUSTER_INVALID_ARGUMENT);
    assert_ok(muster_runtime_name_device(runtime, "a", 0));
    assert_int_equal(found(runtime, "a"), 0);
    assert_ok(muster_runtime_close(runtime));
}

typedef struct naming {
    muster_runtime *runtime;
    int32_t number;
} naming;

static void *name_many(void *argument) {
    const naming *n = argument;
    for (int32_t i = 0; i < 50; i++) {
        char name[32];
        int32_t rank;
        snprintf(name, sizeof name, "thread %d name %d", (int)n->number, (int)i);
        if (muster_runtime_name_device(n->runtime, name, i % 2) != MUSTER_OK) return "not named";
        if (muster_runtime_find_device(n->runtime, name, &rank) != MUSTER_OK || rank != i % 2) return "not found";
        if (muster_runtime_find_device(n->runtime, NULL, &rank) != MUSTER_OK) return "no default";
        if (muster_runtime_set_default_device(n->runtime, name) != MUSTER_OK) return "not set";
    }
    return NULL;
}

static void several_threads_name_devices(void **state) {
    (void)state;
    enum { THREADS = 4 };
    muster_runtime *runtime = open_text("host:2");
    pthread_t threads[THREADS];
    naming n[THREADS];
    for (int32_t i = 0; i < THREADS; i++) {
        n[i] = (naming){runtime, i};
        assert_int_equal(pthread_create(&threads[i], NULL, name_many, &n[i]), 0);
    }
    for (int32_t i = 0; i < THREADS; i++) {
        void *complaint;
        pthread_join(threads[i], &complaint);
        assert_null(complaint);
    }
    assert_int_equal(found(runtime, "thread 3 name 49"), 1);
    assert_ok(muster_runtime_close(runtime));
}

/* A caller that was compiled with a header of fewer fields, or of more. */
static void options_of_another_size_are_not_written_beyond(void **state) {
    (void)state;
    struct {
        muster_runtime_options options;
        char more[64];
    } room;
    memset(&room, 0x5A, sizeof room);
    muster_runtime_options_init_sized(&room.options, offsetof(muster_runtime_options, log));
    assert_int_equal(room.options.struct_size, offsetof(muster_runtime_options, log));
    assert_null(room.options.devices);
    assert_int_equal(((unsigned char *)&room)[offsetof(muster_runtime_options, log)], 0x5A);
    muster_runtime_options_init_sized(&room.options, sizeof room);
    assert_int_equal(room.options.struct_size, sizeof room);
    assert_int_equal(room.more[63], 0);
    memset(&room, 0x5A, sizeof room);
    muster_runtime_options_init_sized(&room.options, 3); /* no struct_size in it */
    assert_int_equal(((unsigned char *)&room)[0], 0x5A);
    muster_runtime_options_init_sized(NULL, sizeof room.options);
    muster_runtime_options_init(&room.options);
    assert_int_equal(room.options.struct_size, sizeof room.options);
    assert_int_equal(room.more[0], 0x5A);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_has_its_number_and_its_own_name),
        cmocka_unit_test(a_device_has_as_many_names_as_it_is_given),
        cmocka_unit_test(two_runtimes_have_names_of_their_own),
        cmocka_unit_test(a_name_of_another_device_is_refused),
        cmocka_unit_test(names_that_cannot_be_given_are_refused),
        cmocka_unit_test(an_unknown_name_is_refused_with_the_list),
        cmocka_unit_test(a_list_that_is_too_long_is_cut),
        cmocka_unit_test(an_own_name_of_two_devices_is_refused),
        cmocka_unit_test(the_default_device_is_the_first_until_it_is_set),
        cmocka_unit_test(the_device_is_that_of_the_tensors),
        cmocka_unit_test(tensors_on_two_devices_are_refused_with_both_names),
        cmocka_unit_test(what_infer_cannot_read_is_refused),
        cmocka_unit_test(names_are_known_inside_a_body),
        cmocka_unit_test(a_child_has_no_names),
        cmocka_unit_test(a_name_for_which_there_is_no_memory_is_not_given),
        cmocka_unit_test(several_threads_name_devices),
        cmocka_unit_test(options_of_another_size_are_not_written_beyond),
    };
    assert_ok(mst_discrete_register());
    return cmocka_run_group_tests(tests, NULL, NULL);
}

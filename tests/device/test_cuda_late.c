/* Kernels that are compiled and loaded at their first launch. contract.cu is such a family here,
 * with two kernels. */
#include "cuda_fixture.h"
#include "device_contract.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

static int add_contract(void **state) {
    (void)state;
    contract_add_late();
    return 0;
}

/* The only device of its runtime: it compiles no kernels between devices when it opens. */
static mst_device *opened_alone(const char *id) {
    mst_device *device = NULL;
    const mst_device_settings settings = {.alone = true};
    assert_ok(mst_cuda_device_table.hardware->open_with(id, &settings, &device));
    return device;
}

static int begin_late_test(void **state) {
    new_machine(&(muster_sim_options){.devices = 2, .longest_delay = 100, .seed = 7});
    *state = opened_alone("0");
    return 0;
}

#define LATE_CASE(test) cmocka_unit_test_setup_teardown(test, begin_late_test, end_test)

/* Launches contract_scale once on `count` elements, and checks what it has written. */
static muster_status scale_once(mst_device *device) {
    enum { COUNT = 1000 };
    float values[COUNT];
    void *place = allocated(device, sizeof values);
    for (int i = 0; i < COUNT; i++) values[i] = (float)i;
    assert_ok(device->memory->copy_in(device, place, values, sizeof values));
    const muster_status status = contract_launch_scale(device, place, place, COUNT, 3);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (status == MUSTER_OK) {
        assert_ok(device->memory->copy_out(device, values, place, sizeof values));
        assert_ok(device->table->synchronize(device));
        for (int i = 0; i < COUNT; i++) assert_true(values[i] == 3 * (float)i);
    }
    device->memory->release(device, place);
    return mst_error_restore(status, message);
}

static void open_compiles_nothing_that_waits_for_its_first_use(void **state) {
    mst_device *device = *state;
    assert_int_equal(muster_sim_compiled("contract_scale"), 0);
    assert_int_equal(muster_sim_calls("cuModuleLoadData"), 0);
    assert_ok(scale_once(device));
    assert_int_equal(muster_sim_compiled("contract_scale"), 1);
    assert_int_equal(muster_sim_compiled("contract_row_sums"), 1); /* the family's other kernel */
    assert_int_equal(muster_sim_calls("nvrtcCompileProgram"), 1);
    assert_int_equal(muster_sim_calls("cuModuleLoadData"), 1);
    assert_ok(scale_once(device));
    assert_int_equal(muster_sim_calls("nvrtcCompileProgram"), 1);
    assert_int_equal(muster_sim_calls("cuModuleLoadData"), 1);
}

/* Each device loads its own module of the one image. */
static void another_device_does_not_compile_again(void **state) {
    mst_device *second = opened_alone("1");
    assert_ok(scale_once(*state));
    assert_ok(scale_once(second));
    mst_device *third = opened_alone("1"); /* which has it from its opening on */
    assert_int_equal(muster_sim_calls("cuModuleLoadData"), 3);
    assert_ok(scale_once(third));
    assert_int_equal(muster_sim_calls("nvrtcCompileProgram"), 1);
    assert_int_equal(muster_sim_calls("cuModuleLoadData"), 3);
    closed(third);
    closed(second);
}

static void *scale_in_thread(void *device) {
    assert_ok(scale_once(device));
    return NULL;
}

/* The first compilation stands still until the second thread has asked for the same one. */
static void two_threads_that_need_a_family_compile_it_once(void **state) {
    pthread_t threads[2];
    mst_device *devices[] = {*state, opened_alone("1")};
    const uint64_t versions = muster_sim_calls("nvrtcVersion");
    muster_sim_inject_stall("nvrtcCompileProgram", 1, 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, scale_in_thread, devices[i]), 0);
    while (muster_sim_calls("nvrtcVersion") < versions + 2 || muster_sim_calls("nvrtcCompileProgram") < 1) usleep(100);
    muster_sim_release();
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(muster_sim_calls("nvrtcCompileProgram"), 1);
    assert_int_equal(muster_sim_compiled("contract_scale"), 1);
    closed(devices[1]);
}

/* ---- failures ---- */

static void every_call_of_a_first_use_can_fail_and_the_next_launch_is_right(void **state) {
    (void)state;
    for (size_t i = 0; i < CODE_CALLS; i++) {
        new_machine(&(muster_sim_options){.devices = 1});
        (void)driver();
        mst_device *device = opened_alone("0");
        muster_sim_inject(code_calls[i].symbol, 1, code_calls[i].code);
        assert_int_not_equal(scale_once(device), MUSTER_OK);
        if (!strstr(muster_last_error(), code_calls[i].symbol) ||
            !strstr(muster_last_error(), "cuda:0: the kernel contract_scale at its first use: "))
            fail_msg("%s: %s", code_calls[i].symbol, muster_last_error());
        assert_ok(scale_once(device));
        assert_int_equal(muster_sim_launches("contract_scale"), 1);
        closed(device);
        check_machine();
    }
}

static void memory_may_run_out_at_a_first_use(void **state) {
    (void)state;
    int64_t failed = 0;
    for (bool done = false; !done;) {
        new_machine(&(muster_sim_options){.devices = 1});
        mst_device *device = opened_alone("0");
        contract_parameters parameters = {.count = 1};
        parameters.from = parameters.to = allocated(device, 4);
        const int64_t before = mst_memory_count();
        mst_memory_fail_at(failed + 1);
        const muster_status status = device->code->launch(device, &contract_scale_kernel, 1, &parameters, sizeof parameters);
        mst_memory_fail_at(0);
        done = mst_memory_count() - before <= failed;
        if (status != MUSTER_OK) assert_refused(status, MUSTER_OUT_OF_MEMORY, "the kernel contract_scale at its first use: ");
        if (!done) failed++;
        assert_ok(device->code->launch(device, &contract_scale_kernel, 1, &parameters, sizeof parameters));
        assert_ok(device->table->synchronize(device));
        device->memory->release(device, (void *)parameters.to);
        closed(device);
        check_machine();
    }
    assert_true(failed >= 8);
}

/* ---- what is in flight ---- */

static muster_status refuse_to_wait(void *user) {
    ++*(int *)user;
    return mst_error(MUSTER_ABORTED, "another rank has failed");
}

/* The queue stands still, as in front of a collective that waits for another device. Nothing is
 * loaded meanwhile, and the wait ends as every wait does. */
static void a_first_use_waits_for_the_queue_and_can_be_interrupted(void **state) {
    mst_device *device = *state;
    void *place = allocated(device, 4);
    int asked = 0;
    contract_parameters parameters = {.count = 1, .from = place, .to = place, .factor = 1};
    device->in_flight = true;
    device->interrupt = refuse_to_wait;
    device->interrupt_user = &asked;
    muster_sim_inject_queue_stall("cuEventRecord", 1, 0);
    assert_refused(device->code->launch(device, &contract_scale_kernel, 1, &parameters, sizeof parameters), MUSTER_ABORTED,
                   "another rank has failed");
    assert_int_equal(asked, 1);
    assert_int_equal(muster_sim_compiled(NULL), 0);
    assert_int_equal(muster_sim_calls("cuModuleLoadData"), 0);
    device->interrupt = NULL;
    muster_sim_release();
    assert_ok(device->code->launch(device, &contract_scale_kernel, 1, &parameters, sizeof parameters));
    assert_int_equal(muster_sim_calls("cuModuleLoadData"), 1);
    device->in_flight = false;
    assert_ok(device->table->synchronize(device));
    device->memory->release(device, place);
}

/* ---- the cache ---- */

static char folder[64];

static void remove_folder(void) {
    char path[512];
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));) {
        snprintf(path, sizeof path, "%s/%.250s", folder, entry->d_name);
        (void)unlink(path);
    }
    if (open) closedir(open);
    assert_int_equal(rmdir(folder), 0);
    setenv("MUSTER_CACHE_DIR", "off", 1);
}

static void what_is_in_the_cache_is_loaded_at_open(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/muster-test-late-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("MUSTER_CACHE_DIR", folder, 1);
    for (int run = 0; run < 2; run++) {
        new_machine(&(muster_sim_options){.devices = 1});
        mst_device *device = opened_alone("0");
        assert_int_equal(muster_sim_calls("cuModuleLoadData"), run);
        assert_ok(scale_once(device));
        assert_int_equal(muster_sim_calls("cuModuleLoadData"), 1);
        assert_int_equal(muster_sim_compiled(NULL), run ? 0 : 2);
        closed(device);
        check_machine();
    }
    remove_folder();
}

/* ---- the log ---- */

typedef struct listener {
    int lines;
    char last[MST_MESSAGE_SIZE];
} listener;

static void listen(void *user, const char *sentence) {
    listener *l = user;
    assert_int_equal(muster_sim_compiled("contract_scale"), 0); /* before it takes the time */
    l->lines++;
    snprintf(l->last, sizeof l->last, "%s", sentence);
}

static void a_first_use_is_announced_before_it_is_compiled(void **state) {
    (void)state;
    listener heard = {0};
    mst_device *device = NULL;
    new_machine(&(muster_sim_options){.devices = 1});
    const mst_device_settings settings = {.alone = true, .log = listen, .log_user = &heard};
    assert_ok(mst_cuda_device_table.hardware->open_with("0", &settings, &device));
    assert_int_equal(heard.lines, 0); /* open has compiled nothing */
    assert_ok(scale_once(device));
    assert_ok(scale_once(device));
    assert_int_equal(heard.lines, 1);
    if (!strstr(heard.last, "cuda:0: compiling the kernels of contract.cu at their first use, which takes about "))
        fail_msg("%s", heard.last);
    closed(device);
    check_machine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        LATE_CASE(open_compiles_nothing_that_waits_for_its_first_use),
        LATE_CASE(another_device_does_not_compile_again),
        LATE_CASE(two_threads_that_need_a_family_compile_it_once),
        cmocka_unit_test(every_call_of_a_first_use_can_fail_and_the_next_launch_is_right),
        cmocka_unit_test(memory_may_run_out_at_a_first_use),
        LATE_CASE(a_first_use_waits_for_the_queue_and_can_be_interrupted),
        cmocka_unit_test(what_is_in_the_cache_is_loaded_at_open),
        cmocka_unit_test(a_first_use_is_announced_before_it_is_compiled),
    };
    return cmocka_run_group_tests(tests, add_contract, NULL);
}

/* No launch compiles: not the first of a kernel, not the first of a number of threads, not of a
 * large grid, whether the program was just compiled or came from the cache. With a cache folder of
 * PoCL's of its own, whose files are counted. PoCL 6 (opencl_prepare.c) is told by the variable of
 * the user's environment. */
#include "opencl/opencl_state_private.h"
#include "program_support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], program_path[4096];
static bool remembers; /* PoCL 3, of Debian 12, keeps what it has once read */

/* Found out by a child, so that OpenCL is new to the tests. */
static bool pocl_remembers(void) {
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        const mst_opencl *cl;
        _exit(mst_opencl_get(&cl) == MUSTER_OK && atoi(cl->version) < 4 ? 1 : 0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static const source touch = {
    .name = "touch",
    .text = "__kernel void touch(__global int *a) { if (get_global_id(0) == 0 && get_global_id(1) == 0) a[0] += 1; }\n",
    .parameters = {{BUFFER}},
    .count = 1};

/* What the implementation has compiled so far. */
static int codes(void) {
    char command[128];
    int count = -1;
    snprintf(command, sizeof command, "find %s/pocl -name '*.so' | wc -l", folder);
    FILE *said = popen(command, "r");
    assert_non_null(said);
    assert_int_equal(fscanf(said, "%d", &count), 1);
    pclose(said);
    return count;
}

/* LLVM, which compiles for PoCL, sets its own signal stack on the thread that first calls it. */
static void assert_same_signal_stack(const stack_t *before) {
    stack_t after;
    assert_int_equal(sigaltstack(NULL, &after), 0);
    assert_ptr_equal(after.ss_sp, before->ss_sp);
    assert_int_equal(after.ss_flags, before->ss_flags);
}

static void launches_compile_nothing(bool found) {
    mst_device *device = NULL;
    stack_t stack;
    assert_int_equal(sigaltstack(NULL, &stack), 0);
    int32_t a = 0;
    const mst_program_value values[] = {buffer_of(&a, 4)};
    assert_ok(mst_host_device_table.open(&mst_host_device_table, "0", &device));
    mst_program *program = opened_program(device, &touch);
    assert_int_equal(program->found, found);
    const int before = codes();
    assert_true(before >= 1);
    launched(device, program, grid_of(1, 1, 0), values);
    launched(device, program, grid_of(3, 37, 0), values);
    launched(device, program, grid_of(70000, 2, 0), values);
    launched(device, program, (mst_program_grid){.dims = 2, .groups = {3, 2, 1}, .threads = {8, 5, 1}}, values);
    assert_ok(device->table->synchronize(device));
    assert_int_equal(a, 4);
    assert_int_equal(codes(), before);
    closed_program(device, program);
    device->table->close(device);
    assert_same_signal_stack(&stack);
}

static void when_just_compiled(void **state) {
    (void)state;
    launches_compile_nothing(false);
    if (remembers) assert_null(getenv("POCL_WORK_GROUP_SPECIALIZATION")); /* the program's environment is what it was */
}

static void in_another_process(const char *argument) {
    char command[5000];
    snprintf(command, sizeof command, "'%s' %s %s", program_path, folder, argument);
    const int status = system(command);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In a process that finds all in the cache. */
static void when_it_came_from_the_cache(void **state) {
    (void)state;
    in_another_process("again");
}

/* In a process where opening the program is the first that compiles. */
static void the_signal_stack_stays(void **state) {
    (void)state;
    in_another_process("first");
}

static void compiles_first(void **state) {
    (void)state;
    static const source other = {
        .name = "other", .text = "__kernel void other(__global int *a) { a[0] = 2; }\n", .parameters = {{BUFFER}}, .count = 1};
    mst_device *device = NULL;
    stack_t stack;
    assert_int_equal(sigaltstack(NULL, &stack), 0);
    assert_ok(mst_host_device_table.open(&mst_host_device_table, "0", &device));
    mst_program *program = opened_program(device, &other);
    assert_false(program->found);
    assert_same_signal_stack(&stack);
    closed_program(device, program);
    device->table->close(device);
}

static void again(void **state) {
    (void)state;
    launches_compile_nothing(true);
}

static void use_folder(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/muster", folder);
    setenv("MUSTER_CACHE_DIR", path, 1);
    snprintf(path, sizeof path, "%s/pocl", folder);
    setenv("POCL_CACHE_DIR", path, 1);
    unsetenv("POCL_WORK_GROUP_SPECIALIZATION");
    remembers = pocl_remembers();
    if (!remembers) setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 1);
}

int main(int count, char **arguments) {
    if (count > 2) {
        const struct CMUnitTest second[] = {cmocka_unit_test(again)}, third[] = {cmocka_unit_test(compiles_first)};
        snprintf(folder, sizeof folder, "%s", arguments[1]);
        use_folder();
        return strcmp(arguments[2], "again") == 0 ? cmocka_run_group_tests(second, NULL, NULL) : cmocka_run_group_tests(third, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(when_just_compiled), cmocka_unit_test(when_it_came_from_the_cache),
                                       cmocka_unit_test(the_signal_stack_stays)};
    snprintf(program_path, sizeof program_path, "%s", arguments[0]);
    snprintf(folder, sizeof folder, "/tmp/muster-program-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    use_folder();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? failed : 1;
}

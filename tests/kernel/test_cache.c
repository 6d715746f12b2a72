/* What was compiled once is found again; what is damaged there is compiled again; several processes
 * may compile at once. */
#include "kernel_fixture.h"
#include "kernel_private.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static int open_all(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/muster-kernel-cache-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("MUSTER_CACHE_DIR", folder, 1);
    return 0;
}

/* Does `with` with the path of every file in the folder; returns their number. */
static int each_file(void (*with)(const char *path)) {
    DIR *stream = opendir(folder);
    int count = 0;
    assert_non_null(stream);
    for (struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
        char path[400];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (with) with(path);
        count++;
    }
    closedir(stream);
    return count;
}

static void remove_file(const char *path) { unlink(path); }
static void cut_off(const char *path) { assert_int_equal(truncate(path, 40), 0); }
static void change(const char *path) {
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, -20, SEEK_END);
    const int before = fgetc(file);
    fseek(file, -20, SEEK_END);
    fputc(before ^ 0x10, file);
    fclose(file);
}

static int close_all(void **state) {
    (void)state;
    each_file(remove_file);
    rmdir(folder);
    return 0;
}

/* Creates a kernel, runs it, and says whether it came from the cache. */
static bool found_and_right(const char *source) {
    static const int32_t types[] = {MUSTER_PARAMETER_BUFFER};
    muster_runtime *runtime = kernel_open("host:1");
    muster_kernel *kernel;
    int32_t value;
    assert_ok(muster_kernel_create(runtime, "put", source, types, 1, NULL, &kernel));
    const bool found = kernel->devices[0].program->found;
    kernel_array x = kernel_put(runtime, 0, MUSTER_I32, 1, NULL);
    const muster_grid grid = kernel_grid(1, 1);
    assert_ok(muster_kernel_call(kernel, &grid, ARGUMENTS(muster_argument_buffer(x.view))));
    kernel_get(&x, &value);
    assert_int_equal(value, 77);
    kernel_drop(&x);
    fixture_close(runtime);
    return found;
}

static const char put[] = "KERNEL void put(GLOBAL_MEM ga_int *x) { x[0] = 77; }\n";

static void processes_compile_at_the_same_time(void **state) {
    (void)state;
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            found_and_right(put);
            _exit(0);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_true(each_file(NULL) > 0);
    each_file(remove_file);
}

static void what_was_compiled_is_found(void **state) {
    (void)state;
    assert_false(found_and_right(put));
    const int files = each_file(NULL);
    assert_true(files > 0);
    assert_true(found_and_right(put));
    assert_int_equal(each_file(NULL), files);
    assert_false(found_and_right("KERNEL void put(GLOBAL_MEM ga_int *x) { x[0] = 70 + 7; }\n"));
    assert_true(each_file(NULL) > files);
}

static void what_is_damaged_is_compiled_again(void **state) {
    (void)state;
    each_file(cut_off);
    assert_false(found_and_right(put));
    assert_true(found_and_right(put));
    each_file(change);
    assert_false(found_and_right(put));
    assert_true(found_and_right(put));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* before this process has opened what a child must not share */
        cmocka_unit_test(processes_compile_at_the_same_time),
        cmocka_unit_test(what_was_compiled_is_found),
        cmocka_unit_test(what_is_damaged_is_compiled_again),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

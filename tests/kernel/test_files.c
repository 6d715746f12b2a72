/* Kernels out of section files and texts. */
#include "kernel_fixture.h"

#include <stdlib.h>
#include <unistd.h>

static muster_runtime *runtime;

static int open_all(void **state) {
    (void)state;
    runtime = kernel_open("host:1");
    return 0;
}
static int close_all(void **state) {
    (void)state;
    fixture_close(runtime);
    return 0;
}

static muster_status parse(const char *text, const muster_dtype *types, int32_t type_count, muster_kernel **kernels, int32_t capacity,
                           int32_t *count) {
    return muster_kernels_parse(runtime, "t.kernels", text, (int64_t)strlen(text), types, type_count, kernels, capacity, count);
}

static void newlines_quotes_and_backslashes_survive(void **state) {
    (void)state;
    muster_kernel *kernels[2] = {NULL, NULL};
    int32_t count, out[5];
    assert_ok(parse(kernel_file_strings, NULL, 0, kernels, 2, &count));
    assert_int_equal(count, 2);
    assert_string_equal(muster_kernel_name(kernels[0]), "strings");
    assert_string_equal(muster_kernel_name(kernels[1]), "nothing");
    kernel_array o = kernel_put(runtime, 0, MUSTER_I32, 5, NULL);
    assert_ok(muster_kernel_call_elements(kernels[0], 1, 0, ARGUMENTS(muster_argument_buffer(o.view), muster_argument_size(5))));
    kernel_get(&o, out);
    const int32_t expected[] = {'\n', '"', '\\', sizeof "a\n\"b\\", 42};
    assert_memory_equal(out, expected, sizeof expected);
    assert_ok(muster_kernel_call_elements(kernels[1], 1, 0, NULL, 0));
    kernel_drop(&o);
    assert_ok(muster_kernel_destroy(kernels[0]));
    assert_ok(muster_kernel_destroy(kernels[1]));
}

/* The same with the line ends of other machines, out of a file. */
static void files_are_read_as_they_are(void **state) {
    (void)state;
    char path[] = "/tmp/muster-kernels-XXXXXX", crlf[2000] = "";
    size_t length = 0;
    for (const char *c = kernel_file_strings; *c && length < sizeof crlf - 3; c++) {
        if (*c == '\n') crlf[length++] = '\r';
        crlf[length++] = *c;
    }
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, crlf, strlen(crlf)), strlen(crlf));
    close(file);
    muster_kernel *kernels[2];
    int32_t count, out[5];
    assert_ok(muster_kernels_load(runtime, path, NULL, 0, kernels, 2, &count));
    unlink(path);
    kernel_array o = kernel_put(runtime, 0, MUSTER_I32, 5, NULL);
    assert_ok(muster_kernel_call_elements(kernels[0], 1, 0, ARGUMENTS(muster_argument_buffer(o.view), muster_argument_size(5))));
    kernel_get(&o, out);
    assert_int_equal(out[4], 42);
    kernel_drop(&o);
    assert_refused(muster_kernels_load(runtime, path, NULL, 0, kernels, 2, &count), MUSTER_SYSTEM,
                   "muster_kernels_load: path: expected a file that can be read, received '/tmp/muster");
    assert_refused(muster_kernels_load(runtime, "/tmp", NULL, 0, kernels, 2, &count), MUSTER_SYSTEM, "'/tmp'");
    assert_refused(muster_kernels_load(runtime, NULL, NULL, 0, kernels, 2, &count), MUSTER_INVALID_ARGUMENT,
                   "path: expected the path of a file, received NULL");
}

static void all_kernels_are_made_or_none(void **state) {
    (void)state;
    muster_kernel *kernels[2] = {NULL, NULL};
    int32_t count = 7;
    assert_refused(parse(kernel_file_strings, NULL, 0, kernels, 1, &count), MUSTER_OUT_OF_RANGE,
                   "muster_kernels_parse: capacity: expected room for the 2 kernels of 't.kernels', received room for 1");
    assert_int_equal(count, 2);
    assert_null(kernels[0]);
    static const char second[] = "#section kernels\n#kernel a::\nKERNEL void a() {}\n#kernel b::\n\nKERNEL void b() { return 1 }\n";
    assert_refused(parse(second, NULL, 0, kernels, 2, &count), MUSTER_INVALID_ARGUMENT, "muster_kernels_parse: kernel 'b' on device 0 (");
    if (!strstr(muster_last_error(), "t.kernels:6:") && !strstr(muster_last_error(), "t.kernels(6)"))
        fail_msg("no line 6 in: %s", muster_last_error());
    assert_null(kernels[0]);
    assert_null(kernels[1]);
    assert_ok(parse("#section kernels\n", NULL, 0, NULL, 0, &count));
    assert_int_equal(count, 0);
    assert_refused(parse("#section kernels\n#kernel a:\n", NULL, 0, kernels, 2, &count), MUSTER_INVALID_ARGUMENT,
                   "muster_kernels_parse: t.kernels:2:11: expected #kernel name");
}

static void helpers_of_one_kernel_are_not_those_of_another(void **state) {
    (void)state;
    static const char text[] =
        "#section kernels\n"
        "#kernel a : * :\nWITHIN_KERNEL ga_int value() { return 1; }\nKERNEL void a(GLOBAL_MEM ga_int *x) { x[0] = value() + SHARED; }\n"
        "#kernel b : * :\nWITHIN_KERNEL ga_int value() { return 2; }\nKERNEL void b(GLOBAL_MEM ga_int *x) { x[0] = value() + SHARED; }\n"
        "#section device\n#define SHARED 40\n";
    muster_kernel *kernels[2];
    int32_t count, value;
    assert_ok(parse(text, NULL, 0, kernels, 2, &count));
    for (int k = 0; k < 2; k++) {
        kernel_array x = kernel_put(runtime, 0, MUSTER_I32, 1, NULL);
        const muster_grid grid = kernel_grid(1, 1);
        assert_ok(muster_kernel_call(kernels[k], &grid, ARGUMENTS(muster_argument_buffer(x.view))));
        kernel_get(&x, &value);
        assert_int_equal(value, 41 + k);
        kernel_drop(&x);
        assert_ok(muster_kernel_destroy(kernels[k]));
    }
}

static void the_types_are_those_that_the_text_says(void **state) {
    (void)state;
    muster_kernel *kernel;
    int32_t count;
    const muster_dtype types[] = {MUSTER_F32, MUSTER_F16, MUSTER_I8}, wrong[] = {MUSTER_F32, 99};
    assert_refused(parse(kernel_file_generic, types, 1, &kernel, 1, &count), MUSTER_INVALID_ARGUMENT,
                   "types: 't.kernels' says DTYPE_INPUT_n and DTYPE_OUTPUT_n of 1 inputs and 1 outputs: expected 2 types, received 1");
    assert_refused(parse(kernel_file_generic, types, 3, &kernel, 1, &count), MUSTER_INVALID_ARGUMENT, "expected 2 types, received 3");
    assert_refused(parse(kernel_file_generic, wrong, 2, &kernel, 1, &count), MUSTER_INVALID_ARGUMENT,
                   "types[1]: expected an element type, received 99");
    assert_refused(parse(kernel_file_generic, NULL, 2, &kernel, 1, &count), MUSTER_INVALID_ARGUMENT,
                   "types: expected 2 dtypes, received NULL");
    assert_ok(parse(kernel_file_generic, types, 2, &kernel, 1, &count));
    assert_ok(muster_kernel_destroy(kernel));
}

static void what_parse_is_given_is_checked(void **state) {
    (void)state;
    muster_kernel *kernel;
    int32_t count;
    assert_refused(muster_kernels_parse(NULL, "t", "", 0, NULL, 0, &kernel, 1, &count), MUSTER_INVALID_ARGUMENT,
                   "runtime: expected a runtime");
    assert_refused(muster_kernels_parse(runtime, NULL, "", 0, NULL, 0, &kernel, 1, &count), MUSTER_INVALID_ARGUMENT,
                   "name: expected a name");
    assert_refused(muster_kernels_parse(runtime, "t", NULL, 4, NULL, 0, &kernel, 1, &count), MUSTER_INVALID_ARGUMENT,
                   "text: expected 4 bytes, received NULL");
    assert_refused(muster_kernels_parse(runtime, "t", "", -1, NULL, 0, &kernel, 1, &count), MUSTER_INVALID_ARGUMENT, "received -1");
    assert_refused(muster_kernels_parse(runtime, "t", "", 0, NULL, 0, NULL, 1, &count), MUSTER_INVALID_ARGUMENT,
                   "kernels: expected room for 1, received NULL");
    assert_refused(muster_kernels_parse(runtime, "t", "", 0, NULL, 0, &kernel, 1, NULL), MUSTER_INVALID_ARGUMENT,
                   "count: expected the address of a number");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newlines_quotes_and_backslashes_survive),
        cmocka_unit_test(files_are_read_as_they_are),
        cmocka_unit_test(all_kernels_are_made_or_none),
        cmocka_unit_test(helpers_of_one_kernel_are_not_those_of_another),
        cmocka_unit_test(the_types_are_those_that_the_text_says),
        cmocka_unit_test(what_parse_is_given_is_checked),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

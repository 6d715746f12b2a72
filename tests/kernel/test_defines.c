/* Macros in front of a source, the names of types in the dialect, and kernels found by their
 * names. */
#include "kernel_fixture.h"

#include "kernel_private.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 5 };

static muster_runtime *runtime;

static int open_all(void **state) {
    (void)state;
    runtime = kernel_open("host:2");
    return 0;
}

static int close_all(void **state) {
    (void)state;
    fixture_close(runtime);
    return 0;
}

static muster_kernel_options with(const char *const *defines, int32_t count) {
    muster_kernel_options options;
    muster_kernel_options_init(&options);
    options.defines = defines;
    options.define_count = count;
    return options;
}

/* ---- one source for several types ---- */

static const char scale[] = "KERNEL void scale(ga_size n, GLOBAL_MEM T *x) {\n"
                            "    MUSTER_EACH(i, n) x[i] = (T)(x[i] * FACTOR SHIFT);\n"
                            "}\n";
static const int32_t parameters[] = {MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_BUFFER};

typedef struct element {
    muster_dtype dtype;
    const char *name;
} element;
static const element elements[] = {
    {MUSTER_BOOL, "ga_bool"}, {MUSTER_I8, "ga_byte"},   {MUSTER_U8, "ga_ubyte"},  {MUSTER_I16, "ga_short"},
    {MUSTER_I32, "ga_int"},   {MUSTER_U32, "ga_uint"},  {MUSTER_I64, "ga_long"},  {MUSTER_U64, "ga_ulong"},
    {MUSTER_F16, "ga_half"},  {MUSTER_BF16, "ga_bf16"}, {MUSTER_F32, "ga_float"}, {MUSTER_F64, "ga_double"},
};
enum { ELEMENTS = sizeof elements / sizeof *elements };

static void every_dtype_has_a_name(void **state) {
    (void)state;
    for (int i = 0; i < ELEMENTS; i++) assert_string_equal(muster_dtype_kernel_name(elements[i].dtype), elements[i].name);
    int named = 0;
    for (muster_dtype dtype = -2; dtype < 100; dtype++) {
        assert_int_equal(muster_dtype_kernel_name(dtype) != NULL, muster_dtype_size(dtype) > 0);
        named += muster_dtype_kernel_name(dtype) != NULL;
    }
    assert_int_equal(named, ELEMENTS);
    assert_null(muster_dtype_kernel_name(MUSTER_DTYPE_NONE));
    assert_null(muster_dtype_kernel_name(MUSTER_PARAMETER_SIZE));
}

static void put_number(muster_dtype dtype, void *array, int i, int value) {
    switch (muster_dtype_size(dtype)) {
    case 1:
        ((int8_t *)array)[i] = (int8_t)value;
        break;
    case 4:
        if (dtype == MUSTER_F32)
            ((float *)array)[i] = (float)value;
        else
            ((int32_t *)array)[i] = value;
        break;
    default:
        if (dtype == MUSTER_F64)
            ((double *)array)[i] = value;
        else
            ((int64_t *)array)[i] = value;
    }
}

static void scales(muster_dtype dtype, const char *factor, const char *shift, int by, int plus) {
    const char *const defines[] = {"T", muster_dtype_kernel_name(dtype), "FACTOR", factor, "SHIFT", shift};
    const muster_kernel_options options = with(defines, 3);
    int64_t values[COUNT], expected[COUNT], got[COUNT];
    muster_kernel *kernel;
    for (int i = 0; i < COUNT; i++) {
        put_number(dtype, values, i, i + 1);
        put_number(dtype, expected, i, (i + 1) * by + plus);
    }
    assert_ok(muster_kernel_create(runtime, "scale", scale, parameters, 2, &options, &kernel));
    kernel_array x = kernel_put(runtime, 1, dtype, COUNT, values);
    assert_ok(muster_kernel_call_elements(kernel, COUNT, 0, ARGUMENTS(muster_argument_size(COUNT), muster_argument_buffer(x.view))));
    kernel_get(&x, got);
    assert_memory_equal(got, expected, (size_t)(COUNT * muster_dtype_size(dtype)));
    kernel_drop(&x);
    assert_ok(muster_kernel_destroy(kernel));
}

static void one_source_serves_several_types_and_numbers(void **state) {
    (void)state;
    const muster_dtype dtypes[] = {MUSTER_I8, MUSTER_F32, MUSTER_F64};
    for (int d = 0; d < 3; d++) {
        scales(dtypes[d], "2", "", 2, 0); /* the cache must not give one for the other */
        scales(dtypes[d], "(1 + 1)", "+ 4", 2, 4);
    }
}

static bool found_in_cache(const char *factor) {
    const char *const defines[] = {"T", "ga_int", "FACTOR", factor, "SHIFT", ""};
    const muster_kernel_options options = with(defines, 3);
    muster_kernel *kernel;
    assert_ok(muster_kernel_create(runtime, "scale", scale, parameters, 2, &options, &kernel));
    const bool found = kernel->devices[0].program->found;
    assert_ok(muster_kernel_destroy(kernel));
    return found;
}

static void the_cache_knows_the_values(void **state) {
    (void)state;
    char folder[] = "/tmp/muster-defines-XXXXXX", command[64], *before = getenv("MUSTER_CACHE_DIR");
    char *kept = before ? strdup(before) : NULL;
    assert_non_null(mkdtemp(folder));
    setenv("MUSTER_CACHE_DIR", folder, 1);
    assert_false(found_in_cache("11"));
    assert_true(found_in_cache("11"));
    assert_false(found_in_cache("12"));
    assert_true(found_in_cache("11") && found_in_cache("12"));
    if (kept)
        setenv("MUSTER_CACHE_DIR", kept, 1);
    else
        unsetenv("MUSTER_CACHE_DIR");
    free(kept);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void errors_have_the_lines_of_the_source(void **state) {
    (void)state;
    const char *const defines[] = {"T", "ga_float", "ONE", "1", "TWO", "2"};
    const muster_kernel_options options = with(defines, 3);
    muster_kernel *kernel;
    assert_int_equal(muster_kernel_create(runtime, "wrong", "KERNEL void wrong(GLOBAL_MEM T *x) {\n    x[0] = unknown_name;\n}\n",
                                          parameters + 1, 1, &options, &kernel),
                     MUSTER_INVALID_ARGUMENT);
    const char *message = muster_last_error();
    if (!strstr(message, "wrong:2") && !strstr(message, "wrong(2)")) fail_msg("no line 2 in: %s", message);
}

/* ---- refused ---- */

static void refused_defines(void **state) {
    (void)state;
    static const struct {
        const char *defines[4];
        int32_t count;
        const char *text;
    } cases[] = {
        {{NULL, "1"}, 1, "name of define 0 of kernel 'k': expected letters, digits and _, no digit first, received NULL"},
        {{"", "1"}, 1, "no digit first, received ''"},
        {{"1A", "1"}, 1, "no digit first, received '1A'"},
        {{"A(x)", "1"}, 1, "no digit first, received 'A(x)'"},
        {{"A B", "1"}, 1, "no digit first, received 'A B'"},
        {{"OK", "1", "A-", "1"}, 2, "name of define 1 of kernel 'k'"},
        {{"defined", "1"}, 1, "expected none that the compilers, the dialect or the kernel itself has, received 'defined'"},
        {{"__FILE__", "1"}, 1, "itself has, received '__FILE__'"},
        {{"KERNEL", ""}, 1, "itself has, received 'KERNEL'"},
        {{"LID_0", "0"}, 1, "itself has, received 'LID_0'"},
        {{"k", "other"}, 1, "itself has, received 'k'"},
        {{"A", "1", "A", "1"}, 2, "define 1 of kernel 'k': expected each name once, received 'A' again"},
        {{"A", NULL}, 1, "value of define 'A' of kernel 'k': expected a string, received NULL"},
        {{"A", "1\n#define B"}, 1, "value of define 'A' of kernel 'k': expected one line without a comment"},
        {{"A", "1\r"}, 1, "expected one line without a comment"},
        {{"A", "1 /*"}, 1, "expected one line without a comment"},
        {{"A", "1 // one"}, 1, "expected one line without a comment"},
        {{"A", "1 \\"}, 1, "without \\ at its end"},
    };
    muster_kernel *kernel;
    muster_kernel_options options;
    int count = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++, count++) {
        options = with(cases[i].defines, cases[i].count);
        assert_refused(muster_kernel_create(runtime, "k", "KERNEL void k(ga_size n) {}", parameters, 1, &options, &kernel),
                       MUSTER_INVALID_ARGUMENT, cases[i].text);
        assert_null(kernel);
    }
    assert_int_equal(count, 18);
    const char *const many[2] = {"A", "1"};
#define create() muster_kernel_create(runtime, "k", "KERNEL void k(ga_size n) {}", parameters, 1, &options, &kernel)
    options = with(many, -1);
    assert_refused(create(), MUSTER_OUT_OF_RANGE, "expected a define_count from 0 to 256, received -1");
    options = with(many, MUSTER_KERNEL_DEFINES_MAX + 1);
    assert_refused(create(), MUSTER_OUT_OF_RANGE, "expected a define_count from 0 to 256, received 257");
    options = with(NULL, 2);
    assert_refused(create(), MUSTER_INVALID_ARGUMENT, "options: expected 2 defines, received NULL");
    options = with(NULL, 0);
    options.reserved1 = 1;
    assert_refused(create(), MUSTER_INVALID_ARGUMENT, "reserved");
#undef create
}

static void the_most_defines(void **state) {
    (void)state;
    static char names[MUSTER_KERNEL_DEFINES_MAX][8];
    const char *defines[2 * MUSTER_KERNEL_DEFINES_MAX];
    const muster_kernel_options options = with(defines, MUSTER_KERNEL_DEFINES_MAX);
    muster_kernel *kernel;
    for (int i = 0; i < MUSTER_KERNEL_DEFINES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "M_%d", i);
        defines[2 * i] = names[i];
        defines[2 * i + 1] = i == MUSTER_KERNEL_DEFINES_MAX - 1 ? "ga_int" : "";
    }
    assert_ok(muster_kernel_create(runtime, "k", "KERNEL void k(GLOBAL_MEM M_255 *x) { x[0] = 1; }", parameters + 1, 1, &options, &kernel));
    assert_ok(muster_kernel_destroy(kernel));
}

/* ---- finding ---- */

static muster_kernel *make(muster_runtime *of, const char *name, int32_t type) {
    muster_kernel *kernel;
    char source[100];
    snprintf(source, sizeof source, "KERNEL void %s(%s n) {}", name, type == MUSTER_I32 ? "ga_int" : "ga_size");
    assert_ok(muster_kernel_create(of, name, source, &type, 1, NULL, &kernel));
    return kernel;
}

static muster_status find_inside(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)w, (void)in, (void)out, (void)user;
    muster_kernel *kernel;
    return muster_kernel_find(runtime, "first", &kernel);
}

static void kernels_are_found_by_name(void **state) {
    (void)state;
    muster_runtime *second = kernel_open("host:1");
    muster_kernel *found = (muster_kernel *)&found, *first = make(runtime, "first", MUSTER_I32), *other = make(second, "other", MUSTER_I32);
    assert_ok(muster_kernel_find(runtime, "first", &found));
    assert_ptr_equal(found, first);
    assert_int_equal(muster_kernel_parameter_count(found), 1);
    assert_int_equal(muster_kernel_parameter(found, 0), MUSTER_I32);
    /* of several the newest one that lives */
    muster_kernel *newer = make(runtime, "first", MUSTER_PARAMETER_SIZE);
    assert_ok(muster_kernel_find(runtime, "first", &found));
    assert_ptr_equal(found, newer);
    assert_ok(muster_kernel_destroy(newer));
    assert_ok(muster_kernel_find(runtime, "first", &found));
    assert_ptr_equal(found, first);
    /* objects of other kinds, and of other runtimes, are no kernels */
    muster_function *f;
    assert_ok(muster_function_create(runtime, "f", find_inside, NULL, &f));
    assert_refused(muster_kernel_find(runtime, "f", &found), MUSTER_INVALID_ARGUMENT,
                   "muster_kernel_find: name: expected a kernel of this runtime, received 'f'");
    assert_null(found);
    assert_refused(muster_kernel_find(runtime, "other", &found), MUSTER_INVALID_ARGUMENT, "received 'other'");
    assert_refused(muster_kernel_find(NULL, "first", &found), MUSTER_INVALID_ARGUMENT, "runtime");
    assert_refused(muster_kernel_find(runtime, NULL, &found), MUSTER_INVALID_ARGUMENT, "name");
    assert_refused(muster_kernel_find(runtime, "first", NULL), MUSTER_INVALID_ARGUMENT, "kernel");
    assert_refused(muster_function_call(f, NULL, 0, NULL, 0, NULL), MUSTER_BAD_STATE, "muster_kernel_find");
    assert_ok(muster_function_destroy(f));
    assert_ok(muster_kernel_destroy(first));
    assert_refused(muster_kernel_find(runtime, "first", &found), MUSTER_INVALID_ARGUMENT, "received 'first'");
    assert_ok(muster_kernel_destroy(other));
    fixture_close(second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_has_a_name),
        cmocka_unit_test(one_source_serves_several_types_and_numbers),
        cmocka_unit_test(the_cache_knows_the_values),
        cmocka_unit_test(errors_have_the_lines_of_the_source),
        cmocka_unit_test(refused_defines),
        cmocka_unit_test(the_most_defines),
        cmocka_unit_test(kernels_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

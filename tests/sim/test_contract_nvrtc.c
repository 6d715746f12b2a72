/* What a caller may rely on in NVRTC. */
#include "base_skip.h"
#include "contract_support.h"

#include <stdio.h>
#include <stdlib.h>

static void version_is_12_or_later(void **state) {
    (void)state;
    int major = 0, minor = -1;
    assert_done(nvrtc.nvrtcVersion(&major, &minor));
    assert_true(major >= 12);
    assert_true(minor >= 0);
    assert_code(nvrtc.nvrtcVersion(NULL, &minor), MST_NVRTC_INVALID_INPUT);
}

static void errors_have_names(void **state) {
    (void)state;
    assert_string_equal(nvrtc.nvrtcGetErrorString(MST_NVRTC_SUCCESS), "NVRTC_SUCCESS");
    assert_string_equal(nvrtc.nvrtcGetErrorString(MST_NVRTC_COMPILATION), "NVRTC_ERROR_COMPILATION");
    assert_string_equal(nvrtc.nvrtcGetErrorString(MST_NVRTC_INTERNAL_ERROR), "NVRTC_ERROR_INTERNAL_ERROR");
    assert_non_null(nvrtc.nvrtcGetErrorString(12345));
}

static void architectures_ascend(void **state) {
    (void)state;
    int count = 0, architectures[64];
    assert_done(nvrtc.nvrtcGetNumSupportedArchs(&count));
    assert_in_range(count, 4, 64);
    assert_done(nvrtc.nvrtcGetSupportedArchs(architectures));
    bool has_80 = false, has_90 = false;
    for (int i = 0; i < count; i++) {
        has_80 |= architectures[i] == 80;
        has_90 |= architectures[i] == 90;
        if (i) assert_true(architectures[i] > architectures[i - 1]);
    }
    assert_true(has_80 && has_90);
}

static void a_text_becomes_a_cubin(void **state) {
    (void)state;
    char *cubin = contract_compile("--gpu-architecture=sm_90");
    free(cubin);
}

static void a_virtual_architecture_gives_ptx_alone(void **state) {
    (void)state;
    char *text = contract_read("tests/sim/contract.cu");
    mst_nvrtc_program program = contract_program(text);
    const char *options[] = {"--gpu-architecture=compute_80", "--std=c++17", "--device-as-default-execution-space"};
    size_t cubin = 99, ptx = 0, log = 0;
    assert_done(nvrtc.nvrtcCompileProgram(program, 3, options));
    assert_done(nvrtc.nvrtcGetCUBINSize(program, &cubin));
    assert_int_equal(cubin, 0);
    assert_done(nvrtc.nvrtcGetPTXSize(program, &ptx));
    assert_true(ptx > 1);
    char *out = calloc(1, ptx);
    assert_done(nvrtc.nvrtcGetPTX(program, out));
    assert_int_equal(strlen(out) + 1, ptx);
    assert_non_null(strstr(out, "contract_scale"));
    free(out);
    assert_done(nvrtc.nvrtcGetProgramLogSize(program, &log));
    assert_true(log >= 1);
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
    free(text);
}

static void an_error_is_in_the_log(void **state) {
    (void)state;
    mst_nvrtc_program program = NULL;
    size_t bytes = 0;
    assert_done(nvrtc.nvrtcCreateProgram(&program, "extern \"C\" __global__ void broken( {\n", "broken.cu", 0, NULL, NULL));
    assert_code(nvrtc.nvrtcCompileProgram(program, 0, NULL), MST_NVRTC_COMPILATION);
    assert_done(nvrtc.nvrtcGetProgramLogSize(program, &bytes));
    assert_true(bytes > 1);
    char *log = calloc(1, bytes);
    assert_done(nvrtc.nvrtcGetProgramLog(program, log));
    assert_non_null(strstr(log, "error"));
    free(log);
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
}

/* The log of a text that does not compile, with a header "part.h" beside it. */
static char *log_of(const char *text, const char *header, const char *definition) {
    mst_nvrtc_program program = NULL;
    size_t bytes = 0;
    const char *options[] = {"--std=c++17", definition};
    assert_done(nvrtc.nvrtcCreateProgram(&program, text, "mine.cu", 1, &header, (const char *const[]){"parts/part.h"}));
    assert_code(nvrtc.nvrtcCompileProgram(program, definition ? 2 : 1, options), MST_NVRTC_COMPILATION);
    assert_done(nvrtc.nvrtcGetProgramLogSize(program, &bytes));
    char *log = calloc(1, bytes + 1);
    assert_non_null(log);
    assert_done(nvrtc.nvrtcGetProgramLog(program, log));
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
    return log;
}

static void assert_says(char *log, const char *text) {
    if (!strstr(log, text)) fail_msg("expected \"%s\" in: %s", text, log);
    free(log);
}

static void errors_say_file_and_line(void **state) {
    (void)state;
    assert_says(log_of("\n\nextern \"C\" __global__ void k(int *to) {\n    *to = missing;\n}\n", "", NULL), "mine.cu(4): error");
    assert_says(log_of("\n#line 100 \"yours.cu\"\n__device__ int f() {\n    return missing;\n}\n", "", NULL), "yours.cu(101): error");
    assert_says(log_of("#include \"parts/part.h\"\n", "\n__device__ int f() { return missing; }\n", NULL), "part.h(2): error");
    assert_says(log_of("#include \"nothing.h\"\n", "", NULL), "mine.cu(1)");
    assert_says(log_of("#error said so\n", "", NULL), "said so");
    assert_says(log_of("#if WANTED == 3\nint f() { return missing; }\n#endif\n", "", "-DWANTED=3"), "mine.cu(2): error");
}

static void a_text_includes_what_comes_with_it(void **state) {
    mst_nvrtc_program program = NULL;
    const char *header = "typedef float number;\n", *name = "parts/part.h";
    size_t bytes = 0;
    (void)state;
    assert_done(nvrtc.nvrtcCreateProgram(&program,
                                         "#include \"parts/part.h\"\nextern \"C\" __global__ void k(number *to) { to[threadIdx.x] = 1; }\n",
                                         "mine.cu", 1, &header, &name));
    assert_done(nvrtc.nvrtcCompileProgram(program, 1, (const char *const[]){"--gpu-architecture=sm_90"}));
    assert_done(nvrtc.nvrtcGetCUBINSize(program, &bytes));
    assert_true(bytes > 0);
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
}

static void an_unknown_option_is_refused(void **state) {
    (void)state;
    mst_nvrtc_program program = NULL;
    assert_done(nvrtc.nvrtcCreateProgram(&program, "", NULL, 0, NULL, NULL));
    assert_code(nvrtc.nvrtcCompileProgram(program, 1, (const char *const[]){"--no-such-option"}), MST_NVRTC_INVALID_OPTION);
    assert_code(nvrtc.nvrtcCompileProgram(program, 1, (const char *const[]){"--gpu-architecture=sm_1"}), MST_NVRTC_INVALID_OPTION);
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
}

static void a_destroyed_program_is_null(void **state) {
    (void)state;
    mst_nvrtc_program program = NULL;
    assert_code(nvrtc.nvrtcCreateProgram(NULL, "", NULL, 0, NULL, NULL), MST_NVRTC_INVALID_PROGRAM);
    assert_done(nvrtc.nvrtcCreateProgram(&program, "", NULL, 0, NULL, NULL));
    assert_done(nvrtc.nvrtcDestroyProgram(&program));
    assert_null(program);
    assert_code(nvrtc.nvrtcDestroyProgram(&program), MST_NVRTC_INVALID_PROGRAM);
    assert_code(nvrtc.nvrtcCompileProgram(NULL, 0, NULL), MST_NVRTC_INVALID_PROGRAM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_12_or_later),
        cmocka_unit_test(errors_have_names),
        cmocka_unit_test(architectures_ascend),
        cmocka_unit_test(a_text_becomes_a_cubin),
        cmocka_unit_test(a_virtual_architecture_gives_ptx_alone),
        cmocka_unit_test(an_error_is_in_the_log),
        cmocka_unit_test(errors_say_file_and_line),
        cmocka_unit_test(a_text_includes_what_comes_with_it),
        cmocka_unit_test(an_unknown_option_is_refused),
        cmocka_unit_test(a_destroyed_program_is_null),
    };
    if (!contract_open_nvrtc()) return SKIP_SUITE("NVRTC could not be opened");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

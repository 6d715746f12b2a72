/* The real NVRTC compiles every kernel source of the tests and samples. The argument is the
 * architecture, such as 90 for sm_90. */
#include "base_check.h"
#include "device_nvrtc.h"
#include "kernel_private.h"
#include "kernel_texts.h"
#include "nvrtc_api_private.h"
#include "section_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int32_t architecture;
static const mst_nvrtc_api *api;

/* As a runtime has it compiled. */
static void compile(const char *name, const char *source) {
    mst_string text = {0};
    mst_code_image image;
    const mst_code_source dialect = {"cluda.h", mst_dialect(MST_LANGUAGE_CUDA)};
    assert_ok(mst_string_print(&text, "#include \"cluda.h\"\n%s", source));
    const mst_code_program program = {.name = name, .text = text.data, .sources = &dialect, .count = 1};
    mst_code_target target = {.compiler = &mst_nvrtc_compiler, .user = (void *)(uintptr_t)api, .architecture = architecture};
    if (mst_code_build(&target, &program, &image) != MUSTER_OK)
        fail_msg("%s: %s\n%s", name, muster_last_error(), image.log ? image.log : "");
    if (image.log) fail_msg("%s: NVRTC warns: %.2000s", name, image.log);
    assert_memory_equal(image.data, "\177ELF", 4);
    mst_code_release(&image);
    mst_string_free(&text);
}

/* As one program, which takes a tenth of the time. */
static void texts_of_the_tests(void **state) {
    (void)state;
    mst_string all = {0};
    for (int32_t i = 0; i < kernel_text_count; i++) {
        assert_ok(mst_string_line(&all, 1, kernel_texts[i].name));
        assert_ok(mst_string_print(&all, "%s\n", kernel_texts[i].source));
    }
    compile("texts", all.data);
    mst_string_free(&all);
}

/* With each element type where the file leaves it open. */
static void compile_file(const char *name, const char *text, const char *definitions) {
    mst_section_file file;
    assert_ok(mst_section_read("nvrtc_texts", name, text, (int64_t)strlen(text), &file));
    assert_true(file.count > 0);
    for (int64_t i = 0; i < file.count; i++) {
        mst_string source = {0};
        assert_ok(mst_string_print(&source, "%s%s%s", definitions, file.device.data ? file.device.data : "", file.kernels[i].code.data));
        compile(file.kernels[i].name, source.data);
        mst_string_free(&source);
    }
    mst_section_free(&file);
}

static void files_of_the_tests(void **state) {
    (void)state;
    const muster_dtype last = architecture == 90 ? MST_DTYPE_COUNT - 1 : MUSTER_F16; /* that one has them all */
    for (muster_dtype dtype = MUSTER_F16; dtype <= last; dtype++) {
        char definitions[200];
        snprintf(definitions, sizeof definitions, "#define DTYPE_INPUT_0 %s\n#define DTYPE_OUTPUT_0 %s\n", mst_type_in_source(dtype),
                 mst_type_in_source(dtype));
        compile_file("eye", kernel_file_eye, definitions);
        compile_file("generic", kernel_file_generic, definitions);
    }
    compile_file("strings", kernel_file_strings, "");
}

static void files_of_the_samples(void **state) {
    (void)state;
    static const char *const names[] = {MUSTER_SAMPLE_FILES};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096], text[20000];
        snprintf(path, sizeof path, "%s/%s", MUSTER_SAMPLES, names[i]);
        FILE *file = fopen(path, "r");
        if (!file) fail_msg("%s", path);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        compile_file(names[i], text, "");
    }
}

/* The samples' texts, which tests/samples takes out of the programs. */
static void texts_of_the_samples(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
    } texts[] = {
#include "sample_texts.inc"
    };
    assert_true(sizeof texts / sizeof *texts > 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) compile(texts[i].name, texts[i].text);
}

int main(int argc, char **argv) {
    nvrtc_find_library();
    setenv("MUSTER_CACHE_DIR", "off", 1);
    architecture = argc > 1 ? atoi(argv[1]) : 90;
    if (mst_nvrtc_api_get(&api) != MUSTER_OK) {
        fprintf(stderr, "%s\nscript/fetch-nvrtc fetches it\n", muster_last_error());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_the_tests),
        cmocka_unit_test(files_of_the_tests),
        cmocka_unit_test(files_of_the_samples),
        cmocka_unit_test(texts_of_the_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

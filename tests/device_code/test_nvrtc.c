/* The real NVRTC compiles the library's kernel sources. The argument is the architecture, such as
 * 90 for sm_90. Without an argument the program tests what is the same for all architectures.
 * What it has compiled is listed in compiled.txt, by the key of the cache: the sources, the options
 * and NVRTC's version. Of what is listed one in ten is compiled again, by the seed, and all with
 * MUSTER_TEST_FULL. MUSTER_WRITE_COMPILED=1 compiles all and writes the list. */
#include "base_check.h"
#include "base_seed.h"
#include "code_private.h"
#include "communicator_impl.h"
#include "device_nvrtc.h"
#include "nn_impl.h"
#include "nvrtc_api_private.h"
#include "ops_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static int32_t architecture;
static const mst_nvrtc_api *api;

static mst_code_target target_of(int32_t of) {
    return (mst_code_target){.compiler = &mst_nvrtc_compiler, .user = (void *)(uintptr_t)api, .architecture = of};
}

/* As one object: `bytes` with zeros among them. */
static bool contains(const mst_code_image *image, const char *word) {
    return memmem(image->data, (size_t)image->bytes, word, strlen(word)) != NULL;
}

/* User time of this process so far, in seconds. */
static double user_time(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec;
}

/* Returns the bytes of the image. */
static int64_t compile_family(const mst_code_target *target, int32_t place) {
    const mst_code_family *family = mst_code_family_at(place);
    mst_code_image image;
    assert_ok(mst_code_build_family(target, place, &image));
    if (image.log) fail_msg("NVRTC warns: %.2000s", image.log);
    assert_memory_equal(image.data, "\177ELF", 4);
    assert_true(family->kernel_count > 0);
    for (int32_t i = 0; i < family->kernel_count; i++)
        if (!contains(&image, family->kernels[i])) fail_msg("the image of %s lacks the kernel %s", family->source.name, family->kernels[i]);
    const int64_t bytes = image.bytes;
    mst_code_release(&image);
    return bytes;
}

/* ---- what has been compiled before ---- */

enum { LINE = 160, AGAIN = 10 };

static void line_of(const mst_code_target *target, const mst_code_headers *headers, int32_t place, char line[LINE]) {
    const mst_code_program program = mst_code_family_program(place, headers);
    mst_code_key key;
    assert_ok(mst_code_key_of(target, &program, &key));
    int length = snprintf(line, LINE, "%d ", (int)architecture);
    for (size_t i = 0; i < sizeof key.bytes; i++) length += snprintf(line + length, (size_t)(LINE - length), "%02x", key.bytes[i]);
    snprintf(line + length, (size_t)(LINE - length), " %s\n", program.name);
}

static bool is_listed(const char *wanted) {
    char line[LINE];
    bool found = false;
    FILE *file = fopen(COMPILED, "r");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file)) found = strcmp(line, wanted) == 0;
    fclose(file);
    return found;
}

/* Keeps the lines of other architectures. */
static void write_list(const mst_code_target *target, const mst_code_headers *headers) {
    static char kept[1 << 16];
    char line[LINE];
    size_t length = 0;
    FILE *file = fopen(COMPILED, "r");
    while (file && fgets(line, sizeof line, file))
        if (atoi(line) != architecture) length += (size_t)snprintf(kept + length, sizeof kept - length, "%s", line);
    if (file) fclose(file);
    file = fopen(COMPILED, "w");
    assert_non_null(file);
    fwrite(kept, 1, length, file);
    for (int32_t i = 0; i < mst_code_family_count(); i++) {
        line_of(target, headers, i, line);
        fputs(line, file);
    }
    assert_int_equal(fclose(file), 0);
}

/* The seconds are shown, not tested: docs/gpus.md has them. */
static void test_every_kernel_compiles(void **state) {
    (void)state;
    static const char *const times[] = {"at open", "at open of several", "at first use"};
    const bool writes = getenv("MUSTER_WRITE_COMPILED") != NULL, all = writes || test_is_full();
    double seconds[3] = {0}, before;
    mst_code_target target = target_of(architecture);
    mst_code_headers headers;
    const int32_t count = mst_code_family_count();
    int32_t compiled = 0, listed = 0;
    assert_true(count >= 20);
    assert_ok(mst_code_headers_make(&headers));
    for (int32_t i = 0; i < count; i++) {
        const mst_code_family *family = mst_code_family_at(i);
        char line[LINE];
        line_of(&target, &headers, i, line);
        if (!all && (uint64_t)i % AGAIN != test_seed() % AGAIN && is_listed(line)) {
            listed++;
            continue;
        }
        before = user_time();
        const int64_t bytes = compile_family(&target, i);
        compiled++;
        seconds[family->time] += user_time() - before;
        print_message("%6.2f s %7lld bytes %s, %s\n", user_time() - before, (long long)bytes, family->source.name, times[family->time]);
    }
    for (int i = 0; i < 3; i++) print_message("%6.2f s of CPU time %s\n", seconds[i], times[i]);
    print_message("%d compiled, %d listed in compiled.txt\n", (int)compiled, (int)listed);
    assert_int_equal(compiled + listed, count);
    assert_true(compiled >= count / AGAIN);
    if (writes) write_list(&target, &headers);
    mst_code_headers_free(&headers);
}

static const mst_code_source simple_texts[] = {{"wrong.cuh", "static inline int wrong(int x) {\n    return x +;\n}\n"}};

static void test_a_newer_device_gets_ptx(void **state) {
    (void)state;
    const mst_code_program simple = {.name = "simple.cu", .text = "extern \"C\" __global__ void simple(int *x) { *x = 1; }\n"};
    mst_code_target target = target_of(9990);
    mst_code_image image;
    assert_ok(mst_code_build(&target, &simple, &image));
    assert_true(contains(&image, ".target sm_"));
    assert_true(contains(&image, ".entry simple"));
    assert_int_equal(strlen(image.data), image.bytes - 1); /* the loader reads it as a string */
    mst_code_release(&image);
}

static void test_a_device_that_is_too_old_is_refused(void **state) {
    (void)state;
    mst_code_target target = target_of(13);
    mst_code_image image;
    assert_refused(mst_code_build_family(&target, 0, &image), MUSTER_UNSUPPORTED, "compute capability 1.3");
    mst_code_release(&image);
}

static void test_an_error_names_the_text_and_the_line(void **state) {
    (void)state;
    const mst_code_program wrong = {.name = "main.cu", .text = "#include \"wrong.cuh\"\n", .sources = simple_texts, .count = 1};
    mst_code_target target = target_of(90);
    mst_code_image image;
    muster_status status = mst_code_build(&target, &wrong, &image);
    assert_int_not_equal(status, MUSTER_OK);
    if (!strstr(muster_last_error(), "wrong.cuh(2): error")) fail_msg("%s", muster_last_error());
    assert_non_null(image.log);
    assert_non_null(strstr(image.log, "wrong.cuh(2): error"));
    mst_code_release(&image);
}

int main(int argc, char **argv) {
    nvrtc_find_library();
    setenv("MUSTER_CACHE_DIR", "off", 1);
    if (mst_nvrtc_api_get(&api) != MUSTER_OK) {
        fprintf(stderr, "%s\nscript/fetch-nvrtc fetches it\n", muster_last_error());
        return 1;
    }
    if (mst_code_add(&mst_ops_code) != MUSTER_OK || mst_code_add(&mst_nn_code) != MUSTER_OK ||
        mst_code_add(&mst_collectives_code) != MUSTER_OK)
        return 1;
    const struct CMUnitTest one[] = {cmocka_unit_test(test_every_kernel_compiles)};
    const struct CMUnitTest all[] = {cmocka_unit_test(test_a_newer_device_gets_ptx),
                                     cmocka_unit_test(test_a_device_that_is_too_old_is_refused),
                                     cmocka_unit_test(test_an_error_names_the_text_and_the_line)};
    if (argc < 2) return cmocka_run_group_tests(all, NULL, NULL);
    architecture = atoi(argv[1]);
    return cmocka_run_group_tests(one, NULL, NULL);
}

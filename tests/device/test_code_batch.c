/* The families of built-in kernels that a device compiles when it opens, with a compiler that
 * counts. */
#include "base_check.h"
#include "code_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a compiler ---- */

typedef struct fake {
    _Atomic int compiled;
    const char *fails; /* the name of the source that it refuses */
    int lines;         /* announced */
    char line[MST_MESSAGE_SIZE];
} fake;

static muster_status fake_version(const mst_code_target *target, char text[MST_CODE_VERSION_SIZE]) {
    (void)target;
    snprintf(text, MST_CODE_VERSION_SIZE, "1.0");
    return MUSTER_OK;
}

/* "<name>:<text>". */
static muster_status fake_compile(const mst_code_target *target, const mst_code_program *program, mst_code_image *image) {
    fake *f = target->user;
    atomic_fetch_add(&f->compiled, 1);
    if (f->fails && strcmp(f->fails, program->name) == 0) return mst_error(MUSTER_INTERNAL, "fake: %s is wrong", program->name);
    image->data = mst_alloc(256);
    if (!image->data) return mst_out_of_memory("fake", 256);
    image->bytes = snprintf(image->data, 256, "%s:%.200s", program->name, program->text);
    return MUSTER_OK;
}

static void hear(void *user, const char *sentence) {
    fake *f = user;
    assert_int_equal(f->compiled, 0);
    f->lines++;
    snprintf(f->line, sizeof f->line, "%s", sentence);
}

static const mst_code_compiler compiler = {.name = "fake", .version = fake_version, .compile = fake_compile};

static mst_code_target target_of(fake *f) {
    return (mst_code_target){.compiler = &compiler, .user = f, .architecture = 90, .announce = hear, .announce_user = f};
}

/* ---- families ---- */

/* PROBE: peer.cu of the module device, which is always registered. */
enum { PROBE, OPEN_1, LATE_1, SEVERAL, OPEN_2, LATE_2, FAMILIES };
static const char *const kernels[] = {"a", "b", "c", "d", "e", "f"};
static const mst_code_family families[FAMILIES] = {[OPEN_1] = {{"open1.cu", "1"}, kernels, 2, MST_CODE_AT_OPEN},
                                                   [LATE_1] = {{"late1.cu", "2"}, kernels + 2, 1, MST_CODE_AT_FIRST_USE},
                                                   [SEVERAL] = {{"several.cu", "3"}, kernels + 3, 1, MST_CODE_OF_SEVERAL},
                                                   [OPEN_2] = {{"open2.cu", "4"}, kernels + 4, 1, MST_CODE_AT_OPEN},
                                                   [LATE_2] = {{"late2.cu", "5"}, kernels + 5, 1, MST_CODE_AT_FIRST_USE}};
static const mst_code_source headers[] = {{"h.h", "a header"}};
static const mst_code_sources module = {"test", headers, 1, families + 1, FAMILIES - 1};

static int add_families(void **state) {
    (void)state;
    setenv("MUSTER_CACHE_DIR", "off", 1);
    assert_int_equal(mst_code_family_count(), 1);
    assert_ok(mst_code_add(&module));
    assert_int_equal(mst_code_family_count(), FAMILIES);
    return 0;
}

static void assert_image(const mst_code_image *image, int family) {
    char expected[256];
    const mst_code_source *source = &mst_code_family_at(family)->source;
    snprintf(expected, sizeof expected, "%s:%.200s", source->name, source->text);
    assert_non_null(image->data);
    assert_string_equal(image->data, expected);
    assert_int_equal(image->bytes, strlen(expected));
}

/* Exactly the families of the bits of `wanted` have images. */
static void build(fake *f, bool several, unsigned wanted) {
    mst_code_target target = target_of(f);
    mst_code_image images[FAMILIES];
    assert_ok(mst_code_build_families(&target, several, images));
    for (int i = 0; i < FAMILIES; i++) {
        if (wanted >> i & 1)
            assert_image(&images[i], i);
        else
            assert_null(images[i].data);
        mst_code_release(&images[i]);
    }
}

/* ---- */

static void a_device_compiles_what_it_needs_at_open(void **state) {
    (void)state;
    fake alone = {0}, beside = {0};
    build(&alone, false, 1 << OPEN_1 | 1 << OPEN_2);
    assert_int_equal(alone.compiled, 2);
    build(&beside, true, 1 << OPEN_1 | 1 << OPEN_2 | 1 << SEVERAL | 1 << PROBE);
    assert_int_equal(beside.compiled, 4);
}

static void it_is_said_once_and_before(void **state) {
    (void)state;
    fake f = {0};
    build(&f, true, 1 << OPEN_1 | 1 << OPEN_2 | 1 << SEVERAL | 1 << PROBE);
    assert_int_equal(f.lines, 1);
    if (!strstr(f.line, "compiling 4 of 6 kernel sources, which takes about ")) fail_msg("%s", f.line);
    mst_code_hold();
    fake first = {0}, second = {0};
    build(&first, false, 1 << OPEN_1 | 1 << OPEN_2);
    build(&second, false, 1 << OPEN_1 | 1 << OPEN_2);
    mst_code_let_go();
    assert_int_equal(second.lines, 0);
}

/* Without a cache on disk. What a device has compiled at a first use, the next one has at open. */
static void images_are_kept_in_memory_while_devices_are_open(void **state) {
    (void)state;
    fake f = {0};
    mst_code_target target = target_of(&f);
    mst_code_image image;
    const int64_t live = mst_memory_live();
    mst_code_hold();
    mst_code_hold();
    build(&f, false, 1 << OPEN_1 | 1 << OPEN_2);
    assert_int_equal(f.compiled, 2);
    f.compiled = 0;
    assert_ok(mst_code_build_family(&target, LATE_2, &image));
    assert_image(&image, LATE_2);
    mst_code_release(&image);
    mst_code_let_go();
    build(&f, false, 1 << OPEN_1 | 1 << OPEN_2 | 1 << LATE_2);
    assert_int_equal(f.compiled, 1);
    mst_code_let_go();
    assert_int_equal(mst_memory_live(), live);
    f.compiled = 0;
    build(&f, false, 1 << OPEN_1 | 1 << OPEN_2);
    assert_int_equal(f.compiled, 2);
    assert_int_equal(mst_memory_live(), live);
}

static void a_family_that_fails_leaves_no_image(void **state) {
    (void)state;
    fake f = {.fails = "several.cu"};
    mst_code_target target = target_of(&f);
    mst_code_image images[FAMILIES];
    const int64_t live = mst_memory_live();
    assert_refused(mst_code_build_families(&target, true, images), MUSTER_INTERNAL, "fake: several.cu is wrong");
    for (int i = 0; i < FAMILIES; i++) assert_null(images[i].data);
    assert_int_equal(mst_memory_live(), live);
    f = (fake){0};
    build(&f, true, 1 << OPEN_1 | 1 << OPEN_2 | 1 << SEVERAL | 1 << PROBE);
}

static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    mst_code_image images[FAMILIES];
    const int64_t live = mst_memory_live();
    int64_t failed = 0;
    for (bool done = false; !done;) {
        fake f = {0};
        mst_code_target target = target_of(&f);
        const int64_t before = mst_memory_count();
        mst_memory_fail_at(failed + 1);
        const muster_status status = mst_code_build_families(&target, true, images);
        mst_memory_fail_at(0);
        done = mst_memory_count() - before <= failed;
        if (!done) failed++;
        if (status != MUSTER_OK) assert_refused(status, MUSTER_OUT_OF_MEMORY, "out of memory");
        for (int i = 0; i < FAMILIES; i++) mst_code_release(&images[i]);
        assert_int_equal(mst_memory_live(), live);
    }
    assert_true(failed >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_compiles_what_it_needs_at_open),
        cmocka_unit_test(it_is_said_once_and_before),
        cmocka_unit_test(images_are_kept_in_memory_while_devices_are_open),
        cmocka_unit_test(a_family_that_fails_leaves_no_image),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, add_families, NULL);
}

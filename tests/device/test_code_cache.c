/* The build of device code and its cache, with a compiler that counts. */
#include "base_await.h"
#include "base_check.h"
#include "code_impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a compiler ---- */

typedef struct fake {
    _Atomic int compiled, arrived, gate; /* gate: compile waits until so many builds have been asked for */
    bool fails;
    const char *version;
} fake;

static muster_status fake_version(const mst_code_target *target, char text[MST_CODE_VERSION_SIZE]) {
    fake *f = target->user;
    snprintf(text, MST_CODE_VERSION_SIZE, "%s", f->version ? f->version : "1.0");
    atomic_fetch_add(&f->arrived, 1);
    return MUSTER_OK;
}

/* "<architecture>:<text>". */
static muster_status fake_compile(const mst_code_target *target, const mst_code_program *program, mst_code_image *image) {
    fake *f = target->user;
    atomic_fetch_add(&f->compiled, 1);
    TEST_AWAIT(atomic_load(&f->arrived) >= atomic_load(&f->gate), 100000);
    if (f->fails) {
        image->log = mst_strdup("wrong.cu(3): error: the whole log");
        return mst_error(MUSTER_INTERNAL, "fake: wrong.cu(3): error");
    }
    image->data = mst_alloc(256);
    if (!image->data) return mst_out_of_memory("fake", 256);
    image->bytes = snprintf(image->data, 256, "%d:%.200s", target->architecture, program->text);
    return MUSTER_OK;
}

static const mst_code_compiler compiler = {.name = "fake", .version = fake_version, .compile = fake_compile};
static const mst_code_source some_texts[] = {{"a.h", "text of a"}, {"b.h", "text of b"}};
static const mst_code_program program = {.name = "p.cu", .text = "the program", .sources = some_texts, .count = 2};

static mst_code_target target_of(fake *f) { return (mst_code_target){.compiler = &compiler, .user = f, .architecture = 90}; }

/* Builds, checks what comes, and tells whether it came from the cache. */
static bool found(fake *f) {
    mst_code_target target = target_of(f);
    mst_code_image image;
    assert_ok(mst_code_build(&target, &program, &image));
    assert_string_equal(image.data, "90:the program");
    assert_int_equal(image.bytes, strlen("90:the program"));
    bool result = image.found;
    mst_code_release(&image);
    return result;
}

/* ---- a folder for each test ---- */

static char folder[64];

static int new_folder(void **state) {
    (void)state;
    char text[MST_MESSAGE_SIZE];
    (void)mst_code_take_notice(text);
    snprintf(folder, sizeof folder, "/tmp/muster-test-cache-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    return setenv("MUSTER_CACHE_DIR", folder, 1);
}

static int files(char last[512]) {
    int count = 0;
    DIR *open = opendir(folder);
    if (!open) return 0;
    for (struct dirent *entry; (entry = readdir(open));)
        if (entry->d_name[0] != '.') {
            count++;
            if (last) snprintf(last, 512, "%s/%s", folder, entry->d_name);
        }
    closedir(open);
    return count;
}

static int remove_folder(void **state) {
    (void)state;
    char path[512];
    while (files(path) > 0)
        if (unlink(path) != 0 && rmdir(path) != 0) return 1;
    return rmdir(folder) != 0;
}

/* ---- */

static void test_the_second_build_comes_from_the_cache(void **state) {
    (void)state;
    fake f = {0};
    assert_false(found(&f));
    assert_true(found(&f));
    assert_int_equal(f.compiled, 1);
    assert_int_equal(files(NULL), 1);
}

static void test_the_file_is_for_its_owner_alone(void **state) {
    (void)state;
    fake f = {0};
    char path[512];
    struct stat status;
    found(&f);
    assert_int_equal(files(path), 1);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
}

static void test_whatever_the_image_depends_on_is_in_the_key(void **state) {
    (void)state;
    fake f = {0}, newer = {.version = "1.1"};
    const mst_code_source other_texts[] = {{"a.h", "text of a"}, {"b.h", "text of c"}},
                          other_names[] = {{"a.h", "text of a"}, {"c.h", "text of b"}};
    mst_code_program sources = program, names = program, fewer = program;
    sources.sources = other_texts;
    names.sources = other_names;
    fewer.count = 1;
    mst_code_target plain = target_of(&f), version = target_of(&newer), architecture = plain, options = plain;
    architecture.architecture = 80;
    options.options[0] = "-G";
    const struct {
        const mst_code_target *target;
        const mst_code_program *program;
    } builds[] = {{&plain, &program}, {&version, &program}, {&architecture, &program}, {&options, &program},
                  {&plain, &sources}, {&plain, &names},     {&plain, &fewer}};
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        mst_code_image image;
        assert_ok(mst_code_build(builds[i].target, builds[i].program, &image));
        assert_false(image.found);
        mst_code_release(&image);
        assert_int_equal(files(NULL), i + 1);
    }
}

/* Cut anywhere, longer, or with any byte changed: a miss, and replaced. */
static void test_a_damaged_entry_is_compiled_again(void **state) {
    (void)state;
    fake f = {0};
    char path[512], good[4096], bad[4097];
    found(&f);
    assert_int_equal(files(path), 1);
    FILE *file = fopen(path, "r");
    size_t bytes = fread(good, 1, sizeof good, file);
    fclose(file);
    for (size_t i = 0; i < 2 * bytes + 1; i++) {
        size_t length = i < bytes ? i : i == 2 * bytes ? bytes + 1 : bytes;
        memcpy(bad, good, bytes);
        bad[bytes] = 0;
        if (i >= bytes && i < 2 * bytes) bad[i - bytes] ^= 1;
        file = fopen(path, "w");
        assert_int_equal(fwrite(bad, 1, length, file), length);
        fclose(file);
        assert_false(found(&f));
        assert_true(found(&f));
    }
    assert_int_equal(files(NULL), 1);
}

static void test_what_is_no_file_is_a_miss(void **state) {
    (void)state;
    fake f = {0};
    char path[512], moved[600];
    found(&f);
    assert_int_equal(files(path), 1);
    snprintf(moved, sizeof moved, "%s.moved", path);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink(moved, path), 0);
    assert_false(found(&f)); /* and puts a file there */
    assert_true(found(&f));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(found(&f)); /* without waiting for a writer */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(found(&f));
    assert_false(found(&f));
    assert_int_equal(files(NULL), 2); /* nothing half done is left */
}

static void assert_no_cache(const char *words) {
    fake f = {0};
    char text[MST_MESSAGE_SIZE];
    assert_false(found(&f));
    assert_false(found(&f));
    assert_int_equal(f.compiled, 2);
    if (!words) {
        assert_false(mst_code_take_notice(text));
        return;
    }
    assert_true(mst_code_take_notice(text));
    if (!strstr(text, words)) fail_msg("\"%s\" lacks \"%s\"", text, words);
    assert_false(found(&f));
    assert_false(mst_code_take_notice(text)); /* once per reason */
}

static void test_a_folder_that_others_may_write_is_refused(void **state) {
    (void)state;
    assert_int_equal(chmod(folder, 0770), 0);
    assert_no_cache("mode 770");
    assert_int_equal(chmod(folder, 0702), 0);
    assert_no_cache("mode 702");
    assert_int_equal(files(NULL), 0);
}

/* As root by giving a folder away; else by one of root's. */
static void test_a_folder_of_another_user_is_refused(void **state) {
    (void)state;
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, 12345, (gid_t)-1), 0);
        assert_no_cache("of user 12345");
    } else {
        assert_int_equal(setenv("MUSTER_CACHE_DIR", "/usr", 1), 0);
        assert_no_cache("of user 0");
    }
    assert_int_equal(files(NULL), 0);
}

static void test_no_folder_can_be_made(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/file", folder);
    FILE *file = fopen(path, "w");
    fclose(file);
    snprintf(path, sizeof path, "%s/file/cache", folder);
    assert_int_equal(setenv("MUSTER_CACHE_DIR", path, 1), 0);
    assert_no_cache("is not kept");
}

static void test_off_means_no_cache_and_no_notice(void **state) {
    (void)state;
    assert_int_equal(setenv("MUSTER_CACHE_DIR", "off", 1), 0);
    assert_no_cache(NULL);
    assert_int_equal(access("off", F_OK), -1);
}

static void assert_private_folder(const char *path) {
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
}

static void test_the_folder_is_the_users_cache_and_is_made(void **state) {
    (void)state;
    fake f = {0};
    char base[512], path[600], file[1200];
    unsetenv("MUSTER_CACHE_DIR");
    const char *const variables[] = {"XDG_CACHE_HOME", "HOME"}, *const below[] = {"muster", ".cache/muster"};
    for (int i = 0; i < 2; i++) {
        snprintf(base, sizeof base, "%s/%d", folder, i);
        snprintf(path, sizeof path, "%s/%s", base, below[i]);
        assert_int_equal(setenv(variables[i], base, 1), 0);
        assert_false(found(&f));
        assert_true(found(&f));
        assert_private_folder(path);
        DIR *open = opendir(path);
        for (struct dirent *entry; (entry = readdir(open));) {
            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            if (entry->d_name[0] != '.') assert_int_equal(unlink(file), 0);
        }
        closedir(open);
        for (char *end = path + strlen(path); strlen(path) >= strlen(base); *(end = strrchr(path, '/')) = 0)
            assert_int_equal(rmdir(path), 0);
        assert_int_equal(setenv(variables[i], "relative", 1), 0); /* not a folder to use: the next one's turn */
    }
    assert_int_equal(f.compiled, 2);
}

/* ---- the folder of temporary files ---- */

/* No home, or one where no folder can be made; the folder of the test stands for /tmp. */
static int new_temporary(void **state) {
    if (new_folder(state)) return 1;
    unsetenv("MUSTER_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    return setenv("TMPDIR", folder, 1);
}

static void temporary_cache(char path[512]) { snprintf(path, 512, "%s/muster-%ld", folder, (long)geteuid()); }

static int remove_temporary(void **state) {
    char path[512], kept[64];
    temporary_cache(path);
    memcpy(kept, folder, sizeof kept);
    unsetenv("TMPDIR");
    if (access(path, F_OK) == 0) {
        snprintf(folder, sizeof folder, "%.63s", path);
        if (remove_folder(state)) return 1;
    }
    memcpy(folder, kept, sizeof kept);
    return remove_folder(state);
}

static void test_without_a_home_the_cache_is_among_the_temporary_files(void **state) {
    (void)state;
    static const char *const homes[] = {NULL, "relative", "/proc/no/such/home"};
    char path[512];
    fake f = {0};
    temporary_cache(path);
    for (int i = 0; i < 3; i++) {
        char text[MST_MESSAGE_SIZE];
        if (homes[i]) assert_int_equal(setenv("HOME", homes[i], 1), 0);
        assert_int_equal(found(&f), i > 0);
        assert_true(found(&f));
        assert_private_folder(path);
        assert_false(mst_code_take_notice(text));
    }
    assert_int_equal(f.compiled, 1);
}

static void test_a_home_that_works_leaves_the_temporary_files_alone(void **state) {
    (void)state;
    char home[256], path[512], file[1024];
    fake f = {0};
    temporary_cache(path);
    snprintf(home, sizeof home, "%s/home", folder);
    assert_int_equal(setenv("XDG_CACHE_HOME", home, 1), 0);
    assert_false(found(&f));
    assert_true(found(&f));
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/muster", home);
    DIR *open = opendir(path);
    for (struct dirent *entry; (entry = readdir(open));) {
        snprintf(file, sizeof file, "%s/%.255s", path, entry->d_name);
        if (entry->d_name[0] != '.') assert_int_equal(unlink(file), 0);
    }
    closedir(open);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(home), 0);
}

static void test_a_temporary_folder_that_is_not_safe_is_not_used(void **state) {
    (void)state;
    char path[512], elsewhere[512];
    temporary_cache(path);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(symlink(elsewhere, path), 0); /* a link, by which another user might lead us anywhere */
    assert_no_cache("muster-");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0777), 0); /* into which others may put files */
    assert_no_cache("mode 777");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(elsewhere), 0);
}

/* In a folder that all may write, and that lacks the sticky bit, others may rename ours. */
static void test_the_folder_of_temporary_files_must_be_safe_itself(void **state) {
    (void)state;
    char path[512];
    fake f = {0};
    temporary_cache(path);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_no_cache("neither HOME nor TMPDIR gives a folder");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(chmod(folder, 01777), 0);
    assert_false(found(&f));
    assert_true(found(&f));
}

static void test_a_compile_error_carries_the_log_and_is_not_kept(void **state) {
    (void)state;
    fake f = {.fails = true};
    mst_code_target target = target_of(&f);
    mst_code_image image;
    for (int i = 0; i < 2; i++) {
        assert_refused(mst_code_build(&target, &program, &image), MUSTER_INTERNAL, "wrong.cu(3): error");
        assert_null(image.data);
        assert_string_equal(image.log, "wrong.cu(3): error: the whole log");
        mst_code_release(&image);
    }
    assert_int_equal(f.compiled, 2);
    assert_int_equal(files(NULL), 0);
}

static void test_memory_may_run_out_anywhere(void **state) {
    (void)state;
    fake f = {0};
    mst_code_target target = target_of(&f);
    int64_t live = mst_memory_live(), before;
    for (int64_t k = 1, done = 0; !done; k++) {
        mst_code_image image;
        before = mst_memory_count();
        mst_memory_fail_at(k);
        muster_status status = mst_code_build(&target, &program, &image);
        mst_memory_fail_at(0);
        done = mst_memory_count() - before < k;
        if (status != MUSTER_OK) assert_refused(status, MUSTER_OUT_OF_MEMORY, "out of memory");
        mst_code_release(&image);
        assert_int_equal(mst_memory_live(), live);
    }
    assert_true(found(&f));
}

static void *build_in_thread(void *argument) {
    mst_code_target target = target_of(argument);
    mst_code_image *image = malloc(sizeof *image);
    if (mst_code_build(&target, &program, image) != MUSTER_OK) {
        mst_code_release(image);
        image->log = mst_strdup(muster_last_error());
    }
    return image;
}

/* The compiler holds the first until all have asked. */
static void assert_joined(bool fails) {
    enum { THREADS = 5 };
    fake f = {.gate = THREADS, .fails = fails};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, build_in_thread, &f), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        mst_code_image *image = result;
        if (fails)
            assert_non_null(strstr(image->log, "wrong.cu(3)"));
        else
            assert_string_equal(image->data, "90:the program");
        mst_code_release(image);
        free(image);
    }
    /* one that asked but had not joined when the first was done finds it in the cache, or fails by
     * itself */
    if (!fails) assert_int_equal(f.compiled, 1);
    assert_in_range(f.compiled, 1, THREADS);
}

static void test_builds_of_the_same_are_joined(void **state) {
    (void)state;
    assert_joined(false);
}

static void test_joined_builds_fail_together(void **state) {
    (void)state;
    assert_joined(true);
}

static void test_processes_may_race(void **state) {
    (void)state;
    enum { PROCESSES = 6, ROUNDS = 40 };
    pid_t children[PROCESSES];
    for (int c = 0; c < PROCESSES; c++) {
        children[c] = fork();
        if (children[c] != 0) continue;
        fake f = {0};
        mst_code_target target = target_of(&f);
        for (int i = 0; i < ROUNDS; i++) {
            mst_code_image image;
            char path[512];
            if (mst_code_build(&target, &program, &image) != MUSTER_OK || strcmp(image.data, "90:the program") != 0) _exit(1);
            mst_code_release(&image);
            /* now and then somebody clears the cache, or takes a file half written */
            if (i % 3 == c % 3 && files(path) > 0) (void)unlink(path);
        }
        _exit(0);
    }
    for (int c = 0; c < PROCESSES; c++) {
        int status;
        assert_int_equal(waitpid(children[c], &status, 0), children[c]);
        assert_int_equal(status, 0);
    }
    assert_in_range(files(NULL), 0, 1);
}

static void test_sha256(void **state) {
    (void)state;
    /* FIPS 180-4's examples, and a million times "a" */
    static const struct {
        const char *text;
        int times;
        const char *digest;
    } cases[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mst_sha256 hash;
        uint8_t digest[32];
        char text[65];
        mst_sha256_begin(&hash);
        for (int t = 0; t < cases[i].times; t++) mst_sha256_add(&hash, cases[i].text, (int64_t)strlen(cases[i].text));
        mst_sha256_end(&hash, digest);
        for (int j = 0; j < 32; j++) snprintf(text + 2 * j, 3, "%02x", digest[j]);
        assert_string_equal(text, cases[i].digest);
    }
}

static void test_kernels_have_places_by_name(void **state) {
    (void)state;
    static const char *const names[] = {"first", "second"};
    static const mst_code_family families[] = {{{"one.cu", "the first"}, names, 1, MST_CODE_AT_FIRST_USE},
                                               {{"two.cu", "the second"}, names + 1, 1, MST_CODE_AT_OPEN}};
    static const mst_code_sources module = {"test", some_texts, 2, families, 2};
    static mst_code_kernel second = {.name = "second"}, none = {.name = "none"};
    int32_t before = mst_code_kernel_count(), families_before = mst_code_family_count();
    assert_ok(mst_code_add(&module));
    assert_ok(mst_code_add(&module));
    assert_int_equal(mst_code_kernel_count(), before + 2);
    assert_int_equal(mst_code_family_count(), families_before + 2);
    assert_ptr_equal(mst_code_family_at(families_before + 1), &families[1]);
    assert_null(mst_code_family_at(families_before + 2));
    assert_null(mst_code_family_at(-1));
    int32_t first = -1;
    assert_int_equal(mst_code_kernel_family(before + 1, &first), families_before + 1);
    assert_int_equal(first, before + 1);
    assert_int_equal(mst_code_kernel_family(before, &first), families_before);
    assert_int_equal(first, before);
    assert_int_equal(mst_code_kernel_family(before + 2, &first), -1);
    assert_int_equal(mst_code_kernel_family(-1, &first), -1);
    assert_int_equal(mst_code_kernel_place(&second), before + 1);
    assert_int_equal(mst_code_kernel_place(&second), before + 1);
    assert_string_equal(mst_code_kernel_name(before), "first");
    assert_int_equal(mst_code_kernel_place(&none), -1);
    assert_null(mst_code_kernel_name(-1));
    assert_null(mst_code_kernel_name(before + 2));
}

int main(void) {
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, new_folder, remove_folder)
#define AMONG_TEMPORARY_FILES(test) cmocka_unit_test_setup_teardown(test, new_temporary, remove_temporary)
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(test_the_second_build_comes_from_the_cache),
        IN_A_FOLDER(test_the_file_is_for_its_owner_alone),
        IN_A_FOLDER(test_whatever_the_image_depends_on_is_in_the_key),
        IN_A_FOLDER(test_a_damaged_entry_is_compiled_again),
        IN_A_FOLDER(test_what_is_no_file_is_a_miss),
        IN_A_FOLDER(test_a_folder_that_others_may_write_is_refused),
        IN_A_FOLDER(test_a_folder_of_another_user_is_refused),
        IN_A_FOLDER(test_no_folder_can_be_made),
        IN_A_FOLDER(test_off_means_no_cache_and_no_notice),
        IN_A_FOLDER(test_the_folder_is_the_users_cache_and_is_made),
        AMONG_TEMPORARY_FILES(test_without_a_home_the_cache_is_among_the_temporary_files),
        AMONG_TEMPORARY_FILES(test_a_home_that_works_leaves_the_temporary_files_alone),
        AMONG_TEMPORARY_FILES(test_a_temporary_folder_that_is_not_safe_is_not_used),
        AMONG_TEMPORARY_FILES(test_the_folder_of_temporary_files_must_be_safe_itself),
        IN_A_FOLDER(test_a_compile_error_carries_the_log_and_is_not_kept),
        IN_A_FOLDER(test_memory_may_run_out_anywhere),
        IN_A_FOLDER(test_builds_of_the_same_are_joined),
        IN_A_FOLDER(test_joined_builds_fail_together),
        IN_A_FOLDER(test_processes_may_race),
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_kernels_have_places_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

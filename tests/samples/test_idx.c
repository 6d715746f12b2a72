/* The IDX reader takes a sound file and refuses damaged ones, each with its own sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "idx.h"

enum { ROWS = 3, PIXELS = 4 };

static char folder[64];
static const uint8_t good_images[] = {0, 0, 8, 3, 0, 0, 0, ROWS, 0, 0, 0, 2, 0, 0, 0, 2, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33};
static const uint8_t good_labels[] = {0, 0, 8, 1, 0, 0, 0, ROWS, 7, 0, 9};
static const char *const images_name = "train-images-idx3-ubyte.gz", *const labels_name = "train-labels-idx1-ubyte.gz";

static char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_raw(const char *name, const uint8_t *bytes, size_t size) {
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_gzip(const char *name, const uint8_t *bytes, size_t size) {
    gzFile file = gzopen(path_of(name), "wb");
    assert_non_null(file);
    if (size) assert_int_equal(gzwrite(file, bytes, (unsigned)size), (int)size);
    assert_int_equal(gzclose(file), Z_OK);
}

/* The compressed bytes of the good images, to be damaged. */
static size_t compressed(uint8_t *bytes, size_t room) {
    write_gzip("whole.gz", good_images, sizeof good_images);
    FILE *file = fopen(path_of("whole.gz"), "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

static void assert_refused(const char *words) {
    idx_set set;
    char message[IDX_MESSAGE] = "";
    assert_int_equal(idx_read_set(folder, "train", 2, 2, 10, &set, message), -1);
    if (!strstr(message, words)) fail_msg("expected a message with \"%s\", received \"%s\"", words, message);
    assert_null(set.images.data);
    assert_null(set.labels.data);
}

static int write_good(void **state) {
    (void)state;
    write_gzip(images_name, good_images, sizeof good_images);
    write_gzip(labels_name, good_labels, sizeof good_labels);
    return 0;
}

static void reads_a_sound_set(void **state) {
    (void)state;
    idx_set set;
    char message[IDX_MESSAGE] = "";
    assert_int_equal(idx_read_set(folder, "train", 2, 2, 10, &set, message), 0);
    assert_int_equal(set.images.ndim, 3);
    assert_int_equal(set.images.shape[0], ROWS);
    assert_memory_equal(set.images.data, good_images + 16, ROWS * PIXELS);
    assert_memory_equal(set.labels.data, good_labels + 8, ROWS);
    idx_free_set(&set);
}

static void refuses_a_missing_file(void **state) {
    (void)state;
    unlink(path_of(labels_name));
    assert_refused("cannot be opened");
}

static void refuses_a_wrong_magic_number(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint8_t bytes[sizeof good_images];
        memcpy(bytes, good_images, sizeof bytes);
        bytes[i] ^= 5;
        write_gzip(images_name, bytes, sizeof bytes);
        assert_refused("wrong magic number: expected 00000803");
    }
}

static void refuses_labels_in_place_of_images(void **state) {
    (void)state;
    write_gzip(images_name, good_labels, sizeof good_labels);
    assert_refused("wrong magic number");
}

static void refuses_elements_cut_short_at_every_length(void **state) {
    (void)state;
    for (size_t size = 0; size < sizeof good_images; size++) {
        write_gzip(images_name, good_images, size);
        assert_refused("is truncated");
    }
}

static void refuses_a_gzip_stream_cut_short_at_every_length(void **state) {
    (void)state;
    uint8_t bytes[256];
    size_t whole = compressed(bytes, sizeof bytes);
    for (size_t size = 0; size < whole; size++) {
        write_raw(images_name, bytes, size);
        assert_refused("is truncated");
    }
}

static void refuses_a_wrong_checksum(void **state) {
    (void)state;
    uint8_t bytes[256];
    size_t size = compressed(bytes, sizeof bytes);
    bytes[size - 8] ^= 1; /* the last eight bytes: checksum, length */
    write_raw(images_name, bytes, size);
    assert_refused("is not a sound gzip file");
}

static void refuses_a_file_that_is_not_gzip(void **state) {
    (void)state;
    write_raw(images_name, good_images, sizeof good_images);
    assert_refused("is not a sound gzip file");
}

static void refuses_trailing_elements(void **state) {
    (void)state;
    uint8_t bytes[sizeof good_images + 1] = {0};
    memcpy(bytes, good_images, sizeof good_images);
    write_gzip(images_name, bytes, sizeof bytes);
    assert_refused("trailing bytes after the last element");
}

static void refuses_bytes_after_the_gzip_stream(void **state) {
    (void)state;
    uint8_t bytes[256];
    size_t size = compressed(bytes, sizeof bytes - 1);
    bytes[size] = 0;
    write_raw(images_name, bytes, size + 1);
    assert_refused("1 trailing bytes after the gzip stream");
}

static void refuses_images_of_another_size(void **state) {
    (void)state;
    uint8_t bytes[sizeof good_images];
    memcpy(bytes, good_images, sizeof bytes);
    bytes[11] = 4, bytes[15] = 1; /* as many pixels, another shape */
    write_gzip(images_name, bytes, sizeof bytes);
    assert_refused("expected images of 2 x 2, received 4 x 1");
}

static void refuses_sizes_that_no_memory_holds(void **state) {
    (void)state;
    uint8_t bytes[sizeof good_images];
    memcpy(bytes, good_images, sizeof bytes);
    memset(bytes + 4, 0xff, 12);
    write_gzip(images_name, bytes, sizeof bytes);
    assert_refused("wrong sizes: more than 2 GB");
}

static void refuses_a_set_without_images(void **state) {
    (void)state;
    uint8_t bytes[16];
    memcpy(bytes, good_images, sizeof bytes);
    bytes[7] = 0;
    write_gzip(images_name, bytes, sizeof bytes);
    assert_refused("expected at least one image");
}

static void refuses_fewer_labels_than_images(void **state) {
    (void)state;
    uint8_t bytes[sizeof good_labels - 1];
    memcpy(bytes, good_labels, sizeof bytes);
    bytes[7] = ROWS - 1;
    write_gzip(labels_name, bytes, sizeof bytes);
    assert_refused("expected 3 labels, one for each image, received 2");
}

static void refuses_a_label_out_of_range(void **state) {
    (void)state;
    uint8_t bytes[sizeof good_labels];
    memcpy(bytes, good_labels, sizeof bytes);
    bytes[9] = 10;
    write_gzip(labels_name, bytes, sizeof bytes);
    assert_refused("label 1 is out of range: expected 0 to 9, received 10");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reads_a_sound_set, write_good),
        cmocka_unit_test_setup(refuses_a_missing_file, write_good),
        cmocka_unit_test_setup(refuses_a_wrong_magic_number, write_good),
        cmocka_unit_test_setup(refuses_labels_in_place_of_images, write_good),
        cmocka_unit_test_setup(refuses_elements_cut_short_at_every_length, write_good),
        cmocka_unit_test_setup(refuses_a_gzip_stream_cut_short_at_every_length, write_good),
        cmocka_unit_test_setup(refuses_a_wrong_checksum, write_good),
        cmocka_unit_test_setup(refuses_a_file_that_is_not_gzip, write_good),
        cmocka_unit_test_setup(refuses_trailing_elements, write_good),
        cmocka_unit_test_setup(refuses_bytes_after_the_gzip_stream, write_good),
        cmocka_unit_test_setup(refuses_images_of_another_size, write_good),
        cmocka_unit_test_setup(refuses_sizes_that_no_memory_holds, write_good),
        cmocka_unit_test_setup(refuses_a_set_without_images, write_good),
        cmocka_unit_test_setup(refuses_fewer_labels_than_images, write_good),
        cmocka_unit_test_setup(refuses_a_label_out_of_range, write_good),
    };
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/test_idx.XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    const char *const left[] = {images_name, labels_name, "whole.gz"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) unlink(path_of(left[i]));
    rmdir(folder);
    return failed;
}

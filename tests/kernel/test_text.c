/* The words of kernel texts, and what is found by them. */
#include "base_check.h"
#include "kernel_private.h"

#include <stdio.h>

static void check_words(const char *text, const char *const *expected) {
    const char *at = text, *end = text + strlen(text);
    mst_word word;
    for (; mst_word_next(&at, end, &word); expected++) {
        if (!*expected || !mst_word_is(&word, *expected))
            fail_msg("'%.*s' instead of '%s'", (int)word.length, word.start, *expected ? *expected : "the end");
    }
    if (*expected) fail_msg("the end instead of '%s'", *expected);
}

static void words_are_found_outside_of_comments_and_strings(void **state) {
    (void)state;
    check_words("", (const char *const[]){NULL});
    check_words(" \t\n", (const char *const[]){NULL});
    check_words("a_1 b(2c)", (const char *const[]){"a_1", "b", "(", "2c", ")", NULL});
    check_words("a/b // c\nd /* e \n f */ g /* h", (const char *const[]){"a", "/", "b", "d", "g", NULL});
    check_words("a \"b \\\" c\" d '\"' e \"open\nf", (const char *const[]){"a", "d", "e", "f", NULL});
    check_words("a /", (const char *const[]){"a", "/", NULL});
    check_words("\"\\", (const char *const[]){NULL});
}

static void dynamic_local_memory_is_seen_in_the_parameters(void **state) {
    (void)state;
    assert_true(mst_takes_shared("KERNEL void k(GLOBAL_MEM ga_float *x GA_DECL_SHARED_PARAM(ga_float, s)) {}", "k"));
    assert_true(mst_takes_shared("KERNEL void k\n( GLOBAL_MEM ga_float *x /* ) */ GA_DECL_SHARED_PARAM(ga_float, s)) {}", "k"));
    assert_false(mst_takes_shared("KERNEL void k(GLOBAL_MEM ga_float *x) {}", "k"));
    assert_false(mst_takes_shared("KERNEL void l(ga_int x GA_DECL_SHARED_PARAM(ga_float, s)) {}\nKERNEL void k(ga_int x) {}", "k"));
    assert_false(mst_takes_shared("KERNEL void k(ga_int x /* GA_DECL_SHARED_PARAM(ga_float, s) */) {}", "k"));
    assert_false(mst_takes_shared("k(", "k"));
    assert_false(mst_takes_shared("", "k"));
}

static void the_dialects_have_the_same_names(void **state) {
    (void)state;
    static const mst_language languages[] = {MST_LANGUAGE_CUDA, MST_LANGUAGE_OPENCL};
    /* What one of them defines, the other defines, or its language has it. */
    for (int l = 0; l < 2; l++) {
        const char *text = mst_dialect(languages[l]), *other = mst_dialect(languages[1 - l]), *at = text, *end = text + strlen(text);
        mst_word word;
        int names = 0;
        assert_true(strlen(text) > 1000);
        for (bool any = mst_word_next(&at, end, &word); any; any = mst_word_next(&at, end, &word)) {
            char name[100];
            const bool ours = word.length > 3 && (memcmp(word.start, "ga_", 3) == 0 || memcmp(word.start, "GA_", 3) == 0);
            const bool id = word.length > 4 && word.start[word.length - 2] == '_' && word.start[word.length - 1] <= '2' &&
                            (memcmp(word.start, "LID_", 4) == 0 || memcmp(word.start, "GID_", 4) == 0 ||
                             memcmp(word.start, "LDIM", 4) == 0 || memcmp(word.start, "GDIM", 4) == 0);
            const bool global = word.length > 14 && memcmp(word.start, "MUSTER_GLOBAL_", 14) == 0;
            if (!ours && !id && !global) continue;
            snprintf(name, sizeof name, "%.*s", (int)word.length, word.start);
            if (!strstr(other, name)) fail_msg("%s is in one dialect only", name);
            names++;
        }
        assert_true(names > 100);
    }
}

/* All bytes, at the first place of a name and behind it. */
static void names_are_letters_digits_and_underscores(void **state) {
    (void)state;
    static const char begin[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    int first = 0, later = 0;
    for (int byte = 1; byte < 256; byte++) {
        const char alone[] = {(char)byte, '\0'}, behind[] = {'k', (char)byte, '\0'};
        const bool begins = strchr(begin, (char)byte) != NULL;
        assert_int_equal(mst_kernel_is_name(alone), begins);
        assert_int_equal(mst_kernel_is_name(behind), begins || strchr("0123456789", (char)byte));
        first += mst_kernel_is_name(alone);
        later += mst_kernel_is_name(behind);
    }
    assert_false(mst_kernel_is_name(""));
    assert_int_equal(first, 53);
    assert_int_equal(later, 63);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_found_outside_of_comments_and_strings),
        cmocka_unit_test(dynamic_local_memory_is_seen_in_the_parameters),
        cmocka_unit_test(the_dialects_have_the_same_names),
        cmocka_unit_test(names_are_letters_digits_and_underscores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

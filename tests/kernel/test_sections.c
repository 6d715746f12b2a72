/* The reader of section files: every row of the grammar, and that nothing is swallowed. */
#include "base_check.h"
#include "section_private.h"

#include <stdio.h>

static mst_section_file file;

static muster_status read_bytes(const char *text, size_t bytes) {
    mst_section_free(&file);
    return mst_section_read("here", "f.kernels", text, (int64_t)bytes, &file);
}
static muster_status read(const char *text) { return read_bytes(text, strlen(text)); }

static int done(void **state) {
    (void)state;
    mst_section_free(&file);
    return 0;
}

#define refused(text, message) assert_refused(read(text), MUSTER_INVALID_ARGUMENT, message)
#define refused_kernel(line, message) refused("#section kernels\n" line "\nKERNEL void k() {}\n", message)

static void a_kernel_has_a_name_types_and_code(void **state) {
    (void)state;
    assert_ok(read("#section kernels\n\n#kernel k : *, size, ssize, float32 :\nfirst\n  second\n"));
    assert_int_equal(file.count, 1);
    const mst_section_kernel *k = &file.kernels[0];
    const int32_t types[] = {MUSTER_PARAMETER_BUFFER, MUSTER_PARAMETER_SIZE, MUSTER_PARAMETER_SSIZE, MUSTER_F32};
    assert_string_equal(k->name, "k");
    assert_int_equal(k->parameter_count, 4);
    assert_memory_equal(k->parameters, types, sizeof types);
    assert_int_equal(k->needs, 0);
    assert_string_equal(k->code.data, "#line 4 \"f.kernels\"\nfirst\n  second\n");
}

static void flags_are_read(void **state) {
    (void)state;
    assert_ok(read("#section kernels\n#kernel k:*:GA_USE_SMALL|GA_USE_HALF\n"));
    assert_int_equal(file.kernels[0].needs, MST_NEEDS_SMALL | MST_NEEDS_HALF);
    assert_ok(read("#section kernels\n#kernel k:*: GA_USE_DOUBLE | GA_USE_CUDA \n"));
    assert_int_equal(file.kernels[0].needs, MST_NEEDS_DOUBLE | MST_NEEDS_CUDA);
    assert_ok(read("#section kernels\n#kernel k:*:0\n"));
    assert_int_equal(file.kernels[0].needs, 0);
    refused_kernel(
        "#kernel k:*:GA_USE_TRIPLE",
        "here: f.kernels:2:13: expected GA_USE_DOUBLE, GA_USE_SMALL, GA_USE_HALF, GA_USE_CUDA or GA_USE_OPENCL, received 'GA_USE_TRIPLE'");
    refused_kernel("#kernel k:*:GA_USE_SMALL|", "f.kernels:2:26: expected a flag, received the end of the line");
    refused_kernel("#kernel k:*:GA_USE_COMPLEX", "f.kernels:2:13: expected flags that some device honours");
    refused_kernel("#kernel k:*:GA_USE_CUDA|GA_USE_OPENCL", "f.kernels:2:13: expected GA_USE_CUDA or GA_USE_OPENCL");
}

static void a_kernel_line_has_three_fields(void **state) {
    (void)state;
    refused_kernel("#kernel k:*", "f.kernels:2:12: expected #kernel name : parameters : flags, received the end of the line");
    refused_kernel("#kernel k:*::", "f.kernels:2:13: expected #kernel name : parameters : flags, received ':'");
    refused_kernel("#kernel k", "f.kernels:2:10: expected #kernel name : parameters : flags");
}

static void text_before_a_marker_is_an_error(void **state) {
    (void)state;
    refused("/* eye */\n#section kernels\n", "f.kernels:1:1: expected #section before any other text, received '/* eye */'");
    refused("#section kernels\n  /* eye */\n#kernel k::\n", "f.kernels:2:3: expected #kernel before any other text of this section");
    refused("\n\n", "f.kernels:1:1: expected #section kernels, received a text without any section");
    refused("", "without any section");
    refused("#kernel k::\n", "f.kernels:1:1: expected #kernel only behind #section kernels");
    refused("#section device\n#kernel k::\n", "f.kernels:2:1: expected #kernel only behind #section kernels");
}

static void what_looks_like_a_kernel_marker_is_one_or_an_error(void **state) {
    (void)state;
    refused_kernel("#kernel  k::",
                   "f.kernels:2:9: expected the kernel's name, which begins with a letter or _, behind one blank, received ' k::'");
    refused_kernel("#kernel\tk::", "f.kernels:2:8: expected one blank behind #kernel");
    refused_kernel(" #kernel k::", "f.kernels:2:1: expected #kernel at the beginning of its line");
    refused_kernel("# kernel k::", "f.kernels:2:2: expected no blank between # and kernel");
    refused_kernel("#kernel 2k::", "f.kernels:2:9: expected the kernel's name");
    refused_kernel("#kernels k::", "f.kernels:2:8: expected one blank behind #kernel, received 's k::'");
    refused_kernel("#kernel", "f.kernels:2:8: expected one blank behind #kernel, received the end of the line");
    /* The ancestor took these as code of the kernel before. */
    refused_kernel("#kernel k::\nvoid k() {}\n#kernel  l::", "f.kernels:4:9: expected the kernel's name");
    refused_kernel("#kernel k::\nvoid k() {}\n#kernel\tl::", "f.kernels:4:8: expected one blank behind #kernel");
    refused_kernel("#kernel k::\nvoid k() {}\n\t#kernel l::", "f.kernels:4:1: expected #kernel at the beginning of its line");
}

static void what_looks_like_a_section_marker_is_one_or_an_error(void **state) {
    (void)state;
    refused("#section  kernels\n", "f.kernels:1:10: expected the section's name behind one blank, received ' kernels'");
    refused("#section\tkernels\n", "f.kernels:1:9: expected one blank behind #section");
    refused(" #section kernels\n", "f.kernels:1:1: expected #section at the beginning of its line");
    refused("#section kernels \n", "f.kernels:1:17: expected the end of the line behind the section's name, received ' '");
    refused("#section kernels // mine\n", "f.kernels:1:17: expected the end of the line");
    refused("#section\n", "f.kernels:1:9: expected one blank behind #section, received the end of the line");
    refused("# section kernels\n", "f.kernels:1:2: expected no blank between # and section");
    refused("#section nonsense\n", "f.kernels:1:10: expected #section kernels or #section device, received 'nonsense'");
}

static void a_name_is_that_of_a_function(void **state) {
    (void)state;
    refused_kernel("#kernel a b:*:", "f.kernels:2:10: expected a function's name, of letters, digits and _, received ' b'");
    refused_kernel("#kernel a-b:*:", "f.kernels:2:10: expected a function's name");
    assert_ok(read("#section kernels\n#kernel _a1 \t: * :\n"));
    assert_string_equal(file.kernels[0].name, "_a1");
}

static void types_are_numpys(void **state) {
    (void)state;
    assert_ok(read("#section kernels\n#kernel k : float16, f2, float32, f4, float64, f8, int8, i1, uint8, int16, uint16, int32, uint32, "
                   "int64, i8, uint64, u8, bool, <f4, bfloat16 :\n"));
    const int32_t types[] = {MUSTER_F16,
                             MUSTER_F16,
                             MUSTER_F32,
                             MUSTER_F32,
                             MUSTER_F64,
                             MUSTER_F64,
                             MUSTER_I8,
                             MUSTER_I8,
                             MUSTER_U8,
                             MUSTER_I16,
                             MUSTER_PARAMETER_USHORT,
                             MUSTER_I32,
                             MUSTER_U32,
                             MUSTER_I64,
                             MUSTER_I64,
                             MUSTER_U64,
                             MUSTER_U64,
                             MUSTER_BOOL,
                             MUSTER_F32,
                             MUSTER_BF16};
    assert_int_equal(file.kernels[0].parameter_count, sizeof types / sizeof *types);
    assert_memory_equal(file.kernels[0].parameters, types, sizeof types);
    refused_kernel("#kernel k : *, foo :",
                   "f.kernels:2:16: expected *, size, ssize or numpy's name of a type, such as float32, received 'foo'");
    refused_kernel("#kernel k : f16 :", "received 'f16'");
    refused_kernel("#kernel k : >f4 :", "received '>f4'");
    refused_kernel("#kernel k : <* :", "received '<*'");
    refused_kernel("#kernel k : =size :", "received '=size'");
    refused_kernel("#kernel k : |ssize :", "received '|ssize'");
    refused_kernel("#kernel k : complex64 :",
                   "f.kernels:2:13: expected a real type (a complex number is two parameters), received 'complex64'");
    refused_kernel("#kernel k : *, :", "f.kernels:2:16: expected a parameter's type at each side of a comma");
    refused_kernel("#kernel k : ,* :", "expected a parameter's type at each side of a comma");
    refused_kernel("#kernel k : * size :", "received '* size'");
}

static void a_kernel_may_have_no_parameters_and_not_too_many(void **state) {
    (void)state;
    assert_ok(read("#section kernels\n#kernel k::\n#kernel l : :\n"));
    assert_int_equal(file.count, 2);
    assert_int_equal(file.kernels[0].parameter_count, 0);
    assert_int_equal(file.kernels[1].parameter_count, 0);
    char text[1024] = "#section kernels\n#kernel k : *";
    for (int i = 1; i < MUSTER_KERNEL_PARAMETERS_MAX; i++) strcat(text, ",*");
    char more[1100];
    snprintf(more, sizeof more, "%s,*:\n", text);
    strcat(text, ":\n");
    assert_ok(read(text));
    assert_int_equal(file.kernels[0].parameter_count, MUSTER_KERNEL_PARAMETERS_MAX);
    refused(more, "expected at most 64 parameters");
}

static void a_section_without_kernels_has_none(void **state) {
    (void)state;
    assert_ok(read("#section kernels\n"));
    assert_int_equal(file.count, 0);
    assert_ok(read("#section kernels"));
    assert_int_equal(file.count, 0);
}

static void sections_of_one_name_are_one(void **state) {
    (void)state;
    assert_ok(read("#section device\none\n#section kernels\n#kernel k::\nk\n#section device\ntwo\n#section kernels\n#kernel l::\nl\n"));
    assert_int_equal(file.count, 2);
    assert_string_equal(file.device.data, "#line 2 \"f.kernels\"\none\n#line 7 \"f.kernels\"\ntwo\n");
    assert_string_equal(file.kernels[0].code.data, "#line 5 \"f.kernels\"\nk\n");
    assert_string_equal(file.kernels[1].code.data, "#line 10 \"f.kernels\"\nl\n");
}

static void host_code_is_told_where_it_goes(void **state) {
    (void)state;
    static const char *const names[] = {"support_code",    "support_code_apply", "support_code_struct", "init_code",
                                        "init_code_apply", "init_code_struct",   "cleanup_code_struct", "code",
                                        "code_cleanup"};
    static const char *const places[] = {
        "go into the program",  "go into the program", "user pointer",           "opens its runtime",
        "creates the function", "loads these kernels", "destroys these kernels", "into the body of a muster_function",
        "end of the body"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[200];
        snprintf(text, sizeof text, "#section kernels\n#kernel k::\n\n#section %s\nint host;\n", names[i]);
        refused(text, "f.kernels:4:10: expected #section kernels or #section device (host code is C of the program's own");
        refused(text, places[i]);
    }
    refused("THEANO_APPLY_CODE_SECTION\n",
            "f.kernels:1:1: expected #section kernels or #section device (host code is C of the program's own)");
    refused("#section kernels\n#kernel k::\n  THEANO_SUPPORT_CODE_SECTION\n", "f.kernels:3:3: ");
}

static void code_survives(void **state) {
    (void)state;
    static const char code[] =
        "#define TWICE(x) \\\n  ((x) + \\\n   (x))\nconst char *s = \"a\\n\\\"b\\\\\"; // #section\nchar c = '\\\\';\n";
    char text[400], expected[400];
    snprintf(text, sizeof text, "#section kernels\n#kernel k::\n%s", code);
    snprintf(expected, sizeof expected, "#line 3 \"f.kernels\"\n%s", code);
    assert_ok(read(text));
    assert_string_equal(file.kernels[0].code.data, expected);
}

static void lines_may_end_as_on_any_machine(void **state) {
    (void)state;
    assert_ok(read("#section kernels\r\n#kernel k : * :\r\na\r\n\r\nb\r\n"));
    assert_string_equal(file.kernels[0].code.data, "#line 3 \"f.kernels\"\na\n\nb\n");
    assert_ok(read("#section kernels\r#kernel k : * :\ra\rb"));
    assert_string_equal(file.kernels[0].code.data, "#line 3 \"f.kernels\"\na\nb\n");
    refused("#section kernels\r\n#kernel k\r\n", "f.kernels:2:10: ");
}

static void only_text_is_read(void **state) {
    (void)state;
    static const char nul[] = "#section kernels\n#kernel k::\nab\0c\n";
    assert_refused(read_bytes(nul, sizeof nul - 1), MUSTER_INVALID_ARGUMENT,
                   "here: f.kernels:3:3: expected UTF-8 text, received the byte 0x00");
    refused("#section kernels\n#kernel k::\nx \xc3\n", "f.kernels:3:3: expected UTF-8 text, received the byte 0xc3");
    refused("#section kernels\n\xff\n", "f.kernels:2:1: expected UTF-8 text, received the byte 0xff");
    refused("#section kernels\n#kernel k::\n\xc0\xaf\n", "the byte 0xc0");         /* longer than it must be */
    refused("#section kernels\n#kernel k::\n\xed\xa0\x80\n", "the byte 0xed");     /* a surrogate */
    refused("#section kernels\n#kernel k::\n\xf4\x90\x80\x80\n", "the byte 0xf4"); /* beyond U+10FFFF */
    refused("#section kernels\n#kernel k::\n\xe2\x82", "the byte 0xe2");           /* cut off */
    assert_ok(read("#section kernels\n#kernel k::\n// \xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82\n"));
}

/* One code point in UTF-8, in as few bytes as hold it; returns the end. */
static char *put_character(char *to, uint32_t point) {
    static const uint32_t lead[] = {0x00, 0xc0, 0xe0, 0xf0};
    const int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    *to++ = (char)(lead[more] | point >> 6 * more);
    for (int i = more - 1; i >= 0; i--) *to++ = (char)(0x80 | (point >> 6 * i & 0x3f));
    return to;
}

/* A line of each 64 code points, which differ in the last byte alone. */
static void every_character_but_surrogates_is_text(void **state) {
    (void)state;
    int right = 0, wrong = 0;
    for (uint32_t row = 0x40; row < 0x120000; row += 0x40) {
        char text[400] = "#section kernels\n#kernel k::\n", *end = text + strlen(text);
        for (uint32_t i = 0; i < 0x40; i++) end = put_character(end, row + i);
        const bool is_text = row < 0x110000 && (row < 0xd800 || row >= 0xe000);
        const muster_status status = read_bytes(text, (size_t)(end - text));
        if (status != (is_text ? MUSTER_OK : MUSTER_INVALID_ARGUMENT)) fail_msg("U+%04X: %s", (unsigned)row, muster_last_error());
        right += is_text;
        wrong += !is_text;
    }
    assert_int_equal(right, 0x110000 / 0x40 - 0x800 / 0x40 - 1);
    assert_int_equal(wrong, 0x10000 / 0x40 + 0x800 / 0x40);
}

static void the_types_that_a_text_says_are_counted(void **state) {
    (void)state;
    assert_ok(read("#section device\nDTYPE_INPUT_1 f();\n#section kernels\n#kernel k::\nDTYPE_OUTPUT_0 a; /* DTYPE_INPUT_7 */ // "
                   "DTYPE_INPUT_8\n\"DTYPE_INPUT_9\" MY_DTYPE_INPUT_5 DTYPE_INPUT_x\n"));
    assert_int_equal(file.inputs, 2);
    assert_int_equal(file.outputs, 1);
}

static void names_of_files_are_quoted(void **state) {
    (void)state;
    mst_section_free(&file);
    static const char text[] = "#section kernels\n#kernel k::\nx\n";
    assert_ok(mst_section_read("here", "a\"b\\c\nd", text, sizeof text - 1, &file));
    assert_string_equal(file.kernels[0].code.data, "#line 3 \"a\\\"b\\\\c?d\"\nx\n");
}

static void running_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    static const char text[] = "#section device\nd\n#section kernels\n#kernel k : *, size :\ncode\n#kernel l::\nmore\n";
    mst_section_free(&file);
    const int64_t live = mst_memory_live();
    int failures = 0;
    for (int64_t k = 1; k < 100; k++) {
        mst_memory_fail_at(k);
        muster_status status = read(text);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) break;
        assert_int_equal(status, MUSTER_OUT_OF_MEMORY);
        assert_int_equal(mst_memory_live(), live);
        failures++;
    }
    assert_true(failures > 5);
    mst_section_free(&file);
    assert_int_equal(mst_memory_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_has_a_name_types_and_code),
        cmocka_unit_test(flags_are_read),
        cmocka_unit_test(a_kernel_line_has_three_fields),
        cmocka_unit_test(text_before_a_marker_is_an_error),
        cmocka_unit_test(what_looks_like_a_kernel_marker_is_one_or_an_error),
        cmocka_unit_test(what_looks_like_a_section_marker_is_one_or_an_error),
        cmocka_unit_test(a_name_is_that_of_a_function),
        cmocka_unit_test(types_are_numpys),
        cmocka_unit_test(a_kernel_may_have_no_parameters_and_not_too_many),
        cmocka_unit_test(a_section_without_kernels_has_none),
        cmocka_unit_test(sections_of_one_name_are_one),
        cmocka_unit_test(host_code_is_told_where_it_goes),
        cmocka_unit_test(code_survives),
        cmocka_unit_test(lines_may_end_as_on_any_machine),
        cmocka_unit_test(only_text_is_read),
        cmocka_unit_test(every_character_but_surrogates_is_text),
        cmocka_unit_test(the_types_that_a_text_says_are_counted),
        cmocka_unit_test(names_of_files_are_quoted),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, done);
}

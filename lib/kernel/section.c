#include "section_private.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 60 };

typedef enum { BEFORE, KERNELS, KERNEL, DEVICE } section_place; /* what the next line belongs to */

typedef struct reader {
    const char *where, *name;
    const char *at, *end; /* the rest of the text */
    const char *line, *line_end;
    int64_t number; /* of the line, from 1 */
    bool stopped;   /* code of another section came between: the next line needs a #line */
    section_place section_place;
    mst_section_file *file;
} reader;

/* ---- errors ---- */

/* The error of the text at `at`: what is there up to the end of the line, in at most SHOWN bytes
 * and whole characters. */
static muster_status section_refuse_part(const reader *r, const char *at, int64_t length, const char *expected) {
    if (length > SHOWN)
        for (length = SHOWN; length > 0 && ((unsigned char)at[length] & 0xc0) == 0x80;) length--;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %.150s:%lld:%lld: %s, received %s%.*s%s", r->where, r->name, (long long)r->number,
                     (long long)(at - r->line + 1), expected, length ? "'" : "the end of the line", (int)length, at, length ? "'" : "");
}

static muster_status section_refuse(const reader *r, const char *at, const char *expected) {
    return section_refuse_part(r, at, r->line_end - at, expected);
}

/* ---- the text as a whole ---- */

/* Bytes of the UTF-8 character there, 0: none (RFC 3629: no surrogates, nothing beyond U+10FFFF,
 * nothing longer than it must be). */
static int character(const unsigned char *at, int64_t rest) {
    int more = at[0] < 0x80 ? 0 : at[0] >= 0xc2 && at[0] <= 0xdf ? 1 : (at[0] & 0xf0) == 0xe0 ? 2 : at[0] >= 0xf0 && at[0] <= 0xf4 ? 3 : -1;
    if (more < 0 || more >= rest) return 0;
    for (int i = 1; i <= more; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if (more == 2 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f))) return 0;
    if (more == 3 && ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))) return 0;
    return more + 1;
}

static muster_status check_bytes(const reader *r) {
    for (const char *at = r->line; at < r->line_end;) {
        char expected[80];
        int bytes = character((const unsigned char *)at, r->line_end - at);
        if (*at && bytes) {
            at += bytes;
            continue;
        }
        snprintf(expected, sizeof expected, "expected UTF-8 text, received the byte 0x%02x", (unsigned)(unsigned char)*at);
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %.150s:%lld:%lld: %s", r->where, r->name, (long long)r->number,
                         (long long)(at - r->line + 1), expected);
    }
    return MUSTER_OK;
}

/* Lines end with \n, \r\n or \r, as in files that were written on any machine. */
static bool next_line(reader *r) {
    if (r->at == r->end) return false;
    r->line = r->line_end = r->at;
    while (r->line_end < r->end && *r->line_end != '\n' && *r->line_end != '\r') r->line_end++;
    r->at = r->line_end;
    if (r->at < r->end && *r->at == '\r') r->at++;
    if (r->at < r->end && *r->at == '\n' && (r->at == r->line_end || r->at == r->line_end + 1)) r->at++;
    r->number++;
    return true;
}

static bool section_is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }

static const char *behind_blanks(const char *at, const char *end) {
    while (at < end && section_is_blank(*at)) at++;
    return at;
}

static bool begins(const char *at, const char *end, const char *word) {
    return end - at >= (int64_t)strlen(word) && memcmp(at, word, strlen(word)) == 0;
}

/* ---- #section ---- */

/* Sections of host code that Theano had, and what replaces them here. */
static const struct {
    const char *section, *instead;
} host_code[] = {
    {"support_code", "functions that the body calls go into the program"},
    {"support_code_apply", "functions that the body calls go into the program"},
    {"support_code_struct", "functions that the body calls go into the program, and what they keep behind the function's user pointer"},
    {"init_code", "it goes to where the program opens its runtime"},
    {"init_code_apply", "it goes to where the program creates the function"},
    {"init_code_struct", "it goes to where the program loads these kernels"},
    {"cleanup_code_struct", "it goes to where the program destroys these kernels"},
    {"code", "it goes into the body of a muster_function, which launches with muster_kernel_launch"},
    {"code_cleanup", "it goes to the end of the body of a muster_function, behind its launches"},
};

static muster_status refuse_section(const reader *r, const char *name) {
    char sentence[200];
    for (size_t i = 0; i < sizeof host_code / sizeof *host_code; i++) {
        if (r->line_end - name != (int64_t)strlen(host_code[i].section) || !begins(name, r->line_end, host_code[i].section)) continue;
        snprintf(sentence, sizeof sentence, "expected #section kernels or #section device (host code is C of the program's own: %s)",
                 host_code[i].instead);
        return section_refuse(r, name, sentence);
    }
    return section_refuse(r, name, "expected #section kernels or #section device");
}

static muster_status read_section(reader *r) {
    const char *at = r->line + strlen("#section");
    if (at == r->line_end || *at != ' ') return section_refuse(r, at, "expected one blank behind #section");
    const char *name = ++at;
    while (at < r->line_end && (letter(*at) || digit(*at))) at++;
    if (at == name) return section_refuse(r, at, "expected the section's name behind one blank");
    if (at != r->line_end) return section_refuse(r, at, "expected the end of the line behind the section's name");
    if (at - name == 7 && memcmp(name, "kernels", 7) == 0)
        r->section_place = KERNELS;
    else if (at - name == 6 && memcmp(name, "device", 6) == 0)
        r->section_place = DEVICE;
    else
        return refuse_section(r, name);
    r->stopped = true;
    return MUSTER_OK;
}

/* ---- #kernel ---- */

/* A field of the line without the blanks around it. */
typedef struct field {
    const char *start, *end;
} field;

static field trimmed(const char *start, const char *end) {
    while (start < end && section_is_blank(*start)) start++;
    while (end > start && section_is_blank(end[-1])) end--;
    return (field){start, end};
}

static muster_status read_name(const reader *r, field name, mst_section_kernel *kernel) {
    const char *at = name.start;
    while (at < name.end && (letter(*at) || (digit(*at) && at > name.start))) at++;
    if (at != name.end || at == name.start)
        return section_refuse_part(r, at, name.end - at, "expected a function's name, of letters, digits and _");
    kernel->name = mst_alloc((size_t)(name.end - name.start) + 1);
    if (!kernel->name) return mst_out_of_memory(r->where, name.end - name.start + 1);
    memcpy(kernel->name, name.start, (size_t)(name.end - name.start));
    return MUSTER_OK;
}

static muster_status read_parameter(const reader *r, field text, mst_section_kernel *kernel) {
    bool complex;
    if (text.start == text.end) return section_refuse_part(r, text.start, 0, "expected a parameter's type at each side of a comma");
    int32_t type = mst_type_find(text.start, text.end - text.start, &complex);
    if (complex)
        return section_refuse_part(r, text.start, text.end - text.start, "expected a real type (a complex number is two parameters)");
    if (type < 0)
        return section_refuse_part(r, text.start, text.end - text.start,
                                   "expected *, size, ssize or numpy's name of a type, such as float32");
    if (kernel->parameter_count == MUSTER_KERNEL_PARAMETERS_MAX) {
        char sentence[64];
        snprintf(sentence, sizeof sentence, "expected at most %d parameters", MUSTER_KERNEL_PARAMETERS_MAX);
        return section_refuse_part(r, text.start, text.end - text.start, sentence);
    }
    kernel->parameters[kernel->parameter_count++] = type;
    return MUSTER_OK;
}

static muster_status section_read_parameters(const reader *r, const char *start, const char *end, mst_section_kernel *kernel) {
    kernel->parameters = mst_alloc(MUSTER_KERNEL_PARAMETERS_MAX * sizeof *kernel->parameters);
    if (!kernel->parameters) return mst_out_of_memory(r->where, MUSTER_KERNEL_PARAMETERS_MAX * (int64_t)sizeof *kernel->parameters);
    field all = trimmed(start, end);
    if (all.start == all.end) return MUSTER_OK;
    for (const char *at = start; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        if (!comma) comma = end;
        MUSTER_TRY(read_parameter(r, trimmed(at, comma), kernel));
        at = comma + 1;
    }
    return MUSTER_OK;
}

static muster_status read_flags(const reader *r, const char *start, mst_section_kernel *kernel) {
    int64_t at, length;
    const char *wrong = mst_flags_read(start, r->line_end - start, &kernel->needs, &at, &length);
    return wrong ? section_refuse_part(r, start + at, length, wrong) : MUSTER_OK;
}

static muster_status read_kernel(reader *r) {
    static const char form[] = "expected #kernel name : parameters : flags";
    const char *at = r->line + strlen("#kernel"), *colon[2] = {NULL, NULL};
    if (r->section_place != KERNELS && r->section_place != KERNEL)
        return section_refuse(r, r->line, "expected #kernel only behind #section kernels");
    if (at == r->line_end || *at != ' ') return section_refuse(r, at, "expected one blank behind #kernel");
    if (++at == r->line_end || !letter(*at))
        return section_refuse(r, at, "expected the kernel's name, which begins with a letter or _, behind one blank");
    for (const char *c = at; c < r->line_end; c++) {
        if (*c != ':') continue;
        if (colon[1]) return section_refuse(r, c, form);
        colon[colon[0] ? 1 : 0] = c;
    }
    if (!colon[1]) return section_refuse(r, r->line_end, form);
    void *kernels = r->file->kernels;
    muster_status status = mst_grow(&kernels, &r->file->capacity, r->file->count + 1, sizeof *r->file->kernels, r->where);
    r->file->kernels = kernels;
    MUSTER_TRY(status);
    mst_section_kernel *kernel = &r->file->kernels[r->file->count++];
    MUSTER_TRY(read_name(r, trimmed(at, colon[0]), kernel));
    MUSTER_TRY(section_read_parameters(r, colon[0] + 1, colon[1], kernel));
    MUSTER_TRY(read_flags(r, colon[1] + 1, kernel));
    r->section_place = KERNEL;
    r->stopped = true;
    return MUSTER_OK;
}

/* ---- code ---- */

static muster_status read_code(reader *r) {
    if (r->section_place == BEFORE || r->section_place == KERNELS) {
        const char *at = behind_blanks(r->line, r->line_end);
        if (at == r->line_end) return MUSTER_OK;
        return section_refuse(r, at,
                              r->section_place == BEFORE ? "expected #section before any other text"
                                                         : "expected #kernel before any other text of this section");
    }
    mst_string *text = r->section_place == DEVICE ? &r->file->device : &r->file->kernels[r->file->count - 1].code;
    if (r->stopped) MUSTER_TRY(mst_string_line(text, r->number, r->name));
    r->stopped = false;
    MUSTER_TRY(mst_string_add(text, r->line, r->line_end - r->line));
    return mst_string_add(text, "\n", 1);
}

/* A line that looks like a marker is one, or it is an error: never code of the kernel before it. */
static muster_status read_line(reader *r) {
    const char *hash = behind_blanks(r->line, r->line_end), *word = hash;
    if (begins(hash, r->line_end, "THEANO_APPLY_CODE_SECTION") || begins(hash, r->line_end, "THEANO_SUPPORT_CODE_SECTION"))
        return section_refuse(r, hash, "expected #section kernels or #section device (host code is C of the program's own)");
    if (hash < r->line_end && *hash == '#') word = behind_blanks(hash + 1, r->line_end);
    const bool section = word > hash && begins(word, r->line_end, "section"), kernel = word > hash && begins(word, r->line_end, "kernel");
    if (!section && !kernel) return read_code(r);
    if (hash != r->line)
        return section_refuse(r, r->line,
                              section ? "expected #section at the beginning of its line" : "expected #kernel at the beginning of its line");
    if (word != hash + 1)
        return section_refuse(r, hash + 1, section ? "expected no blank between # and section" : "expected no blank between # and kernel");
    return section ? read_section(r) : read_kernel(r);
}

/* 1 + n of DTYPE_INPUT_n, 0 for another word. */
static int32_t number_behind(const mst_word *word, const char *prefix) {
    int64_t length = (int64_t)strlen(prefix), number = 0;
    if (word->length <= length || word->length > length + 3 || memcmp(word->start, prefix, (size_t)length) != 0) return 0;
    for (int64_t i = length; i < word->length; i++) {
        if (!digit(word->start[i])) return 0;
        number = 10 * number + (word->start[i] - '0');
    }
    return (int32_t)number + 1;
}

static void count_types(mst_section_file *file, const mst_string *text) {
    const char *at = text->data;
    mst_word word;
    while (at && mst_word_next(&at, text->data + text->length, &word)) {
        int32_t input = number_behind(&word, "DTYPE_INPUT_"), output = number_behind(&word, "DTYPE_OUTPUT_");
        if (input > file->inputs) file->inputs = input;
        if (output > file->outputs) file->outputs = output;
    }
}

static muster_status section_read_all(reader *r) {
    for (bool any = next_line(r); any; any = next_line(r)) {
        MUSTER_TRY(check_bytes(r));
        MUSTER_TRY(read_line(r));
    }
    if (r->section_place == BEFORE)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %.150s:1:1: expected #section kernels, received a text without any section",
                         r->where, r->name);
    count_types(r->file, &r->file->device);
    for (int64_t i = 0; i < r->file->count; i++) count_types(r->file, &r->file->kernels[i].code);
    return MUSTER_OK;
}

muster_status mst_section_read(const char *where, const char *name, const char *text, int64_t bytes, mst_section_file *file) {
    reader r = {.where = where, .name = name, .at = text, .end = text + bytes, .file = file};
    *file = (mst_section_file){0};
    muster_status status = section_read_all(&r);
    if (status != MUSTER_OK) mst_section_free(file);
    return status;
}

void mst_section_free(mst_section_file *file) {
    for (int64_t i = 0; i < file->count; i++) {
        mst_free(file->kernels[i].name);
        mst_free(file->kernels[i].parameters);
        mst_string_free(&file->kernels[i].code);
    }
    mst_free(file->kernels);
    mst_string_free(&file->device);
    *file = (mst_section_file){0};
}

/* OpenCL compiles a single source and cannot include others from memory. This file inserts the
 * included sources in place. */
#include "opencl_state_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16, NAME = 256 };

/* No contraction to fused multiply-adds, as for GPUs: results equal those of plain loops bit for
 * bit. */
static const char head[] = "#pragma OPENCL FP_CONTRACT OFF\n";

typedef struct output {
    char *text;
    int64_t length, capacity;
    bool full;
} output;

static void add(output *out, const char *text, int64_t bytes) {
    if (out->full) return;
    if (out->length + bytes + 1 > out->capacity) {
        const int64_t wanted = (out->length + bytes + 1) * 2;
        char *more = mst_alloc_uninitialised((size_t)wanted);
        if (!more) {
            out->full = true;
            return;
        }
        if (out->length > 0) memcpy(more, out->text, (size_t)out->length);
        mst_free(out->text);
        out->text = more;
        out->capacity = wanted;
    }
    memcpy(out->text + out->length, text, (size_t)bytes);
    out->length += bytes;
    out->text[out->length] = 0;
}

static void add_line_number(output *out, int64_t line, const char *name) {
    char text[NAME + 48];
    const int length = snprintf(text, sizeof text, "#line %lld \"%s\"\n", (long long)line, name);
    add(out, text, length);
}

static const char *skip_blanks(const char *at) {
    while (*at == ' ' || *at == '\t') at++;
    return at;
}

/* Reads the text between the quotes at `at`. */
static bool read_quoted(const char *at, char name[NAME]) {
    const char *end = *at == '"' ? strpbrk(at + 1, "\"\n") : NULL;
    if (!end || *end != '"' || end - at - 1 >= NAME) return false;
    memcpy(name, at + 1, (size_t)(end - at - 1));
    name[end - at - 1] = 0;
    return true;
}

static const char *directive(const char *line, const char *word) {
    const char *at = skip_blanks(line);
    if (*at != '#') return NULL;
    at = skip_blanks(at + 1);
    const size_t length = strlen(word);
    return strncmp(at, word, length) == 0 ? skip_blanks(at + length) : NULL;
}

/* Whether a block comment is open at `end`; `comment`: whether one is open at `at`. */
static bool in_comment_after(const char *at, const char *end, bool comment) {
    char quote = 0;
    for (; at < end; at++) {
        if (comment) {
            if (at[0] == '*' && at[1] == '/') comment = false, at++;
        } else if (quote) {
            if (*at == '\\')
                at++;
            else if (*at == quote)
                quote = 0;
        } else if (*at == '"' || *at == '\'') {
            quote = *at;
        } else if (at[0] == '/' && at[1] == '/') {
            return false;
        } else if (at[0] == '/' && at[1] == '*') {
            comment = true, at++;
        }
    }
    return comment;
}

static const mst_code_source *find(const mst_code_program *program, const char *name) {
    for (int32_t i = 0; i < program->count; i++)
        if (strcmp(program->sources[i].name, name) == 0) return &program->sources[i];
    return NULL;
}

static bool expand(output *out, const mst_code_program *program, const char *name, const char *text, int depth) {
    char here[NAME], included[NAME];
    int64_t line = 1;
    bool comment = false;
    if (depth == DEPTH) return false;
    snprintf(here, sizeof here, "%s", name);
    add_line_number(out, line, here);
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        end = strchr(at, '\n');
        if (!end) end = at + strlen(at);
        const char *quoted = comment ? NULL : directive(at, "include"), *number = comment ? NULL : directive(at, "line");
        const mst_code_source *other = quoted && read_quoted(quoted, included) ? find(program, included) : NULL;
        line++;
        if (other) {
            if (!expand(out, program, other->name, other->text, depth + 1)) return false;
            add_line_number(out, line, here);
        } else {
            add(out, at, end - at);
            add(out, "\n", 1);
        }
        if (number && *number >= '0' && *number <= '9') {
            char *after;
            line = strtoll(number, &after, 10);
            if (read_quoted(skip_blanks(after), included)) memcpy(here, included, sizeof here);
        }
        comment = in_comment_after(at, end, comment);
    }
    return true;
}

muster_status mst_opencl_expand(const mst_code_program *program, char **text) {
    output out = {0};
    *text = NULL;
    add(&out, head, (int64_t)sizeof head - 1);
    const bool ended = expand(&out, program, program->name, program->text, 0);
    if (ended && !out.full) {
        *text = out.text;
        return MUSTER_OK;
    }
    mst_free(out.text);
    if (out.full) return mst_out_of_memory("OpenCL: text", out.capacity);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: expected sources that include each other at most %d deep, received more", program->name,
                     DEPTH);
}

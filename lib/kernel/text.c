#include "types_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

static bool of_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

static const char *behind_comment(const char *at, const char *end) {
    if (at[1] == '/') {
        while (at < end && *at != '\n') at++;
        return at;
    }
    for (at += 2; at < end; at++)
        if (*at == '*' && at + 1 < end && at[1] == '/') return at + 2;
    return end;
}

static const char *behind_string(const char *at, const char *end) {
    char quote = *at++;
    while (at < end && *at != quote && *at != '\n') at += *at == '\\' && at + 1 < end ? 2 : 1;
    return at < end ? at + 1 : end;
}

bool mst_word_next(const char **at, const char *end, mst_word *word) {
    const char *from = *at;
    while (from < end) {
        if (*from == '/' && from + 1 < end && (from[1] == '/' || from[1] == '*'))
            from = behind_comment(from, end);
        else if (*from == '"' || *from == '\'')
            from = behind_string(from, end);
        else if (*from == ' ' || (*from >= '\t' && *from <= '\r'))
            from++;
        else
            break;
    }
    word->start = from;
    if (from < end && !of_word(*from))
        from++;
    else
        while (from < end && of_word(*from)) from++;
    word->length = from - word->start;
    *at = from;
    return word->length > 0;
}

bool mst_word_is(const mst_word *word, const char *text) {
    return (int64_t)strlen(text) == word->length && memcmp(word->start, text, (size_t)word->length) == 0;
}

/* ---- writing ---- */

static muster_status reserve(mst_text *text, int64_t more) {
    void *data = text->data;
    muster_status status = mst_grow(&data, &text->capacity, text->length + more + 1, 1, "muster: the text of a kernel");
    text->data = data;
    return status;
}

muster_status mst_text_add(mst_text *text, const char *bytes, int64_t count) {
    MUSTER_TRY(reserve(text, count));
    memcpy(text->data + text->length, bytes, (size_t)count);
    text->length += count;
    text->data[text->length] = '\0';
    return MUSTER_OK;
}

muster_status mst_text_print(mst_text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int count = vsnprintf(NULL, 0, format, arguments);
    const muster_status status =
        count < 0 ? mst_error(MUSTER_OVERFLOW, "kernel text: expected less than 2 GiB, received more") : reserve(text, count);
    if (status == MUSTER_OK) {
        vsnprintf(text->data + text->length, (size_t)count + 1, format, again);
        text->length += count;
    }
    va_end(again);
    va_end(arguments);
    return status;
}

muster_status mst_text_line(mst_text *text, int64_t line, const char *file) {
    MUSTER_TRY(mst_text_print(text, "#line %lld \"", (long long)line));
    for (; *file; file++) {
        /* a control character has no place in a directive */
        char shown = *file;
        if ((unsigned char)shown < ' ') shown = '?';
        if (shown == '"' || shown == '\\') MUSTER_TRY(mst_text_add(text, "\\", 1));
        MUSTER_TRY(mst_text_add(text, &shown, 1));
    }
    return mst_text_add(text, "\"\n", 2);
}

void mst_text_free(mst_text *text) {
    mst_free(text->data);
    *text = (mst_text){0};
}

#include "locale_impl.h"
#include "types_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

static bool is_word_character(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

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
    if (from < end && !is_word_character(*from))
        from++;
    else
        while (from < end && is_word_character(*from)) from++;
    word->length = from - word->start;
    *at = from;
    return word->length > 0;
}

bool mst_word_is(const mst_word *word, const char *string) {
    return (int64_t)strlen(string) == word->length && memcmp(word->start, string, (size_t)word->length) == 0;
}

/* ---- writing ---- */

static muster_status string_reserve(mst_string *string, int64_t more) {
    void *data = string->data;
    muster_status status = mst_grow(&data, &string->capacity, string->length + more + 1, 1, "muster: the text of a kernel");
    string->data = data;
    return status;
}

muster_status mst_string_add(mst_string *string, const char *bytes, int64_t count) {
    MUSTER_TRY(string_reserve(string, count));
    memcpy(string->data + string->length, bytes, (size_t)count);
    string->length += count;
    string->data[string->length] = '\0';
    return MUSTER_OK;
}

muster_status mst_string_print(mst_string *string, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int count = mst_vsnprintf(NULL, 0, format, arguments);
    const muster_status status =
        count < 0 ? mst_error(MUSTER_OVERFLOW, "kernel text: expected less than 2 GiB, received more") : string_reserve(string, count);
    if (status == MUSTER_OK) {
        mst_vsnprintf(string->data + string->length, (size_t)count + 1, format, again);
        string->length += count;
    }
    va_end(again);
    va_end(arguments);
    return status;
}

muster_status mst_string_line(mst_string *string, int64_t line, const char *file) {
    MUSTER_TRY(mst_string_print(string, "#line %lld \"", (long long)line));
    for (; *file; file++) {
        /* a control character has no place in a directive */
        char shown = *file;
        if ((unsigned char)shown < ' ') shown = '?';
        if (shown == '"' || shown == '\\') MUSTER_TRY(mst_string_add(string, "\\", 1));
        MUSTER_TRY(mst_string_add(string, &shown, 1));
    }
    return mst_string_add(string, "\"\n", 2);
}

void mst_string_free(mst_string *string) {
    mst_free(string->data);
    *string = (mst_string){0};
}

/* The tokens of a text, and its places in messages. */
#include "locale_impl.h"
#include "text_private.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ---- */

enum { UNCUT = 60, AROUND = 20 };

/* A text of more than 60 bytes is quoted by the 40 bytes around the place. */
void mst_text_quote(const mst_text *t, mst_text_place place, char quote[MST_TEXT_QUOTE]) {
    const bool uncut = t->length <= UNCUT;
    int32_t at = uncut || place.offset < AROUND ? 0 : place.offset - AROUND, used = 0;
    const int32_t end = uncut || t->length - place.offset < AROUND ? t->length : place.offset + AROUND;
    while (at < end && ((unsigned char)t->text[at] & 0xC0) == 0x80) at++; /* the rest of a character */
    used += snprintf(quote, MST_TEXT_QUOTE, "\"%s", at ? "..." : "");
    while (at < end) {
        const int32_t bytes = (int32_t)mst_utf8_length((const unsigned char *)t->text + at);
        if (at + bytes > end) break;
        if (bytes <= 1)
            quote[used++] = bytes == 0 ? '?' : t->text[at] < ' ' || t->text[at] == 127 ? ' ' : t->text[at];
        else
            memcpy(quote + used, t->text + at, (size_t)bytes), used += bytes;
        at += bytes ? bytes : 1;
    }
    snprintf(quote + used, (size_t)(MST_TEXT_QUOTE - used), "%s\", column %d", at < t->length ? "..." : "", (int)place.column + 1);
}

const char *mst_token_text(const mst_text *t, const mst_token *token, char text[MST_TEXT_QUOTE]) {
    if (token->kind == MST_TOKEN_END) return "the end of the text";
    int32_t length = token->length < 40 ? token->length : 40;
    while (length < token->length && length > 0 && ((unsigned char)t->text[token->place.offset + length] & 0xC0) == 0x80) length--;
    snprintf(text, MST_TEXT_QUOTE, "\"%.*s%s\"", (int)length, t->text + token->place.offset, length < token->length ? "..." : "");
    return text;
}

muster_status mst_text_refuse(mst_text *t, muster_status status, mst_text_place place, const char *format, ...) {
    char message[256], quote[MST_TEXT_QUOTE];
    va_list arguments;
    va_start(arguments, format);
    mst_vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    mst_text_quote(t, place, quote);
    return mst_graph_fail(t->graph, status, "%s: %s: %s", t->where, quote, message);
}

/* ---- tokens ---- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80; }

const char *mst_text_peek(const mst_text *t) {
    const char *at = t->text + t->at.offset;
    while (is_blank(*at)) at++;
    return at;
}

/* ASCII only: bytes are characters. */
static void token_ends(mst_text *t, int32_t kind, int32_t length) {
    t->token.kind = kind;
    t->token.length = length;
    t->at.offset += length;
    t->at.column += length;
}

/* The bytes of the letters, digits and "_" that begin here. */
static int32_t segment_length(const char *text) {
    int32_t length = 0;
    for (size_t bytes = 1; bytes && (begins_name(text[length]) || is_digit(text[length])); length += (int32_t)bytes)
        bytes = mst_utf8_length((const unsigned char *)text + length);
    return length;
}

/* The bytes of the point and the segment behind it that go on with a name; 0: it ends here. */
static int32_t next_segment(const char *text) {
    const int32_t length = *text == '.' ? segment_length(text + 1) : 0;
    return length ? 1 + length : 0;
}

bool mst_text_is_name(const char *text) {
    if (!begins_name(*text)) return false;
    int32_t length = segment_length(text);
    for (int32_t next = length; next; length += next) next = next_segment(text + length);
    return !text[length];
}

int32_t mst_text_dotted(const mst_text *t) {
    const char *begin = t->text + t->token.place.offset;
    int32_t length = t->token.length;
    for (int32_t next = length; next; length += next) next = next_segment(begin + length);
    return length;
}

/* Extends the token to the longest name with points that is known: conv.weight.T is the transpose
 * of conv.weight. */
static void extend_name(mst_text *t) {
    const char *begin = t->text + t->token.place.offset;
    int32_t length = t->token.length, found = length;
    for (int32_t next = next_segment(begin + length); next; next = next_segment(begin + length)) {
        length += next;
        if (mst_text_find(t, begin, length)) found = length;
    }
    for (int32_t i = t->token.length; i < found; i++) t->at.column += ((unsigned char)begin[i] & 0xC0) != 0x80;
    t->at.offset += found - t->token.length;
    t->token.length = found;
}

static muster_status read_name(mst_text *t) {
    const char *begin = t->text + t->at.offset, *at = begin;
    int32_t characters = 0;
    while (begins_name(*at) || is_digit(*at)) {
        const size_t bytes = mst_utf8_length((const unsigned char *)at);
        if (bytes == 0) {
            const mst_text_place place = {t->at.offset + (int32_t)(at - begin), t->at.column + characters};
            return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, place, "expected UTF-8, received byte 0x%02x", (unsigned)(unsigned char)*at);
        }
        at += bytes;
        characters++;
    }
    t->token.kind = MST_TOKEN_NAME;
    t->token.length = (int32_t)(at - begin);
    t->at.offset += t->token.length;
    t->at.column += characters;
    extend_name(t);
    return MUSTER_OK;
}

/* The integer of these digits minus the nearest f64; 0 if 64 bits do not hold the integer. */
static int64_t rest_of(const char *digits, int32_t length, double number) {
    __extension__ unsigned __int128 integer = 0;
    if (number < 0x1p53 || number > 0x1p64) return 0;
    for (int32_t i = 0; i < length; i++) {
        if (!is_digit(digits[i])) return 0;
        integer = 10 * integer + (unsigned)(digits[i] - '0');
    }
    return integer > UINT64_MAX ? 0 : (int64_t)((uint64_t)integer - (number < 0x1p64 ? (uint64_t)number : 0));
}

/* 1, 1.5, .5, 1e-3: as in Python, and in every locale. */
static muster_status read_number(mst_text *t) {
    const char *begin = t->text + t->at.offset, *at = begin;
    char text[MST_TEXT_QUOTE];
    while (is_digit(*at)) at++;
    if (*at == '.') at++;
    while (is_digit(*at)) at++;
    const char *sign = at + 1;
    if (*at == 'e' || *at == 'E') {
        if (*sign == '-' || *sign == '+') sign++;
        if (is_digit(*sign)) at = sign;
        while (is_digit(*at)) at++;
    }
    const mst_token token = {.kind = MST_TOKEN_NUMBER, .length = (int32_t)(at - begin), .place = t->at};
    const int kept = errno;
    const bool hexadecimal = *begin == '0' && (*at == 'x' || *at == 'X'); /* strtod would read on */
    t->token.number = hexadecimal ? 0 : strtod_l(begin, NULL, t->locale);
    t->token.rest = rest_of(begin, token.length, t->token.number);
    errno = kept;
    for (int32_t i = 0; i < token.length; i++) t->token.floating |= !is_digit(begin[i]);
    token_ends(t, MST_TOKEN_NUMBER, token.length);
    if (isfinite(t->token.number)) return MUSTER_OK;
    return mst_text_refuse(t, MUSTER_OVERFLOW, token.place, "expected a number that f64 holds, received %s",
                           mst_token_text(t, &token, text));
}

/* 'ij->ji' or "ij->ji"; nothing stands for a quote inside. */
static muster_status read_string(mst_text *t) {
    const char *begin = t->text + t->at.offset, *end = begin + 1;
    while (*end && *end != *begin && *end >= ' ' && *end <= '~') end++;
    if (*end != *begin)
        return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->at,
                               *end ? "expected printable ASCII between quotes" : "a quote is not closed");
    token_ends(t, MST_TOKEN_STRING, (int32_t)(end + 1 - begin));
    return MUSTER_OK;
}

static const struct {
    char text[4];
    int32_t kind;
} long_tokens[] = {{"**", MST_TOKEN_POWER},     {"//", MST_TOKEN_FLOOR_DIVIDE}, {"==", MST_TOKEN_EQUAL},
                   {"!=", MST_TOKEN_NOT_EQUAL}, {"<=", MST_TOKEN_LESS_EQUAL},   {">=", MST_TOKEN_GREATER_EQUAL},
                   {"...", MST_TOKEN_ELLIPSIS}, {"<<", MST_TOKEN_LEFT_SHIFT},   {">>", MST_TOKEN_RIGHT_SHIFT}};

muster_status mst_text_next(mst_text *t) {
    while (is_blank(t->text[t->at.offset])) t->at.offset++, t->at.column++;
    const char *at = t->text + t->at.offset;
    t->token = (mst_token){.place = t->at};
    if (!*at) return MUSTER_OK;
    if (is_digit(*at) || (*at == '.' && is_digit(at[1]))) return read_number(t);
    if (begins_name(*at)) return read_name(t);
    if (*at == '\'' || *at == '"') return read_string(t);
    for (size_t i = 0; i < sizeof long_tokens / sizeof *long_tokens; i++) {
        const size_t length = strlen(long_tokens[i].text);
        if (strncmp(at, long_tokens[i].text, length) != 0) continue;
        token_ends(t, long_tokens[i].kind, (int32_t)length);
        return MUSTER_OK;
    }
    if (strchr("+-*/%@()[],:;=<>.", *at)) {
        token_ends(t, *at, 1);
        return MUSTER_OK;
    }
    if (*at > ' ' && *at < 127) return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->at, "unknown character \"%c\"", *at);
    return mst_text_refuse(t, MUSTER_INVALID_ARGUMENT, t->at, "unknown character 0x%02x", (unsigned)(unsigned char)*at);
}

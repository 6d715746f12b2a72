#include "locale_impl.h"
#include "status_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char last_error[MST_MESSAGE_SIZE];
_Thread_local uint64_t mst_errors_of_thread;

const char *muster_last_error(void) { return last_error; }

/* The bytes of the UTF-8 character at `text`; 0: there is none (RFC 3629, section 4). Not reading
 * beyond the end of the string relies on its terminator, which continues no character. */
size_t mst_utf8_length(const unsigned char *text) {
    const unsigned char first = text[0];
    if (first < 0x80) return 1;
    const size_t length = first >= 0xC2 && first <= 0xDF ? 2 : (first & 0xF0) == 0xE0 ? 3 : first >= 0xF0 && first <= 0xF4 ? 4 : 0;
    const unsigned char least = first == 0xE0   ? 0xA0
                                : first == 0xF0 ? 0x90
                                                : 0x80,
                        most = first == 0xED   ? 0x9F
                               : first == 0xF4 ? 0x8F
                                               : 0xBF;
    if (length == 0 || text[1] < least || text[1] > most) return 0;
    for (size_t i = 2; i < length; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    return length;
}

/* Messages quote what the program passed, sometimes only the beginning of it. A cut may fall into a
 * character; languages that demand UTF-8 could not read the message then. */
static void keep_utf8(char *text) {
    for (size_t length; *text; text += length ? length : 1) {
        length = mst_utf8_length((const unsigned char *)text);
        if (length == 0) *text = '?';
    }
}

muster_status mst_check_utf8(const char *text, const char *where, const char *argument) {
    const char *at = text;
    for (size_t length; *at; at += length) {
        length = mst_utf8_length((const unsigned char *)at);
        if (length == 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected UTF-8, received byte 0x%02x at position %lld of '%.200s'", where,
                             argument, (unsigned)(unsigned char)*at, (long long)(at - text), text);
    }
    return MUSTER_OK;
}

int64_t muster_last_error_copy(char *buffer, int64_t capacity) {
    const size_t length = strlen(last_error);
    if (buffer && capacity > 0) {
        size_t copied = length < (size_t)capacity ? length : (size_t)capacity - 1;
        while (copied < length && copied > 0 && ((unsigned char)last_error[copied] & 0xC0) == 0x80) copied--;
        memcpy(buffer, last_error, copied);
        buffer[copied] = 0;
    }
    return (int64_t)length;
}

muster_status(mst_error)(muster_status code, const char *format, ...) {
    char message[MST_MESSAGE_SIZE]; /* the arguments may point into last_error */
    va_list arguments;
    va_start(arguments, format);
    const int length = mst_vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length >= MST_MESSAGE_SIZE) memcpy(message + MST_MESSAGE_SIZE - sizeof "...", "...", sizeof "...");
    keep_utf8(message);
    memcpy(last_error, message, sizeof message);
    mst_errors_of_thread++;
    return code;
}

muster_status(mst_error_null)(const char *where, const char *argument, const char *expected) {
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %s, received NULL", where, argument, expected);
}

void mst_error_save(char message[MST_MESSAGE_SIZE]) { memcpy(message, last_error, MST_MESSAGE_SIZE); }

muster_status mst_error_restore(muster_status code, const char *message) {
    if (message != last_error) snprintf(last_error, sizeof last_error, "%s", message);
    mst_errors_of_thread++;
    return code;
}

muster_status muster_fail(muster_status status, const char *message) {
    return mst_error(status == MUSTER_OK ? MUSTER_USER : status, "%s", message ? message : "the function body gave no reason");
}

const char *muster_status_name(muster_status status) {
    static const char *const names[] = {
        "OK",          "INVALID_ARGUMENT", "SHAPE_MISMATCH", "DTYPE_MISMATCH", "OUT_OF_RANGE", "OVERFLOW", "OUT_OF_MEMORY",
        "UNSUPPORTED", "UNAVAILABLE",      "BAD_STATE",      "ABORTED",        "TIMEOUT",      "USER",     "DEVICE_LOST",
        "SYSTEM",      "INTERNAL",         "NODE_LOST",      "CANCELLED",
    };
    return status >= 0 && status < (muster_status)(sizeof names / sizeof *names) ? names[status] : "UNKNOWN";
}

void muster_must(muster_status status, const char *file, int32_t line) {
    if (status == MUSTER_OK) return;
    fprintf(stderr, "%s:%d: %s: %s\n", file ? file : "?", (int)line, muster_status_name(status),
            last_error[0] ? last_error : "there is no message");
    abort();
}

int32_t muster_version(void) { return MUSTER_VERSION_MAJOR * 10000 + MUSTER_VERSION_MINOR * 100 + MUSTER_VERSION_PATCH; }

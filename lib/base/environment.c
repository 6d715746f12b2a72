#include "environment_impl.h"
#include "locale_impl.h"

#include <errno.h>
#include <stdlib.h>

const char *mst_environment_get(const char *variable) {
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

muster_status mst_environment_refuse(const char *variable, const char *expected) {
    const char *text = getenv(variable);
    return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: the environment's %s: expected %s, received '%.100s'", variable,
                     expected, text ? text : "");
}

muster_status mst_environment_number(const char *variable, const char *expected, int64_t least, int64_t most, int64_t *value,
                                     bool *is_set) {
    const char *text = mst_environment_get(variable);
    *is_set = text != NULL;
    if (!text) return MUSTER_OK;
    const char first = text[*text == '-']; /* strtoll would skip spaces, and take a "+" */
    char *end;
    errno = 0;
    const int64_t read = strtoll(text, &end, 10);
    if (first < '0' || first > '9' || *end || errno || read < least || read > most) return mst_environment_refuse(variable, expected);
    *value = read;
    return MUSTER_OK;
}

muster_status mst_environment_seconds(const char *variable, int64_t *ns) {
    const char *text = mst_environment_get(variable);
    char *end = NULL;
    if (!text) return MUSTER_OK;
    const double seconds = mst_strtod(text, &end);
    if (end == text || *end || !(seconds >= 0 && seconds <= 86400)) return mst_environment_refuse(variable, "seconds, from 0 to 86400");
    *ns = (int64_t)(seconds * 1e9);
    return MUSTER_OK;
}

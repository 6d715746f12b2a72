/* Variables of the environment. One that is empty counts as one that is not set. */
#ifndef MST_ENVIRONMENT_IMPL_H
#define MST_ENVIRONMENT_IMPL_H

#include "status_impl.h"

#include <stdbool.h>

/* The text of the variable; NULL if it is not set. */
const char *mst_environment_get(const char *variable);
/* Reads a number in decimal digits, with "-" in front of a negative one, from `least` to `most`,
 * and nothing else around it. *is_set: whether the variable is set; if not, *value stays. expected:
 * what the message says. Errors: INVALID_ARGUMENT. */
muster_status mst_environment_number(const char *variable, const char *expected, int64_t least, int64_t most, int64_t *value, bool *is_set);
/* Reads seconds, from 0 to 86400, as nanoseconds; if the variable is not set, *ns stays. Errors:
 * INVALID_ARGUMENT. */
muster_status mst_environment_seconds(const char *variable, int64_t *ns);
/* INVALID_ARGUMENT: what was expected of the variable, and its text. */
muster_status mst_environment_refuse(const char *variable, const char *expected);

#endif

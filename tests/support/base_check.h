/* cmocka with what it needs, and checks of statuses and messages. */
#ifndef MST_BASE_CHECK_H
#define MST_BASE_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base_plain.h"
#include "memory_impl.h"

/* The call succeeds, or the test fails with the library's own words. */
#define assert_ok(expression)                                                                                            \
    do {                                                                                                                 \
        muster_status status_ = (expression);                                                                            \
        if (status_ != MUSTER_OK) fail_msg("%s: %s: %s", #expression, muster_status_name(status_), muster_last_error()); \
    } while (0)

/* The call is refused with `code`, and its message holds `text`. */
#define assert_refused(expression, code, text)                                                                            \
    do {                                                                                                                  \
        muster_status status_ = (expression);                                                                             \
        if (status_ != (code)) fail_msg("%s: expected %s, received %s", #expression, #code, muster_status_name(status_)); \
        if (!test_says(muster_last_error(), text)) fail_msg("\"%s\" lacks \"%s\"", muster_last_error(), text);            \
    } while (0)

#endif

/* Which oneDNN has computed: for suites that CMake runs once more with another version. */
#ifndef NN_ONEDNN_H
#define NN_ONEDNN_H

#include "base_check.h"
#include "convolution/library_private.h"
#include "onednn/onednn_private.h"

#include <stdlib.h>
#include <string.h>

/* The last case of a suite. MUSTER_TEST_ONEDNN is a major version: convolutions have opened a
 * library of that version, and primitives that it made have run (operands were reordered for
 * them). Without the variable any version will do, or none. */
static inline void onednn_is_the_one_that_was_asked_for(void **state) {
    const char *version = getenv("MUSTER_TEST_ONEDNN"), *description = mst_onednn_description();
    (void)state;
    if (!version) return;
    if (strncmp(description, version, strlen(version)) != 0 || description[strlen(version)] != '.')
        fail_msg("oneDNN: expected version %s, received \"%s\"", version, description);
    assert_non_null(mst_onednn_get());
    assert_int_equal(mst_onednn_get()->version, atoi(version));
    assert_true(mst_convolution_onednn_reorders(false) + mst_convolution_onednn_reorders(true) > 0);
}

#endif

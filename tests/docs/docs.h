/* docs.h: what the programs behind the pages of documentation share. `check` is the function of the
 * first program in README.md; the pages use it without repeating it. */
#ifndef DOCS_H
#define DOCS_H

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void check(muster_status status) {
    if (status == MUSTER_OK) return;
    fprintf(stderr, "%s: %s\n", muster_status_name(status), muster_last_error());
    exit(1);
}

#define EXPECT(condition)                                                                  \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: wrong result: not true that %s\n", __FILE__, __LINE__, \
                    #condition);                                                           \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* Two CPU devices, unless MUSTER_DEVICES says otherwise. */
static inline muster_runtime *docs_open(void) {
    const char *chosen = getenv("MUSTER_DEVICES");
    muster_runtime_options options;
    muster_runtime *rt;
    muster_runtime_options_init(&options);
    if (!chosen || !*chosen) options.devices = "host:2";
    check(muster_runtime_open(&options, &rt));
    return rt;
}

#endif

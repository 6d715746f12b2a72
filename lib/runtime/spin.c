/* How long waits may spin: what the options and the environment say. */
#include "runtime_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Idle workers spin this long before they sleep: waking a sleeping thread costs 5 to 60 us on
 * virtual machines, and calls are often a millisecond apart. OpenMP runtimes spin as long or
 * longer. */
enum { DEFAULT_SPIN_NS = 2000000 };

muster_status mst_runtime_spin_read(int64_t option_ns, mst_runtime_spin *spin) {
    const char *text = getenv("MUSTER_SPIN_NS");
    char *end;
    *spin = (mst_runtime_spin){option_ns < 0 ? 0 : option_ns, "option spin_ns"};
    if (option_ns != 0) return MUSTER_OK;
    *spin = (mst_runtime_spin){DEFAULT_SPIN_NS, "default"};
    if (!text || !*text) return MUSTER_OK;
    errno = 0;
    *spin = (mst_runtime_spin){strtoll(text, &end, 10), "the environment's MUSTER_SPIN_NS"};
    if (errno == 0 && *end == 0 && text[0] >= '0' && text[0] <= '9') return MUSTER_OK;
    return mst_error(
        MUSTER_INVALID_ARGUMENT,
        "muster_runtime_open: the environment's MUSTER_SPIN_NS: expected a number of nanoseconds (0: never spin), received '%.80s'", text);
}

size_t mst_runtime_spin_describe(const mst_runtime_spin *spin, int64_t used_ns, char *text, size_t size) {
    if (used_ns > 0)
        snprintf(text, size, "spin: at most %lld ns before a wait sleeps, shorter after spins in vain (%s)\n", (long long)used_ns,
                 spin->source);
    else
        snprintf(text, size, "spin: never (%s)\n", spin->ns > 0 ? "more workers than allowed CPUs, or a real-time policy" : spin->source);
    return strlen(text);
}

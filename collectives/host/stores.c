/* The choice between plain stores and stores that bypass the cache. */
#include "stores_private.h"

#include "clock_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The least speedup for which streaming stores are used, and the number of collectives of other
 * sizes after which another size is timed. */
static const double LEAST = 1.1;
enum { OTHERS = 32 };

/* ---- what the options say ---- */

static muster_status read_environment(int64_t *bytes) {
    const char *text = getenv("MUSTER_STREAM_BYTES");
    char *end;
    *bytes = 0;
    if (!text || !*text) return MUSTER_OK;
    errno = 0;
    *bytes = strtoll(text, &end, 10);
    if (!errno && !*end && end != text) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "muster_runtime_open: the environment's MUSTER_STREAM_BYTES: expected a number of bytes, received '%.80s'", text);
}

muster_status mst_stores_read(int64_t option, mst_stores *stores) {
    if (option == 0) MUSTER_TRY(read_environment(&option));
    stores->measured = option == 0;
    stores->from = option == 0 ? MST_STORES_FROM : option;
    return MUSTER_OK;
}

/* ---- trials ---- */

static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median(int64_t ns[MST_STORES_SAMPLES]) {
    qsort(ns, MST_STORES_SAMPLES, sizeof *ns, compare);
    return (double)ns[MST_STORES_SAMPLES / 2];
}

static bool is_decided(const mst_stores_trial *trial) {
    return atomic_load_explicit(&trial->decision, memory_order_acquire) != MST_STORES_UNDECIDED;
}

static void start_trial(mst_stores_trial *trial, int64_t bytes) {
    trial->bytes = bytes;
    trial->others = 0;
    trial->counts[0] = trial->counts[1] = 0;
}

bool mst_stores_record(mst_stores_trial *trial, int64_t bytes, bool streaming, int64_t ns) {
    if (is_decided(trial)) return false;
    if (bytes != trial->bytes) {
        if (trial->bytes != 0 && ++trial->others < OTHERS) return false;
        start_trial(trial, bytes);
    }
    trial->others = 0;
    if (trial->counts[streaming] < MST_STORES_SAMPLES) trial->ns[streaming][trial->counts[streaming]++] = ns;
    if (trial->counts[0] < MST_STORES_SAMPLES || trial->counts[1] < MST_STORES_SAMPLES) return false;
    trial->speedup = median(trial->ns[0]) / median(trial->ns[1]);
    atomic_store_explicit(&trial->decision, trial->speedup >= LEAST ? MST_STORES_STREAMING : MST_STORES_PLAIN, memory_order_release);
    return true;
}

/* ---- one collective ---- */

/* All ranks must try the same kind of stores in the same collective. Neighbouring tags give
 * unrelated answers, so that no pattern of the program's collectives meets one kind only. */
static bool tries_streaming(uint64_t tag) { return (tag * 0x9e3779b97f4a7c15u) >> 63; }

static bool choose(const mst_stores *stores, mst_collective collective, uint64_t tag) {
    if (!stores->measured) return true;
    const int32_t decision = atomic_load_explicit(&stores->trials[collective].decision, memory_order_acquire);
    return decision == MST_STORES_UNDECIDED ? tries_streaming(tag) : decision == MST_STORES_STREAMING;
}

void mst_stores_begin(const mst_stores *stores, mst_collective collective, int64_t bytes, uint64_t tag, bool timed, mst_stores_use *use) {
    *use = (mst_stores_use){.bytes = bytes};
    if (!stores || stores->from < 0 || bytes < stores->from) return;
    use->past_cache = true;
    use->streaming = choose(stores, collective, tag);
    if (timed && stores->measured && !is_decided(&stores->trials[collective])) use->begin_ns = mst_now_ns();
}

bool mst_stores_end(mst_stores *stores, mst_collective collective, const mst_stores_use *use) {
    if (use->begin_ns == 0 || !use->asked) return false;
    return mst_stores_record(&stores->trials[collective], use->bytes, use->streaming, mst_now_ns() - use->begin_ns);
}

/* ---- the description ---- */

void mst_stores_describe(const mst_stores *stores, char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, "streaming stores ");
    bool any = false;
    if (!stores->measured) {
        if (stores->from < 0)
            snprintf(text + at, size - at, "never, as asked for");
        else
            snprintf(text + at, size - at, "from %lld bytes on, as asked for", (long long)stores->from);
        return;
    }
    for (int32_t c = 0; c < MST_COLLECTIVE_COUNT && at < size; c++) {
        const mst_stores_trial *trial = &stores->trials[c];
        if (!is_decided(trial)) continue;
        const bool streams = atomic_load(&trial->decision) == MST_STORES_STREAMING;
        at += (size_t)snprintf(text + at, size - at, "%s%s %s (%.3g times as fast)", any ? ", " : "", streams ? "in" : "not in",
                               mst_collective_name((mst_collective)c), trial->speedup);
        any = true;
    }
    if (!any) snprintf(text + at, size - at, "not measured yet");
}

/* The choice between plain stores and stores that bypass the cache. */
#include "stores_private.h"

#include "clock_impl.h"
#include "environment_impl.h"
#include "locale_impl.h"

#include <stdio.h>
#include <stdlib.h>

/* The least speedup for which streaming stores are used, and the number of collectives of other
 * sizes after which another size is timed. */
static const double LEAST = 1.1;
enum { OTHERS = 32 };

/* ---- what the options say ---- */

muster_status mst_stores_read(int64_t option, mst_stores *stores) {
    bool is_set;
    if (option == 0) MUSTER_TRY(mst_environment_number("MUSTER_STREAM_BYTES", "a number of bytes", INT64_MIN, INT64_MAX, &option, &is_set));
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
 * unrelated answers, so that no pattern of the program's collectives meets one kind only. In the
 * last one rank 0 may have decided before others begin: nothing is timed then. */
static bool tries_streaming(uint64_t tag) { return (tag * 0x9e3779b97f4a7c15u) >> 63; }

int32_t mst_stores_class(const mst_stores *stores, int64_t bytes) {
    int32_t class = 0;
    while (class < MST_STORES_CLASSES - 1 && bytes / 2 >= stores->from << class) class ++;
    return class;
}

static bool choose(const mst_stores *stores, const mst_stores_trial *trial, uint64_t tag) {
    if (!stores->measured) return true;
    const int32_t decision = atomic_load_explicit(&trial->decision, memory_order_acquire);
    return decision == MST_STORES_UNDECIDED ? tries_streaming(tag) : decision == MST_STORES_STREAMING;
}

void mst_stores_begin(const mst_stores *stores, mst_collective collective, int64_t bytes, uint64_t tag, bool timed, mst_stores_use *use) {
    *use = (mst_stores_use){.bytes = bytes};
    if (!stores || stores->from < 0 || bytes < stores->from) return;
    const mst_stores_trial *trial = &stores->trials[collective][stores->measured ? mst_stores_class(stores, bytes) : 0];
    use->past_cache = true;
    use->streaming = choose(stores, trial, tag);
    if (timed && stores->measured && !is_decided(trial)) use->begin_ns = mst_now_ns();
}

bool mst_stores_end(mst_stores *stores, mst_collective collective, const mst_stores_use *use) {
    if (use->begin_ns == 0 || !use->asked) return false;
    return mst_stores_record(&stores->trials[collective][mst_stores_class(stores, use->bytes)], use->bytes, use->streaming,
                             mst_now_ns() - use->begin_ns);
}

/* ---- the description ---- */

static size_t describe_decided(const mst_stores_trial *trial, mst_collective collective, bool first, char *text, size_t size) {
    const bool streams = atomic_load(&trial->decision) == MST_STORES_STREAMING;
    const double mib = (double)trial->bytes / (1 << 20);
    const int length = mst_snprintf(text, size, "%s%s %s of %.3g MiB (%.3g times as fast)", first ? "" : ", ", streams ? "in" : "not in",
                                    mst_collective_name(collective), mib, trial->speedup);
    return (size_t)length;
}

void mst_stores_describe(const mst_stores *stores, char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, "streaming stores ");
    bool none = true;
    if (!stores->measured) {
        if (stores->from < 0)
            snprintf(text + at, size - at, "never, as asked for");
        else
            snprintf(text + at, size - at, "from %lld bytes on, as asked for", (long long)stores->from);
        return;
    }
    for (int32_t i = 0; i < MST_COLLECTIVE_COUNT * MST_STORES_CLASSES && at < size; i++) {
        const mst_stores_trial *trial = &stores->trials[i / MST_STORES_CLASSES][i % MST_STORES_CLASSES];
        if (!is_decided(trial)) continue;
        at += describe_decided(trial, (mst_collective)(i / MST_STORES_CLASSES), none, text + at, size - at);
        none = false;
    }
    if (none) snprintf(text + at, size - at, "not measured yet");
}

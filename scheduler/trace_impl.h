/* The recorders of all workers as one file in Chrome's trace format, which Perfetto and
 * chrome://tracing open. */
#ifndef MST_TRACE_IMPL_H
#define MST_TRACE_IMPL_H

#include "recorder_impl.h"

/* One worker: its rank is the place in the list, behind `first`. */
typedef struct mst_trace_track {
    const mst_recorder *recorder;
    const char *device;
    int32_t first;
    int64_t ahead_ns; /* of the clock of this process, the same for all: times are written less this */
} mst_trace_track;

/* Writes a new file beside `path` and renames it to `path`: a reader finds the old file or the
 * complete new one. Any thread, also while workers record. where: for messages. Errors:
 * INVALID_ARGUMENT (no path, or one of something else than a file), SYSTEM, OUT_OF_MEMORY. */
muster_status mst_trace_write(const mst_trace_track *tracks, int32_t count, const char *path, const char *where);

#endif

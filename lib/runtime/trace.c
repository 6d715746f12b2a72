/* The settings for the recorders and their trace. */
#include "environment_impl.h"
#include "nodes_private.h"
#include "object_names_private.h"
#include "trace_impl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A trace of a ring of the default size would show only the last moment. */
enum { TRACED_EVENTS = 65536 };

static bool is_length(int64_t events) {
    return events == 0 || (events >= MST_RECORDER_LEAST_EVENTS && events <= MST_RECORDER_MOST_EVENTS && (events & (events - 1)) == 0);
}

static muster_status read_length(int64_t option, bool traced, int64_t *events) {
    char expected[64];
    bool is_set;
    *events = option < 0 ? 0 : option;
    if (!is_length(*events))
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "muster_runtime_open: options: recorder_events: expected a power of two from %d to %d, 0 or a negative number, "
                         "received %lld",
                         MST_RECORDER_LEAST_EVENTS, MST_RECORDER_MOST_EVENTS, (long long)option);
    if (option != 0) return MUSTER_OK;
    *events = traced ? TRACED_EVENTS : MST_RECORDER_EVENTS;
    snprintf(expected, sizeof expected, "0, or a power of two from %d to %d", MST_RECORDER_LEAST_EVENTS, MST_RECORDER_MOST_EVENTS);
    MUSTER_TRY(mst_environment_number("MUSTER_RECORDER_EVENTS", expected, 0, MST_RECORDER_MOST_EVENTS, events, &is_set));
    return is_length(*events) ? MUSTER_OK : mst_environment_refuse("MUSTER_RECORDER_EVENTS", expected);
}

/* Replaces every %p of `pattern` by the process id, and every %n by the number in the launch. The
 * second and third traced runtime of the process append .1 and .2. */
static muster_status make_path(const char *pattern, int32_t number, char **path) {
    static _Atomic int32_t traced_runtimes;
    enum { LONGEST_NUMBER = 12 };
    /* every two characters of the pattern may become a number */
    size_t size = strlen(pattern) * LONGEST_NUMBER / 2 + LONGEST_NUMBER + 2;
    char *text = mst_alloc(size), *at = text;
    if (!text) return mst_out_of_memory("muster_runtime_open", (int64_t)size);
    while (*pattern) {
        if (pattern[0] == '%' && (pattern[1] == 'p' || pattern[1] == 'n')) {
            at += sprintf(at, "%d", pattern[1] == 'p' ? (int)getpid() : (int)number);
            pattern += 2;
        } else {
            *at++ = *pattern++;
        }
    }
    int32_t before = atomic_fetch_add(&traced_runtimes, 1);
    if (before > 0) sprintf(at, ".%d", (int)before);
    *path = text;
    return MUSTER_OK;
}

/* The path that the option gives, else the environment; NULL: none. */
static const char *trace_pattern(muster_runtime *runtime, const char *option) {
    runtime->trace_source = option ? "options: trace" : "the environment's MUSTER_TRACE";
    if (option) return *option ? option : NULL;
    return mst_environment_get("MUSTER_TRACE");
}

muster_status mst_runtime_trace_open(muster_runtime *runtime, const muster_runtime_options *options) {
    const char *pattern = trace_pattern(runtime, options->trace);
    MUSTER_TRY(read_length(options->recorder_events, pattern != NULL, &runtime->recorder_events));
    runtime->nvtx = mst_nvtx_open();
    for (int32_t r = 0; r < runtime->size; r++) {
        mst_recorder *recorder = &mst_pool_worker(runtime->pool, r)->recorder;
        MUSTER_TRY(mst_recorder_open(recorder, runtime->recorder_events, runtime->nvtx, "muster_runtime_open"));
    }
    return pattern ? make_path(pattern, mst_runtime_process_number(runtime), &runtime->trace_path) : MUSTER_OK;
}

void mst_runtime_trace_close(muster_runtime *runtime) {
    for (int32_t r = 0; runtime->pool && r < runtime->size; r++) mst_recorder_close(&mst_pool_worker(runtime->pool, r)->recorder);
    mst_free(runtime->trace_path);
    runtime->trace_path = NULL;
}

void mst_runtime_trace_describe(const muster_runtime *runtime, char *text, size_t size) {
    const char *nvtx = runtime->nvtx                                  ? "on"
                       : !mst_nvtx_built()                            ? "not built, its header was not found"
                       : mst_environment_get("NVTX_INJECTION64_PATH") ? "off, the profiler of NVTX_INJECTION64_PATH does not answer"
                                                                      : "off, no profiler is attached";
    snprintf(text, size, "recorder: %lld events of each worker\ntrace: %s%.500s\nNVTX ranges: %s\n", (long long)runtime->recorder_events,
             runtime->trace_path ? "at close to " : "off", runtime->trace_path ? runtime->trace_path : "", nvtx);
}

static muster_status write_trace(muster_runtime *runtime, const char *path, const char *where) {
    int64_t bytes = runtime->size * (int64_t)sizeof(mst_trace_track);
    mst_trace_track *tracks = mst_alloc((size_t)bytes);
    if (!tracks) return mst_out_of_memory(where, bytes);
    for (int32_t r = 0; r < runtime->size; r++) {
        tracks[r] = (mst_trace_track){&mst_pool_worker(runtime->pool, r)->recorder, runtime->devices[r]->name, runtime->first,
                                      runtime->clock_ahead_ns};
    }
    mst_names_read_begin(runtime);
    muster_status status = mst_trace_write(tracks, runtime->size, path, where);
    mst_names_read_end(runtime);
    mst_free(tracks);
    return status;
}

/* A trace that cannot be written is logged. Closing still succeeds, and the thread's last error
 * stays as it is. */
void mst_runtime_trace_at_close(muster_runtime *runtime) {
    char before[MST_MESSAGE_SIZE], where[64];
    if (!runtime->trace_path) return;
    mst_error_save(before);
    snprintf(where, sizeof where, "muster_runtime_close: %s", runtime->trace_source);
    if (write_trace(runtime, runtime->trace_path, where) != MUSTER_OK) {
        mst_runtime_log(runtime, MUSTER_LOG_ERROR, muster_last_error());
        mst_error_restore(MUSTER_OK, before);
    }
}

muster_status muster_runtime_trace(muster_runtime *runtime, const char *path) {
    if (!runtime) return mst_error_null("muster_runtime_trace", "runtime", "a runtime");
    MUSTER_TRY(mst_runtime_check_open(runtime, "muster_runtime_trace"));
    return write_trace(runtime, path, "muster_runtime_trace");
}

/* The recorders as JSON. All numbers are printed as integers, since a decimal point is the
 * locale's. */
#include "trace_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- text ---- */

/* Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none. */
static int32_t character_length(const unsigned char *text) {
    /* of the second byte, after E0 and F0: below are longer forms of shorter ones */
    static const unsigned char lowest[] = {0, 0, 0, 0xA0, 0x90};
    unsigned char first = text[0];
    if (first < 0x80) return 1;
    int32_t length = first >= 0xC2 && first <= 0xDF ? 2 : (first & 0xF0) == 0xE0 ? 3 : first >= 0xF0 && first <= 0xF4 ? 4 : 0;
    for (int32_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0; /* the end of the string is one of these */
    }
    if ((first == 0xE0 || first == 0xF0) && text[1] < lowest[length]) return 0;
    /* surrogates, and beyond U+10FFFF */
    if ((first == 0xED && text[1] > 0x9F) || (first == 0xF4 && text[1] > 0x8F)) return 0;
    return length;
}

/* In quotes. Names are the user's: what is no UTF-8 becomes U+FFFD, since a file with it would be
 * no JSON. */
static void put_text(FILE *file, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    putc('"', file);
    while (*at) {
        int32_t length = character_length(at);
        if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else if (*at < 0x20)
            fprintf(file, "\\u%04x", *at);
        else if (length == 0)
            fputs("\\ufffd", file);
        else
            fwrite(at, 1, (size_t)length, file);
        at += length > 0 ? length : 1;
    }
    putc('"', file);
}

/* ---- time ---- */

/* Ticks as nanoseconds of CLOCK_MONOTONIC, so that several files of one process lie on one
 * scale. */
typedef struct timescale {
    uint64_t ticks;
    int64_t ns;
    double ticks_per_ns;
} timescale;

/* Never decreases from one tick to the next: what nests keeps nesting. */
static int64_t nanoseconds(const timescale *scale, uint64_t ticks) {
    int64_t ns = scale->ns + (int64_t)((double)(int64_t)(ticks - scale->ticks) / scale->ticks_per_ns);
    return ns > 0 ? ns : 0;
}

static void put_microseconds(FILE *file, const char *key, int64_t ns) {
    fprintf(file, ",\"%s\":%" PRId64 ".%03" PRId64, key, ns / 1000, ns % 1000);
}

/* ---- events ---- */

/* Not on the stack, which may be small. */
typedef struct file_paths {
    char target[PATH_MAX], made[PATH_MAX];
} file_paths;

typedef struct writer {
    FILE *file;
    file_paths *paths;
    timescale scale;
    mst_recorded *events; /* room for the longest ring */
    int64_t capacity;
    uint64_t lost;
    int process;
} writer;

static void put_metadata(const writer *w, int32_t rank, const char *what) {
    fprintf(w->file, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%" PRId32 ",\"name\":\"%s\",\"args\":", w->process, rank, what);
}

static void put_event(const writer *w, int32_t rank, const mst_recorded *event) {
    int64_t start = nanoseconds(&w->scale, event->start);
    fprintf(w->file, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%" PRId32 ",\"name\":", event->end ? 'X' : 'B', w->process, rank);
    put_text(w->file, event->name ? event->name : "?");
    put_microseconds(w->file, "ts", start);
    if (event->end) put_microseconds(w->file, "dur", nanoseconds(&w->scale, event->end) - start);
    const char *kind = mst_event_kind_name(event->kind);
    fprintf(w->file, ",\"cat\":\"%s\",\"args\":{\"sequence\":%" PRIu64 ",\"bytes\":%" PRId64 ",\"kind\":\"%s\"", kind, event->sequence,
            event->bytes, kind);
    if (event->peer >= 0) fprintf(w->file, ",\"peer\":%" PRId32 ",\"tag\":%" PRId64, event->peer, event->tag);
    fputs("}}", w->file);
}

static void put_track(writer *w, int32_t rank, const mst_trace_track *track) {
    char name[200];
    uint64_t begun;
    /* Copied completely first: while text is written, a busy worker may fill its ring several
     * times. */
    int64_t count = mst_recorder_read(track->recorder, w->events, w->capacity, &begun);
    w->lost += begun - (uint64_t)count;
    snprintf(name, sizeof(name), "rank %" PRId32 " %s", rank, track->device);
    put_metadata(w, rank, "thread_name");
    fputs("{\"name\":", w->file);
    put_text(w->file, name);
    fputs("}}", w->file);
    put_metadata(w, rank, "thread_sort_index");
    fprintf(w->file, "{\"sort_index\":%" PRId32 "}}", rank);
    for (int64_t i = 0; i < count; i++) put_event(w, rank, &w->events[i]);
}

static void put_trace(writer *w, const mst_trace_track *tracks, int32_t count) {
    fprintf(w->file,
            "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":",
            w->process);
    put_text(w->file, program_invocation_short_name);
    fputs("}}", w->file);
    for (int32_t r = 0; r < count; r++) put_track(w, tracks[r].first + r, &tracks[r]);
    fprintf(w->file, "\n],\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\",\"events lost\":%" PRIu64 "}}\n", w->lost);
}

/* ---- the file ---- */

static muster_status refused(const char *where, const char *path, int error) {
    return mst_error(MUSTER_SYSTEM, "%s: path: expected a file that can be written, received '%.300s': %s", where, path, strerror(error));
}

/* Follows links, so that the file is replaced and not the link. A device or a pipe (/dev/stdout)
 * must not be replaced by a file. */
static muster_status resolve(const char *path, char target[PATH_MAX], const char *where) {
    struct stat found;
    if (!path || !*path)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: path: expected the path of a file, received %s", where, path ? "''" : "NULL");
    if (strlen(path) >= PATH_MAX) return refused(where, path, ENAMETOOLONG);
    if (!realpath(path, target)) {
        if (errno != ENOENT) return refused(where, path, errno);
        memcpy(target, path, strlen(path) + 1);
        return MUSTER_OK;
    }
    if (stat(target, &found) != 0) return refused(where, path, errno);
    if (!S_ISREG(found.st_mode)) {
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: path: expected the path of a file, received '%.300s', which is something else",
                         where, path);
    }
    return MUSTER_OK;
}

static FILE *stream_of(int file, const char *made) {
    FILE *stream = fdopen(file, "w");
    if (stream) return stream;
    int error = errno;
    close(file);
    unlink(made);
    errno = error;
    return NULL;
}

/* A new file beside the target: only in the same folder can it be renamed at once. NULL: errno. */
static FILE *open_temporary(const char *target, char made[PATH_MAX]) {
    static _Atomic uint32_t next;
    for (int32_t attempt = 0; attempt < 100; attempt++) {
        int length = snprintf(made, PATH_MAX, "%s.%d.%" PRIu32 ".tmp", target, (int)getpid(), atomic_fetch_add(&next, 1));
        if (length >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return NULL;
        }
        int file = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0) return stream_of(file, made);
        if (errno != EEXIST) return NULL; /* else: left by a process of the same id that was killed */
    }
    return NULL;
}

static int write_and_close(writer *w, const mst_trace_track *tracks, int32_t count) {
    errno = 0;
    put_trace(w, tracks, count);
    int error = ferror(w->file) ? (errno ? errno : EIO) : 0;
    if (fclose(w->file) != 0 && !error) error = errno;
    return error;
}

static muster_status write_file(writer *w, const mst_trace_track *tracks, int32_t count, const char *path, const char *where) {
    MUSTER_TRY(resolve(path, w->paths->target, where));
    w->file = open_temporary(w->paths->target, w->paths->made);
    if (!w->file) return refused(where, path, errno);
    int error = write_and_close(w, tracks, count);
    if (!error && rename(w->paths->made, w->paths->target) != 0) error = errno;
    if (!error) return MUSTER_OK;
    unlink(w->paths->made);
    return refused(where, path, error);
}

muster_status mst_trace_write(const mst_trace_track *tracks, int32_t count, const char *path, const char *where) {
    writer w = {.process = (int)getpid()};
    for (int32_t r = 0; r < count; r++) {
        int64_t length = (int64_t)mst_recorder_length(tracks[r].recorder);
        if (w.capacity < length) w.capacity = length;
    }
    size_t bytes = (size_t)w.capacity * sizeof(mst_recorded);
    w.events = mst_alloc_uninitialised(bytes);
    if (!w.events) return mst_out_of_memory(where, (int64_t)bytes);
    w.paths = mst_alloc_uninitialised(sizeof *w.paths);
    if (!w.paths) {
        mst_free(w.events);
        return mst_out_of_memory(where, sizeof *w.paths);
    }
    w.scale.ticks_per_ns = mst_ticks_per_ns();
    w.scale.ticks = mst_ticks();
    w.scale.ns = mst_now_ns() - (count > 0 ? tracks[0].ahead_ns : 0);
    muster_status status = write_file(&w, tracks, count, path, where);
    mst_free(w.paths);
    mst_free(w.events);
    return status;
}

/* Reads trace files as their readers do: with a JSON parser. */
#ifndef MST_SCHEDULER_TRACE_CHECK_H
#define MST_SCHEDULER_TRACE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* The file is JSON and the Python expression is true of it. The expression sees trace (all of it),
 * events (those of the workers), of(rank) (those of one) and meta(rank, name) (the arguments of
 * that metadata event). Python's words go to standard error. */
bool mst_trace_holds(const char *path, const char *expression);

#define assert_trace(path, expression)                                                                       \
    do {                                                                                                     \
        if (!mst_trace_holds(path, expression)) fail_msg("%s: not true of the trace: %s", path, expression); \
    } while (0)

/* A new empty folder for a test's files. */
void mst_trace_folder(char *folder, size_t size);
/* Number of entries of the folder: what a failure leaves beside the trace shows here. */
int mst_trace_folder_entries(const char *folder);
/* Removes the folder and the files in it. */
void mst_trace_folder_remove(const char *folder);

#endif

/* A launch of several processes in one program: each is a thread that opens a runtime of its own,
 * on the wire of tests/sim/wire. */
#ifndef MST_RUNTIME_LAUNCH_H
#define MST_RUNTIME_LAUNCH_H

#include "base_check.h"
#include "muster/nodes.h"
#include "wire_launch.h"

#include <stdio.h>

enum { LAUNCH_PROCESSES = 4 };

/* One process, as its thread sees it. cmocka's checks belong to the main thread: those below end
 * the body, and the main thread fails for it. */
typedef struct launch_process {
    wire_launch *wire;
    int32_t process, processes;
    void *context;
    char error[1024];
} launch_process;
typedef void (*launch_body)(launch_process *p);

/* Runs the body in all processes; fails where one of them has an error. */
void launch_run(const wire_launch_options *options, launch_body body, void *context);
/* The same where calls fail: what a transfer that was given up has on its way stays with the
 * wire. */
void launch_run_failing(const wire_launch_options *options, launch_body body, void *context);
/* The options of a runtime with these devices, with a deadline that no test needs. */
muster_runtime_options launch_options(const char *devices);

/* Waits for the other processes, outside of the library. False: one of them has an error and has
 * ended. */
bool launch_meet(launch_process *p);
/* Between two such waits: from now on the k-th allocation fails, in whichever process makes it; 0:
 * none does. */
bool launch_fail_allocation(launch_process *p, int64_t k);
/* Has a process an error? For those that wait for something that it does. */
bool launch_has_failed(void);

/* From now on the process has an error. */
void launch_note_failure(void);

#define launch_fail(p, ...)                                  \
    do {                                                     \
        snprintf((p)->error, sizeof(p)->error, __VA_ARGS__); \
        launch_note_failure();                               \
        return;                                              \
    } while (0)
#define launch_check(p, condition)                                                               \
    do {                                                                                         \
        if (!(condition)) launch_fail(p, "%s:%d: not true: %s", __FILE__, __LINE__, #condition); \
    } while (0)
#define launch_ok(p, expression)                                                                                                         \
    do {                                                                                                                                 \
        muster_status status_ = (expression);                                                                                            \
        if (status_ != MUSTER_OK) launch_fail(p, "%s:%d: %s: %s", __FILE__, __LINE__, muster_status_name(status_), muster_last_error()); \
    } while (0)
#define launch_refused(p, expression, code, text)                                                               \
    do {                                                                                                        \
        muster_status status_ = (expression);                                                                   \
        if (status_ != (code) || !strstr(muster_last_error(), text))                                            \
            launch_fail(p, "%s:%d: expected %s with \"%s\", received %s (%s)", __FILE__, __LINE__, #code, text, \
                        muster_status_name(status_), muster_last_error());                                      \
    } while (0)
/* The whole sentence, in which "N s" stands for any number of seconds. */
#define launch_says(p, expression, code, sentence)                                                                           \
    do {                                                                                                                     \
        muster_status status_ = (expression);                                                                                \
        if (status_ != (code) || !launch_is_sentence(sentence))                                                              \
            launch_fail(p, "%s:%d: expected %s with\n\"%s\", received %s with\n\"%s\"", __FILE__, __LINE__, #code, sentence, \
                        muster_status_name(status_), muster_last_error());                                                   \
    } while (0)
/* Is it the thread's last error? */
bool launch_is_sentence(const char *sentence);

#endif

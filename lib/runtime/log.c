/* The log of a runtime: the program's function or standard error, from a level on. */
#include "environment_impl.h"
#include "runtime_impl.h"

#include <stdio.h>
#include <string.h>

/* Reports of waits already begin with "muster: ", because the program's own log function gets them,
 * too. */
static void log_to_stderr(void *user, muster_log_level level, const char *line) {
    (void)user, (void)level;
    fprintf(stderr, "%s%s\n", strncmp(line, "muster: ", 8) == 0 ? "" : "muster: ", line);
}

static muster_status log_read_level(muster_log_level option, muster_log_level *level) {
    static const char *const names[] = {
        [MUSTER_LOG_DEBUG] = "debug", [MUSTER_LOG_INFO] = "info", [MUSTER_LOG_WARNING] = "warning", [MUSTER_LOG_ERROR] = "error"};
    if (option < 0 || option > MUSTER_LOG_ERROR)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "muster_runtime_open: options: log_level: expected MUSTER_LOG_DEBUG to MUSTER_LOG_ERROR, or 0, received %d",
                         (int)option);
    *level = option ? option : MUSTER_LOG_INFO;
    const char *text = option ? NULL : mst_environment_get("MUSTER_LOG_LEVEL");
    if (!text) return MUSTER_OK;
    for (*level = MUSTER_LOG_DEBUG; *level <= MUSTER_LOG_ERROR; ++*level) {
        if (strcmp(text, names[*level]) == 0) return MUSTER_OK;
    }
    return mst_environment_refuse("MUSTER_LOG_LEVEL", "debug, info, warning or error");
}

muster_status mst_runtime_log_open(muster_runtime *runtime, const muster_runtime_options *options) {
    runtime->log = options->log ? options->log : log_to_stderr;
    runtime->log_user = options->log_user;
    runtime->log_destroy = options->log_destroy;
    return log_read_level(options->log_level, &runtime->log_level);
}

void mst_runtime_log(void *runtime, muster_log_level level, const char *line) {
    const muster_runtime *owner = runtime;
    const char *outer = mst_runtime_callback;
    if (level < owner->log_level) return;
    mst_runtime_callback = "the log function";
    owner->log(owner->log_user, level, line);
    mst_runtime_callback = outer;
}

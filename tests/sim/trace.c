/* The trace of what the driver and cuBLAS were told: MUSTER_SIM_TRACE=FILE. One line for each call
 * that changes something, in an order in which one thread could issue them; FILE.data holds what
 * copies from the host brought, and what copies to it found, by the number of the copy.
 * tests/sim/replay.c reads both. */
#include "state_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock =
    /* orders threads that nothing else orders: no trace is written where races are looked for */
    PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static FILE *lines, *contents;
static atomic_ullong copies;

static void open_files(void) {
    const char *name = getenv("MUSTER_SIM_TRACE");
    char second[4096];
    if (!name || !*name) return;
    snprintf(second, sizeof second, "%s.data", name);
    contents = fopen(second, "w");
    lines = contents ? fopen(name, "w") : NULL;
    if (!lines) fprintf(stderr, "simulated GPU: MUSTER_SIM_TRACE: %s: %m\n", name);
}

bool sim_tracing(void) {
    pthread_once(&opened, open_files);
    return lines != NULL;
}

void sim_trace(const char *format, ...) {
    if (!sim_tracing()) return;
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&lock);
    vfprintf(lines, format, arguments);
    fputc('\n', lines);
    fflush(lines); /* the program may end any way */
    pthread_mutex_unlock(&lock);
    va_end(arguments);
}

uint64_t sim_trace_copy(void) { return sim_tracing() ? atomic_fetch_add(&copies, 1) + 1 : 0; }

void sim_trace_contents(uint64_t copy, const void *data, size_t bytes) {
    uint64_t head[2] = {copy, bytes};
    if (!copy) return;
    pthread_mutex_lock(&lock);
    fwrite(head, sizeof head, 1, contents);
    fwrite(data, 1, bytes, contents);
    fflush(contents);
    pthread_mutex_unlock(&lock);
}

void sim_trace_bytes(const void *data, size_t bytes, char *text) {
    for (size_t i = 0; i < bytes; i++) snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)data)[i]);
}

/* What the checker saw: reports, and handles that are still there. */
#include "state_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORTS_MAX = 256, LENGTH = 240, KINDS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken only to report */
static char reports[REPORTS_MAX][LENGTH];
static atomic_int report_count; /* those beyond the room count */

void sim_hazard(const char *format, ...) {
    char text[LENGTH];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    int place = atomic_load(&report_count);
    if (place < REPORTS_MAX) memcpy(reports[place], text, sizeof text);
    atomic_store(&report_count, place + 1);
    pthread_mutex_unlock(&lock);
    if (getenv("MUSTER_SIM_VERBOSE")) fprintf(stderr, "simulated GPU: hazard: %s\n", text);
}

int muster_sim_hazard_count(void) { return atomic_load(&report_count); }

const char *muster_sim_hazards(void) {
    static char text[REPORTS_MAX * (LENGTH + 1) + 1];
    pthread_mutex_lock(&lock);
    int count = atomic_load(&report_count) < REPORTS_MAX ? atomic_load(&report_count) : REPORTS_MAX;
    char *end = text;
    *end = 0;
    for (int i = 0; i < count; i++) end += sprintf(end, "%s\n", reports[i]);
    pthread_mutex_unlock(&lock);
    return text;
}

void muster_sim_hazards_clear(void) {
    pthread_mutex_lock(&lock);
    atomic_store(&report_count, 0);
    pthread_mutex_unlock(&lock);
}

/* ---- handles ---- */
static struct {
    const char *kind;
    int counts[SIM_DEVICES];
} handles[KINDS];

static void change_handles(const char *kind, int device, int by) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KINDS; i++) {
        if (handles[i].kind && strcmp(handles[i].kind, kind) != 0) continue;
        handles[i].kind = kind;
        handles[i].counts[device < 0 ? 0 : device] += by;
        pthread_mutex_unlock(&lock);
        return;
    }
    abort();
}

void sim_handle_made(const char *kind, int device) { change_handles(kind, device, 1); }
void sim_handle_gone(const char *kind, int device) { change_handles(kind, device, -1); }

void sim_handles_end(void) {
    pthread_mutex_lock(&lock);
    memset(handles, 0, sizeof handles);
    pthread_mutex_unlock(&lock);
}

static int leaked(const char *kind, int device, int count) {
    if (count) sim_hazard("leak: device %d: %d %s", device, count, kind);
    return count;
}

int muster_sim_check_leaks(void) {
    int total = 0;
    for (int i = 0; i < sim_state.options.devices; i++) {
        if (sim_device_error(i)) continue;
        total += leaked("retained contexts", i, sim_state.devices[i].context.references);
        total += leaked("device allocations", i, sim_memory_count(i));
        total += leaked("managed allocations", i, sim_managed_count(i));
        total += leaked("page-locked allocations", i, sim_locked_count(i, true));
        total += leaked("page-locked registrations", i, sim_locked_count(i, false));
        total += leaked("streams", i, sim_streams_of(i));
        total += leaked("events", i, sim_events_of(i));
        total += leaked("modules", i, sim_modules_of(i));
        for (int j = 0; j < KINDS && handles[j].kind; j++) total += leaked(handles[j].kind, i, handles[j].counts[i]);
    }
    return total;
}

void sim_hazards_end(void) {
    muster_sim_hazards_clear();
    sim_rules_end();
}

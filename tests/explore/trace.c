/* What a user of the explorer reads: names of memory, faults, and lines about steps. */
#include "machine_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_NAMES = 256 };
static struct {
    const char *from;
    size_t bytes;
    char text[48];
} names[MOST_NAMES];
static int32_t name_count;
char machine_fault_text[512];

void machine_reset_trace(void) {
    machine_fault_text[0] = 0;
    name_count = 0;
}

void machine_broken(const char *why) {
    fprintf(stderr, "explore: %s\n", why);
    exit(3);
}

void explore_name(const void *address, size_t bytes, const char *format, ...) {
    if (name_count == MOST_NAMES) machine_broken("too many names");
    names[name_count].from = address;
    names[name_count].bytes = bytes;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(names[name_count++].text, sizeof(names[0].text), format, arguments);
    va_end(arguments);
}

const char *machine_name_of(const void *address) {
    static char unknown[2][32];
    static int32_t next;
    for (int32_t i = 0; i < name_count; i++) {
        if ((const char *)address >= names[i].from && (const char *)address < names[i].from + names[i].bytes) return names[i].text;
    }
    next = !next;
    snprintf(unknown[next], sizeof(unknown[0]), "%p", address);
    return unknown[next];
}

void explore_fault(const char *format, ...) {
    if (!machine_fault_text[0]) {
        size_t used = machine_current >= 0
                          ? (size_t)snprintf(machine_fault_text, sizeof(machine_fault_text), "%s: ", machine_entries[machine_current].name)
                          : 0;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(machine_fault_text + used, sizeof(machine_fault_text) - used, format, arguments);
        va_end(arguments);
    }
    if (machine_current >= 0) _longjmp(machine_search_registers, 1);
}

const char *machine_fault(void) { return machine_fault_text; }

/* ---- traces ---- */

static const char *kind_name(explore_kind kind) {
    static const char *const text[] = {"begins",
                                       "loads",
                                       "stores",
                                       "adds to",
                                       "ors",
                                       "ands",
                                       "exchanges",
                                       "compares and exchanges",
                                       "goes to sleep on",
                                       "wakes sleepers on",
                                       "locks",
                                       "unlocks",
                                       "joins"};
    return text[kind];
}

static const char *order_name(int32_t order) {
    static const char *const text[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
    return text[order];
}

void machine_describe(const step *chosen, char *text, size_t size) {
    const thread *t = &machine_world.threads[chosen->thread];
    const char *who = machine_entries[chosen->thread].name;
    const operation *o = chosen->kind == STEP_FLUSH ? &t->pending[chosen->entry].store : &t->next;
    if (chosen->kind == STEP_FLUSH) {
        snprintf(text, size, "%s: its store of %llx to %s reaches memory", who, (unsigned long long)o->value, machine_name_of(o->address));
    } else if (chosen->kind == STEP_TIMEOUT || chosen->kind == STEP_SPURIOUS) {
        snprintf(text, size, "%s: wakes up by %s", who, chosen->kind == STEP_TIMEOUT ? "its timeout" : "itself");
    } else {
        snprintf(text, size, "%s: %s %s (%s), value %llx, memory %llx", who, kind_name(o->kind), machine_name_of(o->address),
                 order_name(o->order), (unsigned long long)o->value, (unsigned long long)(o->address ? machine_load(o) : 0));
    }
}

#include "said.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char said_function[] = "muster_function_call", said_reduce[] = "muster_worker_all_reduce",
                  said_gather[] = "muster_worker_all_gather", said_close[] = "muster_runtime_close";
enum { SAID_TEXT = 1024 };

/* ---- of whom ---- */

static bool said_is_culprit(const cell *c, int32_t p) { return p == c->victim || (c->kind == CELL_CUT && p == c->other); }

/* The number behind the first `before` in the text; -1: it is not there. */
static int32_t said_number(const char *text, const char *before) {
    const char *at = strstr(text, before);
    return at ? atoi(at + strlen(before)) : -1;
}

static bool said_exists(const cell *c, int32_t p) { return p >= 0 && p < c->processes; }

/* ---- waits ---- */

/* Where a process of the call can wait: the function, and in what. */
static const char *said_wait(const cell_run *run, int32_t place, int32_t call, char doing[160]) {
    static const char *const wheres[CELL_PLACES + 1] = {said_function, said_function, said_reduce, said_gather, said_function, said_close};
    const char *text = run->cell.kind == CELL_DIFFERS && run->cell.place == CELL_BEGIN ? cell_other_text : cell_text;
    static const char *const formats[CELL_PLACES + 1] = {"call %d (%s)", "muster_function_call (all_gather)", "all_reduce",
                                                         "all_gather",   "the end of call %d (%s)",           "the close of the runtime"};
    snprintf(doing, 160, formats[place], (int)call, place == CELL_BEGIN || place == CELL_END ? cell_text : text);
    return wheres[place];
}

/* The last call before this one that `who` knows all to have begun; 0: none. */
static int32_t said_last(const cell_run *run, int32_t who, int32_t call) {
    for (call--; call > 0; call--) {
        const cell_note *note = &run->seen[who].notes[call - 1][CELL_BEGIN];
        if (note->noted && note->status != MUSTER_TIMEOUT && note->status != MUSTER_NODE_LOST) break;
    }
    return call;
}

/* What `who` says of a process that does not answer. */
static bool said_silence(const cell_run *run, int32_t who, int32_t place, int32_t call, const char *text) {
    const bool closing = place == CELL_PLACES;
    const char *what = closing ? "does not answer" : "has made no call";
    const int32_t last = said_last(run, who, closing ? CELL_CALLS + 1 : call);
    char expected[200];
    if (place != CELL_BEGIN && !closing)
        snprintf(expected, sizeof expected, "does not answer; it is in call %d (%s)", (int)call, cell_text);
    else if (last == 0)
        snprintf(expected, sizeof expected, "%s%s", what, closing ? "" : " yet");
    else
        snprintf(expected, sizeof expected, "%s; its last was call %d (%s)", what, (int)last, cell_text);
    return strcmp(text, expected) == 0;
}

/* "waits in all_reduce for process 1 (host host1)": where waits run in a circle, as they do around
 * a link that is cut, and, as answers are not of one moment, in warnings when a process has just
 * come back. */
static bool said_circle(const cell_run *run, const char *text, bool in_log) {
    char expected[SAID_TEXT], doing[160], name[MST_PROCESS_TEXT];
    const int32_t whom = said_number(text, " for process ");
    if (run->cell.kind != CELL_CUT && !(run->cell.kind == CELL_STOPPED && in_log)) return false;
    for (int32_t place = 0; place <= CELL_PLACES; place++)
        for (int32_t call = 1; call <= CELL_CALLS; call++) {
            said_wait(run, place, call, doing);
            if (said_exists(&run->cell, whom))
                snprintf(expected, sizeof expected, "waits in %s for %s", doing, cell_name(&run->cell, whom, name));
            else
                snprintf(expected, sizeof expected, "is in %s", doing); /* has all that it needs, and is about to see it */
            if (strcmp(text, expected) == 0) return true;
        }
    return !said_exists(&run->cell, whom) && strcmp(text, "is in a wait of its own") == 0;
}

/* A process that has found one to be lost answers until it has told the others, and until the
 * launch ends. */
static bool said_loses(const cell_run *run, int32_t process, const char *text) {
    bool loses = false;
    for (int32_t call = 0; call < CELL_CALLS && !loses; call++)
        for (int32_t place = 0; place < CELL_PLACES; place++) {
            const cell_note *note = &run->seen[process].notes[call][place];
            loses = loses || (note->noted && (note->status == MUSTER_NODE_LOST || note->status == MUSTER_SYSTEM));
        }
    return (loses || run->aborted >= 0) && strcmp(text, "is in a call that has lost a process") == 0;
}

/* "<where>: process 1 (host host2) waited 0.31 s in call 2 (function 'train') for process 0 (host
 * host1), for which process 3 (host host1) waits, which has made no call yet". */
static bool said_late(const cell_run *run, int32_t call, const char *sentence, bool in_log) {
    const cell *c = &run->cell;
    char self[MST_PROCESS_TEXT], name[MST_PROCESS_TEXT], before[MST_PROCESS_TEXT], doing[160], start[400], path[160] = "",
                                                                                                           expected[SAID_TEXT];
    const char *behind = strstr(sentence, " s in "), *colon = strstr(sentence, ": process ");
    const int32_t who = said_number(sentence, ": process "), whom = behind ? said_number(behind, " for process ") : -1;
    const int32_t through = said_number(sentence, ", for which process ");
    if (!colon || !behind || !said_exists(c, who) || !said_exists(c, whom) || who == whom) return false;
    if (through >= 0 && !said_exists(c, through)) return false;
    if (through >= 0) snprintf(path, sizeof path, ", for which %s waits", cell_name(c, through, before));
    for (int32_t place = 0; place <= CELL_PLACES; place++) {
        const char *where = said_wait(run, place, call, doing);
        snprintf(start, sizeof start, "%s: %s waited ", where, cell_name(c, who, self));
        if (strncmp(sentence, start, strlen(start)) != 0) continue;
        snprintf(expected, sizeof expected, " s in %s for %s%s, which ", doing, cell_name(c, whom, name), path);
        if (strncmp(behind, expected, strlen(expected)) != 0) continue;
        const char *text = behind + strlen(expected);
        const bool gone = place == CELL_PLACES && c->ms == CELL_EVER_MS; /* who has given up has closed sooner */
        /* At the end of a call some have ended it already, and are in code of their programs. */
        const bool ahead = in_log && place == CELL_END && run->seen[whom].notes[call - 1][CELL_END].noted;
        if ((gone || ahead || said_is_culprit(c, whom)) && said_silence(run, who, place, call, text)) return true;
        if (said_circle(run, text, in_log) || said_loses(run, whom, text)) return true;
    }
    return false;
}

/* ---- the other sentences ---- */

static bool said_lost(const cell_run *run, int32_t call, const char *sentence) {
    static const char closed[] = "; this runtime can only be closed";
    const cell *c = &run->cell;
    const size_t length = strlen(sentence);
    if (length > strlen(closed) && strcmp(sentence + length - strlen(closed), closed) == 0) { /* a transfer in a circle of waits */
        char late[SAID_TEXT];
        snprintf(late, sizeof late, "%.*s", (int)(length - strlen(closed)), sentence);
        bool said = false;
        for (int32_t of = 1; of <= CELL_CALLS; of++) said |= said_late(run, of, late, false);
        return said;
    }
    static const char *const wheres[] = {said_function, said_reduce, said_gather, said_close};
    char name[MST_PROCESS_TEXT], expected[SAID_TEXT];
    for (int32_t p = 0; p < c->processes; p++) {
        if (!said_is_culprit(c, p)) continue;
        for (int32_t where = 0; where < 4; where++)
            for (int32_t why = 0; why < 3; why++) {
                char text[200] = "has ended";
                if (why == 1) snprintf(text, sizeof text, "has not ended call %d (%s)", (int)call, cell_text);
                if (why == 2) snprintf(text, sizeof text, "does not take part in a transfer that it has begun");
                if ((why == 0) != (c->kind == CELL_KILLED)) continue;
                snprintf(expected, sizeof expected, "%s: %s %s: it is lost, and this runtime can only be closed", wheres[where],
                         cell_name(c, p, name), text);
                if (strcmp(sentence, expected) == 0) return true;
            }
    }
    return false;
}

/* A failure, a refusal, a difference and a close each have one sentence. */
static bool said_decided(const cell_run *run, int32_t call, const char *sentence) {
    const cell *c = &run->cell;
    char name[MST_PROCESS_TEXT], zero[MST_PROCESS_TEXT], expected[SAID_TEXT];
    const int32_t low = c->victim ? 0 : 1;
    cell_name(c, c->victim, name);
    if (c->kind == CELL_EXITS)
        snprintf(expected, sizeof expected, "%s: %s has closed its runtime, without which there are no calls", said_function, name);
    else if (c->kind == CELL_REFUSES)
        snprintf(expected, sizeof expected, "%s: input 'x': 3 rows, in %s", said_function, name);
    else if (c->kind == CELL_FAILS)
        snprintf(expected, sizeof expected, "the body of rank %d says no, in %s", (int)cell_rank(c->victim), name);
    else if (c->place == CELL_BEGIN && c->seed % 2)
        snprintf(expected, sizeof expected, "%s: %s: call %d is %s here and %s in %s", said_function,
                 c->victim ? name : cell_name(c, 1, zero), (int)call, c->victim ? cell_other_text : cell_text,
                 c->victim ? cell_text : cell_other_text, cell_name(c, 0, c->victim ? zero : name));
    else
        snprintf(expected, sizeof expected, "%s: %s: call %d, %s, differs here in what it passes from that of %s", said_function,
                 c->victim ? name : cell_name(c, low, zero), (int)call, cell_text, cell_name(c, 0, c->victim ? zero : name));
    return strcmp(sentence, expected) == 0;
}

/* In the call, of a process that has been told: "... gave up because rank 3 in process 2 (host
 * host1) failed with USER". */
static bool said_gave_up(const cell_run *run, int32_t process, const char *sentence) {
    const cell *c = &run->cell;
    static const char *const wheres[] = {said_reduce, said_gather};
    char self[MST_PROCESS_TEXT], other[MST_PROCESS_TEXT], expected[SAID_TEXT];
    cell_name(c, process, self);
    for (int32_t where = 0; where < 2; where++)
        for (int32_t p = 0; p < c->processes; p++) {
            if (c->kind == CELL_FAILS && p == c->victim)
                snprintf(expected, sizeof expected, "%s: %s gave up because rank %d in %s failed with USER", wheres[where], self,
                         (int)cell_rank(p), cell_name(c, p, other));
            else if (c->kind != CELL_FAILS && p != process)
                snprintf(expected, sizeof expected, "%s: %s gave up because %s failed with TIMEOUT", wheres[where], self,
                         cell_name(c, p, other));
            else
                continue;
            if (strcmp(sentence, expected) == 0) return true;
        }
    return false;
}

/* Around a cut some cannot get the words of the process that decides. */
static bool said_without_words(const cell_run *run, const char *sentence) {
    char name[MST_PROCESS_TEXT], expected[SAID_TEXT];
    const int32_t who = said_number(sentence, ": process ");
    if (run->cell.kind != CELL_CUT || !said_exists(&run->cell, who)) return false;
    snprintf(expected, sizeof expected, "%s: %s failed with TIMEOUT", said_function, cell_name(&run->cell, who, name));
    return strcmp(sentence, expected) == 0;
}

/* A process that has given up its close tells those that still make calls. */
static bool said_closed(const cell_run *run, int32_t process, int32_t call, const char *sentence) {
    const cell *c = &run->cell;
    char name[MST_PROCESS_TEXT], expected[SAID_TEXT];
    const int32_t whom = said_number(sentence, ": process ");
    if (call <= c->call || c->ms < CELL_EVER_MS || !said_exists(c, whom) || whom == process || !run->seen[whom].closed) return false;
    snprintf(expected, sizeof expected, "%s: %s has closed its runtime, without which there are no calls", said_function,
             cell_name(c, whom, name));
    return strcmp(sentence, expected) == 0;
}

bool cells_said(const cell_run *run, int32_t process, int32_t call, const cell_note *note) {
    const cell *c = &run->cell;
    char body[80];
    switch (note->noted ? note->status : MUSTER_OK) {
    case MUSTER_OK:
        return true;
    case MUSTER_ABORTED:
        return said_gave_up(run, process, note->message);
    case MUSTER_TIMEOUT: /* others may have given up later calls, too, before this process has made this one */
        for (int32_t of = 1; of <= CELL_CALLS; of++)
            if ((of >= call || of == c->call) && said_late(run, of, note->message, false)) return true;
        return said_without_words(run, note->message);
    case MUSTER_NODE_LOST:
        return said_lost(run, c->call, note->message);
    case MUSTER_BAD_STATE:
        return said_decided(run, call, note->message) || said_closed(run, process, call, note->message);
    case MUSTER_SYSTEM: /* in words of the wire */
        return strstr(note->message, ": the launch was aborted with code ") != NULL && run->aborted >= 0;
    case MUSTER_USER:
        snprintf(body, sizeof body, "the body of rank %d says no", (int)cell_rank(process));
        return said_decided(run, call, note->message) || (process == c->victim && strcmp(note->message, body) == 0);
    default:
        return said_decided(run, c->kind == CELL_EXITS ? call : c->call, note->message);
    }
}

/* ---- the log ---- */

static bool said_line(const cell_run *run, const char *line) {
    static const char waited[] = "; it is waited for";
    char text[SAID_TEXT], ends[80];
    size_t length = strlen(line);
    snprintf(text, sizeof text, "%s", strncmp(line, "muster: ", 8) == 0 ? line + 8 : line);
    length = strlen(text);
    snprintf(ends, sizeof ends, "; the launch is aborted in %.3g s (the option on_lost)", CELL_GRACE_MS * 1e-3);
    if (length > strlen(ends) && strcmp(text + length - strlen(ends), ends) == 0) {
        text[length - strlen(ends)] = 0;
        return said_lost(run, run->cell.call, text);
    }
    if (length > strlen(waited) && strcmp(text + length - strlen(waited), waited) == 0) text[length - strlen(waited)] = 0;
    for (int32_t call = 1; call <= CELL_CALLS; call++)
        if (said_late(run, call, text, true)) return true;
    return false;
}

bool cells_log_said(const cell_run *run, int32_t process) {
    char log[CELL_LOG];
    memcpy(log, run->seen[process].log, sizeof log);
    for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
        if (!said_line(run, line)) {
            printf("not expected in the log: %s\n", line);
            return false;
        }
    return true;
}

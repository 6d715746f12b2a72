/* The message where processes make different calls: what each is about to do, and if that has the
 * same words in both, the first argument that differs. Arguments travel for the message alone. */
#include "locale_impl.h"
#include "rounds_private.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- the details of one process ---- */

/* A line for each: label, tab, value. A value that begins with '#' is a hash. "+" behind the last
 * line: more follow. */
enum { DETAIL_END = 3 };
_Static_assert((int)MST_DETAILS_BYTES == (int)MST_MESSAGE_SIZE, "details travel as sentences do");

void mst_round_detail(mst_round_details *details, const char *label, const char *format, ...) {
    char line[MST_DETAILS_BYTES / 2];
    va_list arguments;
    if (details->full || details->count++ < details->first) return;
    const int begin = snprintf(line, sizeof line, "%.*s\t", MST_DETAIL_LABEL, label);
    va_start(arguments, format);
    mst_vsnprintf(line + begin, sizeof line - (size_t)begin, format, arguments);
    va_end(arguments);
    const size_t length = strlen(line);
    if (details->length + length + DETAIL_END > sizeof details->text) {
        details->full = true;
        details->count--;
        memcpy(details->text + details->length, "+", 2);
        return;
    }
    memcpy(details->text + details->length, line, length);
    memcpy(details->text + details->length + length, "\n", 2);
    details->length += length + 1;
}

void mst_round_hash_detail(mst_round_details *details, const char *label, uint64_t hash) {
    mst_round_detail(details, label, "#%016" PRIx64, hash);
}

/* ---- those of two ---- */

typedef struct difference {
    const char *label, *value[2]; /* NULL: no line differs */
    bool more;                    /* but others follow */
    int32_t lines;
} difference;

/* Ends the line at *text, and its label, and goes on to the next one. Returns the value; NULL:
 * there is no line. */
static char *next_value(char **text, char **label) {
    char *end = strchr(*text, '\n');
    if (!end) return NULL;
    *end = 0;
    *label = *text;
    *text = end + 1;
    char *tab = strchr(*label, '\t');
    if (tab) *tab = 0;
    return tab ? tab + 1 : NULL;
}

static difference compare(char sentences[2][MST_MESSAGE_SIZE]) {
    difference found = {0};
    char *at[2] = {sentences[0], sentences[1]}, *labels[2];
    for (;; found.lines++) {
        char *const one = next_value(&at[0], &labels[0]), *const other = next_value(&at[1], &labels[1]);
        if (!one || !other) break;
        if (strcmp(labels[0], labels[1]) != 0) return found;
        if (strcmp(one, other) == 0) continue;
        return (difference){.label = labels[0], .value = {one, other}};
    }
    found.more = found.lines > 0 && at[0][0] == '+' && at[1][0] == '+';
    return found;
}

/* ---- the message ---- */

typedef struct differing {
    const mst_round *round;
    char call[MST_ROUND_TEXT + 40];                     /* "call 3, function 'train'" */
    char low[MST_PROCESS_TEXT], high[MST_PROCESS_TEXT]; /* the process with the lower number, and the other one */
} differing;

static muster_status by_argument(const differing *d, const difference *found) {
    if (found->value[0][0] == '#')
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected the same as in %s, received others in %s, %s", d->round->where,
                         found->label, d->low, d->high, d->call);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected %s as in %s, received %s in %s, %s", d->round->where, found->label,
                     found->value[0], d->low, found->value[1], d->high, d->call);
}

/* Both have the same words. The others, which may make another call, take part. */
static muster_status find_argument(mst_nodes *nodes, const mst_nodes_wait *wait, const differing *d, int32_t low, int32_t high) {
    enum { MOST_PARTS = 1000 };
    char sentences[2][MST_MESSAGE_SIZE];
    int32_t first = 0;
    for (int32_t part = 0; part < MOST_PARTS; part++) {
        mst_round_details details = {.first = first};
        if (d->round->details && (nodes->process == low || nodes->process == high)) d->round->details(d->round->details_context, &details);
        mst_rounds_sentences(nodes, wait, low, high, details.text, sentences);
        const difference found = compare(sentences);
        if (found.label) return by_argument(d, &found);
        if (!found.more) break;
        first += found.lines;
    }
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: %s, differs here in what it passes from that of %s", d->round->where, d->high,
                     d->call, d->low);
}

muster_status mst_rounds_differ(mst_nodes *nodes, const mst_round *round, const mst_nodes_wait *wait, int32_t one, int32_t other) {
    const int32_t low = one < other ? one : other, high = one < other ? other : one;
    const uint64_t number = mst_call_number(nodes->rounds->epoch);
    char sentences[2][MST_MESSAGE_SIZE];
    differing d = {.round = round};
    mst_rounds_sentences(nodes, wait, low, high, round->text, sentences);
    mst_nodes_process_text(nodes, low, d.low);
    mst_nodes_process_text(nodes, high, d.high);
    snprintf(d.call, sizeof d.call, "call %" PRIu64 ", %.*s", number, MST_ROUND_TEXT, sentences[1]);
    if (strcmp(sentences[0], sentences[1]) == 0) return find_argument(nodes, wait, &d, low, high);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: call %" PRIu64 " is %s here and %s in %s", round->where, d.high, number,
                     sentences[1], sentences[0], d.low);
}

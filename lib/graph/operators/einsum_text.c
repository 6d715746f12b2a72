/* einsum: the text of the letters. */
#include "einsum_private.h"

#include <string.h>

static char letter_of(int32_t letter) { return (char)(letter < 26 ? 'A' + letter : 'a' + letter - 26); }

bool mst_einsum_refuse(sum_of_products *s, const char *expected) {
    const mst_graph_value *text = &s->draft->values[0];
    char received[MST_TEXT_ATTRIBUTE + 1];
    for (int32_t i = 0; i < text->count; i++) received[i] = (char)text->list[i];
    received[text->count] = 0;
    (void)mst_draft_refuse(s->draft, MUSTER_INVALID_ARGUMENT, -1, "subscripts: expected %s, received \"%s\"", expected, received);
    return false;
}

/* The number of operands in the text, each of which is a list of letters. */
static int32_t count_terms(const sum_of_products *s) {
    const mst_graph_value *text = &s->draft->values[0];
    int32_t terms = 1;
    for (int32_t i = 0; i < text->count && text->list[i] != '-'; i++) terms += text->list[i] == ',';
    return terms;
}

static bool read_letter(sum_of_products *s, term *to, int64_t c) {
    if (to->count == 2 * MUSTER_MAX_DIMS) return mst_einsum_refuse(s, "at most 16 letters for each array");
    to->letters[to->count++] = (int32_t)(c >= 'a' ? c - 'a' + 26 : c - 'A');
    return true;
}

static bool read_subscripts(sum_of_products *s, bool *arrow) {
    const mst_graph_value *text = &s->draft->values[0];
    term *to = &s->in[0];
    int32_t terms = 1;
    const int32_t wanted = count_terms(s);
    *arrow = false;
    if (wanted != s->draft->count) {
        (void)mst_draft_refuse(s->draft, MUSTER_INVALID_ARGUMENT, -1, "expected %d operand%s for these subscripts, received %d",
                               (int)wanted, wanted == 1 ? "" : "s", (int)s->draft->count);
        return false;
    }
    for (int32_t i = 0; i < text->count; i++) {
        const int64_t c = text->list[i];
        if (c == ' ') continue;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
            if (!read_letter(s, to, c)) return false;
        } else if (c == ',' && !*arrow) {
            to = &s->in[terms++];
        } else if (c == '-' && !*arrow && i + 1 < text->count && text->list[i + 1] == '>') {
            *arrow = true;
            to = &s->out;
            i++;
        } else if (c == '.' && !to->dots && i + 2 < text->count && text->list[i + 1] == '.' && text->list[i + 2] == '.') {
            to->dots = to->count + 1;
            i += 2;
        } else {
            return mst_einsum_refuse(s, "letters, \"...\" once in a list, one \",\" between two operands, and \"->\"");
        }
    }
    return true;
}

/* The letters of so many axes in place of "...". */
static bool put_dots(sum_of_products *s, term *to, int32_t count) {
    const int32_t at = to->dots - 1;
    if (!to->dots) return true;
    if (to->count + count > 2 * MUSTER_MAX_DIMS) return mst_einsum_refuse(s, "at most 16 axes for each array");
    memmove(&to->letters[at + count], &to->letters[at], (size_t)(to->count - at) * sizeof *to->letters);
    for (int32_t d = 0; d < count; d++) to->letters[at + d] = LETTERS - count + d;
    to->count += count;
    return true;
}

/* Without an arrow the axes of "..." come first. */
static bool read_dots(sum_of_products *s, bool arrow) {
    int32_t most = 0;
    for (int32_t i = 0; i < s->draft->count; i++) {
        const int32_t count = s->draft->inputs[i]->type.ndim - s->in[i].count;
        if (!s->in[i].dots || count < 0) continue; /* which the sizes refuse */
        if (!put_dots(s, &s->in[i], count)) return false;
        most = count > most ? count : most;
    }
    if (!arrow) s->out.dots = 1;
    if (most && !s->out.dots) return mst_einsum_refuse(s, "\"...\" in the result, as in the operands");
    return put_dots(s, &s->out, most);
}

/* Without an arrow the result has the letters that the text has once, in the order of the alphabet
 * (capital letters first, as in NumPy). */
static bool read_result(sum_of_products *s, bool arrow) {
    int32_t seen[LETTERS] = {0};
    for (int32_t i = 0; i < s->draft->count; i++)
        for (int32_t d = 0; d < s->in[i].count; d++) s->uses[s->in[i].letters[d]]++;
    for (int32_t letter = 0; !arrow && letter < NAMED; letter++)
        if (s->uses[letter] == 1 && !read_letter(s, &s->out, letter_of(letter))) return false;
    for (int32_t d = 0; d < s->out.count; d++) {
        if (!s->uses[s->out.letters[d]]) return mst_einsum_refuse(s, "a result whose letters the operands have");
        if (seen[s->out.letters[d]]++) return mst_einsum_refuse(s, "a result that has each letter once");
    }
    return s->out.count <= MUSTER_MAX_DIMS || mst_einsum_refuse(s, "a result of at most 8 dimensions");
}

/* ---- the operands ---- */

static bool refuse_size(sum_of_products *s, int32_t i, int32_t letter) {
    char expected[MST_NODE_TEXT], text[MST_NODE_TEXT], name[] = "...";
    if (letter < NAMED) name[0] = letter_of(letter), name[1] = 0;
    (void)mst_dim_print(s->draft->graph, s->sizes[letter], expected, sizeof expected);
    (void)mst_draft_refuse(s->draft, MUSTER_SHAPE_MISMATCH, i, "expected size %s for \"%s\", received %s", expected, name,
                           mst_type_text(s->draft->graph, &s->draft->inputs[i]->type, text));
    return false;
}

/* An axis of size 1 broadcasts. */
static bool read_sizes(sum_of_products *s) {
    char text[MST_NODE_TEXT];
    for (int32_t letter = 0; letter < LETTERS; letter++) s->sizes[letter] = MST_DIM_NONE;
    for (int32_t i = 0; i < s->draft->count; i++) {
        const mst_type *type = &s->draft->inputs[i]->type;
        if (type->ndim != s->in[i].count) {
            (void)mst_draft_refuse(s->draft, MUSTER_SHAPE_MISMATCH, i, "expected %d dimension%s%s, one for each letter, received %s",
                                   (int)s->in[i].count, s->in[i].count == 1 ? "" : "s", s->in[i].dots ? " or more" : "",
                                   mst_type_text(s->draft->graph, type, text));
            return false;
        }
        for (int32_t d = 0; d < type->ndim; d++) {
            mst_dim *size = &s->sizes[s->in[i].letters[d]];
            if (*size == MST_DIM_NONE || *size == MST_DIM_ONE) *size = type->dims[d];
            if (*size != type->dims[d] && type->dims[d] != MST_DIM_ONE) return refuse_size(s, i, s->in[i].letters[d]);
            for (int32_t e = 0; e < d; e++) /* a diagonal is one of equal sizes */
                if (s->in[i].letters[e] == s->in[i].letters[d] && type->dims[e] != type->dims[d])
                    return refuse_size(s, i, s->in[i].letters[d]);
        }
    }
    return true;
}

bool mst_einsum_read(sum_of_products *s) {
    bool arrow;
    return read_subscripts(s, &arrow) && read_dots(s, arrow) && read_result(s, arrow) && read_sizes(s);
}

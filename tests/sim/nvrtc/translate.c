/* What C++ for the host does not know of CUDA C++, in a preprocessed text: __global__ (dropped, its
 * function listed), __launch_bounds__ (dropped, listed), and __shared__, which becomes memory of
 * the thread that runs the block. A dynamic array is a name for the one piece of such memory that
 * all of them share. */
#include "nvrtc_impl.h"
#include "shim/mst_program.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 256, NAMES_MAX = 1024, NAME_MAX_LENGTH = 200 };

typedef struct kernel {
    char name[NAME_MAX_LENGTH];
    const char *bounds;
    int bounds_length;
} kernel;

typedef struct translation {
    const char *at;
    FILE *out;
    bool linkage[DEPTH_MAX]; /* of each open brace: does it belong to extern "C"? */
    int depth, parentheses;
    /* of the declaration that is being read */
    bool is_extern, is_c, is_static, is_template, is_global, is_dynamic;
    char last[NAME_MAX_LENGTH]; /* identifier */
    const char *bounds;
    int bounds_length;
    kernel *kernels;
    char (*dynamic)[NAME_MAX_LENGTH];
    int kernel_count, dynamic_count;
} translation;

static bool begins_name(char c) { return isalpha((unsigned char)c) || c == '_'; }
static bool goes_on(char c) { return isalnum((unsigned char)c) || c == '_'; }
static bool is(const char *at, size_t length, const char *word) { return strlen(word) == length && memcmp(at, word, length) == 0; }

static void begin_declaration(translation *t) {
    t->is_extern = t->is_c = t->is_static = t->is_template = t->is_global = t->is_dynamic = false;
    t->last[0] = 0;
    t->bounds = NULL;
}

/* Behind the literal that begins here. */
static const char *skip_literal(const char *at) {
    char quote = *at++;
    while (*at && *at != quote) at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : at;
}

static const char *skip_parentheses(const char *at) {
    int depth = 0;
    do {
        if (*at == '"' || *at == '\'') {
            at = skip_literal(at);
            continue;
        }
        depth += (*at == '(') - (*at == ')');
        at += *at != 0;
    } while (*at && depth > 0);
    return at;
}

/* extern "C" of this declaration, or around it. */
static bool has_c_linkage(const translation *t) {
    bool around = false;
    for (int i = 0; i < t->depth; i++) around |= t->linkage[i];
    return (t->is_extern && t->is_c) || around;
}

static void add_kernel(translation *t) {
    if (!has_c_linkage(t) || t->is_template || t->kernel_count == NAMES_MAX) return;
    for (int i = 0; i < t->kernel_count; i++)
        if (strcmp(t->kernels[i].name, t->last) == 0) return;
    kernel *added = &t->kernels[t->kernel_count++];
    snprintf(added->name, sizeof added->name, "%s", t->last);
    added->bounds = t->bounds;
    added->bounds_length = t->bounds_length;
}

static void add_dynamic(translation *t) {
    for (int i = 0; i < t->dynamic_count; i++)
        if (strcmp(t->dynamic[i], t->last) == 0) return;
    if (t->dynamic_count < NAMES_MAX) snprintf(t->dynamic[t->dynamic_count++], NAME_MAX_LENGTH, "%s", t->last);
}

static const char *skip_blanks(const char *at) {
    while (isspace((unsigned char)*at)) at++;
    return at;
}

/* The lines that were dropped stay in the count. */
static void keep_lines(translation *t, const char *from, const char *to) {
    for (; from < to; from++)
        if (*from == '\n') fputc('\n', t->out);
}

static void drop_bounds(translation *t, const char *behind) {
    const char *open = skip_blanks(behind), *close = *open == '(' ? skip_parentheses(open) : open;
    if (close > open) {
        t->bounds = open + 1;
        t->bounds_length = (int)(close - open) - 2;
    }
    keep_lines(t, behind, close);
    t->at = close;
}

static void put_shared(translation *t, const char *behind) {
    const char *next = skip_blanks(behind);
    bool follows = strncmp(next, "extern", 6) == 0 && !goes_on(next[6]);
    t->is_dynamic = t->is_extern || follows;
    if (follows) {
        fputs("extern ", t->out);
        behind = next + 6;
    }
    /* used: so that the compiler takes calls for what may read and change it, as other threads
     * do */
    fputs(t->is_dynamic ? "__thread" : t->is_static ? "__thread __attribute__((used))" : "static __thread __attribute__((used))", t->out);
    t->at = behind;
}

static void read_name(translation *t) {
    const char *from = t->at, *to = from;
    while (goes_on(*to)) to++;
    size_t length = (size_t)(to - from);
    t->at = to;
    if (is(from, length, "__global__")) {
        t->is_global = true;
        return;
    }
    if (is(from, length, "__launch_bounds__")) {
        drop_bounds(t, to);
        return;
    }
    if (is(from, length, "__shared__")) {
        put_shared(t, to);
        return;
    }
    fwrite(from, 1, length, t->out);
    if (is(from, length, "__attribute__") || is(from, length, "alignas")) { /* no name that is declared */
        const char *open = skip_blanks(to);
        t->at = *open == '(' ? skip_parentheses(open) : to;
        fwrite(to, 1, (size_t)(t->at - to), t->out);
        return;
    }
    t->is_extern |= is(from, length, "extern");
    t->is_static |= is(from, length, "static");
    t->is_template |= is(from, length, "template");
    snprintf(t->last, sizeof t->last, "%.*s", (int)length, from);
}

static void read_literal(translation *t) {
    const char *end = skip_literal(t->at);
    t->is_c |= t->is_extern && strncmp(t->at, "\"C\"", 3) == 0;
    fwrite(t->at, 1, (size_t)(end - t->at), t->out);
    t->at = end;
}

static void read_mark(translation *t) {
    char c = *t->at++;
    fputc(c, t->out);
    if (c == '(' && t->parentheses == 0 && t->is_global) {
        add_kernel(t);
        t->is_global = false;
    }
    if (c == '[' && t->is_dynamic) {
        add_dynamic(t);
        t->is_dynamic = false;
    }
    t->parentheses += (c == '(') - (c == ')');
    if (c == '{') {
        if (t->depth < DEPTH_MAX) t->linkage[t->depth] = t->is_extern && t->is_c && t->last[0] && strcmp(t->last, "extern") == 0;
        t->depth += t->depth < DEPTH_MAX;
    }
    t->depth -= c == '}' && t->depth > 0;
    if (c == '{' || c == '}' || c == ';') {
        t->parentheses = 0;
        begin_declaration(t);
    }
}

static void translate(translation *t) {
    bool line_begins = true;
    while (*t->at) {
        char c = *t->at;
        if (line_begins && c == '#') { /* which file and line the next one is, or a pragma */
            size_t length = strcspn(t->at, "\n");
            fwrite(t->at, 1, length, t->out);
            t->at += length;
            continue;
        }
        line_begins = c == '\n' || (line_begins && isspace((unsigned char)c));
        if (begins_name(c)) {
            read_name(t);
        } else if (isdigit((unsigned char)c)) { /* with its suffix, and 1'000 */
            while (goes_on(*t->at) || *t->at == '.' || (*t->at == '\'' && goes_on(t->at[1]))) fputc(*t->at++, t->out);
        } else if (c == '"' || c == '\'') {
            read_literal(t);
        } else if (isspace((unsigned char)c)) {
            fputc(c, t->out);
            t->at++;
        } else {
            read_mark(t);
        }
    }
}

static void write_table(const translation *t) {
    FILE *out = t->out;
    fprintf(out, "\n# 1 \"the table of kernels\"\n");
    fprintf(out, "extern \"C\" { extern __thread char mst_dynamic[]; }\n");
    fprintf(out, "asm(\".pushsection .tbss.mst_dynamic,\\\"awT\\\",@nobits\\n.balign 256\\n\"\n");
    fprintf(out, "    \".globl mst_dynamic\\n.hidden mst_dynamic\\n.type mst_dynamic,@object\\nmst_dynamic:\\n\"\n");
    for (int i = 0; i < t->dynamic_count; i++)
        fprintf(out, "    \".globl %s\\n.hidden %s\\n.type %s,@object\\n%s:\\n\"\n", t->dynamic[i], t->dynamic[i], t->dynamic[i],
                t->dynamic[i]);
    fprintf(out, "    \".skip %d\\n.popsection\\n\");\n", MST_PROGRAM_SHARED);
    fprintf(out, "static char *mst_get_dynamic() { return mst_dynamic; }\n");
    fprintf(out, "static const mst_program_kernel mst_kernels[] = {\n");
    for (int i = 0; i < t->kernel_count; i++)
        fprintf(out, "    mst_kernel_of<decltype(&%s), &%s>::entry(\"%s\", mst_bounds(%.*s)),\n", t->kernels[i].name, t->kernels[i].name,
                t->kernels[i].name, t->kernels[i].bounds ? t->kernels[i].bounds_length : 0,
                t->kernels[i].bounds ? t->kernels[i].bounds : "");
    fprintf(out, "    {}};\n");
    fprintf(out, "extern \"C\" __attribute__((visibility(\"default\"))) const mst_program_table mst_program;\n");
    fprintf(out,
            "const mst_program_table mst_program = {MST_PROGRAM_VERSION, %d, mst_kernels, &mst_machine, mst_get_here, mst_get_dynamic};\n",
            t->kernel_count);
}

static char *list_kernels(const translation *t) {
    char *names = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&names, &bytes);
    if (!out) return NULL;
    for (int i = 0; i < t->kernel_count; i++) fprintf(out, "kernel %s\n", t->kernels[i].name);
    if (fclose(out) == 0) return names;
    free(names);
    return NULL;
}

char *nvrtc_translate(const char *text, char **names) {
    char *result = NULL;
    size_t bytes = 0;
    translation t = {.at = text, .out = open_memstream(&result, &bytes)};
    t.kernels = calloc(NAMES_MAX, sizeof *t.kernels);
    t.dynamic = calloc(NAMES_MAX, sizeof *t.dynamic);
    bool whole = t.out && t.kernels && t.dynamic;
    *names = NULL;
    if (whole) {
        translate(&t);
        write_table(&t);
        *names = list_kernels(&t);
    }
    if (t.out && fclose(t.out) != 0) whole = false;
    free(t.kernels);
    free(t.dynamic);
    if (whole && *names) return result;
    free(result);
    return NULL;
}

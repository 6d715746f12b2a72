#include "kernel_private.h"

#include <stdio.h>
#include <string.h>

const char *mst_dialect(mst_language language) {
    const char *name = language == MST_LANGUAGE_CUDA ? "cluda_cuda.cuh" : "cluda_opencl.cl";
    for (int32_t i = 0; i < mst_kernel_code.header_count; i++)
        if (strcmp(mst_kernel_code.headers[i].name, name) == 0) return mst_kernel_code.headers[i].text;
    return "";
}

/* Is `wanted` one of the words up to the ) that closes the ( at *at? */
static bool dialect_takes_word(const char **at, const char *end, const char *wanted) {
    int depth = 0;
    mst_word word;
    while (mst_word_next(at, end, &word)) {
        if (mst_word_is(&word, wanted)) return true;
        if (mst_word_is(&word, "(")) depth++;
        if (mst_word_is(&word, ")") && --depth <= 0) return false;
    }
    return false;
}

bool mst_has_word(const char *source, const char *wanted) {
    const char *at = source, *end = source + strlen(source);
    mst_word word;
    while (mst_word_next(&at, end, &word))
        if (mst_word_is(&word, wanted)) return true;
    return false;
}

bool mst_takes_shared(const char *source, const char *name) {
    const char *at = source, *end = source + strlen(source);
    mst_word word;
    while (mst_word_next(&at, end, &word)) {
        const char *behind = at;
        if (!mst_word_is(&word, name)) continue;
        if (mst_word_next(&behind, end, &word) && mst_word_is(&word, "(") && dialect_takes_word(&at, end, "GA_DECL_SHARED_PARAM"))
            return true;
    }
    return false;
}

/* ---- the declared parameters and those of the text ---- */

/* One parameter, as its words show it. */
typedef struct written {
    bool pointer;
    int32_t type; /* a type of the dialect; -1: unknown */
    int words;
} written;

int32_t mst_type_of_word(const mst_word *word) {
    for (int32_t type = 0; type <= MUSTER_PARAMETER_USHORT; type++)
        if (mst_type_known(type) && mst_type_in_source(type) && mst_word_is(word, mst_type_in_source(type))) return type;
    return -1;
}

/* Reads the parameters of a kernel, up to the closing parenthesis. -1: another parenthesis, a
 * preprocessor line, or a lone word, which may be a macro; such source is not checked. */
static int32_t dialect_read_parameters(const char *at, const char *end, written *found, int32_t capacity) {
    mst_word word;
    written now = {.type = -1};
    int32_t count = 0;
    bool shared = false;
    while (mst_word_next(&at, end, &word)) {
        if (mst_word_is(&word, "(") && shared) continue;
        if (mst_word_is(&word, "(") || mst_word_is(&word, "#")) return -1;
        const bool last = mst_word_is(&word, ")");
        shared = shared || mst_word_is(&word, "GA_DECL_SHARED_PARAM");
        if (last || mst_word_is(&word, ",") || mst_word_is(&word, "GA_DECL_SHARED_PARAM")) {
            if (now.words == 1 || count == capacity) return -1;
            if (now.words > 0) found[count++] = now;
            now = (written){.type = -1};
            if (last || shared) return count;
            continue;
        }
        now.words++;
        now.pointer = now.pointer || mst_word_is(&word, "*") || mst_word_is(&word, "[");
        if (mst_type_of_word(&word) >= 0) now.type = mst_type_of_word(&word);
    }
    return -1;
}

static bool is_float(int32_t type) { return type == MUSTER_F16 || type == MUSTER_BF16 || type == MUSTER_F32 || type == MUSTER_F64; }

static bool dialect_agrees(const written *found, int32_t declared) {
    if (found->pointer) return declared == MUSTER_PARAMETER_BUFFER;
    if (found->type < 0) return true;
    if (declared == MUSTER_PARAMETER_BUFFER) return false;
    return mst_type_bytes(found->type) == mst_type_bytes(declared) && is_float(found->type) == is_float(declared);
}

/* The first parameter in the definition of the kernel; NULL: no definition was recognised. */
static const char *dialect_find_parameters(const char *source, const char *name) {
    const char *at = source, *end = source + strlen(source);
    bool kernel = false;
    mst_word word;
    while (mst_word_next(&at, end, &word)) {
        if (mst_word_is(&word, ";") || mst_word_is(&word, "{") || mst_word_is(&word, "}")) kernel = false;
        if (mst_word_is(&word, "KERNEL")) kernel = true;
        const char *behind = at;
        if (kernel && mst_word_is(&word, name) && mst_word_next(&behind, end, &word) && mst_word_is(&word, "(")) return behind;
    }
    return NULL;
}

/* The contents of an included file would not be part of the cache's key. */
static muster_status dialect_check_includes(const char *where, const mst_kernel_plan *plan) {
    const char *at = plan->source, *end = at + strlen(at);
    bool directive = false;
    mst_word word;
    while (mst_word_next(&at, end, &word)) {
        const bool include = directive && mst_word_is(&word, "include");
        directive = mst_word_is(&word, "#");
        if (!include) continue;
        const char *name = at + strspn(at, " \t");
        const int length = (int)strcspn(name, "\r\n");
        if (strncmp(name, "\"cluda.h\"", strlen("\"cluda.h\"")) != 0)
            return mst_error(MUSTER_INVALID_ARGUMENT,
                             "%s: source of kernel '%.100s': expected no #include but that of \"cluda.h\", received %.*s", where,
                             plan->name, length < 100 ? length : 100, name);
    }
    return MUSTER_OK;
}

muster_status mst_check_declared(const char *where, const mst_kernel_plan *plan) {
    MUSTER_TRY(dialect_check_includes(where, plan));
    written found[MUSTER_KERNEL_PARAMETERS_MAX];
    const char *at = dialect_find_parameters(plan->source, plan->name);
    const int32_t count = at ? dialect_read_parameters(at, plan->source + strlen(plan->source), found, MUSTER_KERNEL_PARAMETERS_MAX) : -1;
    if (count != plan->parameter_count) return MUSTER_OK; /* the device's compiler reports a wrong number */
    for (int32_t i = 0; i < count; i++) {
        if (dialect_agrees(&found[i], plan->parameters[i])) continue;
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: parameters[%d] of kernel '%.100s': expected %s, as the source has it, received %s",
                         where, (int)i, plan->name, found[i].pointer ? "MUSTER_PARAMETER_BUFFER" : mst_type_name(found[i].type),
                         mst_type_name(plan->parameters[i]));
    }
    return MUSTER_OK;
}

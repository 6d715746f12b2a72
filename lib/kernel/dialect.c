#include "kernel_impl.h"

#include <string.h>

const char *mst_dialect(mst_language language) {
    const char *name = language == MST_LANGUAGE_CUDA ? "cluda_cuda.cuh" : "cluda_opencl.cl";
    for (int32_t i = 0; i < mst_kernel_code.count; i++)
        if (strcmp(mst_kernel_code.texts[i].name, name) == 0) return mst_kernel_code.texts[i].text;
    return "";
}

/* Is it among the words up to the ) that belongs to the ( at *at? */
static bool in_parameters(const char **at, const char *end, const char *wanted) {
    int depth = 0;
    mst_word word;
    while (mst_word_next(at, end, &word)) {
        if (mst_word_is(&word, wanted)) return true;
        if (mst_word_is(&word, "(")) depth++;
        if (mst_word_is(&word, ")") && --depth <= 0) return false;
    }
    return false;
}

bool mst_has_word(const char *text, const char *wanted) {
    const char *at = text, *end = text + strlen(text);
    mst_word word;
    while (mst_word_next(&at, end, &word))
        if (mst_word_is(&word, wanted)) return true;
    return false;
}

bool mst_takes_shared(const char *text, const char *name) {
    const char *at = text, *end = text + strlen(text);
    mst_word word;
    while (mst_word_next(&at, end, &word)) {
        const char *behind = at;
        if (!mst_word_is(&word, name)) continue;
        if (mst_word_next(&behind, end, &word) && mst_word_is(&word, "(") && in_parameters(&at, end, "GA_DECL_SHARED_PARAM")) return true;
    }
    return false;
}

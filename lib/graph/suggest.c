/* For messages: the operation that a program may have meant by a name that none has. */
#include "graph_private.h"

#include <stdio.h>
#include <string.h>

/* Names of NumPy, JAX and PyTorch that are not near to the one used here. */
static const char *const others[][2] = {
    {"fabs", "absolute"},
    {"neg", "negative"},
    {"sub", "subtract"},
    {"mul", "multiply"},
    {"div", "divide"},
    {"pow", "power"},
    {"mod", "remainder"},
    {"amax", "max"},
    {"amin", "min"},
    {"cat", "concatenate"},
    {"concat", "concatenate"},
    {"permute", "transpose"},
    {"astype", "cast"},
    {"gather", "take_along_axis"},
    {"conv2d", "convolution"},
    {"conv", "convolution"},
    {"maxpool", "max_pool"},
    {"batchnorm", "batch_norm"},
    {"layernorm", "layer_norm"},
};

enum { LONGEST = 63 };

/* So many letters must be changed, added or taken away. */
static int32_t distance_of(const char *a, const char *b) {
    const size_t length = strlen(b);
    int32_t row[LONGEST + 1];
    for (size_t j = 0; j <= length; j++) row[j] = (int32_t)j;
    for (size_t i = 0; a[i]; i++) {
        int32_t corner = row[0];
        row[0] = (int32_t)i + 1;
        for (size_t j = 0; j < length; j++) {
            const int32_t above = row[j + 1], changed = corner + (a[i] != b[j]);
            const int32_t one_more = (above < row[j] ? above : row[j]) + 1;
            row[j + 1] = changed < one_more ? changed : one_more;
            corner = above;
        }
    }
    return row[length];
}

const char *mst_operator_suggest(const char *name, char text[MST_SUGGESTION]) {
    const char *found = NULL;
    const size_t length = strlen(name);
    int32_t least = length > 4 ? 3 : length > 2 ? 2 : 0; /* less than this is near */
    text[0] = 0;
    if (length > LONGEST) return text;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i][0], name) == 0 && mst_operator_find(others[i][1])) found = others[i][1], least = 0;
    for (int32_t i = 0; i < MST_OPERATORS; i++) {
        const char *known = mst_operators[i]->name;
        if (mst_operators[i]->flags & MST_OPERATOR_HIDDEN || strlen(known) > LONGEST) continue;
        const int32_t distance = distance_of(name, known);
        if (distance < least) found = known, least = distance;
    }
    if (found) snprintf(text, MST_SUGGESTION, ": did you mean %s?", found);
    return text;
}

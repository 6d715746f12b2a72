/* The kernels of an operator, compiled for the dtypes of its applications. */
#include "custom_private.h"

#include <string.h>

enum { KERNELS_MAX = 64 };

static int32_t node_types(const muster_expr *node, muster_dtype types[MST_GRAPH_OPERANDS + MST_RESULTS]) {
    int32_t count = 0;
    for (int32_t i = 0; i < node->input_count && i < MST_GRAPH_OPERANDS; i++) types[count++] = node->inputs[i]->type.dtype;
    for (int32_t r = 0; r < node->op->results; r++) types[count++] = r ? node->more[r - 1].dtype : node->type.dtype;
    return count;
}

static const mst_custom_kernels *find_locked(const mst_custom *custom, const muster_dtype *types, int32_t count) {
    for (const mst_custom_kernels *at = custom->kernels; at; at = at->next)
        if (at->type_count == count && memcmp(at->types, types, (size_t)count * sizeof *types) == 0) return at;
    return NULL;
}

const mst_custom_kernels *mst_custom_kernels_find(const mst_custom *custom, const muster_expr *node) {
    muster_dtype types[MST_GRAPH_OPERANDS + MST_RESULTS];
    const int32_t count = node_types(node, types);
    pthread_mutex_lock(&mst_custom_lock);
    const mst_custom_kernels *found = find_locked(custom, types, count);
    pthread_mutex_unlock(&mst_custom_lock);
    return found;
}

/* DTYPE_INPUT_i and DTYPE_OUTPUT_i: as many as the text names, or none. */
static bool text_has(const char *text, const char *prefix, int32_t i) {
    char name[32];
    const int length = snprintf(name, sizeof name, "%s%d", prefix, (int)i);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
        if (at[length] < '0' || at[length] > '9') return true;
    return false;
}

static int32_t text_uses(const char *text, const char *prefix) {
    int32_t most = 0;
    for (int32_t i = 0; i < 64; i++)
        if (text_has(text, prefix, i)) most = i + 1;
    return most;
}

/* The dtypes in the form of muster_kernels_parse. */
static int32_t types_used(const char *text, const muster_expr *node, const muster_dtype *types, int32_t count, muster_dtype *used) {
    const int32_t results = node->op->results, operands = count - results;
    int32_t inputs = text_uses(text, "DTYPE_INPUT_"), outputs = text_uses(text, "DTYPE_OUTPUT_"), made = 0;
    for (int32_t i = 0; i < inputs && i < operands; i++) used[made++] = types[i];
    for (int32_t r = 0; r < outputs && r < results; r++) used[made++] = types[operands + r];
    return made;
}

static muster_status kernels_failed(const mst_custom *custom, const muster_expr *node, muster_status status) {
    char message[MST_MESSAGE_SIZE], place[MST_NODE_TEXT];
    mst_error_save(message);
    (void)mst_origin_text(&node->origin, place);
    return mst_error(status, "%s%smuster_expr_%s: kernels: %.400s", place, *place ? ": " : "", custom->row.name, message);
}

static muster_status kernels_parse(mst_custom *custom, const muster_expr *node, mst_custom_kernels *made) {
    muster_kernel *items[KERNELS_MAX];
    muster_dtype used[MST_GRAPH_OPERANDS + MST_RESULTS];
    const char *text = custom->options.kernels;
    const int32_t count = types_used(text, node, made->types, made->type_count, used);
    MUSTER_TRY(muster_kernels_parse(node->graph->runtime, custom->row.name, text, (int64_t)strlen(text), count ? used : NULL, count, items,
                                    KERNELS_MAX, &made->count));
    made->items = mst_alloc((size_t)(made->count + 1) * sizeof *made->items);
    if (!made->items) {
        for (int32_t i = 0; i < made->count; i++) (void)muster_kernel_destroy(items[i]);
        return mst_out_of_memory(custom->row.name, made->count);
    }
    memcpy(made->items, items, (size_t)made->count * sizeof *items);
    return MUSTER_OK;
}

static void kernels_free(mst_custom_kernels *kernels, bool closed) {
    for (int32_t i = 0; !closed && i < kernels->count; i++) (void)muster_kernel_destroy(kernels->items[i]);
    mst_free(kernels->items);
    mst_free(kernels);
}

muster_status mst_custom_kernels_make(mst_custom *custom, const muster_expr *node) {
    if (mst_custom_kernels_find(custom, node)) return MUSTER_OK;
    mst_custom_kernels *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(custom->row.name, (int64_t)sizeof *made);
    made->type_count = node_types(node, made->types);
    const muster_status status = kernels_parse(custom, node, made);
    if (status != MUSTER_OK) {
        mst_free(made);
        return kernels_failed(custom, node, status);
    }
    pthread_mutex_lock(&mst_custom_lock);
    const bool other = find_locked(custom, made->types, made->type_count) != NULL; /* another thread was faster */
    if (!other) {
        made->next = custom->kernels;
        custom->kernels = made;
    }
    pthread_mutex_unlock(&mst_custom_lock);
    if (other) kernels_free(made, false);
    return MUSTER_OK;
}

void mst_custom_kernels_free(mst_custom *custom) {
    while (custom->kernels) {
        mst_custom_kernels *next = custom->kernels->next;
        kernels_free(custom->kernels, atomic_load(&custom->closed));
        custom->kernels = next;
    }
}

muster_kernel *muster_operator_kernel(const muster_operator_node *node, const char *name) {
    static const char where[] = "muster_operator_kernel";
    if (!node || !name) {
        (void)mst_error_null(where, node ? "name" : "node", node ? "a name" : "a node");
        return NULL;
    }
    for (int32_t i = 0; node->kernels && i < node->kernels->count; i++)
        if (strcmp(muster_kernel_name(node->kernels->items[i]), name) == 0) return node->kernels->items[i];
    (void)mst_error(MUSTER_INVALID_ARGUMENT,
                    "%s: name: expected a kernel of operator \"%s\" that is compiled for this device, received \"%.60s\"", where,
                    node->custom->row.name, name);
    return NULL;
}

/* What convolution and pooling share: attributes for each axis of a window. */
#include "window_private.h"

muster_status mst_draft_window_list(mst_draft *draft, int32_t attribute, int32_t axes, bool pairs, int64_t low, int64_t missing,
                                    int64_t *entries) {
    const mst_graph_value *value = &draft->values[attribute];
    const char *name = draft->op->attributes[attribute].name;
    const int32_t most = pairs ? 2 * axes : axes;
    static const char *const counts[3][MST_WINDOW_AXES] = {{"0 or 1 entries", "0, 1 or 2 entries", "0, 1 or 3 entries"},
                                                           {"0, 1 or 2 entries", "0, 1, 2 or 4 entries", "0, 1, 3 or 6 entries"},
                                                           {"1 entry", "1 or 2 entries", "1 or 3 entries"}};
    const bool required = draft->op->attributes[attribute].required;
    if (value->count == 0 ? required : value->count > 1 && value->count != axes && value->count != most)
        return mst_draft_refuse(draft, MUSTER_INVALID_ARGUMENT, -1, "%s: expected %s, received %d", name,
                                counts[required ? 2 : pairs][axes - 1], (int)value->count);
    for (int32_t i = 0; i < most; i++) {
        entries[i] = value->count == 0 ? missing : value->list[value->count == 1 ? 0 : i % value->count];
        if (entries[i] < low || entries[i] > INT32_MAX)
            return mst_draft_refuse(draft, MUSTER_OUT_OF_RANGE, -1, "%s: expected numbers from %lld to 2^31 - 1, received %lld", name,
                                    (long long)low, (long long)entries[i]);
    }
    return MUSTER_OK;
}

muster_status mst_draft_window_keep(mst_draft *draft, int32_t attribute, int32_t count, int64_t missing, const int64_t *entries) {
    int64_t *list = mst_arena_take(&draft->graph->arena, (size_t)count * sizeof *list);
    bool all = true;
    if (!list) return mst_draft_refuse(draft, MUSTER_OUT_OF_MEMORY, -1, "out of memory");
    for (int32_t i = 0; i < count; i++) {
        list[i] = entries[i];
        all = all && entries[i] == missing;
    }
    draft->values[attribute] = (mst_graph_value){.list = list, .count = all ? 0 : count};
    return MUSTER_OK;
}

bool mst_window_keeps_extent(const mst_window *window, int32_t d) {
    return window->stride[d] == 1 && window->before[d] + window->after[d] == (window->size[d] - 1) * window->dilation[d];
}

muster_status mst_draft_window_unknown(mst_draft *draft, int32_t d) {
    char received[MST_NODE_TEXT];
    return mst_draft_refuse(draft, MUSTER_UNSUPPORTED, 0,
                            "expected a known extent in axis %d, unless stride is 1 and padding leaves it as it is, received %s",
                            (int)(FIRST + d), mst_type_text(draft->graph, &draft->inputs[0]->type, received));
}

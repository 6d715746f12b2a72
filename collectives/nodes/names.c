/* The names by which a program chooses how processes reduce. */
#include "names_private.h"

#include <string.h>

typedef struct name_row {
    const char *text, *inside, *words;
} name_row;

static const name_row name_rows[MST_NODES_NAMES] = {
#define MST_NODES_NAME(name, inside, words) [MST_NODES_##name] = {#name, inside, words},
#include "names.def"
#undef MST_NODES_NAME
};

const char *mst_nodes_name_text(int32_t number) { return number < MST_NODES_NAMES - 1 ? name_rows[number + 1].text : NULL; }
const char *mst_nodes_name_words(mst_nodes_name name) { return name_rows[name].words; }

/* A process on another host than process 0. */
static int32_t name_elsewhere(const mst_nodes *nodes) {
    int32_t process = 0;
    while (nodes->host_of[process] == nodes->host_of[0]) process++;
    return process;
}

static muster_status name_check(mst_forced asked, const mst_nodes *nodes) {
    static const char what[] = "muster_runtime_open: collective_algorithm, or the environment's MUSTER_COLLECTIVE_ALGORITHM";
    char one[MST_PROCESS_TEXT], other[MST_PROCESS_TEXT];
    if (asked.algorithm == MST_NODES_single_node && nodes->hosts > 1)
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: expected one for %d hosts, received \"single_node\", which is for one: there are %s and %s", what,
                         nodes->hosts, mst_nodes_process_text(nodes, 0, one), mst_nodes_process_text(nodes, name_elsewhere(nodes), other));
    if (asked.algorithm == MST_NODES_pure_nccl)
        return mst_error(
            MUSTER_UNSUPPORTED,
            "%s: expected one for %d processes, received \"pure_nccl\": NCCL works between the GPUs of one process only so far; "
            "\"non_cuda_aware\" serves the GPUs of several",
            what, nodes->processes);
    return MUSTER_OK;
}

mst_forced mst_nodes_name_of_one(mst_forced asked) {
    mst_forced inside;
    if (mst_transport_find(name_rows[asked.algorithm].inside, &inside) != MUSTER_OK) inside = (mst_forced){.transport = NULL};
    inside.name = asked.name;
    return inside;
}

muster_status mst_nodes_name_inside(mst_forced asked, const mst_nodes *nodes, mst_forced *inside) {
    *inside = nodes ? (mst_forced){.transport = NULL} : mst_nodes_name_of_one(asked);
    return nodes ? name_check(asked, nodes) : MUSTER_OK;
}

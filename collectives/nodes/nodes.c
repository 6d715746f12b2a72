/* What is known of the processes of a launch. */
#include "nodes_impl.h"

#include <stdio.h>

int32_t mst_nodes_process_of(const mst_nodes *nodes, int32_t rank) {
    int32_t low = 0, high = nodes->processes; /* first[low] <= rank < first[high] */
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (nodes->first[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const char *mst_nodes_process_text(const mst_nodes *nodes, int32_t process, char text[MST_PROCESS_TEXT]) {
    if (nodes->host_names)
        snprintf(text, MST_PROCESS_TEXT, "process %d (host %s)", (int)process, nodes->host_names[nodes->host_of[process]]);
    else
        snprintf(text, MST_PROCESS_TEXT, "process %d", (int)process);
    return text;
}

/* The names of names.def: what a communicator was asked to do between processes. */
#ifndef MST_NAMES_PRIVATE_H
#define MST_NAMES_PRIVATE_H

#include "core/transport_private.h"
#include "nodes_impl.h"

/* 0: no name, the library selects. */
typedef enum mst_nodes_name {
    MST_NODES_selected = 0,
#define MST_NODES_NAME(name, inside, words) MST_NODES_##name,
#include "names.def"
#undef MST_NODES_NAME
    MST_NODES_NAMES
} mst_nodes_name;

/* The text of name 1 + number; NULL behind the last one. */
const char *mst_nodes_name_text(int32_t number);
/* A few words on a name, which is not MST_NODES_selected. */
const char *mst_nodes_name_words(mst_nodes_name name);
static inline mst_nodes_name mst_nodes_name_of(const muster_communicator *communicator) {
    return communicator->forced.transport == &mst_transport_nodes ? (mst_nodes_name)communicator->forced.algorithm : MST_NODES_selected;
}

/* The entry `inside` of the transport. Errors: UNSUPPORTED, with a sentence. */
muster_status mst_nodes_name_inside(mst_forced asked, const struct mst_nodes *nodes, mst_forced *inside);
/* What takes the place of a name where all members are in one process. */
mst_forced mst_nodes_name_of_one(mst_forced asked);

#endif

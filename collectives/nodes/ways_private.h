/* The table of ways.def, and the user's file of such rows. */
#ifndef MST_WAYS_PRIVATE_H
#define MST_WAYS_PRIVATE_H

#include "nodes_impl.h"
#include "schedule_private.h"

enum { MST_WAYS_MOST = 256, MST_WAY_MPI = 48 };

typedef enum mst_way_hosts { MST_WAY_one_host, MST_WAY_several_hosts, MST_WAY_any_hosts } mst_way_hosts;
typedef enum mst_way_kind { MST_WAY_own, MST_WAY_mpi } mst_way_kind;

typedef struct mst_way {
    mst_way_kind way;
    mst_way_hosts hosts;
    mst_move_kind collective; /* all_reduce, reduce_scatter, broadcast or all_gather */
    char mpi[MST_WAY_MPI];
    int64_t least_bytes, most_bytes; /* most_bytes 0: without end */
    int64_t least_processes, most_processes;
} mst_way;

typedef struct mst_nodes_ways {
    int32_t count, of_file; /* rows; those of the file come first */
    bool fitted;            /* only the rows of this launch are left */
    bool has_file;
    bool differ; /* the MPI's all_reduces of floats were not the same bits in all processes: they go by Muster's */
    uint64_t hash;
    char path[256];
    mst_way rows[MST_WAYS_MOST];
} mst_nodes_ways;

/* Reads the file that MUSTER_NODES_TABLE names, and the library's rows. Errors: OUT_OF_MEMORY,
 * INVALID_ARGUMENT (the file cannot be read, or has a line that is no row: line and column). */
muster_status mst_ways_open(mst_nodes_ways **ways);
/* ways_file.c: the rows of a file's text. path: for messages. */
muster_status mst_ways_read(mst_nodes_ways *ways, const char *path, char *text);
/* Keeps the rows that fit the launch: its hosts are known. */
void mst_ways_fit(const mst_nodes *nodes);
/* Does the wire have what the rows of the file ask for? Errors: UNSUPPORTED. */
muster_status mst_ways_check(const mst_nodes *nodes, const char *where);
/* Is a collective of so many bytes, of the whole vector, to go by the MPI's own? The same answer in
 * all processes. */
bool mst_ways_by_mpi(const mst_nodes *nodes, mst_move_kind collective, int64_t bytes);
/* Does some row say so of an all_reduce? Then its sums of floats are tried. */
bool mst_ways_has_all_reduce(const mst_nodes *nodes);

/* nodes_data.c: all_reduces by the MPI itself, whose bits depend on the order of the processes, of
 * sizes for which an MPI may choose different algorithms. *hash: of all that this process has got;
 * the same in all, if the MPI gives all the same bits. Collective. */
muster_status mst_nodes_try_sums(mst_nodes *nodes, const char *where, uint64_t *hash);

#endif

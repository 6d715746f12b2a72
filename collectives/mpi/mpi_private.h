/* What the files of this folder share. */
#ifndef MST_MPI_PRIVATE_H
#define MST_MPI_PRIVATE_H

#include "mpi/mpi_impl.h"

enum { MPI_PATH = 4096, MPI_WHY = 200 };

/* ---- launcher.c ---- */

/* What the launcher's variables say. */
typedef struct mpi_launch {
    int32_t processes;    /* 0: they say nothing */
    const char *variable; /* the one that has told the number of processes */
    const char *family;   /* "openmpi", "mpich"; NULL: any MPI */
    int32_t process;      /* the number of this one; -1: they do not say */
} mpi_launch;
mpi_launch mpi_launch_find(void);

typedef enum mpi_asked { MPI_ASKED_NONE, MPI_ASKED_MPI } mpi_asked;
/* Reads options->nodes, else MUSTER_NODES. *path: that of "mpi:PATH", else NULL. */
muster_status mpi_asked_for(const mst_nodes_options *options, mpi_asked *asked, const char **path);
void mpi_log(const mst_nodes_options *options, muster_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A line of the log if the program was launched as several processes that nobody has asked to
 * join. */
void mpi_launch_unasked(const mst_nodes_options *options);

/* ---- find.c ---- */

typedef struct mpi_shim {
    char path[MPI_PATH];
    char why[MPI_WHY]; /* why this one */
    const muster_wire_table *table;
    int64_t identity[2]; /* device and number of the file */
} mpi_shim;
/* Chooses a shim and opens it. asked: the path of "mpi:PATH", or NULL. */
muster_status mpi_shim_find(const char *asked, mpi_shim *shim);

/* ---- mpi_exit.c: what is to do when the process exits ---- */

/* Muster has initialised MPI, and finalises it. all: a communicator of all processes for the last
 * barrier. */
muster_status mpi_exit_begin(const muster_wire_table *table, muster_wire *all);
/* A wire of more than one process is open, until it is removed. after_ns: exit_after_ns of
 * muster_runtime_options. */
muster_status mpi_exit_add(mst_wire *wire, int64_t after_ns);
void mpi_exit_remove(mst_wire *wire, mst_wire_end end);

/* ---- mpi_init.c ---- */

/* MPI_Init waits without end for processes that never come to it, such as one that has refused to
 * open its runtime: a line of the log says so after options->warn_after_ns. Begin before MPI_Init,
 * end behind it. NULL: nobody watches. */
typedef struct mpi_init_watch mpi_init_watch;
mpi_init_watch *mpi_init_begin(const mst_nodes_options *options);
void mpi_init_end(mpi_init_watch *watch);

/* ---- mpi_open.c ---- */

/* Tests until the request is done. deadline_ns: of mst_now_ns; negative: none. *done: false at the
 * deadline. Returns what the table does. */
int32_t mpi_wait(const muster_wire_table *table, muster_wire *wire, muster_wire_request *request, int64_t deadline_ns, bool *done);

#endif

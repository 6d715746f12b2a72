/* Who has launched this process, and whether it is asked to join the others. */
#include "mpi/mpi_private.h"

#include "environment_impl.h"
#include "locale_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number in decimal digits; -1: not set, or something else. */
static int32_t launcher_number(const char *variable) {
    const char *text = mst_environment_get(variable);
    char *end = NULL;
    const long value = text ? strtol(text, &end, 10) : -1;
    return text && end != text && !*end && value >= 0 && value < INT32_MAX ? (int32_t)value : -1;
}

/* The innermost launcher comes first: mpirun may itself have been started by srun. */
static const struct launcher_row {
    const char *processes, *also, *family, *number;
} launcher_rows[] = {
    {"OMPI_COMM_WORLD_SIZE", NULL, "openmpi", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", NULL, "mpich", "PMI_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, "SLURM_PROCID"},
    {"MPI_LOCALNRANKS", NULL, "mpich", "MPI_LOCALRANKID"},
};

/* Slurm's PMIx starts Open MPI; MPICH would be started by PMI. */
static const char *launcher_family(void) {
    return mst_environment_get("PMIX_RANK") ? "openmpi" : mst_environment_get("PMI_RANK") ? "mpich" : NULL;
}

mpi_launch mpi_launch_find(void) {
    for (size_t i = 0; i < sizeof launcher_rows / sizeof *launcher_rows; i++) {
        const struct launcher_row *row = &launcher_rows[i];
        const int32_t processes = launcher_number(row->processes);
        if (processes < 1 || (row->also && !mst_environment_get(row->also))) continue;
        return (mpi_launch){.processes = processes,
                            .variable = row->processes,
                            .family = row->family ? row->family : launcher_family(),
                            .process = launcher_number(row->number)};
    }
    return (mpi_launch){.family = launcher_family(), .process = -1};
}

muster_status mpi_asked_for(const mst_nodes_options *options, mpi_asked *asked, const char **path) {
    static const char expected[] = "\"none\", \"mpi\" or \"mpi:PATH\"";
    const char *nodes = options->nodes, *where = "nodes";
    *asked = MPI_ASKED_NONE;
    *path = NULL;
    if (!nodes) nodes = mst_environment_get("MUSTER_NODES"), where = "MUSTER_NODES";
    if (!nodes || !strcmp(nodes, "none")) return MUSTER_OK;
    if (!strcmp(nodes, "nccl"))
        return mst_error(MUSTER_UNSUPPORTED, "muster_runtime_open: %s: expected %s, received \"nccl\", which a later version will bring",
                         where, expected);
    if (strncmp(nodes, "mpi", 3) != 0 || (nodes[3] && (nodes[3] != ':' || !nodes[4])))
        return mst_error(MUSTER_INVALID_ARGUMENT, "muster_runtime_open: %s: expected %s, received \"%.200s\"", where, expected, nodes);
    *asked = MPI_ASKED_MPI;
    if (nodes[3]) *path = nodes + 4;
    return MUSTER_OK;
}

void mpi_log(const mst_nodes_options *options, muster_log_level level, const char *format, ...) {
    char line[MST_MESSAGE_SIZE];
    if (!options->log) return;
    va_list arguments;
    va_start(arguments, format);
    mst_vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    options->log(options->log_user, level, line);
}

void mpi_launch_unasked(const mst_nodes_options *options) {
    const mpi_launch launch = mpi_launch_find();
    if (launch.processes < 2 || options->nodes || mst_environment_get("MUSTER_NODES")) return;
    mpi_log(options, MUSTER_LOG_INFO,
            "one of %d processes (%s), each with a runtime of its own: MUSTER_NODES=mpi makes them one runtime, MUSTER_NODES=none drops "
            "this line",
            launch.processes, launch.variable);
}

/* muster/nodes.h: many processes, on one machine or on several. A launcher (mpirun, srun) starts
 * the same program several times. Each of these processes opens a runtime with its own devices, and
 * the runtimes join: the ranks of all devices count through, those of process 0 first. The program
 * stays as it is; it is asked to join by the option `nodes` of muster_runtime_options or by the
 * environment variable MUSTER_NODES=mpi.
 *
 * All processes make the same calls in the same order: opening and closing a runtime too, and the
 * k-th runtime that joins in one process belongs to the k-th ones of the others. Before a call
 * touches anything the processes agree on it: if one refuses, or makes another call, all return the
 * same error, which names process and host. A failure in one process is returned by all.
 *
 * Ranks are global: those that functions take and give, and those in messages. A call of rank 0
 * alone (muster_function_call_single) runs in process 0, as rank 0 of 1, and every process gets its
 * outputs. Names of devices are those of the process, and the default device is its first one
 * unless it is set; muster_tensor.device counts in the process as well, since a tensor on a device
 * never leaves its process: it is the rank without that of the process's first device.
 *
 * Operations on variables are calls of all processes: each passes the same values, of which a
 * process copies those of its own devices (MUSTER_CHECK=1 in the environment compares them by
 * hashes), and each gets all results, those of the devices of other processes too. Creating a
 * variable is such a call; destroying one, and asking for its name, type or shape, is not.
 * Collectives between the replicas reach those of all processes, and their roots are ranks as
 * everywhere. Graphs with one meaning go over all devices of all processes, and compiling one is
 * such a call; in the reproducible mode their bits depend neither on the number of devices nor on
 * that of processes. Parameter servers are UNSUPPORTED with several processes.
 *
 * Without a launch there is one process with number 0, which has all ranks. */
#ifndef MUSTER_NODES_H
#define MUSTER_NODES_H

#include "muster/runtime.h"
#include "muster/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of processes, and the number of this one; -1 for NULL or a closed runtime. Threads:
 * any, also inside a body. */
MUSTER_API int32_t muster_runtime_processes(const muster_runtime *runtime);
MUSTER_API int32_t muster_runtime_process(const muster_runtime *runtime);
/* The first rank of a process; the number of all ranks for process == processes; -1 for another
 * number, for NULL and for a closed runtime. Threads: any, also inside a body. */
MUSTER_API int32_t muster_runtime_first_rank(const muster_runtime *runtime, int32_t process);

/* The number of hosts on which the processes run (-1 for NULL), and the name of a process's host
 * (NULL for NULL and for another number). Owned by the runtime. Threads: any, also inside a
 * body. */
MUSTER_API int32_t muster_runtime_hosts(const muster_runtime *runtime);
MUSTER_API const char *muster_runtime_host(const muster_runtime *runtime, int32_t process);

/* The process of a worker's device: this one; -1 for NULL. Threads: worker. */
MUSTER_API int32_t muster_worker_process(const muster_worker *worker);

/* Ends all processes of the launch at once, with the exit code `code` (1 to 255) where the launcher
 * passes it on, and does not return. Nothing is written or closed. For a program that finds in one
 * process that it cannot go on, while the others wait for it. Without a launch it ends the process.
 * Errors: INVALID_ARGUMENT (NULL; a code out of range), BAD_STATE (a closed runtime, after fork).
 * Threads: any, also inside a body. */
MUSTER_API muster_status muster_runtime_abort(muster_runtime *runtime, int32_t code);

#ifdef __cplusplus
}
#endif
#endif

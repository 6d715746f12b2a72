/* How a runtime joins the other processes of its launch. With one process all of it does
 * nothing. */
#ifndef MST_RUNTIME_NODES_PRIVATE_H
#define MST_RUNTIME_NODES_PRIVATE_H

#include "device_list_private.h"
#include "runtime_impl.h"

/* Reads the options, and opens the wire: runtime->nodes stays NULL if this process is alone. The
 * first of all that opening does. */
muster_status mst_runtime_nodes_open(muster_runtime *runtime, const muster_runtime_options *options);
/* Tells the others which CPUs this process may use, and learns theirs. status: of what has been
 * done before; a failure anywhere is one of all. */
muster_status mst_runtime_nodes_exchange(muster_runtime *runtime, const muster_runtime_options *options, muster_status status);
/* Leaves of the cores those that this process shares with no other process of its host. */
void mst_runtime_nodes_divide_cores(const muster_runtime *runtime, int32_t *cores, int32_t *count);
/* The same for hardware of a list that was chosen by default. */
void mst_runtime_nodes_divide_devices(const muster_runtime *runtime, mst_device_request *requests, int32_t *count);
/* When the devices are open: learns of those of the others, after a check that the options agree.
 * status: as in meet. */
muster_status mst_runtime_nodes_join(muster_runtime *runtime, const muster_runtime_options *options, muster_status status);
/* The last step of opening: has it succeeded everywhere? Where one of them writes a trace they
 * compare their clocks. */
muster_status mst_runtime_nodes_agree(muster_runtime *runtime, muster_status status);
/* Leaves the launch, and frees all. */
void mst_runtime_nodes_close(muster_runtime *runtime);
/* The workers of all processes of this host, and the CPUs that they may use; 0: one process. */
void mst_runtime_nodes_crowd(const muster_runtime *runtime, int32_t *crowd, int32_t *cpus);
/* The number of this process in the launch. */
int32_t mst_runtime_process_number(const muster_runtime *runtime);
/* Lines of the description. Returns their length. */
size_t mst_runtime_nodes_describe(const muster_runtime *runtime, char *text, size_t size);

/* nodes_build.c. The identity of the library's file as the linker wrote it, in hexadecimal; "" if
 * it has none. */
enum { MST_BUILD_TEXT = 65 };
void mst_build_id(char text[MST_BUILD_TEXT]);
/* The type of this machine: its architecture and the name of its processor. */
enum { MST_MACHINE_TEXT = 160 };
void mst_machine_type(char text[MST_MACHINE_TEXT]);

#endif

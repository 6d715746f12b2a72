/* Kernels of one's own, for the contract tests and the machine's: text to module, and launches of
 * it. */
#ifndef MUSTER_SIM_CONTRACT_PROGRAM_H
#define MUSTER_SIM_CONTRACT_PROGRAM_H

#include "contract_support.h"

/* Compiles the text, alone; the result. log (NULL: not wanted): the compiler's, malloced. cubin
 * (NULL): freed by free. */
mst_nvrtc_result program_compile(const char *name, const char *text, const char *architecture, char **log, char **cubin);
/* For the device of the current context; fails the test, and shows the log. */
mst_cu_module program_load(const char *text);
mst_cu_function program_function(mst_cu_module module, const char *name);
mst_cu_result program_launch(mst_cu_function function, unsigned blocks, unsigned threads, unsigned shared,
                             void **parameters); /* on gpu.stream */

/* Memory of the current device with a copy of the bytes in it (NULL: none), and back again, waited
 * for. */
mst_cu_address program_memory(const void *bytes, size_t size);
void program_read(void *to, mst_cu_address from, size_t size);

#endif

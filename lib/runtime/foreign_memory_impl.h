/* Memory of other libraries on devices of a runtime. Threads: any. */
#ifndef MST_FOREIGN_MEMORY_IMPL_H
#define MST_FOREIGN_MEMORY_IMPL_H

#include "runtime_impl.h"

typedef struct mst_foreign_memory {
    const void *address;
    int64_t bytes;
    int64_t number;
    bool imported; /* by DLPack */
} mst_foreign_memory;

/* Lists the bytes of a tensor, whose device is a rank of the runtime, and writes a number into its
 * reserved[0]. Whether they are memory of that device is asked when they are used. */
muster_status mst_foreign_add(const muster_runtime *runtime, bool imported, const char *where, muster_tensor *tensor);
/* Takes the entry of the number from the list, if it is still there; all entries of a runtime. */
void mst_foreign_remove(int64_t number);
void mst_foreign_remove_all(const muster_runtime *runtime);
/* Do all bytes of the tensor, which has been checked, lie in one entry of the list? */
bool mst_foreign_find(const muster_runtime *runtime, const muster_tensor *tensor, mst_foreign_memory *found);

#endif

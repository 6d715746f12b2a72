/* Tells whether NCCL is found, with its version and its file, before a runtime is open. For
 * muster_library_get_info. */
#ifndef MST_NCCL_IMPL_H
#define MST_NCCL_IMPL_H

#include "library_facts_impl.h"

/* As the functions of library_facts_impl.h. */
void mst_nccl_get_facts(mst_library_facts *facts);

#endif

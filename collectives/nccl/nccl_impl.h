/* Whether NCCL is found, its version and its file, without a runtime. For
 * muster_library_get_info. */
#ifndef MST_NCCL_IMPL_H
#define MST_NCCL_IMPL_H

#include "library_facts_impl.h"

/* As the functions of library_facts_impl.h. */
void mst_nccl_get_facts(mst_library_facts *facts);

#endif

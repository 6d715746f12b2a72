/* What the runtime needs of this module. */
#ifndef MST_NN_IMPL_H
#define MST_NN_IMPL_H

#include "code_impl.h"

/* The kernel sources of all layers. */
extern const mst_code_sources mst_nn_code;

#endif

/* What a runtime says of oneDNN (onednn_private.h). */
#ifndef MST_ONEDNN_IMPL_H
#define MST_ONEDNN_IMPL_H

#include "library_facts_impl.h"

/* The version in use; why there is none; or that no convolution has asked for it yet. The text
 * stays as it is until the process ends, and is another one once the library has been looked for.
 * Any thread. */
const char *mst_onednn_description(void);

/* As the functions of library_facts_impl.h. */
void mst_onednn_get_facts(mst_library_facts *facts);

#endif

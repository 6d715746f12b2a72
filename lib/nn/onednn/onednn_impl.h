/* What a runtime says of oneDNN (onednn_private.h). */
#ifndef MST_ONEDNN_IMPL_H
#define MST_ONEDNN_IMPL_H

/* The version in use; why there is none; or that no convolution has asked for it yet. The text
 * stays as it is until the process ends, and is another one once the library has been looked for.
 * Any thread. */
const char *mst_onednn_description(void);

#endif

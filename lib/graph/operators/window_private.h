/* What convolution and pooling share: attributes for each axis of a window. */
#ifndef MST_OPERATORS_WINDOW_PRIVATE_H
#define MST_OPERATORS_WINDOW_PRIVATE_H

#include "graph_private.h"
#include "window/window_impl.h"

enum { CHANNELS = 1, FIRST = 2 }; /* axes of x: images, channels, extents */

/* The entries of an attribute for `axes` axes, or with `pairs` for all of them and then once more.
 * One entry is for all, none is `missing` for all. Refuses entries below `low`. */
muster_status mst_draft_window_list(mst_draft *draft, int32_t attribute, int32_t axes, bool pairs, int64_t low, int64_t missing,
                                    int64_t *entries);
/* The entries stay as the attribute, so that equal operations are one node; none where all are
 * `missing`. */
muster_status mst_draft_window_keep(mst_draft *draft, int32_t attribute, int32_t count, int64_t missing, const int64_t *entries);
/* Does the window stand once at each element, whatever their number? */
bool mst_window_keeps_extent(const mst_window *window, int32_t d);
/* Refuses an extent that only a call knows. */
muster_status mst_draft_window_unknown(mst_draft *draft, int32_t d);

#endif

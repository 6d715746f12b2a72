/* all_reduce with the elements dealt out in turn: rank r combines the tiles r, r + size, ... for
 * everybody, so that all ranks walk through memory side by side. What it does not serve goes by the
 * other algorithms. */
#include "combine_private.h"

/* snippet: algorithm */
enum { TILE_BYTES = 4096 };

static void all_reduce(const mst_view *view) {
    const int64_t tile = TILE_BYTES / mst_view_element(view), count = mst_view_own(view)->output_count;
    for (int64_t begin = view->rank * tile; begin < count; begin += view->size * tile)
        mst_combine(view, begin, count - begin < tile ? count : begin + tile, 0, 0, view->size);
}

const mst_algorithm mst_algorithm_cyclic = {.name = "cyclic", .offer = MST_OFFER_TENSORS, .run = {[MST_ALL_REDUCE] = all_reduce}};
/* end of snippet */

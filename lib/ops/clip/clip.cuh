/* A value limited to [low, high]; NaN stays. */
#ifndef MST_CLIP_CUH
#define MST_CLIP_CUH

template <typename C> static inline C mst_clip_value(C v, C low, C high) { return v < low ? low : v > high ? high : v; }

#endif

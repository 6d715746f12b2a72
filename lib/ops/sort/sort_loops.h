/* The order of rows for one dtype; see each_float_loops.h. */
#if IS_FLOAT
#define IS_NAN(value) ((value) != (value))
#else
#define IS_NAN(value) false
#endif

typedef struct MST_JOIN(item_, SUFFIX) {
    C value;
    int64_t index;
} MST_JOIN(item_, SUFFIX);
#define ITEM MST_JOIN(item_, SUFFIX)

/* Does a come before b, whatever their indices? */
static MST_ALWAYS_INLINE bool MST_JOIN(before_, SUFFIX)(const ITEM *a, const ITEM *b, bool descending) {
    if (descending) return a->value > b->value || (IS_NAN(a->value) && !IS_NAN(b->value));
    return a->value < b->value || (IS_NAN(b->value) && !IS_NAN(a->value));
}

static MST_ALWAYS_INLINE void MST_JOIN(insert_, SUFFIX)(ITEM *items, int64_t at, bool descending) {
    const ITEM item = items[at];
    for (; at > 0 && MST_JOIN(before_, SUFFIX)(&item, &items[at - 1], descending); at--) items[at] = items[at - 1];
    items[at] = item;
}

/* Merges the runs [begin, middle) and [middle, end); of equal items those of the first run come
 * first. */
static MST_ALWAYS_INLINE void MST_JOIN(merge_, SUFFIX)(const ITEM *from, ITEM *to, int64_t begin, int64_t middle, int64_t end,
                                                       bool descending) {
    int64_t a = begin, b = middle;
    for (int64_t i = begin; i < end; i++) {
        const bool second = a == middle || (b < end && MST_JOIN(before_, SUFFIX)(&from[b], &from[a], descending));
        to[i] = from[second ? b++ : a++];
    }
}

/* Sorts n items; `other` has room for as many. Returns the one of both that holds the result. */
static MST_ALWAYS_INLINE ITEM *MST_JOIN(sort_items_, SUFFIX)(ITEM *items, ITEM *other, int64_t n, bool descending) {
    for (int64_t begin = 0; begin < n; begin += MST_SORT_RUN)
        for (int64_t i = 1; i < MST_SORT_RUN && begin + i < n; i++) MST_JOIN(insert_, SUFFIX)(items + begin, i, descending);
    for (int64_t width = MST_SORT_RUN; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            const int64_t middle = n - begin < width ? n : begin + width, end = n - middle < width ? n : middle + width;
            MST_JOIN(merge_, SUFFIX)(items, other, begin, middle, end, descending);
        }
        ITEM *sorted = other;
        other = items;
        items = sorted;
    }
    return items;
}

/* The first `wanted` items of a row, by insertion into the best ones so far. */
static MST_ALWAYS_INLINE void MST_JOIN(select_, SUFFIX)(const mst_sort_parameters *p, const char *x, ITEM *items) {
    int64_t held = 0;
    for (int64_t j = 0; j < p->rows.length; j++) {
        const ITEM item = {(C)LOAD(*(const T *)(const void *)(x + j * p->rows.stride[0])), j};
        if (held == p->wanted && !MST_JOIN(before_, SUFFIX)(&item, &items[held - 1], true)) continue;
        if (held < p->wanted) held++;
        items[held - 1] = item;
        MST_JOIN(insert_, SUFFIX)(items, held - 1, true);
    }
}

static void MST_JOIN(rows_, SUFFIX)(void *context, char *const *at, const int64_t *stride, int64_t n) {
    const mst_sort_parameters *p = context;
    for (int64_t i = 0; i < n; i++) {
        const char *x = at[0] + i * stride[0];
        ITEM *items = p->rows.work, *other = items + p->rows.length, *sorted = items;
        if (p->rows.op && p->wanted <= FEW) {
            MST_JOIN(select_, SUFFIX)(p, x, items);
        } else {
            for (int64_t j = 0; j < p->rows.length; j++)
                items[j] = (ITEM){(C)LOAD(*(const T *)(const void *)(x + j * p->rows.stride[0])), j};
            sorted = p->rows.op ? MST_JOIN(sort_items_, SUFFIX)(items, other, p->rows.length, true)
                                : MST_JOIN(sort_items_, SUFFIX)(items, other, p->rows.length, false);
        }
        for (int64_t j = 0; j < p->wanted; j++) {
            if (p->rows.rows.base[1])
                memcpy(at[1] + i * stride[1] + j * p->rows.stride[1], x + sorted[j].index * p->rows.stride[0], sizeof(T));
            if (p->rows.rows.base[2]) *(int64_t *)(void *)(at[2] + i * stride[2] + j * p->rows.stride[2]) = sorted[j].index;
        }
    }
}
#undef ITEM
#undef IS_NAN

/* oneDNN, opened at run time: version 2 (libdnnl.so.2 of Debian 12) or 3. What is declared here has
 * the same values in both. Only builds with OpenMP are used: of these Muster knows how to have one
 * thread, and to leave the program's own setting as it is. */
#ifndef MST_ONEDNN_PRIVATE_H
#define MST_ONEDNN_PRIVATE_H

#include "onednn/onednn_impl.h"
#include "worker_impl.h"

enum { MST_ONEDNN_F32 = 3, MST_ONEDNN_ANY = 1, MST_ONEDNN_TRAINING = 64, MST_ONEDNN_DIRECT = 1, MST_ONEDNN_DIMS = 12 };
enum { MST_ONEDNN_CPU = 1, MST_ONEDNN_IN_ORDER = 1, MST_ONEDNN_SCRATCH_OF_USER = 1 };
/* What a function returns where an allocation failed. */
enum { MST_ONEDNN_OUT_OF_MEMORY = 1 };
/* Arguments of primitives, and which descriptions can be asked for. */
enum {
    MST_ONEDNN_SRC = 1,
    MST_ONEDNN_DST = 17,
    MST_ONEDNN_WEIGHTS = 33,
    MST_ONEDNN_BIAS = 41,
    MST_ONEDNN_SCRATCHPAD = 80,
    MST_ONEDNN_DIFF_SRC = 129,
    MST_ONEDNN_DIFF_DST = 145,
    MST_ONEDNN_DIFF_WEIGHTS = 161,
    MST_ONEDNN_FROM = 1,
    MST_ONEDNN_TO = 17
};
enum {
    MST_ONEDNN_QUERY_IMPLEMENTATION = 8,
    MST_ONEDNN_QUERY_SRC = 129,
    MST_ONEDNN_QUERY_DIFF_SRC,
    MST_ONEDNN_QUERY_WEIGHTS,
    MST_ONEDNN_QUERY_DIFF_WEIGHTS,
    MST_ONEDNN_QUERY_DST,
    MST_ONEDNN_QUERY_DIFF_DST,
    MST_ONEDNN_QUERY_SCRATCHPAD = 136
};

typedef struct mst_onednn_argument {
    int argument;
    void *memory;
} mst_onednn_argument;

/* Handles are the library's pointers. Functions return 0 if all went well. */
typedef struct mst_onednn {
    int (*engine_create)(void **engine, int kind, size_t index);
    int (*stream_create)(void **stream, void *engine, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*attr_create)(void **attr);
    int (*attr_set_scratchpad_mode)(void *attr, int mode);
    int (*attr_destroy)(void *attr);
    int (*primitive_desc_destroy)(void *desc);
    const void *(*primitive_desc_query_md)(const void *desc, int what, int index);
    int (*primitive_desc_query)(const void *desc, int what, int index, void *result);
    int (*primitive_create)(void **primitive, const void *desc);
    int (*primitive_execute)(const void *primitive, void *stream, int count, const mst_onednn_argument *arguments);
    int (*primitive_destroy)(void *primitive);
    int (*memory_create)(void **memory, const void *md, void *engine, void *address);
    int (*memory_set_data_handle)(void *memory, void *address);
    int (*memory_destroy)(void *memory);
    int (*reorder_desc_create)(void **desc, const void *from, void *engine, const void *to, void *to_engine, const void *attr);
    size_t (*md_get_size)(const void *md);
    int (*md_equal)(const void *a, const void *b);
    const int *(*get_version)(void); /* the first numbers of the library's structure: major, minor, patch */
    void *engine;
    int32_t version; /* 2 or 3 */
} mst_onednn;

/* The library, opened by the first call of the process; NULL: there is none that can be used. Any
 * thread. It stays open until the process ends, since its threads could still run in it.
 * MUSTER_ONEDNN names another one, or is "none". */
const mst_onednn *mst_onednn_get(void);

/* Descriptions of memory: `strides` NULL: the library chooses. destroy ends one that create has
 * made, and takes NULL. Not 0: there is no such description, or no memory, and *md is NULL. */
int mst_onednn_md_create(void **md, int32_t ndim, const int64_t *dims, const int64_t *strides);
void mst_onednn_md_destroy(void *md);

/* A convolution: operands by kind (forward: src, weights, dst; data: diff_src, weights, diff_dst;
 * weights: src, diff_weights, diff_dst); lists have an entry for each axis of the window. bias may
 * be NULL. `forward`: a description of the forward convolution, which the others need. Not 0: the
 * library does not compute it, or there is no memory, and *desc is NULL. */
typedef struct mst_onednn_window {
    int64_t stride[MST_ONEDNN_DIMS], dilation[MST_ONEDNN_DIMS], before[MST_ONEDNN_DIMS], after[MST_ONEDNN_DIMS];
} mst_onednn_window;
typedef enum mst_onednn_kind { MST_ONEDNN_FORWARD, MST_ONEDNN_DATA, MST_ONEDNN_WEIGHTS_GRADIENT } mst_onednn_kind;
int mst_onednn_convolution_desc(void **desc, int32_t kind, const void *x, const void *w, const void *bias, const void *y,
                                const mst_onednn_window *window, const void *forward);

/* For the calling thread: one thread from now on; returns what mst_onednn_threads_restore takes. */
int mst_onednn_threads_one(void);
void mst_onednn_threads_restore(int before);

#endif

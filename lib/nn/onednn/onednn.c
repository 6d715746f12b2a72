/* oneDNN, opened at run time, and what differs between its versions 2 and 3. */
#include "onednn/onednn_private.h"

#include "foreign_impl.h"
#include "own_thread_impl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Debian 13 gives version 3 a name of its own. */
static const char *const sonames[] = {"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2"};

#define SYMBOLS(X)                                                         \
    X(engine_create, "dnnl_engine_create")                                 \
    X(stream_create, "dnnl_stream_create")                                 \
    X(stream_destroy, "dnnl_stream_destroy")                               \
    X(attr_create, "dnnl_primitive_attr_create")                           \
    X(attr_set_scratchpad_mode, "dnnl_primitive_attr_set_scratchpad_mode") \
    X(attr_destroy, "dnnl_primitive_attr_destroy")                         \
    X(primitive_desc_destroy, "dnnl_primitive_desc_destroy")               \
    X(primitive_desc_query_md, "dnnl_primitive_desc_query_md")             \
    X(primitive_desc_query, "dnnl_primitive_desc_query")                   \
    X(primitive_create, "dnnl_primitive_create")                           \
    X(primitive_execute, "dnnl_primitive_execute")                         \
    X(primitive_destroy, "dnnl_primitive_destroy")                         \
    X(memory_create, "dnnl_memory_create")                                 \
    X(memory_set_data_handle, "dnnl_memory_set_data_handle")               \
    X(memory_destroy, "dnnl_memory_destroy")                               \
    X(reorder_desc_create, "dnnl_reorder_primitive_desc_create")           \
    X(md_get_size, "dnnl_memory_desc_get_size")                            \
    X(md_equal, "dnnl_memory_desc_equal")                                  \
    X(get_version, "dnnl_version")

/* The functions of one version only. Version 2 fills structures of the caller, whose sizes are 696
 * and 5,976 bytes in 2.6. */
enum { MD_BYTES = 4096, CONVOLUTION_BYTES = 65536 };
typedef struct version_functions {
    int (*md_init_strides)(void *md, int ndim, const int64_t *dims, int dtype, const int64_t *strides);
    int (*md_init_tag)(void *md, int ndim, const int64_t *dims, int dtype, int tag);
    int (*md_create_strides)(void **md, int ndim, const int64_t *dims, int dtype, const int64_t *strides);
    int (*md_create_tag)(void **md, int ndim, const int64_t *dims, int dtype, int tag);
    int (*md_destroy)(void *md);
    int (*init_forward)(void *convolution, int prop, int algorithm, const void *x, const void *w, const void *bias, const void *y,
                        const int64_t *stride, const int64_t *dilation, const int64_t *before, const int64_t *after);
    int (*init_data)(void *convolution, int algorithm, const void *x, const void *w, const void *y, const int64_t *stride,
                     const int64_t *dilation, const int64_t *before, const int64_t *after);
    int (*init_weights)(void *convolution, int algorithm, const void *x, const void *w, const void *bias, const void *y,
                        const int64_t *stride, const int64_t *dilation, const int64_t *before, const int64_t *after);
    int (*desc_create)(void **desc, const void *convolution, const void *attr, void *engine, const void *forward);
    int (*create_forward)(void **desc, void *engine, int prop, int algorithm, const void *x, const void *w, const void *bias, const void *y,
                          const int64_t *stride, const int64_t *dilation, const int64_t *before, const int64_t *after, const void *attr);
    int (*create_data)(void **desc, void *engine, int algorithm, const void *x, const void *w, const void *y, const int64_t *stride,
                       const int64_t *dilation, const int64_t *before, const int64_t *after, const void *forward, const void *attr);
    int (*create_weights)(void **desc, void *engine, int algorithm, const void *x, const void *w, const void *bias, const void *y,
                          const int64_t *stride, const int64_t *dilation, const int64_t *before, const int64_t *after, const void *forward,
                          const void *attr);
} version_functions;

#define SYMBOLS_2(X)                                                       \
    X(md_init_strides, "dnnl_memory_desc_init_by_strides")                 \
    X(md_init_tag, "dnnl_memory_desc_init_by_tag")                         \
    X(init_forward, "dnnl_dilated_convolution_forward_desc_init")          \
    X(init_data, "dnnl_dilated_convolution_backward_data_desc_init")       \
    X(init_weights, "dnnl_dilated_convolution_backward_weights_desc_init") \
    X(desc_create, "dnnl_primitive_desc_create")
#define SYMBOLS_3(X)                                                       \
    X(md_create_strides, "dnnl_memory_desc_create_with_strides")           \
    X(md_create_tag, "dnnl_memory_desc_create_with_tag")                   \
    X(md_destroy, "dnnl_memory_desc_destroy")                              \
    X(create_forward, "dnnl_convolution_forward_primitive_desc_create")    \
    X(create_data, "dnnl_convolution_backward_data_primitive_desc_create") \
    X(create_weights, "dnnl_convolution_backward_weights_primitive_desc_create")

/* All that is loaded. Either version has its own functions; omp_... are those of the OpenMP that it
 * needs, which a search by its handle finds, too. */
typedef struct library_functions {
    mst_onednn onednn;
    version_functions of_version;
    int (*get_threads)(void);
    void (*set_threads)(int count);
} library_functions;
static library_functions loaded;
static const version_functions *const functions = &loaded.of_version;
static bool usable;
static char found[MST_MESSAGE_SIZE];
static _Atomic(const char *) description = "not looked for yet, no convolution has run";

#define NEEDED(member, symbol) {symbol, offsetof(library_functions, onednn.member), false},
#define OF_VERSION(member, symbol) {symbol, offsetof(library_functions, of_version.member), true},
static const mst_foreign_symbol symbols[] = {
    SYMBOLS(NEEDED) SYMBOLS_2(OF_VERSION) SYMBOLS_3(OF_VERSION){"omp_get_max_threads", offsetof(library_functions, get_threads), false},
    {"omp_set_num_threads", offsetof(library_functions, set_threads), false}};
static const mst_foreign_library library = {"oneDNN", sonames, (int32_t)(sizeof sonames / sizeof *sonames), symbols,
                                            (int32_t)(sizeof symbols / sizeof *symbols)};

/* 0: it lacks functions of both. */
static int32_t version_of(void) {
#define IS_THERE(member, symbol) &&functions->member
    if (true SYMBOLS_3(IS_THERE)) return 3;
    return true SYMBOLS_2(IS_THERE) ? 2 : 0;
}

static muster_status engine_open(void *unused) {
    (void)unused;
    usable = loaded.onednn.engine_create(&loaded.onednn.engine, MST_ONEDNN_CPU, 0) == 0;
    return MUSTER_OK;
}

/* A library may ask for more stack than the program's thread has. */
static void open_once(void) {
    const char *asked = getenv("MUSTER_ONEDNN"), *path = asked && *asked ? asked : NULL;
    if (path && strcmp(path, "none") == 0) {
        snprintf(found, sizeof found, "not used, MUSTER_ONEDNN is \"none\"");
        return;
    }
    if (mst_foreign_open_apart(&library, path, &loaded) != MUSTER_OK) {
        char reason[MST_MESSAGE_SIZE];
        mst_error_save(reason);
        snprintf(found, sizeof found, "none: %s%.60s%s%.300s", path ? "MUSTER_ONEDNN: expected a library, received \"" : "",
                 path ? path : "", path ? "\": " : "", reason);
        return;
    }
    if ((loaded.onednn.version = version_of())) (void)mst_own_thread_run(engine_open, NULL, "muster_function_call: oneDNN");
    const int *numbers = loaded.onednn.get_version();
    snprintf(found, sizeof found, "%s%d.%d.%d", usable ? "" : "none: expected a version 2 or 3 with an engine for CPUs, found ", numbers[0],
             numbers[1], numbers[2]);
}

static void open_and_describe(void) {
    open_once();
    atomic_store(&description, found);
}

const char *mst_onednn_description(void) { return atomic_load(&description); }

const mst_onednn *mst_onednn_get(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_and_describe);
    return usable ? &loaded.onednn : NULL;
}

void mst_onednn_get_facts(mst_library_facts *facts) {
    if (!mst_onednn_get()) {
        memcpy(facts->text, found, sizeof found);
        return;
    }
    snprintf(facts->version, sizeof facts->version, "%.60s", found);
    mst_library_found(facts, &loaded.onednn.get_version);
}

int mst_onednn_md_create(void **md, int32_t ndim, const int64_t *dims, const int64_t *strides) {
    *md = NULL;
    if (loaded.onednn.version == 3)
        return strides ? functions->md_create_strides(md, ndim, dims, MST_ONEDNN_F32, strides)
                       : functions->md_create_tag(md, ndim, dims, MST_ONEDNN_F32, MST_ONEDNN_ANY);
    if (!(*md = mst_alloc(MD_BYTES))) return MST_ONEDNN_OUT_OF_MEMORY;
    const int failed = strides ? functions->md_init_strides(*md, ndim, dims, MST_ONEDNN_F32, strides)
                               : functions->md_init_tag(*md, ndim, dims, MST_ONEDNN_F32, MST_ONEDNN_ANY);
    if (!failed) return 0;
    mst_free(*md);
    *md = NULL;
    return failed;
}

void mst_onednn_md_destroy(void *md) {
    if (md && loaded.onednn.version == 3)
        (void)functions->md_destroy(md);
    else
        mst_free(md);
}

static int desc_2(void **made, int32_t kind, const void *x, const void *w, const void *bias, const void *y, const mst_onednn_window *m,
                  const void *forward, const void *attr) {
    void *convolution = mst_alloc(CONVOLUTION_BYTES);
    if (!convolution) return MST_ONEDNN_OUT_OF_MEMORY;
    int failed;
    if (kind == MST_ONEDNN_FORWARD)
        failed = functions->init_forward(convolution, MST_ONEDNN_TRAINING, MST_ONEDNN_DIRECT, x, w, bias, y, m->stride, m->dilation,
                                         m->before, m->after);
    else if (kind == MST_ONEDNN_DATA)
        failed = functions->init_data(convolution, MST_ONEDNN_DIRECT, x, w, y, m->stride, m->dilation, m->before, m->after);
    else
        failed = functions->init_weights(convolution, MST_ONEDNN_DIRECT, x, w, bias, y, m->stride, m->dilation, m->before, m->after);
    if (!failed) failed = functions->desc_create(made, convolution, attr, loaded.onednn.engine, forward);
    mst_free(convolution);
    return failed;
}

static int desc_3(void **made, int32_t kind, const void *x, const void *w, const void *bias, const void *y, const mst_onednn_window *m,
                  const void *forward, const void *attr) {
    if (kind == MST_ONEDNN_FORWARD)
        return functions->create_forward(made, loaded.onednn.engine, MST_ONEDNN_TRAINING, MST_ONEDNN_DIRECT, x, w, bias, y, m->stride,
                                         m->dilation, m->before, m->after, attr);
    if (kind == MST_ONEDNN_DATA)
        return functions->create_data(made, loaded.onednn.engine, MST_ONEDNN_DIRECT, x, w, y, m->stride, m->dilation, m->before, m->after,
                                      forward, attr);
    return functions->create_weights(made, loaded.onednn.engine, MST_ONEDNN_DIRECT, x, w, bias, y, m->stride, m->dilation, m->before,
                                     m->after, forward, attr);
}

int mst_onednn_convolution_desc(void **desc, int32_t kind, const void *x, const void *w, const void *bias, const void *y,
                                const mst_onednn_window *window, const void *forward) {
    void *attr = NULL;
    *desc = NULL;
    int failed = loaded.onednn.attr_create(&attr);
    if (failed) return failed;
    failed = loaded.onednn.attr_set_scratchpad_mode(attr, MST_ONEDNN_SCRATCH_OF_USER);
    if (!failed) failed = (loaded.onednn.version == 3 ? desc_3 : desc_2)(desc, kind, x, w, bias, y, window, forward, attr);
    (void)loaded.onednn.attr_destroy(attr);
    return failed;
}

int mst_onednn_threads_one(void) {
    const int before = loaded.get_threads();
    if (before != 1) loaded.set_threads(1);
    return before;
}

void mst_onednn_threads_restore(int before) {
    if (before != 1) loaded.set_threads(before);
}

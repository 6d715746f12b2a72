/* Device code: the kernel sources that the modules contribute, their compilers, and the cache of
 * compiled code. This code knows no particular device: a compiler is a table of two functions. */
#ifndef MST_CODE_IMPL_H
#define MST_CODE_IMPL_H

#include "device_impl.h"

/* One source file with the name under which others include it. cmake/embed.cmake generates these
 * structs and finds the kernels: MST_KERNEL(name, ...). */
typedef struct mst_code_source {
    const char *name, *text;
} mst_code_source;

/* When a device compiles a family of kernels. A family that is in the cache is loaded when the
 * device opens, whatever its time. */
typedef enum {
    MST_CODE_AT_OPEN,      /* when it opens: what the library itself launches in calls */
    MST_CODE_OF_SEVERAL,   /* when it opens, unless it is the only device of its runtime: what collectives launch */
    MST_CODE_AT_FIRST_USE, /* at the first launch of one of the family's kernels: operations */
} mst_code_time;

/* A kernel source with the kernels that it defines. Each family is compiled as a program of its
 * own. */
typedef struct mst_code_family {
    mst_code_source source;
    const char *const *kernels;
    int32_t kernel_count;
    mst_code_time time;
} mst_code_family;

/* What a module contributes: its families, and the headers that any kernel source may include. */
typedef struct mst_code_sources {
    const char *module;
    const mst_code_source *headers;
    int32_t header_count;
    const mst_code_family *families;
    int32_t family_count;
} mst_code_sources;

/* The header that every kernel source includes. Always registered. */
extern const mst_code_sources mst_device_code;

/* Adds the sources of a module to the built-in kernels. Call it before devices open. Adding the
 * same sources again does nothing. They are kept by reference, not copied. Threads: any. */
muster_status mst_code_add(const mst_code_sources *sources);

/* The families of built-in kernels, by place; NULL beyond the last. The place of a family or a
 * kernel is fixed once it has been added. */
int32_t mst_code_family_count(void);
const mst_code_family *mst_code_family_at(int32_t place);

/* The kernels of all families, in the order of the families. */
int32_t mst_code_kernel_count(void);
const char *mst_code_kernel_name(int32_t place);
/* The place of the kernel's family, and in *first the place of the family's first kernel. -1: there
 * is no such kernel. */
int32_t mst_code_kernel_family(int32_t place, int32_t *first);
/* The place of the kernel with that name; -1: no source has such a kernel. */
int32_t mst_code_kernel_find(const char *name);
/* The place of `kernel`, which the first call remembers in `index`. */
static inline int32_t mst_code_kernel_place(mst_code_kernel *kernel) {
    int32_t index = atomic_load_explicit(&kernel->index, memory_order_relaxed);
    if (__builtin_expect(index == 0, 0)) {
        index = mst_code_kernel_find(kernel->name) + 1;
        atomic_store_explicit(&kernel->index, index, memory_order_relaxed);
    }
    return index - 1;
}

/* All headers that kernel sources may include, as one list, and their digest. */
typedef struct mst_code_headers {
    mst_code_source *list;
    int32_t count;
    uint8_t digest[32];
} mst_code_headers;
/* Errors: OUT_OF_MEMORY. */
muster_status mst_code_headers_make(mst_code_headers *headers);
void mst_code_headers_free(mst_code_headers *headers);

/* A program: its main source, and the sources that it may include. The name and the text of a
 * family are those of its kernel source. */
typedef struct mst_code_program {
    const char *name, *text;
    const mst_code_source *sources;
    int32_t count;
    const uint8_t *digest; /* the SHA-256 of the sources, where it is known; NULL: they are hashed */
} mst_code_program;

/* Compiled code for the device's loader: `bytes` bytes, followed by one 0. log: the compiler's
 * output, or NULL if there was none. The log is also set after a failure; the message then holds
 * only its beginning. found: the image came from the cache. */
typedef struct mst_code_image {
    void *data;
    int64_t bytes;
    char *log;
    bool found;
} mst_code_image;
void mst_code_release(mst_code_image *image); /* mst_free of data and log */

/* The largest parameters of a built-in kernel, in bytes. */
enum { MST_CODE_PARAMETERS_MAX = 2048 };

enum { MST_CODE_VERSION_SIZE = 128, MST_CODE_OPTIONS = 16 };

typedef struct mst_code_target mst_code_target;
typedef struct mst_code_compiler {
    const char *name;
    /* Describes everything about the compiler that changes its output for a given source. Part of
     * the cache's key. */
    muster_status (*version)(const mst_code_target *target, char text[MST_CODE_VERSION_SIZE]);
    /* data is allocated with mst_alloc*, and so is log if it is not NULL. On failure data is NULL,
     * and the message begins with the first lines of the log. Threads: any, also at the same
     * time. */
    muster_status (*compile)(const mst_code_target *target, const mst_code_program *program, mst_code_image *image);
} mst_code_compiler;

struct mst_code_target {
    const mst_code_compiler *compiler;
    void *user;           /* for the compiler */
    int32_t architecture; /* of the device, in the compiler's own numbers; 0 for compilers that need none */
    /* options passed to the compiler after its own ones, up to the first NULL */
    const char *options[MST_CODE_OPTIONS];
    /* Called before families of kernels are compiled, with a sentence that says how long that
     * takes. NULL: nobody wants to know. */
    void (*announce)(void *user, const char *sentence);
    void *announce_user;
};

/* Loads the image from the cache, or compiles it and stores it there. Threads: any; if several ask
 * for the same image at the same time, one of them compiles it. A cache that cannot be used is not
 * an error: see mst_code_take_notice. Release the image, also after a failure. */
muster_status mst_code_build(const mst_code_target *target, const mst_code_program *program, mst_code_image *image);

/* The same for the family at that place. */
muster_status mst_code_build_family(const mst_code_target *target, int32_t family, mst_code_image *image);
/* For a device that opens: fills images[family], of all families. Those in the cache are loaded.
 * Those of the others that the device needs now (see mst_code_time; several: the runtime has other
 * devices) are compiled, at the same time on as many threads as there are idle CPUs. The rest gets
 * no data, and mst_code_build_family builds it at its first use. On failure all images are
 * empty. */
muster_status mst_code_build_families(const mst_code_target *target, bool several, mst_code_image *images);

/* Between hold and let_go, images of families that have been compiled are also kept in memory, so
 * that a process without a cache compiles none twice. A device calls hold before it builds, and
 * let_go when it closes. The last let_go frees the images. Threads: any. */
void mst_code_hold(void);
void mst_code_let_go(void);

/* Gets the reason why there is no cache, once per reason: returns true and a sentence for the log
 * if there is a new reason. */
bool mst_code_take_notice(char text[MST_MESSAGE_SIZE]);

/* The cache (code_cache.c), for code.c and its test. The key is the SHA-256 of everything that the
 * image depends on. Cached code runs with the user's rights on the user's data, so it must not be
 * possible to construct a collision; FNV and similar hashes do not promise that. */
enum { MST_CODE_KEY = 32 };
typedef struct mst_code_key {
    uint8_t bytes[MST_CODE_KEY];
} mst_code_key;
/* false: there is no such file, or it is damaged. */
bool mst_code_cache_load(const mst_code_key *key, mst_code_image *image);
/* Atomic: a concurrent load sees the complete file or none. */
void mst_code_cache_store(const mst_code_key *key, const mst_code_image *image);
/* The path of the user's folder for compiled code; false unless it is there, belongs to the user,
 * and nobody else may write to it. For other code that is compiled on this machine. */
bool mst_code_cache_folder(char *path, size_t capacity);

/* SHA-256 (FIPS 180-4) of data that is added in parts. */
typedef struct mst_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} mst_sha256;
void mst_sha256_begin(mst_sha256 *hash);
void mst_sha256_add(mst_sha256 *hash, const void *data, int64_t bytes);
void mst_sha256_end(mst_sha256 *hash, uint8_t digest[32]);

#endif

/* Device code: the kernel texts that the rooms bring, what compiles them, and the cache of what was
 * compiled. It knows of no particular device: a compiler is a table of two functions. */
#ifndef MST_CODE_IMPL_H
#define MST_CODE_IMPL_H

#include "device_impl.h"

/* A text by the name under which others include it. cmake/embed.cmake makes them, and finds the
 * kernels: MST_KERNEL(name, ...). */
typedef struct mst_code_text {
    const char *name, *text;
} mst_code_text;
typedef struct mst_code_texts {
    const char *room;
    const mst_code_text *texts;
    int32_t count;
    const char *const *kernels;
    int32_t kernel_count;
} mst_code_texts;

/* What every kernel text includes; always there. */
extern const mst_code_texts mst_device_code;

/* The texts of a room become part of the one program of built-in kernels: before devices open. The
 * same twice is ignored. texts: kept, not copied. Threads: any. */
muster_status mst_code_add(const mst_code_texts *texts);

/* The kernels of that program: all of them are looked up when a device opens. A kernel's place is
 * fixed once it has been added. */
int32_t mst_code_kernel_count(void);
const char *mst_code_kernel_name(int32_t place);
/* The place of `kernel`, remembered in it; -1: no text has a kernel of that name. */
int32_t mst_code_kernel_find(const char *name);
static inline int32_t mst_code_kernel_place(mst_code_kernel *kernel) {
    int32_t index = atomic_load_explicit(&kernel->index, memory_order_relaxed);
    if (__builtin_expect(index == 0, 0)) {
        index = mst_code_kernel_find(kernel->name) + 1;
        atomic_store_explicit(&kernel->index, index, memory_order_relaxed);
    }
    return index - 1;
}

/* A program: a text, and those that it may include. */
typedef struct mst_code_program {
    const char *name, *text;
    const mst_code_text *texts;
    int32_t count;
} mst_code_program;

/* What was compiled, for the loader of the device: `bytes` of it, and one 0 behind them. log: what
 * the compiler said, NULL where it said nothing; also after a failure, where the message holds only
 * its beginning. found: it came from the cache. */
typedef struct mst_code_image {
    void *data;
    int64_t bytes;
    char *log;
    bool found;
} mst_code_image;
void mst_code_release(mst_code_image *image); /* mst_free of data and log */

enum { MST_CODE_VERSION_SIZE = 128, MST_CODE_OPTIONS = 16 };

typedef struct mst_code_target mst_code_target;
typedef struct mst_code_compiler {
    const char *name; /* "nvrtc" */
    /* Whatever changes what it makes of one text: part of the cache's key. */
    muster_status (*version)(const mst_code_target *target, char text[MST_CODE_VERSION_SIZE]);
    /* data by mst_alloc*, log likewise or NULL. On failure data is NULL, and the message begins
     * with the first lines of the log. Threads: any, at the same time. */
    muster_status (*compile)(const mst_code_target *target, const mst_code_program *program, mst_code_image *image);
} mst_code_compiler;

struct mst_code_target {
    const mst_code_compiler *compiler;
    void *user;                            /* the compiler's */
    int32_t architecture;                  /* CUDA: 10 x major + minor of the compute capability, such as 90 */
    const char *options[MST_CODE_OPTIONS]; /* handed to the compiler behind its own, up to the first NULL */
};

/* From the cache, or compiled and put there. program: NULL: the built-in kernels. Threads: any; of
 * several that ask for the same at the same time one compiles. A cache that cannot be used is never
 * an error: see mst_code_take_notice. Release the image, also after a failure. */
muster_status mst_code_build(const mst_code_target *target, const mst_code_program *program, mst_code_image *image);

/* Why there is no cache, once per reason: true and a sentence for the log of whoever opens
 * devices. */
bool mst_code_take_notice(char text[MST_MESSAGE_SIZE]);

/* NVRTC (lib/device/cuda/nvrtc.c): target.user is the table of its functions. A device that is
 * newer than it gets PTX of the highest architecture that it knows below the device's, which the
 * driver translates. */
extern const mst_code_compiler mst_nvrtc_compiler;

/* The cache (code_cache.c), for code.c and its test. Key: SHA-256 of everything that the image
 * depends on: the cache holds what runs with the user's rights on the user's data, so that a
 * collision must not be makeable, which FNV and its like do not promise. */
enum { MST_CODE_KEY = 32 };
typedef struct mst_code_key {
    uint8_t bytes[MST_CODE_KEY];
} mst_code_key;
/* false: not there, or not as it was written */
bool mst_code_cache_load(const mst_code_key *key, mst_code_image *image);
/* atomic: whoever loads sees all of it or nothing */
void mst_code_cache_store(const mst_code_key *key, const mst_code_image *image);

/* SHA-256 (FIPS 180-4) of pieces. */
typedef struct mst_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} mst_sha256;
void mst_sha256_begin(mst_sha256 *hash);
void mst_sha256_add(mst_sha256 *hash, const void *data, int64_t bytes);
void mst_sha256_end(mst_sha256 *hash, uint8_t digest[32]);

#endif

/* Libraries that Muster opens at run time and neither links nor includes. One list of symbols per
 * library generates the struct of its functions and the loader's table.
 *
 *     #define MST_X_SYMBOLS(X) X(int, xOpen, (const char *name)) ... the exported, versioned names
 *     typedef struct mst_x_api { MST_X_SYMBOLS(MST_FOREIGN_MEMBER) } mst_x_api;
 *     static const mst_foreign_symbol symbols[] = { MST_X_SYMBOLS(MST_FOREIGN_NEEDED) }; with
 *     #define MST_FOREIGN_STRUCT mst_x_api
 *
 * A library is opened by its versioned soname. If MUSTER_CUDA_LIBRARIES names a folder, the library
 * is opened from that folder only, unless its name is an absolute path. The tests put simulated
 * libraries there, which export the int `muster_simulated`. A process uses simulated libraries or
 * real ones, never both. */
#ifndef MST_FOREIGN_IMPL_H
#define MST_FOREIGN_IMPL_H

#include "memory_impl.h"

#include <stddef.h>

#define MST_FOREIGN_MEMBER(result, name, arguments) result(*name) arguments;
#define MST_FOREIGN_NEEDED(result, name, arguments) {#name, offsetof(MST_FOREIGN_STRUCT, name), false},
#define MST_FOREIGN_OPTIONAL(result, name, arguments) {#name, offsetof(MST_FOREIGN_STRUCT, name), true},

typedef struct mst_foreign_symbol {
    const char *name;
    size_t offset; /* of the pointer in the struct of functions */
    bool optional;
} mst_foreign_symbol;

typedef struct mst_foreign_library {
    const char *name;           /* "the CUDA driver" */
    const char *const *sonames; /* newest first */
    int32_t soname_count;
    const mst_foreign_symbol *symbols;
    int32_t symbol_count;
} mst_foreign_library;

enum { MST_FOREIGN_REASON = 400 };

/* Opens the library and fills all pointers of `functions`, or none of them. The library stays open
 * until the process ends, because these libraries own threads and memory that outlive a dlclose.
 * Errors: UNAVAILABLE. The message names the library, and the sonames tried with the loader's
 * error, or the missing symbol, or the rule about simulated libraries. */
muster_status mst_foreign_open(const mst_foreign_library *library, void *functions);

/* The same for a library that is not part of CUDA. It is opened from `path` alone if that is not
 * NULL, never from MUSTER_CUDA_LIBRARIES, and next to simulated libraries as well as real ones. */
muster_status mst_foreign_open_apart(const mst_foreign_library *library, const char *path, void *functions);

/* True if the libraries that this process has opened are simulated ones. */
bool mst_foreign_simulated(void);

#endif

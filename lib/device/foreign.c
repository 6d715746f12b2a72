/* Opens libraries by soname, and keeps simulated libraries apart from real ones. */
#include "foreign_impl.h"
#include "own_thread_impl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { NONE_YET, REAL, SIMULATED } foreign_kind;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static foreign_kind opened_kind; /* whether the libraries that this process has opened are real or simulated */
static const char *opened_first; /* the first library that was opened, which decided this */

bool mst_foreign_simulated(void) {
    pthread_mutex_lock(&lock);
    bool simulated = opened_kind == SIMULATED;
    pthread_mutex_unlock(&lock);
    return simulated;
}

/* memcpy, because ISO C has no conversion from void * to a pointer to a function. */
static void set_function(void *functions, const mst_foreign_symbol *symbol, void *address) {
    memcpy((char *)functions + symbol->offset, &address, sizeof address);
}

/* The first needed symbol that the library lacks, or NULL. */
static const char *find_symbols(const mst_foreign_library *library, void *handle, void *functions) {
    for (int32_t i = 0; i < library->symbol_count; i++) {
        const mst_foreign_symbol *symbol = &library->symbols[i];
        void *address = dlsym(handle, symbol->name);
        if (!address && !symbol->optional) return symbol->name;
        set_function(functions, symbol, address);
    }
    return NULL;
}

static void forget_symbols(const mst_foreign_library *library, void *functions) {
    for (int32_t i = 0; i < library->symbol_count; i++) set_function(functions, &library->symbols[i], NULL);
}

/* "libcublas.so.13, libcublas.so.12" */
static void list_sonames(const mst_foreign_library *library, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < library->soname_count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "", library->sonames[i]);
}

/* Opens one library; NULL if that fails. `reason` keeps the more telling of the loader's
 * messages. */
static void *open_one(const char *folder, const char *soname, char reason[MST_FOREIGN_REASON]) {
    char path[4096];
    if (soname[0] == '/') folder = NULL;
    int length = folder ? snprintf(path, sizeof path, "%s/%s", folder, soname) : snprintf(path, sizeof path, "%s", soname);
    if (length >= (int)sizeof path) return NULL;
    void *handle = dlopen(path, RTLD_LOCAL | RTLD_NOW);
    if (handle) return handle;
    const char *words = dlerror();
    if (!words) words = "the loader gave no reason";
    /* "Cannot be loaded" tells more than "no such file" for the next soname. */
    if (!reason[0] || !strstr(words, "No such file")) snprintf(reason, MST_FOREIGN_REASON, "%s", words);
    return NULL;
}

static bool kind_fits(foreign_kind kind) { return opened_kind == NONE_YET || opened_kind == kind; }

static muster_status take_locked(const mst_foreign_library *library, const char *soname, void *handle, void *functions) {
    const char *missing = find_symbols(library, handle, functions);
    if (missing) return mst_error(MUSTER_UNAVAILABLE, "%s: %s lacks the symbol %s", library->name, soname, missing);
    foreign_kind kind = dlsym(handle, "muster_simulated") ? SIMULATED : REAL;
    if (!kind_fits(kind)) {
        return mst_error(
            MUSTER_UNAVAILABLE, "%s: %s is %s, but %s that this process has opened is %s: expected only simulated libraries or none",
            library->name, soname, kind == SIMULATED ? "simulated" : "real", opened_first, kind == SIMULATED ? "real" : "simulated");
    }
    if (opened_kind == NONE_YET) opened_first = library->name;
    opened_kind = kind;
    return MUSTER_OK;
}

static muster_status open_locked(const mst_foreign_library *library, const char *folder, void *functions) {
    char reason[MST_FOREIGN_REASON] = "", sonames[128];
    muster_status status = MUSTER_OK;
    for (int32_t i = 0; i < library->soname_count; i++) {
        void *handle = open_one(folder, library->sonames[i], reason);
        if (!handle) continue;
        status = take_locked(library, library->sonames[i], handle, functions);
        if (status == MUSTER_OK) return MUSTER_OK;
        forget_symbols(library, functions);
        dlclose(handle);
    }
    if (status != MUSTER_OK) return status; /* the failure of the last library that was found */
    list_sonames(library, sonames, sizeof sonames);
    return mst_error(MUSTER_UNAVAILABLE, "%s was not found: tried %s%s%.150s: %.150s", library->name, sonames, folder ? " in " : "",
                     folder ? folder : "", reason);
}

/* The arguments of open_locked and open_apart_locked. A library that is opened runs code of its
 * own, and may start threads. */
typedef struct opening {
    const mst_foreign_library *library;
    const char *place; /* a folder, or the library's path */
    void *functions;
} opening;

static muster_status run_open(void *argument) {
    const opening *one = argument;
    return open_locked(one->library, one->place, one->functions);
}

muster_status mst_foreign_open(const mst_foreign_library *library, void *functions) {
    const char *folder = getenv("MUSTER_CUDA_LIBRARIES");
    if (folder && !folder[0]) folder = NULL;
    if (folder && folder[0] != '/')
        return mst_error(MUSTER_UNAVAILABLE, "%s: MUSTER_CUDA_LIBRARIES: expected an absolute path, received \"%.200s\"", library->name,
                         folder);
    opening one = {library, folder, functions};
    pthread_mutex_lock(&lock);
    muster_status status = mst_own_thread_run(run_open, &one, library->name);
    pthread_mutex_unlock(&lock);
    return status;
}

static muster_status open_apart_locked(const mst_foreign_library *library, const char *soname, void *functions) {
    char reason[MST_FOREIGN_REASON] = "";
    void *handle = open_one(NULL, soname, reason);
    if (!handle) return mst_error(MUSTER_UNAVAILABLE, "%s was not found: tried %.150s: %.200s", library->name, soname, reason);
    const char *missing = find_symbols(library, handle, functions);
    if (!missing) return MUSTER_OK;
    forget_symbols(library, functions);
    dlclose(handle);
    return mst_error(MUSTER_UNAVAILABLE, "%s: %.200s lacks the symbol %s", library->name, soname, missing);
}

static muster_status run_open_apart(void *argument) {
    const opening *one = argument;
    return open_apart_locked(one->library, one->place, one->functions);
}

muster_status mst_foreign_open_apart(const mst_foreign_library *library, const char *path, void *functions) {
    muster_status status = MUSTER_UNAVAILABLE;
    pthread_mutex_lock(&lock);
    for (int32_t i = 0; i < (path ? 1 : library->soname_count) && status != MUSTER_OK; i++) {
        opening one = {library, path ? path : library->sonames[i], functions};
        status = mst_own_thread_run(run_open_apart, &one, library->name);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

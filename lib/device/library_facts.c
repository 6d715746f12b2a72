#include "library_facts_impl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mst_library_found(mst_library_facts *facts, const void *function) {
    char file[PATH_MAX];
    void *address;
    Dl_info info;
    facts->found = true;
    memcpy(&address, function, sizeof address);
    if (!dladdr(address, &info) || !info.dli_fname) return;
    const char *path = realpath(info.dli_fname, file) ? file : info.dli_fname, *version = strstr(path, ".so.");
    snprintf(facts->path, sizeof facts->path, "%.511s", path);
    if (!facts->version[0] && version) snprintf(facts->version, sizeof facts->version, "%.60s", version + strlen(".so."));
}

void mst_library_missing(mst_library_facts *facts) {
    facts->found = false;
    mst_error_save(facts->text);
}

#include "mst_shim.hh"

#include <string.h>

thread_local mst_shim_block mst_shim_here;

static mst_shim_entry *entries; /* constant: before the constructors of the texts */

mst_shim_registration::mst_shim_registration(mst_shim_entry *entry) {
    entry->next = entries;
    entries = entry;
}

const mst_shim_entry *mst_shim_kernels(void) { return entries; }

const mst_shim_entry *mst_shim_find(const char *name) {
    for (const mst_shim_entry *entry = entries; entry; entry = entry->next)
        if (strcmp(entry->name, name) == 0) return entry;
    return nullptr;
}

/* The registry of the built-in kernels: the families that the modules contribute, and the program
 * that each of them is. */
#include "code_private.h"

#include <pthread.h>
#include <string.h>

enum { MODULES = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const mst_code_sources *modules[MODULES] = {&mst_device_code};
static int32_t module_count = 1;

muster_status mst_code_add(const mst_code_sources *sources) {
    muster_status status = MUSTER_OK;
    pthread_mutex_lock(&lock);
    int32_t at = 0;
    while (at < module_count && modules[at] != sources) at++;
    if (at == MODULES)
        status = mst_error(MUSTER_INTERNAL, "mst_code_add: sources: expected at most %d modules, received one more, %s", MODULES,
                           sources->module);
    else if (at == module_count)
        modules[module_count++] = sources;
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- places ---- */

int32_t mst_code_family_count(void) {
    pthread_mutex_lock(&lock);
    int32_t count = 0;
    for (int32_t i = 0; i < module_count; i++) count += modules[i]->family_count;
    pthread_mutex_unlock(&lock);
    return count;
}

const mst_code_family *mst_code_family_at(int32_t place) {
    const mst_code_family *family = NULL;
    pthread_mutex_lock(&lock);
    for (int32_t i = 0; i < module_count && !family; place -= modules[i++]->family_count)
        if (place >= 0 && place < modules[i]->family_count) family = &modules[i]->families[place];
    pthread_mutex_unlock(&lock);
    return family;
}

int32_t mst_code_kernel_count(void) {
    const mst_code_family *family;
    int32_t count = 0;
    for (int32_t i = 0; (family = mst_code_family_at(i)); i++) count += family->kernel_count;
    return count;
}

int32_t mst_code_kernel_family(int32_t place, int32_t *first) {
    const mst_code_family *family;
    *first = 0;
    for (int32_t i = 0; place >= 0 && (family = mst_code_family_at(i)); i++) {
        if (place < *first + family->kernel_count) return i;
        *first += family->kernel_count;
    }
    return -1;
}

const char *mst_code_kernel_name(int32_t place) {
    int32_t first;
    const int32_t family = mst_code_kernel_family(place, &first);
    return family < 0 ? NULL : mst_code_family_at(family)->kernels[place - first];
}

int32_t mst_code_kernel_find(const char *name) {
    const mst_code_family *family;
    for (int32_t i = 0, place = 0; (family = mst_code_family_at(i)); i++)
        for (int32_t k = 0; k < family->kernel_count; k++, place++)
            if (strcmp(family->kernels[k], name) == 0) return place;
    return -1;
}

/* ---- programs ---- */

void mst_code_hash_text(mst_sha256 *hash, const char *text) {
    const int64_t length = (int64_t)strlen(text);
    mst_sha256_add(hash, &length, sizeof length);
    mst_sha256_add(hash, text, length);
}

void mst_code_hash_sources(mst_sha256 *hash, const mst_code_source *sources, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        mst_code_hash_text(hash, sources[i].name);
        mst_code_hash_text(hash, sources[i].text);
    }
}

muster_status mst_code_headers_make(mst_code_headers *headers) {
    int32_t count = 0;
    pthread_mutex_lock(&lock);
    const int32_t known = module_count;
    pthread_mutex_unlock(&lock);
    for (int32_t i = 0; i < known; i++) count += modules[i]->header_count;
    *headers = (mst_code_headers){.list = mst_alloc((size_t)count * sizeof *headers->list)};
    if (!headers->list) return mst_out_of_memory("mst_code_build: sources", count * (int64_t)sizeof *headers->list);
    for (int32_t i = 0; i < known; i++)
        for (int32_t j = 0; j < modules[i]->header_count; j++) headers->list[headers->count++] = modules[i]->headers[j];
    mst_sha256 hash;
    mst_sha256_begin(&hash);
    mst_code_hash_sources(&hash, headers->list, headers->count);
    mst_sha256_end(&hash, headers->digest);
    return MUSTER_OK;
}

void mst_code_headers_free(mst_code_headers *headers) { mst_free(headers->list); }

mst_code_program mst_code_family_program(int32_t family, const mst_code_headers *headers) {
    const mst_code_source *source = &mst_code_family_at(family)->source;
    return (mst_code_program){
        .name = source->name, .text = source->text, .sources = headers->list, .count = headers->count, .digest = headers->digest};
}

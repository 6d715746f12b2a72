/* Memory of other libraries that calls and copies take as memory of a device: what
 * muster_runtime_tensor_on wrapped and what DLPack brought. One list serves all runtimes, under a
 * lock of its own, so that a tensor can be imported inside a body, and given back after its runtime
 * has closed. */
#include "foreign_memory_impl.h"
#include "tensor_impl.h"

#include <pthread.h>

struct mst_foreign {
    struct mst_foreign *next;
    const muster_runtime *runtime; /* only compared */
    int32_t rank;
    bool imported;
    const char *address; /* the lowest byte */
    int64_t bytes;
    int64_t number; /* in reserved[0] of the tensor and its views; negative, unlike those of tensors.c */
};

static pthread_mutex_t foreign_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mst_foreign *foreign_list;
static int64_t foreign_ever;

muster_status mst_foreign_add(const muster_runtime *runtime, bool imported, const char *where, muster_tensor *tensor) {
    struct mst_foreign *added = mst_alloc(sizeof *added);
    if (!added) return mst_out_of_memory(where, sizeof *added);
    const mst_span span = mst_tensor_span(tensor);
    *added = (struct mst_foreign){.runtime = runtime,
                                  .rank = tensor->device,
                                  .imported = imported,
                                  .address = (const char *)muster_tensor_address(*tensor) + span.low,
                                  .bytes = span.high - span.low};
    pthread_mutex_lock(&foreign_lock);
    added->number = tensor->reserved[0] = --foreign_ever;
    added->next = foreign_list;
    foreign_list = added;
    pthread_mutex_unlock(&foreign_lock);
    return MUSTER_OK;
}

/* Frees the entries that match: of one number, or of one runtime. */
static void foreign_free(int64_t number, const muster_runtime *runtime) {
    pthread_mutex_lock(&foreign_lock);
    for (struct mst_foreign **at = &foreign_list; *at;) {
        struct mst_foreign *entry = *at;
        if (entry->number == number || (runtime && entry->runtime == runtime)) {
            *at = entry->next;
            mst_free(entry);
        } else {
            at = &entry->next;
        }
    }
    pthread_mutex_unlock(&foreign_lock);
}

void mst_foreign_remove(int64_t number) { foreign_free(number, NULL); }
void mst_foreign_remove_all(const muster_runtime *runtime) { foreign_free(0, runtime); }

bool mst_foreign_find(const muster_runtime *runtime, const muster_tensor *tensor, mst_foreign_memory *found) {
    const mst_span span = mst_tensor_span(tensor);
    const uintptr_t low = (uintptr_t)muster_tensor_address(*tensor) + (uintptr_t)span.low;
    const int64_t number = tensor->reserved[0]; /* 0: a view created from the address again, as reshape does */
    bool known = false;
    pthread_mutex_lock(&foreign_lock);
    for (const struct mst_foreign *entry = foreign_list; entry && !known; entry = entry->next) {
        const uintptr_t first = (uintptr_t)entry->address, end = first + (uintptr_t)entry->bytes;
        if (entry->runtime != runtime || entry->rank != tensor->device || (number && number != entry->number)) continue;
        known = low >= first && low + (uintptr_t)(span.high - span.low) <= end;
        *found = (mst_foreign_memory){entry->address, entry->bytes, entry->number, entry->imported};
    }
    pthread_mutex_unlock(&foreign_lock);
    return known;
}

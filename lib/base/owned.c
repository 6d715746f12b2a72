#include "memory_impl.h"
#include "owned_impl.h"

muster_status mst_owned_make(const char *where, muster_destroy_function destroy, void *user, mst_owned **owned) {
    *owned = NULL;
    if (!destroy) return MUSTER_OK;
    mst_owned *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(where, sizeof *made);
    *made = (mst_owned){.destroy = destroy, .user = user};
    *owned = made;
    return MUSTER_OK;
}

void mst_owned_forget(mst_owned *owned) { mst_free(owned); }

void mst_owned_move(mst_owned **from, mst_owned **to) {
    while (*to) to = &(*to)->next;
    *to = *from;
    *from = NULL;
}

void mst_owned_call(muster_destroy_function destroy, void *user) {
    char message[MST_MESSAGE_SIZE];
    if (!destroy) return;
    const uint64_t errors = mst_error_count();
    mst_error_save(message);
    destroy(user);
    if (mst_error_count() != errors) (void)mst_error_restore(MUSTER_OK, message);
}

muster_status mst_owned_refused(muster_status status, muster_destroy_function destroy, void *user) {
    if (status != MUSTER_OK) mst_owned_call(destroy, user);
    return status;
}

void mst_owned_end(mst_owned *list) {
    while (list) {
        mst_owned *next = list->next;
        mst_owned_call(list->destroy, list->user);
        mst_free(list);
        list = next;
    }
}

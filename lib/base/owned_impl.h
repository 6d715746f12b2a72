/* `user` pointers of the program that the library ends, by the destroy function that came with
 * them. Destroy functions are code of the program, which may call the library: they run when the
 * library holds no lock. Where a pointer is given up under a lock, it is kept in a list until the
 * lock has been left. */
#ifndef MST_OWNED_IMPL_H
#define MST_OWNED_IMPL_H

#include "muster/status.h"

typedef struct mst_owned {
    struct mst_owned *next;
    muster_destroy_function destroy;
    void *user;
} mst_owned;

/* An entry of its own list, made while a failure can still be reported; *owned = NULL if destroy is
 * NULL. where: the public function, for messages. Errors: OUT_OF_MEMORY. */
muster_status mst_owned_make(const char *where, muster_destroy_function destroy, void *user, mst_owned **owned);
/* Frees the entry of a creation that has failed, and does not call its destroy function. Accepts
 * NULL. */
void mst_owned_forget(mst_owned *owned);
/* Moves all entries of `from`, which becomes empty, to the end of `to`. */
void mst_owned_move(mst_owned **from, mst_owned **to);
/* Calls the destroy function of every entry, and frees the entries. Accepts NULL. The thread's last
 * error stays. */
void mst_owned_end(mst_owned *list);
/* Calls destroy(user), unless destroy is NULL. The thread's last error stays. */
void mst_owned_call(muster_destroy_function destroy, void *user);
/* The same after a creation that has failed: only if `status` is not OK. Returns `status`. */
muster_status mst_owned_refused(muster_status status, muster_destroy_function destroy, void *user);

#endif

/* Operators of the program: creating and destroying them, their names, who holds them. */
#include "custom_private.h"
#include "hash_impl.h"
#include "options_impl.h"

#include <string.h>

pthread_mutex_t mst_custom_lock = PTHREAD_MUTEX_INITIALIZER;
enum { CUSTOM_SLOTS = 1024 };
static mst_custom *custom_named[CUSTOM_SLOTS]; /* all operators that have a name, of all runtimes, by its hash */

static mst_custom **custom_slot(const char *name) { return &custom_named[mst_text_hash(name, (int64_t)strlen(name)) & (CUSTOM_SLOTS - 1)]; }

/* What a graph holds. */
struct mst_custom_list {
    struct mst_custom_list *next;
    mst_custom *custom;
};

void muster_operator_options_init_sized(muster_operator_options *options, size_t size) { mst_options_init(options, size); }

/* ---- the end of an operator ---- */

static void custom_free(mst_custom *custom) {
    mst_custom_kernels_free(custom); /* nothing is left of them where custom_end has done it */
    mst_arena_free(&custom->memory);
    mst_free(custom);
}

/* The last who held it has let go. Inside a body the runtime keeps it until it closes. */
static void custom_end(mst_custom *custom) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    if (!atomic_load(&custom->closed)) {
        mst_pool *pool = custom->object.runtime->pool;
        if (mst_pool_enter_to_end(pool, "muster_operator_destroy") != MUSTER_OK) {
            (void)mst_error_restore(MUSTER_OK, message);
            return;
        }
        mst_runtime_remove(&custom->object);
        mst_pool_leave(pool);
        mst_custom_kernels_free(custom);
        (void)mst_error_restore(MUSTER_OK, message);
    }
    mst_owned *owned = custom->owned;
    custom_free(custom);
    mst_owned_end(owned);
}

static void custom_release(mst_custom *custom) {
    if (atomic_fetch_sub(&custom->references, 1) == 1) custom_end(custom);
}

static void custom_unname(mst_custom *custom) {
    pthread_mutex_lock(&mst_custom_lock);
    for (mst_custom **link = custom_slot(custom->row.name); custom->named && *link; link = &(*link)->next)
        if (*link == custom) {
            *link = custom->next;
            break;
        }
    custom->named = false;
    pthread_mutex_unlock(&mst_custom_lock);
}

/* The handle ends; the program may still hold it. */
static void custom_retire_handle(mst_custom *custom) {
    custom->handle->custom = NULL;
    mst_retire(custom->handle);
    custom->handle = NULL;
}

/* The runtime closes. Kernels are objects of the runtime, which end with it. */
static void custom_close(mst_object *object) {
    mst_custom *custom = (mst_custom *)((char *)object - offsetof(mst_custom, object));
    muster_runtime *runtime = object->runtime;
    custom_unname(custom);
    mst_runtime_remove(object);
    const bool held_by_handle = custom->handle != NULL;
    if (held_by_handle) custom_retire_handle(custom);
    atomic_store(&custom->closed, true);
    const int before = held_by_handle ? atomic_fetch_sub(&custom->references, 1) - 1 : atomic_load(&custom->references);
    if (before > 0) return;
    mst_owned_move(&custom->owned, &runtime->ended);
    custom_free(custom);
}

/* ---- names ---- */

static bool graph_holds(const mst_graph *graph, const mst_custom *custom) {
    for (const struct mst_custom_list *at = graph->custom; at; at = at->next)
        if (at->custom == custom) return true;
    return false;
}

const mst_operator *mst_custom_named(mst_graph *graph, const char *name) {
    mst_custom *found = NULL;
    struct mst_custom_list *held = NULL;
    pthread_mutex_lock(&mst_custom_lock);
    for (mst_custom *custom = *custom_slot(name); custom && !found; custom = custom->next)
        if (custom->object.runtime == graph->runtime && strcmp(custom->row.name, name) == 0) found = custom;
    if (found && !graph_holds(graph, found)) {
        held = mst_arena_take(&graph->arena, sizeof *held);
        if (held) {
            *held = (struct mst_custom_list){graph->custom, found};
            graph->custom = held;
            atomic_fetch_add(&found->references, 1);
        } else {
            found = NULL;
        }
    }
    pthread_mutex_unlock(&mst_custom_lock);
    return found ? &found->row : NULL;
}

void mst_custom_let_go(mst_graph *graph) {
    for (const struct mst_custom_list *at = graph->custom; at; at = at->next) custom_release(at->custom);
    graph->custom = NULL;
}

/* ---- creating and destroying ---- */

static muster_status custom_add(muster_runtime *runtime, mst_custom *custom, const char *name, const char *where) {
    MUSTER_TRY(mst_pool_enter(runtime->pool, where, 0));
    custom->object.destroy = custom_close;
    const muster_status status = mst_runtime_add(runtime, &custom->object, "operator", name, where);
    if (status == MUSTER_OK) {
        pthread_mutex_lock(&mst_custom_lock);
        mst_custom **slot = custom_slot(name);
        custom->named = true;
        custom->next = *slot;
        *slot = custom;
        pthread_mutex_unlock(&mst_custom_lock);
    }
    mst_pool_leave(runtime->pool);
    return status;
}

static muster_status custom_create(muster_runtime *runtime, const char *name, const muster_operator_options *known, muster_operator **made,
                                   const char *where) {
    mst_custom *custom = mst_alloc(sizeof *custom);
    muster_operator *handle = mst_alloc(sizeof *handle);
    muster_status status = custom && handle ? MUSTER_OK : mst_out_of_memory(where, (int64_t)sizeof *custom);
    if (status == MUSTER_OK) status = mst_owned_make(where, known->destroy, known->user, &custom->owned);
    if (status == MUSTER_OK) {
        atomic_init(&custom->references, 1);
        custom->handle = handle;
        handle->custom = custom;
        status = mst_custom_describe(custom, name, known);
    }
    if (status == MUSTER_OK && known->text) status = mst_custom_text_check(custom, runtime);
    if (status == MUSTER_OK) status = custom_add(runtime, custom, name, where);
    if (status == MUSTER_OK) {
        *made = handle;
        return MUSTER_OK;
    }
    if (custom) {
        mst_owned_forget(custom->owned);
        custom_free(custom);
    }
    mst_free(handle);
    return status;
}

static muster_status custom_create_checked(muster_runtime *runtime, const char *name, const muster_operator_options *options,
                                           muster_operator **made, const char *where) {
    muster_operator_options known;
    if (!made) return mst_error_null(where, "made", "the address of a pointer");
    *made = NULL;
    if (!runtime) return mst_error_null(where, "runtime", "a runtime");
    MUSTER_TRY(mst_runtime_check_open(runtime, where));
    if (!name) return mst_error_null(where, "name", "a name");
    if (!options) return mst_error_null(where, "options", "a description");
    MUSTER_TRY(mst_options_read(where, "muster_operator_options", options, &known, sizeof known));
    return custom_create(runtime, name, &known, made, where);
}

/* The destroy function of the caller's struct, if it can be read. */
static muster_destroy_function destroy_of(const muster_operator_options *options) {
    const size_t needed = offsetof(muster_operator_options, destroy) + sizeof options->destroy;
    return options && options->struct_size >= needed && options->struct_size < 65536 ? options->destroy : NULL;
}

muster_status muster_operator_create(muster_runtime *runtime, const char *name, const muster_operator_options *options,
                                     muster_operator **made) {
    const muster_status status = custom_create_checked(runtime, name, options, made, "muster_operator_create");
    return mst_owned_refused(status, destroy_of(options), destroy_of(options) ? options->user : NULL);
}

muster_status muster_operator_destroy(muster_operator *made) {
    static const char where[] = "muster_operator_destroy";
    if (!made) return MUSTER_OK;
    mst_custom *custom = made->custom;
    if (!custom) return mst_error(MUSTER_BAD_STATE, "%s: operator: expected one that exists, received one that has been destroyed", where);
    mst_pool *pool = custom->object.runtime->pool;
    MUSTER_TRY(mst_pool_enter_to_end(pool, where));
    custom_unname(custom);
    custom->object.kind = "ended operator"; /* its name is free again */
    custom_retire_handle(custom);
    mst_pool_leave(pool);
    custom_release(custom);
    return MUSTER_OK;
}

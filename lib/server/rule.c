/* Rules: what a send does to a shard. */
#include "server_private.h"

#include <inttypes.h>
#include <string.h>

_Thread_local const muster_server *mst_server_in_rule __attribute__((tls_model("initial-exec")));

static muster_status rule_copy(mst_shard *shard, const void *tensor) {
    if (shard->half)
        mst_convert(MUSTER_F32, shard->memory, shard->dtype, tensor, shard->count);
    else
        memcpy(shard->memory, tensor, (size_t)shard->bytes);
    return MUSTER_OK;
}

static muster_status rule_user(const mst_rule *rule, mst_shard *shard, const void *tensor, double scale) {
    const muster_dtype held = shard->half ? MUSTER_F32 : shard->dtype;
    if (shard->half) {
        mst_convert(held, shard->widened, shard->dtype, tensor, shard->count);
        tensor = shard->widened;
    }
    const muster_server *outer = mst_server_in_rule;
    const char *callback = mst_runtime_callback;
    const uint64_t errors = mst_error_count();
    mst_server_in_rule = rule->server;
    mst_runtime_callback = "a rule of a server";
    muster_status status = rule->function(rule->user, held, shard->memory, tensor, shard->first, shard->count, scale);
    mst_server_in_rule = outer;
    mst_runtime_callback = callback;
    if (status == MUSTER_OK) return MUSTER_OK;
    if (status < 0 || status > MST_STATUS_LAST) status = MUSTER_USER;
    if (mst_error_count() == errors)
        return mst_error(
            status, "muster_client_send: server '%.100s': rule '%.100s' failed with %s on the elements from %" PRId64 " and gave no reason",
            rule->server->name, rule->name, muster_status_name(status), shard->first);
    char reason[MST_MESSAGE_SIZE];
    mst_error_save(reason);
    return mst_error(status, "server '%.100s': rule '%.100s': %s", rule->server->name, rule->name, reason);
}

muster_status mst_rule_apply(const mst_rule *rule, mst_shard *shard, const void *tensor, double scale) {
    switch (rule->number) {
    case MUSTER_RULE_ZERO:
        memset(shard->memory, 0, (size_t)(shard->half ? 2 * shard->bytes : shard->bytes));
        return MUSTER_OK;
    case MUSTER_RULE_COPY:
        return rule_copy(shard, tensor);
    case MUSTER_RULE_ADD:
        mst_reduction_accumulate(MUSTER_SUM, shard->dtype, shard->memory, tensor, shard->count, 1, false);
        return MUSTER_OK;
    case MUSTER_RULE_ADD_SCALED:
        mst_reduction_accumulate(MUSTER_AVG, shard->dtype, shard->memory, tensor, shard->count, scale, false);
        return MUSTER_OK;
    default:
        return rule_user(rule, shard, tensor, scale);
    }
}

const mst_rule *mst_rule_find(const muster_server *server, muster_rule number) {
    static const mst_rule builtin[] = {
        {.number = MUSTER_RULE_ZERO}, {.number = MUSTER_RULE_COPY}, {.number = MUSTER_RULE_ADD}, {.number = MUSTER_RULE_ADD_SCALED}};
    if (number >= MUSTER_RULE_ZERO && number <= MUSTER_RULE_ADD_SCALED) return &builtin[number - MUSTER_RULE_ZERO];
    const int32_t users = atomic_load_explicit(&((muster_server *)server)->rule_count, memory_order_acquire);
    if (number < MUSTER_RULE_USER || number - MUSTER_RULE_USER >= users) return NULL;
    return &server->rules[number - MUSTER_RULE_USER];
}

/* ---- rules of the user's ---- */

/* f16 and bf16 are held in f32: a rule of the program gets the tensor in f32, too, and needs memory
 * for that. */
static muster_status rule_widen(muster_server *server, const char *where) {
    for (int32_t i = 0; i < server->count; i++) {
        if (mst_dtype_compute(server->values[i].dtype) == server->values[i].dtype) continue;
        for (int32_t s = 0; s < server->shards; s++) {
            mst_shard *shard = &server->values[i].shards[s];
            if (shard->widened) continue;
            shard->widened = mst_alloc_uninitialised((size_t)shard->count * sizeof(float));
            if (!shard->widened) return mst_out_of_memory(where, shard->count * (int64_t)sizeof(float));
        }
    }
    return MUSTER_OK;
}

/* owned: becomes the server's, if the rule does. */
static muster_status rule_add(muster_server *server, const char *where, const mst_rule *rule, mst_owned **owned) {
    const int32_t count = atomic_load_explicit(&server->rule_count, memory_order_relaxed);
    if (atomic_load(&server->life) != MST_SERVER_OPEN) return mst_server_refuse_destroyed(server, where);
    if (count == MST_SERVER_RULES)
        return mst_error(MUSTER_OUT_OF_RANGE, "%s: rule: expected at most %d rules of one server", where, MST_SERVER_RULES);
    for (int32_t i = 0; i < count; i++) {
        if (strcmp(server->rules[i].name, rule->name) == 0)
            return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that no rule of this server has, received '%.200s'", where,
                             rule->name);
    }
    MUSTER_TRY(rule_widen(server, where));
    char *name = mst_strdup(rule->name);
    if (!name) return mst_out_of_memory(where, (int64_t)strlen(rule->name) + 1);
    server->rules[count] = *rule;
    server->rules[count].name = name;
    server->rules[count].number = MUSTER_RULE_USER + count;
    mst_owned_move(owned, &server->owned);
    atomic_store_explicit(&server->rule_count, count + 1, memory_order_release);
    return MUSTER_OK;
}

static muster_status rule_add_checked(const char *where, muster_server *server, const char *name, muster_rule_function function, void *user,
                                      muster_destroy_function destroy, muster_rule *rule) {
    mst_owned *owned;
    if (!rule) return mst_error_null(where, "rule", "the address of a number");
    if (!server) return mst_error_null(where, "server", "a server");
    if (mst_server_is_from_before_fork(server)) return mst_server_refuse_child(where);
    if (!name || !*name)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: name: expected a name that is not empty, received %s", where,
                         name ? "\"\"" : "NULL");
    MUSTER_TRY(mst_check_utf8(name, where, "name"));
    if (!function) return mst_error_null(where, "function", "a function");
    MUSTER_TRY(mst_owned_make(where, destroy, user, &owned));
    const mst_rule added = {.function = function, .user = user, .name = (char *)name, .server = server};
    pthread_mutex_lock(&server->lock);
    muster_status status = rule_add(server, where, &added, &owned);
    if (status == MUSTER_OK) *rule = MUSTER_RULE_USER + atomic_load_explicit(&server->rule_count, memory_order_relaxed) - 1;
    pthread_mutex_unlock(&server->lock);
    mst_owned_forget(owned);
    return status;
}

muster_status muster_server_add_rule(muster_server *server, const char *name, muster_rule_function function, void *user,
                                     muster_rule *rule) {
    return rule_add_checked("muster_server_add_rule", server, name, function, user, NULL, rule);
}

muster_status muster_server_add_rule_owned(muster_server *server, const char *name, muster_rule_function function, void *user,
                                           muster_destroy_function destroy, muster_rule *rule) {
    const muster_status status = rule_add_checked("muster_server_add_rule_owned", server, name, function, user, destroy, rule);
    return mst_owned_refused(status, destroy, user);
}

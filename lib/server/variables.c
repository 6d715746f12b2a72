/* Sends and receives of variables: of a worker's replicas inside its body, and from host threads by
 * way of host memory. */
#include "server_private.h"

/* Host memory for a value of each variable, in one block. */
typedef struct variable_copies {
    muster_tensor *tensors;
    char *memory;
} variable_copies;

static muster_status copies_make(variable_copies *copies, const mst_operation_list *list) {
    int64_t bytes = 0;
    copies->tensors = mst_alloc((size_t)list->count * sizeof *copies->tensors);
    if (!copies->tensors) return mst_out_of_memory(list->where, (int64_t)list->count * (int64_t)sizeof *copies->tensors);
    for (int32_t i = 0; i < list->count; i++) {
        if (!list->variables[i]) return mst_error_null(list->where, "variables", "variables");
        MUSTER_TRY(mst_runtime_check_open(list->variables[i]->object.runtime, list->where));
        copies->tensors[i] = mst_variable_tensor(list->variables[i], 0);
        copies->tensors[i].device = MUSTER_DEVICE_HOST;
        bytes += (mst_tensor_bytes(copies->tensors[i]) + MST_CACHE_LINE - 1) / MST_CACHE_LINE * MST_CACHE_LINE;
    }
    copies->memory = mst_alloc_uninitialised((size_t)bytes + 1);
    if (!copies->memory) return mst_out_of_memory(list->where, bytes);
    bytes = 0;
    for (int32_t i = 0; i < list->count; i++) {
        copies->tensors[i].data = copies->memory + bytes;
        bytes += (mst_tensor_bytes(copies->tensors[i]) + MST_CACHE_LINE - 1) / MST_CACHE_LINE * MST_CACHE_LINE;
    }
    return MUSTER_OK;
}

static muster_status variables_exchange(mst_operation_list *list, muster_client *client, variable_copies *copies) {
    MUSTER_TRY(copies_make(copies, list));
    for (int32_t i = 0; list->sends && i < list->count; i++) MUSTER_TRY(muster_variable_get(list->variables[i], 0, copies->tensors[i]));
    list->tensors = copies->tensors;
    MUSTER_TRY(mst_operations_run(list, client));
    return list->sends ? MUSTER_OK : muster_variables_broadcast(list->variables, copies->tensors, list->count);
}

static muster_status variables_run(mst_operation_list *list, muster_client *client) {
    variable_copies copies = {0};
    if (!client || !client->server || client->worker || !list->variables) return mst_operations_run(list, client);
    MUSTER_TRY(mst_operations_check_count(list, client->server));
    const muster_status status = variables_exchange(list, client, &copies);
    mst_free(copies.tensors);
    mst_free(copies.memory);
    return status;
}

muster_status muster_client_send_variables(muster_client *client, muster_rule rule, double scale, muster_variable *const *variables,
                                           int32_t count) {
    mst_operation_list list = {.where = "muster_client_send_variables",
                               .what = "variables",
                               .sends = true,
                               .rule = rule,
                               .scale = scale,
                               .variables = variables,
                               .count = count};
    return variables_run(&list, client);
}

muster_status muster_client_receive_variables(muster_client *client, muster_variable *const *variables, int32_t count) {
    mst_operation_list list = {.where = "muster_client_receive_variables", .what = "variables", .variables = variables, .count = count};
    return variables_run(&list, client);
}

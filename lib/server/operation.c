/* Sends and receives of a client: what they are checked for, and how a request is made of them. */
#include "owner_impl.h"
#include "server_private.h"

#include <inttypes.h>
#include <math.h>

typedef struct submission {
    const char *where, *event, *what; /* what: the argument that the tensor comes from */
    int32_t index;
    const mst_rule *rule; /* NULL: receive */
    double scale;
    const muster_tensor *tensor;
    int32_t flags;
} submission;

static bool operation_surely_fits(const mst_value *value, const muster_tensor *tensor) {
    return tensor->dtype == value->dtype && tensor->ndim == 1 && tensor->shape[0] == value->elements && tensor->strides[0] == 1 &&
           tensor->data && tensor->byte_offset >= 0 && (tensor->reserved0 | tensor->reserved[1]) == 0 &&
           (((uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset) & value->misaligned) == 0;
}

static muster_status operation_check_fit(const submission *o, const mst_value *value) {
    const muster_tensor *tensor = o->tensor;
    if (__builtin_expect(operation_surely_fits(value, tensor), 1)) return MUSTER_OK;
    MUSTER_TRY(mst_tensor_check(*tensor, o->where, o->what));
    if (tensor->dtype != value->dtype)
        return mst_error(MUSTER_DTYPE_MISMATCH, "%s: %s: expected %s as in value %" PRId32 ", received %s", o->where, o->what,
                         muster_dtype_name(value->dtype), o->index, muster_dtype_name(tensor->dtype));
    if (muster_tensor_count(*tensor) != value->elements)
        return mst_error(MUSTER_SHAPE_MISMATCH, "%s: %s: expected %" PRId64 " elements as in value %" PRId32 ", received %" PRId64,
                         o->where, o->what, value->elements, o->index, muster_tensor_count(*tensor));
    if (!mst_tensor_contiguous(*tensor))
        return mst_error(MUSTER_UNSUPPORTED, "%s: %s: expected contiguous elements, received strided ones", o->where, o->what);
    return MUSTER_OK;
}

static muster_status operation_check_device(const submission *o, const muster_client *client) {
    const muster_worker *worker = client->worker;
    const int32_t device = o->tensor->device;
    if (device == MUSTER_DEVICE_HOST || (worker && device == worker->rank)) return MUSTER_OK;
    if (worker)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected host memory or that of rank %" PRId32 ", received device %" PRId32,
                         o->where, o->what, worker->rank, device);
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: %s: expected host memory, received device %" PRId32, o->where, o->what, device);
}

static muster_status operation_check(const submission *o, const muster_client *client) {
    if (o->rule && o->rule->number == MUSTER_RULE_ZERO) return MUSTER_OK;
    MUSTER_TRY(operation_check_fit(o, &client->server->values[o->index]));
    return operation_check_device(o, client);
}

static muster_status operation_prepare(muster_client *client, const submission *o, muster_request **request, char **from) {
    const mst_value *value = &client->server->values[o->index];
    const bool zero = o->rule && o->rule->number == MUSTER_RULE_ZERO;
    muster_worker *worker = client->worker;
    MUSTER_TRY(operation_check(o, client));
    const bool staged = !zero && o->tensor->device != MUSTER_DEVICE_HOST && !mst_device_is_host(worker->device);
    if (worker && worker->device->queued) MUSTER_TRY(mst_worker_sync(worker));
    muster_request *taken = mst_request_take(client);
    if (!taken) return mst_out_of_memory(o->where, sizeof *taken);
    *from = zero ? NULL : muster_tensor_address(*o->tensor);
    taken->operation = (mst_operation){.value = value, .rule = o->rule, .scale = o->scale, .memory = *from};
    muster_status status = MUSTER_OK;
    if (staged) {
        status = mst_stage_attach(taken, o->where, *from);
        *from = taken->operation.memory;
    } else if (o->flags & MUSTER_SEND_COPY && !zero) {
        status = mst_request_reserve_copy(taken, o->where, value->bytes); /* before anything else changes */
        taken->operation.memory = taken->copy;
    }
    if (status == MUSTER_OK)
        *request = taken;
    else
        mst_request_give(taken);
    return status;
}

/* An operation that was completed within the call needs no handle. If it failed, the wait reports
 * that. */
static muster_status operation_conclude(muster_request *made, const submission *o, muster_request **request) {
    muster_status status = MUSTER_OK;
    if (__builtin_expect(mst_request_finished(made) && atomic_load_explicit(&made->status, memory_order_relaxed) == MUSTER_OK, 1)) {
        mst_request_give(made);
        return MUSTER_OK;
    }
    if (request && (!mst_request_finished(made) || atomic_load_explicit(&made->status, memory_order_relaxed) != MUSTER_OK)) {
        *request = made;
        return MUSTER_OK;
    }
    mst_request_finish(made, o->where, true, &status);
    mst_request_give(made);
    return status;
}

static muster_status operation_submit_inside(muster_client *client, const submission *o, muster_request **request) {
    muster_request *made;
    muster_worker *worker = client->worker;
    char *from;
    uint64_t event = 0;
    MUSTER_TRY(operation_prepare(client, o, &made, &from));
    if (worker) event = mst_record_begin(&worker->recorder, MST_EVENT_SERVER, o->event, ++client->sequence, made->operation.value->bytes);
    const bool lazily = request && client->server->progress_count > 0 && !(o->flags & MUSTER_SEND_COPY);
    if (client->staging)
        mst_stage_begin(made, from, lazily);
    else
        mst_request_begin(made, from, lazily);
    const muster_status status = operation_conclude(made, o, request);
    if (worker) mst_record_end(&worker->recorder, event);
    return status;
}

static muster_status operation_submit(muster_client *client, const submission *o, muster_request **request) {
    if (request) *request = NULL;
    MUSTER_TRY(mst_client_enter(client, o->where));
    muster_status status;
    if (o->index < 0 || o->index >= client->server->count)
        status = mst_error(MUSTER_OUT_OF_RANGE, "%s: index: expected 0 to %" PRId32 ", received %" PRId32, o->where,
                           client->server->count - 1, o->index);
    else
        status = operation_submit_inside(client, o, request);
    mst_client_leave(client);
    return status;
}

static muster_status operation_find_rule(const muster_client *client, const char *where, int32_t index, muster_rule number,
                                         const mst_rule **rule) {
    const muster_server *server = client->server;
    *rule = mst_rule_find(server, number);
    if (!*rule)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: rule: expected a rule of server '%.200s', received %" PRId32, where, server->name,
                         number);
    if (number == MUSTER_RULE_ADD_SCALED && index >= 0 && index < server->count && !mst_dtype_is_float(server->values[index].dtype))
        return mst_error(MUSTER_UNSUPPORTED,
                         "%s: rule: expected a rule for %s, the elements of value %" PRId32 ", received MUSTER_RULE_ADD_SCALED", where,
                         muster_dtype_name(server->values[index].dtype), index);
    return MUSTER_OK;
}

static muster_status operation_check_send(const char *where, muster_rule rule, double scale, int32_t flags) {
    if (flags & ~MUSTER_SEND_COPY)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: flags: expected 0 or MUSTER_SEND_COPY, received %" PRId32, where, flags);
    if (rule == MUSTER_RULE_ADD_SCALED && !isfinite(scale))
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: scale: expected a finite number, received %g", where, scale);
    return MUSTER_OK;
}

muster_status muster_client_send(muster_client *client, int32_t index, muster_rule rule, double scale, muster_tensor tensor, int32_t flags,
                                 muster_request **request) {
    submission o = {.where = "muster_client_send",
                    .event = "server_send",
                    .what = "tensor",
                    .index = index,
                    .scale = scale,
                    .tensor = &tensor,
                    .flags = flags};
    if (request) *request = NULL;
    if (!client) return mst_error_null(o.where, "client", "a client");
    if (__builtin_expect(!client->server, 0)) return mst_client_refuse_closed(o.where);
    MUSTER_TRY(operation_check_send(o.where, rule, scale, flags));
    MUSTER_TRY(operation_find_rule(client, o.where, index, rule, &o.rule));
    return operation_submit(client, &o, request);
}

muster_status muster_client_receive(muster_client *client, int32_t index, muster_tensor tensor, muster_request **request) {
    const submission o = {.where = "muster_client_receive", .event = "server_receive", .what = "tensor", .index = index, .tensor = &tensor};
    return operation_submit(client, &o, request);
}

/* ---- all values ---- */

static muster_status list_tensor(const mst_operation_list *list, const muster_client *client, int32_t i, muster_tensor *tensor) {
    if (list->tensors) {
        *tensor = list->tensors[i];
        return MUSTER_OK;
    }
    if (!list->variables[i]) return mst_error_null(list->where, "variables", "variables");
    return mst_function_inside_variable(client->worker, list->variables[i], !list->sends, list->where,
                                        list->sends ? "sends it" : "receives it", NULL, tensor);
}

/* Operation `i` of the list. */
static muster_status list_submission(const mst_operation_list *list, const muster_client *client, int32_t i, muster_tensor *tensor,
                                     submission *o) {
    MUSTER_TRY(list_tensor(list, client, i, tensor));
    *o = (submission){.where = list->where,
                      .event = list->sends ? "server_send" : "server_receive",
                      .what = list->what,
                      .index = i,
                      .scale = list->scale,
                      .tensor = tensor,
                      .flags = list->flags};
    return list->sends ? operation_find_rule(client, list->where, i, list->rule, &o->rule) : MUSTER_OK;
}

muster_status mst_operations_check_count(const mst_operation_list *list, const muster_server *server) {
    if (list->count == server->count) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: count: expected the %" PRId32 " values of server '%.200s', received %" PRId32,
                     list->where, server->count, server->name, list->count);
}

/* Everything is checked before anything begins. *begun: how many have been. */
static muster_status list_run(const mst_operation_list *list, muster_client *client, int32_t *begun) {
    muster_tensor tensor;
    submission o;
    MUSTER_TRY(mst_operations_check_count(list, client->server));
    for (int32_t i = 0; i < list->count; i++) {
        MUSTER_TRY(list_submission(list, client, i, &tensor, &o));
        MUSTER_TRY(operation_check(&o, client));
    }
    for (int32_t i = 0; i < list->count; i++) {
        MUSTER_TRY(list_submission(list, client, i, &tensor, &o));
        MUSTER_TRY(operation_submit_inside(client, &o, list->requests ? &list->requests[i] : NULL));
        *begun = i + 1;
    }
    return MUSTER_OK;
}

/* What has begun is waited for, so that the caller has either all requests or none. */
static muster_status list_fail(const mst_operation_list *list, int32_t begun, muster_status status) {
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    for (int32_t i = 0; list->requests && i < begun; i++)
        if (muster_request_wait(&list->requests[i]) != MUSTER_OK) continue; /* the first failure is the one that is said */
    return mst_error_restore(status, message);
}

muster_status mst_operations_run(const mst_operation_list *list, muster_client *client) {
    int32_t begun = 0;
    if (!client) return mst_error_null(list->where, "client", "a client");
    if (__builtin_expect(!client->server, 0)) return mst_client_refuse_closed(list->where);
    if (!list->tensors && !list->variables) return mst_error_null(list->where, list->what, "one for each value");
    if (list->sends) MUSTER_TRY(operation_check_send(list->where, list->rule, list->scale, list->flags));
    MUSTER_TRY(mst_client_enter(client, list->where));
    for (int32_t i = 0; list->requests && i < list->count && i < client->server->count; i++) list->requests[i] = NULL;
    const muster_status status = list_run(list, client, &begun);
    mst_client_leave(client);
    return status == MUSTER_OK ? MUSTER_OK : list_fail(list, begun, status);
}

muster_status muster_client_send_all(muster_client *client, muster_rule rule, double scale, const muster_tensor *tensors, int32_t count,
                                     int32_t flags, muster_request **requests) {
    const mst_operation_list list = {.where = "muster_client_send_all",
                                     .what = "tensors",
                                     .sends = true,
                                     .rule = rule,
                                     .scale = scale,
                                     .flags = flags,
                                     .tensors = tensors,
                                     .count = count,
                                     .requests = requests};
    return mst_operations_run(&list, client);
}

muster_status muster_client_receive_all(muster_client *client, const muster_tensor *tensors, int32_t count, muster_request **requests) {
    const mst_operation_list list = {
        .where = "muster_client_receive_all", .what = "tensors", .tensors = tensors, .count = count, .requests = requests};
    return mst_operations_run(&list, client);
}

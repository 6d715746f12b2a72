/* Creating and destroying drivers, and their options. */
#include "driver_private.h"

#include "communicator_impl.h"
#include "options_impl.h"
#include "runtime_impl.h"
#include "server_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void muster_driver_options_init_sized(muster_driver_options *options, size_t size) { mst_options_init(options, size); }

static const int64_t default_update_frequency = 25, default_init_delay = 100, default_send_frequency = 1;
static const double default_beta = 0.9;

static muster_status driver_refuse_negative(const char *where, const char *what, int64_t value) {
    if (value >= 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: %s: expected 0 or more, received %" PRId64, where, what, value);
}

/* Zero is the default. A negative number is zero where that is a value of its own, and is refused
 * elsewhere. */
static void driver_set_defaults(muster_driver_options *options) {
    if (options->update_frequency == 0) options->update_frequency = default_update_frequency;
    if (options->send_frequency == 0) options->send_frequency = default_send_frequency;
    if (options->init_delay == 0) options->init_delay = default_init_delay;
    if (options->init_delay < 0) options->init_delay = 0;
    if (options->beta == 0) options->beta = default_beta;
    if (options->beta < 0) options->beta = 0;
}

/* With the defaults set. */
static muster_status driver_check_options(const char *where, const muster_driver_options *options) {
    MUSTER_TRY(driver_refuse_negative(where, "update_frequency", options->update_frequency));
    MUSTER_TRY(driver_refuse_negative(where, "prefetch", options->prefetch));
    MUSTER_TRY(driver_refuse_negative(where, "send_frequency", options->send_frequency));
    MUSTER_TRY(driver_refuse_negative(where, "integrating", options->integrating));
    if (options->keep_initial != 0 && options->keep_initial != 1)
        return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: keep_initial: expected 0 or 1, received %" PRId32, where,
                         options->keep_initial);
    if (options->prefetch > options->update_frequency)
        return mst_error(MUSTER_INVALID_ARGUMENT,
                         "%s: options: prefetch: expected at most update_frequency, %" PRId64 ", received %" PRId64, where,
                         options->update_frequency, options->prefetch);
    return MUSTER_OK;
}

/* The program's functions are not called any more. */
static void driver_end_users(const muster_driver_options *options) {
    mst_owned_call(options->local_update_destroy, options->local_update_user);
    mst_owned_call(options->parts_destroy, options->parts.user);
}

static muster_status driver_check_worker(const char *where, const muster_worker *worker) {
    if (!worker) return mst_error_null(where, "worker", "the worker of the running function");
    if (worker == mst_current_worker()) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT,
                     "%s: worker: expected the worker of the running function, received the worker of another thread", where);
}

/* ---- memory ---- */

/* When the runtime closes, the memory of a device goes with the device, but for host memory. */
static void driver_release(muster_driver *driver, void *address) {
    if (!mst_pool_life_ended(driver->life))
        driver->device->memory->release(driver->device, address);
    else if (driver->host)
        mst_free(address);
}

static void driver_free_value(muster_driver *driver, mst_driver_value *value) {
    for (int i = 1; i >= 0; i--) {
        driver_release(driver, value->outgoing[i]);
        mst_free(value->fetched[i]);
    }
}

/* No operation of the driver is pending. */
static void driver_free(muster_driver *driver) {
    for (int32_t i = driver->values ? driver->count - 1 : -1; i >= 0; i--) driver_free_value(driver, &driver->values[i]);
    mst_free(driver->values);
    driver_release(driver, driver->widened);
    driver_release(driver, driver->flag);
    if (driver->client) mst_client_release(driver->client);
    mst_pool_life_drop(driver->life);
    memset(driver, 0, sizeof *driver);
    mst_retire(driver);
}

/* Is memory `which` of a value accumulated in f32, and the value itself f16 or bf16? */
static bool driver_widens(const muster_driver *driver, const mst_driver_value *value, int32_t which) {
    return driver->kind->accumulates && which == 0 && mst_dtype_compute(value->dtype) != value->dtype;
}

static muster_status driver_make_value(muster_driver *driver, muster_worker *worker, mst_driver_value *value) {
    const int64_t bytes = value->elements * muster_dtype_size(value->dtype);
    const int32_t fetches = driver->options.prefetch == driver->options.update_frequency ? 2 : 1;
    for (int32_t i = 0; i < fetches; i++) {
        value->fetched[i] = mst_alloc((size_t)bytes);
        if (!value->fetched[i]) return mst_out_of_memory(driver->kind->create, bytes);
    }
    for (int32_t i = 0; i < driver->kind->copies; i++) {
        const int64_t size = driver_widens(driver, value, i) ? value->elements * (int64_t)sizeof(float) : bytes;
        MUSTER_TRY(mst_worker_allocate(worker, size, &value->outgoing[i]));
    }
    value->fresh = true;
    return MUSTER_OK;
}

static muster_status driver_make_widened(muster_driver *driver, muster_worker *worker) {
    int64_t elements = 0;
    for (int32_t i = 0; i < driver->count; i++) {
        const mst_driver_value *value = &driver->values[i];
        if (driver_widens(driver, value, 0) && value->elements > elements) elements = value->elements;
    }
    return elements == 0 ? MUSTER_OK : mst_worker_allocate(worker, elements * (int64_t)sizeof(float), &driver->widened);
}

static muster_status driver_make_values(muster_driver *driver, muster_worker *worker, const muster_server *server) {
    const int64_t bytes = driver->count * (int64_t)sizeof *driver->values;
    driver->values = mst_alloc((size_t)bytes);
    if (!driver->values) return mst_out_of_memory(driver->kind->create, bytes);
    for (int32_t i = 0; i < driver->count; i++) {
        mst_driver_value *value = &driver->values[i];
        value->dtype = mst_server_dtype(server, i);
        value->elements = mst_server_elements(server, i);
        MUSTER_TRY(driver_make_value(driver, worker, value));
    }
    return driver_make_widened(driver, worker);
}

static muster_status driver_check_values(const mst_driver_kind *kind, const muster_server *server) {
    for (int32_t i = 0; kind->floats_only && i < muster_server_count(server); i++) {
        const muster_dtype dtype = mst_server_dtype(server, i);
        if (!mst_dtype_is_float(dtype))
            return mst_error(MUSTER_UNSUPPORTED, "%s: server: expected float values, received %s as value %" PRId32, kind->create,
                             muster_dtype_name(dtype), i);
    }
    return MUSTER_OK;
}

/* ---- groups ---- */

static muster_status driver_find_root(muster_driver *driver, const muster_worker *worker) {
    const muster_communicator *group = driver->options.group;
    const int32_t rank = group ? muster_communicator_rank(group, worker) : 0;
    driver->root = rank == 0;
    driver->first = group ? driver->root && muster_communicator_rank(group, mst_pool_worker(driver->pool, 0)) >= 0 : worker->rank == 0;
    if (rank >= 0) return MUSTER_OK;
    return mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: group: expected a communicator of which rank %" PRId32 " is a member",
                     driver->kind->create, mst_worker_public_rank(worker));
}

/* The last step of a creation. A worker that waits here for one whose creation has failed gets an
 * error when the body of that worker returns. */
static muster_status driver_count_integrating(muster_driver *driver, muster_worker *worker) {
    int32_t groups = muster_worker_size(worker);
    if (driver->options.integrating > 0) {
        groups = driver->options.integrating;
    } else if (driver->options.group) {
        muster_tensor host = muster_i32(&groups), flag = muster_i32(driver->flag);
        groups = driver->root;
        flag.device = worker->rank;
        MUSTER_TRY(muster_worker_write(worker, host, flag));
        MUSTER_TRY(muster_worker_all_reduce(worker, NULL, MUSTER_SUM, flag, flag));
        MUSTER_TRY(muster_worker_read(worker, flag, host));
    }
    driver->alpha = driver->options.beta / groups;
    return MUSTER_OK;
}

/* ---- create and destroy ---- */

static const char destroy_name[] = "muster_driver_destroy";

static int64_t later(int64_t step, int64_t by) {
    int64_t sum;
    return __builtin_add_overflow(step, by, &sum) ? INT64_MAX : sum;
}

static muster_status driver_fill(muster_driver *driver, muster_worker *worker, muster_server *server) {
    MUSTER_TRY(driver_find_root(driver, worker));
    MUSTER_TRY(driver_check_values(driver->kind, server));
    if (driver->root) {
        MUSTER_TRY(muster_worker_client(worker, server, &driver->client));
        mst_client_hold(driver->client);
        MUSTER_TRY(driver_make_values(driver, worker, server));
    }
    if (driver->options.group) MUSTER_TRY(mst_worker_allocate(worker, sizeof(int32_t), &driver->flag));
    return driver->kind->floats_only ? driver_count_integrating(driver, worker) : MUSTER_OK;
}

static muster_status driver_make_read(const mst_driver_kind *kind, muster_worker *worker, muster_server *server,
                                      const muster_driver_options *options, muster_driver **driver) {
    if (!driver) return mst_error_null(kind->create, "driver", "the address of a pointer");
    MUSTER_TRY(driver_check_worker(kind->create, worker));
    if (!server) return mst_error_null(kind->create, "server", "a server");
    MUSTER_TRY(driver_check_options(kind->create, options));
    muster_driver *made = mst_alloc(sizeof *made);
    if (!made) return mst_out_of_memory(kind->create, sizeof *made);
    made->kind = kind;
    made->options = *options;
    made->pool = worker->pool;
    made->life = mst_pool_life_hold(worker->pool);
    made->device = worker->device;
    made->host = mst_device_is_host(worker->device);
    made->rank = worker->rank;
    made->count = muster_server_count(server);
    made->step = made->sent_at = -1;
    made->integrate_at = later(options->init_delay, options->update_frequency);
    made->send_at = kind->sends_integrations ? INT64_MAX : later(options->init_delay, options->send_frequency);
    const muster_status status = driver_fill(made, worker, server);
    if (status != MUSTER_OK) {
        driver_free(made);
        return status;
    }
    *driver = made;
    return MUSTER_OK;
}

muster_status mst_driver_make(const mst_driver_kind *kind, muster_worker *worker, muster_server *server, const muster_driver_options *given,
                              muster_driver **driver) {
    muster_driver_options options;
    if (driver) *driver = NULL;
    muster_status status = mst_options_read(kind->create, "muster_driver_options", given, &options, sizeof options);
    if (status == MUSTER_OK && !isfinite(options.beta))
        status = mst_error(MUSTER_INVALID_ARGUMENT, "%s: options: beta: expected a finite number, received %g", kind->create, options.beta);
    driver_set_defaults(&options);
    if (status == MUSTER_OK) status = driver_make_read(kind, worker, server, &options, driver);
    if (status != MUSTER_OK) driver_end_users(&options);
    return status;
}

/* Ends every operation of the driver; the first failure. */
static muster_status driver_drain(muster_driver *driver) {
    char message[MST_MESSAGE_SIZE];
    muster_status first = MUSTER_OK;
    for (int32_t i = 0; driver->values && i < driver->count; i++) {
        mst_driver_value *value = &driver->values[i];
        mst_driver_keep_first(&first, mst_request_end(&value->sending, destroy_name), message);
        for (int32_t which = 0; which < 2; which++)
            mst_driver_keep_first(&first, mst_request_end(&value->receiving[which], destroy_name), message);
    }
    return first == MUSTER_OK ? MUSTER_OK : mst_error_restore(first, message);
}

static muster_status driver_destroy_in_body(muster_driver *driver, muster_worker *worker, bool *gone) {
    if (worker->pool != driver->pool || worker->rank != driver->rank)
        return mst_error(MUSTER_BAD_STATE, "%s: driver: expected a call in a body of its worker, rank %" PRId32 ", or outside bodies",
                         destroy_name, driver->rank);
    muster_status status = MUSTER_OK;
    if (driver->client) {
        MUSTER_TRY(mst_client_enter_wait(driver->client, destroy_name));
        status = driver_drain(driver);
        mst_client_leave_wait(driver->client);
    }
    if (mst_worker_sync(worker) != MUSTER_OK)
        return mst_error(MUSTER_BAD_STATE,
                         "%s: driver: the call was aborted, and the device may still use its memory: destroy it outside bodies",
                         destroy_name);
    driver_free(driver);
    *gone = true;
    return status;
}

/* The driver's operations ended with the body that began them. */
static muster_status driver_destroy_outside(muster_driver *driver, bool *gone) {
    mst_pool *pool = driver->pool;
    if (mst_pool_life_ended(driver->life)) {
        const muster_status ended = driver_drain(driver);
        driver_free(driver);
        *gone = true;
        return ended;
    }
    MUSTER_TRY(mst_pool_enter_to_end(pool, destroy_name));
    const muster_status status = driver_drain(driver);
    driver_free(driver);
    mst_pool_leave(pool);
    *gone = true;
    return status;
}

muster_status mst_driver_check_exists(const muster_driver *driver, const char *where) {
    if (driver->kind) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: driver: expected one that exists, received one that has been destroyed", where);
}

muster_status mst_driver_check_open(const muster_driver *driver, const char *where) {
    MUSTER_TRY(mst_driver_check_exists(driver, where));
    if (!mst_pool_life_ended(driver->life)) return MUSTER_OK;
    return mst_error(MUSTER_BAD_STATE, "%s: driver: expected one of an open runtime, received one whose runtime has been closed", where);
}

muster_status muster_driver_destroy(muster_driver *driver) {
    if (!driver) return MUSTER_OK;
    MUSTER_TRY(mst_driver_check_exists(driver, destroy_name));
    if (driver->phase != MST_DRIVER_OUTSIDE)
        return mst_error(MUSTER_BAD_STATE, "%s: driver: called inside one of its own parts", destroy_name);
    muster_worker *worker = mst_current_worker();
    const muster_driver_options options = driver->options;
    bool gone = false; /* else the driver still exists */
    const muster_status status = worker && !mst_pool_life_ended(driver->life) ? driver_destroy_in_body(driver, worker, &gone)
                                                                              : driver_destroy_outside(driver, &gone);
    if (gone) driver_end_users(&options);
    return status;
}

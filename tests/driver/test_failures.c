/* What drivers refuse, how they go on after a failure, and how they end. */
#include "driver_fixture.h"
#include "worker_impl.h"

#include "muster/communicator.h"

typedef struct scene {
    muster_server *server;
    muster_driver *kept[WORKERS];
    int failures; /* of a part still to come */
    bool in_send, lost, repeats;
    double x;
    muster_status (*create)(muster_worker *, muster_server *, const muster_driver_options *, muster_driver **);
} scene;

/* ---- refusals ---- */

typedef struct wrong_option {
    muster_driver_options options;
    const char *words;
} wrong_option;

static muster_status options_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    const wrong_option wrong[] = {
        {make_options(-1, 0, 0, 1), "options: update_frequency: expected 0 or more, received -1"},
        {make_options(5, 0, -2, 1), "options: prefetch: expected 0 or more, received -2"},
        {make_options(5, 0, 6, 1), "options: prefetch: expected at most update_frequency, 5, received 6"},
        {make_options(0, 0, 26, 1), "options: prefetch: expected at most update_frequency, 25, received 26"},
        {make_options(5, 0, 0, -1), "options: send_frequency: expected 0 or more, received -1"},
    };
    muster_driver *driver;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        driver = (muster_driver *)w;
        MUST_REFUSE(muster_driver_create(w, user, &wrong[i].options, &driver), MUSTER_INVALID_ARGUMENT, wrong[i].words);
        MUST(driver == NULL);
    }
    muster_driver_options options = make_options(5, 0, 0, 1);
    const double not_finite[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        options.beta = not_finite[i];
        MUST_REFUSE(muster_easgd_create(w, user, &options, &driver), MUSTER_INVALID_ARGUMENT,
                    "muster_easgd_create: options: beta: expected a finite number, received ");
    }
    options = make_options(5, 0, 0, 1);
    options.integrating = -1;
    MUST_REFUSE(muster_easgd_create(w, user, &options, &driver), MUSTER_INVALID_ARGUMENT,
                "options: integrating: expected 0 or more, received -1");
    options.struct_size = 0;
    MUST_REFUSE(
        muster_downpour_create(w, user, &options, &driver), MUSTER_INVALID_ARGUMENT,
        "muster_downpour_create: options: struct_size of muster_driver_options: expected the size of the program's struct, a multiple of "
        "8 up to 4096 (muster_driver_options_init sets 128), received 0");
    MUST_REFUSE(muster_downpour_create(w, NULL, NULL, &driver), MUSTER_INVALID_ARGUMENT, "server: expected a server, received NULL");
    MUST_REFUSE(muster_downpour_create(NULL, user, NULL, &driver), MUSTER_INVALID_ARGUMENT,
                "worker: expected the worker of the running function, received NULL");
    MUST_REFUSE(muster_downpour_create(w, user, NULL, NULL), MUSTER_INVALID_ARGUMENT,
                "driver: expected the address of a pointer, received NULL");
    struct {
        muster_driver_options known;
        int64_t of_a_newer_version;
    } newer = {.known = make_options(5, 0, 0, 1), .of_a_newer_version = 1};
    newer.known.struct_size = sizeof newer;
    MUST_REFUSE(
        muster_driver_create(w, user, &newer.known, &driver), MUSTER_UNSUPPORTED,
        "expected the 128 bytes of muster_driver_options that this library knows, with nothing but zeros behind them, received 136 bytes "
        "with a field set at offset 128");
    newer.of_a_newer_version = 0;
    MUSTER_TRY(muster_driver_create(w, user, &newer.known, &driver));
    return muster_driver_destroy(driver);
}

static void options_that_make_no_sense_are_refused(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    assert_ok(run_body(runtime, options_body, open_server(runtime, MUSTER_F32, 0)));
    fixture_close(runtime);
}

static muster_status arguments_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    muster_driver_options options = make_options(1, 0, 0, 1);
    muster_tensor p[VALUES], g[VALUES], other[VALUES];
    muster_driver *driver;
    muster_driver_counts counts = {.struct_size = sizeof counts};
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, p));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, g));
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 0, 0, other));
    MUSTER_TRY(muster_downpour_create(w, user, &options, &driver));
    MUST_REFUSE(muster_driver_step(NULL, w, 0, p, g, VALUES, NULL), MUSTER_INVALID_ARGUMENT, "driver: expected a driver, received NULL");
    MUST_REFUSE(muster_driver_step(driver, NULL, 0, p, g, VALUES, NULL), MUSTER_INVALID_ARGUMENT, "worker: expected");
    MUST_REFUSE(muster_driver_step(driver, w, -1, p, g, VALUES, NULL), MUSTER_INVALID_ARGUMENT, "step: expected 0 or more, received -1");
    MUST_REFUSE(muster_driver_step(driver, w, 0, p, g, 2, NULL), MUSTER_INVALID_ARGUMENT,
                "count: expected the 3 of the server, received 2");
    MUST_REFUSE(muster_driver_step(driver, w, 0, NULL, g, VALUES, NULL), MUSTER_INVALID_ARGUMENT,
                "parameters: expected 3 tensors, received NULL");
    MUST_REFUSE(muster_driver_step(driver, w, 0, p, NULL, VALUES, NULL), MUSTER_INVALID_ARGUMENT,
                "gradients: expected 3 tensors, received NULL");
    MUST_REFUSE(muster_driver_step(driver, w, 0, other, g, VALUES, NULL), MUSTER_DTYPE_MISMATCH,
                "parameters[0]: expected f32 as on the server, received f64");
    MUST_REFUSE(muster_driver_step(driver, w, 0, p, (muster_tensor[]){g[0], g[2], g[1]}, VALUES, NULL), MUSTER_SHAPE_MISMATCH,
                "gradients[1]: expected 1 elements as on the server, received 6");
    MUST_REFUSE(muster_driver_step(driver, w, 0, (muster_tensor[]){p[0], p[1], muster_tensor_transpose(p[2])}, g, VALUES, NULL),
                MUSTER_UNSUPPORTED, "parameters[2]: expected contiguous elements");
    other[0] = p[0];
    other[0].device = 5;
    MUST_REFUSE(muster_driver_step(driver, w, 0, (muster_tensor[]){other[0], p[1], p[2]}, g, VALUES, NULL), MUSTER_INVALID_ARGUMENT,
                "parameters[0]: expected memory of rank 0, received device 5");
    MUSTER_TRY(muster_driver_step(driver, w, 4, p, g, VALUES, NULL));
    MUST_REFUSE(muster_driver_step(driver, w, 3, p, g, VALUES, NULL), MUSTER_INVALID_ARGUMENT, "step: expected 4 or more, received 3");
    MUSTER_TRY(muster_driver_get_counts(driver, &counts));
    MUST(counts.fetches == 1 && counts.integrations == 1 && counts.sends == 1);
    MUST_REFUSE(muster_driver_get_counts(NULL, &counts), MUSTER_INVALID_ARGUMENT, "driver: expected");
    MUST_REFUSE(muster_driver_get_counts(driver, NULL), MUSTER_INVALID_ARGUMENT, "counts: expected");
    muster_tensor none = p[0];
    MUST_REFUSE(muster_driver_fetched(driver, VALUES, &none), MUSTER_OUT_OF_RANGE, "index: expected 0 to 2, received 3");
    MUST(none.dtype == MUSTER_DTYPE_NONE);
    MUST_REFUSE(muster_driver_fetched(driver, -1, &none), MUSTER_OUT_OF_RANGE, "index: expected 0 to 2, received -1");
    MUST_REFUSE(muster_driver_outgoing(driver, VALUES, &none), MUSTER_OUT_OF_RANGE, "index: expected 0 to 2, received 3");
    MUST_REFUSE(muster_driver_outgoing(NULL, 0, &none), MUSTER_INVALID_ARGUMENT, "driver: expected");
    MUST_REFUSE(muster_driver_outgoing(driver, 0, NULL), MUSTER_INVALID_ARGUMENT, "tensor: expected");
    MUST(!muster_driver_client(NULL) && muster_driver_alpha(NULL) == 0);
    return muster_driver_destroy(driver);
}

static void steps_with_wrong_arguments_are_refused_and_touch_nothing(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 1);
    muster_server *server = open_server(runtime, MUSTER_F32, 3);
    assert_ok(run_body(runtime, arguments_body, server));
    assert_true(server_value(server, MUSTER_F32, 0) == 3);
    fixture_close(runtime);
}

/* ---- parts that fail ---- */

static muster_status fail_first(scene *s) { return s->failures-- > 0 ? muster_fail(MUSTER_USER, "not now") : MUSTER_OK; }

static muster_status failing_update(muster_worker *w, int32_t index, muster_tensor accumulated, void *user) {
    if (index == 1) MUSTER_TRY(fail_first(user));
    return muster_scale_add(w, -1, accumulated, 0, accumulated);
}

/* The local update of value 1 fails once: whether the step is called again or left behind, every
 * gradient arrives once. */
static muster_status gradients_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    muster_driver_options options = make_options(100, 0, 0, 2);
    muster_tensor p[VALUES], g[VALUES];
    muster_driver *driver;
    options.local_update = failing_update;
    options.local_update_user = s;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, p));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, g));
    MUSTER_TRY(muster_downpour_create(w, s->server, &options, &driver));
    const bool again = s->failures == 1;
    for (int64_t step = 0; step <= 8; step++) {
        for (int32_t i = 0; i < VALUES; i++) MUSTER_TRY(muster_fill(w, (double)(1 << step), g[i]));
        const muster_status status = muster_driver_step(driver, w, step, p, g, VALUES, NULL);
        MUST((status == MUSTER_USER) == (step == 2 || (!again && step == 3)));
        if (status != MUSTER_OK && again) MUSTER_TRY(muster_driver_step(driver, w, step, p, g, VALUES, NULL));
    }
    return muster_driver_destroy(driver);
}

static void no_gradient_is_lost_or_sent_twice_when_a_local_update_fails(void **unused) {
    (void)unused;
    for_each_backend(backend) for (int failures = 1; failures <= 2; failures++) {
        muster_runtime *runtime = fixture_open(backend, 1);
        scene s = {.server = open_server(runtime, MUSTER_F32, 0), .failures = failures};
        assert_ok(run_body(runtime, gradients_body, &s));
        /* steps 1 to 8 */
        for (int32_t i = 0; i < VALUES; i++) assert_true(server_value(s.server, MUSTER_F32, i) == i - (512 - 2));
        fixture_close(runtime);
    }
}

/* ---- a device that fails behind a local update ---- */

/* The kernels of the device, of which the next launch fails. */
static struct {
    const mst_device_code_table *real;
    mst_device_code_table failing;
    int32_t failed;
} trap;

static muster_status refuse_launch(mst_device *device, mst_code_kernel *kernel, int64_t work, const void *parameters, int64_t bytes) {
    (void)kernel, (void)work, (void)parameters, (void)bytes;
    device->code = trap.real;
    trap.failed++;
    return mst_error(MUSTER_SYSTEM, "the device fails once");
}

/* The launch that follows the update of value 1 at step 2 fails: the copy to f16. */
static muster_status trapped_update(muster_worker *w, int32_t index, muster_tensor accumulated, void *user) {
    scene *s = user;
    MUSTER_TRY(muster_scale_add(w, -1, accumulated, 0, accumulated));
    if (index != 1 || s->failures-- <= 0) return MUSTER_OK;
    trap.real = w->device->code;
    trap.failing = *trap.real;
    trap.failing.launch = refuse_launch;
    w->device->code = &trap.failing;
    return MUSTER_OK;
}

static muster_status trapped_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    muster_driver_options options = make_options(100, 0, 0, 2);
    muster_tensor p[VALUES], g[VALUES];
    muster_driver *driver;
    options.local_update = trapped_update;
    options.local_update_user = s;
    MUSTER_TRY(make_tensors(w, MUSTER_F16, 0, 0, p));
    MUSTER_TRY(make_tensors(w, MUSTER_F16, 0, 0, g));
    MUSTER_TRY(muster_downpour_create(w, s->server, &options, &driver));
    for (int64_t step = 0; step <= 8; step++) {
        for (int32_t i = 0; i < VALUES; i++) MUSTER_TRY(muster_fill(w, (double)(1 << step), g[i]));
        const muster_status status = muster_driver_step(driver, w, step, p, g, VALUES, NULL);
        MUST(status == (step == 2 ? MUSTER_SYSTEM : MUSTER_OK));
        if (status != MUSTER_OK && s->repeats) MUSTER_TRY(muster_driver_step(driver, w, step, p, g, VALUES, NULL));
    }
    return muster_driver_destroy(driver);
}

/* Whether the step is called again or left behind, the update is made once and every gradient
 * arrives once. The sums of f16 gradients are f32, so that they are copied behind the update. */
static void a_local_update_is_made_once_when_the_device_fails_behind_it(void **unused) {
    (void)unused;
    static uint16_t memory[MOST];
    for (int repeats = 0; repeats < 2; repeats++) {
        muster_runtime *runtime = fixture_open("discrete", 1);
        scene s = {.failures = 1, .repeats = repeats};
        muster_tensor values[VALUES];
        muster_client *client;
        memset(memory, 0, sizeof memory);
        for (int32_t i = 0; i < VALUES; i++) values[i] = muster_tensor_make(MUSTER_F16, memory, 1, &value_sizes[i]);
        assert_ok(muster_server_create(runtime, "halves", values, VALUES, NULL, &s.server));
        trap.failed = 0;
        assert_ok(run_body(runtime, trapped_body, &s));
        assert_int_equal(trap.failed, 1);
        assert_ok(muster_client_open(s.server, &client));
        for (int32_t i = 0; i < VALUES; i++) {
            assert_ok(muster_client_receive(client, i, values[i], NULL));
            for (int64_t j = 0; j < value_sizes[i]; j++) assert_true(muster_f16_to_f32(memory[j]) == -(512 - 2)); /* steps 1 to 8 */
        }
        assert_ok(muster_client_close(client));
        fixture_close(runtime);
    }
}

static muster_status failing_integrate(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                                       int32_t count, void *user) {
    (void)step;
    MUSTER_TRY(fail_first(user));
    return muster_driver_default_integrate(driver, w, parameters, count);
}

static muster_status failing_send(muster_driver *driver, muster_worker *w, int64_t step, const muster_tensor *parameters,
                                  const muster_tensor *gradients, int32_t count, void *user) {
    (void)step, (void)parameters, (void)gradients, (void)count;
    MUSTER_TRY(fail_first(user));
    return muster_driver_default_send(driver, w);
}

/* At step 4 a part fails, once. */
static muster_status elastic_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    muster_driver_options options = make_options(2, 0, 2, 1);
    muster_tensor p[VALUES];
    muster_driver *driver;
    muster_driver_counts counts = {.struct_size = sizeof counts};
    int32_t integrated;
    options.parts =
        (muster_driver_parts){.integrate = s->in_send ? NULL : failing_integrate, .send = s->in_send ? failing_send : NULL, .user = s};
    MUSTER_TRY(make_tensors(w, MUSTER_F64, 64, 0, p));
    MUSTER_TRY(muster_easgd_create(w, s->server, &options, &driver));
    for (int64_t step = 0; step <= 12; step++) {
        s->failures = step == 4;
        const muster_status status = muster_driver_step(driver, w, step, p, NULL, VALUES, &integrated);
        MUST((status == MUSTER_USER) == (step == 4));
        if (step == 4) MUST(integrated == s->in_send);
        if (step == 5) MUST(integrated == !s->in_send);
    }
    MUSTER_TRY(muster_driver_get_counts(driver, &counts));
    MUST(counts.integrations == 6 && counts.sends == 6);
    MUSTER_TRY(full_of(w, p[0], &s->x));
    return muster_driver_destroy(driver);
}

static void an_integration_or_a_send_that_fails_is_made_at_the_next_step(void **unused) {
    (void)unused;
    for_each_backend(backend) for (int in_send = 0; in_send < 2; in_send++) {
        muster_runtime *runtime = fixture_open(backend, 1);
        scene s = {.server = open_server(runtime, MUSTER_F64, 0), .in_send = in_send};
        assert_ok(run_body(runtime, elastic_body, &s));
        assert_true(s.x < 64 && fabs(s.x + server_value(s.server, MUSTER_F64, 0) - 64) < 1e-12);
        fixture_close(runtime);
    }
}

/* ---- the server's end ---- */

static muster_status begin_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    muster_driver_options options = make_options(4, 0, 4, 1);
    muster_tensor p[VALUES], g[VALUES];
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 0, 0, p));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 0, g));
    MUSTER_TRY(s->create(w, s->server, &options, &s->kept[muster_worker_rank(w)]));
    for (int64_t step = 0; step <= 5; step++) MUSTER_TRY(muster_driver_step(s->kept[muster_worker_rank(w)], w, step, p, g, VALUES, NULL));
    return MUSTER_OK;
}

static muster_status go_on_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    muster_driver *driver = s->kept[muster_worker_rank(w)];
    muster_tensor p[VALUES], g[VALUES];
    double number;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 77, 0, p));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 0, g));
    for (int64_t step = 6; step <= 8; step++) {
        muster_status status = muster_driver_step(driver, w, step, p, g, VALUES, NULL);
        /* each operation that a lost call has ended is told of once */
        for (int i = 0; s->lost && status == MUSTER_ABORTED && i < 3 * VALUES; i++)
            status = muster_driver_step(driver, w, step, p, g, VALUES, NULL);
        MUSTER_TRY(status);
    }
    MUSTER_TRY(full_of(w, p[0], &number));
    MUST(number < 77);
    return MUSTER_OK;
}

static void a_driver_lives_on_between_calls_and_ends_outside_them(void **unused) {
    (void)unused;
    for_each_backend(backend) for (int kind = 0; kind < 2; kind++) {
        muster_runtime *runtime = fixture_open(backend, 2);
        scene s = {.server = open_server(runtime, MUSTER_F32, 0), .create = kind ? muster_easgd_create : muster_downpour_create};
        assert_ok(run_body(runtime, begin_body, &s));
        allowed_spread = 77; /* a receive may see of one shard what the other worker has sent, and of the next not yet */
        assert_ok(run_body(runtime, go_on_body, &s));
        allowed_spread = 0;
        /* with operations that nobody has waited for */
        for (int r = 0; r < 2; r++) assert_ok(muster_driver_destroy(s.kept[r]));
        if (!kind) assert_true(server_value(s.server, MUSTER_F32, 0) == -16);
        fixture_close(runtime);
    }
}

static muster_status after_server_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    muster_tensor p[VALUES], g[VALUES];
    double number;
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 77, 0, p));
    MUSTER_TRY(make_tensors(w, MUSTER_F32, 1, 0, g));
    MUST_REFUSE(muster_driver_step(s->kept[0], w, 8, p, g, VALUES, NULL), MUSTER_BAD_STATE, "destroyed");
    MUST_REFUSE(muster_driver_step(s->kept[0], w, 9, p, g, VALUES, NULL), MUSTER_BAD_STATE, "destroyed");
    MUSTER_TRY(full_of(w, p[0], &number));
    MUST(number == 77);
    return muster_driver_destroy(s->kept[0]);
}

static void steps_after_the_servers_end_say_so(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 1);
        scene s = {.server = open_server(runtime, MUSTER_F32, 0), .create = muster_downpour_create};
        assert_ok(run_body(runtime, begin_body, &s));
        assert_ok(muster_server_destroy(s.server));
        assert_ok(run_body(runtime, after_server_body, &s));
        fixture_close(runtime);
    }
}

static muster_status foreign_destroy_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    const int32_t rank = muster_worker_rank(w);
    MUSTER_TRY(muster_driver_create(w, s->server, NULL, &s->kept[rank]));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    if (rank == 0)
        MUST_REFUSE(muster_driver_destroy(s->kept[1]), MUSTER_BAD_STATE,
                    "driver: expected a call in a body of its worker, rank 1, or outside bodies");
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    return muster_driver_destroy(s->kept[rank]);
}

static void another_worker_cannot_destroy_it(void **unused) {
    (void)unused;
    muster_runtime *runtime = fixture_open("host", 2);
    scene s = {.server = open_server(runtime, MUSTER_F32, 0)};
    assert_ok(run_body(runtime, foreign_destroy_body, &s));
    assert_ok(muster_driver_destroy(NULL));
    fixture_close(runtime);
}

/* A worker's body fails while the others' drivers are busy: each can be ended afterwards, and the
 * server goes on. */
static muster_status lost_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    MUSTER_TRY(begin_body(w, in, out, user));
    MUSTER_TRY(muster_worker_barrier(w, NULL));
    if (muster_worker_rank(w) == 1) return muster_fail(MUSTER_USER, "rank 1 has had enough");
    return muster_worker_barrier(w, NULL);
}

static void drivers_survive_a_call_that_is_lost(void **unused) {
    (void)unused;
    for_each_backend(backend) {
        muster_runtime *runtime = fixture_open(backend, 3);
        scene s = {.server = open_server(runtime, MUSTER_F32, 0), .create = muster_downpour_create, .lost = true};
        allowed_spread = 3; /* and have come to some shards only */
        assert_refused(run_body(runtime, lost_body, &s), MUSTER_USER, "rank 1 has had enough");
        assert_ok(run_body(runtime, go_on_body, &s));
        for (int r = 0; r < 3; r++) assert_ok(muster_driver_destroy(s.kept[r]));
        /* of each worker one send may have been under way */
        const double last = server_value(s.server, MUSTER_F32, 0);
        assert_true(last >= -24 && last <= -21);
        allowed_spread = 0;
        fixture_close(runtime);
    }
}

/* ---- memory ---- */

static muster_status memory_body(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    muster_driver_options options = make_options(4, 0, 4, 1);
    muster_driver *driver;
    muster_client *client;
    MUSTER_TRY(muster_worker_client(w, s->server, &client)); /* whose memory stays */
    for (int64_t k = 1; k < 100; k++) {
        const int64_t live = mst_memory_live();
        mst_memory_fail_at(k);
        const muster_status status = s->create(w, s->server, &options, &driver);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) {
            MUSTER_TRY(muster_driver_destroy(driver));
            MUST(mst_memory_live() == live && k > 1);
            s->failures = (int)k - 1;
            return MUSTER_OK;
        }
        MUST(status == MUSTER_OUT_OF_MEMORY && !driver && mst_memory_live() == live);
    }
    return muster_fail(MUSTER_USER, "it never succeeds");
}

static void a_creation_without_memory_leaves_nothing(void **unused) {
    (void)unused;
    muster_status (*const create[])(muster_worker *, muster_server *, const muster_driver_options *,
                                    muster_driver **) = {muster_driver_create, muster_downpour_create, muster_easgd_create};
    for (int i = 0; i < 3; i++) {
        muster_runtime *runtime = fixture_open("host", 1);
        scene s = {.server = open_server(runtime, MUSTER_F32, 0), .create = create[i]};
        assert_ok(run_body(runtime, memory_body, &s));
        assert_true(s.failures >= 2 + VALUES * 2);
        fixture_close(runtime);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(steps_with_wrong_arguments_are_refused_and_touch_nothing),
        cmocka_unit_test(no_gradient_is_lost_or_sent_twice_when_a_local_update_fails),
        cmocka_unit_test(a_local_update_is_made_once_when_the_device_fails_behind_it),
        cmocka_unit_test(an_integration_or_a_send_that_fails_is_made_at_the_next_step),
        cmocka_unit_test(a_driver_lives_on_between_calls_and_ends_outside_them),
        cmocka_unit_test(steps_after_the_servers_end_say_so),
        cmocka_unit_test(another_worker_cannot_destroy_it),
        cmocka_unit_test(drivers_survive_a_call_that_is_lost),
        cmocka_unit_test(a_creation_without_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Destroy functions of `user` pointers: each is called once, when its object has ended or was
 * refused, in the thread of that call, and while the library holds no lock. */
#include "driver_fixture.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* What one destroy function has seen. */
typedef struct hook {
    int calls;
    pthread_t thread;
    /* Where it calls the library, as programs may. NULL: nowhere. Under a lock of the library this
     * would never return. */
    muster_runtime *runtime;
    muster_server *server;
} hook;

static muster_status no_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)worker, (void)in, (void)out, (void)user;
    return MUSTER_OK;
}
static const muster_backend_body everywhere = {NULL, no_body};

static void destroy_hook(void *user) {
    hook *h = user;
    muster_function *function;
    h->calls++;
    h->thread = pthread_self();
    (void)muster_fail(MUSTER_USER, "a destroy function has failed, too");
    if (h->runtime) {
        assert_ok(muster_function_create(h->runtime, "of a destroy function", no_body, NULL, &function));
        assert_ok(muster_function_destroy(function));
    }
    if (h->server) assert_int_equal(muster_server_add_rule(h->server, "", NULL, NULL, &(muster_rule){0}), MUSTER_INVALID_ARGUMENT);
}

/* It has been called once, in this thread. */
#define assert_ended(h)                                          \
    do {                                                         \
        assert_int_equal((h)->calls, 1);                         \
        assert_true(pthread_equal((h)->thread, pthread_self())); \
    } while (0)

/* The creation is refused, its message is the last error, and the destroy function has run once.
 * Counts the refusals. */
static int refusals;
#define assert_ends_refused(h, call, code, words) \
    do {                                          \
        *(h) = (hook){.runtime = (h)->runtime};   \
        assert_refused(call, code, words);        \
        assert_ended(h);                          \
        refusals++;                               \
    } while (0)

static muster_status no_rule(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count, double scale) {
    (void)dtype, (void)value, (void)tensor, (void)first, (void)count, (void)scale;
    return user && ((hook *)user)->calls == 0 ? MUSTER_OK : muster_fail(MUSTER_USER, "a rule is called after its end");
}
static muster_status no_fill(void *user, int32_t index, muster_dtype dtype, void *value, int64_t first, int64_t count) {
    (void)index, (void)first;
    memset(value, 0, (size_t)(count * muster_dtype_size(dtype)));
    return user && ((hook *)user)->calls == 0 ? MUSTER_OK : muster_fail(MUSTER_USER, "a fill is called after its end");
}
static void no_log(void *user, muster_log_level level, const char *line) { (void)user, (void)level, (void)line; }

static muster_runtime_options log_options(hook *h) {
    muster_runtime_options options;
    muster_runtime_options_init(&options);
    options.devices = "host:2";
    options.log = no_log;
    options.log_user = h;
    options.log_destroy = destroy_hook;
    return options;
}

static muster_server_options fill_options(hook *h) {
    muster_server_options options;
    muster_server_options_init(&options);
    options.fill = no_fill;
    options.fill_user = h;
    options.fill_destroy = destroy_hook;
    options.progress = -1;
    return options;
}

static muster_driver_options driver_options(hook *update, hook *parts) {
    muster_driver_options options = make_options(1, 0, 0, 1);
    options.local_update_user = update;
    options.local_update_destroy = destroy_hook;
    options.parts.user = parts;
    options.parts_destroy = destroy_hook;
    return options;
}

/* ---- functions ---- */

static void functions(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("host", 2), *other = fixture_open("host", 1);
    hook h = {.runtime = runtime}, kept = {.runtime = runtime}, left[3] = {{.runtime = other}, {.runtime = other}, {.runtime = other}};
    muster_function *f, *g;
    assert_ok(muster_function_create_owned(runtime, "kept", &everywhere, 1, &kept, destroy_hook, &g));
    refusals = 0;
    const muster_backend_body none = {NULL, NULL}, cuda = {"no such backend", no_body};
#define CREATE(runtime, name, bodies, count, to) muster_function_create_owned(runtime, name, bodies, count, &h, destroy_hook, to)
    assert_ends_refused(&h, CREATE(NULL, "f", &everywhere, 1, &f), MUSTER_INVALID_ARGUMENT, "runtime");
    assert_ends_refused(&h, CREATE(runtime, NULL, &everywhere, 1, &f), MUSTER_INVALID_ARGUMENT, "name");
    assert_ends_refused(&h, CREATE(runtime, "", &everywhere, 1, &f), MUSTER_INVALID_ARGUMENT, "name");
    assert_ends_refused(&h, CREATE(runtime, "kept", &everywhere, 1, &f), MUSTER_INVALID_ARGUMENT, "'kept'");
    assert_ends_refused(&h, CREATE(runtime, "f", NULL, 1, &f), MUSTER_INVALID_ARGUMENT, "bodies");
    assert_ends_refused(&h, CREATE(runtime, "f", &everywhere, 0, &f), MUSTER_INVALID_ARGUMENT, "body_count");
    assert_ends_refused(&h, CREATE(runtime, "f", &none, 1, &f), MUSTER_INVALID_ARGUMENT, "bodies[0]");
    assert_ends_refused(&h, CREATE(runtime, "f", &cuda, 1, &f), MUSTER_UNSUPPORTED, "has no body for device 0");
    assert_ends_refused(&h, CREATE(runtime, "f", &everywhere, 1, NULL), MUSTER_INVALID_ARGUMENT, "function");
    assert_int_equal(refusals, 9);
    h = (hook){.runtime = runtime};
    assert_ok(CREATE(runtime, "f", &everywhere, 1, &f));
    assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    assert_int_equal(h.calls, 0);
    assert_ok(muster_function_destroy(f));
    assert_ended(&h);
    assert_ok(muster_function_create_owned(runtime, "f", &everywhere, 1, &h, NULL, &f)); /* without one */
    assert_int_equal(kept.calls, 0);
    assert_ok(muster_function_destroy(g));
    assert_ended(&kept);
    for (int i = 0; i < 3; i++)
        assert_ok(muster_function_create_owned(runtime, (const char *[]){"a", "b", "c"}[i], &everywhere, 1, &left[i], destroy_hook, &f));
    fixture_close(runtime);
    for (int i = 0; i < 3; i++) assert_ended(&left[i]);
    fixture_close(other);
    assert_int_equal(h.calls, 1);
}

/* A function that a body destroys is refused, and lives on. */
static muster_status destroys_itself(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)worker, (void)in, (void)out;
    MUST(muster_function_destroy(*(muster_function **)user) == MUSTER_BAD_STATE);
    return MUSTER_OK;
}
static int counted_calls;
static void count_call(void *user) { (void)user, counted_calls++; }
static void a_refused_end_calls_nothing(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("host", 1);
    muster_function *f;
    const muster_backend_body body = {NULL, destroys_itself};
    counted_calls = 0;
    assert_ok(muster_function_create_owned(runtime, "f", &body, 1, &f, count_call, &f));
    assert_ok(muster_function_call(f, NULL, 0, NULL, 0, NULL));
    assert_int_equal(counted_calls, 0);
    assert_ok(muster_function_destroy(f));
    assert_int_equal(counted_calls, 1);
    fixture_close(runtime);
}

/* ---- rules and fills ---- */

static void rules(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("host", 2), *other = fixture_open("host", 1);
    muster_server *server = open_server(runtime, MUSTER_F32, 0);
    hook h = {.runtime = runtime}, kept = {.runtime = runtime, .server = server}, full[64] = {{0}};
    muster_rule rule;
    float ones[MOST];
    for (int i = 0; i < MOST; i++) ones[i] = 1;
    assert_ok(muster_server_add_rule_owned(server, "kept", no_rule, &kept, destroy_hook, &rule));
    refusals = 0;
#define ADD(server, name, function, to) muster_server_add_rule_owned(server, name, function, &h, destroy_hook, to)
    assert_ends_refused(&h, ADD(NULL, "r", no_rule, &rule), MUSTER_INVALID_ARGUMENT, "server");
    assert_ends_refused(&h, ADD(server, NULL, no_rule, &rule), MUSTER_INVALID_ARGUMENT, "name");
    assert_ends_refused(&h, ADD(server, "", no_rule, &rule), MUSTER_INVALID_ARGUMENT, "name");
    assert_ends_refused(&h, ADD(server, "kept", no_rule, &rule), MUSTER_INVALID_ARGUMENT, "'kept'");
    assert_ends_refused(&h, ADD(server, "r", NULL, &rule), MUSTER_INVALID_ARGUMENT, "function");
    assert_ends_refused(&h, ADD(server, "r", no_rule, NULL), MUSTER_INVALID_ARGUMENT, "rule");
    muster_client *client;
    assert_ok(muster_client_open(server, &client));
    assert_ok(muster_client_send(client, 0, MUSTER_RULE_USER, 1, muster_f32(ones, MOST), 0, NULL));
    assert_ok(muster_client_close(client));
    assert_int_equal(kept.calls, 0);
    kept.server = NULL;
    assert_ok(muster_server_destroy(server));
    assert_ended(&kept);
    assert_ends_refused(&h, ADD(server, "r", no_rule, &rule), MUSTER_BAD_STATE, "destroyed");
    server = open_server(runtime, MUSTER_F32, 0);
    for (int i = 0; i < 64; i++) {
        char name[16];
        snprintf(name, sizeof name, "rule %d", i);
        full[i].runtime = other;
        assert_ok(muster_server_add_rule_owned(server, name, no_rule, &full[i], destroy_hook, &rule));
    }
    assert_ends_refused(&h, ADD(server, "one more", no_rule, &rule), MUSTER_OUT_OF_RANGE, "64");
    assert_int_equal(refusals, 8);
    fixture_close(runtime);
    for (int i = 0; i < 64; i++) assert_ended(&full[i]);
    fixture_close(other);
    assert_int_equal(kept.calls, 1);
}

static void fills(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("host", 2);
    float x[4] = {1, 2, 3, 4};
    const muster_tensor value = muster_f32(x, 4);
    muster_variable *v;
    muster_server *server, *twin;
    hook h = {.runtime = runtime};
    muster_server_options options = fill_options(&h);
    assert_ok(muster_variable_create(runtime, "v", value, &v));
    refusals = 0;
    assert_ends_refused(&h, muster_server_create(NULL, "s", &value, 1, &options, &server), MUSTER_INVALID_ARGUMENT, "runtime");
    assert_ends_refused(&h, muster_server_create(runtime, NULL, &value, 1, &options, &server), MUSTER_INVALID_ARGUMENT, "name");
    assert_ends_refused(&h, muster_server_create(runtime, "s", NULL, 1, &options, &server), MUSTER_INVALID_ARGUMENT, "values");
    assert_ends_refused(&h, muster_server_create(runtime, "s", &value, 0, &options, &server), MUSTER_INVALID_ARGUMENT, "count");
    assert_ends_refused(&h, muster_server_create(runtime, "s", &value, 1, &options, NULL), MUSTER_INVALID_ARGUMENT, "server");
    assert_ends_refused(&h, muster_server_create_from(runtime, "s", NULL, 1, &options, &server), MUSTER_INVALID_ARGUMENT, "variables");
    options.shards = -1;
    assert_ends_refused(&h, muster_server_create(runtime, "s", &value, 1, &options, &server), MUSTER_INVALID_ARGUMENT, "shards");
    options.shards = 0;
    struct {
        muster_server_options known;
        int64_t later;
    } newer = {.known = options, .later = 1};
    newer.known.struct_size = sizeof newer;
    assert_ends_refused(&h, muster_server_create(runtime, "s", &value, 1, &newer.known, &server), MUSTER_UNSUPPORTED, "offset");
    options.struct_size = 7; /* nothing of it is read */
    h.calls = 0;
    assert_refused(muster_server_create(runtime, "s", &value, 1, &options, &server), MUSTER_INVALID_ARGUMENT, "struct_size");
    assert_int_equal(h.calls, 0);
    options.struct_size = sizeof options;
    for (int variables = 0; variables < 2; variables++) {
        h = (hook){.runtime = runtime};
        assert_ok(variables ? muster_server_create_from(runtime, "s", &v, 1, &options, &server)
                            : muster_server_create(runtime, "s", &value, 1, &options, &server));
        assert_ended(&h);
        assert_ends_refused(&h, muster_server_create(runtime, "s", &value, 1, &options, &twin), MUSTER_INVALID_ARGUMENT, "'s'");
        assert_ok(muster_server_destroy(server));
    }
    assert_int_equal(refusals, 10);
    fixture_close(runtime);
}

/* ---- inside bodies ---- */

typedef struct scene {
    muster_runtime *runtime;
    muster_server *server; /* for drivers */
    hook fills[2], updates[2], parts[2], kept[2];
    muster_driver *drivers[2];
} scene;

static bool ended(const hook *h) { return h->calls == 1 && pthread_equal(h->thread, pthread_self()); }

static muster_status server_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    const int32_t rank = muster_worker_rank(worker);
    float x[2] = {1, 2};
    const muster_tensor value = muster_f32(x, 2);
    const muster_server_options options = fill_options(&s->fills[rank]);
    muster_server *server;
    MUST_REFUSE(muster_worker_create_server(NULL, s->runtime, "in bodies", &value, 1, &options, &server), MUSTER_INVALID_ARGUMENT,
                "worker");
    MUST(ended(&s->fills[rank]));
    s->fills[rank].calls = 0;
    MUSTER_TRY(muster_worker_create_server(worker, s->runtime, "in bodies", &value, 1, &options, &server));
    MUST(ended(&s->fills[rank]));
    return MUSTER_OK;
}

static muster_status driver_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    const int32_t rank = muster_worker_rank(worker);
    hook *update = &s->updates[rank], *parts = &s->parts[rank];
    muster_driver_options options = driver_options(update, parts);
    muster_status (*const create[])(muster_worker *, muster_server *, const muster_driver_options *,
                                    muster_driver **) = {muster_driver_create, muster_downpour_create, muster_easgd_create};
    muster_driver *driver;
#define REFUSED(call, words)                               \
    do {                                                   \
        update->calls = parts->calls = 0;                  \
        MUST_REFUSE(call, MUSTER_INVALID_ARGUMENT, words); \
        MUST(ended(update) && ended(parts));               \
    } while (0)
    for (int i = 0; i < 3; i++) {
        REFUSED(create[i](NULL, s->server, &options, &driver), "worker");
        REFUSED(create[i](worker, NULL, &options, &driver), "server");
        REFUSED(create[i](worker, s->server, &options, NULL), "driver");
        options.prefetch = 2;
        REFUSED(create[i](worker, s->server, &options, &driver), "prefetch");
        options.prefetch = 0;
        update->calls = parts->calls = 0;
        MUSTER_TRY(create[i](worker, s->server, &options, &driver));
        MUST(update->calls == 0 && parts->calls == 0);
        MUSTER_TRY(muster_driver_destroy(driver));
        MUST(ended(update) && ended(parts));
    }
    options = driver_options(&s->kept[rank], NULL);
    options.parts_destroy = NULL;
    return muster_downpour_create(worker, s->server, &options, &s->drivers[rank]);
}

/* The driver of rank 0 is destroyed outside of bodies, that of rank 1 after the runtime. */
static void creations_in_bodies(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("host", 2);
    scene s = {.runtime = runtime, .server = open_server(runtime, MUSTER_F32, 0)};
    assert_ok(run_body(runtime, server_body, &s));
    assert_ok(run_body(runtime, driver_body, &s));
    s.kept[0].runtime = runtime;
    assert_int_equal(s.kept[0].calls, 0);
    assert_ok(muster_driver_destroy(s.drivers[0]));
    assert_ended(&s.kept[0]);
    fixture_close(runtime);
    assert_int_equal(s.kept[1].calls, 0);
    assert_ok(muster_driver_destroy(s.drivers[1]));
    assert_ended(&s.kept[1]);
}

/* ---- the log ---- */

static void logs(void **state) {
    (void)state;
    muster_runtime *other = fixture_open("host", 1), *runtime;
    hook h = {.runtime = other};
    muster_runtime_options options = log_options(&h);
    refusals = 0;
    assert_ends_refused(&h, muster_runtime_open(&options, NULL), MUSTER_INVALID_ARGUMENT, "runtime");
    options.devices = "no such device";
    assert_ends_refused(&h, muster_runtime_open(&options, &runtime), MUSTER_INVALID_ARGUMENT, "no such device");
    options.devices = "host:2";
    options.logical_shards = 3;
    assert_ends_refused(&h, muster_runtime_open(&options, &runtime), MUSTER_INVALID_ARGUMENT, "logical_shards");
    options.logical_shards = 0;
    options.collective_algorithm = "no such algorithm"; /* when the workers run already */
    assert_ends_refused(&h, muster_runtime_open(&options, &runtime), MUSTER_INVALID_ARGUMENT, "no such algorithm");
    assert_int_equal(refusals, 4);
    options.collective_algorithm = NULL;
    h = (hook){.runtime = other};
    assert_ok(muster_runtime_open(&options, &runtime));
    assert_ok(muster_runtime_dump(runtime, 1));
    assert_int_equal(h.calls, 0);
    assert_ok(muster_runtime_close(runtime));
    assert_ended(&h);
    fixture_close(other);
}

/* ---- memory ---- */

/* Everything that takes a `user`, outside of bodies. Whatever fails, each destroy function has been
 * called once when this returns. */
static muster_status whole_life(hook hooks[4]) {
    uint16_t halves[8] = {0};
    const muster_tensor value = muster_tensor_make(MUSTER_F16, halves, 1, &(int64_t){8}); /* a rule of the program then needs memory */
    const muster_runtime_options options = log_options(&hooks[0]);
    const muster_server_options filled = fill_options(&hooks[2]);
    muster_runtime *runtime;
    muster_function *f;
    muster_server *server;
    muster_rule rule;
    MUSTER_TRY(muster_runtime_open(&options, &runtime));
    muster_status status = muster_function_create_owned(runtime, "f", &everywhere, 1, &hooks[1], destroy_hook, &f);
    if (status == MUSTER_OK) status = muster_server_create(runtime, "s", &value, 1, &filled, &server);
    if (status == MUSTER_OK) status = muster_server_add_rule_owned(server, "rule", no_rule, &hooks[3], destroy_hook, &rule);
    char message[MST_MESSAGE_SIZE];
    mst_error_save(message);
    assert_ok(muster_runtime_close(runtime));
    return status == MUSTER_OK ? MUSTER_OK : mst_error_restore(status, message);
}

static void without_memory_each_is_called_once(void **state) {
    (void)state;
    int reached[5] = {0}; /* how often creation number i was the one that failed */
    bool done = false;
    for (int64_t k = 1; !done; k++) {
        hook hooks[4] = {{0}};
        const int64_t live = mst_memory_live(), before = mst_memory_count();
        mst_memory_fail_at(k);
        const muster_status status = whole_life(hooks);
        mst_memory_fail_at(0);
        done = mst_memory_count() - before < k; /* nothing has failed */
        int given = 0;
        while (given < 4 && hooks[given].calls == 1) given++;
        for (int i = given; i < 4; i++) assert_int_equal(hooks[i].calls, 0); /* the failure came before it was given */
        assert_true(given >= 1);
        assert_true(status == MUSTER_OK ? given == 4 : !done && (status == MUSTER_OUT_OF_MEMORY || status == MUSTER_SYSTEM));
        reached[status == MUSTER_OK ? 4 : given - 1]++;
        assert_int_equal(mst_memory_live(), live);
    }
    for (int i = 0; i < 5; i++) assert_true(reached[i] >= 1);
    assert_true(reached[1] >= 3 && reached[3] >= 3); /* the object, its entry, its name, ... */
}

static muster_status memory_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) {
    (void)in, (void)out;
    scene *s = user;
    muster_driver *driver;
    for (int64_t k = 1; k < 100; k++) {
        const muster_driver_options options = driver_options(&s->updates[0], &s->parts[0]);
        s->updates[0] = s->parts[0] = (hook){0};
        mst_memory_fail_at(k);
        const muster_status status = muster_downpour_create(worker, s->server, &options, &driver);
        mst_memory_fail_at(0);
        if (status == MUSTER_OK) {
            MUST(s->updates[0].calls == 0 && s->parts[0].calls == 0 && k > 3);
            MUSTER_TRY(muster_driver_destroy(driver));
        }
        MUST(ended(&s->updates[0]) && ended(&s->parts[0]));
        if (status == MUSTER_OK) return MUSTER_OK;
    }
    return muster_fail(MUSTER_USER, "it never succeeds");
}

static void a_driver_without_memory(void **state) {
    (void)state;
    muster_runtime *runtime = fixture_open("host", 1);
    scene s = {.server = open_server(runtime, MUSTER_F32, 0)};
    assert_ok(run_body(runtime, memory_body, &s));
    fixture_close(runtime);
}

/* ---- while a rule runs ---- */

/* The rule looks whether its destroy function has been called. Destroying the server waits for
 * operations that threads of the server apply. */
static void no_rule_is_called_after_its_end(void **state) {
    (void)state;
    enum { SENDS = 200 };
    for (int close = 0; close < 2; close++) {
        muster_runtime *runtime = fixture_open("host", 2);
        float x[8] = {0};
        const muster_tensor value = muster_f32(x, 8);
        muster_server_options options;
        muster_server_options_init(&options);
        options.progress = 2;
        muster_server *server;
        muster_client *client;
        muster_rule rule;
        muster_request *requests[SENDS];
        hook h = {0};
        assert_ok(muster_server_create(runtime, "s", &value, 1, &options, &server));
        assert_ok(muster_server_add_rule_owned(server, "rule", no_rule, &h, destroy_hook, &rule));
        assert_ok(muster_client_open(server, &client));
        for (int i = 0; i < SENDS; i++) assert_ok(muster_client_send(client, 0, rule, 1, value, 0, &requests[i]));
        assert_int_equal(h.calls, 0);
        if (!close) assert_ok(muster_server_destroy(server));
        if (close) fixture_close(runtime);
        assert_ended(&h);
        assert_ok(muster_requests_wait_all(requests, SENDS)); /* no rule has failed */
        assert_ok(muster_client_close(client));
        if (!close) fixture_close(runtime);
        assert_int_equal(h.calls, 1);
    }
}

/* ---- fork ---- */

/* In the child nothing of the parent's is ended, and what is refused is ended there. */
static void after_fork(void **state) {
    (void)state;
    hook log = {0}, body = {0}, rule_hook = {0}, refused = {0};
    const muster_runtime_options options = log_options(&log);
    muster_runtime *runtime;
    muster_function *f, *other;
    muster_rule rule;
    assert_ok(muster_runtime_open(&options, &runtime));
    muster_server *server = open_server(runtime, MUSTER_F32, 0);
    assert_ok(muster_function_create_owned(runtime, "f", &everywhere, 1, &body, destroy_hook, &f));
    assert_ok(muster_server_add_rule_owned(server, "rule", no_rule, &rule_hook, destroy_hook, &rule));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int faults = 0;
        faults += muster_function_create_owned(runtime, "g", &everywhere, 1, &refused, destroy_hook, &other) != MUSTER_BAD_STATE;
        faults += refused.calls != 1;
        faults += muster_server_add_rule_owned(server, "s", no_rule, &refused, destroy_hook, &rule) != MUSTER_BAD_STATE;
        faults += refused.calls != 2;
        faults += muster_function_destroy(f) != MUSTER_BAD_STATE || muster_server_destroy(server) != MUSTER_BAD_STATE;
        faults += muster_runtime_close(runtime) != MUSTER_OK;
        faults += log.calls + body.calls + rule_hook.calls;
        _exit(faults);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
    assert_int_equal(log.calls + body.calls + rule_hook.calls, 0);
    assert_ok(muster_runtime_close(runtime));
    assert_ended(&log);
    assert_ended(&body);
    assert_ended(&rule_hook);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions),
        cmocka_unit_test(a_refused_end_calls_nothing),
        cmocka_unit_test(rules),
        cmocka_unit_test(fills),
        cmocka_unit_test(creations_in_bodies),
        cmocka_unit_test(logs),
        cmocka_unit_test(without_memory_each_is_called_once),
        cmocka_unit_test(a_driver_without_memory),
        cmocka_unit_test(no_rule_is_called_after_its_end),
        cmocka_unit_test(after_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

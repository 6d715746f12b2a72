// muster/muster.hpp: every object, on two CPU devices. Results are compared with plain loops.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muster/muster.hpp"

namespace {

using muster::check;

#define EXPECT(condition) expect((condition), #condition, __LINE__)
void expect(bool holds, const char *condition, int line) {
    if (holds) return;
    std::fprintf(stderr, "line %d: expected %s\n", line, condition);
    std::exit(1);
}

// The error that the call throws: its status, and words of its message.
template <class Call> void expect_error(muster_status status, const char *words, int line, const Call &call) {
    try {
        call();
    } catch (const muster::error &failure) {
        if (failure.status() == status && std::strstr(failure.what(), words)) return;
        std::fprintf(stderr, "line %d: expected %s with \"%s\", received %s with \"%s\"\n", line, muster_status_name(status), words,
                     muster_status_name(failure.status()), failure.what());
        std::exit(1);
    }
    std::fprintf(stderr, "line %d: expected %s with \"%s\", received no error\n", line, muster_status_name(status), words);
    std::exit(1);
}
#define EXPECT_ERROR(status, words, call) expect_error(status, words, __LINE__, [&] { call; })

const char *const devices = "host:2";

// y = x * factor, on the worker's rows.
auto times(double factor) {
    return
        [factor](muster_worker *w, const muster_tensor *in, muster_tensor *out) { check(muster_scale_add(w, factor, in[0], 0, out[0])); };
}

muster::function make_times(const muster::runtime &runtime, const char *name, double factor) {
    muster::function f(runtime, name, times(factor));
    f.input("x", MUSTER_F64, 1, MUSTER_SCATTER).output("y", MUSTER_F64, 1, MUSTER_GATHER);
    return f;
}

void expect_works(const muster::function &f, double factor) {
    const std::vector<double> x = {1, 2, 3, 4, 5};
    std::vector<double> y(5);
    f({muster::tensor(x)}, {muster::tensor(y)});
    for (size_t i = 0; i < x.size(); i++) EXPECT(y[i] == factor * x[i]);
}

void a_lambda_is_a_body() {
    const muster::runtime runtime(devices);
    EXPECT(runtime.size() == 2);
    EXPECT(runtime.description().find("devices") != std::string::npos);
    expect_works(make_times(runtime, "times", 3), 3);
    const std::vector<double> x = {1, 2, 3};
    const double sum = [&] {
        double total = 0;
        muster::function f(runtime, "sum",
                           [](muster_worker *w, const muster_tensor *in, muster_tensor *out) { return muster_sum(w, in[0], out[0]); });
        f.input("x", MUSTER_F64, 1, MUSTER_SCATTER).output("total", MUSTER_F64, 0, MUSTER_SUM);
        const std::vector<muster_tensor> inputs = {muster::tensor(x)}, outputs = {muster::tensor(&total)};
        f(inputs, outputs);
        f.single(inputs, outputs);
        return total;
    }();
    EXPECT(sum == 6);
}

// Each exception comes out of the call, and the runtime is usable afterwards.
void an_exception_of_a_body_comes_out_of_the_call() {
    const muster::runtime runtime(devices);
    const auto f = make_times(runtime, "times", 2);
    int what = 0;
    const muster::function throws(runtime, "throws", [&what](muster_worker *w, const muster_tensor *, muster_tensor *) {
        if (muster_worker_rank(w) != 1) return;
        if (what == 0) throw std::invalid_argument("these rows are wrong");
        if (what == 1) throw std::bad_alloc();
        if (what == 2) throw muster::error(MUSTER_UNSUPPORTED, "not this one");
        if (what == 3) throw 42;
        check(muster_sum(w, muster_tensor_none(), muster_tensor_none()));
    });
    const std::array<muster_status, 5> statuses = {MUSTER_USER, MUSTER_OUT_OF_MEMORY, MUSTER_UNSUPPORTED, MUSTER_USER,
                                                   MUSTER_INVALID_ARGUMENT};
    const std::array<const char *, 5> words = {"these rows are wrong", "bad_alloc", "not this one", "no std::exception", "muster_sum"};
    for (; what < 5; what++) {
        const auto i = static_cast<size_t>(what);
        EXPECT_ERROR(statuses[i], words[i], throws({}));
        EXPECT_ERROR(statuses[i], "(rank 1)", throws({}));
        EXPECT_ERROR(statuses[i], words[i], throws.async({}).wait());
        expect_works(f, 2);
    }
    const muster::function fails(runtime, "fails",
                                 [](muster_worker *, const muster_tensor *, muster_tensor *) { return MUSTER_SHAPE_MISMATCH; });
    EXPECT_ERROR(MUSTER_SHAPE_MISMATCH, "", fails({}));
}

void objects_keep_their_runtime_and_their_lambdas() {
    auto captured = std::make_shared<int>(5);
    const std::weak_ptr<int> watched = captured;
    {
        auto runtime = std::make_unique<muster::runtime>(devices);
        muster::function g = make_times(*runtime, "g", 7);
        {
            const muster::function f(*runtime, "f", [captured](muster_worker *, const muster_tensor *, muster_tensor *) {});
            captured.reset();
            f({});
            EXPECT(!watched.expired());
        }
        EXPECT(watched.expired());
        runtime.reset();
        expect_works(g, 7); // the runtime is open while g is there
        muster::function h = std::move(g);
        EXPECT(g.get() == nullptr && h.get() != nullptr);
        expect_works(h, 7);
    }
    const muster::runtime runtime(devices);
    muster::function a = make_times(runtime, "a", 1), b = make_times(runtime, "b", 2);
    a = std::move(b);
    expect_works(a, 2);
    expect_works(make_times(runtime, "a", 3), 3); // the name is free again
}

// The function destroys itself in its own body, which the library refuses: what the body uses stays.
void a_refused_end_keeps_the_lambda() {
    auto captured = std::make_shared<int>(5);
    const std::weak_ptr<int> watched = captured;
    {
        const muster::runtime runtime(devices);
        std::unique_ptr<muster::function> f;
        std::atomic<int> calls{0};
        f = std::make_unique<muster::function>(runtime, "f",
                                               [&f, &calls, captured](muster_worker *w, const muster_tensor *, muster_tensor *) {
                                                   if (muster_worker_rank(w) == 0) f.reset();
                                                   calls += *captured;
                                               });
        captured.reset();
        muster_function *handle = f->get();
        check(muster_function_call(handle, nullptr, 0, nullptr, 0, nullptr));
        check(muster_function_call(handle, nullptr, 0, nullptr, 0, nullptr));
        EXPECT(calls == 20);
        EXPECT(!watched.expired());
    }
    EXPECT(watched.expired()); // closed with the runtime
}

// Counts its objects that are alive: the one that a lambda captured, after moves of the lambda.
class counted {
  public:
    explicit counted(int &alive) : alive_(&alive) { ++*alive_; }
    counted(counted &&other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
    counted(const counted &) = delete;
    ~counted() {
        if (alive_) --*alive_;
    }

  private:
    int *alive_;
};

// Lambdas that cannot be copied are freed once: with their object, with the runtime, when creation
// is refused.
void lambdas_own_what_they_capture() {
    int bodies = 0, rules = 0, logs = 0, updates = 0, parts = 0, calls = 0;
    const std::vector<float> start = {1, 2};
    {
        muster::runtime_options options;
        options.devices = "host:1";
        const muster::runtime runtime(options, [captured = counted(logs)](const char *) {});
        auto body = [captured = counted(bodies)](muster_worker *, const muster_tensor *, muster_tensor *) {};
        const muster::function first(runtime, "f", std::move(body));
        EXPECT(bodies == 1);
        EXPECT_ERROR(
            MUSTER_INVALID_ARGUMENT, "'f'",
            muster::function(runtime, "f", [captured = counted(bodies)](muster_worker *, const muster_tensor *, muster_tensor *) {}));
        EXPECT(bodies == 1);
        {
            const muster::function second(
                runtime, "g", [captured = std::make_unique<counted>(bodies)](muster_worker *, const muster_tensor *, muster_tensor *) {});
            second({});
            EXPECT(bodies == 2);
        }
        EXPECT(bodies == 1);
        auto server = std::make_unique<muster::server>(runtime, "s", muster::tensors{muster::tensor(start)});
        const auto add = [&] {
            static_cast<void>(
                server->add_rule("rule", [captured = counted(rules)](muster_dtype, void *, const void *, int64_t, int64_t, double) {}));
        };
        add();
        EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "rule", add());
        EXPECT(rules == 1);
        const muster::function trains(runtime, "train", [&](muster_worker *w, const muster_tensor *, muster_tensor *) {
            const auto make = [&] {
                muster::driver_options o;
                o.init_delay = -1;
                o.keep_initial = 1;
                o.set_local_update([captured = counted(updates)](muster_worker *, int32_t, muster_tensor) {});
                o.set_local_update([captured = counted(updates), &calls](muster_worker *, int32_t, muster_tensor) { calls += 1; });
                o.set_fetch([captured = counted(parts)](muster_driver *driver, muster_worker *worker, int64_t) {
                    return muster_driver_default_fetch(driver, worker);
                });
                o.set_send([captured = counted(parts), &calls](muster_driver *driver, muster_worker *worker, int64_t, const muster_tensor *,
                                                               const muster_tensor *, int32_t) {
                    calls += 100;
                    check(muster_driver_default_send(driver, worker));
                });
                o.set_integrate([captured = counted(parts)](muster_driver *, muster_worker *, int64_t, const muster_tensor *, int32_t) {
                    throw std::runtime_error("no integration today");
                });
                return o;
            };
            {
                auto dropped = make();
                EXPECT(updates == 1 && parts == 3);
            }
            EXPECT(updates == 0 && parts == 0);
            {
                muster::driver driver(muster_downpour_create, w, *server, make());
                EXPECT(updates == 1 && parts == 3);
                muster_tensor x;
                check(muster_worker_scratch(w, MUSTER_F32, 1, std::array<int64_t, 1>{2}.data(), &x));
                check(muster_fill(w, 1, x));
                for (int64_t step = 0; step < 3; step++) static_cast<void>(driver.step(w, step, {x}, {x}));
                EXPECT(calls == 2 * 101); // steps 1 and 2 send
                EXPECT_ERROR(MUSTER_USER, "no integration today", static_cast<void>(driver.step(w, 25, {x}, {x})));
            }
            EXPECT(updates == 0 && parts == 0);
            EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "server", muster::driver(muster_downpour_create, w, nullptr, make()));
            EXPECT(updates == 0 && parts == 0);
        });
        trains({});
        server.reset();
        EXPECT(rules == 0);
        EXPECT(logs == 1 && bodies == 1);
    }
    EXPECT(logs == 0 && bodies == 0);
    muster::runtime_options options;
    options.devices = "no such device";
    EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "no such device", muster::runtime(options, [captured = counted(logs)](const char *) {}));
    EXPECT(logs == 0);
}

void an_asynchronous_call_ends_with_its_object() {
    const muster::runtime runtime(devices);
    const auto f = make_times(runtime, "times", 2);
    std::vector<double> x = {1, 2}, y(2);
    muster::pending call = f.async({muster::tensor(x)}, {muster::tensor(y)});
    call.wait();
    EXPECT(y[1] == 4);
    x = {5, 6};
    {
        muster::pending dropped = f.async({muster::tensor(x)}, {muster::tensor(y)});
        static_cast<void>(dropped.done());
    }
    EXPECT(y[1] == 12);
    call.wait(); // it has ended: nothing is waited for
    EXPECT(call.done());
    bool notified = false;
    call.notify([](void *user) { *static_cast<bool *>(user) = true; }, &notified);
    EXPECT(notified); // at once, since the call has ended
    EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "fd: expected an open file descriptor, received -1", call.notify(-1));
    // Refused in a body: the handle stays, and is waited for later.
    muster::pending later = f.async({muster::tensor(x)}, {muster::tensor(y)});
    const muster::function waits(runtime, "waits", [&later](muster_worker *w, const muster_tensor *, muster_tensor *) {
        if (muster_worker_rank(w) == 0) later.wait();
    });
    EXPECT_ERROR(MUSTER_BAD_STATE, "muster_pending_wait: called inside", waits({}));
    EXPECT(later.get() != nullptr);
    later.wait();
    EXPECT(later.get() == nullptr);
    // A call that fails with the same status has ended its handle.
    later = f.async({muster::tensor(x)}, {muster::tensor(y)});
    muster::pending failed = waits.async({});
    EXPECT_ERROR(MUSTER_BAD_STATE, "function 'waits'", failed.wait());
    EXPECT(failed.get() == nullptr);
}

void tensors_are_views() {
    std::vector<float> x(6);
    const std::vector<int64_t> whole = {1, 2};
    std::array<uint8_t, 3> bytes = {1, 2, 3};
    const muster_tensor matrix = muster::tensor(x, {2, 3}), row = muster::tensor(x);
    EXPECT(matrix.dtype == MUSTER_F32 && matrix.ndim == 2 && matrix.shape[1] == 3 && matrix.data == x.data());
    EXPECT(row.ndim == 1 && row.shape[0] == 6);
    EXPECT(muster::tensor(whole).dtype == MUSTER_I64 && muster::tensor(whole).data == whole.data());
    EXPECT(muster::tensor(bytes).dtype == MUSTER_U8 && muster::tensor(bytes).shape[0] == 3);
    double scalar = 0;
    EXPECT(muster::tensor(&scalar).ndim == 0 && muster::tensor(&scalar).dtype == MUSTER_F64);
    EXPECT_ERROR(MUSTER_SHAPE_MISMATCH, "expected one of 6 elements, received one of 5", static_cast<void>(muster::tensor(x, {5})));
    EXPECT_ERROR(MUSTER_SHAPE_MISMATCH, "expected one of 6 elements, received one of 7", static_cast<void>(muster::tensor(x, {7})));
    static_assert(muster::dtype_of<bool>() == MUSTER_BOOL && muster::dtype_of<const int8_t>() == MUSTER_I8);
    static_assert(muster::dtype_of<int16_t>() == MUSTER_I16 && muster::dtype_of<uint32_t>() == MUSTER_U32);
    static_assert(muster::dtype_of<long>() == MUSTER_I64 && muster::dtype_of<long long>() == MUSTER_I64);
    static_assert(muster::dtype_of<unsigned long long>() == MUSTER_U64 && muster::dtype_of<int32_t>() == MUSTER_I32);
}

void variables_and_updates() {
    const muster::runtime runtime(devices);
    const std::vector<double> start = {1, 2};
    std::vector<double> now(2);
    const muster::variable v(runtime, "v", muster::tensor(start));
    muster::function f(runtime, "double", [&v](muster_worker *w, const muster_tensor *, muster_tensor *) {
        muster_tensor x;
        check(muster_worker_variable(w, v, &x));
        check(muster_scale_add(w, 2, x, 0, x));
    });
    f.uses(v, MUSTER_USE_READ_WRITE);
    f({});
    for (int rank = 0; rank < 2; rank++) {
        check(muster_variable_get(v, rank, muster::tensor(now)));
        EXPECT(now[0] == 2 && now[1] == 4);
    }
    muster::function g(runtime, "set", [&v](muster_worker *w, const muster_tensor *, muster_tensor *) {
        muster_tensor update;
        check(muster_worker_update(w, v, &update));
        check(muster_fill(w, 9, update));
    });
    g.updates(v, MUSTER_MASTER);
    muster::call_options options;
    options.slices = 1;
    g({}, {}, &options);
    check(muster_variable_get(v, 1, muster::tensor(now)));
    EXPECT(now[1] == 9);
    EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "'v'", muster::variable(runtime, "v", muster::tensor(start)));
}

void lambdas_are_rules_and_fills() {
    const muster::runtime runtime(devices);
    const std::vector<float> start = {1, 2, 3};
    std::vector<float> now(3);
    muster::server server(runtime, "server", {muster::tensor(start)});
    float most = 2.5f;
    const muster_rule clip =
        server.add_rule("clip", [&most](muster_dtype, void *value, const void *tensor, int64_t, int64_t count, double scale) {
            for (int64_t i = 0; i < count; i++) {
                const float added = static_cast<float *>(value)[i] + static_cast<const float *>(tensor)[i] * static_cast<float>(scale);
                static_cast<float *>(value)[i] = added < most ? added : most;
            }
        });
    const muster_rule throws = server.add_rule(
        "throws", [](muster_dtype, void *, const void *, int64_t, int64_t, double) { throw std::runtime_error("no such gradient"); });
    EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "clip",
                 static_cast<void>(server.add_rule("clip", [](muster_dtype, void *, const void *, int64_t, int64_t, double) {})));
    muster::client client(server);
    client.send(0, clip, muster::tensor(start), 0.25);
    client.receive(0, muster::tensor(now));
    EXPECT(now[0] == 1.25f && now[1] == 2.5f && now[2] == 2.5f);
    EXPECT_ERROR(MUSTER_USER, "no such gradient", client.send(0, throws, muster::tensor(start)));
    client.receive(0, muster::tensor(now));
    EXPECT(now[0] == 1.25f);

    const auto filled = [](int32_t, muster_dtype, void *value, int64_t first, int64_t count) {
        for (int64_t i = 0; i < count; i++) static_cast<float *>(value)[i] = static_cast<float>(10 * (first + i));
    };
    const muster::server other(runtime, "filled", {muster::tensor(start)}, muster::server_options(), filled);
    muster::client reader(other);
    reader.receive(0, muster::tensor(now));
    EXPECT(now[0] == 0 && now[1] == 10 && now[2] == 20);
    const auto fails = [](int32_t, muster_dtype, void *, int64_t, int64_t) { throw std::out_of_range("nothing to fill with"); };
    EXPECT_ERROR(MUSTER_USER, "nothing to fill with",
                 muster::server(runtime, "third", {muster::tensor(start)}, muster::server_options(), fails));
}

void a_client_sends_and_receives_asynchronously() {
    const muster::runtime runtime(devices);
    const float start[2][3] = {{1, 2, 3}, {4, 5, 6}};
    float now[2][3] = {};
    muster::server server(runtime, "server", {muster::tensor(start, {2, 3})});
    muster::client client(server);
    const muster_rule throws = server.add_rule(
        "throws", [](muster_dtype, void *, const void *, int64_t, int64_t, double) { throw std::runtime_error("no such gradient"); });
    muster::request sent = client.send_async(0, MUSTER_RULE_ADD_SCALED, muster::tensor(start, {2, 3}), 2);
    muster::request received = client.receive_async(0, muster::tensor(now, {2, 3}));
    received.wait();
    EXPECT(now[0][0] == 3 && now[0][2] == 9 && now[1][2] == 18);
    sent.wait();
    sent.wait(); // it has ended
    EXPECT(!sent.get() && !received.get());
    muster::request refused = client.send_async(0, throws, muster::tensor(start, {2, 3}));
    EXPECT_ERROR(MUSTER_USER, "no such gradient", refused.wait());
    received = client.receive_async(0, muster::tensor(now, {2, 3}));
    while (!received.done()) continue;
    EXPECT(now[1][2] == 18);
    for (auto &row : now)
        for (float &value : row) value = 0;
    { const muster::request ended = client.receive_async(0, muster::tensor(now, {2, 3})); }
    EXPECT(now[1][2] == 18); // the end of the object waits
    EXPECT_ERROR(MUSTER_OUT_OF_RANGE, "index", static_cast<void>(client.receive_async(1, muster::tensor(now, {2, 3}))));
}

void a_lent_array_is_given_back() {
    float numbers[2] = {1, 2};
    int returned = 0;
    muster_dlpack_versioned *managed = nullptr;
    const auto give_back = [](void *owner) { ++*static_cast<int *>(owner); };
    check(muster_dlpack_export(nullptr, muster::tensor(numbers, {2}), 0, give_back, &returned, &managed));
    {
        muster::dlpack first(managed);
        const muster::dlpack second = std::move(first);
        EXPECT(!first.get() && second.tensor().shape[0] == 2 && muster_tensor_address(second.tensor()) == numbers && returned == 0);
    }
    EXPECT(returned == 1);
    EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "muster_dlpack_import", muster::dlpack(nullptr));
}

// What belongs to a body: a part of the workers, and a driver.
void parts_and_drivers_live_in_bodies() {
    const muster::runtime runtime(devices);
    std::vector<float> start = {3, 4}, now(2);
    const muster::server server(runtime, "server", {muster::tensor(start)});
    const muster::variable x(runtime, "x", muster::tensor(now));
    muster::function f(runtime, "f", [&](muster_worker *w, const muster_tensor *, muster_tensor *) {
        const muster::part alone(w, muster_worker_communicator(w), muster_worker_rank(w), 0);
        EXPECT(muster_communicator_size(alone) == 1);
        muster_driver_options options;
        muster_driver_options_init(&options);
        options.init_delay = -1;
        options.keep_initial = 1;
        options.update_frequency = 2;
        muster::driver driver(muster_driver_create, w, server, &options);
        bool changed = false;
        muster_tensor value;
        check(muster_worker_variable(w, x, &value));
        for (int64_t step = 0; step < 3; step++) changed = driver.step(w, step, {value}) || changed;
        EXPECT(changed);
    });
    f.uses(x, MUSTER_USE_READ_WRITE);
    f({});
    check(muster_variable_get(x, 1, muster::tensor(now)));
    EXPECT(now == start);
}

void the_other_objects() {
    std::vector<std::string> lines;
    {
        muster::runtime_options options;
        options.devices = devices;
        const muster::runtime runtime(options, [&lines](muster_log_level level, const char *line) {
            if (level == MUSTER_LOG_WARNING) lines.emplace_back(line);
        });
        expect_works(make_times(runtime, "times", 2), 2);
        check(muster_runtime_dump(runtime, 4));
        EXPECT(!lines.empty());

        std::vector<double> x = {1, 2}, y(2);
        muster::device_tensor first(runtime, "1", MUSTER_F64, {2}), second(runtime, nullptr, MUSTER_F64, {1});
        check(muster_runtime_tensor_copy(runtime, muster::tensor(x), first));
        second = std::move(first);
        check(muster_runtime_tensor_copy(runtime, second, muster::tensor(y)));
        EXPECT(y == x);
        muster::registration registered(runtime, x.data(), 16);
        EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "", muster::registration(runtime, x.data(), 16));
        { const muster::registration moved = std::move(registered); }
        const muster::registration again(runtime, x.data(), 16);
    }
    const muster::buffer buffer(MUSTER_F32, 1, 1.5);
    check(muster_buffer_set_length(buffer, 4));
    EXPECT(buffer.tensor().shape[0] == 4);
    EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "oversize", muster::buffer(MUSTER_F32, 1, 3));
    EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "nonsense", muster::runtime("nonsense"));
    const muster::runtime runtime(devices);
    EXPECT_ERROR(MUSTER_INVALID_ARGUMENT, "name", muster::kernel(runtime, "", "", {}));
}

// Numbers stand for names in a text; NULL and nullptr are missing expressions.
void texts_take_numbers() {
    const muster::runtime runtime(devices);
    const auto value_of = [&](auto value) {
        muster_graph *graph = nullptr;
        muster_function *function = nullptr;
        muster::check(muster_graph_create(runtime, "texts", &graph));
        muster_expr *x = muster_graph_input(graph, "x", MUSTER_F64, MUSTER_SCALAR, MUSTER_BROADCAST);
        static_cast<void>(x);
        muster::check(muster_graph_output(graph, "y", muster_expr_parse(graph, "x * k", "k", value), MUSTER_MASTER));
        muster::check(muster_graph_compile(graph, nullptr, &function));
        double in = 3, out = 0;
        const muster_tensor inputs[] = {muster::tensor(&in)}, outputs[] = {muster::tensor(&out)};
        muster::check(muster_function_call(function, inputs, 1, outputs, 1, nullptr));
        muster::check(muster_function_destroy(function));
        muster::check(muster_graph_destroy(graph));
        return out;
    };
    EXPECT(value_of(0.5) == 1.5 && value_of(2) == 6 && value_of(-2L) == -6 && value_of(std::size_t{4}) == 12 && value_of(0.25f) == 0.75 &&
           value_of(0) == 0 && value_of(0L) == 0 && value_of('a') == 291);
    int32_t missing = 0;
    const auto refused = [&](muster_graph *graph, const muster_expr *made) {
        EXPECT(made && muster_graph_status(graph) == MUSTER_INVALID_ARGUMENT);
        EXPECT(std::string(muster_last_error()) == "muster_expr_parse: expressions[0]: expected an expression, received NULL");
        muster::check(muster_graph_destroy(graph));
        missing++;
    };
    muster_expr *none = nullptr;
    muster_graph *graph = nullptr;
    muster::check(muster_graph_create(runtime, "a", &graph));
    refused(graph, muster_expr_parse(graph, "k", "k", NULL));
    muster::check(muster_graph_create(runtime, "b", &graph));
    refused(graph, muster_expr_parse(graph, "k", "k", nullptr));
    muster::check(muster_graph_create(runtime, "c", &graph));
    refused(graph, muster_expr_parse(graph, "k", "k", none));
    EXPECT(missing == 3);
}

// The macros of the C headers: each dtype, its C++ type, and sizes of any integer type.
int dtypes = 0;
template <class Element, class Make> void expect_dtype(muster_dtype dtype, const Make &make) {
    std::array<Element, 6> elements{};
    const size_t two = 2;
    const unsigned three = 3;
    const muster_tensor view = make(elements.data(), two, three);
    EXPECT(view.dtype == dtype && view.ndim == 2 && view.shape[0] == 2 && view.shape[1] == 3 && view.data == elements.data());
    EXPECT(MUSTER_DATA(Element, view) == elements.data() && MUSTER_DATA(const Element, view) == elements.data());
    EXPECT(MUSTER_DATA(void, view) == elements.data());
    dtypes++;
}
#define EXPECT_DTYPE(name, dtype, Element) \
    expect_dtype<Element>(dtype, [](Element *data, size_t n, unsigned k) { return name(data, {n, k}); })

void each_dtype_has_a_function() {
    EXPECT_DTYPE(muster_f16, MUSTER_F16, uint16_t);
    EXPECT_DTYPE(muster_bf16, MUSTER_BF16, uint16_t);
    EXPECT_DTYPE(muster_f32, MUSTER_F32, float);
    EXPECT_DTYPE(muster_f64, MUSTER_F64, double);
    EXPECT_DTYPE(muster_i8, MUSTER_I8, int8_t);
    EXPECT_DTYPE(muster_u8, MUSTER_U8, uint8_t);
    EXPECT_DTYPE(muster_i16, MUSTER_I16, int16_t);
    EXPECT_DTYPE(muster_i32, MUSTER_I32, int32_t);
    EXPECT_DTYPE(muster_i64, MUSTER_I64, int64_t);
    EXPECT_DTYPE(muster_i64, MUSTER_I64, long long);
    EXPECT_DTYPE(muster_u32, MUSTER_U32, uint32_t);
    EXPECT_DTYPE(muster_u64, MUSTER_U64, uint64_t);
    EXPECT_DTYPE(muster_u64, MUSTER_U64, unsigned long long);
    EXPECT_DTYPE(muster_bool, MUSTER_BOOL, bool);
    EXPECT(dtypes == 14);
    float x = 0;
    EXPECT(muster_f32(&x).ndim == 0 && muster_f32(nullptr, {0, 5}).shape[1] == 5);
    EXPECT(muster_tensor_print(muster_f32(&x, {1, 1, 1, 1, 1, 1, 1, 1, 1}), nullptr, 0, nullptr) == MUSTER_INVALID_ARGUMENT);
    EXPECT(std::strstr(muster_last_error(), "expected 0 to 8 dimensions, received 9") != nullptr);
}

} // namespace

int main() {
    void (*const cases[])() = {a_lambda_is_a_body,
                               an_exception_of_a_body_comes_out_of_the_call,
                               objects_keep_their_runtime_and_their_lambdas,
                               a_refused_end_keeps_the_lambda,
                               lambdas_own_what_they_capture,
                               an_asynchronous_call_ends_with_its_object,
                               tensors_are_views,
                               variables_and_updates,
                               lambdas_are_rules_and_fills,
                               a_client_sends_and_receives_asynchronously,
                               a_lent_array_is_given_back,
                               parts_and_drivers_live_in_bodies,
                               the_other_objects,
                               texts_take_numbers,
                               each_dtype_has_a_function};
    int count = 0;
    for (const auto run : cases) {
        run();
        count++;
    }
    std::printf("%d cases passed\n", count);
    return count == 15 ? 0 : 1;
}

// muster/muster.hpp: Muster in C++17: objects that end their handles, failures as exceptions,
// lambdas as bodies, rules and fills. Header only.
//
// Every object converts to the pointer of its C handle, so that all functions of the C headers work
// on it: muster::check(muster_variable_get(v, 0, t)).
//
// Failures. check, and everything here, throws muster::error with the status and the message. An
// exception that leaves a body, a rule or a fill is caught at the edge of the C library; the call
// that it ends throws muster::error with its text. The status is then that of the muster::error,
// OUT_OF_MEMORY for std::bad_alloc, else USER. Destructors throw nothing: they drop the status of
// the end.
//
// Lifetimes. An object keeps its runtime open: the runtime closes when the last of its objects is
// gone, which must not happen in a body. Lambdas are moved or copied into memory that the library
// frees when it cannot call them any more, so that they may own what they capture. Their
// destructors must not throw. Tensors are views, whose memory must stay valid as in C. Objects
// move, and do not copy.
//
// Threads. As in C. A body is called by several threads at the same time, and so through a const
// reference: a mutable lambda does not compile. What a lambda captures by reference must allow it.
#ifndef MUSTER_HPP
#define MUSTER_HPP

#if __cplusplus < 201703L
#error "muster/muster.hpp needs C++17 (-std=c++17); muster/muster.h, the C headers, works from C++11 on"
#endif

#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/muster.h"

namespace muster {

class error : public std::runtime_error {
  public:
    error(muster_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
    muster_status status() const noexcept { return status_; }

  private:
    muster_status status_;
};

// Throws the last error of this thread if the status says that there is one.
inline void check(muster_status status) {
    if (status != MUSTER_OK) throw error(status, muster_last_error());
}

namespace detail {

// The status of a function of the program: its own, OK where it returns nothing, or that of its
// exception.
template <class Call> muster_status guarded(const Call &call) noexcept {
    try {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
            return MUSTER_OK;
        } else {
            return call();
        }
    } catch (const error &failure) {
        return muster_fail(failure.status(), failure.what());
    } catch (const std::bad_alloc &failure) {
        return muster_fail(MUSTER_OUT_OF_MEMORY, failure.what());
    } catch (const std::exception &failure) {
        return muster_fail(MUSTER_USER, failure.what());
    } catch (...) {
        return muster_fail(MUSTER_USER, "an exception that is no std::exception");
    }
}

template <class Function> muster_status run_body(muster_worker *worker, const muster_tensor *in, muster_tensor *out, void *user) noexcept {
    return guarded([&] { return (*static_cast<const Function *>(user))(worker, in, out); });
}

template <class Function>
muster_status run_rule(void *user, muster_dtype dtype, void *value, const void *tensor, int64_t first, int64_t count,
                       double scale) noexcept {
    return guarded([&] { return (*static_cast<const Function *>(user))(dtype, value, tensor, first, count, scale); });
}

template <class Function>
muster_status run_fill(void *user, int32_t index, muster_dtype dtype, void *value, int64_t first, int64_t count) noexcept {
    return guarded([&] { return (*static_cast<const Function *>(user))(index, dtype, value, first, count); });
}

// A function of the program on the heap; end_kept is its destroy function.
template <class Function> using kept = std::decay_t<Function>;
template <class Function> kept<Function> *keep(Function &&function) { return new kept<Function>(std::forward<Function>(function)); }
template <class Kept> void end_kept(void *user) noexcept { delete static_cast<Kept *>(user); }

template <class Function> void run_log(void *user, muster_log_level level, const char *line) noexcept {
    try {
        const Function &function = *static_cast<const Function *>(user);
        if constexpr (std::is_invocable_v<const Function &, muster_log_level, const char *>)
            function(level, line);
        else
            function(line);
    } catch (...) { // a line that cannot be logged is lost
    }
}

// An open runtime, shared by the objects made with it, and closed with the last of them.
struct open_runtime {
    explicit open_runtime(const muster_runtime_options &options) { check(muster_runtime_open(&options, &handle)); }
    template <class Log> open_runtime(muster_runtime_options options, std::unique_ptr<Log> log) {
        options.log = run_log<Log>;
        options.log_user = log.release();
        options.log_destroy = end_kept<Log>;
        check(muster_runtime_open(&options, &handle));
    }
    open_runtime(const open_runtime &) = delete;
    open_runtime &operator=(const open_runtime &) = delete;
    ~open_runtime() { static_cast<void>(muster_runtime_close(handle)); }

    muster_runtime *handle = nullptr;
};

// A handle that `end` ends. If `end` refuses (inside a body, say), the object lives on until the
// runtime closes.
template <class Handle, muster_status (*end)(Handle *)> class object {
  public:
    object(const object &) = delete;
    object &operator=(const object &) = delete;
    object(object &&other) noexcept : runtime_(std::move(other.runtime_)), handle_(std::exchange(other.handle_, nullptr)) {}
    object &operator=(object &&other) noexcept {
        if (this != &other) {
            destroy();
            runtime_ = std::move(other.runtime_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    ~object() { destroy(); }

    operator Handle *() const noexcept { return handle_; }
    Handle *get() const noexcept { return handle_; }
    const std::shared_ptr<open_runtime> &shared() const noexcept { return runtime_; }

  protected:
    explicit object(std::shared_ptr<open_runtime> runtime = nullptr) : runtime_(std::move(runtime)) {}

    std::shared_ptr<open_runtime> runtime_;
    Handle *handle_ = nullptr;

  private:
    void destroy() noexcept {
        if (!handle_) return;
        static_cast<void>(end(std::exchange(handle_, nullptr)));
        runtime_.reset();
    }
};

} // namespace detail

// ---- tensors: views of the program's memory ----

// The dtype of a C++ type. f16 and bf16 have none: muster_tensor_make takes the dtype by name.
template <class T> constexpr muster_dtype dtype_of() noexcept {
    using element = std::remove_cv_t<T>;
    constexpr bool integer = std::is_integral_v<element> && !std::is_same_v<element, bool>;
    constexpr bool is_signed = std::is_signed_v<element>;
    constexpr muster_dtype dtype = std::is_same_v<element, bool>                  ? MUSTER_BOOL
                                   : std::is_same_v<element, float>               ? MUSTER_F32
                                   : std::is_same_v<element, double>              ? MUSTER_F64
                                   : integer && sizeof(element) == 1              ? (is_signed ? MUSTER_I8 : MUSTER_U8)
                                   : integer && sizeof(element) == 2 && is_signed ? MUSTER_I16
                                   : integer && sizeof(element) == 4              ? (is_signed ? MUSTER_I32 : MUSTER_U32)
                                   : integer && sizeof(element) == 8              ? (is_signed ? MUSTER_I64 : MUSTER_U64)
                                                                                  : MUSTER_DTYPE_NONE;
    static_assert(dtype != MUSTER_DTYPE_NONE, "expected an element type that Muster has: bool, float, double, an integer (no uint16_t)");
    return dtype;
}

// tensor(pointer, {n, k}): n rows of k elements; tensor(&x): a scalar. The pointer may be const, as
// for muster_f32. An array of arrays, float m[3][4], is given as tensor(m, {3, 4}).
// Sizes are integers of any type, such as std::size_t.
template <class T> muster_tensor tensor(T *data, std::initializer_list<muster_size_> shape = {}) {
    return muster_tensor_shaped_(dtype_of<std::remove_all_extents_t<T>>(), const_cast<void *>(static_cast<const void *>(data)), shape);
}

// tensor(values): all elements of a std::vector, std::array, std::span or another object with
// data() and size(), in one dimension. tensor(values, {n, k}): the same elements in that shape;
// SHAPE_MISMATCH if their number is another.
template <class Values, class = decltype(std::declval<Values &>().data())>
muster_tensor tensor(Values &values, std::initializer_list<muster_size_> shape) {
    const muster_tensor view = tensor(values.data(), shape);
    const auto count = static_cast<int64_t>(values.size());
    if (muster_tensor_count(view) != count)
        throw error(MUSTER_SHAPE_MISMATCH, "muster::tensor: shape: expected one of " + std::to_string(count) +
                                               " elements, received one of " + std::to_string(muster_tensor_count(view)));
    return view;
}
template <class Values, class = decltype(std::declval<Values &>().data())> muster_tensor tensor(Values &values) {
    return tensor(values.data(), {values.size()});
}

// ---- the objects ----

struct runtime_options : muster_runtime_options {
    runtime_options() { muster_runtime_options_init(this); }
};

// Opens the devices. The runtime closes when this object and all objects made with it are gone.
class runtime {
  public:
    explicit runtime(const char *devices = nullptr) : runtime(with_devices(devices)) {}
    explicit runtime(const muster_runtime_options &options) : handle_(std::make_shared<detail::open_runtime>(options)) {}
    // log(muster_log_level level, const char *line) or log(const char *line) instead of options.log.
    template <class Log> runtime(const muster_runtime_options &options, Log log) {
        handle_ = std::make_shared<detail::open_runtime>(options, std::make_unique<Log>(std::move(log)));
    }

    operator muster_runtime *() const noexcept { return handle_->handle; }
    muster_runtime *get() const noexcept { return handle_->handle; }
    const std::shared_ptr<detail::open_runtime> &shared() const noexcept { return handle_; }
    int32_t size() const noexcept { return muster_runtime_size(get()); }
    std::string description() const { return muster_runtime_description(get()); }

  private:
    static runtime_options with_devices(const char *devices) {
        runtime_options options;
        options.devices = devices;
        return options;
    }
    std::shared_ptr<detail::open_runtime> handle_;
};

class variable : public detail::object<muster_variable, muster_variable_destroy> {
  public:
    variable(const runtime &owner, const char *name, muster_tensor value) : object(owner.shared()) {
        check(muster_variable_create(owner, name, value, &handle_));
    }
};

// A call that has begun. The destructor waits for its end, and drops its status.
class pending : public detail::object<muster_pending, muster_pending_destroy> {
  public:
    // Whether the call has ended. Then the handle has ended, too, and a failure of the call is thrown.
    bool done() {
        int32_t done = 0;
        check(muster_pending_test(&handle_, &done));
        return done != 0;
    }
    // Throws the failure of the call. Refused in a body and after fork, as in C; the handle then
    // stays. A handle that has ended is not waited for.
    void wait() { check(muster_pending_wait(&handle_)); }
    // For event loops, as in C. The function and what it refers to must stay until it has been called.
    void notify(muster_completion_function function, void *user) { check(muster_pending_notify(handle_, function, user)); }
    void notify(int32_t fd) { check(muster_pending_notify_fd(handle_, fd)); }

  private:
    friend class function;
    explicit pending(std::shared_ptr<detail::open_runtime> runtime) : object(std::move(runtime)) {}
};

struct call_options : muster_call_options {
    call_options() { muster_call_options_init(this); }
};

namespace detail {
inline muster_status end_dlpack(muster_dlpack *handle) {
    muster_dlpack_release(handle);
    return MUSTER_OK;
}
} // namespace detail

// An array that another library has lent by DLPack; the end of the object gives it back. If the
// constructor throws, the array was not taken. A runtime is needed for arrays on GPUs.
class dlpack : public detail::object<muster_dlpack, detail::end_dlpack> {
  public:
    explicit dlpack(muster_dlpack_versioned *managed) { check(muster_dlpack_import(nullptr, managed, &tensor_, &handle_)); }
    dlpack(const runtime &owner, muster_dlpack_versioned *managed) : object(owner.shared()) {
        check(muster_dlpack_import(owner, managed, &tensor_, &handle_));
    }
    muster_tensor tensor() const noexcept { return tensor_; }

  private:
    muster_tensor tensor_ = {};
};

// The tensors of a call: a list in braces, a vector or an array. Nothing is copied.
class tensors {
  public:
    tensors(std::initializer_list<muster_tensor> list) noexcept : tensors(std::data(list), list.size()) {}
    tensors(const std::vector<muster_tensor> &list) noexcept : tensors(list.data(), list.size()) {}
    tensors(const muster_tensor *data, std::size_t count) noexcept : data_(data), count_(static_cast<int32_t>(count)) {}
    const muster_tensor *data() const noexcept { return data_; }
    int32_t count() const noexcept { return count_; }

  private:
    const muster_tensor *data_;
    int32_t count_;
};

// A function. Its body is body(muster_worker *, const muster_tensor *in, muster_tensor *out), which
// returns nothing or a muster_status.
class function : public detail::object<muster_function, muster_function_destroy> {
  public:
    template <class Body> function(const runtime &owner, const char *name, Body &&body) : object(owner.shared()) {
        using kept = detail::kept<Body>;
        static_assert(std::is_invocable_v<const kept &, muster_worker *, const muster_tensor *, muster_tensor *>,
                      "expected a body that can be called as const: body(muster_worker *, const muster_tensor *in, muster_tensor *out)");
        const muster_backend_body everywhere = {nullptr, detail::run_body<kept>};
        check(muster_function_create_owned(owner, name, &everywhere, 1, detail::keep(std::forward<Body>(body)), detail::end_kept<kept>,
                                           &handle_));
    }

    function &input(const char *name, muster_dtype dtype, int32_t ndim, muster_input_mode mode) {
        check(muster_function_input(handle_, name, dtype, ndim, mode));
        return *this;
    }
    function &output(const char *name, muster_dtype dtype, int32_t ndim, muster_collect_mode mode) {
        check(muster_function_output(handle_, name, dtype, ndim, mode));
        return *this;
    }
    function &uses(muster_variable *used, muster_variable_use use) {
        check(muster_function_variable(handle_, used, use));
        return *this;
    }
    function &updates(muster_variable *updated, muster_collect_mode mode) {
        check(muster_function_update(handle_, updated, mode));
        return *this;
    }

    // Calls it, with the tensors in the order of the description.
    void operator()(tensors inputs, tensors outputs = {}, const muster_call_options *options = nullptr) const {
        check(muster_function_call(handle_, inputs.data(), inputs.count(), outputs.data(), outputs.count(), options));
    }
    void single(tensors inputs, tensors outputs = {}, const muster_call_options *options = nullptr) const {
        check(muster_function_call_single(handle_, inputs.data(), inputs.count(), outputs.data(), outputs.count(), options));
    }
    // The function must outlive the pending call.
    [[nodiscard]] pending async(tensors inputs, tensors outputs = {}, const muster_call_options *options = nullptr) const {
        pending begun(runtime_);
        check(muster_function_call_async(handle_, inputs.data(), inputs.count(), outputs.data(), outputs.count(), options, &begun.handle_));
        return begun;
    }
};

class kernel : public detail::object<muster_kernel, muster_kernel_destroy> {
  public:
    kernel(const runtime &owner, const char *name, const char *source, const std::vector<int32_t> &parameters,
           const muster_kernel_options *options = nullptr)
        : object(owner.shared()) {
        const auto count = static_cast<int32_t>(parameters.size());
        check(muster_kernel_create(owner, name, source, parameters.data(), count, options, &handle_));
    }
};

struct server_options : muster_server_options {
    server_options() { muster_server_options_init(this); }
};

class server : public detail::object<muster_server, muster_server_destroy> {
  public:
    server(const runtime &owner, const char *name, tensors values, const muster_server_options *options = nullptr)
        : object(owner.shared()) {
        check(muster_server_create(owner, name, values.data(), values.count(), options, &handle_));
    }
    server(const runtime &owner, const char *name, const std::vector<muster_variable *> &variables,
           const muster_server_options *options = nullptr)
        : object(owner.shared()) {
        check(muster_server_create_from(owner, name, variables.data(), static_cast<int32_t>(variables.size()), options, &handle_));
    }
    // The initial values are those of fill(int32_t index, muster_dtype, void *value, int64_t first,
    // int64_t count), which is called in here only; the tensors' own are ignored.
    template <class Fill>
    server(const runtime &owner, const char *name, tensors values, server_options options, const Fill &fill) : object(owner.shared()) {
        options.fill = detail::run_fill<Fill>;
        options.fill_user = const_cast<void *>(static_cast<const void *>(&fill));
        check(muster_server_create(owner, name, values.data(), values.count(), &options, &handle_));
    }

    // Adds rule(muster_dtype, void *value, const void *tensor, int64_t first, int64_t count, double
    // scale); gives its number for sends.
    template <class Rule> muster_rule add_rule(const char *name, Rule &&rule) {
        using kept = detail::kept<Rule>;
        muster_rule number = 0;
        check(muster_server_add_rule_owned(handle_, name, detail::run_rule<kept>, detail::keep(std::forward<Rule>(rule)),
                                           detail::end_kept<kept>, &number));
        return number;
    }
};

// A client of a thread of the program.
namespace detail {
inline muster_status end_request(muster_request *request) { return muster_request_wait(&request); }
} // namespace detail

// A send or a receive in progress. Its end waits for it, so that the tensor must live as long. It
// ends before its client.
class request : public detail::object<muster_request, detail::end_request> {
  public:
    // Whether the operation is done. Then the handle has ended, too, and a failure is thrown.
    bool done() {
        int32_t done = 0;
        check(muster_request_test(&handle_, &done));
        return done != 0;
    }
    void wait() { check(muster_request_wait(&handle_)); } // nothing, if it has ended

    // As in C. What they refer to must stay until they have been called.
    void notify(muster_completion_function function, void *user) { check(muster_request_notify(handle_, function, user)); }
    void notify(int32_t fd) { check(muster_request_notify_fd(handle_, fd)); }

  private:
    friend class client;
    explicit request(std::shared_ptr<detail::open_runtime> runtime) : object(std::move(runtime)) {}
};

class client : public detail::object<muster_client, muster_client_close> {
  public:
    explicit client(const server &served) : object(served.shared()) { check(muster_client_open(served, &handle_)); }
    [[nodiscard]] request send_async(int32_t index, muster_rule rule, muster_tensor tensor, double scale = 1) {
        request begun(runtime_);
        check(muster_client_send(handle_, index, rule, scale, tensor, 0, &begun.handle_));
        return begun;
    }
    [[nodiscard]] request receive_async(int32_t index, muster_tensor tensor) {
        request begun(runtime_);
        check(muster_client_receive(handle_, index, tensor, &begun.handle_));
        return begun;
    }
    void send(int32_t index, muster_rule rule, muster_tensor tensor, double scale = 1) {
        check(muster_client_send(handle_, index, rule, scale, tensor, 0, nullptr));
    }
    void receive(int32_t index, muster_tensor tensor) { check(muster_client_receive(handle_, index, tensor, nullptr)); }
};

namespace detail {

// The functions of the program that replace parts of a driver. Each calls a lambda of any type.
struct replaced_parts {
    template <class... Arguments> struct part {
        virtual muster_status call(Arguments... arguments) const = 0;
        virtual ~part() = default;
    };
    template <class Function, class... Arguments> struct part_of final : part<Arguments...> {
        explicit part_of(Function &&given) : function(std::move(given)) {}
        muster_status call(Arguments... arguments) const override {
            return guarded([&] { return function(arguments...); });
        }
        Function function;
    };
    std::unique_ptr<const part<muster_driver *, muster_worker *, int64_t>> fetch;
    std::unique_ptr<const part<muster_driver *, muster_worker *, int64_t, const muster_tensor *, int32_t>> integrate;
    std::unique_ptr<const part<muster_driver *, muster_worker *, int64_t, const muster_tensor *, const muster_tensor *, int32_t>> send;

    template <class Function, class... Arguments> static void set(std::unique_ptr<const part<Arguments...>> &place, Function &&function) {
        place = std::make_unique<const part_of<kept<Function>, Arguments...>>(kept<Function>(std::forward<Function>(function)));
    }
    static muster_status run_fetch(muster_driver *driver, muster_worker *worker, int64_t step, void *user) noexcept {
        return static_cast<const replaced_parts *>(user)->fetch->call(driver, worker, step);
    }
    static muster_status run_integrate(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                                       int32_t count, void *user) noexcept {
        return static_cast<const replaced_parts *>(user)->integrate->call(driver, worker, step, parameters, count);
    }
    static muster_status run_send(muster_driver *driver, muster_worker *worker, int64_t step, const muster_tensor *parameters,
                                  const muster_tensor *gradients, int32_t count, void *user) noexcept {
        return static_cast<const replaced_parts *>(user)->send->call(driver, worker, step, parameters, gradients, count);
    }
};

template <class Update>
muster_status run_local_update(muster_worker *worker, int32_t index, muster_tensor accumulated, void *user) noexcept {
    return guarded([&] { return (*static_cast<const Update *>(user))(worker, index, accumulated); });
}

} // namespace detail

// Options for one driver, which takes the lambdas over: each worker makes its own. A lambda takes
// the arguments of the C function without `user`, and returns nothing or a muster_status. It is
// called through a const reference.
class driver_options : public muster_driver_options {
  public:
    driver_options() { muster_driver_options_init(this); }
    driver_options(driver_options &&other) noexcept : muster_driver_options(other), replaced_(std::move(other.replaced_)) {
        muster_driver_options_init(&other);
    }
    driver_options &operator=(driver_options &&) = delete;
    ~driver_options() {
        if (local_update_destroy) local_update_destroy(local_update_user);
    }

    template <class Update> driver_options &set_local_update(Update &&update) {
        void *const given = detail::keep(std::forward<Update>(update));
        if (local_update_destroy) local_update_destroy(local_update_user);
        local_update = detail::run_local_update<detail::kept<Update>>;
        local_update_user = given;
        local_update_destroy = detail::end_kept<detail::kept<Update>>;
        return *this;
    }
    template <class Fetch> driver_options &set_fetch(Fetch &&fetch) {
        detail::replaced_parts::set(replaced().fetch, std::forward<Fetch>(fetch));
        parts.fetch = detail::replaced_parts::run_fetch;
        return *this;
    }
    template <class Integrate> driver_options &set_integrate(Integrate &&integrate) {
        detail::replaced_parts::set(replaced().integrate, std::forward<Integrate>(integrate));
        parts.integrate = detail::replaced_parts::run_integrate;
        return *this;
    }
    template <class Send> driver_options &set_send(Send &&send) {
        detail::replaced_parts::set(replaced().send, std::forward<Send>(send));
        parts.send = detail::replaced_parts::run_send;
        return *this;
    }

  private:
    friend class driver;
    detail::replaced_parts &replaced() {
        if (!replaced_) replaced_ = std::make_unique<detail::replaced_parts>();
        return *replaced_;
    }
    // The options for the library, which ends the lambdas from now on.
    muster_driver_options give() noexcept {
        muster_driver_options given = *this;
        if (replaced_) {
            given.parts.user = replaced_.release();
            given.parts_destroy = detail::end_kept<detail::replaced_parts>;
        }
        muster_driver_options_init(this);
        return given;
    }
    std::unique_ptr<detail::replaced_parts> replaced_;
};

// Training over a server, of one worker: made inside a body by muster_driver_create,
// muster_downpour_create or muster_easgd_create, and gone before the runtime closes.
class driver : public detail::object<muster_driver, muster_driver_destroy> {
  public:
    using creator = muster_status (*)(muster_worker *, muster_server *, const muster_driver_options *, muster_driver **);
    driver(creator create, muster_worker *worker, muster_server *server, const muster_driver_options *options = nullptr) {
        check(create(worker, server, options, &handle_));
    }
    // The driver takes the lambdas of the options, which are the defaults afterwards.
    driver(creator create, muster_worker *worker, muster_server *server, driver_options &&options) {
        const muster_driver_options given = options.give();
        check(create(worker, server, &given, &handle_));
    }
    bool step(muster_worker *worker, int64_t step, const std::vector<muster_tensor> &parameters,
              const std::vector<muster_tensor> &gradients = {}) {
        int32_t integrated = 0;
        check(muster_driver_step(handle_, worker, step, parameters.data(), gradients.empty() ? nullptr : gradients.data(),
                                 static_cast<int32_t>(parameters.size()), &integrated));
        return integrated != 0;
    }
};

namespace detail {
inline muster_status end_buffer(muster_buffer *buffer) {
    muster_buffer_destroy(buffer);
    return MUSTER_OK;
}
} // namespace detail

class buffer : public detail::object<muster_buffer, detail::end_buffer> {
  public:
    buffer(muster_dtype dtype, int32_t ndim, double oversize = 1) { check(muster_buffer_create(dtype, ndim, oversize, &handle_)); }
    muster_tensor tensor() const noexcept { return muster_buffer_tensor(handle_); }
};

// A tensor in the memory of a device, destroyed with this object.
class device_tensor {
  public:
    device_tensor(const runtime &owner, const char *device, muster_dtype dtype, std::initializer_list<muster_size_> shape)
        : runtime_(owner.shared()) {
        const muster_tensor view = muster_tensor_shaped_(dtype, nullptr, shape);
        check(muster_runtime_tensor_create(owner, device, dtype, static_cast<int32_t>(shape.size()), view.shape, &tensor_));
    }
    device_tensor(device_tensor &&other) noexcept
        : runtime_(std::move(other.runtime_)), tensor_(std::exchange(other.tensor_, muster_tensor_none())) {}
    device_tensor &operator=(device_tensor &&other) noexcept {
        std::swap(runtime_, other.runtime_);
        std::swap(tensor_, other.tensor_);
        return *this;
    }
    ~device_tensor() {
        if (runtime_) static_cast<void>(muster_runtime_tensor_destroy(runtime_->handle, tensor_));
    }
    operator muster_tensor() const noexcept { return tensor_; }

  private:
    std::shared_ptr<detail::open_runtime> runtime_;
    muster_tensor tensor_ = muster_tensor_none();
};

// Memory that is registered (page-locked for GPUs) while this object lives.
class registration {
  public:
    registration(const runtime &owner, void *address, int64_t bytes) : runtime_(owner.shared()), address_(address) {
        check(muster_runtime_register_memory(owner, address, bytes));
    }
    registration(registration &&other) noexcept : runtime_(std::move(other.runtime_)), address_(other.address_) {}
    registration &operator=(registration &&other) noexcept {
        std::swap(runtime_, other.runtime_);
        std::swap(address_, other.address_);
        return *this;
    }
    ~registration() {
        if (runtime_) static_cast<void>(muster_runtime_unregister_memory(runtime_->handle, address_));
    }

  private:
    std::shared_ptr<detail::open_runtime> runtime_;
    void *address_;
};

// A part of a communicator, released with this object inside the same body.
class part {
  public:
    part(muster_worker *worker, muster_communicator *communicator, int32_t color, int32_t key) : worker_(worker) {
        check(muster_worker_split(worker, communicator, color, key, &handle_));
    }
    part(const part &) = delete;
    part &operator=(const part &) = delete;
    ~part() { static_cast<void>(muster_worker_release(worker_, handle_)); }
    operator muster_communicator *() const noexcept { return handle_; }

  private:
    muster_worker *worker_;
    muster_communicator *handle_ = nullptr;
};

} // namespace muster

#endif

// cpp17.cpp: the C header in C++17. Handles are smart pointers, failures are exceptions, and no exception passes through a callback.
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <muster/muster.h>

namespace {

void check(muster_status status) {
    if (status != MUSTER_OK) throw std::runtime_error(std::string(muster_status_name(status)) + ": " + muster_last_error());
}

struct close_runtime {
    void operator()(muster_runtime *runtime) const noexcept {
        if (muster_runtime_close(runtime) != MUSTER_OK) std::fprintf(stderr, "%s\n", muster_last_error());
    }
};
using runtime_pointer = std::unique_ptr<muster_runtime, close_runtime>; // also destroys the functions and variables that are left

runtime_pointer open_runtime() {
    muster_runtime *runtime = nullptr;
    check(muster_runtime_open(nullptr, &runtime));
    return runtime_pointer(runtime);
}

// The sum of |x - c| over the worker's rows, and all distances; `user` holds c. noexcept: no exception may pass through the C library.
muster_status distances(muster_worker *w, const muster_tensor *in, muster_tensor *out, void *user) noexcept {
    const auto &centre = *static_cast<const std::vector<double> *>(user);
    muster_tensor shift;
    MUSTER_TRY(muster_worker_scratch(w, MUSTER_F64, 0, nullptr, &shift));
    MUSTER_TRY(muster_fill(w, centre.front(), shift));
    MUSTER_TRY(muster_binary_op(w, MUSTER_SUB, in[0], shift, out[1]));
    MUSTER_TRY(muster_unary_op(w, MUSTER_ABS, out[1], out[1]));
    return muster_sum(w, out[1], out[0]);
}

// A body that fails on purpose: it catches the exception of C++ code and returns it as a status with its message.
muster_status throws(muster_worker *w, const muster_tensor *, muster_tensor *, void *) noexcept {
    try {
        if (muster_worker_rank(w) == 0) throw std::invalid_argument("this body always throws");
        return MUSTER_OK;
    } catch (const std::exception &error) {
        return muster_fail(MUSTER_USER, error.what());
    }
}

void run() {
    const std::vector<double> x = {1, 2, 3, 4, 5, 6, 7};
    std::vector<double> centre = {4}, distance(x.size());
    double sum = 0;
    const auto runtime = open_runtime();
    muster_function *f = nullptr, *g = nullptr;
    check(muster_function_create(runtime.get(), "distances", distances, &centre, &f));
    check(muster_function_input(f, "x", MUSTER_F64, 1, MUSTER_SCATTER));
    check(muster_function_output(f, "sum", MUSTER_F64, 0, MUSTER_SUM));
    check(muster_function_output(f, "distance", MUSTER_F64, 1, MUSTER_GATHER));
    check(muster_function_create(runtime.get(), "throws", throws, nullptr, &g));

    if (muster_function_call(g, nullptr, 0, nullptr, 0, nullptr) != MUSTER_USER) throw std::runtime_error("the failing body did not fail");
    std::printf("a body failed: %s\n", muster_last_error());

    const auto n = static_cast<int64_t>(x.size()); // and the runtime is usable again
    const muster_tensor inputs[] = {muster_f64(x.data(), {n})};
    const muster_tensor outputs[] = {muster_f64(&sum), muster_f64(distance.data(), {n})};
    check(muster_function_call(f, inputs, 1, outputs, 2, nullptr));
    std::printf("on %d devices: sum of |x - 4| = %g, each:", muster_runtime_size(runtime.get()), sum);
    for (double d : distance) std::printf(" %g", d);
    std::printf("\n");
    for (size_t i = 0; i < x.size(); i++)
        if (distance[i] != std::fabs(x[i] - 4)) throw std::runtime_error("wrong distance");
    if (sum != 12) throw std::runtime_error("wrong sum");
}

} // namespace

int main() {
    try {
        run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}

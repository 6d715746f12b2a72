// cpp17_objects.cpp: the same in muster.hpp: objects end their handles, lambdas are bodies, and an exception passes from a body to the caller.
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <muster/muster.hpp>

namespace {

using muster::check;

void run() {
    const std::vector<double> x = {1, 2, 3, 4, 5, 6, 7};
    std::vector<double> distance(x.size());
    double sum = 0;
    const double centre = 4;
    const muster::runtime runtime;

    // The sum of |x - centre| over the worker's rows, and all distances.
    muster::function distances(runtime, "distances", [centre](muster_worker *w, const muster_tensor *in, muster_tensor *out) {
        muster_tensor shift;
        check(muster_worker_scratch(w, MUSTER_F64, 0, nullptr, &shift));
        check(muster_fill(w, centre, shift));
        check(muster_binary_op(w, MUSTER_SUB, in[0], shift, out[1]));
        check(muster_unary_op(w, MUSTER_ABS, out[1], out[1]));
        check(muster_sum(w, out[1], out[0]));
    });
    distances.input("x", MUSTER_F64, 1, MUSTER_SCATTER)
        .output("sum", MUSTER_F64, 0, MUSTER_SUM)
        .output("distance", MUSTER_F64, 1, MUSTER_GATHER);

    const muster::function throws(runtime, "throws", [](muster_worker *w, const muster_tensor *, muster_tensor *) {
        if (muster_worker_rank(w) == 0) throw std::invalid_argument("this body always throws");
    });
    try {
        throws({});
        throw std::runtime_error("the failing body did not fail");
    } catch (const muster::error &error) {
        std::printf("a body failed: %s\n", error.what()); // and the runtime is usable again
    }

    distances({muster::tensor(x)}, {muster::tensor(&sum), muster::tensor(distance)});
    std::printf("on %d devices: sum of |x - 4| = %g, each:", runtime.size(), sum);
    for (const double d : distance) std::printf(" %g", d);
    std::printf("\n");
    for (size_t i = 0; i < x.size(); i++)
        if (distance[i] != std::fabs(x[i] - centre)) throw std::runtime_error("wrong distance");
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

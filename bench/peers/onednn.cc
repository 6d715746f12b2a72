// muster-bench-onednn: serves timing blocks of the convolutions of a network, by oneDNN alone: forward, gradient of the data (but for the
// first layer) and gradient of the weights, each in the layouts that the library likes best, half of the batch on each of two threads; and
// copies that move MB megabytes (read and written together) on both threads together, for what a step must move besides.
//   muster-bench-onednn lenet|alexnet|resnet50 BATCH MB [any|nchw|nhwc]   serves (process.h)
//   muster-bench-onednn table lenet|alexnet|resnet50 BATCH any|nchw|nhwc  prints what each convolution takes on one thread
#include <oneapi/dnnl/dnnl.hpp>

#include <omp.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using dnnl::memory;

namespace {

struct convolution {
    int channels, extent, outputs, size, stride, padding, count;
    bool first;
};

std::vector<convolution> convolutions_of(const std::string &model) {
    if (model == "lenet") return {{1, 28, 16, 5, 1, 0, 1, true}, {16, 12, 32, 5, 1, 0, 1, false}};
    if (model == "alexnet")
        return {{3, 224, 64, 11, 4, 2, 1, true},
                {64, 27, 192, 5, 1, 2, 1, false},
                {192, 13, 384, 3, 1, 1, 1, false},
                {384, 13, 256, 3, 1, 1, 1, false},
                {256, 13, 256, 3, 1, 1, 1, false}};
    if (model != "resnet50") return {};
    std::vector<convolution> all = {{3, 224, 64, 7, 2, 3, 1, true}};
    const int blocks[] = {3, 4, 6, 3};
    for (int stage = 0, in = 64, extent = 56; stage < 4; stage++) {
        const int width = 64 << stage, stride = stage ? 2 : 1, after = extent / stride;
        all.push_back({in, extent, width, 1, 1, 0, 1, false});
        all.push_back({width, extent, width, 3, stride, 1, 1, false});
        all.push_back({width, after, 4 * width, 1, 1, 0, blocks[stage], false});
        all.push_back({in, extent, 4 * width, 1, stride, 0, 1, false});
        all.push_back({4 * width, after, width, 1, 1, 0, blocks[stage] - 1, false});
        all.push_back({width, after, width, 3, 1, 1, blocks[stage] - 1, false});
        in = 4 * width;
        extent = after;
    }
    return all;
}

struct step {
    dnnl::primitive primitive;
    std::unordered_map<int, memory> arguments;
    std::string name, code;
    double operations;
    int count;
};

memory cleared(const memory::desc &desc, const dnnl::engine &engine) {
    memory made(desc, engine);
    std::memset(made.get_data_handle(), 0, desc.get_size());
    return made;
}

// What one thread computes: each convolution of the list as often as the network has it.
std::vector<step> steps_of(const std::string &model, int batch, memory::format_tag tag, const dnnl::engine &engine) {
    const auto f32 = memory::data_type::f32;
    const auto direct = dnnl::algorithm::convolution_direct;
    std::vector<step> steps;
    for (const convolution &c : convolutions_of(model)) {
        const int places = (c.extent + 2 * c.padding - c.size) / c.stride + 1;
        const memory::desc x({batch, c.channels, c.extent, c.extent}, f32, tag), y({batch, c.outputs, places, places}, f32, tag);
        const memory::desc w({c.outputs, c.channels, c.size, c.size}, f32, memory::format_tag::any);
        const memory::dims stride = {c.stride, c.stride}, padding = {c.padding, c.padding};
        const double operations = 2.0 * batch * c.outputs * places * places * c.channels * c.size * c.size;
        char name[64];
        std::snprintf(name, sizeof name, "%4d x %3d^2, %4d of %2d^2, stride %d, x %d", c.channels, c.extent, c.outputs, c.size, c.stride,
                      c.count);
#if DNNL_VERSION_MAJOR < 3
#define DESC(kind, ...) kind::primitive_desc({__VA_ARGS__}, engine
#else
#define DESC(kind, ...) kind::primitive_desc(engine, __VA_ARGS__
#endif
        const auto forward = DESC(dnnl::convolution_forward, dnnl::prop_kind::forward_training, direct, x, w, y, stride, padding, padding));
        const memory data = cleared(forward.src_desc(), engine), result = cleared(forward.dst_desc(), engine);
        steps.push_back({dnnl::convolution_forward(forward),
                         {{DNNL_ARG_SRC, data}, {DNNL_ARG_WEIGHTS, cleared(forward.weights_desc(), engine)}, {DNNL_ARG_DST, result}},
                         std::string("forward  ") + name,
                         forward.impl_info_str(),
                         operations,
                         c.count});
        if (!c.first) {
            const auto of_data = DESC(dnnl::convolution_backward_data, direct, x, w, y, stride, padding, padding), forward);
            steps.push_back({dnnl::convolution_backward_data(of_data),
                             {{DNNL_ARG_DIFF_SRC, cleared(of_data.diff_src_desc(), engine)},
                              {DNNL_ARG_WEIGHTS, cleared(of_data.weights_desc(), engine)},
                              {DNNL_ARG_DIFF_DST, cleared(of_data.diff_dst_desc(), engine)}},
                             std::string("data     ") + name,
                             of_data.impl_info_str(),
                             operations,
                             c.count});
        }
        const auto of_weights = DESC(dnnl::convolution_backward_weights, direct, x, w, y, stride, padding, padding), forward);
        steps.push_back({dnnl::convolution_backward_weights(of_weights),
                         {{DNNL_ARG_SRC, cleared(of_weights.src_desc(), engine)},
                          {DNNL_ARG_DIFF_WEIGHTS, cleared(of_weights.diff_weights_desc(), engine)},
                          {DNNL_ARG_DIFF_DST, cleared(of_weights.diff_dst_desc(), engine)}},
                         std::string("weights  ") + name,
                         of_weights.impl_info_str(),
                         operations,
                         c.count});
    }
    return steps;
}

struct half {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::vector<step> steps;
    std::vector<char> from, to; // copied `copies` times
    int copies = 0;

    half(const std::string &model, int batch, memory::format_tag tag) {
        omp_set_num_threads(1); // of the calling thread
        steps = steps_of(model, batch, tag, engine);
    }
    void run() {
        for (step &s : steps)
            for (int i = 0; i < s.count; i++) s.primitive.execute(stream, s.arguments);
        stream.wait();
        for (int i = 0; i < copies; i++) std::memcpy(to.data(), from.data(), to.size());
    }
    void move(double megabytes) {
        const double block = 32; // more than the caches hold
        if (megabytes <= 0) return;
        from.assign(static_cast<size_t>(block * 1e6), 1);
        to = from;
        copies = static_cast<int>(megabytes / (2 * block) + 0.5);
    }
};

double now_ns() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

memory::format_tag tag_of(const std::string &name) {
    return name == "nchw" ? memory::format_tag::nchw : name == "nhwc" ? memory::format_tag::nhwc : memory::format_tag::any;
}

int table(const std::string &model, int batch, const std::string &layout) {
    half all(model, batch, tag_of(layout));
    double sum = 0;
    for (step &s : all.steps) {
        double best = 1e300;
        for (int i = 0; i < 4; i++) {
            const double begin = now_ns();
            s.primitive.execute(all.stream, s.arguments);
            all.stream.wait();
            best = std::min(best, now_ns() - begin);
        }
        sum += best * s.count;
        std::printf("%s  %8.2f ms  %6.1f GFLOP/s  %s\n", s.name.c_str(), best / 1e6, s.operations / best, s.code.c_str());
    }
    std::printf("%s, batch %d, %s: %.1f ms, %.2f samples/s on one thread\n", model.c_str(), batch, layout.c_str(), sum / 1e6,
                batch / sum * 1e9);
    return 0;
}

struct request { // bench_request of process.h
    int32_t warm, calls;
    int64_t pause_ns;
};

bool read_all(void *data, size_t bytes) {
    for (char *at = static_cast<char *>(data); bytes;) {
        const ssize_t moved = read(0, at, bytes);
        if (moved <= 0) return false;
        at += moved;
        bytes -= static_cast<size_t>(moved);
    }
    return true;
}

bool write_all(const void *data, size_t bytes) {
    for (const char *at = static_cast<const char *>(data); bytes;) {
        const ssize_t moved = write(1, at, bytes);
        if (moved <= 0) return false;
        at += moved;
        bytes -= static_cast<size_t>(moved);
    }
    return true;
}

// The second half of the batch is computed by a thread that waits between calls.
class helper {
  public:
    helper(const std::string &model, int batch, double megabytes, memory::format_tag tag)
        : thread([=, this] { serve(model, batch, megabytes, tag); }) {
        wait();
    }
    ~helper() {
        state = 3;
        state.notify_all();
        thread.join();
    }
    void begin() {
        state = 1;
        state.notify_all();
    }
    void wait() {
        for (int at = state; at != 2; at = state) state.wait(at);
    }

  private:
    void serve(const std::string &model, int batch, double megabytes, memory::format_tag tag) {
        half mine(model, batch, tag);
        mine.move(megabytes);
        for (;;) {
            state = 2;
            state.notify_all();
            state.wait(2);
            if (state == 3) return;
            mine.run();
        }
    }
    std::atomic<int> state{0};
    std::thread thread;
};

int serve(const std::string &model, int batch, double megabytes, const std::string &layout) {
    half mine(model, batch - batch / 2, tag_of(layout));
    mine.move(megabytes / 2);
    helper other(model, batch / 2, megabytes / 2, tag_of(layout));
    const auto run = [&] {
        other.begin();
        mine.run();
        other.wait();
    };
    run();
    char moved[48] = "";
    if (megabytes > 0) std::snprintf(moved, sizeof moved, ", and %.0f MB moved", megabytes);
    std::printf("ok the convolutions alone, oneDNN %d.%d, %s%s\n", dnnl_version()->major, dnnl_version()->minor,
                layout == "any" ? "its own layouts" : layout.c_str(), moved);
    std::fflush(stdout);
    request asked;
    while (read_all(&asked, sizeof asked)) {
        std::vector<double> ns;
        for (int32_t i = -asked.warm; i < asked.calls; i++) {
            const double begin = now_ns();
            run();
            if (i >= 0) ns.push_back(now_ns() - begin);
        }
        const int64_t wrong = 0;
        if (!write_all(&wrong, sizeof wrong) || !write_all(ns.data(), ns.size() * sizeof(double))) return 1;
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc == 5 && std::string(argv[1]) == "table") return table(argv[2], std::atoi(argv[3]), argv[4]);
        if (argc < 4) return std::printf("no network, batch and megabytes were named\n"), 2;
        return serve(argv[1], std::atoi(argv[2]), std::atof(argv[3]), argc > 4 ? argv[4] : "any");
    } catch (const dnnl::error &error) {
        return std::printf("no %s\n", error.what()), 1;
    }
}

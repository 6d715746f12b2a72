// muster-bench-onednn: serves timing blocks of the convolutions and dense layers of a network, by oneDNN alone (onednn_steps.h), half of the
// batch on each of two threads; and copies that move MB megabytes (read and written together) on both threads together, for what a step
// must move besides.
//   muster-bench-onednn lenet|alexnet|resnet50 BATCH MB [LAYOUT]   serves (process.h)
//   muster-bench-onednn table lenet|alexnet|resnet50 BATCH LAYOUT  prints what each layer takes on one thread
// LAYOUT: fastest (where none is named), any, nchw or nhwc.
#include "onednn_steps.h"

#include <omp.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

struct half {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::vector<step> steps;
    std::vector<char> from, to; // copied `copies` times
    int copies = 0;

    half(const std::string &model, int batch, const std::string &layout) {
        omp_set_num_threads(1); // of the calling thread
        steps = steps_of(model, batch, layout, engine);
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

int table(const std::string &model, int batch, const std::string &layout) {
    half all(model, batch, layout);
    double convolutions = 0, dense = 0;
    for (step &s : all.steps) {
        const double best = least_ns(s, 4, all.engine);
        (s.dense ? dense : convolutions) += best * s.count;
        std::printf("%s  %8.2f ms  %6.1f GFLOP/s  %s\n", s.name.c_str(), best / 1e6, s.operations / best, s.code.c_str());
    }
    std::printf("%s, batch %d, %s: convolutions %.1f ms, dense layers %.1f ms, %.2f samples/s on one thread\n", model.c_str(), batch,
                layout.c_str(), convolutions / 1e6, dense / 1e6, batch / (convolutions + dense) * 1e9);
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
    helper(const std::string &model, int batch, double megabytes, const std::string &layout)
        : thread([=, this] { serve(model, batch, megabytes, layout); }) {
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
    void serve(const std::string &model, int batch, double megabytes, const std::string &layout) {
        half mine(model, batch, layout);
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
    half mine(model, batch - batch / 2, layout);
    mine.move(megabytes / 2);
    helper other(model, batch / 2, megabytes / 2, layout);
    const auto run = [&] {
        other.begin();
        mine.run();
        other.wait();
    };
    run();
    char moved[48] = "";
    if (megabytes > 0) std::snprintf(moved, sizeof moved, ", %.0f MB moved", megabytes);
    std::printf("ok the convolutions and dense layers alone, oneDNN %d.%d, %s%s\n", dnnl_version()->major, dnnl_version()->minor,
                layout == "fastest" ? "its fastest layouts" : layout.c_str(), moved);
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
        if (!write_all(&wrong, sizeof wrong) || !write_all(ns.data(), ns.size() * sizeof(double)) || !write_all("\n", 1)) return 1;
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc == 5 && std::string(argv[1]) == "table") return table(argv[2], std::atoi(argv[3]), argv[4]);
        if (argc < 4) return std::printf("no network, batch and megabytes were named\n"), 2;
        return serve(argv[1], std::atoi(argv[2]), std::atof(argv[3]), argc > 4 ? argv[4] : "fastest");
    } catch (const dnnl::error &error) {
        return std::printf("no %s\n", error.what()), 1;
    }
}

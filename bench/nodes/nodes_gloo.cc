// Gloo for muster-bench-nodes: TCP between the processes, which find each other through the launch's MPI.
#include "nodes_play.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace {

// What a process sets comes to all at once: all set as often as the others, but not all ask for the same.
class gathered_store : public gloo::rendezvous::Store {
  public:
    gathered_store(const nodes_mpi *mpi, int processes) : mpi_(mpi), processes_(processes) {}
    void set(const std::string &key, const std::vector<char> &data) override {
        mine_[key] = data;
        gather();
    }
    std::vector<char> get(const std::string &key) override {
        const auto found = all_.find(key);
        if (found == all_.end()) throw std::runtime_error("no process has set " + key);
        return found->second;
    }
    void wait(const std::vector<std::string> &keys) override {
        for (const auto &key : keys) (void)get(key);
    }
    void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &) override { wait(keys); }

  private:
    static constexpr size_t most_bytes = 65536;
    static void append(std::vector<char> &to, const void *from, size_t bytes) {
        const char *begin = static_cast<const char *>(from);
        to.insert(to.end(), begin, begin + bytes);
    }
    // Each entry: the lengths of key and data, key, data; a key of no length ends them.
    void gather() {
        std::vector<char> own_entries, all(most_bytes * static_cast<size_t>(processes_));
        for (const auto &entry : mine_) {
            const uint32_t lengths[2] = {static_cast<uint32_t>(entry.first.size()), static_cast<uint32_t>(entry.second.size())};
            append(own_entries, lengths, sizeof lengths);
            append(own_entries, entry.first.data(), entry.first.size());
            append(own_entries, entry.second.data(), entry.second.size());
        }
        if (own_entries.size() + 8 > most_bytes) throw std::runtime_error("too many addresses to pass on");
        own_entries.resize(most_bytes);
        if (!mpi_->gather(own_entries.data(), all.data(), static_cast<int32_t>(most_bytes))) throw std::runtime_error("MPI has failed");
        for (int p = 0; p < processes_; p++) {
            for (const char *at = all.data() + most_bytes * static_cast<size_t>(p);;) {
                uint32_t lengths[2];
                std::memcpy(lengths, at, sizeof lengths);
                if (lengths[0] == 0) break;
                const char *data = at + sizeof lengths + lengths[0];
                all_[std::string(at + sizeof lengths, lengths[0])] = std::vector<char>(data, data + lengths[1]);
                at = data + lengths[1];
            }
        }
    }
    const nodes_mpi *mpi_;
    int processes_;
    std::map<std::string, std::vector<char>> mine_, all_;
};

using reducer = void (*)(void *, const void *, const void *, size_t);

// variant 0: ring, 1: bcube
void all_reduce(const std::shared_ptr<gloo::Context> &context, const collective_job &job, const collective_buffers &b) {
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(job.variant ? gloo::AllreduceOptions::Algorithm::BCUBE : gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(static_cast<reducer>(&gloo::sum<float>));
    options.setInput(b.input, static_cast<size_t>(b.input_count));
    options.setOutput(b.output, static_cast<size_t>(b.output_count));
    gloo::allreduce(options);
}

void broadcast(const std::shared_ptr<gloo::Context> &context, const collective_job &job, const collective_buffers &b) {
    gloo::BroadcastOptions options(context);
    options.setRoot(job.root);
    if (b.input && b.input != b.output) options.setInput(b.input, static_cast<size_t>(job.count));
    options.setOutput(b.output, static_cast<size_t>(job.count));
    gloo::broadcast(options);
}

void all_gather(const std::shared_ptr<gloo::Context> &context, const collective_buffers &b) {
    gloo::AllgatherOptions options(context);
    options.setInput(b.input, static_cast<size_t>(b.input_count));
    options.setOutput(b.output, static_cast<size_t>(b.output_count));
    gloo::allgather(options);
}

void all_to_all(const std::shared_ptr<gloo::Context> &context, const collective_buffers &b) {
    gloo::AlltoallOptions options(context);
    options.setInput(b.input, static_cast<size_t>(b.input_count));
    options.setOutput(b.output, static_cast<size_t>(b.output_count));
    gloo::alltoall(options);
}

void barrier(const std::shared_ptr<gloo::Context> &context) {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
}

} // namespace

struct nodes_gloo {
    std::shared_ptr<gloo::rendezvous::Context> context;
};

bool nodes_gloo_serves(int32_t op) {
    return op == COLLECTIVE_ALL_REDUCE || op == COLLECTIVE_BROADCAST || op == COLLECTIVE_ALL_GATHER || op == COLLECTIVE_ALL_TO_ALL ||
           op == NODES_BARRIER;
}

struct nodes_gloo *nodes_gloo_open(const nodes_mpi *mpi, int32_t process, int32_t processes, char why[NODES_TEXT]) {
    struct host_name {
        char text[256];
    } mine = {};
    std::vector<host_name> all(static_cast<size_t>(processes));
    gethostname(mine.text, sizeof mine.text - 1);
    if (!mpi->gather(&mine, all.data(), sizeof mine)) return nullptr;
    bool one_host = true;
    for (const auto &other : all) one_host = one_host && std::strcmp(other.text, mine.text) == 0;
    try {
        gathered_store store(mpi, processes);
        gloo::transport::tcp::attr attributes(one_host ? "127.0.0.1" : mine.text);
        auto device = gloo::transport::tcp::CreateDevice(attributes);
        auto context = std::make_shared<gloo::rendezvous::Context>(process, processes);
        context->connectFullMesh(store, device);
        return new nodes_gloo{context};
    } catch (const std::exception &error) {
        std::snprintf(why, NODES_TEXT, "%.120s", error.what());
        return nullptr;
    }
}

bool nodes_gloo_operate(nodes_player *player) {
    const nodes_gloo *self = static_cast<const nodes_gloo *>(player->self);
    const collective_job &job = player->job;
    try {
        switch (job.op) {
        case COLLECTIVE_ALL_REDUCE:
            all_reduce(self->context, job, player->buffers);
            return true;
        case COLLECTIVE_BROADCAST:
            broadcast(self->context, job, player->buffers);
            return true;
        case COLLECTIVE_ALL_GATHER:
            all_gather(self->context, player->buffers);
            return true;
        case COLLECTIVE_ALL_TO_ALL:
            all_to_all(self->context, player->buffers);
            return true;
        case NODES_BARRIER:
            barrier(self->context);
            return true;
        default:
            return false;
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "muster-bench-nodes: Gloo: %s\n", error.what());
        return false;
    }
}

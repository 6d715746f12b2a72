// muster-bench-gloo RANKS [oversubscribed]: serves blocks of collectives by Gloo, one thread per rank, TCP over the loopback device.
#include "clock.h"
#include "collective_peer.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

using context_pointer = std::shared_ptr<gloo::rendezvous::Context>;
using reducer = void (*)(void *, const void *, const void *, size_t);

// variant 0: ring, 1: bcube
static void all_reduce(const context_pointer &context, const collective_job &job, const collective_buffers &b) {
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(job.variant ? gloo::AllreduceOptions::Algorithm::BCUBE : gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(static_cast<reducer>(&gloo::sum<float>));
    if (!job.in_place) options.setInput(b.input, static_cast<size_t>(b.input_count));
    options.setOutput(b.output, static_cast<size_t>(b.output_count));
    gloo::allreduce(options);
}

static void reduce(const context_pointer &context, const collective_job &job, const collective_buffers &b, std::vector<float> &spare) {
    gloo::ReduceOptions options(context);
    float *output = b.output; // every rank needs one
    if (!output) {
        spare.resize(static_cast<size_t>(job.count));
        output = spare.data();
    }
    options.setReduceFunction(static_cast<reducer>(&gloo::sum<float>));
    options.setRoot(job.root);
    if (output != b.input) options.setInput(b.input, static_cast<size_t>(job.count));
    options.setOutput(output, static_cast<size_t>(job.count));
    gloo::reduce(options);
}

static void broadcast(const context_pointer &context, const collective_job &job, const collective_buffers &b) {
    gloo::BroadcastOptions options(context);
    options.setRoot(job.root);
    if (b.input && b.input != b.output) options.setInput(b.input, static_cast<size_t>(job.count));
    options.setOutput(b.output, static_cast<size_t>(job.count));
    gloo::broadcast(options);
}

static void all_gather(const context_pointer &context, const collective_job &job, const collective_buffers &b) {
    gloo::AllgatherOptions options(context);
    if (!job.in_place) options.setInput(b.input, static_cast<size_t>(b.input_count));
    options.setOutput(b.output, static_cast<size_t>(b.output_count));
    gloo::allgather(options);
}

static void all_to_all(const context_pointer &context, const collective_buffers &b) {
    gloo::AlltoallOptions options(context);
    options.setInput(b.input, static_cast<size_t>(b.input_count));
    options.setOutput(b.output, static_cast<size_t>(b.output_count));
    gloo::alltoall(options);
}

static void gather(const context_pointer &context, const collective_job &job, const collective_buffers &b) {
    gloo::GatherOptions options(context);
    options.setRoot(job.root);
    options.setInput(b.input, static_cast<size_t>(b.input_count));
    if (b.output) options.setOutput(b.output, static_cast<size_t>(b.output_count));
    gloo::gather(options);
}

static void scatter(const context_pointer &context, const collective_job &job, const collective_buffers &b) {
    gloo::ScatterOptions options(context);
    options.setRoot(job.root);
    std::vector<float *> parts;
    for (int32_t r = 0; b.input && r < job.ranks; r++) parts.push_back(b.input + r * (job.count / job.ranks));
    if (b.input) options.setInputs(parts, static_cast<size_t>(job.count / job.ranks));
    options.setOutput(b.output, static_cast<size_t>(b.output_count));
    gloo::scatter(options);
}

struct member {
    context_pointer context;
    std::vector<float> spare;
};

static bool operate(void *self, const collective_job *job, const collective_player *player) {
    member &mine = *static_cast<member *>(self);
    const collective_buffers &b = player->buffers[player->index];
    if (job->count == 0) return true;
    try {
        switch (job->op) {
        case COLLECTIVE_ALL_REDUCE:
            all_reduce(mine.context, *job, b);
            return true;
        case COLLECTIVE_REDUCE:
            reduce(mine.context, *job, b, mine.spare);
            return true;
        case COLLECTIVE_BROADCAST:
            broadcast(mine.context, *job, b);
            return true;
        case COLLECTIVE_ALL_GATHER:
            all_gather(mine.context, *job, b);
            return true;
        case COLLECTIVE_ALL_TO_ALL:
            all_to_all(mine.context, b);
            return true;
        case COLLECTIVE_GATHER:
            gather(mine.context, *job, b);
            return true;
        case COLLECTIVE_SCATTER:
            scatter(mine.context, *job, b);
            return true;
        default:
            return false;
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "muster-bench-gloo: rank %d: %s\n", player->index, error.what());
        return false;
    }
}

// With a core for each rank, each has its own.
static void pin(int rank, bool oversubscribed) {
    cpu_set_t allowed, one;
    if (oversubscribed || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && rank-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}

static void run(int rank, int ranks, bool oversubscribed, collective_shared *shared, std::shared_ptr<gloo::rendezvous::HashStore> store,
                std::shared_ptr<gloo::transport::Device> device) {
    member mine;
    try {
        mine.context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
        mine.context->connectFullMesh(*store, device);
    } catch (const std::exception &error) {
        std::printf("no connection: %s\n", error.what());
        std::fflush(stdout);
        std::_Exit(1);
    }
    pin(rank, oversubscribed);
    if (rank == 0) {
        std::printf("ok Gloo, TCP, %d ranks\n", ranks);
        std::fflush(stdout);
    }
    if (!collective_serve(shared, rank, ranks, 1, operate, &mine)) std::_Exit(1);
}

int main(int argc, char **argv) {
    int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
    bool oversubscribed = argc > 2 && std::strcmp(argv[2], "oversubscribed") == 0;
    void *memory =
        ranks > 0 && ranks <= COLLECTIVE_RANKS ? std::aligned_alloc(128, (sizeof(collective_shared) + 127) / 128 * 128) : nullptr;
    if (!memory) {
        std::printf("no memory for %d ranks\n", ranks);
        return 1;
    }
    collective_shared *shared = new (memory) collective_shared();
    shared->parent = getpid();
    collective_session_open(&shared->session, oversubscribed);
    auto store = std::make_shared<gloo::rendezvous::HashStore>();
    gloo::transport::tcp::attr attributes("127.0.0.1");
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++) threads.emplace_back(run, rank, ranks, oversubscribed, shared, store, device);
    for (auto &thread : threads) thread.join();
    std::free(memory);
    return 0;
}

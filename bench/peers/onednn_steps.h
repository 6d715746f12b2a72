// What a thread of muster-bench-onednn computes: the convolutions and dense layers of a training step of a network, each forward, as gradient
// of the data (but for the first layer) and as gradient of the weights, without bias.
#ifndef BENCH_ONEDNN_STEPS_H
#define BENCH_ONEDNN_STEPS_H

#include <oneapi/dnnl/dnnl.hpp>

#include <string>
#include <unordered_map>
#include <vector>

struct step {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
    std::string name, code; // code: the library's name of the kernel
    double operations;
    int count;  // how often the network has the layer
    bool dense; // or a convolution
};

// The least time of so many runs.
double least_ns(step &s, int runs, const dnnl::engine &engine);

// model: lenet, alexnet or resnet50; of another the list is empty.
// layout: of images between convolutions, nchw or nhwc; any: what the library likes best; fastest: each step in that of the three in which
// it is fastest. Dense layers have what the library likes best, or with fastest also weights by rows and by columns.
std::vector<step> steps_of(const std::string &model, int batch, const std::string &layout, const dnnl::engine &engine);

#endif

#include "onednn_steps.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

using dnnl::memory;

#if DNNL_VERSION_MAJOR < 3
#define DESC(kind, ...) kind::primitive_desc({__VA_ARGS__}, engine
#else
#define DESC(kind, ...) kind::primitive_desc(engine, __VA_ARGS__
#endif

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

struct dense_layer {
    int inputs, outputs;
};

std::vector<dense_layer> dense_layers_of(const std::string &model) {
    if (model == "lenet") return {{512, 500}, {500, 10}};
    if (model == "alexnet") return {{9216, 4096}, {4096, 4096}, {4096, 1000}};
    if (model == "resnet50") return {{2048, 1000}};
    return {};
}

memory cleared(const memory::desc &desc, const dnnl::engine &engine) {
    memory made(desc, engine);
    std::memset(made.get_data_handle(), 0, desc.get_size());
    return made;
}

// `there`, which a step has once for both of its uses, where it lies as `desc` says; else other memory.
memory shared(const memory &there, const memory::desc &desc, const dnnl::engine &engine) {
    return there.get_desc() == desc ? there : cleared(desc, engine);
}

struct layouts {
    memory::format_tag data, weights;
};

// The steps of a layer. of_data: null for the first layer.
template <class Forward, class OfData, class OfWeights>
std::vector<step> steps_of_layer(const step &about, const dnnl::engine &engine, const typename Forward::primitive_desc &forward,
                                 const typename OfData::primitive_desc *of_data, const typename OfWeights::primitive_desc &of_weights) {
    std::vector<step> steps;
    const auto add = [&](const char *what, const dnnl::primitive &primitive, const char *code,
                         const std::unordered_map<int, memory> &arguments) {
        step made = about;
        made.primitive = primitive;
        made.arguments = arguments;
        made.name = what + about.name;
        made.code = code;
        steps.push_back(made);
    };
    const memory data = cleared(forward.src_desc(), engine), weights = cleared(forward.weights_desc(), engine);
    const memory gradient = cleared(of_weights.diff_dst_desc(), engine);
    add("forward  ", Forward(forward), forward.impl_info_str(),
        {{DNNL_ARG_SRC, data}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, cleared(forward.dst_desc(), engine)}});
    if (of_data)
        add("data     ", OfData(*of_data), of_data->impl_info_str(),
            {{DNNL_ARG_DIFF_SRC, cleared(of_data->diff_src_desc(), engine)},
             {DNNL_ARG_WEIGHTS, shared(weights, of_data->weights_desc(), engine)},
             {DNNL_ARG_DIFF_DST, shared(gradient, of_data->diff_dst_desc(), engine)}});
    add("weights  ", OfWeights(of_weights), of_weights.impl_info_str(),
        {{DNNL_ARG_SRC, shared(data, of_weights.src_desc(), engine)},
         {DNNL_ARG_DIFF_WEIGHTS, cleared(of_weights.diff_weights_desc(), engine)},
         {DNNL_ARG_DIFF_DST, gradient}});
    return steps;
}

std::vector<step> steps_in(const convolution &c, int batch, const layouts &l, const dnnl::engine &engine) {
    const auto f32 = memory::data_type::f32;
    const auto direct = dnnl::algorithm::convolution_direct;
    const int places = (c.extent + 2 * c.padding - c.size) / c.stride + 1;
    const memory::desc x({batch, c.channels, c.extent, c.extent}, f32, l.data), y({batch, c.outputs, places, places}, f32, l.data);
    const memory::desc w({c.outputs, c.channels, c.size, c.size}, f32, l.weights);
    const memory::dims stride = {c.stride, c.stride}, padding = {c.padding, c.padding};
    char name[64];
    std::snprintf(name, sizeof name, "%4d x %3d^2, %4d of %2d^2, stride %d, x %d", c.channels, c.extent, c.outputs, c.size, c.stride,
                  c.count);
    step about;
    about.name = name;
    about.operations = 2.0 * batch * c.outputs * places * places * c.channels * c.size * c.size;
    about.count = c.count;
    about.dense = false;
    const auto forward = DESC(dnnl::convolution_forward, dnnl::prop_kind::forward_training, direct, x, w, y, stride, padding, padding));
    const auto of_data = DESC(dnnl::convolution_backward_data, direct, x, w, y, stride, padding, padding), forward);
    const auto of_weights = DESC(dnnl::convolution_backward_weights, direct, x, w, y, stride, padding, padding), forward);
    return steps_of_layer<dnnl::convolution_forward, dnnl::convolution_backward_data, dnnl::convolution_backward_weights>(
        about, engine, forward, c.first ? nullptr : &of_data, of_weights);
}

std::vector<step> steps_in(const dense_layer &d, int batch, const layouts &l, const dnnl::engine &engine) {
    const auto f32 = memory::data_type::f32;
    const memory::desc x({batch, d.inputs}, f32, l.data), w({d.outputs, d.inputs}, f32, l.weights), y({batch, d.outputs}, f32, l.data);
    char name[64];
    std::snprintf(name, sizeof name, "%4d inputs, %4d outputs, dense       ", d.inputs, d.outputs);
    step about;
    about.name = name;
    about.operations = 2.0 * batch * d.inputs * d.outputs;
    about.count = 1;
    about.dense = true;
    const auto forward = DESC(dnnl::inner_product_forward, dnnl::prop_kind::forward_training, x, w, y));
    const auto of_data = DESC(dnnl::inner_product_backward_data, x, w, y), forward);
    const auto of_weights = DESC(dnnl::inner_product_backward_weights, x, w, y), forward);
    return steps_of_layer<dnnl::inner_product_forward, dnnl::inner_product_backward_data, dnnl::inner_product_backward_weights>(
        about, engine, forward, &of_data, of_weights);
}

// Adds the layer, each step in that of the layouts in which it is fastest.
template <class Layer>
void layer_add(std::vector<step> &steps, const Layer &layer, int batch, const std::vector<layouts> &list, const dnnl::engine &engine) {
    std::vector<step> chosen;
    std::vector<double> least;
    for (const layouts &l : list) {
        std::vector<step> tried = steps_in(layer, batch, l, engine);
        if (chosen.empty()) chosen = tried;
        for (size_t i = 0; list.size() > 1 && i < tried.size(); i++) {
            const double ns = least_ns(tried[i], 2, engine);
            if (least.size() == i) least.push_back(ns);
            if (ns >= least[i]) continue;
            least[i] = ns;
            chosen[i] = tried[i];
        }
    }
    steps.insert(steps.end(), chosen.begin(), chosen.end());
}

} // namespace

double least_ns(step &s, int runs, const dnnl::engine &engine) {
    using clock = std::chrono::steady_clock;
    dnnl::stream stream(engine);
    double least = 1e300;
    for (int i = 0; i < runs; i++) {
        const auto begin = clock::now();
        s.primitive.execute(stream, s.arguments);
        stream.wait();
        least = std::min(least, std::chrono::duration<double, std::nano>(clock::now() - begin).count());
    }
    return least;
}

std::vector<step> steps_of(const std::string &model, int batch, const std::string &layout, const dnnl::engine &engine) {
    using tag = memory::format_tag;
    std::vector<layouts> images = {{tag::any, tag::any}, {tag::nchw, tag::any}, {tag::nhwc, tag::any}}, rows = {{tag::any, tag::any}};
    if (layout == "any") images = {images[0]};
    if (layout == "nchw") images = {images[1]};
    if (layout == "nhwc") images = {images[2]};
    if (layout == "fastest") rows = {{tag::any, tag::any}, {tag::nc, tag::oi}, {tag::nc, tag::io}};
    std::vector<step> steps;
    for (const convolution &c : convolutions_of(model)) layer_add(steps, c, batch, images, engine);
    for (const dense_layer &d : dense_layers_of(model)) layer_add(steps, d, batch, rows, engine);
    return steps;
}

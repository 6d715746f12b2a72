// A C++17 program outside the tree: it links, the C header gives it tensors, and muster.hpp calls a lambda on two devices.
#include <iostream>
#include <muster/muster.hpp>
#include <vector>

int main() {
    std::vector<float> data(12);
    muster_tensor tensor = muster_f32(data.data(), {3, 4});
    std::cout << "muster " << muster_version() << ": " << muster_tensor_count(tensor) << " elements\n";
    float total = 0;
    for (std::size_t i = 0; i < data.size(); i++) data[i] = static_cast<float>(i);
    muster::function sum(muster::runtime("host:2"), "sum",
                         [](muster_worker *w, const muster_tensor *in, muster_tensor *out) { return muster_sum(w, in[0], out[0]); });
    sum.input("x", MUSTER_F32, 2, MUSTER_SCATTER).output("sum", MUSTER_F32, 0, MUSTER_SUM);
    sum({tensor}, {muster::tensor(&total)});
    std::cout << "their sum: " << total << "\n";
    return muster_tensor_count(tensor) == 12 && total == 66 ? 0 : 1;
}

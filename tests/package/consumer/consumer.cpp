// A C++17 program outside the tree: it links, and the C header gives it tensors.
#include <iostream>
#include <muster/muster.h>
#include <vector>

int main() {
    std::vector<float> data(12);
    muster_tensor tensor = muster_f32(data.data(), {3, 4});
    std::cout << "muster " << muster_version() << ": " << muster_tensor_count(tensor) << " elements\n";
    return muster_tensor_count(tensor) == 12 ? 0 : 1;
}

#include "half_impl.h"
#include "muster/tensor.h"

float muster_f16_to_f32(uint16_t bits) { return mst_f16_to_f32(bits); }
uint16_t muster_f32_to_f16(float value) { return mst_f32_to_f16(value); }
float muster_bf16_to_f32(uint16_t bits) { return mst_bf16_to_f32(bits); }
uint16_t muster_f32_to_bf16(float value) { return mst_f32_to_bf16(value); }

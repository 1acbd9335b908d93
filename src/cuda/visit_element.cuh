// From a run-time element type to the GPU's static one.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kith/dtype.hpp"

namespace kith::cuda {

/// Calls f(T{}) with the device type of the element type.
template <class F>
void visit_element(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::f32: f(float{}); return;
    case Dtype::f16: f(__half{}); return;
    case Dtype::bf16: f(__nv_bfloat16{}); return;
    case Dtype::i8: f(std::int8_t{}); return;
    case Dtype::u8: f(std::uint8_t{}); return;
    case Dtype::f64: f(double{}); return;
  }
}

}  // namespace kith::cuda

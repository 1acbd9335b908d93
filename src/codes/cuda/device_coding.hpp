// What a device needs of RaBitQ or product quantization to compare codes, in its memory.
#pragma once

#include <cstdint>

#include "codes/coding.hpp"
#include "codes/cuda/quantized.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"

namespace kith::codes::cuda {

using namespace kith::cuda;

/// A coding on a device.
class DeviceCoding {
 public:
  /// Of codes that are not scalar. @param confidence of bounds
  /// @throws DeviceError for what a walk on a device cannot compare, by name
  DeviceCoding(const Coding& coding, double confidence, cudaStream_t stream, Uploader& uploader,
               const Execution& execution);

  bool rabitq() const { return rabitq_.shape.bits > 0; }
  RabitqView rabitq_view() const;
  PqView pq_view() const;
  /// Bytes of a query as walks compare it: rounded values, or a table.
  std::int64_t query_bytes() const;

 private:
  RabitqView rabitq_;
  PqView pq_;
  Buffer<double> mean_, sign_;
  Buffer<std::uint32_t> from_;
  Buffer<float> centroids_;
  Buffer<std::int64_t> starts_;
};

/// Codes of rows of u8 on the host, [rows, code_bytes()], with the bits of a worker's.
/// @throws OutOfMemory, DeviceError, Cancelled
void encode_on_device(const Coding& coding, const DatasetView& rows, std::uint8_t* codes, int device,
                      const Execution& execution);

}  // namespace kith::codes::cuda

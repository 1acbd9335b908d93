// Rows from host memory to a device, and answers back: through page-locked buffers that several threads fill
// or empty, since the driver's own copy from pageable memory uses one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "cuda/runtime.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"

namespace kith::cuda {

/// Copies host rows to `to`, contiguous, in the order of the stream; on return the host rows are no longer
/// needed.
class Uploader {
 public:
  Uploader();
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// @throws DeviceError, Cancelled
  void copy(const DatasetView& rows, void* to, cudaStream_t stream, const Execution& execution);

 private:
  friend void download(const void*, void*, std::uint64_t, cudaStream_t, const Execution&);
  struct State;
  std::unique_ptr<State> state_;
};

/// What the caller's stream, or where none is named the default ones, have been given comes before what
/// `stream`, of the current device, is given later. Call it on the caller's thread, of which one of the
/// default streams is; what that cannot order caller_stream.hpp has waited for. @throws DeviceError
void wait_for(const Execution& execution, cudaStream_t stream);

/// Waits until `written` says that the last kernel on a stream has written to page-locked memory that its
/// answers are there: sooner than the driver says so. @throws DeviceError
template <class Written>
void wait_until(Written&& written, cudaStream_t stream) {
  for (std::int64_t looks = 1; !written(); ++looks) {
    if (looks % 8192 != 0) continue;
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaErrorNotReady) continue;
    check(status, "cudaStreamQuery");
    break;  // done, hence written
  }
  std::atomic_thread_fence(std::memory_order_acquire);
}

/// Rows on a device; the stride is in elements.
struct PlacedRows {
  const void* data;
  std::int64_t stride;
};
/// Rows where a device reads them: where they are if that is its memory, else copied to `memory`, contiguous,
/// in the order of the stream. @throws OutOfMemory, DeviceError, Cancelled
PlacedRows place(const DatasetView& rows, int device, Buffer<unsigned char>& memory, Uploader& uploader,
                 cudaStream_t stream, const Execution& execution);

/// Starts a copy of host rows to `to`, contiguous, where they lie in page-locked memory, which the device
/// reads by itself. They must stay until the stream has done it. False, and nothing begun, for other memory.
/// @throws DeviceError
bool copy_page_locked(const DatasetView& rows, void* to, cudaStream_t stream);

/// Copies `bytes` from a device to host memory, after what the stream has been given; complete on return.
/// @throws DeviceError
void download(const void* from, void* to, std::uint64_t bytes, cudaStream_t stream,
              const Execution& execution);

}  // namespace kith::cuda

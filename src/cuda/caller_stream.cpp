// Waiting for the caller's streams.
#include "cuda/caller_stream.hpp"

#include <algorithm>
#include <set>

#include "cuda/fork.hpp"
#include "cuda/runtime.hpp"

namespace kith::cuda {
namespace {

bool on_gpus(const Execution& execution) {
  return !execution.devices.empty() && execution.devices.front().kind == Device::Kind::cuda;
}

// Every device has streams by these names.
bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

void wait_for_default(int device, cudaStream_t which) {
  const DeviceGuard guard(device);
  if (which != cudaStreamPerThread) KITH_CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  if (which != cudaStreamLegacy) KITH_CUDA(cudaStreamSynchronize(cudaStreamPerThread));
}

}  // namespace

void wait_for_caller(const Execution& execution, std::initializer_list<int> arrays) {
  if (!execution.follow_stream || !on_gpus(execution)) return;
  use_driver();
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  if (!is_default(stream)) {
    KITH_CUDA(cudaStreamSynchronize(stream));
    return;
  }
  int current = 0;
  KITH_CUDA(cudaGetDevice(&current));
  std::set<int> involved = {current};
  for (const Device& device : execution.devices) involved.insert(device.ordinal);
  for (const int device : arrays) {
    if (device >= 0) involved.insert(device);
  }
  for (const int device : involved) wait_for_default(device, stream);
}

void follow_elsewhere(Execution& execution, std::initializer_list<int> arrays) {
  if (!execution.follow_stream || !on_gpus(execution)) return;
  use_driver();
  bool elsewhere = execution.devices.size() > 1;
  if (!elsewhere && is_default(static_cast<cudaStream_t>(execution.stream))) {
    int current = 0;
    KITH_CUDA(cudaGetDevice(&current));
    elsewhere = execution.devices.front().ordinal != current ||
                std::any_of(arrays.begin(), arrays.end(),
                            [&](int device) { return device >= 0 && device != current; });
  }
  if (!elsewhere) return;
  wait_for_caller(execution, arrays);
  execution.follow_stream = false;
}

}  // namespace kith::cuda

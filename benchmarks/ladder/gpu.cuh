// What rungs on a GPU share: the device and a stream, copies to it and back, the problem as a kernel sees it.
#pragma once

#include <vector>

#include "cuda/pool.hpp"
#include "cuda/runtime.hpp"
#include "ladder.hpp"
#include "list_answer.hpp"
#include "neighbor.hpp"

namespace kith::ladder {

/// The GPU a rung runs on, current for a scope, and its stream.
class Gpu {
 public:
  explicit Gpu(Run& run) : Gpu(run.gpus.front()) { run.devices = 1; }
  explicit Gpu(int ordinal) : ordinal_(ordinal), guard_(ordinal) { cuda::keep_some_memory(ordinal); }

  int ordinal() const { return ordinal_; }
  cudaStream_t stream() const { return stream_; }
  void finish() const { stream_.synchronize(); }

  template <class T>
  cuda::Buffer<T> upload(const T* host, std::int64_t count) const {
    cuda::Buffer<T> out(count, stream_);
    if (count > 0) {
      KITH_CUDA(cudaMemcpyAsync(out.data(), host, out.bytes(), cudaMemcpyHostToDevice, stream_));
    }
    return out;
  }
  template <class T>
  cuda::Buffer<T> room(std::int64_t count) const {
    return cuda::Buffer<T>(count, stream_);
  }
  template <class T>
  std::vector<T> download(const cuda::Buffer<T>& from) const {
    std::vector<T> out(static_cast<std::size_t>(from.size()));
    if (!out.empty()) {
      KITH_CUDA(cudaMemcpyAsync(out.data(), from.data(), from.bytes(), cudaMemcpyDeviceToHost, stream_));
    }
    finish();
    return out;
  }

 private:
  int ordinal_;
  cuda::DeviceGuard guard_;
  cuda::Stream stream_;
};

/// The problem on the device, points row by row.
struct OnDevice {
  OnDevice(const Gpu& gpu, const Problem& problem)
      : query(gpu.upload(problem.query, problem.queries * problem.dim)),
        point(gpu.upload(problem.point, problem.points * problem.dim)) {}
  cuda::Buffer<float> query, point;
};

inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return b < a ? b : a;
}

inline int multiprocessors(int device) {
  int count = 0;
  KITH_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

/// Blocks for so much work, one at least.
inline unsigned blocks_for(std::int64_t work, std::int64_t a_block) {
  return work <= a_block ? 1U : static_cast<unsigned>((work + a_block - 1) / a_block);
}

}  // namespace kith::ladder

// What rungs on a GPU share: the device and a stream, copies to it and back, the problem as a kernel sees it.
#pragma once

#include <string>
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
  explicit Gpu(Run& run) : Gpu(run.gpus.front(), run) { run.devices = 1; }
  Gpu(int ordinal, const Run& run) : ordinal_(ordinal), limit_(run.device_memory_limit), guard_(ordinal) {
    cuda::keep_some_memory(ordinal);
  }

  int ordinal() const { return ordinal_; }
  cudaStream_t stream() const { return stream_; }
  void finish() const { stream_.synchronize(); }

  /// Counts memory that a rung takes against the limit; what it has given back counts, too.
  /// @throws OutOfMemory
  void take(std::int64_t bytes) const {
    taken_ += static_cast<std::uint64_t>(bytes);
    if (limit_ > 0 && taken_ > limit_) refuse();
  }
  /// What may still be taken; 0: no limit.
  std::uint64_t left() const { return limit_ == 0 ? 0 : (taken_ < limit_ ? limit_ - taken_ : 1); }

  template <class T>
  cuda::Buffer<T> upload(const T* host, std::int64_t count) const {
    auto out = room<T>(count);
    if (count > 0) {
      KITH_CUDA(cudaMemcpyAsync(out.data(), host, out.bytes(), cudaMemcpyHostToDevice, stream_));
    }
    return out;
  }
  template <class T>
  cuda::Buffer<T> room(std::int64_t count) const {
    take(count * static_cast<std::int64_t>(sizeof(T)));
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
  [[noreturn]] void refuse() const {
    throw OutOfMemory("takes " + std::to_string(taken_) +
                      " bytes of a GPU's memory or more, and the limit is " + std::to_string(limit_));
  }

  int ordinal_;
  std::uint64_t limit_;
  mutable std::uint64_t taken_ = 0;
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

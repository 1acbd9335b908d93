// Queries of a batch on a device, in all the forms that walks and re-ranking want.
#pragma once

#include <cstdint>

#include "codes/rabitq_estimate.hpp"
#include "cuda/runtime.hpp"
#include "vamana/backend.hpp"
#include "vamana/cuda/device_graph.hpp"
#include "vamana/cuda/kernels.hpp"

namespace kith::vamana {

/// Its memory serves one batch after the other.
class EncodedQueries {
 public:
  /// Bytes of device memory a query.
  static std::uint64_t bytes(const Built& built);
  /// Of a query as walks compare it.
  static std::int64_t query_bytes(const DeviceGraph& graph, const Built& built);

  /// @param rows [count, stride] in the rows' dtype, where the device reads them
  /// @param nan_queries a counter
  void encode(const DeviceGraph& graph, const Built& built, const void* rows, std::int64_t stride,
              std::int64_t count, unsigned long long* nan_queries, cudaStream_t stream);
  /// Tells a job the queries that it is to walk for.
  void hand_to(cuda::WalkJob& job, const DeviceGraph& graph, const Built& built) const;

  const double* queries() const { return queries_.data(); }
  const double* norms() const { return norms_.data(); }

 private:
  cuda::Buffer<double> queries_, norms_, values_, scratch_;
  cuda::Buffer<unsigned char> codes_, usable_, others_;
  cuda::Buffer<codes::RabitqQuery> scalars_;
};

}  // namespace kith::vamana

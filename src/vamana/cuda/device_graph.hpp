// A graph, its codes and its rows in the memory of one device, or where that device reads them.
#pragma once

#include <cstdint>
#include <memory>

#include "codes/cuda/device_coding.hpp"
#include "cuda/runtime.hpp"
#include "vamana/backend.hpp"
#include "vamana/cuda/kernels.hpp"

namespace kith::vamana {

/// What lies in the device's memory; what does not lies in page-locked memory of the host, which the device
/// reads across the bus. Codes are always there.
enum class Placement : std::uint8_t { resident, host_rows, host_graph };

/// "resident", "host rows", "host graph".
const char* name(Placement placement);

struct DeviceGraph {
  explicit DeviceGraph(int ordinal) : device(ordinal) {}
  int device;
  Placement placement = Placement::resident;
  std::uint64_t bytes = 0;  ///< of the device's memory
  cuda::Stream stream;      ///< the arrays were made on it, and are complete
  cuda::Buffer<unsigned char> codes, row_memory;
  cuda::Buffer<std::uint32_t> edge_memory, entries, first, members, hot_edges;
  cuda::Buffer<uint2> hot;  ///< of a graph on the host: nodes whose edges are in hot_edges
  cuda::Buffer<double> mean;
  cuda::Buffer<float> map;
  std::unique_ptr<const codes::cuda::DeviceCoding> coding;  ///< of codes that are not scalar
  cuda::PinnedRegion pinned_rows, pinned_edges;
  cuda::PinnedBuffer<unsigned char> copied_rows;  ///< of rows that the driver refuses to lock in their place
  cuda::PinnedBuffer<std::uint32_t> copied_edges;
  const void* rows = nullptr;
  std::int64_t row_stride = 0;  ///< in elements
  const std::uint32_t* edges = nullptr;

  cuda::Walked walked(const Built& built) const;
  cuda::GraphView view(const Built& built) const;
  cuda::SpaceView space(const codes::ScalarSpace& space) const;
};

/// The copy on a device that a call may use, made now or before.
/// @throws OutOfMemory, DeviceError, Cancelled
std::shared_ptr<const DeviceGraph> on_device(const Built& built, const DatasetView& rows, int device,
                                             const Execution& execution);

}  // namespace kith::vamana

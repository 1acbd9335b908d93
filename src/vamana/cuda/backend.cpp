// What CUDA devices do with graphs.
#include "vamana/cuda/backend.hpp"

namespace kith::vamana {
namespace {

// Of host memory a search takes next to nothing: lists lie on the device.
std::uint64_t search_bytes(const Built& /*built*/, const SearchPlan& /*plan*/, int /*threads*/) {
  return 0;
}

// Of host memory: the graph twice, the order of the nodes and what is present and reached.
std::uint64_t build_bytes(std::int64_t nodes, const VamanaParameters& parameters, int /*threads*/) {
  return static_cast<std::uint64_t>(nodes) * (2 * 4 * static_cast<std::uint64_t>(parameters.max_degree) + 16);
}

}  // namespace

const Backend& cuda_backend() {
  static const Backend backend{grow_on_device, build_bytes, search_on_devices, place_on_device, search_bytes};
  return backend;
}

}  // namespace kith::vamana

// What CUDA devices do with graphs.
#include "vamana/cuda/backend.hpp"

#include "codes/cuda/device_coding.hpp"
#include "cuda/pool.hpp"
#include "k_means/cuda/k_means.hpp"

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

// One device finds centroids and encodes; a search may use them all.
codes::KMeansOfParts k_means_there(const Execution& execution) {
  return [&execution](const float* rows, std::int64_t n, const std::vector<std::int64_t>& starts,
                      const KMeansParameters& parameters, const std::function<void()>& check) {
    const int device = execution.devices.front().ordinal;
    const cuda::DeviceGuard guard(device);
    return clusters::cuda::k_means_of_parts(rows, n, starts, parameters, device,
                                            cuda::available_memory(execution), check);
  };
}

void encode(const codes::Coding& coding, const DatasetView& rows, std::uint8_t* codes,
            const Execution& execution) {
  codes::cuda::encode_on_device(coding, rows, codes, execution.devices.front().ordinal, execution);
}

}  // namespace

const Backend& cuda_backend() {
  static const Backend backend{.grow = grow_on_device,
                               .k_means = k_means_there,
                               .encode = encode,
                               .build_bytes = build_bytes,
                               .search_into = search_on_devices,
                               .search_by_plans = search_by_plans_on_devices,
                               .one_walk_for_all = false,
                               .place = place_on_device,
                               .search_bytes = search_bytes};
  return backend;
}

}  // namespace kith::vamana

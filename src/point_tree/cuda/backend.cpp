// What CUDA devices do with trees.
#include "point_tree/backend.hpp"

#include "point_tree/cuda/functions.hpp"

namespace kith::point_tree {

const DeviceBackend& cuda_backend() {
  static constexpr DeviceBackend backend = {build_on_device, nearest_on_device, within_on_device,
                                            count_on_device, normals_on_device, distances_on_device};
  return backend;
}

}  // namespace kith::point_tree

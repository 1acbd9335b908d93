#include "point_tree/backend.hpp"

#include "cuda/device_choice.hpp"

namespace kith::point_tree {

const DeviceBackend* backend_of(const Execution& execution) {
  if (cuda::kind_of_devices(execution) == Device::Kind::cpu) return nullptr;
#ifdef KITH_CUDA_ENABLED
  return &cuda_backend();
#else
  return nullptr;  // not reached: builds without CUDA refuse the device above
#endif
}

}  // namespace kith::point_tree

// What the CUDA driver says of the GPUs.
#include "machine.hpp"

#include <algorithm>

#ifdef KITH_CUDA_ENABLED
#include "cuda/launch.hpp"
#endif

namespace kith::ladder {

#ifdef KITH_CUDA_ENABLED
namespace {

std::string version_text(int version) {  // 13000
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// float32 units of a multiprocessor; the driver does not tell (CUDA C++ Programming Guide, arithmetic
// throughput).
int float_units(int major, int minor) {
  return major == 8 && minor == 0 ? 64 : 128;
}

}  // namespace

std::optional<GpuMachine> gpu_machine(const std::vector<int>& gpus) {
  if (gpus.empty()) return {};
  const int device = gpus.front();
  cudaDeviceProp properties{};
  KITH_CUDA(cudaGetDeviceProperties(&properties, device));
  GpuMachine out;
  out.name = properties.name;
  out.count = static_cast<int>(gpus.size());
  int version = 0;
  KITH_CUDA(cudaDriverGetVersion(&version));
  out.driver = version_text(version);
  KITH_CUDA(cudaRuntimeGetVersion(&version));
  out.runtime = version_text(version);
  out.compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  out.multiprocessors = properties.multiProcessorCount;
  out.memory_bytes = properties.totalGlobalMem;
  const auto khz = [&](cudaDeviceAttr attribute) {
    return static_cast<double>(cuda::device_attribute(attribute, device));
  };
  out.clock_mhz = khz(cudaDevAttrClockRate) / 1e3;
  // Two transfers a clock.
  out.bandwidth_gbs = 2 * khz(cudaDevAttrMemoryClockRate) * 1e3 * (properties.memoryBusWidth / 8.0) / 1e9;
  out.fp32_gflops =
      2.0 * out.multiprocessors * float_units(properties.major, properties.minor) * out.clock_mhz / 1e3;
  return out;
}
#else
std::optional<GpuMachine> gpu_machine(const std::vector<int>& /*gpus*/) {
  return {};
}
#endif

std::optional<Floor> float32_floor(const Problem& problem, const GpuMachine& machine) {
  if (machine.bandwidth_gbs <= 0 || machine.fp32_gflops <= 0) return {};
  const auto dim = static_cast<double>(problem.dim);
  const auto queries = static_cast<double>(problem.queries);
  const auto points = static_cast<double>(problem.points);
  const double bytes = 4 * dim * (points + queries) + 12 * queries * static_cast<double>(problem.k);
  const double operations = 4 * dim * queries * points;
  const double by_bandwidth = bytes / machine.bandwidth_gbs / 1e6;
  const double by_arithmetic = operations / machine.fp32_gflops / 1e6;
  return Floor{std::max(by_bandwidth, by_arithmetic), by_bandwidth >= by_arithmetic};
}

}  // namespace kith::ladder

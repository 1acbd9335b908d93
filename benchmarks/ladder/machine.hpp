// The GPUs of the ladder, and what the hardware allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ladder.hpp"

namespace kith::ladder {

struct GpuMachine {
  std::string name;
  int count = 0;
  std::string driver, runtime, compute_capability;  ///< "13.0", "13.0", "9.0"
  int multiprocessors = 0;
  double clock_mhz = 0;
  std::uint64_t memory_bytes = 0;
  double bandwidth_gbs = 0;  ///< peak, 10^9 bytes a second; 0 where the driver does not say
  double fp32_gflops = 0;    ///< peak, 10^9 operations a second, an fma being two; 0 where unknown
};

/// Of the first of `gpus`, and how many they are; nothing when there are none.
std::optional<GpuMachine> gpu_machine(const std::vector<int>& gpus);

/// The commit this program was built from, "-dirty" when files had changed since; empty outside of a clone.
std::string commit();

/// The least time in which one GPU can look at every pair in float32.
struct Floor {
  double ms;
  bool by_bandwidth;  ///< else by arithmetic
};
/// max(bytes / bandwidth, operations / peak): points, queries and answers pass through memory once; a
/// coordinate of a pair is a subtraction and an fma, two instructions that could have been an fma each, 4
/// operations.
std::optional<Floor> float32_floor(const Problem& problem, const GpuMachine& machine);

}  // namespace kith::ladder

// Distances of codes, plain C++.
#include "codes/cpu/estimate.hpp"

namespace kith::codes {
namespace {

void gathered(const std::uint8_t* codes, std::int64_t bytes, const std::uint8_t* query,
              const std::uint32_t* rows, std::int64_t count, std::int32_t* out) {
  for (std::int64_t r = 0; r < count; ++r) {
    const std::uint8_t* code = codes + static_cast<std::int64_t>(rows[r]) * bytes;
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < bytes; ++i) {
      const int difference = static_cast<int>(query[i]) - code[i];
      sum += difference * difference;
    }
    out[r] = sum;
  }
}

void gathered_4(const std::uint8_t* codes, std::int64_t bytes, const std::uint8_t* query,
                const std::uint32_t* rows, std::int64_t count, std::int32_t* out) {
  for (std::int64_t r = 0; r < count; ++r) {
    const std::uint8_t* code = codes + static_cast<std::int64_t>(rows[r]) * bytes;
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < bytes; ++i) {
      const int low = (query[i] & 15) - (code[i] & 15);
      const int high = (query[i] >> 4) - (code[i] >> 4);
      sum += low * low + high * high;
    }
    out[r] = sum;
  }
}

}  // namespace

extern constinit const EstimateKernels estimate_kernels_portable = {gathered, gathered_4};

}  // namespace kith::codes

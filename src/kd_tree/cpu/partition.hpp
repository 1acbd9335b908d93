// Dividing records of 16 bytes at a value, several at a time where the machine can. Plain data: the kernel
// file includes it (ARCHITECTURE.md).
#pragma once

#include <cstdint>

namespace kith::kd_tree {

/// Records of one call: those that are not below wait aside on the stack.
constexpr std::int64_t most_partitioned = 2048;

/// Moves the records whose float number `axis` (0 to 3) is below `pivot` to the front; returns how many.
using PartitionRecords = std::int64_t (*)(void* records, std::int64_t count, std::int64_t axis, float pivot);

std::int64_t partition_records_avx512(void* records, std::int64_t count, std::int64_t axis, float pivot);

}  // namespace kith::kd_tree

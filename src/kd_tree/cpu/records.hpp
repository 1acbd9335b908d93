// What building a k-d tree does most, many records at a time where the machine can. Plain data: the kernel
// file includes it (ARCHITECTURE.md).
#pragma once

#include <cstdint>

namespace kith::kd_tree {

/// Records of one call of `select`: those that are not below wait aside on the stack.
constexpr std::int64_t most_selected = 2048;

constexpr std::int64_t most_parts = 16;

/// Up to 15 comparisons as a heap: node i has children 2i and 2i + 1, the root is node 1. Node i sends what
/// is at least value[i] along axis[i] to the second one.
template <class T>
struct Sieve {
  int levels;
  std::int32_t axis[most_parts];
  T value[most_parts];
};

/// Where points lie: as records (rows null, stride 4), or as values of a stride of 3 beside row numbers,
/// which count up from first_row where rows is null.
struct PointsFrom {
  const float* values;
  std::int64_t stride;
  const std::uint32_t* rows;
  std::int64_t first_row;
};
struct PointsTo {
  float* values;
  std::int64_t stride;
  std::uint32_t* rows;
};

/// For records of 16 bytes: three finite floats and a row number.
struct RecordKernels {
  /// The box of at least one record; of lower and upper the first three count.
  void (*box)(const void* records, std::int64_t count, float lower[4], float upper[4]);

  /// The `nth` smallest of at most most_selected records along an axis go to the front; the smallest of the
  /// others is *value. nth < count; `low` and `high` are the extremes of all. False where that takes too
  /// long.
  bool (*select)(void* records, std::int64_t nth, std::int64_t count, std::int64_t axis, float low,
                 float high, float* value);

  /// The part that each point falls to, and how many fall to each.
  void (*sift)(const float* values, std::int64_t stride, std::int64_t count, const Sieve<float>& sieve,
               unsigned char* parts, std::int64_t counts[most_parts]);

  /// Moves points where their part's next one goes.
  void (*deal)(const PointsFrom& from, std::int64_t count, const unsigned char* parts, const PointsTo& to,
               std::int64_t next[most_parts]);

  /// Writes coordinates axis by axis, `count` values each, and row numbers; and the box as of `box`.
  void (*write_leaf)(const void* records, std::int64_t count, float* coordinates, std::uint32_t* rows,
                     float lower[4], float upper[4]);
};

extern const RecordKernels record_kernels_avx2;
extern const RecordKernels record_kernels_avx512;

/// Those of this machine; null: nothing quicker than plain code.
const RecordKernels* record_kernels();

}  // namespace kith::kd_tree

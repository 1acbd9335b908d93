// nanoflann (Blanco and Rai, 2014) behind three functions, so that its header is compiled in one file only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace kith::benchmark_trees {

/// A tree of nanoflann's over rows that stay the caller's, float32, squared Euclidean distances.
class NanoflannTree {
 public:
  virtual ~NanoflannTree() = default;
  /// The k nearest rows of one query, ascending.
  virtual void search(const float* query, std::int64_t k, std::uint32_t* indices, float* distances) const = 0;
};

/// Built by all `threads` where the header's version can (1.5.0 and later).
std::unique_ptr<NanoflannTree> build_nanoflann(const float* rows, std::int64_t count, std::int64_t dim,
                                               std::int64_t leaf_size, int threads);

std::string nanoflann_version();
bool nanoflann_builds_in_parallel();

}  // namespace kith::benchmark_trees

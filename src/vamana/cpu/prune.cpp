#include "vamana/cpu/prune.hpp"

#include <algorithm>

#include "vamana/grow.hpp"

namespace kith::vamana {
namespace {

// Neighbours a candidate is compared with at a time: most are covered by one of the first.
constexpr std::size_t compared_at_once = 8;

}  // namespace

Pruner::Pruner(const std::uint8_t* codes, std::int64_t code_bytes,
               decltype(codes::EstimateKernels::gathered) estimates, double alpha, std::int64_t max_degree)
    : codes_(codes),
      code_bytes_(code_bytes),
      alpha_(fixed_alpha(alpha)),
      max_degree_(static_cast<std::size_t>(max_degree)),
      estimates_(estimates),
      distances_(compared_at_once) {}

bool Pruner::covered(Key candidate) {
  const std::uint8_t* code = codes_ + std::int64_t{node_of(candidate)} * code_bytes_;
  const std::int64_t distance = std::int64_t{estimate_of(candidate)} << 16U;
  for (std::size_t from = 0; from < chosen_.size(); from += compared_at_once) {
    const std::size_t count = std::min(compared_at_once, chosen_.size() - from);
    estimates_(codes_, code_bytes_, code, chosen_.data() + from, static_cast<std::int64_t>(count),
               distances_.data());
    for (std::size_t i = 0; i < count; ++i) {
      if (alpha_ * distances_[i] <= distance) return true;
    }
  }
  return false;
}

std::span<const std::uint32_t> Pruner::prune(std::span<const Key> candidates) {
  chosen_.clear();
  for (const Key candidate : candidates) {
    if (chosen_.size() == max_degree_) break;
    if (!covered(candidate)) chosen_.push_back(node_of(candidate));
  }
  return chosen_;
}

std::span<const std::uint32_t> Pruner::prune(std::uint32_t node, std::span<const std::uint32_t> candidates) {
  if (distances_.size() < candidates.size()) distances_.resize(candidates.size());
  estimates_(codes_, code_bytes_, codes_ + std::int64_t{node} * code_bytes_, candidates.data(),
             static_cast<std::int64_t>(candidates.size()), distances_.data());
  keys_.clear();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i] != node) keys_.push_back(make_key(distances_[i], candidates[i]));
  }
  std::sort(keys_.begin(), keys_.end());
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  return prune(keys_);
}

}  // namespace kith::vamana

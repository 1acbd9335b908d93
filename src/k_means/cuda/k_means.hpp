// k-means on a device: the centroids of k_means(), bit for bit, for several sets of dimensions of the same
// rows.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "k_means/k_means.hpp"

namespace kith::clusters::cuda {

/// Centroids of part after part, [count, its dimensions] each, as k_means() finds them for the dimensions
/// [starts[j], starts[j + 1]) with the seed parameters.seed + j.
/// @param rows [n, dim], finite, on the host; dim = starts.back(), starts.front() = 0
/// @param parameters at most 256 centroids
/// @param check called now and then; what it throws stops the work
/// @throws OutOfMemory where the device, or `room` bytes of its memory, have no room for one part
std::vector<float> k_means_of_parts(const float* rows, std::int64_t n,
                                    const std::vector<std::int64_t>& starts,
                                    const KMeansParameters& parameters, int device, std::uint64_t room,
                                    const std::function<void()>& check);

}  // namespace kith::clusters::cuda

// Answers of a search from its device to where the caller wants them.
#pragma once

#include <cstdint>

#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/search_kernels.hpp"

namespace kith::point_tree {

/// Lists of `count` queries, from the device of `stream`, to those from `first` on of `out`; complete on
/// return.
/// @throws DeviceError
template <class T>
void copy_answers(const NeighborsView& out, std::int64_t first, std::int64_t count,
                  const std::int64_t* indices, const T* distances, cudaStream_t stream,
                  const Execution& execution);

/// Lists of the points in places [first, first + count) to those of the caller's rows in host memory;
/// complete on return. @throws DeviceError, also for memory of a device
template <class T>
void scatter_answers(const Tree& tree, const DeviceTree& there, std::int64_t first, std::int64_t count,
                     const cuda::Answer<T>& answer, const NeighborsView& out, cudaStream_t stream,
                     const Execution& execution);

/// For an answer that would have to be scattered into the memory of another device. @throws DeviceError
[[noreturn]] void refuse_far_answer(const NeighborsView& out, int device);

}  // namespace kith::point_tree

// Answers of the library as NumPy arrays, and back.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "kith/point_tree.hpp"

namespace kith::python {

/// A NumPy array over the vector's own memory: the vector moves behind a capsule that the array holds.
template <class T>
nanobind::object own(std::vector<T>&& values, std::initializer_list<std::size_t> shape) {
  auto* held = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, T>(held->data(), shape, owner));
}

/// (distances [q, k], indices [q, k], statistics dict); the arrays own the library's memory, nothing is
/// copied.
nanobind::tuple to_python(Neighbors&& neighbors);

/// (offsets [q + 1], indices, distances, statistics dict), likewise.
nanobind::tuple to_python(RadiusNeighbors&& found);

nanobind::dict statistics_dict(const SearchStatistics& statistics);

using Indices =
    nanobind::ndarray<const std::int64_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using Distances =
    nanobind::ndarray<nanobind::ro, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

/// A copy of two arrays [q, k] as the library's answer. Needs no GIL.
/// @throws InvalidArgument when the shapes differ, TypeError when the distances are neither float32 nor
/// float64; Cancelled
Neighbors from_python(const Distances& distances, const Indices& indices, const Execution& execution);

void bind_answer(nanobind::module_& module);

}  // namespace kith::python

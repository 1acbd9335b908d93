// Answers of the library as NumPy arrays, and back.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "kith/neighbors.hpp"

namespace kith::python {

/// (distances [q, k], indices [q, k], statistics dict); the arrays own the library's memory, nothing is
/// copied.
nanobind::tuple to_python(Neighbors&& neighbors);

nanobind::dict statistics_dict(const SearchStatistics& statistics);

using Indices =
    nanobind::ndarray<const std::int64_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using Distances =
    nanobind::ndarray<nanobind::ro, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

/// A copy of two arrays [q, k] as the library's answer.
/// @throws InvalidArgument when the shapes differ, TypeError when the distances are neither float32 nor
/// float64
Neighbors from_python(const Distances& distances, const Indices& indices);

void bind_answer(nanobind::module_& module);

}  // namespace kith::python

/// @file
/// What is supported, as a list: it drives the conformance tests and the docs' tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kith/any_index.hpp"

namespace kith {

/// Every supported (index, dtype, metric, backend).
inline constexpr auto supported = Indexes::make_supported();

constexpr bool is_supported(std::string_view index, Dtype dtype, Metric metric, Device::Kind backend) {
  const IndexType* type = Indexes::find(index);
  return type != nullptr && type->takes(dtype) && type->takes(metric) && type->runs_on(backend);
}

/// Whether an index type takes rows of a dimension.
constexpr bool supports_dim(std::string_view index, std::int64_t dim) {
  const IndexType* type = Indexes::find(index);
  return type != nullptr && type->takes_dim(dim);
}

}  // namespace kith

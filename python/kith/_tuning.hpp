// What graphs have beyond a search: measurements for queries of the caller's, and further rows.
#pragma once

#include <nanobind/nanobind.h>

#include "kith/any_index.hpp"

namespace kith::python {

/// The graph that an index is. @throws nanobind::type_error for another type
const Vamana& vamana_of(const AnyIndex& index);

void bind_tuning(nanobind::module_& module, nanobind::class_<AnyIndex>& index);

}  // namespace kith::python

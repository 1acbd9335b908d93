// What trees offer beyond search: radius search, the self-join, normals, outliers, density.
#pragma once

#include <nanobind/nanobind.h>

#include "kith/any_index.hpp"

namespace kith::python {

/// Adds their methods to the class of all indexes; they refuse an index that is no tree.
void bind_trees(nanobind::class_<AnyIndex>& index);

}  // namespace kith::python

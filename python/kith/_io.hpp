// Files in, NumPy arrays out, and back.
#pragma once

#include <nanobind/nanobind.h>

#include "kith/dataset.hpp"

namespace kith::python {

/// An array [rows, dim] over the dataset's own memory, read-only where that is; bfloat16 as uint16.
nanobind::object to_numpy(Dataset dataset);

void bind_io(nanobind::module_& module);

}  // namespace kith::python
